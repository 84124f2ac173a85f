"""Unrecorded transient frames of a replay: they are reported, or a rehearsal learns them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pytest_vnc_use.recordings.format import Screen
from pytest_vnc_use.recordings.rehearsal import Rehearsal
from pytest_vnc_use.recordings.run_state import RunState, frame_pixels
from pytest_vnc_use.types import FrameRef, Region, Step, Transient
from pytest_vnc_use.types.protocols import Controller


class TransientWatch:
    """A reporter of transient frames: each unknown region of a test's replays once. `messages` are the reports."""

    def __init__(self, rehearsal: Rehearsal | None) -> None:
        self._rehearsal = rehearsal
        self._reported: list[Region] = []
        self.messages: list[str] = []

    def look_after(self, run: RunState, step: Step) -> None:
        """Report the transient frames of a replayed step."""
        when = f"after step {step.number} of {len(run.known.steps) if run.known else 0}"
        for ref in step.passed:
            self._look_at(run, when, ref)

    def look_at_end(self, run: RunState, desktop: Controller) -> None:
        """Report the transient frames after the last step of a replay."""
        for frame in desktop.transient_frames():
            self._look_at(run, "after the last step", run.folder.store(frame))

    def _look_at(self, run: RunState, when: str, ref: FrameRef) -> None:
        if run.replay and run.replay.gate:
            self._report(run, when, ref, run.replay.unknown_parts(frame_pixels(run.folder, ref)))

    def _report(self, run: RunState, when: str, ref: FrameRef, parts: Sequence[Region]) -> None:
        for part in parts:
            if part in self._reported:
                continue
            self._reported.append(part)
            if self._rehearsal and run.replay and run.replay.newest_step:
                transient = Screen(pixels=partial(frame_pixels, run.folder, ref))
                self._rehearsal.note_transient(run.replay.newest_step, transient)
                continue
            where = f"from ({part.left}, {part.top}) to ({part.right}, {part.bottom})"
            problem = f"{when} the screen showed an unrecorded transient frame, {where}"
            run.emit(Transient(problem, ref, part))
            self.messages.append(problem)
