"""Carries out a recorded run again: a planner that reads its decisions there, and eyes that wait for its screens.

Before each step, and at the end, the screen must be as recorded (a gate, see `match`). It is waited for, as long as the
program needs; so there is no other wait. At the first gate that stays closed the live planner takes over, if there is
one; else the run ends with RecordingDrifted, and nothing more is carried out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import PlannerError, RecordingDrifted
from pytest_vnc_use.ports import ClickRules, Controller, Planner
from pytest_vnc_use.recordings.format import RecordedRun, RecordedStep
from pytest_vnc_use.recordings.match import Gate, Mismatch, gate, surroundings
from pytest_vnc_use.recordings.pictures import Pixels, pixels_in, pixels_of
from pytest_vnc_use.safety import Point, points
from pytest_vnc_use.transcript import step_line
from pytest_vnc_use.types import (
    Click,
    Decision,
    DesktopAction,
    Drag,
    Frame,
    FrameRef,
    MouseDown,
    MouseUp,
    Observation,
    Region,
    Settled,
    TypeText,
    Wait,
)

_LOOK_AGAIN_S = 0.25
"""So often the screen is compared at least: what moves by itself, such as a caret, is no change that is waited for."""
_LOOK_FOR_CARET_S = 0.02
"""The same where a caret is waited for, whose change is not told where it had been known to blink nearby."""
_NEAR_PX = 20
"""5 pixels of a program's own are near, which are 10 of the screen where it draws everything twice as large."""
_APART_S, _ELSEWHERE_S = 0.5, 0.26
"""So long after a button was let go it is pressed again, near there or elsewhere: whoever was recorded was slower.

Qt, GTK and browsers take for a double click what comes within 0.4 to 0.5 s and a few pixels; xterm what comes within
0.25 s, wherever it is. Only time parts clicks in all of them: a key between two does in none, a click elsewhere not in
GTK 4 and xterm, the pointer moved away and back in Qt only (measured with Qt 6, GTK 3 and 4, Chromium and xterm). Where
all programs are Qt's, a click elsewhere need not wait (`ClickRules`). Near by, Qt needs 0.35 s: the rest is for a
program that hears of the first click late, as on a busy machine.
"""
WHAT_TO_DO = (
    "If the product is meant to look so now, record the test anew (--vnc-record=rewrite), or let a model go on from "
    "here (--vnc-record=auto), both with a planner; if not, it has a fault"
)


@dataclass(frozen=True)
class Closed:
    """A gate that stayed closed: the problem in words, what was seen, and where it is other."""

    problem: str
    gate: Gate
    seen: FrameRef
    region: Region


class Replay:
    """The port Planner for one run of a recording; it keeps count of where it is.

    `before` is the run that the test made before this one. `masks` are left out of all comparisons, those that stand in
    `file`. `closed` is told of the gate that stayed closed.
    """

    def __init__(
        self,
        run: RecordedRun,
        live: Planner | None,
        *,
        before: RecordedRun | None = None,
        masks: tuple[Region, ...] = (),
        file: str = "",
        closed: Callable[[Closed], None],
    ) -> None:
        self._run = run
        self._live = live
        self._before = before.steps[-1].screen if before and before.steps else None
        self._masks = masks
        self._file = file
        self._tell = closed
        self._next = 0
        self._made: Gate | None = None
        self._passed: FrameRef | None = None
        self._shown: Pixels | None = None
        self._acted_on: Pixels | None = None
        self.taken_over_at: int | None = None
        """After so many turns the live planner took over; None while it did not."""
        self.carried_out: tuple[RecordedStep, ...] = ()
        """The steps before that, but one that failed."""

    @property
    def name(self) -> str:
        return f"recording, or where that drifts {self._live.name}" if self._live else "recording"

    @property
    def gate(self) -> Gate | None:
        """What the screen must show next; None once the live planner has taken over."""
        return self._gate if self.taken_over_at is None else None

    @property
    def at_end(self) -> bool:
        return self._next == len(self._run.steps)

    def mismatch(
        self, frame: FrameRef, shown: Callable[[], Pixels], moving: tuple[Region, ...] = ()
    ) -> Mismatch | None:
        """What of a frame is not as the gate says; None, and known from then on, where it is open."""
        if frame == self._passed:
            return None
        seen = shown()
        found = self._gate.mismatch(seen, moving, self._acted_on)
        self._passed, self._shown = (None, None) if found else (frame, seen)
        return found

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """The next recorded step where its gate is open; else what the live planner says. Raises RecordingDrifted."""
        if self.taken_over_at is None and (problem := self._problem(observation)):
            self._close(problem, observation)
        if self._live is not None and self.taken_over_at is not None:
            return self._live.decide(_from_here(observation, self.taken_over_at), timeout_s=timeout_s)
        if self.at_end:
            return Decision("finished", "all recorded steps were carried out, and the screen is as at their end")
        step = self._run.steps[self._next]
        self._next += 1
        self._made, self._passed = None, None
        self._acted_on, self._shown = self._shown, None
        return Decision("act", step.intent, (step.proposal,))

    @property
    def _gate(self) -> Gate:
        """Made when it is first asked for: while the program reacts, and not before it is acted upon."""
        if self._made is None:
            self._made = self._gate_to(self._next)
        return self._made

    def _gate_to(self, number: int) -> Gate:
        steps = self._run.steps
        screen_before = steps[number - 1].screen if number else self._before
        before = screen_before.pixels() if screen_before else None
        moved = screen_before.volatile if screen_before else ()
        screen = steps[number].screen if number < len(steps) else self._run.end
        expected = screen.pixels()
        size = expected.shape[1], expected.shape[0]
        targets = surroundings(steps[number].action, size) if number < len(steps) else ()
        left_out = (*self._masks, *screen.volatile)
        return gate(before, expected, left_out, targets, left_out_before=(*self._masks, *moved))

    def _problem(self, observation: Observation) -> Mismatch | None:
        if error := _error_of_last(observation):
            return Mismatch(f"the step before failed: {error}", Region(0, 0, *_size(self._gate)))
        return self.mismatch(observation.frame, lambda: pixels_of(observation.load_png(observation.frame)))

    def _close(self, problem: Mismatch, observation: Observation) -> None:
        total = len(self._run.steps)
        where = f"at the end, after {total} steps" if self.at_end else f"before step {self._next + 1} of {total}"
        told = f"the screen is not as recorded {where}: {problem.problem}"
        failed = 1 if _error_of_last(observation) else 0
        self._tell(Closed(told, self._gate, observation.frame, problem.region))
        if self._live is None:
            moves = f". Where that part changes by itself, leave it out: {problem.mask} in {self._file!r}"
            raise RecordingDrifted(f"{told}. {WHAT_TO_DO}{'' if failed else moves}")
        self.taken_over_at = self._next
        self.carried_out = self._run.steps[: self._next - failed]


