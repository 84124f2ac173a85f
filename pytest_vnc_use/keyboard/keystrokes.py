"""The keystrokes of an action: each key that goes down or up, in the order in which the controller sends it.

The policy makes its ruling from these. A contract test compares them with the messages on the wire, for every action
and every kind of server.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Union, runtime_checkable

from typing_extensions import assert_never

from pytest_vnc_use.errors import ActionError
from pytest_vnc_use.keyboard.keysyms import (
    BACKSPACE,
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
    chord_of,
    name_of,
    parse_combo,
    parse_key,
)
from pytest_vnc_use.keyboard.text_plan import Pasted, Piece, TypableText, Typed, plan_text
from pytest_vnc_use.types import (
    HISTORY_KEYS,
    Action,
    CallFunction,
    Click,
    Direction,
    Drag,
    InvalidAction,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    OpenAddress,
    Scroll,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)

SELECT_ALL, PASTE, ENTER = Chord((CONTROL, ord("a"))), Chord((SHIFT, INSERT)), Chord((RETURN,))
ADDRESS_BAR = "ctrl+l"
_NOTCHES_A_PAGE = 5
_ARROWS_A_NOTCH = 3


@dataclass(frozen=True)
class Means:
    """The ways in which a desktop takes input.

    `text`: the text that goes by keys. `wheel`: whether there is a wheel. `substitutes`: the keysym that is sent
    instead. `only_keysyms`: all keysyms that the desktop takes; None for no limit.
    """

    text: TypableText = "clipboard"
    wheel: bool = True
    substitutes: Mapping[int, int] = field(default_factory=dict)
    only_keysyms: frozenset[int] | None = None

    def keysym(self, keysym: int) -> int:
        """Return the keysym to send for `keysym`. Raises ActionError if the server does not support it."""
        keysym = self.substitutes.get(keysym, keysym)
        if self.only_keysyms is not None and keysym not in self.only_keysyms:
            characters = "ASCII" if self.text == "ascii" else "Latin-1"
            raise ActionError(
                f"this VNC server does not support the key {name_of(keysym)!r}. It supports {characters}, F1 to "
                "F12 and the editing keys"
            )
        return keysym

    def chord(self, chord: Chord) -> Chord:
        """Return the chord to send for `chord`. Raises ActionError if the server does not support a part of it."""
        return Chord(tuple(map(self.keysym, chord.keysyms)))


@runtime_checkable
class TellsMeans(Protocol):
    """A Controller that knows how its desktop takes input.

    For any other Controller, a policy assumes the input that most servers take.
    """

    @property
    def means(self) -> Means:
        """The means by which text gets to the program."""


class KeyEvent(NamedTuple):
    """A key that goes down or up."""

    keysym: int
    down: bool


class Offer(NamedTuple):
    """A text that the clipboard holds from now on."""

    text: str


class Press(NamedTuple):
    """A mouse button that goes down. A press may move the keyboard focus.

    `selects` is set if the press may select text, as a drag or a double click does.
    """

    button: str
    selects: bool = False


Keystroke = Union[KeyEvent, Offer, Press]


class Text(NamedTuple):
    """Pieces of text that are typed and pasted, one after the other."""

    pieces: tuple[Piece, ...]

    def __str__(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    @property
    def pasted(self) -> str:
        """Return the text that the clipboard holds afterwards; "" if nothing is pasted."""
        return next((piece.text for piece in reversed(self.pieces) if isinstance(piece, Pasted)), "")

    def parts(self) -> Iterator[str | Pasted]:
        """Yield each character that is typed, and each piece that is pasted."""
        for piece in self.pieces:
            yield from piece.text if isinstance(piece, Typed) else [piece]


Input = Union[Keystroke, Text]


def stroke(chord: Chord, held: Collection[int]) -> list[KeyEvent]:
    """Return the events of a chord: keys go down in order and up in reverse; a held modifier stays down."""
    stays = MODIFIERS.intersection(held)
    keysyms = [keysym for keysym in chord.keysyms if keysym not in stays]
    return [KeyEvent(keysym, True) for keysym in keysyms] + [KeyEvent(keysym, False) for keysym in reversed(keysyms)]


def scroll_chords(direction: Direction, notches: int) -> list[Chord]:
    """Return the keys that scroll as far as `notches` of the wheel.

    Up or down, five notches are a page. Left or right, one notch is three arrows.
    """
    match direction:
        case "up" | "down":
            key, times = PAGE_UP if direction == "up" else PAGE_DOWN, math.ceil(notches / _NOTCHES_A_PAGE)
        case "left" | "right":
            key, times = LEFT if direction == "left" else RIGHT, notches * _ARROWS_A_NOTCH
        case _:
            assert_never(direction)
    return [Chord((key,))] * times


def inputs_of(action: Action, held: Sequence[int], means: Means) -> tuple[Input, ...]:
    """Return the inputs of an action while the keys `held` are down; nothing if the action cannot be done."""
    try:
        return tuple(_inputs(action, list(held), means))
    except ActionError:
        return ()


def _inputs(action: Action, held: list[int], means: Means) -> list[Input]:
    match action:
        case TypeText():
            point: list[Input] = [] if action.x is None or action.y is None else [Press("left")]
            return [*point, *_text(action, held, means)]
        case KeyCombo(keys=keys):
            return _combo(keys, held, means)
        case KeyDown(key=key):
            return [KeyEvent(means.keysym(parse_key(key)), True)]
        case KeyUp(key=key):
            return [KeyEvent(means.keysym(parse_key(key)), False)]
        case OpenAddress(address=address):
            return _address(address, held, means)
        case TraverseHistory(direction=direction):
            return _combo(HISTORY_KEYS[direction], held, means)
        case Scroll(direction=direction, clicks=clicks, by=by):
            by_wheel = by == "wheel" and means.wheel
            return [] if by_wheel else _strikes(scroll_chords(direction, clicks), held)
        case Click(button=button, count=count):
            return [Press(button, selects=count > 1)]
        case MouseDown(button=button):
            return [Press(button, selects=True)]
        case Drag():
            return [Press("left", selects=True)]
        case MouseUp() | Move() | Wait() | TakeScreenshot() | CallFunction() | InvalidAction():
            return []
        case _:
            assert_never(action)


def _strikes(chords: Sequence[Chord], held: Collection[int]) -> list[Input]:
    return [event for chord in chords for event in stroke(chord, held)]


def _combo(keys: Sequence[str], held: list[int], means: Means) -> list[Input]:
    chord = parse_combo(keys, held)
    if chord.text and not held:
        return _text(TypeText(chord.text), held, means)
    return _strikes([means.chord(chord)], held)


def _address(address: str, held: list[int], means: Means) -> list[Input]:
    plan_text(address, means.text)
    before = _combo((ADDRESS_BAR,), held, means)
    still_held = held_after(held, before)
    return [*before, *_text(TypeText(address, press_enter=True), still_held, means)]


def _text(action: TypeText, held: Sequence[int], means: Means) -> list[Input]:
    done: list[Input] = []
    if action.clear_first:
        done += _strikes([SELECT_ALL] if action.text else [SELECT_ALL, Chord((BACKSPACE,))], held)
    if pieces := plan_text(action.text, means.text):
        done.append(Text(pieces))
    return [*done, *_strikes([ENTER], held)] if action.press_enter else done


def in_keys(inputs: Iterable[Input], held: Collection[int], *, once: bool = False) -> Iterator[Keystroke]:
    """Yield the inputs, each text as its keystrokes; `held` are the keys that are down before.

    With `once`, a keystroke that a text repeats while the same keys are down is left out.
    """
    for each in inputs:
        if isinstance(each, Text):
            yield from _keys_of(each, held, once=once)
        else:
            yield each


def _keys_of(text: Text, held: Collection[int], *, once: bool) -> Iterator[Keystroke]:
    made: set[str] = set()
    loose = set(held) - MODIFIERS
    for part in text.parts():
        name = part if isinstance(part, str) else "paste"
        if name in made:
            continue
        if isinstance(part, Pasted):
            yield Offer(part.text)
        chord = chord_of(part) if isinstance(part, str) else PASTE
        yield from stroke(chord, held)
        if once:
            made.add(name)
        if not loose.isdisjoint(chord.keysyms):  # other keys are down from here on
            loose, made = loose.difference(chord.keysyms), set()


def held_after(held: Sequence[int], inputs: Sequence[Input]) -> tuple[int, ...]:
    """Return the keys that are down after the inputs, in the order in which they went down."""
    down = dict.fromkeys(held)
    for event in in_keys(inputs, held, once=True):
        if isinstance(event, KeyEvent):
            down.pop(event.keysym, None)
            if event.down:
                down[event.keysym] = None
    return tuple(down)
