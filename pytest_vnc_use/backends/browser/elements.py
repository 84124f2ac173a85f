"""The elements of a page with their boxes on the screen, from Chrome's accessibility tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_vnc_use.backends.accessibility.elements import Element
from pytest_vnc_use.backends.browser.cdp import Page
from pytest_vnc_use.errors import CommandRefused
from pytest_vnc_use.types import JsonObject, Region

_TEXT_ONLY = frozenset({"RootWebArea", "StaticText", "InlineTextBox", "LineBreak", "ListMarker"})
_WINDOW = """[
  screenX, screenY, outerWidth, outerHeight, innerWidth, innerHeight, devicePixelRatio, screen.width, screen.height
]"""
_Rectangle = tuple[float, float, float, float]
"""Left, top, right and bottom in the page's own (CSS) pixels, from the top left of the visible part."""


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


# --- covered elements ------------------------------------------------------------------------------------------------


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
