"""Names of keys: as users and models write them, as X keysyms, and in the form that
rules compare.

Source of the keysyms: X11/keysymdef.h. The keysym of a character is its Latin-1 code, or
0x01000000 plus its code point.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pytest_vnc_use.errors import ActionError

SHIFT = 0xFFE1
SHIFT_R = 0xFFE2
CONTROL = 0xFFE3
CONTROL_R = 0xFFE4
ALT = 0xFFE9
ALT_R = 0xFFEA
ALT_GR = 0xFE03
SUPER = 0xFFEB
SUPER_R = 0xFFEC
ESCAPE = 0xFF1B
RETURN = 0xFF0D
TAB = 0xFF09
BACKSPACE = 0xFF08
DELETE = 0xFFFF
INSERT = 0xFF63
HOME = 0xFF50
END = 0xFF57
PAGE_UP = 0xFF55
PAGE_DOWN = 0xFF56
LEFT = 0xFF51
UP = 0xFF52
RIGHT = 0xFF53
DOWN = 0xFF54
F1 = 0xFFBE
KEYPAD_ENTER = 0xFF8D
KEYPAD_DELETE = 0xFF9F
_KEYPAD_BASE = 0xFF80
"""The keysym of a key of the number pad is this plus the code of its character."""
_KEYPAD_WITHOUT_NUM_LOCK = 0xFF95
"""The first keysym of the number pad's keys while num lock is off."""
_UNICODE = 0x01000000

_MODIFIERS = {
    SHIFT: ("shift", "shiftl", "shiftleft"),
    SHIFT_R: ("shiftr", "shiftright"),
    CONTROL: ("control", "ctrl", "ctl", "controll", "ctrll", "controlleft", "ctrlleft", "controlormeta"),
    CONTROL_R: ("controlr", "ctrlr", "controlright", "ctrlright"),
    ALT: ("alt", "option", "opt", "altl", "altleft", "optionleft"),
    ALT_R: ("altr", "altright", "optionright"),
    ALT_GR: ("altgr", "altgraph", "isolevel3shift"),
    SUPER: ("super", "win", "windows", "meta", "cmd", "command", "os", "superl", "winl", "winleft", "metal",
            "metaleft", "cmdl", "commandleft", "osleft"),
    SUPER_R: ("superr", "winr", "winright", "metar", "metaright", "cmdr", "commandright", "osright"),
}  # fmt: skip
MODIFIERS = frozenset(_MODIFIERS)

_NAMED_KEYS = {
    ESCAPE: ("escape", "esc"),
    RETURN: ("return", "enter", "ret", "linefeed", "newline"),
    TAB: ("tab", "tabulator"),
    BACKSPACE: ("backspace", "bksp", "bsp"),
    DELETE: ("delete", "del", "forwarddelete"),
    INSERT: ("insert", "ins"),
    HOME: ("home",),
    END: ("end",),
    PAGE_UP: ("pageup", "pgup", "prior"),
    PAGE_DOWN: ("pagedown", "pgdn", "pgdown", "next"),
    LEFT: ("left", "arrowleft", "leftarrow"),
    UP: ("up", "arrowup", "uparrow"),
    RIGHT: ("right", "arrowright", "rightarrow"),
    DOWN: ("down", "arrowdown", "downarrow"),
    0xFF61: ("printscreen", "print", "prtsc", "prtscr", "prtscn", "prntscrn", "sysrq"),
    0xFF13: ("pause", "break"),
    0xFF67: ("menu", "contextmenu", "apps"),
    0xFFE5: ("capslock", "caps"),
    0xFF7F: ("numlock",),
    0xFF14: ("scrolllock",),
    0x20: ("space", "spacebar"),
}

