"""The matrix: every kind of VNC server that the tests run on, and what each can."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from support.stages import qemu, qt, x11
from support.stages.stage import Stage, Wish

Ability = Literal["resize", "password", "8 bit"]


@dataclass(frozen=True)
class Kind:
    """`start` has a stage, with its files in a directory, until the block ends; `size` is its own, where it has one.

    Where it does not always outlive its clients (wayvnc 0.5 was seen to end with one), each test has its own.
    """

    start: Callable[[Path, Wish], AbstractContextManager[Stage]]
    can: tuple[Ability, ...]
    size: tuple[int, int] = (800, 600)
    outlives_clients: bool = True


KINDS = {
    "tigervnc": Kind(x11.tigervnc, ("resize", "password")),
    "tightvnc": Kind(x11.tightvnc, ("password", "8 bit")),
    "x11vnc": Kind(x11.x11vnc, ("resize", "password", "8 bit")),
    "qemu": Kind(qemu.qemu, ("resize", "password"), (720, 400)),
    "qt": Kind(qt.qt, ()),
    "wayvnc": Kind(qt.wayvnc, ("resize",), outlives_clients=False),
}


def that_can(ability: Ability) -> list[str]:
    return [name for name, kind in KINDS.items() if ability in kind.can]
