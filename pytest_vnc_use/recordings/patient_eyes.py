"""The port Controller for a replay: it waits for the recorded screens, and watches the end. The desktop acts."""

from __future__ import annotations

from collections.abc import Callable

from pytest_vnc_use import clock
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.recordings.gates import Gate, Mismatch
from pytest_vnc_use.recordings.pictures import pixels_in
from pytest_vnc_use.recordings.replay import Replay
from pytest_vnc_use.types import Action, Click, DesktopAction, Drag, Frame, MouseDown, MouseUp, Settled, TypeText, Wait
from pytest_vnc_use.types.action_points import Point, points
from pytest_vnc_use.types.elements import Elements
from pytest_vnc_use.types.forwarding import ForwardingController
from pytest_vnc_use.types.protocols import ClickRules, Controller

_LOOK_AGAIN_S = 0.25
"""The longest time between two comparisons of the screen, because a moving part such as a caret does not end a wait for
a change."""
_LOOK_FOR_CARET_S = 0.02
"""The same where a gate waits for a caret. Its change ends no wait where a caret was known to blink nearby."""
_LOOK_FOR_BLINK_S = 0.1
"""The same where a gate waits for each look of a blinking part."""
_BACK_S = 2.0
"""How long a difference at the end may last. In a recorded end no difference lasts longer."""
_LONG_S = 2.0
"""The time after which observers learn that the run waits for a gate."""
_NEAR_PX = 20
"""The distance within which two clicks are near each other. For programs that is 5 of their own pixels: 10 on a screen
on which they draw everything twice as large."""
_APART_S, _ELSEWHERE_S = 0.5, 0.26
"""The least time between letting a button go and pressing it again, near the same place and elsewhere.

Whoever was recorded was slower. Qt, GTK and browsers take two clicks for a double click if they come within 0.4 to
0.5 s and a few pixels; xterm if they come within 0.25 s, at any place. Only time separates clicks in all of them: a key
between two clicks does so in none, a click elsewhere does not in GTK 4 and xterm, moving the pointer away and back does
in Qt only (measured with Qt 6, GTK 3 and 4, Chromium and xterm). Where all programs use Qt, a click elsewhere need not
wait (`ClickRules`). Near the same place Qt needs 0.35 s: the rest is for a program that receives the first click late,
as on a busy machine.
"""


ButtonRelease = tuple[Point | None, float]
"""The place where a button was let go last, None where it is not known, and the moment on the monotonic clock."""


