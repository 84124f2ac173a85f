"""The browser on a desktop, through Chrome DevTools: the page's text and URL, and the
elements to click.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from pytest_vnc_use.backends.devtools import DevTools, Page, PageTarget
from pytest_vnc_use.backends.elements import (
    MAX_NAME,
    Choice,
    Size,
    Window,
    acted_on_page,
    chosen_since,
    desktop_elements,
    elements_function,
    elements_of,
    open_choice,
    same_size,
    window_of,
)
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import (
    ActionError,
    CommandRefused,
    DesktopError,
    FileUnreadable,
    PageGone,
    ProductFailed,
    SettingsError,
)
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.types import LOOK, Action, HistoryDirection, JsonObject
from pytest_vnc_use.types.actions import Point, points
from pytest_vnc_use.types.elements import AskAfter, Element, Elements
from pytest_vnc_use.types.protocols import Desktop

_POLL_S = 0.05
_PORT_FILE = "DevToolsActivePort"
_VISIBLE_SHARE = 0.2
"""The share of the timeout for asking a page whether it is visible."""
_LOAD_SHARE = 0.9
"""The share of the timeout for loading: a page that never stops loading can be used."""
_MAX_EXCERPT = 300
"""The maximum number of characters of the page's text in the message of
`wait_for_text`.
"""
_SPACES = re.compile(r"[ \t\r\n\f]+")
"""White space that a page shows as one space. A no-break space is kept, so that a
message shows the difference.
"""

_TEXT = "document.body ? document.body.innerText : ''"
_HTML = "document.documentElement.outerHTML"
_AWAIT_LOAD = """new Promise(done => {
  if (document.readyState === "complete") return done()
  addEventListener("load", () => done())
  setTimeout(done, %d)
})"""
_AWAIT_TEXT = """new Promise(done => {
  const end = answer => {
    seen.disconnect()
    controller.abort()
    clearTimeout(late)
    done(answer)
  }
  const look = () => (document.body ? document.body.innerText : "").includes(%s) && end("shown")
  const controller = new AbortController(), signal = controller.signal
  const seen = new MutationObserver(look)
  const late = setTimeout(end, %d, "late")
  seen.observe(document, {subtree: true, childList: true, characterData: true, attributes: true})
  for (const event of ["load", "transitionend", "animationend", "resize"])
    addEventListener(event, look, {capture: true, signal})
  document.addEventListener("visibilitychange", () => end("hidden"), {signal})
  look()
})"""
"""A script that looks for a text after each change of the document, for a time in ms.

