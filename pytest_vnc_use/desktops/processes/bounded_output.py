"""A way to run a command with a limit of memory for its output, however long it is."""

from __future__ import annotations

import os
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.desktops.processes.environment import inheritable
from pytest_vnc_use.desktops.processes.working_folder import MOST_BYTES

_TAIL = 750_000
_HEAD = MOST_BYTES + 100
"""The bytes kept of the beginning: a whole file that is read, and the line that says that it is there."""
_CHUNK = 1 << 16
_READ_WITHIN_S = 5.0


def bounded_run(words: Sequence[str], given: bytes, timeout_s: float) -> subprocess.CompletedProcess[bytes]:
    """Run a command until it and all users of its output have ended; keep the beginning and end of a long output.

    The command has its own session, in which `ssh` finds no terminal on which to ask for a password, and fails instead.
    Raises OSError; raises subprocess.TimeoutExpired, once the command is killed.
    """
    process = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=inheritable(),
        start_new_session=os.name == "posix",
    )
    outputs = [_Output(stream) for stream in (process.stdout, process.stderr) if stream]
    writer = threading.Thread(target=_write, args=(process.stdin, given), daemon=True)
    writer.start()
    deadline = Deadline(timeout_s)
    try:
        for thread in (writer, *(output.thread for output in outputs)):
            thread.join(deadline.remaining_s)
        if any(output.thread.is_alive() for output in outputs):
            raise subprocess.TimeoutExpired(words, timeout_s)
        code = process.wait(deadline.remaining_s + _READ_WITHIN_S)
    except BaseException:  # on any error, and on Ctrl-C: the command ends
        process.kill()
        process.wait()
        raise
    return subprocess.CompletedProcess(words, code, *(output.kept for output in outputs))


class _Output:
    """The head and the tail of a pipe's output, which a thread reads until its end."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._head = bytearray()
        self._tail: deque[bytes] = deque(maxlen=_TAIL // _CHUNK)
        self._size = 0
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        with self._stream:
            while piece := os.read(self._stream.fileno(), _CHUNK):
                self._size += len(piece)
                room = _HEAD - len(self._head)
                self._head += piece[:room]
                if piece[room:]:
                    self._tail.append(piece[room:])

    @property
    def kept(self) -> bytes:
        """Return the head and the tail, and between them how many bytes are left out."""
        tail = b"".join(self._tail)
        left_out = self._size - len(self._head) - len(tail)
        mark = b"\n(... %d bytes are left out here)\n" % left_out if left_out else b""
        return bytes(self._head) + mark + tail


def _write(stream: IO[bytes] | None, given: bytes) -> None:
    if stream:
        with suppress(OSError), stream:  # the command has ended, or reads no input
            stream.write(given)
