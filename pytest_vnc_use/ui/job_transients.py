"""The transients of a CI job: what replays showed briefly, although their recording did
not. One that is accepted may show there again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.files import read_regular
from pytest_vnc_use.plain_text import count_of
from pytest_vnc_use.recordings.accept import Review
from pytest_vnc_use.recordings.format import RecordedStep, Recording
from pytest_vnc_use.recordings.images import Pixels, differing, pixels_of
from pytest_vnc_use.recordings.painting import shows_text_of
from pytest_vnc_use.recordings.question import Answer
from pytest_vnc_use.recordings.reviewer import ReviewedTest, Reviewer
from pytest_vnc_use.recordings.store import load, save
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.runs.trace import Trace
from pytest_vnc_use.types import Region, RunStarted, Step


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
        segment = recording.segments[self.segment]
        step = segment.steps[self.step].id
        after = segment.screens[self.step + 1]
        test = ReviewedTest(reviewer, self.test, directory=directory)
        review = Review(test, recording)
        first, *others = self.frames
        answer = review.ask_transient(step, after, first, self.region, self.problem)
        if answer.kind == "accept":
            for frame in others:
                if not shows_text_of(first, self.region, frame):
                    review.accept_transient(step, frame, self.region)
            save(self.path, review.accepted(recording))
        return answer


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
            tests=[replayed_test(started, recording)],
            problem=transient.problem,
            path=path,
            text=text,
            segment=segment,
            step=number,
            frames=[seen],
            region=transient.region,
            name=started.recording,
        )


def replayed_test(started: RunStarted, recording: Recording) -> str:
    """Return the test of a run as a round replays it: without its number of
    `--vnc-repeat`.
    """
    test = started.test_id
    number = re.search(r"[-[]run\d+\]$", test)
    if number is None or recording.test.endswith(number[0]):
        return test
    authored = test[: number.start()]
    return f"{authored}]" if number[0].startswith("-") else authored


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
