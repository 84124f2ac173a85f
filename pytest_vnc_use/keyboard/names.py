"""Combinations of keys in the form that rules compare: one set of names for every spelling and order."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pytest_vnc_use.keyboard.keysyms import base_of, name_of, split_words

_MODIFIERS = {
    "ctrl": "control ctl controlormeta",
    "alt": "option opt",
    "shift": "",
    "super": "win windows meta cmd command os",
    "hyper": "",
}
_NAMED_KEYS = {
    "altgr": "altgraph isolevel3shift",
    "escape": "esc",
    "enter": "return ret linefeed newline isoenter 3270enter",
    "tab": "tabulator",
    "backspace": "bksp bsp",
    "delete": "del forwarddelete",
    "insert": "ins",
    "home": "",
    "end": "",
    "pageup": "pgup prior",
    "pagedown": "pgdn pgdown next",
    "left": "arrowleft leftarrow",
    "right": "arrowright rightarrow",
    "up": "arrowup uparrow",
    "down": "arrowdown downarrow",
    "printscreen": "print prtsc prtscr prtscn prntscrn sysrq",
    "pause": "break",
    "menu": "contextmenu apps",
    "capslock": "caps",
    "numlock": "",
    "scrolllock": "",
    "space": "spacebar",
    **{f"f{number}": "" for number in range(1, 25)},
}
_CHARACTERS = {
    "+": "plus add", "-": "minus hyphen dash subtract", "=": "equal equals", ",": "comma", "_": "underscore",
    ".": "period dot fullstop decimal", "/": "slash forwardslash divide", "\\": "backslash", ";": "semicolon",
    ":": "colon", "'": "apostrophe quote singlequote", '"': "quotedbl doublequote", "~": "asciitilde tilde",
    "`": "grave backquote backtick", "[": "bracketleft leftbracket openbracket", "@": "at", "%": "percent",
    "]": "bracketright rightbracket closebracket", "{": "braceleft leftbrace", "}": "braceright rightbrace",
    "(": "parenleft leftparen", ")": "parenright rightparen", "<": "less lessthan", ">": "greater greaterthan",
    "|": "bar pipe", "!": "exclam exclamation", "#": "numbersign hash", "$": "dollar", "^": "asciicircum caret",
    "&": "ampersand", "*": "asterisk star multiply", "?": "question questionmark",
}  # fmt: skip
_SPELLINGS = {
    spelling: key
    for keys in (_MODIFIERS, _NAMED_KEYS, _CHARACTERS)
    for key, others in keys.items()
    for spelling in (key, *others.split())
} | {" ": "space", "\n": "enter", "\r": "enter", "\t": "tab", "\b": "backspace", "\x1b": "escape", "\x7f": "delete"}

_ANY_MODIFIER = "|".join([*_MODIFIERS, *" ".join(_MODIFIERS.values()).split()])
_AFFIXED = re.compile(
    rf"(?:left|right|[lr])?({_ANY_MODIFIER})(?:left|right|[lr])?"
    r"|(?:kp|numpad|keypad|num)(\d|enter|delete|equal|multiply|add|subtract|decimal|divide)"
)
_CODE = re.compile(r"^(?:digit(?=.$)|(?:qt\.)?(?:key\.)?key(?!pad)(?=.))")
_SEPARATOR = re.compile(r"(?<=.)\+(?=.)")  # a "+" at either end is the key itself


def key_set(combination: str | Iterable[str]) -> frozenset[str]:
    """Return the names of a combination's keys, in any spelling: "Control_L+Alt+Del" is {ctrl, alt, delete}.

    Left and right modifiers are the same here, and so are the keys of the number pad and of the main block.
    """
    parts = [combination] if isinstance(combination, str) else combination
    keys = (key for part in parts for key in _SEPARATOR.split(part) if key)
    return frozenset(_key_name(word) for key in keys for word in split_words(key))


def key_name(keysym: int) -> str:
    """Return the name that a `key_set` has for a keysym."""
    return _key_name(name_of(keysym))


def on_us_keyboard(keys: Iterable[str]) -> frozenset[str]:
    """Return the keys that a person presses for these names: "!" is shift and "1"."""
    return frozenset(key for name in keys for key in _pressed_for(name))


def _pressed_for(name: str) -> tuple[str, ...]:
    base = base_of(name) if len(name) == 1 else name
    return (name,) if base == name else ("shift", base)


def unknown_keys(keys: frozenset[str]) -> frozenset[str]:
    """Return the members of a `key_set` that name no key of a keyboard, such as misspelled ones."""
    return frozenset(key for key in keys if len(key) != 1 and key not in _SPELLINGS)


def _key_name(key: str) -> str:
    name = re.sub(r"[\s_-]", "", key).casefold() if len(key) > 1 else key.lower()[:1]
    name = _CODE.sub("", name)
    affixed = _AFFIXED.fullmatch(name)
    name = affixed[affixed.lastindex or 0] if affixed else name
    return _SPELLINGS.get(name, name)
