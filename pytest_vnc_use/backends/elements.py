"""The elements of a screen: those of a browser's page by DevTools, and those of other
programs by AT-SPI, on a desktop with an X server.

`acted_on_page` and `acted_on_program` read roles and accessible names for reports,
never the content of a field. They move no focus, and do not count as a look of the
test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar, Union

from pydantic import BaseModel, TypeAdapter, ValidationError

from pytest_vnc_use.backends.devtools import Page
from pytest_vnc_use.errors import CommandRefused, DesktopError
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.types import Action, JsonObject, Region
from pytest_vnc_use.types.actions import Point, points
from pytest_vnc_use.types.elements import Element, Elements
from pytest_vnc_use.types.protocols import CommandResult

MAX_NAME = 200
"""The maximum number of characters of a name that a model gets."""
MAX_READ = 10_000
"""The maximum number of characters of a name read for a step. Once secrets are
redacted, it is cut shorter.
"""
MAX_ELEMENTS = 150
NONE_IN_VIEW = "there are no elements in view"
CANNOT_LIST = "the elements cannot be listed"
NONE_LISTED = (NONE_IN_VIEW, CANNOT_LIST)
"""The beginnings of the answers of `list_elements` that list nothing."""
Size = tuple[int, int]
_PROBE = Path(__file__).with_name("accessibility_probe.py")
_PYTHON = "/usr/bin/python3"
"""The system's Python: another one does not find the system's GLib."""


class Node(BaseModel):
    """An element as the probe prints it. `box` is left, top, width and height on the
    screen.
    """

    role: str
    name: str
    focusable: bool
    box: tuple[int, int, int, int]

    @property
    def has_size(self) -> bool:
        """Whether it takes up any pixel."""
        return min(self.box[2:]) > 0

    def element(self) -> Element:
        """Return the node as an element."""
        left, top, width, height = self.box
        role = cut(self.role, MAX_READ)
        name = cut(self.name, MAX_READ)
        return Element(role, name, Region(left, top, left + width, top + height))


_NODES = TypeAdapter(list[Node])
_NODES_OR_NONE = TypeAdapter(list[Union[Node, None]])
Nodes = TypeVar("Nodes")


def desktop_elements(run: Callable[[list[str]], CommandResult]) -> list[Element]:
    """Return the showing elements that have a name or can take the focus, in the order
    of the programs' trees.

    `run` is the `run` of a Desktop. On that desktop, python3-gi and x11-utils are
    installed. `at-spi-bus-launcher` (at-spi2-core) was started before the programs, by
    `dbus-run-session -- sh -c "/usr/libexec/at-spi-bus-launcher --launch-immediately &
    exec PROGRAM"`, for Qt with QT_LINUX_ACCESSIBILITY_ALWAYS_ON=1. Roles are AT-SPI's:
    `push button`. Covered elements are listed too. Raises DesktopError if any of that
    is missing.
    """
    # if nothing can be run, the error names this short command
    run([_PYTHON, "--version"])
    nodes = probe(run, _NODES)
    return [
        node.element()
        for node in nodes
        if (node.name or node.focusable) and node.has_size
    ]


def probe(
    run: Callable[[list[str]], CommandResult],
    adapter: TypeAdapter[Nodes],
    *arguments: str,
) -> Nodes:
    """Run the probe on the desktop, and return the nodes that it prints. Raises
    DesktopError.
    """
    result = run([_PYTHON, "-c", _PROBE.read_text(encoding="utf-8"), *arguments])
    if result.exit_code:
        lines = result.stderr.strip().splitlines()
        reason = lines[-1] if lines else f"exit code {result.exit_code}"
        raise DesktopError(f"the accessibility probe failed on this desktop: {reason}")
    try:
        return adapter.validate_json(result.stdout)
    except ValidationError as exc:
        raise DesktopError(
            f"the accessibility probe printed invalid data: {exc}"
        ) from exc


def acted_on_program(
    run: Callable[[list[str]], CommandResult], action: Action
) -> Elements:
    """Return the element at each of an action's points, None where none is known; for
    text without a point, the element with the focus.

    `run` is as in `desktop_elements`. Raises DesktopError.
    """
    numbers = chain.from_iterable(points(action))
    arguments = list(map(str, numbers)) or ["focus"]
    elements: list[Element | None] = []
    for node in probe(run, _NODES_OR_NONE, *arguments):
        elements.append(node.element() if node and node.has_size else None)
    return tuple(elements)


def same_size(width: int, height: int) -> Size:
    """Return the size as it is, for a model whose coordinates are the screen's
    pixels.
    """
    return width, height


def elements_function(
    look: Callable[[], tuple[list[Element], Size]],
    model_size: Callable[[int, int], Size] = same_size,
) -> Callable[[], str]:
    """Return `list_elements()` for a model.

    `look` returns the elements and the screen's size in pixels, or raises DesktopError.
    `model_size` turns the screen's width and height into those of the model's
    coordinates, such as 1000 and 1000.
    """

    def list_elements() -> str:
        """List the elements in view: number, role, name, point to click, [left, top,
        right, bottom], as you count.
        """
        try:
            elements, screen = look()
        except DesktopError as exc:
            return f"{CANNOT_LIST}: {' '.join(str(exc).split())}"
        width, height = model_size(*screen)
        across = width / screen[0]
        down = height / screen[1]
        lines = []
        for number, element in enumerate(elements[:MAX_ELEMENTS], start=1):
            box = element.box
            name = cut(element.name, MAX_NAME)
            x, y = element.centre
            at = (int(x * across), int(y * down))
            top_left = [int(box.left * across), int(box.top * down)]
            bottom_right = [int(box.right * across), int(box.bottom * down)]
            corners = top_left + bottom_right
            lines.append(f"{number}. {element.role} {name!r} at {at}, {corners}")
        if len(elements) > MAX_ELEMENTS:
            lines.append(f"… and {len(elements) - MAX_ELEMENTS} more")
        return "\n".join(lines) or NONE_IN_VIEW

    return list_elements


_TEXT_ONLY = frozenset(
    {"RootWebArea", "StaticText", "InlineTextBox", "LineBreak", "ListMarker"}
)
_WINDOW = """[
  screenX, screenY, outerWidth, outerHeight, innerWidth, innerHeight, devicePixelRatio, screen.width, screen.height
]"""
_Rectangle = tuple[float, float, float, float]
"""Left, top, right and bottom in CSS pixels, from the top left of the viewport."""
_CONTROLS = frozenset(
    "button checkbox combobox gridcell link listbox menuitem menuitemcheckbox"
    " menuitemradio option radio scrollbar searchbox slider spinbutton switch tab"
    " textbox treeitem PopUpButton ToggleButton DisclosureTriangle".split()
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
"""A script that finds the element with the focus, within shadow trees and frames of the
same site too.
"""


_OPEN_SELECT = f"""(() => {{
  const focused = {_FOCUSED}
  try {{
    return focused && focused.matches("select:open") ? focused : document.querySelector("select:open")
  }} catch {{ return null }}
}})()"""
"""A script that finds the select whose options are shown; older browsers know no
`:open`.
"""
_CHOICE = """function() {
  const option = this.selectedOptions[0]
  return [this.selectedIndex, option ? option.label : ""]
}"""


class Choice(NamedTuple):
    """The chosen option of a select: its number and text, -1 and "" if there is none.

    `select` is the select's node in DevTools.
    """

    select: int
    number: int
    label: str


@dataclass(frozen=True)
class Window:
    """The browser's window on the screen.

    The page begins at `left` and `top`, in pixels of the screen, whose size is
    `screen`. `view` is the page's visible width and height in CSS pixels, `scrolled` how
    far it is scrolled. One CSS pixel is `ratio` pixels of the screen.
    """

    left: float
    top: float
    ratio: float
    view: tuple[float, float]
    scrolled: tuple[float, float]
    screen: tuple[int, int]

    def visible(self, quad: Sequence[float]) -> _Rectangle | None:
        """Return the visible region of a quad (x and y of four corners, in CSS pixels);
        None if there is none.
        """
        xs = [min(max(x, 0), self.view[0]) for x in quad[::2]]
        ys = [min(max(y, 0), self.view[1]) for y in quad[1::2]]
        if max(xs) - min(xs) < 1 or max(ys) - min(ys) < 1:
            return None
        return min(xs), min(ys), max(xs), max(ys)

    def on_screen(self, rectangle: _Rectangle) -> Region:
        """Return the region of the screen that a rectangle of the page takes up."""
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
    (
        x,
        y,
        outer_width,
        outer_height,
        width,
        height,
        ratio,
        screen_width,
        screen_height,
    ) = page.evaluate(_WINDOW)
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
    """Return the elements that have a name or can take the focus, and can be seen.
    Raises DesktopError.

    They are in the order of the accessibility tree. Text of several lines has the box
    of its first line.
    """
    window = window_of(page)
    nodes: list[JsonObject] = []
    parents: dict[int, int] = {}
    frames = [page.call("Page.getFrameTree")["frameTree"]]
    while frames:
        frame = frames.pop()
        frames += reversed(frame.get("childFrames", ()))
        frame_id = frame["frame"]["id"]
        try:
            answer = page.call("Accessibility.getFullAXTree", frameId=frame_id)
        except CommandRefused:  # the frame is gone
            continue
        # the other nodes belong to no node of the DOM
        tree = [node for node in answer["nodes"] if "backendDOMNodeId" in node]
        dom_ids = {node["nodeId"]: node["backendDOMNodeId"] for node in tree}
        for node in tree:
            parent = dom_ids.get(node.get("parentId"), 0)
            parents[node["backendDOMNodeId"]] = parent
        nodes += filter(_is_listed, tree)
    wanted = [{"backendNodeId": node["backendDOMNodeId"]} for node in nodes]
    answers = page.call_each("DOM.getContentQuads", wanted)
    visible: list[tuple[JsonObject, _Rectangle]] = []
    for node, quads in zip(nodes, answers, strict=True):
        rectangle = None
        if quads and quads["quads"]:
            rectangle = window.visible(quads["quads"][0])
        if rectangle:
            visible.append((node, rectangle))
    clicks = [
        {
            "x": int(window.scrolled[0] + (left + right) / 2),
            "y": int(window.scrolled[1] + (top + bottom) / 2),
            "ignorePointerEventsNone": True,
        }
        for _, (left, top, right, bottom) in visible
    ]
    hits = page.call_each("DOM.getNodeForLocation", clicks)
    elements = []
    for (node, rectangle), hit in zip(visible, hits, strict=True):
        at_centre = hit["backendNodeId"] if hit else 0
        if _is_at(node["backendDOMNodeId"], at_centre, parents):
            role = _value(node, "role")
            name = _value(node, "name")
            elements.append(Element(role, name, window.on_screen(rectangle)))
    return elements


def _is_listed(node: JsonObject) -> bool:
    if node["ignored"] or _value(node, "role") in _TEXT_ONLY:
        return False
    return bool(_value(node, "name")) or any(
        entry["name"] == "focusable" for entry in node.get("properties", ())
    )


def _value(node: JsonObject, field: str) -> str:
    return str(node.get(field, {}).get("value", ""))


def _is_at(element: int, hit: int, parents: Mapping[int, int]) -> bool:
    """Return whether the node `hit` is in the element, or has the same parent, as a
    label does; True if that is unknown.
    """
    if hit not in parents:
        return True
    candidates = {element, parents[element]}
    while hit in parents:
        if hit in candidates:
            return True
        hit = parents[hit]
    return False


def acted_on_page(page: Page, action: Action) -> Elements:
    """Return the element at each of an action's points, None for a point off the page
    or without a known element; for text without a point, the element with the focus.

    Raises DesktopError.
    """
    window = window_of(page)
    action_points = points(action)
    if not action_points:
        return (_focused_element(page, window),)
    return tuple(_at(page, window, x, y) for x, y in action_points)


def _at(page: Page, window: Window, x: int, y: int) -> Element | None:
    left = (x - window.left) / window.ratio
    top = (y - window.top) / window.ratio
    if not (0 <= left < window.view[0] and 0 <= top < window.view[1]):
        return None
    point = {"x": int(window.scrolled[0] + left), "y": int(window.scrolled[1] + top)}
    hit = page.call("DOM.getNodeForLocation", **point)["backendNodeId"]
    answer = page.call(
        "Accessibility.getPartialAXTree", backendNodeId=hit, fetchRelatives=True
    )
    node = _choose(answer["nodes"])
    if node is None or _is_covered(page, hit, node):
        return None
    return _element(page, window, node, Region(x, y, x + 1, y + 1))


def _is_covered(page: Page, hit: int, node: JsonObject) -> bool:
    """Return whether the options of a select may cover the node at a point."""
    if _value(node, "role") == "option":
        return False
    choice = open_choice(page)
    return choice is not None and choice.select != hit


def open_choice(page: Page) -> Choice | None:
    """Return the choice in the `select` whose options are shown; None if none are.
    Raises DesktopError.

    Chromium shows the options in a separate window, whose content DevTools does not
    know.
    """
    opened = page.call("Runtime.evaluate", expression=_OPEN_SELECT)["result"]
    if "objectId" not in opened:
        return None
    node = page.call("DOM.describeNode", objectId=opened["objectId"])["node"]
    return _choice_of(page, node["backendNodeId"])


def chosen_since(page: Page, before: Choice, at: Point) -> Elements:
    """Return the option that the click at a point chose; none if it chose none. Raises
    DesktopError.
    """
    now = _choice_of(page, before.select)
    if now == before:
        return ()
    x, y = at
    return (Element("option", cut(now.label, MAX_READ), Region(x, y, x + 1, y + 1)),)


def _choice_of(page: Page, select: int) -> Choice:
    node = page.call("DOM.resolveNode", backendNodeId=select)["object"]
    answer = page.call(
        "Runtime.callFunctionOn",
        objectId=node["objectId"],
        functionDeclaration=_CHOICE,
        returnByValue=True,
    )
    number, label = answer["result"]["value"]
    return Choice(select, number, label)


def _focused_element(page: Page, window: Window) -> Element | None:
    focused = page.call("Runtime.evaluate", expression=_FOCUSED)["result"]
    if "objectId" not in focused:
        return None
    answer = page.call(
        "Accessibility.getPartialAXTree",
        objectId=focused["objectId"],
        fetchRelatives=False,
    )
    nodes: list[JsonObject] = answer["nodes"]
    if not nodes or nodes[0]["ignored"] or _value(nodes[0], "role") == "RootWebArea":
        return None
    return _element(page, window, nodes[0], None)


def _choose(nodes: Sequence[JsonObject]) -> JsonObject | None:
    """Return the node that a user would name for a click.

    That is a field or control among the node and its ancestors, else the node, its
    text, or the nearest ancestor with a name.
    """
    by_id = {node["nodeId"]: node for node in nodes}
    lineage: list[JsonObject] = []
    node = nodes[0] if nodes else None
    while node is not None:  # the first node and its ancestors
        if not node["ignored"]:
            lineage.append(node)
        node = by_id.pop(node.get("parentId", ""), None)
    fields = [node for node in lineage if _has(node, "editable")]
    if fields:  # text inside a field is its value
        return next((node for node in fields if _has(node, "focusable")), fields[-1])
    controls = [node for node in lineage if _value(node, "role") in _CONTROLS]
    texts = [node for node in nodes[1:] if _value(node, "role") == "StaticText"]
    in_page = [node for node in lineage if _value(node, "role") != "RootWebArea"]
    named = [node for node in in_page if _value(node, "name")]
    clicked = [node for node in lineage[:1] if node in named]
    return next(iter([*controls, *clicked, *texts, *named]), None)


def _element(
    page: Page, window: Window, node: JsonObject, fallback: Region | None
) -> Element | None:
    """Return a node as an element, with the box `fallback` if the node has none; None if
    no box is known.
    """
    answers = page.call_each(
        "DOM.getContentQuads", [{"backendNodeId": node.get("backendDOMNodeId", 0)}]
    )
    quads = answers[0]["quads"] if answers[0] else []
    rectangle = window.visible(quads[0]) if quads else None
    box = window.on_screen(rectangle) if rectangle else fallback
    role = _value(node, "role")
    name = _value(node, "name")
    if _has(node, "editable"):
        role = "textbox" if role in _NAMELESS_ROLES else role
        name = "" if name == _value(node, "value") else name
    role = "text" if role == "StaticText" else role
    return Element(cut(role, MAX_READ), cut(name, MAX_READ), box) if box else None


def _has(node: JsonObject, name: str) -> bool:
    return any(
        entry["name"] == name and entry["value"].get("value")
        for entry in node.get("properties", ())
    )
