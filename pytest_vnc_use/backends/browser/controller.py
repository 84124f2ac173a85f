"""The browser beside the other protocols: on a Desktop, inside a Controller, and as functions for a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from pytest_vnc_use.backends.accessibility.atspi import desktop_elements
from pytest_vnc_use.backends.accessibility.elements import MOST_NAME, Element, Size, cut, elements_function, same_size
from pytest_vnc_use.backends.browser.devtools import Browser
from pytest_vnc_use.errors import ActionError, CommandRefused, DesktopError, SettingsError
from pytest_vnc_use.keyboard.keystrokes import Means, TellsMeans
from pytest_vnc_use.types import DesktopAction, OpenAddress, TraverseHistory, Wait
from pytest_vnc_use.types.forwarding import ForwardingController
from pytest_vnc_use.types.protocols import Controller, Desktop

MOST_TEXT = 6000
"""The most characters of a page's text that a model gets."""


class BrowsableDesktop(Desktop, Protocol):
    """A Desktop with the browser on it, and the elements of its programs."""

    @property
    def browser(self) -> Browser:
        """Return the browser as it is there now. Raises SettingsError, DesktopError."""

    def elements(self) -> list[Element]:
        """Return the programs' elements, as `accessibility.desktop_elements` does. Raises DesktopError."""


def with_browser(desktop: Desktop, browser: Callable[[], Browser]) -> BrowsableDesktop:
    """Return the desktop with a `browser`, which calls `browser()` each time it is read."""
    return cast(BrowsableDesktop, _WithBrowser(desktop, browser))


class _WithBrowser:
    def __init__(self, desktop: Desktop, browser: Callable[[], Browser]) -> None:
        self._desktop = desktop
        self._browser = browser

    @property
    def browser(self) -> Browser:
        """Return the browser as it is there now."""
        return self._browser()

    def elements(self) -> list[Element]:
        """Return the programs' elements."""
        return desktop_elements(self._desktop.run)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._desktop, name)


class BrowsingController(ForwardingController):
    """A Controller around another one, which opens addresses and goes through the history by DevTools.

    The keyboard does what DevTools cannot do, such as an address as a person types it. `browser` returns the browser
    when it is needed. While the browser does not answer, the planner gets an ActionError.
    """

    def __init__(self, hands: Controller, browser: Callable[[], Browser]) -> None:
        super().__init__(hands)
        self._browser = browser

    @property
    def means(self) -> Means:
        """Return how the desktop takes input, if that is known; the keyboard does what DevTools cannot do."""
        return self.desktop.means if isinstance(self.desktop, TellsMeans) else Means()

    def page_url(self) -> str:
        """Return the address of the page that the browser shows; "" if it does not say."""
        try:
            return self._browser().url
        except (DesktopError, SettingsError):
            return ""

    def perform(self, action: DesktopAction) -> None:
        """Carry out one action. Raises ActionError if it cannot be done, DesktopError if the desktop is gone."""
        match action:
            case OpenAddress(address, in_new_window=True):
                done = self._browse(lambda browser: browser.open_window(address))
            case OpenAddress(address):
                done = self._browse(lambda browser: browser.navigate(address))
            case TraverseHistory(direction):
                done = self._browse(lambda browser: browser.traverse(direction))
            case _:
                done = False
        if not done:
            self.desktop.perform(action)

    def _browse(self, do: Callable[[Browser], None]) -> bool:
        self.desktop.perform(Wait(0.0))  # later changes on the screen are the action's effect
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
    """Return `get_browser_state()` and `list_elements()` for a model; `model_size` is as in `elements_function`."""

    def get_browser_state() -> str:
        """Return the address, the title and the visible text of the page that the browser shows."""
        now = browser()
        address, title, text = cut(now.url, MOST_NAME), cut(now.title, MOST_NAME), cut(now.text(), MOST_TEXT)
        return f"address: {address}\ntitle: {title}\n{text}"

    def look() -> tuple[list[Element], Size]:
        now = browser()
        return now.elements(), now.window.screen

    return get_browser_state, elements_function(look, model_size)