_CHARACTER_NAMES = {
    "+": ("plus", "add"),
    "-": ("minus", "hyphen", "dash", "subtract"),
    "=": ("equal", "equals"),
    ",": ("comma",),
    ".": ("period", "dot", "fullstop", "decimal"),
    "/": ("slash", "forwardslash", "divide"),
    "\\": ("backslash",),
    ";": ("semicolon",),
    ":": ("colon",),
    "'": ("apostrophe", "quote", "singlequote"),
    '"': ("quotedbl", "doublequote"),
    "`": ("grave", "backquote", "backtick"),
    "~": ("asciitilde", "tilde"),
    "[": ("bracketleft", "leftbracket", "openbracket"),
    "]": ("bracketright", "rightbracket", "closebracket"),
    "{": ("braceleft", "leftbrace"),
    "}": ("braceright", "rightbrace"),
    "(": ("parenleft", "leftparen"),
    ")": ("parenright", "rightparen"),
    "<": ("less", "lessthan"),
    ">": ("greater", "greaterthan"),
    "|": ("bar", "pipe"),
    "_": ("underscore",),
    "!": ("exclam", "exclamation"),
    "@": ("at",),
    "#": ("numbersign", "hash"),
    "$": ("dollar",),
    "%": ("percent",),
    "^": ("asciicircum", "caret"),
    "&": ("ampersand",),
    "*": ("asterisk", "star", "multiply"),
    "?": ("question", "questionmark"),
}

_KEYPAD_CHARACTERS = {
    "*": "multiply", "+": "add", "-": "subtract", ".": "decimal", "/": "divide", "=": "equal",
    **{digit: digit for digit in "0123456789"},
}  # fmt: skip
_KEYPAD = {
    name: _KEYPAD_BASE + ord(character)
    for character, name in _KEYPAD_CHARACTERS.items()
}
_KEYPAD |= {"enter": KEYPAD_ENTER, "delete": KEYPAD_DELETE}
KEYPAD_CHARACTERS = {
    _KEYPAD_BASE + ord(character): ord(character) for character in _KEYPAD_CHARACTERS
}
"""The keysyms of the number pad, and the characters that they make while num lock is
on.
"""

_SHIFTED_FROM = r"""`1234567890-=[]\;',./"""
_SHIFTED_TO = r"""~!@#$%^&*()_+{}|:"<>?"""
_TO_SHIFTED = str.maketrans(_SHIFTED_FROM, _SHIFTED_TO)
_FROM_SHIFTED = str.maketrans(_SHIFTED_TO, _SHIFTED_FROM)
_CODE = re.compile(r"^(?:digit(?=.$)|(?:qt\.)?(?:key\.)?key(?!pad)(?=.))")
"""The prefixes of key names in browsers and Qt, as in `Digit1`, `KeyA`, `Key_Return`,
`Qt.Key.Key_Return`.
"""
_CONTROL_KEYS = {
    "\n": RETURN,
    "\r": RETURN,
    "\t": TAB,
    "\b": BACKSPACE,
    "\x1b": ESCAPE,
    "\x7f": DELETE,
}
MAX_KEYS = 100
"""The maximum number of keys in one combination."""
_MAX_COMBINATION = 1_000
"""The maximum characters in a combination that is written with spaces."""
_EXAMPLES = (
    "ctrl, alt, shift, super, enter, esc, tab, space, backspace, delete, insert, home,"
    " end, page_up, page_down, left, right, up, down, caps_lock, menu, print_screen,"
    " kp_0 to kp_9, plus, minus, comma"
)


def _keysyms_by_name() -> dict[str, int]:
    named: dict[str, int] = {}
    for table in (_MODIFIERS, _NAMED_KEYS):
        for keysym, names in table.items():
            named |= dict.fromkeys(names, keysym)
    for character, names in _CHARACTER_NAMES.items():
        named |= dict.fromkeys(names, ord(character))
    named |= {f"f{number}": F1 + number - 1 for number in range(1, 25)}
    for prefix in ("kp", "numpad", "keypad", "num"):
        named |= {prefix + name: keysym for name, keysym in _KEYPAD.items()}
    return named


