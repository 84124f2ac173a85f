"""The browser on a desktop, through Chrome DevTools: its page's text, its address, and the elements to click.

`acted_on` reads roles and accessible names for reports, never what a field holds. It moves no focus, and does not count
as a look of the test.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

from pytest_vnc_use.backends.accessibility import (
    MOST_NAME,
    MOST_READ,
    Size,
    cut_name,
    desktop_elements,
    elements_function,
    same_size,
)
from pytest_vnc_use.backends.devtools import (
    DevToolsAddress,
    Page,
    PageTarget,
    endpoint_of,
    find_pages,
    find_websocket,
    open_page,
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
from pytest_vnc_use.types import LOOK, Action, Drag, HistoryDirection, JsonObject, Region, TypeText
from pytest_vnc_use.types.elements import Element, Elements
from pytest_vnc_use.types.protocols import Desktop

MOST_TEXT = 6000
"""The most characters of a page's text that a model gets."""
_POLL_S = 0.05
_PORT_FILE = "DevToolsActivePort"
_ASK_VISIBLE = 0.2
"""The share of the timeout for asking a page whether it is visible."""
_MOST_EXCERPT = 300
_SPACES = re.compile(r"[ \t\r\n\f]+")
"""White space that a page shows as one space; a no-break space is none, so that a message tells it from a space."""
"""The most characters of the page's text in the message of `wait_for_text`."""

_TEXT = "document.body ? document.body.innerText : ''"
_LOADED = """new Promise(done => {
  if (document.readyState === "complete") return done()
  addEventListener("load", () => done())
  setTimeout(done, %d)
})"""
_SHOWS = """new Promise(done => {
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
"""A script that looks again whenever the document changes.

It resolves to `shown`, `late`, or `hidden` if another tab is shown.
"""

T = TypeVar("T")
_TEXT_ONLY = frozenset({"RootWebArea", "StaticText", "InlineTextBox", "LineBreak", "ListMarker"})
_WINDOW = """[
  screenX, screenY, outerWidth, outerHeight, innerWidth, innerHeight, devicePixelRatio, screen.width, screen.height
]"""
_Rectangle = tuple[float, float, float, float]
"""Left, top, right and bottom in the page's own (CSS) pixels, from the top left of the visible part."""
_CONTROLS = frozenset(
    "button checkbox combobox gridcell link listbox menuitem menuitemcheckbox menuitemradio option radio scrollbar "
    "searchbox slider spinbutton switch tab textbox treeitem PopUpButton ToggleButton DisclosureTriangle".split()
)
_NAMELESS_ROLES = frozenset({"", "none", "generic", "presentation"})
_FOCUSED = """(() => {
  let element = document.hasFocus() ? document.activeElement : null
  for (let inner; element; element = inner) {
    inner = element.shadowRoot && element.shadowRoot.activeElement
    try { inner = inner || (element.contentDocument && element.contentDocument.activeElement) } catch {}
    if (!inner) return element
  }
  return null
})()"""
"""A script that finds the element with the focus, within shadow trees and frames of the same site too."""


