"""The faults of a desktop that a look at its screen reports: one single colour, and no answer to any action."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_vnc_use import clock
from pytest_vnc_use.backends.connection import RfbConnection
from pytest_vnc_use.backends.screen import Framebuffer
from pytest_vnc_use.errors import ScreenBlank, ScreenFrozen

UNANSWERED_ACTIONS = 3
"""The number of actions without a changed pixel after which a screen may be frozen."""


FROZEN_S = 60.0
"""The time without a changed pixel, during actions, after which a desktop counts as frozen."""


@dataclass(frozen=True)
class Watch:
    """How a controller survives one lost connection, and which faults of a desktop it reports as DesktopError.

    A lost connection is made once more, within `reconnect_s`. The new one is used only if it leads to the same desktop
    with the same screen. No action is carried out twice. A screen of one single colour has `blank_s` to change. A
    screen is fetched again if no pixel has changed for `frozen_s`, although at least `UNANSWERED_ACTIONS` visible
    actions were carried out. It counts as frozen if it is still the same. A screen may change its size.

    If the program under test has ended (`program_fault`), no fault of the desktop is raised, because the screen may be
    blank for that reason, or the server may have been the program itself.
    """

    blank_s: float
    frozen_s: float
    reconnect_s: float = 10.0
    program_fault: Callable[[], str] = str


class ScreenWatch:
    """The check before a frame, over all connections of a controller."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.unanswered: list[float] = []
        """The times when visible actions began; a change of the screen answers those before it."""

    def check(self, connection: RfbConnection, timeout_s: float) -> None:
        """Raise ScreenBlank or ScreenFrozen, unless the program under test has ended."""
        watch, screen = self._watch, connection.framebuffer
        if screen.only_colour(0.0) and not watch.program_fault():
            colour = screen.only_colour(watch.blank_s)
            if colour and not watch.program_fault():
                raise ScreenBlank(
                    f"the screen of {connection.server!r} has had only one colour ({colour}) for {watch.blank_s:g} s: "
                    "start a program on it before the run, by --vnc-app or by app in the task's file, or wait longer "
                    "with vnc_start_seconds"
                )
        if self._seems_frozen(screen) and not watch.program_fault():
            connection.refresh(timeout_s)
            if self._seems_frozen(screen):
                since_s = clock.monotonic() - self.unanswered[0]
                raise ScreenFrozen(
                    f"the screen of {connection.server!r} is frozen. No pixel changed for {since_s:.0f} s, although "
                    f"{len(self.unanswered)} actions were carried out. The server answers, so the program may hang, or "
                    "the server may be read-only"
                )

    def _seems_frozen(self, screen: Framebuffer) -> bool:
        self.unanswered = [began_s for began_s in self.unanswered if began_s > screen.changed_at]
        waits = len(self.unanswered) >= UNANSWERED_ACTIONS
        return waits and clock.monotonic() - self.unanswered[0] >= self._watch.frozen_s
