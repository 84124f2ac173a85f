"""A policy's view of the next action: its keys, and the texts that result from it.

Each part is computed when a rule first asks for it, so a rule on keys alone needs no text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, Generic, TypeVar

from pytest_vnc_use.keyboard.keystrokes import Input, KeyEvent, held_after, in_keys, inputs_of
from pytest_vnc_use.keyboard.names import key_set, on_us_keyboard
from pytest_vnc_use.safety.editors import MOST_TEXT, Editor
from pytest_vnc_use.safety.keyboard_state import MOST_EDITS, Edit, KeyboardState, edited, edits_of, says_meta
from pytest_vnc_use.safety.keys_alike import Keys, keys_alike, names_of
from pytest_vnc_use.safety.patterns import JoinedText, NotReviewed
from pytest_vnc_use.safety.text_forms import forms_of, forms_of_address, forms_of_entered, forms_of_joined, plain_form
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Drag,
    KeyCombo,
    KeyDown,
    MouseDown,
    OpenAddress,
    Scroll,
    TypeText,
)
from pytest_vnc_use.types.json_depth import TOO_DEEP, is_shallow

MOST_READ = 1_000_000
"""The most characters of one action, and the most that it adds to a text."""
Value = TypeVar("Value")


class KeptValues(Generic[Value]):
    """Values that are made when a rule first needs them, and kept for the next rule."""

    def __init__(self, values: Iterable[Value]) -> None:
        self._left = iter(values)
        self._made: dict[Value, None] = {}

    def __iter__(self) -> Iterator[Value]:
        yield from tuple(self._made)
        for value in self._left:
            if value not in self._made:
                self._made[value] = None
                yield value


class Sight:
    """A policy's view of an action. Raises NotReviewed where it exceeds what a review reads."""

    def __init__(self, action: Action, keyboard: KeyboardState) -> None:
        self._action, self._keyboard = action, keyboard
        if isinstance(action, (TypeText, OpenAddress)):
            _check_length(_texts_of(action))

    # --- keys --------------------------------------------------------------------------------------------------------

    @cached_property
    def keys(self) -> tuple[Keys, ...]:
        """The keys of the action: each time the keys that are down together."""
        return _unique(map(names_of, self._keys_pressed)) or _keys_only_named(self._action, self._inputs)

    @cached_property
    def alike(self) -> tuple[Keys, ...]:
        """The keys that programs may take those keys for."""
        meta = self._keyboard.holds_meta or says_meta(self._action)
        return _unique(alike for keysyms in self._keys_pressed for alike in keys_alike(keysyms, meta_is_alt=meta))

    @cached_property
    def _inputs(self) -> tuple[Input, ...]:
        return inputs_of(self._action, self._keyboard.held, self._keyboard.means)

    @cached_property
    def _keys_pressed(self) -> tuple[tuple[int, ...], ...]:
        return _unique(_pressed_by(self._action, self._inputs, self._keyboard.held))

    # --- texts -------------------------------------------------------------------------------------------------------

    @cached_property
    def own(self) -> tuple[str, ...]:
        """The texts of the action itself."""
        if isinstance(self._action, (KeyCombo, KeyDown)):
            stream = next((editor for editor in self._edited if editor.kind == "stream" and editor.start >= 0), None)
            return (stream.text[stream.start : stream.end],) if stream else ()
        return _check_length(_texts_of(self._action))

    @cached_property
    def plain(self) -> tuple[str, ...]:
        """The same texts in their plain form; an address also with a browser's slashes."""
        plain = [plain_form(text) for text in self.own]
        is_address = isinstance(self._action, OpenAddress)
        return (*plain, *(text.replace("\\", "/") for text in plain if is_address))

    @cached_property
    def spellings(self) -> KeptValues[str]:
        """The other forms of these texts."""
        return KeptValues(_spellings(self._action, self.own))

    @cached_property
    def joined(self) -> KeptValues[JoinedText]:
        """The texts that the action's typing adds up to with the typing before it."""
        return KeptValues(_all_joined(self._edited))

    @cached_property
    def _edited(self) -> tuple[Editor, ...]:
        edits = list(islice(edits_of(self._inputs, self._keyboard.held), MOST_EDITS + 1))
        if len(edits) > MOST_EDITS:
            raise NotReviewed(f"the action has more than the {MOST_EDITS} editing keys that a review reads")
        editors = _unique([*self._keyboard.editors, *self._keyboard.unsure])
        return tuple(_after_all(editor.trimmed().fresh(), edits) for editor in editors)