class Browser:
    """The browser whose DevTools listen at `address`: `host:port` or `http://host:port`.

    Each call asks the page that is shown now: of several tabs the visible one, of several windows the one last used. A
    call takes `timeout_s` at most. It raises DesktopError if no browser answers, if no page is open, or if the page has
    crashed, was closed, or does not answer.
    """

    def __init__(self, address: str, *, timeout_s: float = 10.0) -> None:
        """Parse the address; nothing is connected yet. Raises SettingsError if the address makes no sense."""
        self.address = address
        self._endpoint = endpoint_of(address)
        self._timeout_s = timeout_s

    # --- the page ---

    @property
    def url(self) -> str:
        """The address of the page."""
        return str(self._entry()["url"])

    @property
    def title(self) -> str:
        """The title of the page."""
        return str(self._entry()["title"])

    def text(self) -> str:
        """Return the page's visible text, as the DOM's `innerText` has it: without the text in fields and frames."""
        return str(self._read(lambda page: page.evaluate(_TEXT)))

    def html(self) -> str:
        """Return the page's DOM as it is now, as HTML; with hidden parts, without the content of frames."""
        return str(self._read(lambda page: page.evaluate("document.documentElement.outerHTML")))

    def wait_for_text(self, text: str, within_s: float = 10.0) -> None:
        """Wait until `text` is in the page's visible text, whatever page is shown by then.

        Raises ProductFailed if the text does not appear within `within_s`, and DesktopError as every call does.
        """
        deadline = Deadline(within_s)
        answer = ""
        while answer != "shown":
            if answer == "late":
                page_text = _SPACES.sub(" ", self.text()).strip(" ")
                excerpt = page_text if len(page_text) <= _MOST_EXCERPT else page_text[:_MOST_EXCERPT] + " …"
                raise ProductFailed(f"the page did not show {text!r} within {within_s:g} s. It showed {excerpt!r}")
            try:
                answer = self._shows(text, deadline)
            except PageGone:
                if not deadline.remaining_s:
                    raise

    def elements(self) -> list[Element]:
        """Return the elements of Chrome's accessibility tree that have a name or can take the focus.

        Only elements that can be seen are listed: in view, and not under something else. They are in the order of the
        tree. Elements in frames from other sites are not listed.
        """
        return self._read(elements_of)

    @property
    def window(self) -> Window:
        """Return the place of the page on the screen, and the size of the screen."""
        return self._read(window_of)

    # --- navigation ---

    def navigate(self, address: str) -> None:
        """Open an address, and wait until the page has loaded or `timeout_s` are over.

        Raises ActionError if it cannot be opened (`net::ERR_CONNECTION_REFUSED`). Raises CommandRefused, a
        DesktopError, if DevTools does not take it: an address without `https://` is a person's spelling.
        """
        deadline = Deadline(self._timeout_s)
        with self._visible_page(deadline) as page:
            answer = page.call("Page.navigate", url=address)
            if answer.get("errorText") and not answer.get("isDownload"):
                raise ActionError(f"the browser cannot open {address!r}: {answer['errorText']}")
            _wait_loaded(page, deadline)

    def open_window(self, address: str) -> None:
        """Open an address in a new window, and wait for it as `navigate` does."""
        deadline = Deadline(self._timeout_s)
        with self._visible_page(deadline) as page:
            made = page.call("Target.createTarget", url=address, newWindow=True)
        with open_page(self._endpoint, PageTarget(made["targetId"], address), deadline) as page:
            _wait_loaded(page, deadline)

    def back(self) -> None:
        """Go to the page before, and wait for it as `navigate` does. Raises ActionError if there is none."""
        self.traverse("back")

    def forward(self) -> None:
        """Go to the page after, and wait for it as `navigate` does. Raises ActionError if there is none."""
        self.traverse("forward")

    def traverse(self, direction: HistoryDirection) -> None:
        """Go back or forward, as `back()` and `forward()` do."""
        deadline = Deadline(self._timeout_s)
        with self._visible_page(deadline) as page:
            history = page.call("Page.getNavigationHistory")
            index = history["currentIndex"] + (1 if direction == "forward" else -1)
            if not 0 <= index < len(history["entries"]):
                raise ActionError(f"the browser cannot go {direction}: there is no such page in its history")
            page.call("Page.enable")
            page.call("Page.navigateToHistoryEntry", entryId=history["entries"][index]["id"])
            page.wait_event("Page.frameNavigated", "Page.navigatedWithinDocument")
            _wait_loaded(page, deadline)

    # --- the choice of the page ---

    @contextmanager
    def open_visible_page(self) -> Iterator[Page]:
        """Open the page that is shown, for this package's own questions: they do not count as looks of the test."""
        with self._visible_page(Deadline(self._timeout_s)) as page:
            yield page

    def _read(self, ask: Callable[[Page], T]) -> T:
        """Return the shown page's answer; if it closes, ask the page that shows then. So `ask` must change nothing."""
        deadline = Deadline(self._timeout_s)
        gone: PageTarget | None = None
        while True:
            page_target = self._find_page(deadline)
            try:
                with open_page(self._endpoint, page_target, deadline) as page:
                    answer = ask(page)
                sys.audit(LOOK, "browser")
                return answer
            except PageGone:
                if page_target == gone or not deadline.remaining_s:
                    raise
                gone = page_target

    def _entry(self) -> JsonObject:
        history = self._read(lambda page: page.call("Page.getNavigationHistory"))
        entry: JsonObject = history["entries"][history["currentIndex"]]
        return entry

    def _shows(self, text: str, deadline: Deadline) -> str:
        """Return `shown`, `late`, or `hidden` if another page must be asked."""
        with self._visible_page(Deadline(deadline.remaining_s + self._timeout_s)) as page:
            answer = str(page.evaluate(_SHOWS % (json.dumps(text), deadline.remaining_s * 1000)))
        sys.audit(LOOK, "browser")
        return answer

    @contextmanager
    def _visible_page(self, deadline: Deadline) -> Iterator[Page]:
        with open_page(self._endpoint, self._find_page(deadline), deadline) as page:
            yield page

    def _find_page(self, deadline: Deadline) -> PageTarget:
        targets = find_pages(self._endpoint, deadline)
        if not targets:
            raise DesktopError(f"the browser at {self.address!r} has no page open")
        candidates = targets if len(targets) > 1 else ()
        return next((each for each in candidates if _is_visible(self._endpoint, each, deadline)), targets[0])


