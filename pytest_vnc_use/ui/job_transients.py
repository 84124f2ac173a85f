"""The transients of a CI job: what replays showed briefly, although their recording did
not. One that is accepted may show there again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pytest_vnc_use import clock
from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.files import read_regular
from pytest_vnc_use.interactive import user_name
from pytest_vnc_use.plain_text import count_of
from pytest_vnc_use.recordings.format import (
    Accepted,
    RecordedStep,
    Recording,
    Screen,
    held,
)
from pytest_vnc_use.recordings.images import Pixels, differing, frame_of, pixels_of
from pytest_vnc_use.recordings.question import Answer, Question, images_of
from pytest_vnc_use.recordings.reviewer import Reviewer
from pytest_vnc_use.recordings.store import load, save
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.runs.trace import Trace
from pytest_vnc_use.types import Region, Step


@dataclass(eq=False)
class JobTransient:
    """A transient in CI, in one test, or in several with a named recording.

    `path` is the recording, with the text that it had then. The transient came after
    the `step` of the `segment`. `frames` show it, the first one within `region`.
    """

    tests: list[str]
    problem: str
    path: Path
    text: bytes
    segment: int
    step: int
    frames: list[Pixels]
    region: Region
    name: str = ""
    """The name of the recording, if several tests share it."""
    diff: ClassVar[str] = ""
    note: ClassVar[str] = (
        "Accept: it may show after any step of this task from now on. Anything else"
        " that shows briefly is still listed."
    )

    @property
    def test(self) -> str:
        """The test, or the recording that several share, with their number."""
        if not self.name:
            return self.tests[0]
        return f"{self.name}, in {count_of(len(self.tests), 'test')}"

    def join(self, other: JobTransient) -> bool:
        """Take in another one if it came after the same step of the same recording, at
        the same place, such as a toast that moves; return whether it did.
        """
        here = (self.path, self.segment, self.step)
        is_same = here == (other.path, other.segment, other.step)
        if not is_same or not self.region.meets(other.region):
            return False
        self.frames += other.frames
        self.tests += [test for test in other.tests if test not in self.tests]
        return True

    def ask(self, reviewer: Reviewer, directory: RunDirectory) -> Answer:
        """Have the reviewer accept that it shows; return the answer. Raises
        RecordingError.
        """
        recording = load(self.path)
        assert recording
        boxes = (self.region,)
        frame = frame_of(self.frames[0])
        segment = recording.segments[self.segment]
        after = segment.screens[self.step + 1].pixels()
        images = images_of(directory, after, frame, boxes, ())
        question = Question(self.test, self.problem, boxes, images)
        answer = reviewer.ask(question, ())
        if answer.kind == "accept":
            save(self.path, self._accepted(recording))
        return answer

    def _accepted(self, recording: Recording) -> Recording:
        """Return the recording in which these frames may show after its step."""
        segments = list(recording.segments)
        segment = segments[self.segment]
        steps = list(segment.steps)
        step = steps[self.step]
        at = clock.utc_now().replace(microsecond=0)
        accepted = Accepted(by=user_name(), at=at, region=self.region)
        for frame in self.frames:
            if not _may_show(step, frame):
                transient = Screen(pixels=held(frame), history=(accepted,))
                transients = (*step.transients, transient)
                step = step.model_copy(update={"transients": transients})
        steps[self.step] = step
        segments[self.segment] = segment.model_copy(update={"steps": tuple(steps)})
        return recording.model_copy(update={"segments": tuple(segments)})


def transients_of(trace: Trace, path: Path) -> Iterator[JobTransient]:
    """Yield what one run showed briefly, with its place in the recording at a
    path. Raises RecordingError, and RunDirectoryError if the recording has no such step.
    """
    directory = RunDirectory.open(trace.path)
    text = read_regular(path)
    recording = load(path)
    assert recording
    started = trace.started
    if not trace.steps:
        return  # it came before the first step, and is after none
    last = trace.steps[-1]
    steps = {step.number: step for step in trace.steps}
    for transient in trace.transients:
        step = steps.get(transient.step, last)
        place = _place_of(step, started.task, recording)
        if place is None:
            raise RunDirectoryError(
                f"{started.test_id}: the recording is not the one that CI compared with"
            )
        segment, number = place
        seen = pixels_of(directory.load_png(transient.seen))
        if _may_show(recording.segments[segment].steps[number], seen):
            continue
        yield JobTransient(
            tests=[started.test_id],
            problem=transient.problem,
            path=path,
            text=text,
            segment=segment,
            step=number,
            frames=[seen],
            region=transient.region,
            name=started.recording,
        )


def _may_show(step: RecordedStep, seen: Pixels) -> bool:
    """Return whether a frame is among those that may show after a step."""
    return any(not differing(known.pixels(), seen).any() for known in step.transients)


def _place_of(step: Step, task: str, recording: Recording) -> tuple[int, int] | None:
    """Return the numbers of the segment and of its step that a replay performed; None
    if there is none.
    """
    index = step.number - 1
    kind = step.proposal.action.kind
    for number, segment in enumerate(recording.segments):
        if segment.task != task or index >= len(segment.steps):
            continue
        if segment.steps[index].action.kind == kind:
            return number, index
    return None
