"""The watchdog: a Controller that survives one lost connection and reports a desktop at fault."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NoReturn, Protocol, TypeVar

from pytest_vnc_use import clock
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import (
    ActionInterrupted,
    ConnectionLost,
    DesktopError,
    DesktopRefused,
    ScreenBlank,
    ScreenFrozen,
)
from pytest_vnc_use.keyboard.keystrokes import Means, TellsMeans
from pytest_vnc_use.same_screen import same_screen
from pytest_vnc_use.types import DesktopAction, Frame, Glance, Move, Settled, TakeScreenshot, Wait
from pytest_vnc_use.types.protocols import ClickRules, Controller

UNANSWERED_ACTIONS = 3
"""The number of actions without a changed pixel after which a screen may be frozen."""
_BETWEEN_ATTEMPTS_S = 0.1
_SHORTEST_ATTEMPT_S = 1.0

T = TypeVar("T")


class Watched(Controller, Protocol):
    """The methods that the watchdog needs beside the protocol Controller; only `refresh` costs a round trip."""

    @property
    def server(self) -> str:
        """The address of the desktop."""

    @property
    def name(self) -> str:
        """The name that the desktop gives itself."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the screen now, in pixels."""

    @property
    def holding(self) -> bool:
        """Return whether keys or buttons are held down."""

    @property
    def changed_at(self) -> float:
        """The moment when a pixel last changed, on the monotonic clock."""

    def last_frame(self) -> Frame:
        """Return the screen as it was last seen, even if the connection is lost."""

    def only_colour(self, timeout_s: float) -> str:
        """Return the one colour (`#000000`) that all pixels keep for `timeout_s`; "" as soon as there are several."""

    def refresh(self) -> None:
        """Have the whole screen sent anew, even if the server says that nothing changed. Raises DesktopError."""