def _unique(values: Iterable[Value]) -> tuple[Value, ...]:
    return tuple(dict.fromkeys(values))


# --- keys ------------------------------------------------------------------------------------------------------------


def _pressed_by(action: Action, inputs: Sequence[Input], held: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the keys that are down together, each time before one is let go.

    A mouse action gives the keys that are held meanwhile.
    """
    if isinstance(action, (Click, MouseDown, Drag, Scroll)) and held:
        yield tuple(held)
    yield from _together(inputs, held)


def _keys_only_named(action: Action, inputs: Sequence[Input]) -> tuple[Keys, ...]:
    """Return the keys that an action names but does not press; a rule may name them all the same."""
    if inputs or not isinstance(action, (KeyCombo, KeyDown)):
        return ()
    return (on_us_keyboard(key_set(action.keys if isinstance(action, KeyCombo) else action.key)),)


def _together(inputs: Sequence[Input], held: Sequence[int]) -> Iterator[tuple[int, ...]]:
    down, grew = tuple(held), False
    for event in in_keys(inputs, held, once=True):
        if not isinstance(event, KeyEvent):
            continue
        if grew and not event.down:
            yield down
        down, grew = held_after(down, [event]), event.down
    if grew:
        yield down


# --- texts -----------------------------------------------------------------------------------------------------------


def _texts_of(action: Action) -> tuple[str, ...]:
    match action:
        case TypeText(text=text) | OpenAddress(address=text):
            return (text,)
        case CallFunction(arguments=arguments):
            if not is_shallow(arguments):
                raise NotReviewed(f"the arguments {TOO_DEEP}")
            return tuple(_texts_in(arguments))
        case _:
            return ()


def _check_length(texts: tuple[str, ...]) -> tuple[str, ...]:
    length = sum(map(len, texts))
    if length > MOST_READ:
        raise NotReviewed(f"the action has {length} characters; a review reads at most {MOST_READ}")
    return texts


def _texts_in(value: Any) -> Iterator[str]:
    match value:
        case None:
            return
        case dict():
            for name, item in value.items():
                yield str(name)
                yield from _texts_in(item)
        case list() | tuple():
            for item in value:
                yield from _texts_in(item)
        case _:
            yield str(value)


def _spellings(action: Action, own: Sequence[str]) -> Iterator[str]:
    """Yield the other forms of the texts; a function's texts also joined into one."""
    match action:
        case CallFunction(arguments=arguments):
            for text in (" ".join(own), " ".join(_texts_in([*arguments.values()]))):
                yield text
                yield from forms_of(text)
        case OpenAddress(address=address):
            yield from forms_of_address(address)
            return
        case _:
            pass
    for text in own:
        yield from forms_of(text)


def _after_all(editor: Editor, edits: Iterable[Edit]) -> Editor:
    for edit in edits:
        editor = edited(editor, edit)
        if len(editor.text) > MOST_READ + 2 * MOST_TEXT:
            raise NotReviewed(f"the action's keys paste more than the {MOST_READ} characters that a review reads")
    return editor


def _all_joined(editors: Sequence[Editor]) -> Iterator[JoinedText]:
    yield from (
        JoinedText(form, 0, len(form)) for each in editors for text in each.entered for form in forms_of_entered(text)
    )
    seen: set[JoinedText] = set()
    for editor in {(each.text, each.start, each.end, each.since): each for each in editors}.values():
        for joined in editor.joined():
            if joined not in seen:
                seen.add(joined)
                yield joined
                yield from forms_of_joined(joined)
    for editor in editors:
        yield from editor.guessed()
