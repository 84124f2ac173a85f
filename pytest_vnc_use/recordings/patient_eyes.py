"""Eyes that wait for what a recording shows, and go on watching at its end; the hands are the desktop's."""

from __future__ import annotations

import time

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.recordings.gates import Gate, Mismatch
from pytest_vnc_use.recordings.pictures import pixels_in
from pytest_vnc_use.recordings.replay import Replay
from pytest_vnc_use.safety.rules import Point, points
from pytest_vnc_use.types import Click, DesktopAction, Drag, Frame, Glance, MouseDown, MouseUp, Settled, TypeText, Wait
from pytest_vnc_use.types.protocols import ClickRules, Controller

_LOOK_AGAIN_S = 0.25
"""So often the screen is compared at least: what moves by itself, such as a caret, is no change that is waited for."""
_LOOK_FOR_CARET_S = 0.02
"""The same where a caret is waited for, whose change is not told where it had been known to blink nearby."""
_LOOK_FOR_BLINK_S = 0.1
"""The same where each look of what blinks is waited for."""
_BACK_S = 2.0
"""At the end what differs is given so long to go away: what stays longer was not seen when it was recorded."""
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


LetGo = tuple[Point | None, float]
"""Where a button was let go last, None where that is not known, and when."""


class PatientEyes:
    """The port Controller for a replay. `let_go` tells of the last click before it; the first one is kept apart too."""

    def __init__(self, desktop: Controller, replay: Replay, limit_s: float, let_go: LetGo | None = None) -> None:
        self._desktop = desktop
        self._replay = replay
        self._limit_s = limit_s
        self._awaited: Gate | None = None
        self._seen: Frame | None = None
        self._opened_s = 0.0
        self.let_go = let_go

    # --- eyes --------------------------------------------------------------------------------------------------------

    def frame(self) -> Frame:
        """Return the screen once it is as recorded, or has not become so; each gate is waited for once."""
        gate = self._replay.gate
        if gate is not None and gate is not self._awaited:
            self._reach(gate)
        seen, self._seen = self._seen, None
        return seen or self._desktop.frame()

    def settle(self, *, briefly: bool = False) -> Settled:
        """Wait for the next gate; where it says nothing of what the action did, also for quiet.

        That wait is a short one: the same gate is waited for after it, and what shows later is seen by the next.
        """
        gate, started_s = self._replay.gate, time.monotonic()
        if gate is None:
            return self._desktop.settle(briefly=briefly)
        if self._reach(gate) and not gate.tells and not self._replay.at_end:
            self._desktop.settle(briefly=True)
            self._await(gate, self._limit_s)
        return Settled("settled", time.monotonic() - started_s)

    def _reach(self, gate: Gate) -> bool:
        """Wait until a gate is open, at the end also until it has stayed so; return whether it is."""
        is_open = self._await(gate, self._limit_s)
        if is_open and self._replay.at_end and not self._replay.is_watched_later:
            return self.watch_end() is None
        return is_open

    def _await(self, gate: Gate, limit_s: float) -> bool:
        """Wait until a gate is open; return whether it is."""
        deadline, self._awaited = Deadline(limit_s), gate
        again_s = _LOOK_FOR_CARET_S if gate.caret else _LOOK_FOR_BLINK_S if gate.blinking else _LOOK_AGAIN_S
        while True:
            seen = self._desktop.glance()
            if not self._replay.look(pixels_in(seen)) or not deadline.remaining_s:
                self._seen = self._desktop.frame()
                if not self._mismatch(self._seen):
                    self._opened_s = self._seen.taken_s
                    return True
            if not deadline.remaining_s:
                return self._is_accepted()
            self._desktop.wait_changed(seen.taken_s, min(again_s, deadline.remaining_s))

    def _is_accepted(self) -> bool:
        """Return whether a rehearsal takes the screen as it is now that time is up."""
        frame = self._seen or self._desktop.frame()
        if not self._replay.accept(frame.ref, lambda: pixels_in(frame)):
            return False
        self._seen, self._awaited, self._opened_s = frame, self._replay.gate, frame.taken_s
        return True

    def _mismatch(self, frame: Frame) -> Mismatch | None:
        return self._replay.mismatch(frame.ref, lambda: pixels_in(frame))

    def watch_end(self) -> Mismatch | None:
        """Watch until the end has stayed for as long as its recording saw it stay; return what differs then.

        What differs for a moment is waited away, and the time begins anew; a caret that blinks leaves the end open.
        Raises DesktopError.
        """
        gate, quiet_s = self._replay.gate, self._replay.quiet_s
        if gate is None:
            return None
        deadline = Deadline(quiet_s + self._limit_s)
        open_since_s = seen_s = self._opened_s
        while deadline.remaining_s and self._desktop.wait_changed(
            seen_s, max(0.0, open_since_s + quiet_s - time.monotonic())
        ):
            seen = self._desktop.glance()
            seen_s = seen.taken_s
            if self._replay.look(pixels_in(seen)):
                if not self._await(gate, _BACK_S):
                    break
                open_since_s = seen_s = self._opened_s
        return self.look_at_end()

    def look_at_end(self) -> Mismatch | None:
        """Return what differs from the recorded end now, if it does not go away at once. Raises DesktopError."""
        gate = self._replay.gate
        if gate is None:
            return None
        self._replay.look_anew()
        self._await(gate, _BACK_S)
        return self._mismatch(self._seen) if self._seen else None

    @property
    def last_frame(self) -> Frame:
        """Return the frame that was looked at last."""
        return self._seen or self._desktop.frame()

    def glance(self) -> Glance:
        return self._desktop.glance()

    def changed_since(self, moment_s: float) -> bool:
        return self._desktop.changed_since(moment_s)

    def wait_changed(self, moment_s: float, timeout_s: float) -> bool:
        return self._desktop.wait_changed(moment_s, timeout_s)

    def transient_frames(self) -> tuple[Frame, ...]:
        return self._desktop.transient_frames()

    # --- hands -------------------------------------------------------------------------------------------------------

    def perform(self, action: DesktopAction) -> None:
        self._seen = None
        where = points(action) if isinstance(action, (Click, Drag, MouseDown, MouseUp, TypeText)) else ()
        if where and self.let_go and not isinstance(action, MouseUp):
            self._keep_apart(where[0], *self.let_go)
        self._desktop.perform(action)
        if where:
            self.let_go = where[-1], time.monotonic()

    def _keep_apart(self, point: Point, before: Point | None, let_go_s: float) -> None:
        """Wait until two clicks are no double click."""
        near = before is None or max(abs(point[0] - before[0]), abs(point[1] - before[1])) <= _NEAR_PX
        if not near and isinstance(self._desktop, ClickRules) and self._desktop.doubles_only_near:
            return
        due_s = let_go_s + (_APART_S if near else _ELSEWHERE_S) - time.monotonic()
        if due_s > 0:
            self._desktop.perform(Wait(due_s))

    def close(self) -> None:
        self._desktop.close()
