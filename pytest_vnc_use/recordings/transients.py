"""The transients of a test's replays that no recording has: each is listed once, and a
reviewer may accept it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from pytest_vnc_use.errors import ProductFailed
from pytest_vnc_use.recordings.format import Screen
from pytest_vnc_use.recordings.images import Pixels
from pytest_vnc_use.recordings.masks import mask_command
from pytest_vnc_use.recordings.painting import shows_text_of
from pytest_vnc_use.recordings.segment_run import SegmentRun
from pytest_vnc_use.types import FrameRef, Region, StepFinished, Transient
from pytest_vnc_use.types.protocols import Controller


@dataclass(eq=False)
class UnknownTransient:
    """A transient that no recording has, which `frame` shows in `region`. It came before
    the recorded screen `after`, and after the step with the id `step`; "" for none.
    """

    run: SegmentRun
    problem: str
    frame: FrameRef
    region: Region
    step: str
    after: Screen
    masks: dict[tuple[str, str], list[Region]] = field(default_factory=dict)
    """The masks that would hide it, by test and gate: at each gate after a step where
    it shows.
    """

    def is_in(self, seen: Pixels, region: Region, step: str) -> bool:
        """Return whether the region of a frame after a step shows it again: with the same
        text, or in the same place after the same step.
        """
        if self.step == step and region.meets(self.region):
            return True
        return shows_text_of(self.run.load(self.frame), region, seen)


class UnknownTransients:
    """The transients of a test's replays that no recording has. A rehearsal learns them
    in place of a report.
    """

    def __init__(self) -> None:
        self._listed: list[UnknownTransient] = []

    @property
    def messages(self) -> list[str]:
        """What a user reads about each."""
        return [transient.problem for transient in self._listed]

    def lines(self) -> list[str]:
        """Return the messages, each with the file of the frame."""
        lines = []
        for transient in self._listed:
            screens = transient.run.directory.path / "screens"
            frame = screens / f"{transient.frame.digest}.png"
            lines += [transient.problem, f"  {frame}"]
        return lines

    @property
    def regions(self) -> list[Region]:
        """Where each showed first."""
        return [transient.region for transient in self._listed]

    def commands(self) -> list[str]:
        """Return the commands that mask them, each at one gate."""
        masks: dict[tuple[str, str], list[Region]] = {}
        for transient in self._listed:
            for place, regions in transient.masks.items():
                masks.setdefault(place, []).extend(regions)
        return [
            mask_command(test, regions, gate) for (test, gate), regions in masks.items()
        ]

    def note_step(self, run: SegmentRun, test: str, event: StepFinished) -> None:
        """Report what came by after a replayed step."""
        self._note(run, test, event.step.transient_frames, event.step.number)

    def note_end(self, run: SegmentRun, test: str, desktop: Controller) -> None:
        """Report what came by after the last step of a replay."""
        if run.is_replayed:
            passed = map(run.directory.store, desktop.transient_frames())
            self._note(run, test, passed)

    def _note(
        self, run: SegmentRun, test: str, passed: Iterable[FrameRef], number: int = 0
    ) -> None:
        """Report what frames of a run show that is not recorded. The step with this
        `number` came before; 0 for none.
        """
        if run.replay is None:
            return
        course = run.replay.course
        if course.position.opening is None:
            return  # what shows before a closed gate is part of its drift
        newest = course.newest_step
        step = newest.id if newest else ""
        rehearsal = course.allowances.rehearsal
        for frame in passed:
            seen = run.load(frame)
            regions = course.unknown_parts(seen)
            if rehearsal and regions and newest:
                transient = Screen(pixels=partial(run.load, frame))
                rehearsal.note_transient(newest, transient)
                continue
            for region in regions:
                listed = self._listed_in(seen, region, step)
                if listed is None:
                    problem = (
                        f"{course.newest_location}, the screen showed a"
                        f" transient that is not recorded, {region}"
                    )
                    listed = UnknownTransient(
                        run, problem, frame, region, step, course.screen
                    )
                    self._listed.append(listed)
                    run.emit(Transient(problem, frame, region, number))
                masks = listed.masks.setdefault((test, course.screen.gate), [])
                if not region.is_part_of_any(masks):
                    masks.append(region)

    def _listed_in(
        self, seen: Pixels, region: Region, step: str
    ) -> UnknownTransient | None:
        """Return the transient that a frame shows again; None if it is a new one."""
        for transient in self._listed:
            if transient.is_in(seen, region, step):
                return transient
        return None

    def review(self) -> list[str]:
        """Have the reviewer accept them, and list only those that are not accepted.
        Return why no user could be asked, each reason once. Raises ProductFailed if one
        is a bug.
        """
        left = []
        reasons: dict[str, None] = {}
        for transient in self._listed:
            assert transient.run.replay
            review = transient.run.replay.course.allowances.review
            if review is None or not transient.step:
                left.append(transient)
                continue
            answer = review.ask_transient(
                transient.step,
                transient.after,
                transient.run.load(transient.frame),
                transient.region,
                transient.problem,
            )
            if answer.kind == "bug":
                bug = answer.text or "it is a bug"
                raise ProductFailed(
                    f"{bug} (according to the reviewer)\n{transient.problem}"
                )
            if answer.kind != "accept":
                left.append(transient)
            if answer.is_unasked:
                reasons[answer.text] = None
        self._listed = left
        return [*reasons]
