"""A terminal: a pty, and pyte, which knows what its screen shows."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import termios
import time
from collections.abc import Callable


class Terminal:
    """A terminal of a few rows. Programs write to `slave`; `read_until` draws what they
    wrote on `rows`.
    """

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self._master, self.slave = os.openpty()
        import pyte  # each worker would import it to collect the tests

        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, size)

    @property
    def rows(self) -> list[str]:
        return [row.rstrip() for row in self._screen.display if row.strip()]

    @property
    def cursor(self) -> tuple[int, int]:
        return self._screen.cursor.y, self._screen.cursor.x

    def read_until(self, ready: Callable[[], bool], within_s: float = 60.0) -> bool:
        """Read what programs write, piece by piece, until `ready` or the time is up;
        return whether it is ready.
        """
        until_s = time.monotonic() + within_s
        while not ready():
            if select.select([self._master], [], [], 0.05)[0]:
                piece = os.read(self._master, 4096)
                self.raw += piece
                self._stream.feed(piece)
            elif time.monotonic() > until_s:
                return False
        return True

    def close(self) -> None:
        for number in (self._master, self.slave):
            os.close(number)
