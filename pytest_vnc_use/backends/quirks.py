"""The input that each VNC server supports, as measured. The server is recognised by what
it offers.

To each of these servers but QEMU a text is sent at once, and the server takes it at its
own pace:

- TigerVNC 1.12 takes every key. Characters that its keyboard layout lacks are mapped to
  spare keycodes, of which it has about 20 and frees none. That concerns text beyond
  ASCII, and half of the Latin letters where the layout is a Russian one alone (with
  `us,ru` it finds them all). Its extended clipboard carries any text, and says when a
  program fetches it.
- TightVNC 1.3.10 does the same with 167 spare keycodes: enough for Latin-1, and for
  nothing more.
- Qt's own VNC server takes Latin-1 and the keys below. It silently drops everything
  else, the wheel too. Its program always uses Qt, which counts a double click only if
  the clicks are within 5 of its pixels.
- x11vnc 0.9.16 has about 20 spare keycodes, and its number pad moves the caret. While a
  layout that is not Latin is active, it presses the keys of Latin letters, which then
  make other letters.
- QEMU 7.2 takes a key event every 10 ms, queues about 340 and drops the rest, while the
  pointer overtakes them. It has the characters of one keyboard. By scan codes that is a
  US keyboard; with its option -k it is the keyboard named by it, and QEMU takes no scan
  codes.
- RFB's plain cut text is no alternative: TightVNC and x11vnc put it into the cut buffer,
  which only xterm reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Union

from pytest_vnc_use.errors import ActionError
from pytest_vnc_use.types.keys import F1, KEYPAD_CHARACTERS, Chord, name_of, shifted

_QT_DESKTOP = "Qt for Embedded Linux VNC Server"
_QEMU = "QEMU"
_QEMU_EVENT_S = 0.01
_X11VNC_NAME = re.compile(r"[\w.-]+:\d+")
_TIGHT_SECURITY = 16
_QT_KEYS = frozenset(
    [
        *range(0x20, 0x100),
        # BackSpace, Tab, Return, Escape, Insert, Delete
        *(0xFF08, 0xFF09, 0xFF0D, 0xFF1B, 0xFF63, 0xFFFF),
        *range(0xFF50, 0xFF58),  # Home, arrows, pages, End
        # number pad
        *(0xFF8D, 0xFFAA, 0xFFAB, 0xFFAD, 0xFFAE, 0xFFAF, *range(0xFFB0, 0xFFBA)),
        *range(F1, F1 + 12),
        # shift, control, alt; meta would have no effect
        *(*range(0xFFE1, 0xFFE5), 0xFFE9, 0xFFEA),
    ]
)

_ROWS = {
    0x02: "1234567890-=",
    0x10: "qwertyuiop[]",
    0x1E: "asdfghjkl;'`",
    0x2B: "\\zxcvbnm,./",
    0x39: " ",
}
"""The characters of a US keyboard on consecutive keys, by the code of the first key."""
_OTHER_KEYS = {
    # Escape, BackSpace, Tab, Return
    0xFF1B: 0x01, 0xFF08: 0x0E, 0xFF09: 0x0F, 0xFF0D: 0x1C,
    # shift, control, alt
    0xFFE1: 0x2A, 0xFFE2: 0x36, 0xFFE3: 0x1D, 0xFFE4: 0x9D, 0xFFE9: 0x38, 0xFFEA: 0xB8,
    0xFE03: 0xB8, 0xFFEB: 0xDB, 0xFFEC: 0xDC, 0xFF67: 0xDD,  # AltGr, super, Menu
    0xFFE5: 0x3A, 0xFF7F: 0x45, 0xFF14: 0x46,  # locks: caps, num, scroll
    # Print, Pause, Enter and Delete of the number pad
    0xFF61: 0xB7, 0xFF13: 0xC6, 0xFF8D: 0x9C, 0xFF9F: 0x53,
    # Insert to Page_Down
    0xFF63: 0xD2, 0xFFFF: 0xD3, 0xFF50: 0xC7, 0xFF57: 0xCF, 0xFF55: 0xC9, 0xFF56: 0xD1,
    0xFF51: 0xCB, 0xFF52: 0xC8, 0xFF53: 0xCD, 0xFF54: 0xD0,  # arrows
    **{F1 + number: 0x3B + number for number in range(10)}, F1 + 10: 0x57, F1 + 11: 0x58,
}  # fmt: skip


_PLAIN: dict[int, int] = {}
for _start, _row in _ROWS.items():
    for _code, _character in enumerate(_row, _start):
        _PLAIN[ord(_character)] = _code
US_KEYBOARD: Mapping[int, int] = {
    **_PLAIN,
    **{shifted(keysym): code for keysym, code in _PLAIN.items()},
    **_OTHER_KEYS,
}
"""The scan code of each keysym; a shifted character has the code of its key."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_BEYOND_LATIN = re.compile(r"[^\x00-\xff]")
_HALF = re.compile(r"[\ud800-\udfff]")
TypableText = Literal["ascii", "latin-1", "clipboard", "clipboard only"]
"""The text that a server takes: ASCII by keys, Latin-1 by keys, ASCII by keys and the
rest pasted, or all pasted.
"""
_DESCRIPTIONS: Mapping[TypableText, str] = {
    "ascii": "ASCII goes by keys, nothing else can be typed",
    "latin-1": "Latin-1 goes by keys, nothing else can be typed",
    "clipboard": "ASCII goes by keys, lines with anything else by the clipboard",
    "clipboard only": "all text goes by the clipboard",
}


