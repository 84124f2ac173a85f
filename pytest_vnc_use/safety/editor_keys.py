"""The keys that edit text in a text field, a shell and an address bar, with the effect of each.

A command is a verb and, for most, a place. After "doubt", nobody knows what the line holds; see `Guess.doubt`.
"""

from __future__ import annotations

from collections.abc import Mapping

_PLACES = {
    "left": "left",
    "right": "right",
    "home": "start",
    "end": "end",
    "up": "start",
    "down": "end",
    "ctrl+left": "word before",
    "ctrl+right": "word after",
    "ctrl+home": "first",
    "ctrl+end": "last",
}
_COMMON = {
    "backspace": "rub left",
    "delete": "rub right",
    "ctrl+backspace": "rub word before",
    "ctrl+delete": "rub word after",
    **{keys: f"go {where}" for keys, where in _PLACES.items()},
    **{f"shift+{keys}": f"select {where}" for keys, where in _PLACES.items() if "+" not in keys},
    **{keys.replace("+", "+shift+"): f"select {where}" for keys, where in _PLACES.items() if "+" in keys},
    "shift+insert": "paste",
    "ctrl+shift+v": "paste",
}
_FIELD = {
    **_COMMON,
    "ctrl+a": "select all",
    "ctrl+c": "copy",
    "ctrl+insert": "copy",
    "ctrl+x": "cut",
    "shift+delete": "cut",
    "ctrl+v": "paste",
    "pageup": "go first",
    "pagedown": "go last",
    "insert": "doubt",
}
OTHER_LINES = frozenset({"up", "down", "pageup", "pagedown"})
"""Keys that put the caret into an unknown line of a field."""
_REMAKING = (
    *("ctrl+_", "ctrl+-", "ctrl+/", "ctrl+7", "alt+t", "alt+r", "alt+\\", "alt+y", "alt+.", "alt+_", "alt+&", "alt+^"),
    *("alt+*", "alt+/", "alt+~", "alt+!", "alt+@", "alt+$", "alt+{", "alt+#", "ctrl+alt+e", "ctrl+alt+y"),
)
"""Keys with which a shell changes its line in an unknown way: undo, complete, swap words, paste an older deletion."""
_SHELL = {
    **_COMMON,
    "ctrl+a": "go start",
    "ctrl+e": "go end",
    "ctrl+b": "go left",
    "ctrl+f": "go right",
    "alt+b": "go word before",
    "alt+f": "go word after",
    "ctrl+h": "rub left",
    "ctrl+d": "rub right",
    "ctrl+8": "rub left",
    "ctrl+w": "rub blank before",
    "ctrl+alt+h": "rub word before",
    "alt+backspace": "rub word before",
    "alt+d": "rub word after",
    "ctrl+u": "rub start",
    "ctrl+k": "rub end",
    "ctrl+t": "swap",
    "alt+l": "lower",
    "alt+u": "upper",
    "alt+c": "capital",
    "ctrl+y": "yank",
    "ctrl+j": "enter",
    "ctrl+m": "enter",
    "ctrl+i": "tab",
    "alt+enter": "enter",
    "escape": "prefix alt",
    "ctrl+[": "prefix alt",
    "ctrl+3": "prefix alt",
    "ctrl+x": "prefix ctrl+x",
    **{f"alt+{digit}": f"count {digit}" for digit in "0123456789-"},
    **dict.fromkeys(_REMAKING, "doubt now"),
    **dict.fromkeys(["ctrl+]", "ctrl+5", "ctrl+alt+]", "insert"], "doubt"),
}
AFTER_CTRL_X = {
    "backspace": "rub start",
    "ctrl+h": "rub start",
    "ctrl+8": "rub start",
    "ctrl+x": "doubt",
    **dict.fromkeys(["ctrl+u", "ctrl+e", "e", "*", "!", "$", "/", "@", "~"], "doubt now"),
}
"""The commands of a shell after ctrl+x; other keys do nothing."""
_BAR = {
    **_FIELD,
    **dict.fromkeys(["ctrl+l", "alt+d", "f6", "ctrl+t", "ctrl+n", "ctrl+shift+p"], "open"),
    "escape": "clear",
    "alt+enter": "enter",
    "ctrl+enter": "enter as a name",
}
KINDS: Mapping[str, Mapping[str, str]] = {
    "stream": {"shift+insert": "paste", "ctrl+shift+v": "paste", "ctrl+v": "paste"},
    "field": _FIELD,
    "shell": _SHELL,
    "bar": _BAR,
}
ORDER = ("ctrl", "alt", "shift", "super")
