"""A program with its sitter (see sitter.py), for the code that started it: similar to a `subprocess.Popen`."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from pytest_vnc_use import clock
from pytest_vnc_use.desktops.processes import cleanup, sitter

_STARTS_WITHIN_S = 60.0
_ANSWERS_WITHIN_S = 6.0
"""The longest wait for a sitter's answer. A sitter gives up after 5 s."""


class AttendedProgram:
    """A program that its sitter has started; `pid` is the id of the program and of its session.

    With `closed_at` it has its own network, and its VNC server is reached at that unix socket. Raises OSError if it
    cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        stdout: IO[bytes],
        stderr: IO[bytes],
        closed_at: str = "",
    ) -> None:
        self._status, status = os.pipe()
        words = [sys.executable, "-I", "-S", sitter.__file__]
        files = (status, stdout.fileno(), stderr.fileno())
        try:
            self._sitter = subprocess.Popen(
                [*words, *map(str, files), closed_at, "--", *command],
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=files,
            )
        except BaseException:  # on any error, and on Ctrl-C: nothing stays open
            os.close(self._status)
            raise
        finally:
            os.close(status)
        self._status_text = b""
        self._code: int | None = None
        self.pid = self._pid_of_start()

    @property
    def sessions(self) -> tuple[int, ...]:
        """The ids of the program's session and of its sitter's."""
        return (self.pid, self._sitter.pid)

    def poll(self) -> int | None:
        """Return how the program ended, -n by signal n; None while it runs."""
        return self._exit_code(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the program has ended; return how it ended.

        Without a timeout, also wait until everything that it started has ended. Raises subprocess.TimeoutExpired.
        """
        code = self._exit_code(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("", timeout or 0.0)
        if timeout is None:
            self._sitter.wait()
        return code

    def kill(self) -> None:
        """Kill the program and everything that it started, and wait until it has ended.

        If the sitter itself does not answer, because it was stopped, kill it and the program's session.
        """
        self._sitter.send_signal(signal.SIGUSR1)
        if self._exit_code(_ANSWERS_WITHIN_S) is None:
            self._sitter.kill()
            cleanup.end_sessions([self.pid])
        self.wait()

    @property
    def is_over(self) -> bool:
        """Return whether the program and everything that it started have ended."""
        return self._sitter.poll() is not None

    def _pid_of_start(self) -> int:
        word, number = (self._line(b"started ", b"failed ", timeout_s=_STARTS_WITHIN_S) or "failed 0").split()
        if word == "started":
            return int(number)
        self._sitter.kill()  # if it has not answered; else it ends by itself
        self._sitter.wait()
        self._close()
        raise OSError(int(number), os.strerror(int(number)) if int(number) else "its sitter ended, or does not answer")

    def _exit_code(self, timeout_s: float | None) -> int | None:
        if self._code is None and (line := self._line(b"exited ", timeout_s=timeout_s)) is not None:
            self._code = int(line.split()[1]) if line else -signal.SIGKILL  # no line came: its sitter was killed
            self._close()
        return self._code

    def _line(self, *beginnings: bytes, timeout_s: float | None) -> str | None:
        """Return the sitter's line that starts so; "" if the sitter ended without it; None if none comes in time."""
        until_s = None if timeout_s is None else clock.monotonic() + timeout_s
        while True:
            for line in self._status_text.split(b"\n")[:-1]:
                if line.startswith(beginnings):
                    return line.decode()
            left_s = None if until_s is None else max(0.0, until_s - clock.monotonic())
            if not select.select([self._status], [], [], left_s)[0]:
                return None
            if not (piece := os.read(self._status, 1024)):
                return ""
            self._status_text += piece

    def _close(self) -> None:
        if self._status >= 0:
            os.close(self._status)
            self._status = -1

    def __del__(self) -> None:
        self._close()
