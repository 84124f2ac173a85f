"""How an action becomes keystrokes: chords, scrolls by keys, and the plan for a text."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, Union

from pytest_vnc_use.errors import ActionError
from pytest_vnc_use.keyboard.keysyms import (
    CONTROL,
    INSERT,
    LEFT,
    MODIFIERS,
    PAGE_DOWN,
    PAGE_UP,
    RETURN,
    RIGHT,
    SHIFT,
    Chord,
)
from pytest_vnc_use.types import Direction

SELECT_ALL, PASTE, ENTER = Chord((CONTROL, ord("a"))), Chord((SHIFT, INSERT)), Chord((RETURN,))
ADDRESS_BAR = "ctrl+l"
_NOTCHES_A_PAGE = 5
_ARROWS_A_NOTCH = 3
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BEYOND_ASCII, _BEYOND_LATIN = re.compile(r"[^\x00-\x7f]"), re.compile(r"[^\x00-\xff]")
_HALF = re.compile(r"[\ud800-\udfff]")
TypableText = Literal["ascii", "latin-1", "clipboard", "clipboard only"]
"""The text that a server takes: ASCII by keys, Latin-1 by keys, ASCII by keys and the rest pasted, or all pasted."""


class KeyEvent(NamedTuple):
    """A key that goes down or up."""

    keysym: int
    down: bool


def stroke(chord: Chord, held: Collection[int]) -> list[KeyEvent]:
    """Return the events of a chord: keys go down in order and up in reverse; a held modifier stays down."""
    stays = MODIFIERS.intersection(held)
    keysyms = [keysym for keysym in chord.keysyms if keysym not in stays]
    return [KeyEvent(keysym, True) for keysym in keysyms] + [KeyEvent(keysym, False) for keysym in reversed(keysyms)]


def scroll_chords(direction: Direction, notches: int) -> list[Chord]:
    """Return the keys that scroll as far as `notches` of the wheel.

    Up or down, five notches are a page. Left or right, one notch is three arrows.
    """
    if direction in ("up", "down"):
        key, times = PAGE_UP if direction == "up" else PAGE_DOWN, math.ceil(notches / _NOTCHES_A_PAGE)
    else:
        key, times = LEFT if direction == "left" else RIGHT, notches * _ARROWS_A_NOTCH
    return [Chord((key,))] * times


@dataclass(frozen=True)
class Typed:
    """Characters to type one by one; line feeds and tabs go as their keys."""

    text: str


@dataclass(frozen=True)
class Pasted:
    """Characters of one line to paste."""

    text: str


Piece = Union[Typed, Pasted]


def plan_text(text: str, typable: TypableText) -> tuple[Piece, ...]:
    """Return the pieces of `text` in order.

    Raises ActionError, before anything is typed, if the server cannot type a character.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    _refuse(_HALF, text, "half of a surrogate pair is no text: nothing can")
    _refuse(_CONTROL, text, "no key can")
    match typable:
        case "ascii":
            _refuse(_BEYOND_ASCII, text, "this VNC server cannot")
        case "latin-1":
            _refuse(_BEYOND_LATIN, text, "this VNC server cannot")
        case "clipboard" | "clipboard only":
            return tuple(_pieces(text, by_keys=typable == "clipboard"))
    return (Typed(text),) if text else ()


def _pieces(text: str, *, by_keys: bool) -> Iterator[Piece]:
    """Yield the pieces: line feeds and tabs always go by keys, lines of ASCII only if `by_keys` is set."""
    for run in re.findall(r"[\n\t]+|[^\n\t]+", text):
        typed = run[0] in "\n\t" or (by_keys and run.isascii())
        yield Typed(run) if typed else Pasted(run)


def _refuse(unwanted: re.Pattern[str], text: str, why: str) -> None:
    if characters := "".join(dict.fromkeys(unwanted.findall(text))):
        codes = ", ".join(f"U+{ord(character):04X}" for character in characters[:8])
        raise ActionError(f"{why} type the characters {characters[:8]!r} ({codes}). Nothing was typed")