_KEYSYMS = _keysyms_by_name()
_NAMES = {keysym: name for name, keysym in reversed(_KEYSYMS.items())}
_PAD_KEYS = (
    HOME,
    LEFT,
    UP,
    RIGHT,
    DOWN,
    PAGE_UP,
    PAGE_DOWN,
    END,
    0,  # the key in the middle
    INSERT,
    DELETE,
)
"""The keys that the number pad has while num lock is off, in the order of their
keysyms.
"""
_SAME_AS = {
    0xFE20: TAB,  # ISO_Left_Tab, which shift+tab makes
    0xFFE7: ALT,  # Meta_L, which shift+alt makes
    0xFFE8: ALT_R,  # Meta_R
    0xFF7E: ALT_GR,  # Mode_switch
    **dict(enumerate(_PAD_KEYS, start=_KEYPAD_WITHOUT_NUM_LOCK)),
}
"""The keys that have another keysym in some state of the keyboard."""
_CODECS = {
    0x1: "iso8859-2",
    0x2: "iso8859-3",
    0x3: "iso8859-4",
    0x5: "iso8859-6",
    0x6: "koi8-u",
    0x7: "iso8859-7",
    0xC: "iso8859-8",
    0xD: "iso8859-11",
    0x13: "iso8859-15",
}
"""The character sets of keysyms older than Unicode's, by the high byte; the low byte is
a byte of the set.
"""
_RULE_NAMES = {
    "control": "ctrl",
    "controlr": "ctrl",
    "shiftr": "shift",
    "altr": "alt",
    "superr": "super",
    "return": "enter",
    "kpenter": "enter",
    " ": "space",
}
"""The names that differ from those of the keysyms: left and right are the same, and so
is the number pad.
"""
_SEPARATOR = re.compile(r"(?<=.)\+(?=.)")  # a "+" at either end is the key itself


@dataclass(frozen=True)
class Chord:
    """Keysyms to press in order and to release in reverse order."""

    keysyms: tuple[int, ...]

    @property
    def enters(self) -> bool:
        """Whether the last key is Enter, on the main keyboard or the number pad."""
        return self.keysyms[-1] in (RETURN, KEYPAD_ENTER)

    @property
    def text(self) -> str:
        """The character, if the chord is a single one beyond ASCII; "" for every other
        chord.
        """
        keysym = self.keysyms[0]
        is_beyond_ascii = 0xA0 <= keysym <= 0xFF or keysym >= _UNICODE
        is_single = len(self.keysyms) == 1
        return chr(keysym % _UNICODE) if is_beyond_ascii and is_single else ""


def keysym_of(character: str) -> int:
    """Return the keysym of one printable character, or of the key that makes a tab, a
    line feed or the like.
    """
    if character in _CONTROL_KEYS:
        return _CONTROL_KEYS[character]
    code = ord(character)
    return code if code <= 0xFF else _UNICODE | code


def chord_of(character: str) -> Chord:
    """Return the chord that types one character, with shift if a US keyboard
    needs it.
    """
    keysym = keysym_of(character)
    return Chord((SHIFT, keysym) if _is_shifted(character) else (keysym,))


def parse_key(key: str) -> int:
    """Return the keysym of a key name or alias. Raises ActionError if it is unknown."""
    keysym = _keysym(key)
    # half of a surrogate pair is no character
    if keysym is None or 0xD800 <= keysym % _UNICODE <= 0xDFFF:
        raise ActionError(
            f"unknown key {key!r}. A key is a single character, 'f1' to 'f24', or one"
            f" of {_EXAMPLES}"
        )
    return keysym


def _keysym(key: str) -> int | None:
    if len(key) == 1:
        return keysym_of(key)
    name = _CODE.sub("", re.sub(r"(?<=\w)[_\-\s]+(?=\w)", "", key).casefold())
    return ord(name) if len(name) == 1 else _KEYSYMS.get(name)


def split_combination(name: str) -> list[str]:
    """Return the keys of a combination that is written with spaces, such as "alt f";
    "page down" is one key.
    """
    head, _, remainder = name.strip().partition(" ")
    if not remainder or len(name) > _MAX_COMBINATION or _keysym(head) not in MODIFIERS:
        return [name]
    others = split_combination(remainder.strip())
    if any(_keysym(other) is None for other in others):
        return [name]
    return [head, *others]


def key_of(keysym: int) -> str:
    """Return the character or the name of a key that a viewer sends; "" if it is
    unknown.
    """
    character = _character_of(KEYPAD_CHARACTERS.get(keysym, keysym))
    if character and character.isprintable():
        return character
    return _NAMES.get(_SAME_AS.get(keysym, keysym), "")


def _character_of(keysym: int) -> str:
    """Return the character that a keysym types; "" for a key that types nothing."""
    if 0x20 <= keysym <= 0xFF:
        return chr(keysym)
    if _UNICODE < keysym <= _UNICODE + sys.maxunicode:
        return chr(keysym - _UNICODE)
    if keysym == 0x20AC:
        return "€"
    page, low = divmod(keysym, 0x100)
    # accented Greek is in another order
    if page not in _CODECS or (page == 0x7 and low < 0xC0):
        return ""
    return bytes([low]).decode(_CODECS[page], "ignore")


