"""A person at a VNC viewer, in bytes: the messages that a viewer sends for the person's input (RFC 6143)."""

from __future__ import annotations

import socket
import struct
from types import TracebackType

from pytest_vnc_use.backends.security import answer_challenge

SHIFT, CONTROL, ALT = 0xFFE1, 0xFFE3, 0xFFE9
RETURN, BACKSPACE, TAB, LEFT = 0xFF0D, 0xFF08, 0xFF09, 0xFF51
TIMEOUT_S = 30.0


class Person:
    """A viewer that is connected to `address`, such as `localhost::5930`, until the block ends. It waits for no screen.

    `version` is the viewer's RFB version. `said` is the server's reason for a refusal, "" where it let the viewer in.
    """

    def __init__(self, address: str, password: str = "", version: bytes = b"RFB 003.008\n") -> None:
        host, _, port = address.rpartition("::")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self.said = ""
        self.size = (0, 0)
        try:
            self._shake_hands(password, version)
        except BaseException:
            self._socket.close()
            raise

    def _shake_hands(self, password: str, version: bytes) -> None:
        assert self.read(12) == b"RFB 003.008\n"
        self._socket.sendall(version)
        choices = self.read(4)[3:] if version < b"RFB 003.007\n" else self.read(self.read(1)[0])
        if choices in (b"", b"\0"):
            self.said = self.read(self.read(4)[3]).decode()
            return
        wanted = choices[0]
        if version >= b"RFB 003.007\n":
            self._socket.sendall(bytes([wanted]))
        if wanted == 2:
            self._socket.sendall(answer_challenge(self.read(16), password))
        if (wanted == 2 or version >= b"RFB 003.008\n") and self.read(4) != bytes(4):
            self.said = "refused" if version < b"RFB 003.008\n" else self.read(self.read(4)[3]).decode()
            return
        self._socket.sendall(b"\0")
        width, height, self.form, length = struct.unpack("!HH16sI", self.read(24))
        self.size, self.name = (width, height), self.read(length).decode()

    def __enter__(self) -> Person:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def read(self, count: int) -> bytes:
        """Return so many bytes of the server. Raises EOFError if it is gone."""
        received = b""
        while len(received) < count:
            more = self._socket.recv(count - len(received))
            if not more:
                raise EOFError(received)
            received += more
        return received

    def send(self, *messages: bytes) -> None:
        self._socket.sendall(b"".join(messages))

    def point(self, x: int, y: int, *buttons: int) -> None:
        """Move the pointer with these buttons down, at one go: 1, 2 and 4 from the left, 8 and 16 the wheel."""
        self.send(*(struct.pack("!BBHH", 5, down, x, y) for down in buttons or (0,)))

    def click(self, x: int, y: int, button: int = 1) -> None:
        self.point(x, y, 0, button, 0)

    def press(self, *keysyms: int) -> None:
        """Press keys together, in order, and release them in reverse; at one go."""
        events = [(keysym, True) for keysym in keysyms] + [(keysym, False) for keysym in reversed(keysyms)]
        self.send(*(struct.pack("!B?xxI", 4, down, keysym) for keysym, down in events))

    def type(self, text: str) -> None:
        for character in text:
            keysym = ord(character) if ord(character) < 0x100 else 0x1000000 + ord(character)
            self.press(*([SHIFT, keysym] if character.isupper() else [keysym]))