It resolves to `shown`, `late`, or `hidden` if another tab is shown.
"""

T = TypeVar("T")


class Browser:
    """The browser whose DevTools listen at `address`: `host:port` or
    `http://host:port`.

    Each call asks the page shown now: of several tabs the visible one, of several
    windows the one last used. A call takes at most `timeout_s`. It raises DesktopError
    if no browser answers, if no page is open, or if the page has crashed, was closed,
    or does not answer.
    """

    def __init__(self, address: str, *, timeout_s: float = 10.0) -> None:
        """Parse the address; nothing is connected yet. Raises SettingsError if the
        address makes no sense.
        """
        self.address = address
        self._devtools = DevTools(address)
        self._timeout_s = timeout_s

    @property
    def url(self) -> str:
        """The URL of the page."""
        return str(self._entry()["url"])

    @property
    def title(self) -> str:
        """The title of the page."""
        return str(self._entry()["title"])

    def text(self) -> str:
        """Return the page's visible text, as the DOM's `innerText` has it: without the
        text in fields and frames.
        """
        return str(self._read(lambda page: page.evaluate(_TEXT)))

    def html(self) -> str:
        """Return the page's DOM as HTML, with hidden nodes, but without the content of
        frames.
        """
        return str(self._read(lambda page: page.evaluate(_HTML)))

    def wait_for_text(self, text: str, within_s: float = 10.0) -> None:
        """Wait until `text` is in the page's visible text, whatever page is shown by
        then.

        Raises ProductFailed if the text does not appear within `within_s`, and
        DesktopError as every call does.
        """
        deadline = Deadline(within_s)
        answer = ""
        while answer not in ("shown", "late"):
            try:
                answer = self._await_text(text, deadline)
            except PageGone:
                if not deadline.remaining_s:
                    raise
        if answer == "late":
            excerpt = cut(_SPACES.sub(" ", self.text()).strip(" "), _MAX_EXCERPT)
            raise ProductFailed(
                f"the page did not show {text!r} within {within_s:g} s. It showed"
                f" {excerpt!r}"
            )

    def elements(self) -> list[Element]:
        """Return the elements of Chrome's accessibility tree that have a name or can
        take the focus.

        Only elements that can be seen are listed: in view, and not under something
        else. They are in the order of the tree. Elements in frames from other sites are
        not listed.
        """
        return self._read(elements_of)

    @property
    def window(self) -> Window:
        """Return the region of the page on the screen, and the size of the screen."""
        return self._read(window_of)

    def navigate(self, url: str) -> None:
        """Open a URL, and wait until the page has loaded or `timeout_s` are over.

        Raises ActionError if it cannot be opened (`net::ERR_CONNECTION_REFUSED`).
        Raises CommandRefused, a DesktopError, if DevTools rejects it, as it does a URL
        without `https://`.
        """
        deadline = Deadline(self._timeout_s)
        with self._visible_page(deadline) as page:
            answer = page.call("Page.navigate", url=url)
            if answer.get("errorText") and not answer.get("isDownload"):
                raise ActionError(
                    f"the browser cannot open {url!r}: {answer['errorText']}"
                )
            _wait_loaded(page, deadline)

    def back(self) -> None:
        """Go to the page before, and wait for it as `navigate` does. Raises ActionError
        if there is none.
        """
        self.traverse("back")

    def forward(self) -> None:
        """Go to the page after, and wait for it as `navigate` does. Raises ActionError
        if there is none.
        """
        self.traverse("forward")

    def traverse(self, direction: HistoryDirection) -> None:
        """Go back or forward, as `back()` and `forward()` do."""
        deadline = Deadline(self._timeout_s)
        with self._visible_page(deadline) as page:
            history = page.call("Page.getNavigationHistory")
            index = history["currentIndex"] + (1 if direction == "forward" else -1)
            if not 0 <= index < len(history["entries"]):
                raise ActionError(
                    f"the browser cannot go {direction}: there is no such page in its"
                    " history"
                )
            page.call("Page.enable")
            page.call(
                "Page.navigateToHistoryEntry", entryId=history["entries"][index]["id"]
            )
            page.wait_event("Page.frameNavigated", "Page.navigatedWithinDocument")
            _wait_loaded(page, deadline)

    def acted_on(self, action: Action) -> Elements | AskAfter:
        """Return the elements that an action acts on, as `elements.acted_on_page` does.
        It does not count as a look of the test.

        While the options of a `select` are shown, return a function that finds, after
        the action, the option that was chosen.
        """
        with self._visible_page(Deadline(self._timeout_s)) as page:
            elements = acted_on_page(page, action)
            choice = None if any(elements) else open_choice(page)
        action_points = points(action)
        if choice is None or not action_points:
            return elements
        return partial(self._chosen_since, choice, action_points[-1])

    def _chosen_since(self, before: Choice, at: Point) -> Elements:
        with self._visible_page(Deadline(self._timeout_s)) as page:
            return chosen_since(page, before, at)

    def _read(self, ask: Callable[[Page], T]) -> T:
        """Return the answer of the page that is shown. If that closes or is just being
        opened, ask again; so `ask` must change nothing.
        """
        deadline = Deadline(self._timeout_s)
        closed_target: PageTarget | None = None
        while True:
            page_target = self._find_page(deadline)
            try:
                with self._devtools.open(page_target, deadline) as page:
                    answer = ask(page)
                sys.audit(LOOK, "browser")
                return answer
            except PageGone:
                if page_target == closed_target or not deadline.remaining_s:
                    raise
                closed_target = page_target
            except CommandRefused:  # the page of a tab that opens is not there yet
                if not deadline.remaining_s:
                    raise
                time.sleep(_POLL_S)

    def _entry(self) -> JsonObject:
        history = self._read(lambda page: page.call("Page.getNavigationHistory"))
        entry: JsonObject = history["entries"][history["currentIndex"]]
        return entry

    def _await_text(self, text: str, deadline: Deadline) -> str:
        """Return what `_AWAIT_TEXT` resolves to, on the page that is visible now."""
        # the page itself keeps the deadline, so its answer may come a little later
        answered_by = Deadline(deadline.remaining_s + self._timeout_s)
        with self._visible_page(answered_by) as page:
            limit_ms = deadline.remaining_s * 1000
            answer = str(page.evaluate(_AWAIT_TEXT % (json.dumps(text), limit_ms)))
        sys.audit(LOOK, "browser")
        return answer

    @contextmanager
    def _visible_page(self, deadline: Deadline) -> Iterator[Page]:
        with self._devtools.open(self._find_page(deadline), deadline) as page:
            yield page

    def _find_page(self, deadline: Deadline) -> PageTarget:
        targets = self._devtools.pages(deadline)
        if not targets:
            raise DesktopError(f"the browser at {self.address!r} has no page open")
        if len(targets) > 1:
            for target in targets:
                if self._is_visible(target, deadline):
                    return target
        return targets[0]

    def _is_visible(self, target: PageTarget, deadline: Deadline) -> bool:
        """Return whether a page is visible.

        A page that does not answer counts as visible: it is the page in front, with a
        dialog or after a crash.
        """
        share = Deadline(deadline.remaining_s * _VISIBLE_SHARE)
        try:
            with self._devtools.open(target, share) as page:
                return bool(page.evaluate("document.visibilityState") != "hidden")
        except PageGone:
            return False
        except DesktopError:
            return True


def _wait_loaded(page: Page, deadline: Deadline) -> None:
    """Wait until the document has loaded, or `_LOAD_SHARE` of the time is used."""
    limit_ms = deadline.remaining_s * 1000
    page.evaluate(_AWAIT_LOAD % (_LOAD_SHARE * limit_ms))


def browser_at(
    cdp: str,
    read_file: Callable[..., str],
    *,
    wait_s: float = 5.0,
    timeout_s: float = 10.0,
) -> Browser:
    """Return the browser that the setting `cdp` names: its address, or the file
    DevToolsActivePort in its profile.

    Chrome writes that file where it is started with `--remote-debugging-port=0`;
    `read_file` reads it from the desktop, on this machine, and waits up to `wait_s` for
    it. Raises SettingsError if `cdp` is empty or makes no sense, DesktopError if there
    is no file.
    """
    if not cdp:
        raise SettingsError(
            "vnc_cdp must be the address of Chrome's DevTools, got ''. Start Chrome"
            " with --remote-debugging-port=9222 and pass -o vnc_cdp=127.0.0.1:9222. No"
            " other program's page can be read"
        )
    if not cdp.endswith(_PORT_FILE):
        return Browser(cdp, timeout_s=timeout_s)
    try:
        port, newline, _ = read_file(cdp, timeout_s=wait_s).partition("\n")
    except (FileNotFoundError, FileUnreadable) as exc:
        raise DesktopError(
            f"no browser has been started with --remote-debugging-port=0 yet: {exc}"
        ) from exc
    if not newline:  # Chrome makes the file before it writes it
        raise DesktopError(f"the browser has not written its port into {cdp!r} yet")
    return Browser(f"127.0.0.1:{port}", timeout_s=timeout_s)


def await_devtools(
    find_browser: Callable[[], Browser], limit_s: float, is_over: Callable[[], bool]
) -> str:
    """Return the WebSocket URL of the browser's DevTools, once they listen. Raises
    DesktopError.

    `find_browser()` raises DesktopError until the browser has started. Waiting ends after
    `limit_s`, or once `is_over()`. The URL is for Playwright, which asks an `http://`
    URL through the environment's proxy, but not a `ws://` one.
    """
    deadline = Deadline(limit_s)
    while True:
        try:
            return DevTools(find_browser().address).websocket(deadline)
        except DesktopError:
            if is_over() or not deadline.remaining_s:
                raise
            # a port, and a file on the desktop, have no event to wait for
            time.sleep(_POLL_S)


class BrowsableDesktop(Desktop, Protocol):
    """A Desktop with the browser on it, and the elements of its programs."""

    @property
    def browser(self) -> Browser:
        """Return the browser as it is now. Raises SettingsError, DesktopError."""

    def elements(self) -> list[Element]:
        """Return the programs' elements, as `elements.desktop_elements` does. Raises
        DesktopError.
        """


def with_browser(
    desktop: Desktop, find_browser: Callable[[], Browser]
) -> BrowsableDesktop:
    """Return the desktop whose property `browser` calls `find_browser()`."""

    class WithBrowser:
        browser = property(lambda self: find_browser())

        def elements(self) -> list[Element]:
            return desktop_elements(desktop.run)

        def __getattr__(self, name: str) -> Any:
            return getattr(desktop, name)

        def __repr__(self) -> str:
            return f"<desktop {desktop.server}>"

    return cast(BrowsableDesktop, WithBrowser())


def browser_functions(
    find_browser: Callable[[], Browser],
    model_size: Callable[[int, int], Size] = same_size,
) -> tuple[Callable[[], str], Callable[[], str]]:
    """Return `get_browser_state()` and `list_elements()` for a model; `model_size` is
    as in `elements_function`.
    """

    def get_browser_state() -> str:
        """Return the URL, the title and the whole visible text of the page that the
        browser shows.
        """
        browser = find_browser()
        url = cut(browser.url, MAX_NAME)
        title = cut(browser.title, MAX_NAME)
        return f"url: {url}\ntitle: {title}\n{browser.text()}"

    def look() -> tuple[list[Element], Size]:
        browser = find_browser()
        return browser.elements(), browser.window.screen

    return get_browser_state, elements_function(look, model_size)