@dataclass(frozen=True)
class ServerQuirks:
    """The input that a server takes, and its pace."""

    text: TypableText
    wheel: bool = True
    """Whether there is a wheel."""
    substitutes: Mapping[int, int] = field(default_factory=dict)
    """The keysym to send in place of another."""
    only_keysyms: frozenset[int] | None = None
    """All keysyms that the desktop takes; None for no limit."""
    event_s: float = 0.0
    """The time that the server needs for a key event."""
    scancodes: Mapping[int, int] = field(default_factory=dict)
    """The scan code to send along with a keysym."""
    doubles_only_near: bool = False
    """Whether two clicks at different points never count as a double click."""

    def keysym(self, keysym: int) -> int:
        """Return the keysym to send for `keysym`. Raises ActionError if the server does
        not support it.
        """
        keysym = self.substitutes.get(keysym, keysym)
        if self.only_keysyms is not None and keysym not in self.only_keysyms:
            characters = "ASCII" if self.text == "ascii" else "Latin-1"
            raise ActionError(
                f"this VNC server does not support the key {name_of(keysym)!r}. It"
                f" supports {characters}, F1 to F12 and the editing keys"
            )
        return keysym

    def chord(self, chord: Chord) -> Chord:
        """Return the chord to send for `chord`. Raises ActionError if the server does
        not support one of its keys.
        """
        return Chord(tuple(map(self.keysym, chord.keysyms)))

    @property
    def has_clipboard(self) -> bool:
        """Whether the server takes text of any script for its clipboard, and reports
        that a program fetched it.
        """
        return self.text.startswith("clipboard")

    def __str__(self) -> str:
        description = _DESCRIPTIONS[self.text]
        if self.scancodes:
            description += ", scan codes of a US keyboard"
        if self.event_s:
            description += f", {1 / self.event_s:.0f} key events a second"
        return description


def is_named_by_x11vnc(desktop_name: str) -> bool:
    """Return whether the name is the one that x11vnc gives: host and display."""
    return bool(_X11VNC_NAME.fullmatch(desktop_name))


def quirks_of(
    desktop_name: str,
    security_types: bytes,
    *,
    announces_clipboard: bool,
    takes_scancodes: bool,
) -> ServerQuirks:
    """Return the quirks of a server, recognised by its desktop's name, its security
    types and its confirmations.
    """
    if desktop_name == _QT_DESKTOP:
        return ServerQuirks(
            "latin-1", wheel=False, only_keysyms=_QT_KEYS, doubles_only_near=True
        )
    if desktop_name.startswith(_QEMU):
        return ServerQuirks(
            "ascii",
            substitutes=KEYPAD_CHARACTERS,
            only_keysyms=frozenset(US_KEYBOARD),
            event_s=_QEMU_EVENT_S,
            scancodes=US_KEYBOARD if takes_scancodes else {},
        )
    if announces_clipboard:
        return ServerQuirks("clipboard")
    if _TIGHT_SECURITY in security_types:
        return ServerQuirks("latin-1")
    return ServerQuirks("ascii", substitutes=KEYPAD_CHARACTERS)


@dataclass(frozen=True)
class Typed:
    """Characters to type one by one; line feeds and tabs go as their keys."""

    text: str


@dataclass(frozen=True)
class Pasted:
    """Characters of one line to paste."""

    text: str


Piece = Union[Typed, Pasted]
_MAX_PASTES = 4
"""The maximum parts of a line that are pasted between keys."""


def plan_text(text: str, typable: TypableText) -> tuple[Piece, ...]:
    """Return the pieces of `text` in order.

    Raises ActionError, before anything is typed, if the server cannot type a character.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    _reject_characters(_HALF, text, "half of a surrogate pair is no text: nothing can")
    _reject_characters(_CONTROL, text, "no key can")
    match typable:
        case "ascii":
            _reject_characters(_BEYOND_ASCII, text, "this VNC server cannot")
        case "latin-1":
            _reject_characters(_BEYOND_LATIN, text, "this VNC server cannot")
        case "clipboard" | "clipboard only":
            return tuple(_pieces(text, by_keys=typable == "clipboard"))
    return (Typed(text),) if text else ()


def _pieces(text: str, *, by_keys: bool) -> Iterator[Piece]:
    """Yield the pieces: line feeds and tabs always go by keys, ASCII only if `by_keys`
    is set.

    So a program that reacts to keys gets nearly the same as from a user who types a
    line with an accent in it. A line with many such characters is pasted as a whole,
    because each paste takes time.
    """
    for run in re.findall(r"[\n\t]+|[^\n\t]+", text):
        parts = re.findall(r"[\x00-\x7f]+|[^\x00-\x7f]+", run)
        pastes = sum(not part.isascii() for part in parts)
        if run[0] in "\n\t" or (by_keys and not pastes):
            yield Typed(run)
        elif not by_keys or pastes > _MAX_PASTES:
            yield Pasted(run)
        else:
            for part in parts:
                yield Typed(part) if part.isascii() else Pasted(part)


def _reject_characters(unwanted: re.Pattern[str], text: str, problem: str) -> None:
    """Raise ActionError if the text has unwanted characters; `problem` begins its
    message.
    """
    if characters := "".join(dict.fromkeys(unwanted.findall(text))):
        codes = ", ".join(f"U+{ord(character):04X}" for character in characters[:8])
        raise ActionError(
            f"{problem} type the characters {characters[:8]!r} ({codes}). Nothing was"
            " typed"
        )