def browser_at(cdp: str, read_file: Callable[[str], str], *, timeout_s: float = 10.0) -> Browser:
    """Return the browser that the setting `cdp` names: its address, or the file DevToolsActivePort in its profile.

    Chrome writes that file where it is started with `--remote-debugging-port=0`; `read_file` reads it from the desktop,
    on this machine. Raises SettingsError if `cdp` is empty or makes no sense, DesktopError if there is no file.
    """
    if not cdp:
        raise SettingsError(
            "vnc_cdp must be the address of Chrome's DevTools, got ''. Start Chrome with "
            "--remote-debugging-port=9222 and pass -o vnc_cdp=127.0.0.1:9222. No other program's page can be read"
        )
    if not cdp.endswith(_PORT_FILE):
        return Browser(cdp, timeout_s=timeout_s)
    try:
        port, _, _ = read_file(cdp).partition("\n")
    except (FileNotFoundError, FileUnreadable) as exc:
        raise DesktopError(f"no browser has been started with --remote-debugging-port=0 yet: {exc}") from exc
    return Browser(f"127.0.0.1:{port}", timeout_s=timeout_s)


def await_devtools(browser: Callable[[], Browser], limit_s: float, is_over: Callable[[], bool]) -> str:
    """Return the WebSocket of `browser()`'s DevTools, once they listen. Raises DesktopError.

    Playwright asks an `http://` address through the proxy of the environment, but not a `ws://` one.
    A desktop whose browser has not started yet has no `browser()`: it raises DesktopError. `is_over` says that waiting
    is in vain.
    """
    deadline = Deadline(limit_s)
    while True:
        try:
            return find_websocket(endpoint_of(browser().address), deadline)
        except DesktopError:
            if is_over() or not deadline.remaining_s:
                raise
            time.sleep(_POLL_S)  # a port, and a file on the desktop, have no event to wait for


def _is_visible(endpoint: DevToolsAddress, target: PageTarget, deadline: Deadline) -> bool:
    """Return whether a page is visible.

    A page that cannot say counts as visible: a dialog or a crash silences the page in front.
    """
    try:
        with open_page(endpoint, target, Deadline(deadline.remaining_s * _ASK_VISIBLE)) as page:
            return bool(page.evaluate("document.visibilityState") != "hidden")
    except PageGone:
        return False
    except DesktopError:
        return True


def _wait_loaded(page: Page, deadline: Deadline) -> None:
    """Wait until the document has loaded, or nearly all the time is used.

    A page that never stops loading can be used too.
    """
    page.evaluate(_LOADED % (deadline.remaining_s * 900))


@dataclass(frozen=True)
class Window:
    """The browser's window: where the page begins on the screen, in pixels, and the sizes of page and screen.

    `view` is the page's visible width and height in its own (CSS) pixels. `scrolled` is the part left of and above it.
    One pixel of the page is `ratio` pixels of the screen.
    """

    left: float
    top: float
    ratio: float
    view: tuple[float, float]
    scrolled: tuple[float, float]
    screen: tuple[int, int]

    def visible(self, quad: Sequence[float]) -> _Rectangle | None:
        """Return the visible part of a quad (x and y of four corners, in the page's pixels); None if there is none."""
        left, right = (min(max(x, 0), self.view[0]) for x in (min(quad[::2]), max(quad[::2])))
        top, bottom = (min(max(y, 0), self.view[1]) for y in (min(quad[1::2]), max(quad[1::2])))
        return (left, top, right, bottom) if right - left >= 1 and bottom - top >= 1 else None

    def on_screen(self, rectangle: _Rectangle) -> Region:
        """Return the region of the screen that a part of the page takes up."""
        left, top, right, bottom = rectangle
        return Region(
            round(self.left + left * self.ratio),
            round(self.top + top * self.ratio),
            round(self.left + right * self.ratio),
            round(self.top + bottom * self.ratio),
        )


