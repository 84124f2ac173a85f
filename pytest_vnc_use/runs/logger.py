"""What is written during a run, without secrets: its events, and the messages to its
VNC server.

The messages are `messages.jsonl` in the run directory, one a line. A text that holds a
secret is one line with the secret's name, instead of its keys and of what the clipboard
held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock

from pytest_vnc_use import clock
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.runs.json_lines import private, to_line
from pytest_vnc_use.runs.redactor import Redactor
from pytest_vnc_use.runs.uitask_trace import ExecutionLog
from pytest_vnc_use.types import JsonObject, RunEvent, RunStarted

FILE = "messages.jsonl"
MAX_BYTES = 16_000_000
"""The largest file, about 200,000 messages. The line after them states that more were
sent.
"""


class RunLogger:
    """A RunObserver that writes every event into the run directory as it happens,
    without secrets.

    `start_redactor` is for the start of the run, because another process continues with
    its task and settings. It keeps text that equals the desktop's password. In a
    reopened directory the logger continues where the previous one stopped. Raises
    RunDirectoryError if it cannot write.
    """

    def __init__(
        self,
        directory: RunDirectory,
        redactor: Redactor,
        start_redactor: Redactor | None = None,
    ) -> None:
        self.directory = directory
        self._execution = ExecutionLog(directory.path)
        self._redactor = redactor
        self._start_redactor = start_redactor or redactor

    def observe(self, event: RunEvent) -> None:
        """Write one event without its secrets."""
        is_start = isinstance(event, RunStarted)
        redactor = self._start_redactor if is_start else self._redactor
        hidden = redactor.hide_in(event)
        self.directory.append(hidden)
        self._execution.observe(hidden)


class MessageLog:
    """The log of one connection. It writes into the directory of the newest run, and
    nothing before the first run.

    If a line cannot be written, nothing more of this run is logged, so that an action
    is not interrupted.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._path: Path | None = None
        self._hide: Callable[[str], str] = str
        self._started_s = 0.0
        self._left = 0
        """How many bytes may still be written."""

    def begin(
        self, directory: Path, started_s: float, hide: Callable[[str], str]
    ) -> None:
        """Write into this run directory from now on. The run started at `started_s` of
        the monotonic clock.
        """
        with self._lock:
            self._path = directory / FILE
            self._started_s = started_s
            self._hide = hide
            written = self._path.stat().st_size if self._path.exists() else 0
            self._left = max(MAX_BYTES - written, 0)

    def hide(self, text: str) -> str:
        """Return a text without secrets."""
        return self._hide(str(text))

    def note(self, messages: Iterable[JsonObject]) -> None:
        """Write messages that are sent together."""
        with self._lock:
            if not (self._path and self._left):
                return
            at_s = round(clock.monotonic() - self._started_s, 4)
            lines = b"".join(to_line({"at_s": at_s, **message}) for message in messages)
            self._left -= len(lines)
            if self._left <= 0:
                self._left = 0
                lines = to_line({"at_s": at_s, "kind": "cut", "most_bytes": MAX_BYTES})
            try:
                with open(self._path, "ab", opener=private) as file:
                    file.write(lines)
            except OSError:
                self._left = 0
