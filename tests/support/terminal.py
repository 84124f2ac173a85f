"""A terminal: a pty, and a small emulator that knows what its screen shows."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import termios
import time
import unicodedata
from collections.abc import Callable

_SEQUENCE = re.compile(r"\x1b(?:\[\??([0-9;]*)([A-Za-z])|([78D]))")


class Terminal:
    """A terminal of a few rows. Programs write to `slave`; `read_until` draws what they wrote on `rows`.

    It knows the sequences that pytest and this project write, and refuses all others.
    """

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self._master, self.slave = os.openpty()
        self.columns, self._row, self._column, self._noted = columns, 0, 0, (0, 0)
        self._cells = [[" "] * columns for _ in range(rows)]
        self._left, self.raw = b"", b""
        self.resize(columns)

    def resize(self, columns: int) -> None:
        """Tell programs another width; what is on the screen stays."""
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", len(self._cells), columns, 0, 0))

    @property
    def rows(self) -> list[str]:
        """The rows that are not empty, without spaces at their ends."""
        return [row for row in ("".join(cells).rstrip() for cells in self._cells) if row]

    @property
    def cursor(self) -> tuple[int, int]:
        """The row and the column of the cursor."""
        return self._row, self._column

    def read_until(self, ready: Callable[[], bool], within_s: float = 60.0) -> bool:
        """Read what programs write, piece by piece, until `ready` or the time is up; return whether it is ready."""
        until_s = time.monotonic() + within_s
        while not ready():
            if not select.select([self._master], [], [], 0.05)[0]:
                if time.monotonic() > until_s:
                    return False
                continue
            piece = os.read(self._master, 4096)
            self.raw += piece
            self._draw(piece)
        return True

    def close(self) -> None:
        """Close both ends."""
        for number in (self._master, self.slave):
            os.close(number)

    def _draw(self, piece: bytes) -> None:
        text = (self._left + piece).decode(errors="ignore")
        cut = re.search(r"\x1b\[?[?0-9;]*$", text)
        self._left, text = (text[cut.start() :].encode(), text[: cut.start()]) if cut else (b"", text)
        place = 0
        while place < len(text):
            if found := _SEQUENCE.match(text, place):
                self._obey(found[2] or found[3], found[1] or "")
                place = found.end()
            else:
                self._put(text[place])
                place += 1

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._down()
        else:
            assert character.isprintable(), f"{character!r} reached the terminal"
            width = 2 if unicodedata.east_asian_width(character) in "WF" else 1
            if self._column + width > self.columns:
                self._column = 0
                self._down()
            self._cells[self._row][self._column : self._column + width] = [character, ""][:width]
            self._column += width

    def _down(self) -> None:
        if self._row + 1 == len(self._cells):
            self._cells = [*self._cells[1:], [" "] * self.columns]
        else:
            self._row += 1

    def _obey(self, command: str, values: str) -> None:
        match command, values:
            case "D", "":
                self._down()
            case "7", "":
                self._noted = self._row, self._column
            case "8", "":
                self._row, self._column = self._noted
            case "A", "":
                self._row = max(0, self._row - 1)
            case (("J" | "K"), ""):
                self._cells[self._row][self._column :] = [" "] * (self.columns - self._column)
                if command == "J":
                    below = range(self._row + 1, len(self._cells))
                    self._cells[below.start :] = [[" "] * self.columns for _ in below]
            case ("m", _) | (("h" | "l"), "7"):
                pass  # colours, and whether lines wrap: no line may be so long
            case _:
                raise AssertionError(f"ESC [ {values} {command} reached the terminal")