class PatientEyes(ForwardingController):
    """The port Controller for a replay.

    `let_go` describes the last click before the replay, so that the replay's first click does not join it as a double
    click. `tell` receives the time that a long wait may still take.
    """

    def __init__(
        self,
        desktop: Controller,
        replay: Replay,
        limit_s: float,
        let_go: ButtonRelease | None = None,
        tell: Callable[[float], None] = lambda _: None,
    ) -> None:
        super().__init__(desktop)
        self._replay = replay
        self._limit_s = limit_s
        self._awaited: Gate | None = None
        self._seen: Frame | None = None
        self._opened_at = 0.0
        self.let_go = let_go
        self._tell = tell

    # --- for readers -------------------------------------------------------------------------------------------------

    def elements_of(self, action: Action) -> Elements | None:
        """Return the elements that the recorded step acted on; None once the live planner has taken over."""
        step = None if self._replay.is_live else self._replay.newest_step
        return step.elements if step else None

    # --- eyes --------------------------------------------------------------------------------------------------------

    def frame(self) -> Frame:
        """Return the screen once the gate is open, or once its time is up. Each gate is waited for once."""
        gate = self._replay.gate
        if gate is not None and gate is not self._awaited:
            self._reach(gate)
        seen, self._seen = self._seen, None
        return seen or self.desktop.frame()

    def settle(self, *, briefly: bool = False) -> Settled:
        """Wait for the next gate. Where that gate cannot show the action's effect, wait for quiet too.

        The wait for quiet is brief: then the same gate is waited for again, and the next wait sees any later change.
        """
        gate, started_s = self._replay.gate, clock.monotonic()
        if gate is None:
            return self.desktop.settle(briefly=briefly)
        if self._reach(gate) and not gate.tells and not self._replay.at_end:
            self.desktop.settle(briefly=True)
            self._await(gate, self._limit_s)
        return Settled("settled", clock.monotonic() - started_s)

    def _reach(self, gate: Gate) -> bool:
        """Wait until a gate is open, at the end also until it has stayed open; return whether it is."""
        is_open = self._await(gate, self._limit_s)
        if is_open and self._replay.at_end and not self._replay.is_watched_later:
            return self.watch_end() is None
        return is_open

    def _await(self, gate: Gate, limit_s: float) -> bool:
        """Wait until a gate is open; return whether it is."""
        deadline, self._awaited, is_reported = Deadline(limit_s), gate, False
        again_s = _LOOK_FOR_CARET_S if gate.caret else _LOOK_FOR_BLINK_S if gate.blinking else _LOOK_AGAIN_S
        while True:
            seen = self.desktop.glance()
            if not self._replay.look(pixels_in(seen)) or not deadline.remaining_s:
                self._seen = self.desktop.frame()
                if not self._mismatch(self._seen):
                    self._opened_at = self._seen.taken_at
                    return True
            if not deadline.remaining_s:
                return self._is_accepted()
            if deadline.spent_s > _LONG_S and not is_reported:
                is_reported = True
                self._tell(deadline.remaining_s)
            self.desktop.wait_changed(seen.taken_at, min(again_s, deadline.remaining_s))

    def _is_accepted(self) -> bool:
        """Return whether a rehearsal accepts the screen after the time limit."""
        frame = self._seen or self.desktop.frame()
        if not self._replay.accept(frame.ref, lambda: pixels_in(frame)):
            return False
        self._seen, self._awaited, self._opened_at = frame, self._replay.gate, frame.taken_at
        return True

    def _mismatch(self, frame: Frame) -> Mismatch | None:
        return self._replay.mismatch(frame.ref, lambda: pixels_in(frame))

    def watch_end(self) -> Mismatch | None:
        """Watch until the end has stayed unchanged for the recorded time; return what differs then.

        After a brief difference the time starts again. A blinking caret does not close the end's gate. Raises
        DesktopError.
        """
        gate, quiet_s = self._replay.gate, self._replay.quiet_s
        if gate is None:
            return None
        deadline = Deadline(quiet_s + self._limit_s)
        open_since = seen_at = self._opened_at
        if quiet_s > _LONG_S:
            self._tell(quiet_s)
        while deadline.remaining_s and self.desktop.wait_changed(
            seen_at, max(0.0, open_since + quiet_s - clock.monotonic())
        ):
            seen = self.desktop.glance()
            seen_at = seen.taken_at
            if self._replay.look(pixels_in(seen)):
                if not self._await(gate, _BACK_S):
                    break
                open_since = seen_at = self._opened_at
        return self.look_at_end()

    def look_at_end(self) -> Mismatch | None:
        """Return what differs from the recorded end now, if it does not go away within `_BACK_S`.

        Raises DesktopError.
        """
        gate = self._replay.gate
        if gate is None:
            return None
        self._replay.look_anew()
        self._await(gate, _BACK_S)
        return self._mismatch(self._seen) if self._seen else None

    @property
    def last_frame(self) -> Frame:
        """Return the newest frame that was compared; without one, a new frame."""
        return self._seen or self.desktop.frame()

    # --- hands -------------------------------------------------------------------------------------------------------

    def perform(self, action: DesktopAction) -> None:
        """Carry out an action on the desktop.

        A click waits first, so that it does not join the last one as a double click.
        """
        self._seen = None
        where = points(action) if isinstance(action, (Click, Drag, MouseDown, MouseUp, TypeText)) else ()
        if where and self.let_go and not isinstance(action, MouseUp):
            self._keep_apart(where[0], *self.let_go)
        self.desktop.perform(action)
        if where:
            self.let_go = where[-1], clock.monotonic()

    def _keep_apart(self, point: Point, before: Point | None, let_go_s: float) -> None:
        """Wait until two clicks are no longer a double click."""
        near = before is None or max(abs(point[0] - before[0]), abs(point[1] - before[1])) <= _NEAR_PX
        if not near and isinstance(self.desktop, ClickRules) and self.desktop.doubles_only_near:
            return
        due_s = let_go_s + (_APART_S if near else _ELSEWHERE_S) - clock.monotonic()
        if due_s > 0:
            self.desktop.perform(Wait(due_s))