def window_of(page: Page) -> Window:
    """Return the window that shows the page.

    Its bars are assumed to be on top, and its borders equal on the other sides.
    """
    x, y, outer_width, outer_height, width, height, ratio, screen_width, screen_height = page.evaluate(_WINDOW)
    viewport = page.call("Page.getLayoutMetrics")["cssVisualViewport"]
    scale = ratio / viewport["zoom"]
    border = (outer_width - width * viewport["zoom"]) / 2
    bars = outer_height - height * viewport["zoom"] - border
    return Window(
        (x + border) * scale,
        (y + bars) * scale,
        ratio,
        view=(width, height),
        scrolled=(viewport["pageX"], viewport["pageY"]),
        screen=(round(screen_width * scale), round(screen_height * scale)),
    )


def elements_of(page: Page) -> list[Element]:
    """Return the elements that have a name or can take the focus, and can be seen. Raises DesktopError.

    They are in the order of the accessibility tree.
    """
    window = window_of(page)
    trees = [_tree(page, frame) for frame in _frames(page.call("Page.getFrameTree")["frameTree"])]
    placed = list(_places(page, window, (node for tree in trees for node in tree if _is_telling(node))))
    parents = {child: parent for tree in trees for child, parent in _parents(tree)}
    met = _nodes_hit(page, window, [rectangle for _, rectangle in placed])
    return [
        Element(_value(node, "role"), _value(node, "name"), window.on_screen(rectangle))
        for (node, rectangle), hit in zip(placed, met, strict=True)
        if _is_at(node["backendDOMNodeId"], hit, parents)
    ]


def _frames(tree: JsonObject) -> Iterator[str]:
    yield tree["frame"]["id"]
    for child in tree.get("childFrames", ()):
        yield from _frames(child)


def _tree(page: Page, frame: str) -> list[JsonObject]:
    """Return the nodes of a frame that stand for one of the DOM; none if the frame is gone."""
    try:
        nodes = page.call("Accessibility.getFullAXTree", frameId=frame)["nodes"]
    except CommandRefused:
        return []
    return [node for node in nodes if "backendDOMNodeId" in node]


def _is_telling(node: JsonObject) -> bool:
    if node["ignored"] or _value(node, "role") in _TEXT_ONLY:
        return False
    return bool(_value(node, "name")) or any(each["name"] == "focusable" for each in node.get("properties", ()))


def _value(node: JsonObject, field: str) -> str:
    return str(node.get(field, {}).get("value", ""))


def _places(page: Page, window: Window, nodes: Iterable[JsonObject]) -> Iterator[tuple[JsonObject, _Rectangle]]:
    """Yield the nodes that are in view, and their places; text of several lines has the place of its first line."""
    nodes = list(nodes)
    answers = page.call_each("DOM.getContentQuads", [{"backendNodeId": node["backendDOMNodeId"]} for node in nodes])
    for node, answer in zip(nodes, answers, strict=True):
        rectangle = window.visible(answer["quads"][0]) if answer and answer["quads"] else None
        if rectangle is not None:
            yield node, rectangle


def _nodes_hit(page: Page, window: Window, rectangles: Iterable[_Rectangle]) -> list[int]:
    """Return the number of the DOM node that a click in the middle of each rectangle meets; 0 if it is unknown."""
    points = (
        {
            "x": int(window.scrolled[0] + (left + right) / 2),
            "y": int(window.scrolled[1] + (top + bottom) / 2),
            "ignorePointerEventsNone": True,
        }
        for left, top, right, bottom in rectangles
    )
    answers = page.call_each("DOM.getNodeForLocation", points)
    return [answer["backendNodeId"] if answer else 0 for answer in answers]


def _parents(tree: Sequence[JsonObject]) -> Iterator[tuple[int, int]]:
    """Return each DOM node of a frame with its parent."""
    numbers = {node["nodeId"]: node["backendDOMNodeId"] for node in tree}
    return ((number, numbers.get(node.get("parentId"), 0)) for node, number in zip(tree, numbers.values(), strict=True))


def _is_at(element: int, hit: int, parents: Mapping[int, int]) -> bool:
    """Return whether the node `hit` belongs to the element, or stands beside it as a label does; True if unknown."""
    if hit not in parents:
        return True
    places = {element, parents[element]}
    while hit in parents:
        if hit in places:
            return True
        hit = parents[hit]
    return False


