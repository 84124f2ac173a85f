"""Find the element of a page that an action will act on. Only reports show it.

It reads roles and accessible names, never what a field holds. It moves no focus, and does not count as a look of the
test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_vnc_use.backends.accessibility.elements import MOST_READ
from pytest_vnc_use.backends.browser.cdp import Page
from pytest_vnc_use.backends.browser.devtools import Browser
from pytest_vnc_use.backends.browser.elements import Window, window_of
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.types import Action, Drag, JsonObject, Region, TypeText
from pytest_vnc_use.types.elements import Element, Elements

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


def acted_on(browser: Browser, action: Action) -> Elements:
    """Return the elements at an action's points; for text without a point, the one with the focus.

    None stands for a point off the page, or without a known element. Raises DesktopError.
    """
    with browser.open_shown_page() as page:
        window = window_of(page)
        match action:
            case Drag(x=x, y=y, to_x=to_x, to_y=to_y):
                return _at(page, window, x, y), _at(page, window, to_x, to_y)
            case TypeText(x=None) | TypeText(y=None):
                return (_focused(page, window),)
            case _:
                return (_at(page, window, getattr(action, "x", -1), getattr(action, "y", -1)),)


def _at(page: Page, window: Window, x: int, y: int) -> Element | None:
    left, top = (x - window.left) / window.ratio, (y - window.top) / window.ratio
    if not (0 <= left < window.view[0] and 0 <= top < window.view[1]):
        return None
    place = {"x": int(window.scrolled[0] + left), "y": int(window.scrolled[1] + top)}
    hit = page.call("DOM.getNodeForLocation", **place)["backendNodeId"]
    nodes = page.call("Accessibility.getPartialAXTree", backendNodeId=hit, fetchRelatives=True)["nodes"]
    return _element(page, window, _chosen(nodes), Region(x, y, x + 1, y + 1))


def _focused(page: Page, window: Window) -> Element | None:
    found = page.call("Runtime.evaluate", expression=_FOCUSED)["result"]
    if "objectId" not in found:
        return None
    nodes = page.call("Accessibility.getPartialAXTree", objectId=found["objectId"], fetchRelatives=False)["nodes"]
    is_page = not nodes or _text(nodes[0], "role") == "RootWebArea" or nodes[0]["ignored"]
    return None if is_page else _element(page, window, nodes[0], None)


def _chosen(nodes: Sequence[JsonObject]) -> JsonObject | None:
    """Return the node that a person would name for a click.

    That is a field or control among the node and its ancestors, else the node, its text, or the nearest ancestor with a
    name.
    """
    chain = [node for node in _chain(nodes) if not node["ignored"]]
    fields = [node for node in chain if _has(node, "editable")]
    if fields:  # text inside a field is its value
        return next((node for node in fields if _has(node, "focusable")), fields[-1])
    controls = [node for node in chain if _text(node, "role") in _CONTROLS]
    texts = [node for node in nodes[1:] if _text(node, "role") == "StaticText"]
    named = [node for node in chain if _text(node, "name") and _text(node, "role") != "RootWebArea"]
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
    role, name = _text(node, "role"), _text(node, "name")
    if _has(node, "editable"):
        role = "textbox" if role in _NAMELESS_ROLES else role
        name = "" if name == _text(node, "value") else name
    role = "text" if role == "StaticText" else role
    return Element(cut(role, MOST_READ), cut(name, MOST_READ), box) if box else None


def _has(node: JsonObject, name: str) -> bool:
    return any(each["name"] == name and each["value"].get("value") for each in node.get("properties", ()))


def _text(node: JsonObject, field: str) -> str:
    return str(node.get(field, {}).get("value", ""))
