"""Start Python modules in processes of their own that need not import the libraries again.

A session of pytest spends most of its processor time on imports: 2 of 3 seconds, as langgraph and google-genai are
large. Here one process imports them and the package once, and each session is forked from it (`multiprocessing`'s fork
server).

What differs from a process of its own: its parent is the fork server, it takes umask and limits from there, the package
is loaded, and Python is not taken down at its end. A test of such things starts `sys.executable` by `subprocess`.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from multiprocessing import reduction
from pathlib import Path
from typing import IO, Any

_MODULES = (
    "google.genai",
    "jinja2",
    "langgraph.checkpoint.sqlite",
    "langgraph.graph",
    "PIL.Image",
    "pydantic",
    "pytest",
    "pytest_html.plugin",
    "pytest_vnc_use.agent",
    "pytest_vnc_use.assembly.connection",
    "pytest_vnc_use.cli",
    "pytest_vnc_use.desktops.kinds.qt",
    "pytest_vnc_use.loop.runner",
    "pytest_vnc_use.plugin",
    "pytest_vnc_use.recordings.session",
    "twisted.internet.reactor",
    "vncdotool.client",
    "xdist.plugin",
)
_PLUGINS = ("anyio", "langsmith", "pytest_html", "pytest_vnc_use", "xdist")
"""Packages with a plugin, which pytest would warn of, as it cannot rewrite their assertions any more."""

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(list(_MODULES))


class ForkedPython:
    """A running `python -m module`, with the part of `subprocess.Popen` that tests use."""

    stdin = None

    def __init__(
        self,
        module: str,
        *arguments: str,
        cwd: Path | str = ".",
        env: Mapping[str, str] | None = None,
        stdin: int | IO[Any] = subprocess.DEVNULL,
        stdout: int | IO[Any] = subprocess.PIPE,
        stderr: int | IO[Any] = subprocess.STDOUT,
    ) -> None:
        """Start it; standard input, output and errors as `subprocess.Popen` has them, but input from no pipe."""
        self.args = [module, *arguments]
        self.stdout: IO[str] | None = None
        environment = dict(os.environ if env is None else env)
        with contextlib.ExitStack() as stack:
            streams = [_Stream(stack.enter_context(Path(os.devnull).open()) if stdin == subprocess.DEVNULL else stdin)]
            if stdout == subprocess.PIPE:
                reader, writer = os.pipe()
                self.stdout = os.fdopen(reader, encoding="utf-8")
                stdout = stack.enter_context(os.fdopen(writer, "wb"))
            streams += [_Stream(stdout), _Stream(stdout if stderr == subprocess.STDOUT else stderr)]
            arguments_of_run = (self.args, str(Path(cwd).absolute()), environment, streams)
            self._process = _forks.Process(target=_run, args=arguments_of_run)
            self._process.start()
        self.pid = self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for the signal that ended it; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status; raise subprocess.TimeoutExpired."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal to it, unless it has ended."""
        if self._process.exitcode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()


def run_python(module: str, *arguments: str, timeout: float, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `python -m module` to its end, and return what it printed."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = ForkedPython(module, *arguments, stdout=out, stderr=err, **options)
        try:
            process.wait(timeout)
        finally:
            process.kill()
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(process.args, process.wait(), out.read(), err.read())


class _Stream:
    """An open file that goes to a forked process with its arguments."""

    def __init__(self, file: int | IO[Any]) -> None:
        self._number = file if isinstance(file, int) else file.fileno()

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[Any]]:
        return _number_here, (reduction.DupFd(self._number),)


def _number_here(sent: Any) -> int:
    number: int = sent.detach()
    return number


def _run(command: list[str], folder: str, env: dict[str, str], streams: list[int]) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in set(streams):
        os.close(stream)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
    sys.argv = command
    sys.path[:0] = [folder, *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))]
    for name in _PLUGINS:
        sys.modules[name].__doc__ = "PYTEST_DONT_REWRITE"
    gc.freeze()  # what was imported ahead is no garbage: pytest collects five times at its end, 0.4 s in all
    try:
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()
