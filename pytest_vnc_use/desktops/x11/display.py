"""A small X client: it sends requests, and notices when a window manager is up and when a window shows.

Formats: X11 protocol, version 11, appendix B.
"""

from __future__ import annotations

import select
import socket
import struct
from collections import deque
from pathlib import Path
from types import TracebackType

from pytest_vnc_use.desktops.x11.credentials import COOKIE_NAME
from pytest_vnc_use.errors import ConnectionLost

_CHANGE_WINDOW_ATTRIBUTES, _GET_GEOMETRY, _INTERN_ATOM, _QUERY_EXTENSION = 2, 14, 16, 98
_EVENT_MASK, _STRUCTURE_NOTIFY, _SUBSTRUCTURE_NOTIFY, _PROPERTY_CHANGE = 1 << 11, 1 << 17, 1 << 19, 1 << 22
_ERROR, _REPLY, _MAP_NOTIFY, _PROPERTY_NOTIFY = 0, 1, 19, 28
_ACCEPTED = 1
_MANAGED = b"_NET_CLIENT_LIST"
"""A property of the root window that an EWMH window manager sets when it is ready for windows.

The better known _NET_SUPPORTING_WM_CHECK comes too early: openbox sets it 35 ms before it answers, and a program that
shows its window in between waits 5 s for that answer (measured with openbox 3.6.1 and xterm).
"""


def socket_path(number: int) -> Path:
    """Return the path at which the X server of display `number` listens."""
    return Path(f"/tmp/.X11-unix/X{number}")


class XDisplay:
    """A connection to display `number`; every answer comes within `timeout_s`, or ConnectionLost is raised.

    `root` is the root window; `keycodes` are all that a keyboard may have.
    """

    def __init__(self, number: int, cookie: bytes, timeout_s: float) -> None:
        self._events: deque[bytes] = deque()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout_s)
        try:
            self._connect(number)
            self.root, self.keycodes = self._set_up(cookie)
            # Qt 6.12 answers pings with an event for clients that listen to the root window
            events = _STRUCTURE_NOTIFY | _SUBSTRUCTURE_NOTIFY | _PROPERTY_CHANGE
            self.tell(_CHANGE_WINDOW_ATTRIBUTES, struct.pack("<III", self.root, _EVENT_MASK, events))
            self._manager_atom = self.atom(_MANAGED)
        except BaseException:  # even a KeyboardInterrupt leaves no half-open connection
            self._socket.close()
            raise

    def __enter__(self) -> XDisplay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def tell(self, opcode: int, body: bytes = b"", data: int = 0) -> None:
        """Send a request that has no answer. `body` is a multiple of 4 bytes; `data` is the header's second byte."""
        self._send(struct.pack("<BBH", opcode, data, 1 + len(body) // 4) + body)

    def ask(self, opcode: int, body: bytes = b"", data: int = 0) -> bytes:
        """Send a request; return the answer, or the error in its place, with its sequence number set to 0."""
        self.tell(opcode, body, data)
        while _kind(answer := self._receive(32)) not in (_REPLY, _ERROR):
            self._events.append(answer)
        rest = self._receive(4 * struct.unpack_from("<I", answer, 4)[0]) if _kind(answer) == _REPLY else b""
        return answer[:2] + bytes(2) + answer[4:] + rest

    def atom(self, name: bytes) -> int:
        """Return the number that stands for a name on this server."""
        return int(struct.unpack_from("<I", self.ask(_INTERN_ATOM, _counted(name)), 8)[0])

    def extension(self, name: bytes) -> int:
        """Return the opcode of an extension; 0 if the server lacks it."""
        present, opcode = struct.unpack_from("<BB", self.ask(_QUERY_EXTENSION, _counted(name)), 8)
        return int(opcode) if present else 0

    def wait(self, timeout_s: float) -> None:
        """Wait for an event of a top window or of the root window's properties, `timeout_s` at most."""
        self._next_event(timeout_s)

    def event(self, timeout_s: float) -> bytes:
        """Return the next event, 32 bytes as they came; zeros if none comes within `timeout_s`."""
        return self._next_event(timeout_s)

    def manager_came_up(self, timeout_s: float) -> bool:
        """Return whether the next event, within `timeout_s`, says that a window manager runs."""
        event = self._next_event(timeout_s)
        return _kind(event) == _PROPERTY_NOTIFY and struct.unpack_from("<I", event, 8)[0] == self._manager_atom

    def window_showed(self, timeout_s: float) -> bool:
        """Return whether the next event, within `timeout_s`, says that a top window larger than a point shows.

        Window managers and toolkits map windows of one pixel for their own purposes.
        """
        event = self._next_event(timeout_s)
        if _kind(event) != _MAP_NOTIFY:
            return False
        return self._is_more_than_a_point(struct.unpack_from("<I", event, 8)[0])

    def _is_more_than_a_point(self, window: int) -> bool:
        answer = self.ask(_GET_GEOMETRY, struct.pack("<I", window))
        width, height = struct.unpack_from("<HH", answer, 16)
        return _kind(answer) == _REPLY and width > 1 and height > 1

    def _connect(self, number: int) -> None:
        try:
            self._socket.connect(str(socket_path(number)))
        except OSError as exc:
            raise ConnectionLost(f"cannot reach the X server of display :{number}: {exc}") from exc

    def _set_up(self, cookie: bytes) -> tuple[int, range]:
        head = struct.pack("<BxHHHHxx", ord("l"), 11, 0, len(COOKIE_NAME), len(cookie))
        self._send(head + _padded(COOKIE_NAME) + _padded(cookie))
        status, length = struct.unpack("<BxxxxxH", self._receive(8))
        body = self._receive(4 * length)
        if status != _ACCEPTED:
            reason = body.decode("latin-1").strip("\0\n ")
            raise ConnectionLost(f"the X server refused a connection of the process that started it: {reason}")
        vendor_length, formats, first_keycode, last_keycode = struct.unpack_from("<16xHxxxBxxxxBB", body)
        screen = 32 + vendor_length + -vendor_length % 4 + 8 * formats
        return int(struct.unpack_from("<I", body, screen)[0]), range(first_keycode, last_keycode + 1)

    def _next_event(self, timeout_s: float) -> bytes:
        """Return the next event, oldest first; 32 zero bytes if none comes in time."""
        if self._events:
            return self._events.popleft()
        if not select.select([self._socket], [], [], timeout_s)[0]:
            return bytes(32)
        return self._receive(32)

    def _send(self, message: bytes) -> None:
        try:
            self._socket.sendall(message)
        except OSError as exc:
            raise ConnectionLost(f"the X server no longer takes requests: {exc}") from exc

    def _receive(self, count: int) -> bytes:
        received = bytearray(count)
        missing = memoryview(received)
        while missing:
            try:
                got = self._socket.recv_into(missing)
            except OSError as exc:
                raise ConnectionLost(f"the X server does not answer: {exc}") from exc
            if not got:
                raise ConnectionLost("the X server ended")
            missing = missing[got:]
        return bytes(received)


def _kind(message: bytes) -> int:
    return message[0] & 0x7F


def _padded(text: bytes) -> bytes:
    return text + bytes(-len(text) % 4)


def _counted(text: bytes) -> bytes:
    return struct.pack("<Hxx", len(text)) + _padded(text)
