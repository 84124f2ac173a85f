"""Find the element of a program that an action will act on. Only reports show it.

It reads roles and accessible names, never what a field holds, and it moves no focus.
"""

from __future__ import annotations

from collections.abc import Callable

from pydantic import TypeAdapter

from pytest_vnc_use.backends.accessibility.atspi import Node, element_of, probe
from pytest_vnc_use.backends.accessibility.elements import MOST_READ
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.types import Action
from pytest_vnc_use.types.action_points import points
from pytest_vnc_use.types.elements import Element, Elements
from pytest_vnc_use.types.protocols import Ran

_NODES = TypeAdapter(list[Node | None])


def acted_on(run: Callable[[list[str]], Ran], action: Action) -> Elements:
    """Return the elements at an action's points; for text without a point, the one with the focus.

    None stands for a point without a known element. `run` is as in `desktop_elements`. Raises DesktopError.
    """
    asked = [str(number) for point in points(action) for number in point] or ["focus"]
    return tuple(_short(node) if node and min(node.box[2:]) > 0 else None for node in probe(run, _NODES, *asked))


def _short(node: Node) -> Element:
    return element_of(node.model_copy(update={"role": cut(node.role, MOST_READ), "name": cut(node.name, MOST_READ)}))
