"""The state of one run of a test: its replay, and its recording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from pytest_vnc_use.recordings.demonstrated import PERSON
from pytest_vnc_use.recordings.format import Evidence, Live, RecordedRun, RecordedStep, Screen
from pytest_vnc_use.recordings.gates import mask_of, other_than, unknown_parts
from pytest_vnc_use.recordings.patient_eyes import PatientEyes
from pytest_vnc_use.recordings.pictures import Pixels, pixels_in, pixels_of
from pytest_vnc_use.recordings.recorder import Recorder
from pytest_vnc_use.recordings.replay import Replay
from pytest_vnc_use.recordings.savings import Meter
from pytest_vnc_use.runs.folder import RunFolder
from pytest_vnc_use.types import FrameRef, RunEvent
from pytest_vnc_use.types.protocols import Controller
from pytest_vnc_use.types.verdicts import PERSON_SAID


@dataclass
class RunState:
    """The state of a run of the test: its replay, its recorder, and the receiver of its events."""

    task: str
    planner: str
    folder: RunFolder
    emit: Callable[[RunEvent], None]
    recorder: Recorder
    expected: tuple[str, ...] = ()
    """The claims that are judged at the run's end; none with `expect=None`."""
    known: RecordedRun | None = None
    replay: Replay | None = None
    eyes: PatientEyes | None = None
    is_watched: bool = False
    """True if the end was watched for the recorded time."""
    is_left: bool = False
    """True if something acted on the desktop after the run."""
    is_done: bool = False
    is_over: bool = False
    """True if the test's body ended after the run."""
    claims: list[Evidence] = field(default_factory=list)
    ended: RecordedRun | None = None
    meter: Meter = field(default_factory=Meter)

    @property
    def is_live(self) -> bool:
        """Return whether a planner decides: nothing is replayed, or the live planner has taken over."""
        return self.replay is None or self.replay.is_live

    @property
    def is_replayed(self) -> bool:
        """Return whether the whole run was replayed."""
        return self.is_done and not self.is_live

    @property
    def live(self) -> Live | None:
        """Return the figures of the recorded run: the known ones if it was replayed, else its own.

        A person's run and a healed run have none.
        """
        if self.known and not self.is_live:
            return self.known.live
        return None if self.replay or self.planner == PERSON else self.meter.live()

    @property
    def _kept(self) -> RecordedRun | None:
        """The known run if it was replayed with `expect=None`: what was judged of its end stays."""
        return self.known if not self.expected and not self.is_live else None

    @property
    def recorded_claims(self) -> tuple[Evidence, ...]:
        """Return the answers of judges to record."""
        kept = self._kept.claims if self._kept else ()
        return (*kept, *(each for each in self.claims if each not in kept))

    @property
    def vouched_by(self) -> Literal["judge", "user", "body"]:
        """Return who judged that the task was done at the run's end."""
        if self._kept:
            return self._kept.vouched_by
        held = {each.claim: each for each in self.claims if each.verdict == "holds"}
        if not self.expected or not held.keys() >= set(self.expected):
            return "body"
        return "user" if held[self.expected[0]].reason.startswith(PERSON_SAID) else "judge"

    def end(self) -> RecordedRun:
        """Return the recorded run: the known one if it was replayed completely, else one with the live steps.

        Raises DesktopError.
        """
        if self.known and not self.is_live:
            return self.known
        steps = (*(self.replay.carried_out if self.replay else ()), *self.recorder.steps)
        end = self.recorder.next_screen()
        following = [*(step.screen for step in steps[1:]), end]  # without steps, only the end
        kept = [with_known_transients(step, after) for step, after in zip(steps, following, strict=False)]
        passes = [bool(step.transients) for step in kept] + [False]
        for number, step in enumerate(kept):
            if not (passes[number] or passes[number + 1]):  # nothing passed then whose time matters
                kept[number] = step.model_copy(update={"took_s": 0.0})
        return RecordedRun(task=self.task, planner=self.planner, steps=tuple(kept), end=end)


def with_known_transients(step: RecordedStep, after: Screen) -> RecordedStep:
    """Return the step without transient frames that only show the way from its screen to the next one."""
    if not step.transients:
        return step
    known, left_out = [step.screen.pixels(), after.pixels()], mask_of((), after.pixels().shape)
    kept = [each for each in step.transients if unknown_parts(each.pixels(), known, left_out)]
    return step.model_copy(update={"transients": tuple(kept)})


def frame_pixels(folder: RunFolder, frame: FrameRef) -> Pixels:
    """Return the pixels of a frame in a run folder."""
    return pixels_of(folder.load_png(frame))


def mark_staying(run: RunState, desktop: Controller) -> None:
    """Write down whether the screen still shows the end of a run that was recorded just now."""
    if run.ended and not run.is_left:
        end = run.ended.end
        stays = other_than(end.pixels(), pixels_in(desktop.glance()), end.volatile) is None
        run.ended = run.ended.model_copy(update={"stays": stays})
