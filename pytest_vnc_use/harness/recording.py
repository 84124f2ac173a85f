"""The recording of what a VNC client and its server send: four files in `recording/`.

`server.rfb.bin` and `client.rfb.bin` hold the RFB messages of one connection, without
the WebSocket and TLS around them. `server.time.bin` and `client.time.bin` have an entry
for each piece of them: the seconds since the start of the recording as a double, and
the number of bytes as a 32-bit integer, both little-endian.

The handshake is written as that of a server without a password, so no password is in a
recording. Keys and clipboard texts with a declared secret are replaced by a plain
ClientCutText message with the secret's name, `<secret:NAME>`. This client sends no such
message otherwise.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_vnc_use import clock
from pytest_vnc_use.backends.client import DesktopFactory, DesktopProtocol
from pytest_vnc_use.errors import RunDirectoryUnwritable

RECORDING = "recording"
_SERVER_HELLO = b"RFB 003.008\n" + b"\1\1" + bytes(4)
"""The version, the security type None, and the result."""
_CLIENT_HELLO = b"RFB 003.008\n" + b"\1" + b"\1"
"""The version, that type, and that other clients may share the desktop."""
PIECE = struct.Struct("<dI")
_CUT_TEXT = b"\6"
_HOLDING_TEXT = (b"\4", _CUT_TEXT, b"\xff")
"""The types of a client's messages with keys or a text; the last one is QEMU's."""


class Recorder:
    """The streams of one connection. The reactor's thread writes them; another thread
    may close them.
    """

    def __init__(self, directory: Path) -> None:
        """Raise RunDirectoryUnwritable if the files cannot be made."""
        self._directory = directory
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            names = (
                "server.rfb.bin",
                "server.time.bin",
                "client.rfb.bin",
                "client.time.bin",
            )
            # unbuffered, so that they are complete after a crash
            self._files = [(directory / name).open("wb", buffering=0) for name in names]
        except OSError as exc:
            raise RunDirectoryUnwritable(
                f"Cannot write a recording into {str(directory)!r}: {exc}."
            ) from exc
        self._lock = threading.Lock()
        self._total = 0
        self.drawn = 0
        """The number of the server's bytes that make the screen as it is now."""
        self._started_at = clock.monotonic()
        self._problem: OSError | None = None
        self._marks: Sequence[str] = ()
        self._is_marked = False
        self._withheld: set[bytes] = set()
        """Digests of clipboard messages with a secret, which a program may fetch again.
        """

    @property
    def seconds(self) -> float:
        """The seconds since the start of the recording."""
        return clock.monotonic() - self._started_at

    def received(self, data: bytes) -> None:
        """Write what the server sent, with the time of its arrival."""
        self._write(0, data)
        self._total += len(data)

    def draw(self) -> None:
        """Note that everything received is drawn."""
        self.drawn = self._total

    def sent(self, data: bytes) -> None:
        """Write whole messages of the client, all of one type, without those that hold
        a secret.
        """
        digest = hashlib.sha256(data).digest()
        if self._marks and data[:1] in _HOLDING_TEXT:
            if data[:1] == _CUT_TEXT:
                self._withheld.add(digest)
            text = "".join(self._marks).encode("latin-1", "replace")
            mark = _CUT_TEXT + struct.pack(">3xI", len(text)) + text
            data = b"" if self._is_marked else mark
            self._is_marked = True
        elif digest in self._withheld:
            data = b""
        self._write(2, data)

    def withhold(self, marks: Sequence[str]) -> None:
        """Leave keys and clipboard texts out from now on, and write the names of the
        secrets instead.
        """
        self._marks = marks
        self._is_marked = False

    def close(self) -> None:
        """End the recording; a second call does nothing. Raises RunDirectoryUnwritable
        if it is not whole.
        """
        with self._lock:
            files = self._files
            self._files = []
        for file in files:
            file.close()
        if self._problem:
            problem = self._problem
            self._problem = None
            raise RunDirectoryUnwritable(
                f"The recording in {str(self._directory)!r} ends before the run does:"
                f" {problem}."
            ) from problem

    def _write(self, stream: int, data: bytes) -> None:
        with self._lock:
            if not data or not self._files or self._problem:
                return
            try:
                self._files[stream].write(data)
                self._files[stream + 1].write(PIECE.pack(self.seconds, len(data)))
            except OSError as exc:  # the connection must continue; `close` reports it
                self._problem = exc


class RecordedFactory(DesktopFactory):
    """The factory of a connection that is recorded from its first message on."""

    def __init__(self, recorder: Recorder, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.recorder = recorder
        self.protocol = _RecordedProtocol


class _RecordedProtocol(DesktopProtocol):
    factory: RecordedFactory
    _is_recorded = False

    def vncConnectionMade(self) -> None:
        """Begin both streams, each with its handshake."""
        shape = (
            struct.pack(">HH", self.width, self.height) + self.pixel_format.to_bytes()
        )
        server_init = shape + struct.pack(">I", len(self.name)) + bytes(self.name)
        recorder = self.factory.recorder
        recorder.received(_SERVER_HELLO + server_init + bytes(self._packet))
        recorder.sent(_CLIENT_HELLO)
        write = self.transport.write

        def record_and_write(data: bytes) -> None:
            recorder.sent(data)
            write(data)

        self.transport.write = record_and_write
        self._is_recorded = True
        super().vncConnectionMade()

    def dataReceived(self, data: bytes) -> None:
        """Record what comes from the server before it is drawn."""
        if self._is_recorded:
            self.factory.recorder.received(data)
        super().dataReceived(data)
        self.factory.recorder.draw()
