"""The extended clipboard of RFB: its messages as bytes, text format only.

Source: rfbproto, "Extended Clipboard Pseudo-Encoding". Messages travel inside ClientCutText and ServerCutText with a
negative length.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntFlag

_CLIENT_CUT_TEXT = 6


class Flag(IntFlag):
    """The formats and actions of a message that concern text."""

    TEXT = 1
    CAPS = 1 << 24
    REQUEST = 1 << 25
    PEEK = 1 << 26
    NOTIFY = 1 << 27
    PROVIDE = 1 << 28


def caps_message() -> bytes:
    """Return the message that says what this client can do; it does not want unsolicited text."""
    return _message(Flag.CAPS | Flag.REQUEST | Flag.PEEK | Flag.NOTIFY | Flag.PROVIDE | Flag.TEXT, struct.pack(">I", 0))


def notify_message() -> bytes:
    """Return the message that the client's clipboard now holds text."""
    return _message(Flag.NOTIFY | Flag.TEXT)


def provide_message(text: str) -> bytes:
    """Return the message with the clipboard's text.

    Line feeds are CR LF and a zero byte is at the end, as the protocol has it.
    """
    body = text.replace("\n", "\r\n").encode() + b"\0"
    return _message(Flag.PROVIDE | Flag.TEXT, zlib.compress(struct.pack(">I", len(body)) + body))


def flags_of(message: bytes) -> Flag:
    """Return the flags of a message from the server. Raises ValueError if it is too short."""
    if len(message) < 4:
        raise ValueError(f"an extended clipboard message must have at least 4 bytes, got {message!r}")
    return Flag(int.from_bytes(message[:4], "big"))


def _message(flags: int, payload: bytes = b"") -> bytes:
    body = struct.pack(">I", flags) + payload
    return struct.pack(">Bxxxi", _CLIENT_CUT_TEXT, -len(body)) + body
