"""A program started for one test, in a folder of its own, that outlives neither the test nor the process it runs in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_vnc_use.desktops import supervise

_STOP_TIMEOUT_S = supervise.GRACE_S + 7.0


class Program:
    """`command` running in an empty temporary folder, under supervise.py, which says what ends it.

    Words of the command that are relative paths with a slash, seen from here, are made absolute first, since the
    program starts elsewhere. `environment` is added to this process's own. Unix only.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="vnc-use-"))
        self._output = self._folder / "output.txt"
        self.working_folder = self._folder / "work"
        self.working_folder.mkdir()
        self._supervisor = self._start([_seen_from_here(word) for word in command], {**os.environ, **environment})

    def _start(self, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        script = [sys.executable, "-I", "-S", supervise.__file__, str(self._folder)]
        with self._output.open("wb") as output:
            return subprocess.Popen(
                [*script, *command],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def session(self) -> int:
        """The id of the session in which the program and its children run."""
        return self._supervisor.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs and once it is stopped; 128 + n where signal n ended it, 127 where it could not start."""
        try:
            return int((self._folder / "exit_code").read_text())
        except FileNotFoundError:
            return None

    def output_tail(self, lines: int = 20) -> str:
        """The last lines of what the program wrote to its standard output and error; empty once it is stopped."""
        try:
            text = self._output.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def stop(self) -> None:
        """End the program and all of its process group, and remove its folder; a second call does nothing."""
        assert self._supervisor.stdin is not None
        self._supervisor.stdin.close()
        try:
            self._supervisor.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def _seen_from_here(word: str) -> str:
    path = Path(word)
    return str(path.absolute()) if "/" in word and path.exists() else word
