"""A small X client: hears when a window manager is up, and when a window shows (X11 protocol, version 11, appendix B).

All that is asked here is answered in messages of 32 bytes.
"""

from __future__ import annotations

import select
import socket
import struct
from collections import deque
from pathlib import Path
from types import TracebackType

from pytest_vnc_use.desktops.credentials import COOKIE_NAME
from pytest_vnc_use.errors import ConnectionLost

_CHANGE_WINDOW_ATTRIBUTES, _GET_GEOMETRY, _INTERN_ATOM = 2, 14, 16
_EVENT_MASK, _SUBSTRUCTURE_NOTIFY, _PROPERTY_CHANGE = 1 << 11, 1 << 19, 1 << 22
_ERROR, _REPLY, _MAP_NOTIFY, _PROPERTY_NOTIFY = 0, 1, 19, 28
_ACCEPTED = 1
_MANAGED = b"_NET_CLIENT_LIST"
"""Set on the root window by every manager that follows EWMH, once it is about to take windows.

The better known _NET_SUPPORTING_WM_CHECK comes too early: openbox sets it 35 ms before it answers, and a program that
shows its window in between waits 5 s for that answer (measured with openbox 3.6.1 and xterm).
"""


def socket_path(number: int) -> Path:
    """Where the X server of display `number` listens."""
    return Path(f"/tmp/.X11-unix/X{number}")


class XDisplay:
    """Connected to display `number`; every answer comes within `timeout_s`, or ConnectionLost is raised."""

    def __init__(self, number: int, cookie: bytes, timeout_s: float) -> None:
        self._events: deque[bytes] = deque()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout_s)
        try:
            self._connect(number)
            self._root = self._set_up(cookie)
            self._listen()
            self._manager_atom = self._atom(_MANAGED)
        except BaseException:  # also a KeyboardInterrupt leaves no half-open connection
            self._socket.close()
            raise

    def __enter__(self) -> XDisplay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def manager_came_up(self, timeout_s: float) -> bool:
        """Whether the next thing heard, within `timeout_s`, is that a window manager runs."""
        event = self._next_event(timeout_s)
        return _kind(event) == _PROPERTY_NOTIFY and struct.unpack_from("<I", event, 8)[0] == self._manager_atom

    def window_showed(self, timeout_s: float) -> bool:
        """Whether the next thing heard, within `timeout_s`, is that a top window shows that is more than a point.

        Window managers and toolkits map windows of one pixel for their own purposes.
        """
        event = self._next_event(timeout_s)
        if _kind(event) != _MAP_NOTIFY:
            return False
        return self._is_more_than_a_point(struct.unpack_from("<I", event, 8)[0])

    def _is_more_than_a_point(self, window: int) -> bool:
        self._request(_GET_GEOMETRY, struct.pack("<I", window))
        answer = self._answer()
        width, height = struct.unpack_from("<HH", answer, 16)
        return _kind(answer) == _REPLY and width > 1 and height > 1

    def _connect(self, number: int) -> None:
        try:
            self._socket.connect(str(socket_path(number)))
        except OSError as exc:
            raise ConnectionLost(f"cannot reach the X server of display :{number}: {exc}") from exc

    def _set_up(self, cookie: bytes) -> int:
        head = struct.pack("<BxHHHHxx", ord("l"), 11, 0, len(COOKIE_NAME), len(cookie))
        self._send(head + _padded(COOKIE_NAME) + _padded(cookie))
        status, length = struct.unpack("<BxxxxxH", self._receive(8))
        body = self._receive(4 * length)
        if status != _ACCEPTED:
            reason = body.decode("latin-1").strip("\0\n ")
            raise ConnectionLost(f"the X server did not let its own starter in: {reason}")
        vendor_length, formats = struct.unpack_from("<16xHxxxB", body)
        screen = 32 + vendor_length + -vendor_length % 4 + 8 * formats
        return int(struct.unpack_from("<I", body, screen)[0])

    def _listen(self) -> None:
        events = _SUBSTRUCTURE_NOTIFY | _PROPERTY_CHANGE
        self._request(_CHANGE_WINDOW_ATTRIBUTES, struct.pack("<III", self._root, _EVENT_MASK, events))

    def _atom(self, name: bytes) -> int:
        self._request(_INTERN_ATOM, struct.pack("<Hxx", len(name)) + _padded(name))
        return int(struct.unpack_from("<I", self._answer(), 8)[0])

    def _request(self, opcode: int, body: bytes) -> None:
        self._send(struct.pack("<BxH", opcode, 1 + len(body) // 4) + body)

    def _answer(self) -> bytes:
        while _kind(message := self._receive(32)) not in (_REPLY, _ERROR):
            self._events.append(message)
        return message

    def _next_event(self, timeout_s: float) -> bytes:
        """The next event, oldest first; 32 zero bytes where none comes in time."""
        if self._events:
            return self._events.popleft()
        if not select.select([self._socket], [], [], timeout_s)[0]:
            return bytes(32)
        return self._receive(32)

    def _send(self, message: bytes) -> None:
        try:
            self._socket.sendall(message)
        except OSError as exc:
            raise ConnectionLost(f"the X server takes no requests any more: {exc}") from exc

    def _receive(self, count: int) -> bytes:
        received = b""
        while len(received) < count:
            try:
                piece = self._socket.recv(count - len(received))
            except OSError as exc:
                raise ConnectionLost(f"the X server does not answer: {exc}") from exc
            if not piece:
                raise ConnectionLost("the X server ended")
            received += piece
        return received


def _kind(message: bytes) -> int:
    return message[0] & 0x7F


def _padded(text: bytes) -> bytes:
    return text + bytes(-len(text) % 4)
