"""The browser beside the other ports: on a Desktop, under a Controller's hands, and as functions for a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from pytest_vnc_use.backends.accessibility.atspi import desktop_elements
from pytest_vnc_use.backends.accessibility.elements import MOST_NAME, Element, Size, cut, elements_function, same_size
from pytest_vnc_use.backends.browser.cdp import CommandRefused
from pytest_vnc_use.backends.browser.devtools import Browser
from pytest_vnc_use.errors import ActionError, DesktopError, SettingsError
from pytest_vnc_use.keyboard.keystrokes import Means, TellsMeans
from pytest_vnc_use.types import DesktopAction, Frame, Glance, OpenAddress, Settled, TraverseHistory, Wait
from pytest_vnc_use.types.protocols import Controller, Desktop

MOST_TEXT = 6000
"""Of a page's text, so many characters are told to a model."""


class BrowsableDesktop(Desktop, Protocol):
    """The port Desktop, with the browser on it, and what its programs tell of themselves."""

    @property
    def browser(self) -> Browser:
        """The browser, as it is there now. Raises SettingsError, DesktopError."""

    def elements(self) -> list[Element]:
        """What programs show, as `accessibility.desktop_elements` tells it. Raises DesktopError."""


def with_browser(desktop: Desktop, browser: Callable[[], Browser]) -> BrowsableDesktop:
    """The desktop, and as its `browser` what `browser()` gives each time it is asked for."""
    return cast(BrowsableDesktop, _WithBrowser(desktop, browser))


class _WithBrowser:
    def __init__(self, desktop: Desktop, browser: Callable[[], Browser]) -> None:
        self._desktop = desktop
        self._browser = browser

    @property
    def browser(self) -> Browser:
        return self._browser()

    def elements(self) -> list[Element]:
        return desktop_elements(self._desktop.run)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._desktop, name)


class BrowsingController:
    """The port Controller around another, with addresses and the history gone through by DevTools.

    What DevTools does not take (an address as a person types it) is done by the keyboard. `browser` says which browser
    it is, when it is needed; while it does not answer, the planner is told so.
    """

    def __init__(self, hands: Controller, browser: Callable[[], Browser]) -> None:
        self.hands = hands
        self._browser = browser

    @property
    def means(self) -> Means:
        """How the desktop is typed at, where that is known; by the keyboard goes what DevTools does not take."""
        return self.hands.means if isinstance(self.hands, TellsMeans) else Means()

    def page_url(self) -> str:
        """The address of the page that the browser shows; "" where it does not say."""
        try:
            return self._browser().url
        except (DesktopError, SettingsError):
            return ""

    def frame(self) -> Frame:
        """The screen now. Raises DesktopError."""
        return self.hands.frame()

    def perform(self, action: DesktopAction) -> None:
        """Carry out one action. Raises ActionError where it cannot be done, DesktopError where the desktop is gone."""
        match action:
            case OpenAddress(address):
                done = self._browse(lambda browser: browser.navigate(address))
            case TraverseHistory(direction):
                done = self._browse(lambda browser: browser.traverse(direction))
            case _:
                done = False
        if not done:
            self.hands.perform(action)

    def settle(self, *, briefly: bool = False) -> Settled:
        """Wait until the screen is quiet. Raises DesktopError."""
        return self.hands.settle(briefly=briefly)

    def changed_since(self, moment_s: float) -> bool:
        """Whether the screen changed after that moment but for what moves by itself. Raises DesktopError."""
        return self.hands.changed_since(moment_s)

    def wait_changed(self, moment_s: float, timeout_s: float) -> bool:
        """The same, waited for. Raises DesktopError."""
        return self.hands.wait_changed(moment_s, timeout_s)

    def glance(self) -> Glance:
        """Return what the screen shows now, without taking a frame. Raises DesktopError."""
        return self.hands.glance()

    def transient_frames(self) -> tuple[Frame, ...]:
        """Frames that came and went since the last action began."""
        return self.hands.transient_frames()

    def close(self) -> None:
        """End the connection; a second call does nothing."""
        self.hands.close()

    def _browse(self, do: Callable[[Browser], None]) -> bool:
        self.hands.perform(Wait(0.0))  # what changes on the screen from here on is the action's effect
        try:
            do(self._browser())
        except CommandRefused:
            return False
        except DesktopError as exc:
            raise ActionError(str(exc)) from exc
        return True


def browser_functions(
    browser: Callable[[], Browser], model_size: Callable[[int, int], Size] = same_size
) -> tuple[Callable[[], str], Callable[[], str]]:
    """`get_browser_state()` and `list_elements()` for a model; `model_size` as in `elements_function`."""

    def get_browser_state() -> str:
        """The address, the title and the visible text of the page that the browser shows."""
        shown = browser()
        address, title, text = cut(shown.url, MOST_NAME), cut(shown.title, MOST_NAME), cut(shown.text(), MOST_TEXT)
        return f"address: {address}\ntitle: {title}\n{text}"

    def look() -> tuple[list[Element], Size]:
        shown = browser()
        return shown.elements(), shown.window.screen

    return get_browser_state, elements_function(look, model_size)