def _error_of_last(observation: Observation) -> str:
    last = observation.turns[-1].steps[-1:] if observation.turns else ()
    return next((step.error for step in last), "")


def _size(gate: Gate) -> tuple[int, int]:
    return gate.expected.shape[1], gate.expected.shape[0]


def _from_here(observation: Observation, replayed: int) -> Observation:
    """What the live planner sees: its own turns; what was done before them it is told in words."""
    before, own = observation.turns[:replayed], observation.turns[replayed:]
    done = [step_line(step) for turn in before for step in turn.steps]
    first = own[0].steps[0].frame_before if own and own[0].steps else observation.frame
    return replace(observation, task=_with_done(observation.task, done), first_frame=first, turns=own)


def _with_done(task: str, done: list[str]) -> str:
    if not done:
        return task
    steps = "\n".join(done)
    return f"{task}\n\nThese steps of it have been carried out already; go on from what the screen shows:\n{steps}"


class NoPlanner:
    """Stands for the planner where none is configured, and none is needed, as a recording is replayed."""

    name = "nobody"

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        raise PlannerError(f"no planner is configured for {observation.task!r}: pass --vnc-planner=gemini")


class PatientEyes:
    """The port Controller for a replay: its hands are the desktop's, its eyes wait for what the recording shows."""

    def __init__(self, desktop: Controller, replay: Replay, limit_s: float) -> None:
        self._desktop = desktop
        self._replay = replay
        self._limit_s = limit_s
        self._awaited: Gate | None = None
        self._seen: Frame | None = None
        self._let_go: tuple[Point, float] | None = None

    def frame(self) -> Frame:
        """The screen once it is as recorded, or has not become so; of each gate it is waited for once."""
        if self._replay.gate is not self._awaited and self._replay.gate is not None:
            self._await(self._replay.gate)
        seen, self._seen = self._seen, None
        return seen or self._desktop.frame()

    def settle(self, *, briefly: bool = False) -> Settled:
        """Wait for the next gate; where it says nothing of what the action did, and at the end, also for quiet."""
        gate, started_s = self._replay.gate, time.monotonic()
        if gate is None:
            return self._desktop.settle(briefly=briefly)
        if self._await(gate) and (self._replay.at_end or not gate.tells):
            self._desktop.settle()
            self._await(gate)
        return Settled("settled", time.monotonic() - started_s)

    def _await(self, gate: Gate) -> bool:
        """Whether it is open."""
        deadline, self._awaited = Deadline(self._limit_s), gate
        again_s = _LOOK_FOR_CARET_S if gate.caret else _LOOK_AGAIN_S
        seen = self._desktop.frame()
        while is_closed := self._replay.mismatch(seen.ref, lambda: pixels_in(seen), seen.moving):  # noqa: B023  # at once
            if not deadline.remaining_s:
                break
            self._desktop.wait_changed(seen.taken_s, min(again_s, deadline.remaining_s))
            seen = self._desktop.frame()
        self._seen = seen
        return not is_closed

    def perform(self, action: DesktopAction) -> None:
        self._seen = None
        where = points(action) if isinstance(action, (Click, Drag, MouseDown, MouseUp, TypeText)) else ()
        if where and self._let_go and not isinstance(action, MouseUp):
            self._keep_apart(where[0], *self._let_go)
        self._desktop.perform(action)
        if where:
            self._let_go = where[-1], time.monotonic()

    def _keep_apart(self, point: Point, before: Point, let_go_s: float) -> None:
        """Wait until two clicks are no double click."""
        near = max(abs(point[0] - before[0]), abs(point[1] - before[1])) <= _NEAR_PX
        if not near and isinstance(self._desktop, ClickRules) and self._desktop.doubles_only_near:
            return
        due_s = let_go_s + (_APART_S if near else _ELSEWHERE_S) - time.monotonic()
        if due_s > 0:
            self._desktop.perform(Wait(due_s))

    def close(self) -> None:
        self._desktop.close()

    def changed_since(self, moment_s: float) -> bool:
        return self._desktop.changed_since(moment_s)

    def wait_changed(self, moment_s: float, timeout_s: float) -> bool:
        return self._desktop.wait_changed(moment_s, timeout_s)

    def passed_frames(self) -> tuple[Frame, ...]:
        return self._desktop.passed_frames()
