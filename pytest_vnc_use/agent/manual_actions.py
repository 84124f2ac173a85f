"""The hands of an agent, for the parts of a test that need no model."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pytest_vnc_use.loop.actor import perform_text
from pytest_vnc_use.types import Button, Click, DesktopAction, Direction, Drag, Frame, KeyCombo, Scroll, TypeText
from pytest_vnc_use.types.protocols import Controller


class Hands(ABC):
    """The part of an agent that acts by itself. Each method waits for the screen to answer and returns it so.

    The first one waits until the program's first screen is at rest.
    """

    _is_at_rest = False

    @property
    @abstractmethod
    def controller(self) -> Controller: ...

    @abstractmethod
    def _typed(self, text: str) -> str:
        """The text with the values of its secrets."""

    @abstractmethod
    def _will_act(self) -> None:
        """Is called before the hands do anything, and may wait."""

    @abstractmethod
    def _acts(self) -> None:
        """Is called before an action is carried out."""

    @abstractmethod
    def _acted(self) -> None:
        """Is called once an action was carried out."""

    def _await_rest(self, acting: Controller) -> None:
        """Before the first action, wait until the screen is quiet, as after any. Raises DesktopError.

        Where another than the agent's own controller is `acting`, that does it: a replay, or a person.
        """
        if acting is self.controller and not self._is_at_rest:
            acting.settle()
            self._is_at_rest = True

    def perform(self, action: DesktopAction) -> Frame:
        """Carry out one action and wait for the screen to answer. Raises ActionError, DesktopError."""
        self._will_act()
        self._await_rest(self.controller)
        self._acts()
        self.controller.perform(action)
        return self._settled_frame()

    def _settled_frame(self) -> Frame:
        self._acted()
        self.controller.settle()
        return self.controller.frame()

    def click(self, x: int, y: int, button: Button = "left", count: int = 1) -> Frame:
        """Click at a point of the screen, in pixels."""
        return self.perform(Click(x, y, button, count))

    def type_text(self, text: str, *, press_enter: bool = False, clear_first: bool = False) -> Frame:
        """Type at the focus."""
        shown = self._typed(text)
        self._will_act()
        self._await_rest(self.controller)
        action = TypeText(shown, press_enter=press_enter, clear_first=clear_first)
        self._acts()
        perform_text(self.controller, action, holds_secret=shown != text)
        return self._settled_frame()

    def key(self, combination: str) -> Frame:
        """Press keys together: `enter`, `ctrl+a`."""
        return self.perform(KeyCombo((combination,)))

    def scroll(self, x: int, y: int, direction: Direction, clicks: int = 3) -> Frame:
        """Turn the wheel at a point."""
        return self.perform(Scroll(x, y, direction, clicks))

    def drag(self, x: int, y: int, to_x: int, to_y: int) -> Frame:
        """Drag with the left button from one point to another."""
        return self.perform(Drag(x, y, to_x, to_y))

    def screenshot(self) -> bytes:
        """The screen now, as PNG."""
        return self.controller.frame().png
