"""One line below the output of a terminal, which is rewritten again and again, and erased completely.

The cursor stays at the end of the earlier output, so the next output continues there. For that, a line is drawn one row
below: the cursor moves down a row (the terminal scrolls if it must), notes its place, writes, returns, moves up.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_EVERY_S = 0.25
_LEAST_COLUMNS = 20
_DOWN_AND_NOTE, _UP = "\x1bD\x1b7\r", "\x1b8\x1b[A"
_UNWRAPPED, _WRAPPED, _ERASED = "\x1b[?7l", "\x1b[?7h", "\x1b[J"
_NAMES_IN_CI = ("CI", "BUILD_NUMBER")


def can_show(number: int) -> bool:
    """Return whether a file descriptor is a terminal on which a line can be rewritten, with a person before it."""
    if os.name != "posix" or os.environ.get("TERM", "dumb") == "dumb":
        return False
    return os.isatty(number) and not any(os.environ.get(name) for name in _NAMES_IN_CI)


class TerminalLine:
    """A line on the terminal behind a file descriptor. A thread draws it, four times a second, while it is shown.

    `text` returns the line for a number of columns; "" for none. It must be safe for a terminal, and is called from the
    thread. `is_free` says whether nobody else writes on the terminal now.
    """

    def __init__(self, number: int, text: Callable[[int], str], is_free: Callable[[], bool] = lambda: True) -> None:
        self._number = os.dup(number)
        self._text, self._is_free = text, is_free
        self._lock = threading.RLock()
        self._is_shown = self._is_drawn = self._is_closed = False
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None

    def show(self) -> None:
        """Draw the line from now on, after a short delay, so that a short run does not make it flicker."""
        with self._lock:
            if self._is_shown or self._is_closed:
                return
            self._is_shown = True
            self._changed = threading.Event()
            self._thread = threading.Thread(target=self._draw_often, args=(self._changed,), daemon=True)
            self._thread.start()

    def hide(self) -> None:
        """Erase the line, and stop drawing it."""
        with self._lock:
            self._is_shown = False
            self._changed.set()
            self._erase()

    def close(self) -> None:
        """Erase the line, and release the terminal; a second call does nothing."""
        self.hide()
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._number)

    @contextmanager
    def interrupted(self) -> Iterator[None]:
        """Erase the line while the caller writes on the terminal."""
        with self._lock:
            self._erase()
            yield

    def _draw_often(self, changed: threading.Event) -> None:
        while not changed.wait(_EVERY_S):
            with self._lock:
                if changed.is_set():
                    return
                if self._is_free():
                    self._draw()

    def _draw(self) -> None:
        try:
            columns = os.get_terminal_size(self._number).columns
        except OSError:  # the terminal is gone
            return
        if text := self._text(columns - 1) if columns >= _LEAST_COLUMNS else "":
            self._is_drawn = True
            self._write(f"{_DOWN_AND_NOTE}{_UNWRAPPED}{text}{_ERASED}{_WRAPPED}{_UP}")
        else:
            self._erase()

    def _erase(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            self._write(f"{_DOWN_AND_NOTE}{_ERASED}{_UP}")

    def _write(self, text: str) -> None:
        try:
            os.write(self._number, text.encode(os.device_encoding(self._number) or "ascii", errors="replace"))
        except OSError:  # the terminal is gone, and its line with it
            self._is_shown = False
            self._changed.set()