def name_of(keysym: int) -> str:
    """Return a name of a keysym, for messages."""
    return _NAMES.get(keysym, chr(keysym & ~_UNICODE))


def parse_combo(keys: str | Sequence[str], held: Collection[int] = ()) -> Chord:
    """Return the chord of `"control+a"`, of `["ctrl", "a"]`, or of a list with
    combinations inside.

    Letters and symbols are read as a user means them: "ctrl+A" is ctrl+a, and "A" alone
    is shift+a. With shift among the keys or among `held`, "a" is the key with "A" on
    it. A number such as "-12" is a chord of its characters. Raises ActionError if a
    name is unknown.
    """
    names: list[str] = []
    for combination in [keys] if isinstance(keys, str) else keys:
        for piece in _split(combination):
            names += split_combination(piece)
    if not names:
        raise ActionError(f"a key combination must name at least one key, got {keys!r}")
    if len(names) > MAX_KEYS:
        raise ActionError(
            f"a key combination must name at most {MAX_KEYS} keys, got {len(names)}"
        )
    return _as_meant([parse_key(name) for name in names], held)


def _split(combination: str) -> list[str]:
    if len(combination) == 1 or re.fullmatch(r"-?\d+", combination):
        return list(combination)
    names = combination.removesuffix("++").split("+")
    if combination.endswith("++"):
        names.append("+")
    names = [name.strip() or name for name in names]
    if "" in names:
        raise ActionError(
            "a key combination must be keys joined by '+', as 'ctrl+a' or 'ctrl++',"
            f" got {combination!r}"
        )
    return names


def _as_meant(keysyms: list[int], held: Collection[int]) -> Chord:
    """Return the chord of these keys, in the case that a user means."""
    pressed = {*keysyms, *held}
    if SHIFT in pressed or SHIFT_R in pressed:
        return Chord(tuple(map(shifted, keysyms)))
    if pressed & MODIFIERS:
        keysyms = list(map(_lower_case, keysyms))
    if any(_is_shifted(chr(keysym)) for keysym in keysyms if keysym < 0x80):
        return Chord((SHIFT, *keysyms))
    return Chord(tuple(keysyms))


def _lower_case(keysym: int) -> int:
    return keysym | 0x20 if ord("A") <= keysym <= ord("Z") else keysym


def _is_shifted(character: str) -> bool:
    return character in _SHIFTED_TO or "A" <= character <= "Z"


def shifted(keysym: int) -> int:
    """Return the keysym that a key of a US keyboard makes with shift. Other keysyms than
    ASCII characters are returned as they are.
    """
    if not 0x20 <= keysym < 0x80:
        return keysym
    return ord(chr(keysym).upper().translate(_TO_SHIFTED))


def key_set(combination: str | Iterable[str]) -> frozenset[str]:
    """Return the names of a combination's keys, by any alias: "Control_L+Alt+Del" is
    {ctrl, alt, delete}.

    Left and right modifiers are the same, and so are the keys of the number pad and of
    the main block.
    """
    names: list[str] = []
    for text in [combination] if isinstance(combination, str) else combination:
        for key in filter(None, _SEPARATOR.split(text)):
            names += split_combination(key)
    return frozenset(
        _rule_name(name) or re.sub(r"[\s_-]", "", name).lower() for name in names
    )


def on_us_keyboard(keys: Iterable[str]) -> frozenset[str]:
    """Return the keys that a user presses for these names: "!" is shift and "1"."""
    pressed: set[str] = set()
    for name in keys:
        base = name.translate(_FROM_SHIFTED) if len(name) == 1 else name
        pressed.add(base)
        if base != name:
            pressed.add("shift")
    return frozenset(pressed)


def unknown_keys(keys: frozenset[str]) -> frozenset[str]:
    """Return the members of a `key_set` that name no key of a keyboard, such as
    misspelled ones.
    """
    return frozenset(key for key in keys if len(key) != 1 and not _rule_name(key))


def _rule_name(key: str) -> str:
    """Return the name of a key in rules; "" if it is unknown."""
    try:
        name = key_of(parse_key(key))
    except ActionError:
        return ""
    # "İ" would become two characters
    return _RULE_NAMES.get(name, name.lower()[: len(name)])