class Watchdog:
    """A Controller around a connection, which it makes once more if the connection is lost.

    `connect(timeout_s=…)` makes a connection. The new connection is used only if it leads to the same desktop with the
    same screen. No action is carried out twice. The watchdog waits `reconnect_s` for a server that is gone.

    A screen of one single colour has `blank_s` to change. A screen is fetched again if no pixel has changed for
    `frozen_s`, although at least `UNANSWERED_ACTIONS` visible actions were carried out. It counts as frozen if it is
    still the same. Each of these faults ends as DesktopError.

    If the program under test has ended (`program_fault`), the watchdog raises no fault of the desktop, because the
    screen may be blank for that reason, or the server may have been the program itself.
    """

    def __init__(
        self,
        connect: Callable[..., Watched],
        *,
        blank_s: float,
        frozen_s: float,
        reconnect_s: float = 10.0,
        program_fault: Callable[[], str] = str,
    ) -> None:
        self._connect = connect
        self._blank_s = blank_s
        self._frozen_s = frozen_s
        self._reconnect_s = reconnect_s
        self._program_fault = program_fault
        self._desktop = connect()
        self._name, self._size = self._desktop.name, self._desktop.size
        self._unanswered: list[float] = []
        self._in_doubt = ""
        self._holding = False
        self._remade = False
        self._closed = threading.Event()
        self._closing = threading.Lock()

    # --- the protocol Controller ---

    def frame(self) -> Frame:
        """Return the screen, once the server has taken all input. Raises DesktopError, ActionInterrupted."""
        frame = self._surviving(self._look)
        self._in_doubt = ""
        return frame

    def perform(self, action: DesktopAction) -> None:
        """Carry out one action, never twice. Raises ActionInterrupted if the connection was lost meanwhile."""
        self._surviving(lambda: self._desktop.perform(TakeScreenshot()))  # raises before anything is sent
        began_s = clock.monotonic()
        if not isinstance(action, (Wait, TakeScreenshot)):
            self._in_doubt = type(action).__name__
        self._surviving(lambda: self._desktop.perform(action))
        self._holding = self._desktop.holding
        if not isinstance(action, (Wait, TakeScreenshot, Move)):
            self._unanswered.append(began_s)

    def settle(self, *, briefly: bool = False) -> Settled:
        """Wait until the screen is quiet. Raises DesktopError, ActionInterrupted."""
        return self._surviving(lambda: self._desktop.settle(briefly=briefly))

    def changed_since(self, moment: float) -> bool:
        """Return whether the screen changed after `moment`, outside moving regions. Raises DesktopError."""
        return self._surviving(lambda: self._desktop.changed_since(moment))

    def wait_changed(self, moment: float, timeout_s: float) -> bool:
        """Wait at most `timeout_s` until `changed_since` is true; return whether it is. Raises DesktopError."""
        return self._surviving(lambda: self._desktop.wait_changed(moment, timeout_s))

    def glance(self) -> Glance:
        """Return the pixels of the screen now, without taking a frame. Raises DesktopError."""
        return self._surviving(lambda: self._desktop.glance())

    def transient_frames(self) -> tuple[Frame, ...]:
        """Return the transient frames since the last call; those of a lost connection are lost."""
        return self._desktop.transient_frames()

    def close(self) -> None:
        """End the connection, and make no other. A second call does nothing."""
        with self._closing:
            self._closed.set()
        self._desktop.close()

    @property
    def means(self) -> Means:
        """Return how the desktop takes input, if that is known."""
        return self._desktop.means if isinstance(self._desktop, TellsMeans) else Means()

    @property
    def doubles_only_near(self) -> bool:
        """Return whether no program there takes two clicks at different places for a double click."""
        return isinstance(self._desktop, ClickRules) and self._desktop.doubles_only_near

    @property
    def watched(self) -> Watched:
        """The connection that is in use now."""
        return self._desktop

    # --- the screen ---

    def _look(self) -> Frame:
        self._check_colours()
        self._check_answers()
        frame = self._desktop.frame()
        self._check_size(frame)
        return frame

    def _check_colours(self) -> None:
        if not self._desktop.only_colour(0.0) or self._program_fault():
            return
        colour = self._desktop.only_colour(self._blank_s)
        if colour and not self._program_fault():
            raise ScreenBlank(
                f"the screen of {self._desktop.server!r} has had only one colour ({colour}) for {self._blank_s:g} "
                "s: start a program on it before the run, by --vnc-app or by app in the task's file, or wait longer "
                "with vnc_blank_seconds"
            )

    def _check_answers(self) -> None:
        if not self._seems_frozen() or self._program_fault():
            return
        self._desktop.refresh()
        if self._seems_frozen():
            since_s = clock.monotonic() - self._unanswered[0]
            raise ScreenFrozen(
                f"the screen of {self._desktop.server!r} is frozen. No pixel changed for {since_s:.0f} s, "
                f"although {len(self._unanswered)} actions were carried out. The server answers, so the program "
                "may hang, or the server may be read-only. If the screen may stay unchanged for so long, raise "
                "vnc_frozen_seconds"
            )

    def _seems_frozen(self) -> bool:
        changed_at = self._desktop.changed_at
        self._unanswered = [began_s for began_s in self._unanswered if began_s > changed_at]
        return len(self._unanswered) >= UNANSWERED_ACTIONS and clock.monotonic() - self._unanswered[0] >= self._frozen_s

    def _check_size(self, frame: Frame) -> None:
        size = frame.ref.width, frame.ref.height
        if size != self._size:
            raise DesktopError(
                f"the screen's size changed from {_format_size(self._size)} to {_format_size(size)} during the run, "
                f"but the desktop {self._desktop.server!r} must keep its size: no program and no viewer may change it"
            )

    # --- a lost connection ---

    def _surviving(self, work: Callable[[], T]) -> T:
        """Return the result of `work`; repeat it over a new connection if the first one is lost.

        While an action is in doubt, `work` is not repeated: raises ActionInterrupted.
        """
        try:
            return work()
        except ConnectionLost as lost:
            self._remake(lost)
            if self._in_doubt:
                raise self._interruption() from lost
        return work()

    def _interruption(self) -> ActionInterrupted:
        action, self._in_doubt = self._in_doubt, ""
        return ActionInterrupted(
            f"the connection was lost before the desktop had answered a {action}. The watchdog reconnected, but "
            f"it is unknown whether the {action} took effect: look at the screen, and repeat it if needed"
        )

    def _remake(self, lost: ConnectionLost) -> None:
        """Replace the lost connection by a new one. Raises ConnectionLost if the run cannot continue."""
        if self._closed.is_set():
            raise lost
        if self._remade:
            raise type(lost)(f"{lost}; it was lost before, and the watchdog reconnects only once") from lost
        self._remade = True
        before, now = self._desktop, self._reconnect(lost)
        changed = self._difference(before, now)
        with self._closing:
            self._desktop = now
            if changed or self._closed.is_set():
                now.close()
                raise ConnectionLost(
                    f"{lost}; the watchdog reconnected, but {changed or 'the run had closed the desktop'}"
                ) from lost

    def _reconnect(self, lost: ConnectionLost) -> Watched:
        deadline = Deadline(self._reconnect_s)
        while True:
            if self._program_fault():
                raise lost
            try:
                return self._connect(timeout_s=max(deadline.remaining_s, _SHORTEST_ATTEMPT_S))
            except DesktopRefused as refused:
                if not deadline.remaining_s:
                    self._give_up(lost, refused)
            except DesktopError as refused:
                self._give_up(lost, refused)
            if self._closed.wait(_BETWEEN_ATTEMPTS_S):
                raise lost

    def _give_up(self, lost: ConnectionLost, refused: DesktopError) -> NoReturn:
        raise type(lost)(
            f"{lost}; the watchdog could not reconnect within {self._reconnect_s:g} s: {refused}"
        ) from refused

    def _difference(self, before: Watched, now: Watched) -> str:
        """Return what differs from before the connection was lost; "" if the run may continue."""
        if (now.name, now.size) != (self._name, self._size):
            earlier = f"{self._name!r}, {_format_size(self._size)}"
            return f"it is another desktop: {now.name!r}, {_format_size(now.size)}; it was {earlier}"
        if self._holding:
            return "the keys or buttons that were held down are up now"
        if not same_screen(before.last_frame().png, now.last_frame().png):
            return "it shows another screen than before"
        return ""


def _format_size(size: tuple[int, int]) -> str:
    return "{}x{}".format(*size)
