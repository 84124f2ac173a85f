"""The check that programs on an X display still answer; window managers do the same before they offer to kill one.

Formats: X11 protocol, appendix B; `_NET_WM_PING` of EWMH 1.5, which Qt, GTK and browsers answer, and xterm does not.
"""

from __future__ import annotations

import struct

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.desktops.x11.display import XDisplay

_GET_PROPERTY, _SEND_EVENT, _CLIENT_MESSAGE, _ANY_TYPE = 20, 25, 33, 0
_LONGEST_LIST = 1024


def hangs(display: XDisplay, timeout_s: float) -> bool:
    """Return whether a window that takes pings has left one unanswered for `timeout_s`. Raises ConnectionLost."""
    protocols, ping = display.atom(b"WM_PROTOCOLS"), display.atom(b"_NET_WM_PING")
    windows = _numbers(display, display.root, display.atom(b"_NET_CLIENT_LIST"))
    silent = {window for window in windows if ping in _numbers(display, window, protocols)}
    for window in silent:
        event = struct.pack("<BBHIIIIIII", _CLIENT_MESSAGE, 32, 0, window, protocols, ping, 0, window, 0, 0)
        display.tell(_SEND_EVENT, struct.pack("<II", window, 0) + event)
    deadline = Deadline(timeout_s)
    while silent and deadline.remaining_s:
        kind, message, what, window = struct.unpack_from("<B7xII4xI", display.event(deadline.remaining_s))
        if (kind & 0x7F, message, what) == (_CLIENT_MESSAGE, protocols, ping):
            silent.discard(window)
    return bool(silent)


def _numbers(display: XDisplay, window: int, atom: int) -> tuple[int, ...]:
    """Return a window's property that is a list of windows or atoms; empty if it has none, or no longer exists."""
    answer = display.ask(_GET_PROPERTY, struct.pack("<IIIII", window, atom, _ANY_TYPE, 0, _LONGEST_LIST))
    if len(answer) <= 32 or answer[1] != 32:
        return ()
    (count,) = struct.unpack_from("<I", answer, 16)
    return struct.unpack_from(f"<{count}I", answer, 32)
