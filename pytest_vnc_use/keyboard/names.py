"""Combinations of keys in the form that rules compare: one set of names for every spelling and order."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pytest_vnc_use.errors import ActionError
from pytest_vnc_use.keyboard.keysyms import base_of, key_of, parse_key, split_words

_NAMES = {
    "control": "ctrl",
    "controlr": "ctrl",
    "shiftr": "shift",
    "altr": "alt",
    "superr": "super",
    "return": "enter",
    "kpenter": "enter",
    " ": "space",
}
"""The names that differ from those of the keysyms: left and right are the same, and so is the number pad."""
_SEPARATOR = re.compile(r"(?<=.)\+(?=.)")  # a "+" at either end is the key itself


def key_set(combination: str | Iterable[str]) -> frozenset[str]:
    """Return the names of a combination's keys, in any spelling: "Control_L+Alt+Del" is {ctrl, alt, delete}.

    Left and right modifiers are the same here, and so are the keys of the number pad and of the main block.
    """
    parts = [combination] if isinstance(combination, str) else combination
    keys = (key for part in parts for key in _SEPARATOR.split(part) if key)
    return frozenset(_key_name(word) for key in keys for word in split_words(key))


def on_us_keyboard(keys: Iterable[str]) -> frozenset[str]:
    """Return the keys that a person presses for these names: "!" is shift and "1"."""
    pressed: set[str] = set()
    for name in keys:
        base = base_of(name) if len(name) == 1 else name
        pressed |= {base} if base == name else {"shift", base}
    return frozenset(pressed)


def unknown_keys(keys: frozenset[str]) -> frozenset[str]:
    """Return the members of a `key_set` that name no key of a keyboard, such as misspelled ones."""
    return frozenset(key for key in keys if len(key) != 1 and not _name_of(key))


def _key_name(key: str) -> str:
    return _name_of(key) or re.sub(r"[\s_-]", "", key).lower()


def _name_of(key: str) -> str:
    try:
        name = key_of(parse_key(key))
    except ActionError:
        return ""
    return _NAMES.get(name, name.lower()[: len(name)])  # "İ" would become two characters
