"""Manual actions: the test's own actions, for the parts of a test that need no model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_vnc_use.loop.actor import check_declared, perform_text
from pytest_vnc_use.loop.runner import DesktopAccess
from pytest_vnc_use.runs.secrets import Secrets
from pytest_vnc_use.types import (
    Button,
    Click,
    DesktopAction,
    Direction,
    Drag,
    Frame,
    KeyCombo,
    Scroll,
    TypeText,
    button_of,
)


@dataclass(frozen=True)
class ManualActions:
    """Actions of a test on a desktop. Each returns the screen once it has answered.

    The first action waits until the program's first screen is at rest. `leaves_replay` is called before that wait,
    `acted` right after the action.
    """

    desktop: DesktopAccess
    secrets: Secrets
    leaves_replay: Callable[[], None]
    acted: Callable[[], None]

    def perform(self, action: DesktopAction) -> Frame:
        """Carry out one action. Raises ActionError, DesktopError."""
        self._begin()
        self.desktop.controller.perform(action)
        return self._settled_frame()

    def type_text(self, text: str, *, press_enter: bool, clear_first: bool) -> Frame:
        """Type at the focus. A secret's placeholder is typed as its value. Raises ActionError, DesktopError."""
        check_declared(text, self.secrets.declared.reveal)
        self._begin()
        revealed = self.secrets.declared.reveal(text)
        action = TypeText(revealed, press_enter=press_enter, clear_first=clear_first)
        perform_text(self.desktop.controller, action)
        return self._settled_frame()

    def click(self, x: int, y: int, button: Button | int, count: int) -> Frame:
        """Click at a point of the screen, in pixels. Raises ActionError, DesktopError."""
        return self.perform(Click(x, y, button_of(button), count))

    def key(self, combination: str) -> Frame:
        """Press keys together. Raises ActionError, DesktopError."""
        return self.perform(KeyCombo((combination,)))

    def scroll(self, x: int, y: int, direction: Direction, clicks: int) -> Frame:
        """Turn the wheel at a point. Raises ActionError, DesktopError."""
        return self.perform(Scroll(x, y, direction, clicks))

    def drag(self, x: int, y: int, to_x: int, to_y: int) -> Frame:
        """Drag with the left button from one point to another. Raises ActionError, DesktopError."""
        return self.perform(Drag(x, y, to_x, to_y))

    def _begin(self) -> None:
        self.leaves_replay()
        self.desktop.await_rest(self.desktop.controller)

    def _settled_frame(self) -> Frame:
        self.acted()
        self.desktop.controller.settle()
        return self.desktop.controller.frame()
