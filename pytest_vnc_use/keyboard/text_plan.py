"""How a text gets into the focused program: which parts are typed and which are pasted, for each kind of server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Union

from pytest_vnc_use.errors import ActionError

TextReach = Literal["ascii", "latin-1", "clipboard", "clipboard only"]
"""What goes in: ASCII by keys, Latin-1 by keys, ASCII by keys and all else pasted, or all of it pasted."""


@dataclass(frozen=True)
class Typed:
    """Characters to type one by one, line feeds and tabs as their keys."""

    text: str


@dataclass(frozen=True)
class Pasted:
    """Characters of one line to paste."""

    text: str


Piece = Union[Typed, Pasted]


def plan_text(text: str, reach: TextReach) -> tuple[Piece, ...]:
    """The pieces of `text` in order. Raises ActionError, before anything is typed, where the server cannot take it."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    _refuse(_unique(c for c in text if _is_control(c)), "characters that no key makes")
    match reach:
        case "ascii":
            _refuse(_unique(c for c in text if ord(c) > 0x7F), "characters that this VNC server takes no keys for")
        case "latin-1":
            _refuse(_unique(c for c in text if ord(c) > 0xFF), "characters that this VNC server takes no keys for")
        case "clipboard" | "clipboard only":
            return tuple(_pieces(text, by_keys=reach == "clipboard"))
    return (Typed(text),) if text else ()


def _pieces(text: str, *, by_keys: bool) -> Iterator[Piece]:
    """Lines of ASCII go `by_keys` or not; line feeds and tabs do so always."""
    for run in re.findall(r"[\n\t]+|[^\n\t]+", text):
        typed = run[0] in "\n\t" or (by_keys and run.isascii())
        yield Typed(run) if typed else Pasted(run)


def _is_control(character: str) -> bool:
    return (ord(character) < 0x20 and character not in "\n\t") or 0x7F <= ord(character) < 0xA0


def _unique(characters: Iterator[str]) -> str:
    return "".join(dict.fromkeys(characters))


def _refuse(characters: str, why: str) -> None:
    if characters:
        codes = ", ".join(f"U+{ord(character):04X}" for character in characters[:8])
        raise ActionError(f"the text holds {why}: {characters[:8]!r} ({codes}); nothing was typed")
