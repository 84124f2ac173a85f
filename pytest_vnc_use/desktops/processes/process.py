"""One process of a desktop: its end and its output."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import IO

from pytest_vnc_use.desktops.processes import sitter
from pytest_vnc_use.desktops.processes.attended import Attended


class Process:
    """A process of a session; `title` is its name in messages, such as "the program 'python shop'"."""

    def __init__(
        self,
        role: str,
        title: str,
        popen: subprocess.Popen[bytes] | Attended,
        log: Path,
        *,
        elsewhere: bool = False,
    ) -> None:
        self.role = role
        self.title = title
        self.popen = popen
        self.log = log
        self._elsewhere = elsewhere

    @property
    def sessions(self) -> tuple[int, ...]:
        """Return the ids of the sessions that its processes are in."""
        return self.popen.sessions if isinstance(self.popen, Attended) else (self.popen.pid,)

    @property
    def exit_code(self) -> int | None:
        """Return the exit code: None while it runs, -n if signal n ended it."""
        code = self.popen.poll()
        return exit_code_elsewhere(code) if code is not None and self._elsewhere else code

    @property
    def output(self) -> str:
        """Return its standard output and error, a megabyte of it; empty once its file is removed."""
        try:
            with open(self.log, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as log:
                return text_of(log)
        except OSError:  # the session is stopped, or the program has put something else in its place
            return ""

    def output_tail(self, lines: int = 20) -> str:
        """Return the last lines of `output`."""
        return "\n".join(self.output.splitlines()[-lines:])

    @property
    def end(self) -> str:
        """Return how it ended, such as `exited with -11 (SIGSEGV)`; empty while it runs."""
        return "" if self.exit_code is None else f"exited with {_format_exit_code(self.exit_code)}"

    def message(self, what: str) -> str:
        """Return a sentence about it, and the last lines of its output."""
        return f"{self.title} {what}\n{self.output_tail() or '(it printed nothing)'}"


def exit_code_elsewhere(code: int) -> int:
    """Return -n for the exit code 128 + n, by which a client such as `docker exec` reports signal n."""
    return 128 - code if code - 128 in signal.valid_signals() else code


def text_of(file: IO[bytes]) -> str:
    """Return the text in the file; of a long one, the beginning and the end."""
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    if size <= sitter.HEAD + sitter.TAIL + 100:
        return file.read(size).decode("utf-8", "replace")
    head, cut = file.read(sitter.HEAD), sitter.LEFT_OUT.match(file.read(100))
    left_out = size - sitter.HEAD - sitter.TAIL + (int(cut[1]) - len(cut[0]) if cut else 0)
    file.seek(size - sitter.TAIL)
    return (head + sitter.CUT % left_out + file.read(sitter.TAIL)).decode("utf-8", "replace")


def _format_exit_code(code: int) -> str:
    """Return `3`, or `-11 (SIGSEGV)`."""
    if code >= 0:
        return str(code)
    try:
        return f"{code} ({signal.Signals(-code).name})"
    except ValueError:  # a real-time signal has no name
        return str(code)
