"""The elements of programs that are no browser, from the accessibility tree (AT-SPI) of a desktop on X.

`acted_on` reads roles and accessible names for reports, never what a field holds, and it moves no focus.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, Union

from pydantic import BaseModel, TypeAdapter, ValidationError

from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.types import Action, Region
from pytest_vnc_use.types.actions import points
from pytest_vnc_use.types.elements import Element, Elements
from pytest_vnc_use.types.protocols import Ran

MOST_NAME = 200
"""The most characters of a name that a model gets."""
MOST_READ = 10_000
"""The most characters of a name that are read for a step. Once secrets are removed, it is cut shorter."""
MOST_ELEMENTS = 150
Size = tuple[int, int]
_PROBE = Path(__file__).with_name("accessibility_probe.py")
_PYTHON = "/usr/bin/python3"
"""The system's Python: another one does not find the system's GLib."""


class Node(BaseModel):
    """An element as the probe prints it. `box` is left, top, width and height on the screen."""

    role: str
    name: str
    focusable: bool
    box: tuple[int, int, int, int]


_NODES, _NODES_OR_NONE = TypeAdapter(list[Node]), TypeAdapter(list[Union[Node, None]])
Nodes = TypeVar("Nodes")


def desktop_elements(run: Callable[[list[str]], Ran]) -> list[Element]:
    """Return the showing elements that have a name or can take the focus, in the order of the programs' trees.

    `run` is the `run` of a Desktop. On that desktop, python3-gi and x11-utils are installed. `at-spi-bus-launcher`
    (at-spi2-core) was started before the programs, by `dbus-run-session -- sh -c "/usr/libexec/at-spi-bus-launcher
    --launch-immediately & exec PROGRAM"`, for Qt with QT_LINUX_ACCESSIBILITY_ALWAYS_ON=1. Roles are AT-SPI's: `push
    button`. Elements that are under something else are listed too. Raises DesktopError if a part of that is missing.
    """
    run([_PYTHON, "--version"])  # if nothing can be run there, the error names this short command
    nodes = probe(run, _NODES)
    return [element_of(node) for node in nodes if (node.name or node.focusable) and min(node.box[2:]) > 0]


def probe(run: Callable[[list[str]], Ran], form: TypeAdapter[Nodes], *asked: str) -> Nodes:
    """Run the probe on the desktop, and return the nodes that it prints. Raises DesktopError."""
    ran = run([_PYTHON, "-c", _PROBE.read_text(encoding="utf-8"), *asked])
    if ran.exit_code:
        reason = (ran.stderr.strip().splitlines() or [f"exit code {ran.exit_code}"])[-1]
        raise DesktopError(f"the accessibility probe failed on this desktop: {reason}")
    try:
        return form.validate_json(ran.stdout)
    except ValidationError as exc:
        raise DesktopError(f"the accessibility probe printed invalid data: {exc}") from exc


def element_of(node: Node) -> Element:
    """Return a node as an element."""
    left, top, width, height = node.box
    return Element(node.role, node.name, Region(left, top, left + width, top + height))


def acted_on(run: Callable[[list[str]], Ran], action: Action) -> Elements:
    """Return the elements at an action's points; for text without a point, the one with the focus.

    None stands for a point without a known element. `run` is as in `desktop_elements`. Raises DesktopError.
    """
    asked = [str(number) for point in points(action) for number in point] or ["focus"]
    return tuple(
        element_of(node.model_copy(update={"role": cut(node.role, MOST_READ), "name": cut(node.name, MOST_READ)}))
        if node and min(node.box[2:]) > 0
        else None
        for node in probe(run, _NODES_OR_NONE, *asked)
    )


def same_size(width: int, height: int) -> Size:
    """Return the size as it is, for a model whose coordinates are the screen's pixels."""
    return width, height


def elements_function(
    look: Callable[[], tuple[list[Element], Size]], model_size: Callable[[int, int], Size] = same_size
) -> Callable[[], str]:
    """Return `list_elements()` for a model.

    `look` returns the elements and the screen's size in pixels, or raises DesktopError. `model_size` turns the screen's
    width and height into those of the model's own coordinates, such as 1000 and 1000.
    """

    def list_elements() -> str:
        """List the elements in view: number, role, name, point to click, [left, top, right, bottom], as you count."""
        try:
            found, screen = look()
        except DesktopError as exc:
            return f"no list of elements is available here: {' '.join(str(exc).split())}"
        units = [model / pixels for model, pixels in zip(model_size(*screen), screen, strict=True)]
        lines = []
        for number, element in enumerate(found[:MOST_ELEMENTS], start=1):
            box, name = element.box, cut_name(element.name, MOST_NAME)
            pairs = element.centre, (box.left, box.top), (box.right, box.bottom)
            x, y, *corners = (int(value * unit) for pair in pairs for value, unit in zip(pair, units, strict=True))
            lines.append(f"{number}. {element.role} {name!r} at {(x, y)}, {corners}")
        more = [f"… and {len(found) - MOST_ELEMENTS} more"] if len(found) > MOST_ELEMENTS else []
        return "\n".join([*lines, *more]) or "there are no elements in view"

    return list_elements


def cut_name(text: str, most: int) -> str:
    """Return the text, or its beginning and the number of characters that follow."""
    return text if len(text) <= most else f"{text[:most]} … and {len(text) - most} characters more"
