"""What a VNC server is known to take, told from what it offers: measured, so that no wrong character ever arrives.

- TigerVNC 1.12 takes every key, but text beyond ASCII is mapped to spare keycodes, of which it has about 20 and frees
  none. Its extended clipboard carries any text, and says when a program fetches it.
- TightVNC 1.3.10 does the same with 167 spare keycodes: enough for Latin-1, and for nothing more.
- Qt's own VNC server takes Latin-1 and the keys below, and drops all else, the wheel too, without a word.
- x11vnc 0.9.16 has about 20 spare keycodes, its clipboard is Latin-1, and its number pad moves the caret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_vnc_use.backends.keys import F1, KEYPAD_CHARACTERS, Chord, name_of
from pytest_vnc_use.backends.text_input import TextReach
from pytest_vnc_use.errors import ActionError

_QT_DESKTOP = "Qt for Embedded Linux VNC Server"
_TIGHT_SECURITY = 16
_QT_KEYS = frozenset(
    [
        *range(0x20, 0x100),
        *(0xFF08, 0xFF09, 0xFF0D, 0xFF1B, 0xFF63, 0xFFFF),  # BackSpace, Tab, Return, Escape, Insert, Delete
        *range(0xFF50, 0xFF58),  # Home, arrows, pages, End
        *(0xFF8D, 0xFFAA, 0xFFAB, 0xFFAD, 0xFFAE, 0xFFAF, *range(0xFFB0, 0xFFBA)),  # number pad
        *range(F1, F1 + 12),
        *(
            0xFFE1,
            0xFFE2,
            0xFFE3,
            0xFFE4,
            0xFFE9,
            0xFFEA,
        ),  # shift, control, alt; meta would modify nothing
    ]
)


@dataclass(frozen=True)
class Abilities:
    """How text gets in, whether the wheel does, which keysyms stand for others, and which alone are taken."""

    text: TextReach
    wheel: bool = True
    substitutes: Mapping[int, int] = field(default_factory=dict)
    only_keysyms: frozenset[int] | None = None

    def keysym(self, keysym: int) -> int:
        """The keysym to send for `keysym`. Raises ActionError where the server would drop it."""
        keysym = self.substitutes.get(keysym, keysym)
        if self.only_keysyms is not None and keysym not in self.only_keysyms:
            raise ActionError(
                f"this VNC server drops the key {name_of(keysym)!r}; it takes Latin-1, F1 to F12 and the editing keys"
            )
        return keysym

    def chord(self, chord: Chord) -> Chord:
        """The chord to send for `chord`. Raises ActionError where the server would drop a part of it."""
        return Chord(tuple(map(self.keysym, chord.keysyms)))


def abilities_of(desktop_name: str, security_types: bytes, *, announces_clipboard: bool) -> Abilities:
    """What a server takes, told from its desktop's name, the security types it offered, and its clipboard."""
    if desktop_name == _QT_DESKTOP:
        return Abilities("latin-1", wheel=False, only_keysyms=_QT_KEYS)
    if announces_clipboard:
        return Abilities("clipboard")
    if _TIGHT_SECURITY in security_types:
        return Abilities("latin-1")
    return Abilities("ascii", substitutes=KEYPAD_CHARACTERS)
