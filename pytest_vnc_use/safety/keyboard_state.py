"""The keyboard's state before an action: the held keys, and the typed texts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Union

from pytest_vnc_use.keyboard.keystrokes import (
    Input,
    KeyEvent,
    Keystroke,
    Means,
    Offer,
    Press,
    TellsMeans,
    Text,
    held_after,
    in_keys,
    inputs_of,
)
from pytest_vnc_use.keyboard.keysyms import MODIFIERS, SHIFT, SHIFT_R, character_of
from pytest_vnc_use.keyboard.names import key_name
from pytest_vnc_use.safety.editors import Editor
from pytest_vnc_use.safety.keys_alike import shortcut_name
from pytest_vnc_use.types import Action, KeyCombo, KeyDown, Step

MOST_EDITS = 1_000
"""The most keys of one action that edit a text by anything but a character."""
Edit = Union[str, tuple[Keystroke, tuple[int, ...]]]
"""Characters that are typed or pasted; or another input, with the keys that are down at that moment."""
_SHIFTS = frozenset({SHIFT, SHIFT_R})
_TYPING_MODIFIERS = frozenset(keysym for keysym in MODIFIERS if key_name(keysym) in ("shift", "altgr"))
_EDITORS = tuple(Editor(kind) for kind in ("stream", "field", "shell", "bar"))


@dataclass(frozen=True)
class KeyboardState:
    """The held keys and the typed texts, after all actions so far.

    `holds_meta` is true where an action named a held key "meta". After a failed action, `editors` assume that it typed
    nothing, and `unsure` that it typed everything. Secrets appear as their placeholders.
    """

    means: Means = field(default_factory=Means)
    held: tuple[int, ...] = ()
    holds_meta: bool = False
    editors: tuple[Editor, ...] = _EDITORS
    unsure: tuple[Editor, ...] = _EDITORS

    def on(self, controller: object) -> KeyboardState:
        """Return the state on the desktop of a controller, with its means if the controller knows them."""
        return replace(self, means=controller.means) if isinstance(controller, TellsMeans) else self

    def after(self, action: Action, *, failed: bool = False) -> KeyboardState:
        """Return the state after the action, which may have `failed` in the middle.

        Of too many edits for a review, only the last `MOST_EDITS` count.
        """
        inputs = inputs_of(action, self.held, self.means)
        held = held_after(self.held, inputs)
        holds_meta = bool(held) and (self.holds_meta or says_meta(action))
        edits = deque(edits_of(inputs, self.held), maxlen=MOST_EDITS)
        unsure = tuple(_after_all(editor, edits) for editor in self.unsure)
        if failed:
            either = tuple(dict.fromkeys([*self.held, *held]))
            return replace(self, held=either, holds_meta=holds_meta or self.holds_meta, unsure=unsure)
        editors = unsure if self.editors == self.unsure else tuple(_after_all(each, edits) for each in self.editors)
        return replace(self, held=held, holds_meta=holds_meta, editors=editors, unsure=unsure)

    def after_steps(self, steps: Iterable[Step]) -> KeyboardState:
        """Return the state after steps of a run. Steps that were not allowed were not done."""
        state = self
        for step in steps:
            if step.ruling.kind == "allow":
                state = state.after(step.proposal.action, failed=bool(step.error))
        return state


def says_meta(action: Action) -> bool:
    """Return whether the action names a key "meta". Super is pressed for it, but some desktops have Meta on Alt."""
    words = action.keys if isinstance(action, KeyCombo) else [action.key] if isinstance(action, KeyDown) else []
    return any("meta" in word.casefold() for word in words)


def edits_of(inputs: Sequence[Input], held: Sequence[int]) -> Iterator[Edit]:
    """Yield the inputs' edits of a text: characters, joined if no other input is between them, and all other inputs."""
    down, typed = tuple(held), ""
    for each in inputs if _types_characters(held) else in_keys(inputs, held):
        if isinstance(each, Text):
            typed += str(each)
            if each.pasted:
                yield typed
                yield Offer(each.pasted), down
                typed = ""
            continue
        character = _typed_by(each, down)
        if isinstance(each, KeyEvent):
            down = held_after(down, [each])
        if character:
            typed += character
        elif not _is_idle(each):
            if typed:
                yield typed
            yield each, down
            typed = ""
    if typed:
        yield typed


def edited(editor: Editor, edit: Edit) -> Editor:
    """Return the editor after one edit."""
    match edit:
        case str():
            return editor.insert(edit)
        case Offer(text), _:
            return replace(editor, clipboard=text, primary=text)
        case Press(button, selects), down:
            pointed = editor.point(selects=selects or not _SHIFTS.isdisjoint(down))
            return pointed.paste_selected() if button == "middle" else pointed
        case KeyEvent(keysym, _), down:
            modifiers = (key_name(held) for held in MODIFIERS.intersection(down))
            return editor.press(frozenset([*modifiers, shortcut_name(keysym)]))


def _after_all(editor: Editor, edits: Iterable[Edit]) -> Editor:
    editor = editor.fresh()
    for edit in edits:
        editor = edited(editor.trimmed(), edit)
    return editor


def _types_characters(held: Iterable[int]) -> bool:
    return _TYPING_MODIFIERS.issuperset(MODIFIERS.intersection(held))


def _typed_by(event: Keystroke, held: Iterable[int]) -> str:
    if not isinstance(event, KeyEvent) or not event.down:
        return ""
    return character_of(event.keysym) if _types_characters(held) else ""


def _is_idle(event: Keystroke) -> bool:
    """Return whether the event does not change a text: a key comes up, or a modifier goes down."""
    return isinstance(event, KeyEvent) and (not event.down or event.keysym in MODIFIERS)
