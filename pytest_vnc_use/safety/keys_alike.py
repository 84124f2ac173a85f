"""Keys that programs take for other keys. A rule that denies keys must hold for these too."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

from pytest_vnc_use.keyboard.names import key_name, on_us_keyboard

Keys = frozenset[str]
_SHORTCUTS = frozenset({"ctrl", "alt", "super"})
_TERMINAL = {"m": "enter", "j": "enter", "i": "tab", "h": "backspace", "8": "backspace", "[": "escape", "3": "escape"}
"""The key that a terminal takes for ctrl and a character: both send the same control character."""
_TAKEN_FOR: dict[Keys, Keys] = {
    **{frozenset({"ctrl", key}): frozenset({meant}) for key, meant in _TERMINAL.items()},
    frozenset({"shift", "f10"}): frozenset({"menu"}),  # either opens the menu of the focused widget
    frozenset({"menu"}): frozenset({"shift", "f10"}),
}
_PAD_WITHOUT_NUM_LOCK = {
    0xFFB0: "insert", 0xFFB1: "end", 0xFFB2: "down", 0xFFB3: "pagedown", 0xFFB4: "left", 0xFFB6: "right",
    0xFFB7: "home", 0xFFB8: "up", 0xFFB9: "pageup", 0xFFAE: "delete",
}  # fmt: skip
_US_LETTERS = "qwertyuiop[]asdfghjkl;'zxcvbnm,."
_LAYOUTS = {
    "Russian": "йцукенгшщзхъфывапролджэячсмитьбю",
    "Ukrainian": "йцукенгшщзхїфівапролджєячсмитьбю",
    "Belarusian": "йцукенгшўзх'фывапролджэячсміть  ",
    "Greek": "  ερτυθιοπ  ασδφγηξκλ  ζχψωβνμ  ",
    "Hebrew": "  קראטוןםפ  שדגכעיחלךף זסבהנמצתץ",
    "Arabic": "ضصثقفغعهخحجدشسيبلاتنمكطئءؤر ىةوز",
}
"""The letters on the keys in other alphabets. GTK and Qt take a shortcut with such a letter for the Latin key's."""


def names_of(keysyms: Iterable[int]) -> Keys:
    """Return the names of keys that are down together, as on a US keyboard."""
    return on_us_keyboard(name for keysym in keysyms for name in _names(keysym))


def keys_alike(keysyms: Iterable[int], *, meta_is_alt: bool = False) -> Iterator[Keys]:
    """Yield the sets of keys that programs may take the keys for, besides the keys themselves."""
    keysyms = tuple(keysyms)
    named = names_of(keysyms)
    alike = named.union(name for keysym in keysyms for name in _others(keysym, named))
    if "altgr" in named or (meta_is_alt and "super" in named):
        alike |= {"alt"}  # AltGr is the right Alt key
    if {"ctrl", "="} <= named:
        alike |= {"shift"}  # ctrl+plus without shift zooms too
    if alike != named:
        yield alike
    for keys, meant in _TAKEN_FOR.items():
        if keys <= alike:
            yield (alike - keys) | meant


def shortcut_name(keysym: int) -> str:
    """Return the name of the key that programs read in a shortcut: the Latin letter on the key."""
    name = key_name(keysym)
    if len(name) > 1 or name.isascii():
        return name
    return next((_US_LETTERS[row.index(name)] for row in _LAYOUTS.values() if name in row), name)


def _names(keysym: int) -> tuple[str, ...]:
    """Return a key's names. A capital letter is its key with shift, also where it is pressed as a key of its own."""
    name = key_name(keysym)
    return ("shift", name) if ord("A") <= keysym <= ord("Z") else (name,)


def _others(keysym: int, named: Keys) -> Iterator[str]:
    name = key_name(keysym)
    if keysym in _PAD_WITHOUT_NUM_LOCK:
        yield _PAD_WITHOUT_NUM_LOCK[keysym]
    if len(name) == 1 and not name.isascii():
        yield from on_us_keyboard(unicodedata.normalize("NFKC", name))
        if not _SHORTCUTS.isdisjoint(named):
            yield from (_US_LETTERS[row.index(name)] for row in _LAYOUTS.values() if name in row)
