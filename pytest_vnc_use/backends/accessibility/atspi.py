"""The elements of programs that are no browser, from the accessibility tree (AT-SPI) of a desktop on X."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from pytest_vnc_use.backends.accessibility.elements import Element
from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.types import Region
from pytest_vnc_use.types.protocols import Ran

_PROBE = Path(__file__).with_name("probe.py")
_PYTHON = "/usr/bin/python3"
"""The system's Python: another one does not find the system's GLib."""


class Node(BaseModel):
    """An element as the probe prints it. `box` is left, top, width and height on the screen."""

    role: str
    name: str
    focusable: bool
    box: tuple[int, int, int, int]


_NODES = TypeAdapter(list[Node])
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
