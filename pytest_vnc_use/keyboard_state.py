"""What the keyboard has come to before an action, and what a rule may look at of the action that comes next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Union
from urllib.parse import unquote

from pytest_vnc_use.editors import Editor, Joined
from pytest_vnc_use.key_names import key_name, key_set, on_us_keyboard
from pytest_vnc_use.keystrokes import Input, KeyEvent, Means, Offer, Press, held_after, inputs_of
from pytest_vnc_use.keysyms import MODIFIERS, character_of
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
    Step,
    TypeText,
)

Keys = frozenset[str]
Edit = Union[str, tuple[Union[KeyEvent, Offer, Press], tuple[int, ...]]]
"""Characters that are typed; or another input, with the keys that are down then."""
_TYPING_MODIFIERS = frozenset(keysym for keysym in MODIFIERS if key_name(keysym) in ("shift", "altgr"))
_EDITORS = tuple(Editor(kind) for kind in ("stream", "field", "shell"))


@dataclass(frozen=True)
class Sight:
    """What a policy sees of an action: the keys, each time those that are down together, and the texts.

    `own` are the texts of the action itself, `spellings` what its address comes to in other words, `joined` what its
    typing adds up to with the typing before it.
    """

    keys: tuple[Keys, ...] = ()
    own: tuple[str, ...] = ()
    spellings: tuple[str, ...] = ()
    joined: tuple[Joined, ...] = ()


@dataclass(frozen=True)
class KeyboardState:
    """The keys that are held and the texts that were typed, by all actions so far.

    Of an action that failed nobody knows how much of it was typed: `unsure` are the editors where all of it was,
    `editors` those where nothing was. Where secrets are typed, their placeholders stand here.
    """

    means: Means = field(default_factory=Means)
    held: tuple[int, ...] = ()
    editors: tuple[Editor, ...] = _EDITORS
    unsure: tuple[Editor, ...] = _EDITORS

    def sight_of(self, action: Action) -> Sight:
        """What a policy sees of the action, if it comes next."""
        inputs = inputs_of(action, self.held, self.means)
        edits = _edits(inputs, self.held)
        edited = [_edited(editor.fresh(), edits) for editor in dict.fromkeys([*self.editors, *self.unsure])]
        joined = dict.fromkeys(each for editor in edited for each in editor.joined())
        keys = tuple(dict.fromkeys(_keys_of(action, inputs, self.held)))
        return Sight(keys, _own_texts(action, edited), _spellings(action), tuple(joined))

    def after(self, action: Action, *, failed: bool = False) -> KeyboardState:
        """The state once the action was carried out, or had `failed` in the middle."""
        inputs = inputs_of(action, self.held, self.means)
        held = held_after(self.held, inputs)
        edits = _edits(inputs, self.held)
        unsure = tuple(_edited(editor, edits) for editor in self.unsure)
        if failed:
            return replace(self, held=tuple(dict.fromkeys([*self.held, *held])), unsure=unsure)
        editors = unsure if self.editors == self.unsure else tuple(_edited(each, edits) for each in self.editors)
        return replace(self, held=held, editors=editors, unsure=unsure)

    def after_steps(self, steps: Iterable[Step]) -> KeyboardState:
        """The state after steps of a run; what was not allowed was not done."""
        state = self
        for step in steps:
            if step.ruling.kind == "allow":
                state = state.after(step.proposal.action, failed=bool(step.error))
        return state


# --- keys ------------------------------------------------------------------------------------------------------------


def _keys_of(action: Action, inputs: Sequence[Input], held: Sequence[int]) -> Iterator[Keys]:
    """The keys that are down together, each time before one of them is let go; those held while the mouse acts."""
    if isinstance(action, (Click, MouseDown, Drag, Scroll)) and held:
        yield _named(held)
    if not inputs and isinstance(action, (KeyCombo, KeyDown)):  # no hand presses it; a rule may name it all the same
        yield on_us_keyboard(key_set(action.keys if isinstance(action, KeyCombo) else action.key))
    yield from map(_named, dict.fromkeys(_together(inputs, held)))


def _together(inputs: Sequence[Input], held: Sequence[int]) -> Iterator[tuple[int, ...]]:
    down, grew = tuple(held), False
    for event in inputs:
        if not isinstance(event, KeyEvent):
            continue
        if grew and not event.down:
            yield down
        down, grew = held_after(down, [event]), event.down
    if grew:
        yield down


def _named(keysyms: Iterable[int]) -> Keys:
    return on_us_keyboard(name for keysym in keysyms for name in _names(keysym))


def _names(keysym: int) -> tuple[str, ...]:
    """A capital letter is its key with shift, also where it is pressed as a key of its own."""
    name = key_name(keysym)
    return ("shift", name) if ord("A") <= keysym <= ord("Z") else (name,)


# --- texts -----------------------------------------------------------------------------------------------------------


def _edits(inputs: Sequence[Input], held: Sequence[int]) -> list[Edit]:
    """What the inputs do to a text: characters, as one text where nothing comes between, and all else."""
    edits: list[Edit] = []
    down, typed = tuple(held), ""
    for event in inputs:
        character = _typed_by(event, down)
        if isinstance(event, KeyEvent):
            down = held_after(down, [event])
        if character:
            typed += character
        elif not _is_idle(event):
            edits += [typed, (event, down)]
            typed = ""
    return [*edits, typed]


def _edited(editor: Editor, edits: Sequence[Edit]) -> Editor:
    for edit in edits:
        editor = editor.insert(edit) if isinstance(edit, str) else _done(editor, *edit)
    return editor


def _typed_by(event: Input, held: Iterable[int]) -> str:
    if not isinstance(event, KeyEvent) or not event.down:
        return ""
    return character_of(event.keysym) if _TYPING_MODIFIERS.issuperset(MODIFIERS.intersection(held)) else ""


def _is_idle(event: Input) -> bool:
    """Whether it does nothing to a text: a key comes up, or a modifier goes down."""
    return isinstance(event, KeyEvent) and (not event.down or event.keysym in MODIFIERS)


def _done(editor: Editor, event: Input, down: Iterable[int]) -> Editor:
    match event:
        case Offer(text):
            return replace(editor, clipboard=text)
        case Press(button):
            pointed = editor.point()
            return pointed.insert(pointed.clipboard) if button == "middle" else pointed
        case KeyEvent(keysym, _):
            modifiers = (key_name(held) for held in MODIFIERS.intersection(down))
            return editor.press(frozenset([*modifiers, key_name(keysym)]))


def _own_texts(action: Action, edited: Sequence[Editor]) -> tuple[str, ...]:
    match action:
        case TypeText(text=text) | OpenAddress(address=text):
            return (text,)
        case CallFunction(arguments=arguments):
            return tuple(_texts_in(arguments))
        case KeyCombo() | KeyDown():
            stream = next((editor for editor in edited if editor.kind == "stream" and editor.start >= 0), None)
            return (stream.text[stream.start : stream.end],) if stream else ()
        case _:
            return ()


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


def _spellings(action: Action) -> tuple[str, ...]:
    """A function's texts as one; an address without what browsers leave out of it, its escapes read, in lower case."""
    match action:
        case CallFunction(arguments=arguments):
            return (" ".join(_texts_in(arguments)), " ".join(_texts_in([*arguments.values()])))
        case OpenAddress(address=address):
            bare = address.strip().translate(dict.fromkeys(map(ord, "\t\r\n")))
            read = [bare, unquote(bare), unquote(unquote(bare))]
            return tuple(dict.fromkeys([*read, *map(str.lower, read)]))
        case _:
            return ()
