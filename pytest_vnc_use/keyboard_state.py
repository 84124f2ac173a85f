"""What the keyboard has come to before an action, and what a rule may look at of the action that comes next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, Union

from pytest_vnc_use.editors import Editor
from pytest_vnc_use.key_names import key_name, key_set, on_us_keyboard
from pytest_vnc_use.keys_alike import Keys, keys_alike, names_of
from pytest_vnc_use.keystrokes import Input, KeyEvent, Means, Offer, Press, held_after, inputs_of
from pytest_vnc_use.keysyms import MODIFIERS, SHIFT, SHIFT_R, character_of
from pytest_vnc_use.patterns import Joined
from pytest_vnc_use.text_forms import forms_of, forms_of_address, forms_of_entered, forms_of_joined, plain_form
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

Edit = Union[str, tuple[Union[KeyEvent, Offer, Press], tuple[int, ...]]]
"""Characters that are typed; or another input, with the keys that are down then."""
_SHIFTS = frozenset({SHIFT, SHIFT_R})
_TYPING_MODIFIERS = frozenset(keysym for keysym in MODIFIERS if key_name(keysym) in ("shift", "altgr"))
Value = TypeVar("Value")
_EDITORS = tuple(Editor(kind) for kind in ("stream", "field", "shell", "bar"))


@dataclass(frozen=True)
class Sight:
    """What a policy sees of an action: the keys, each time those that are down together, and the texts.

    `alike` are the keys that programs may take those for. `own` are the texts of the action itself, `plain` the same
    without what looks like something else, `spellings` what they come to in other words, `joined` what its typing adds
    up to with the typing before it.
    """

    keys: tuple[Keys, ...] = ()
    alike: tuple[Keys, ...] = ()
    own: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()
    spellings: tuple[str, ...] = ()
    joined: tuple[Joined, ...] = ()


@dataclass(frozen=True)
class KeyboardState:
    """The keys that are held and the texts that were typed, by all actions so far.

    `holds_meta` is whether a key that is held was called "meta". Of an action that failed nobody knows how much of it
    was typed: `unsure` are the editors where all of it was, `editors` those where nothing was. Where secrets are typed,
    their placeholders stand here.
    """

    means: Means = field(default_factory=Means)
    held: tuple[int, ...] = ()
    holds_meta: bool = False
    editors: tuple[Editor, ...] = _EDITORS
    unsure: tuple[Editor, ...] = _EDITORS

    def sight_of(self, action: Action) -> Sight:
        """What a policy sees of the action, if it comes next."""
        inputs = inputs_of(action, self.held, self.means)
        edits = _edits(inputs, self.held)
        edited = [_edited(editor.fresh(), edits) for editor in dict.fromkeys([*self.editors, *self.unsure])]
        pressed = tuple(dict.fromkeys(_pressed_by(action, inputs, self.held)))
        own = _own_texts(action, edited)
        meta = self.holds_meta or _says_meta(action)
        return Sight(
            keys=_unique(map(names_of, pressed)) or _unpressed(action, inputs),
            alike=_unique(alike for keysyms in pressed for alike in keys_alike(keysyms, meta_is_alt=meta)),
            own=own,
            plain=_plain(action, own),
            spellings=_spellings(action, own),
            joined=_unique(_all_joined(edited)),
        )

    def after(self, action: Action, *, failed: bool = False) -> KeyboardState:
        """The state once the action was carried out, or had `failed` in the middle."""
        inputs = inputs_of(action, self.held, self.means)
        held = held_after(self.held, inputs)
        holds_meta = bool(held) and (self.holds_meta or _says_meta(action))
        edits = _edits(inputs, self.held)
        unsure = tuple(_edited(editor, edits) for editor in self.unsure)
        if failed:
            either = tuple(dict.fromkeys([*self.held, *held]))
            return replace(self, held=either, holds_meta=holds_meta or self.holds_meta, unsure=unsure)
        editors = unsure if self.editors == self.unsure else tuple(_edited(each, edits) for each in self.editors)
        return replace(self, held=held, holds_meta=holds_meta, editors=editors, unsure=unsure)

    def after_steps(self, steps: Iterable[Step]) -> KeyboardState:
        """The state after steps of a run; what was not allowed was not done."""
        state = self
        for step in steps:
            if step.ruling.kind == "allow":
                state = state.after(step.proposal.action, failed=bool(step.error))
        return state


# --- keys ------------------------------------------------------------------------------------------------------------


def _unique(values: Iterable[Value]) -> tuple[Value, ...]:
    return tuple(dict.fromkeys(values))


def _pressed_by(action: Action, inputs: Sequence[Input], held: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The keys that are down together, each time before one of them is let go; those held while the mouse acts."""
    if isinstance(action, (Click, MouseDown, Drag, Scroll)) and held:
        yield tuple(held)
    yield from _together(inputs, held)


def _unpressed(action: Action, inputs: Sequence[Input]) -> tuple[Keys, ...]:
    """The keys of an action that no hand presses; a rule may name them all the same."""
    if inputs or not isinstance(action, (KeyCombo, KeyDown)):
        return ()
    return (on_us_keyboard(key_set(action.keys if isinstance(action, KeyCombo) else action.key)),)


def _says_meta(action: Action) -> bool:
    """Whether the action calls a key "meta": Super is pressed for it, where some desktops have it on Alt."""
    words = action.keys if isinstance(action, KeyCombo) else [action.key] if isinstance(action, KeyDown) else []
    return any("meta" in word.casefold() for word in words)


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
    editor = editor.trimmed()
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
        case Press(button, selects):
            pointed = editor.point(selects=selects or not _SHIFTS.isdisjoint(down))
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


def _plain(action: Action, own: Iterable[str]) -> tuple[str, ...]:
    """The texts as hosts are read; of an address also with the slashes that a browser makes of backslashes."""
    plain = [plain_form(text) for text in own]
    return (*plain, *(text.replace("\\", "/") for text in plain if isinstance(action, OpenAddress)))


def _spellings(action: Action, own: Sequence[str]) -> tuple[str, ...]:
    """What the texts come to in other words; a function's texts also as one."""
    match action:
        case CallFunction(arguments=arguments):
            texts = [" ".join(_texts_in(arguments)), " ".join(_texts_in([*arguments.values()]))]
            return _unique([*texts, *(form for text in (*texts, *own) for form in forms_of(text))])
        case OpenAddress(address=address):
            return forms_of_address(address)
        case _:
            return _unique(form for text in own for form in forms_of(text))


def _all_joined(edited: Iterable[Editor]) -> Iterator[Joined]:
    for editor in edited:
        yield from (Joined(form, 0, len(form)) for text in editor.entered for form in forms_of_entered(text))
        for joined in editor.joined():
            yield joined
            yield from forms_of_joined(joined)
        yield from editor.guess.joined()
