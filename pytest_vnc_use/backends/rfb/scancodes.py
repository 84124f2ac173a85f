"""The keys of a PC keyboard by their place, as QEMU takes them, and a key event as bytes.

Scan codes: set 1 of the PC/XT, with 0x80 added where the keyboard sends 0xE0 first. Source of the messages: RFC 6143,
7.5.4, and rfbproto, "QEMU Extended Key Event Message".
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from pytest_vnc_use.keyboard.keysyms import F1, shifted

_KEY_EVENT = 4
_QEMU, _EXTENDED_KEY_EVENT = 255, 0
_ROWS = {0x02: "1234567890-=", 0x10: "qwertyuiop[]", 0x1E: "asdfghjkl;'`", 0x2B: "\\zxcvbnm,./", 0x39: " "}
"""The characters of a US keyboard on consecutive keys, by the code of the first key."""
_OTHERS = {
    0xFF1B: 0x01, 0xFF08: 0x0E, 0xFF09: 0x0F, 0xFF0D: 0x1C,  # Escape, BackSpace, Tab, Return
    0xFFE1: 0x2A, 0xFFE2: 0x36, 0xFFE3: 0x1D, 0xFFE4: 0x9D, 0xFFE9: 0x38, 0xFFEA: 0xB8,  # shift, control, alt
    0xFE03: 0xB8, 0xFFEB: 0xDB, 0xFFEC: 0xDC, 0xFF67: 0xDD,  # AltGr, super, Menu
    0xFFE5: 0x3A, 0xFF7F: 0x45, 0xFF14: 0x46,  # locks: caps, num, scroll
    0xFF61: 0xB7, 0xFF13: 0xC6, 0xFF8D: 0x9C, 0xFF9F: 0x53,  # Print, Pause, Enter and Delete of the number pad
    0xFF63: 0xD2, 0xFFFF: 0xD3, 0xFF50: 0xC7, 0xFF57: 0xCF, 0xFF55: 0xC9, 0xFF56: 0xD1,  # Insert to Page_Down
    0xFF51: 0xCB, 0xFF52: 0xC8, 0xFF53: 0xCD, 0xFF54: 0xD0,  # arrows
    **{F1 + number: 0x3B + number for number in range(10)}, F1 + 10: 0x57, F1 + 11: 0x58,
}  # fmt: skip


_PLAIN = {ord(character): start + nth for start, row in _ROWS.items() for nth, character in enumerate(row)}
US_KEYBOARD: Mapping[int, int] = {**_PLAIN, **{shifted(keysym): code for keysym, code in _PLAIN.items()}, **_OTHERS}
"""The scan code of each keysym; a shifted character has the code of its key."""


def key_event(keysym: int, down: bool, scancode: int = 0) -> bytes:
    """Return the message that a key went down or up.

    Send a scan code only to a server that has confirmed scan codes.
    """
    if scancode:
        return struct.pack(">BBHII", _QEMU, _EXTENDED_KEY_EVENT, down, keysym, scancode)
    return struct.pack(">BBxxI", _KEY_EVENT, down, keysym)