def acted_on(browser: Browser, action: Action) -> Elements:
    """Return the elements at an action's points; for text without a point, the one with the focus.

    None stands for a point off the page, or without a known element. Raises DesktopError.
    """
    with browser.open_visible_page() as page:
        window = window_of(page)
        match action:
            case Drag(x=x, y=y, to_x=to_x, to_y=to_y):
                return _at(page, window, x, y), _at(page, window, to_x, to_y)
            case TypeText(x=None) | TypeText(y=None):
                return (_focused_element(page, window),)
            case _:
                return (_at(page, window, getattr(action, "x", -1), getattr(action, "y", -1)),)


def _at(page: Page, window: Window, x: int, y: int) -> Element | None:
    left, top = (x - window.left) / window.ratio, (y - window.top) / window.ratio
    if not (0 <= left < window.view[0] and 0 <= top < window.view[1]):
        return None
    place = {"x": int(window.scrolled[0] + left), "y": int(window.scrolled[1] + top)}
    hit = page.call("DOM.getNodeForLocation", **place)["backendNodeId"]
    nodes = page.call("Accessibility.getPartialAXTree", backendNodeId=hit, fetchRelatives=True)["nodes"]
    return _element(page, window, _choose(nodes), Region(x, y, x + 1, y + 1))


def _focused_element(page: Page, window: Window) -> Element | None:
    found = page.call("Runtime.evaluate", expression=_FOCUSED)["result"]
    if "objectId" not in found:
        return None
    nodes = page.call("Accessibility.getPartialAXTree", objectId=found["objectId"], fetchRelatives=False)["nodes"]
    is_page = not nodes or _value(nodes[0], "role") == "RootWebArea" or nodes[0]["ignored"]
    return None if is_page else _element(page, window, nodes[0], None)


def _choose(nodes: Sequence[JsonObject]) -> JsonObject | None:
    """Return the node that a person would name for a click.

    That is a field or control among the node and its ancestors, else the node, its text, or the nearest ancestor with a
    name.
    """
    chain = [node for node in _chain(nodes) if not node["ignored"]]
    fields = [node for node in chain if _has(node, "editable")]
    if fields:  # text inside a field is its value
        return next((node for node in fields if _has(node, "focusable")), fields[-1])
    controls = [node for node in chain if _value(node, "role") in _CONTROLS]
    texts = [node for node in nodes[1:] if _value(node, "role") == "StaticText"]
    named = [node for node in chain if _value(node, "name") and _value(node, "role") != "RootWebArea"]
    own = [node for node in chain[:1] if node in named]
    return next(iter([*controls, *own, *texts, *named]), None)


def _chain(nodes: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Yield the first node and its ancestors, innermost first."""
    by_id = {node["nodeId"]: node for node in nodes}
    node = nodes[0] if nodes else None
    while node is not None:
        yield node
        node = by_id.pop(node.get("parentId", ""), None)


def _element(page: Page, window: Window, node: JsonObject | None, place: Region | None) -> Element | None:
    """Return a node as an element. Its box is `place` if it has none; None if no box is known."""
    if node is None:
        return None
    answers = page.call_each("DOM.getContentQuads", [{"backendNodeId": node.get("backendDOMNodeId", 0)}])
    quads = answers[0]["quads"] if answers[0] else []
    rectangle = window.visible(quads[0]) if quads else None
    box = window.on_screen(rectangle) if rectangle else place
    role, name = _value(node, "role"), _value(node, "name")
    if _has(node, "editable"):
        role = "textbox" if role in _NAMELESS_ROLES else role
        name = "" if name == _value(node, "value") else name
    role = "text" if role == "StaticText" else role
    return Element(cut(role, MOST_READ), cut(name, MOST_READ), box) if box else None


def _has(node: JsonObject, name: str) -> bool:
    return any(each["name"] == name and each["value"].get("value") for each in node.get("properties", ()))


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


def browser_functions(
    browser: Callable[[], Browser], model_size: Callable[[int, int], Size] = same_size
) -> tuple[Callable[[], str], Callable[[], str]]:
    """Return `get_browser_state()` and `list_elements()` for a model; `model_size` is as in `elements_function`."""

    def get_browser_state() -> str:
        """Return the address, the title and the visible text of the page that the browser shows."""
        now = browser()
        address, title, text = (
            cut_name(now.url, MOST_NAME),
            cut_name(now.title, MOST_NAME),
            cut_name(now.text(), MOST_TEXT),
        )
        return f"address: {address}\ntitle: {title}\n{text}"

    def look() -> tuple[list[Element], Size]:
        now = browser()
        return now.elements(), now.window.screen

    return get_browser_state, elements_function(look, model_size)
