"""The messages that a run sent to its VNC server: `messages.jsonl` in the run folder, one a line.

A text that holds a secret is one line with the secret's name, in place of its keys and of what the clipboard held.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock

from pytest_vnc_use import clock
from pytest_vnc_use.runs.json_lines import private
from pytest_vnc_use.types import JsonObject

FILE = "messages.jsonl"
MOST_BYTES = 16_000_000
"""The largest file, about 200,000 messages. The line after them says that more were sent."""


class MessageLog:
    """The log of one connection. It writes into the folder of the newest run, and nothing before the first run.

    If a line cannot be written, nothing more of this run is logged, so that an action is not interrupted.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._path: Path | None = None
        self._hide: Callable[[str], str] = str
        self._began_s, self._left = 0.0, 0

    def begin(self, folder: Path, began_s: float, hide: Callable[[str], str]) -> None:
        """Write into this run folder from now on. The run began at `began_s` of the monotonic clock."""
        with self._lock:
            self._path, self._began_s, self._hide = folder / FILE, began_s, hide
            written = self._path.stat().st_size if self._path.exists() else 0
            self._left = max(MOST_BYTES - written, 0)

    def hide(self, text: str) -> str:
        """Return a text without secrets."""
        return self._hide(str(text))

    def note(self, messages: Iterable[JsonObject]) -> None:
        """Write messages that are sent together."""
        with self._lock:
            if not (self._path and self._left):
                return
            at_s = round(clock.monotonic() - self._began_s, 4)
            lines = b"".join(_line({"at_s": at_s, **message}) for message in messages)
            self._left -= len(lines)
            if self._left <= 0:
                self._left, lines = 0, _line({"at_s": at_s, "kind": "cut", "most_bytes": MOST_BYTES})
            try:
                with open(self._path, "ab", opener=private) as file:
                    file.write(lines)
            except OSError:
                self._left = 0


def _line(message: JsonObject) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
