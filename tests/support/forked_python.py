"""Start Python modules in processes of their own that need not import the libraries
again.

A session of pytest spends most of its processor time on imports: 2.5 of 3 seconds, as
langgraph and google-genai are large. Here one process imports once what a session
imports (`_MODULES`), and does what every session would do again (`done_ahead`). Each
session is forked from it (`multiprocessing`'s fork server), and so are its workers
(`-n2`). The workers of the suite itself share one such process.

Unlike a process of its own, it has the parent, umask and limits of the fork server, and
Python is not taken down at its end. A test of such things starts `sys.executable` by
`subprocess`.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import multiprocessing
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from multiprocessing import forkserver, reduction
from operator import methodcaller
from pathlib import Path
from typing import IO, Any

import pytest
from _pytest.config import builtin_plugins
from execnet import gateway_base, gateway_io
from filelock import FileLock

import pytest_vnc_use

_PACKAGE = Path(pytest_vnc_use.__file__).parent
# it warns
_PLUGINS = {
    each.name: each.module
    for each in entry_points(group="pytest11")
    if each.name != "pytest-vnc"
}
_LARGE_PLUGINS = ("hypothesispytest", "langsmith_plugin", "playwright")
WITHOUT_LARGE_PLUGINS = " ".join(f"-p no:{name}" for name in _LARGE_PLUGINS)
"""Options for sessions that need none of them."""
_LATE = (
    "cryptography.hazmat.primitives.serialization google.auth.aio.credentials"
    " google.genai httpcore2 keysymdef langchain_core.tracers.context"
    " langchain_core.tracers.run_collector langchain_core.tracers.stdout"
    " langgraph.checkpoint.sqlite langgraph.graph pdb pytest_html.hooks"
    " pytest_metadata.hooks truststore"
)
_FEW = ("__main__", "mcp_server", "playwright_page")


def _own_modules() -> Iterator[str]:
    for file in sorted(_PACKAGE.rglob("*.py")):
        if file.stem not in _FEW:
            names = file.relative_to(_PACKAGE.parent).with_suffix("").parts
            yield ".".join(names).removesuffix(".__init__")


_MODULES = [
    *(module for name, module in _PLUGINS.items() if name not in _LARGE_PLUGINS),
    "support.done_ahead",
    *(f"_pytest.{name}" for name in builtin_plugins),
    *_LATE.split(),
    *_own_modules(),
]
"""What a session imports, also what it imports late, without what is large and for few.
"""
_PLUGIN_MODULES = (*_PLUGINS.values(), "hypothesis", "_hypothesis_globals")
_REWRITTEN = {
    *(name.partition(".")[0] for name in _PLUGIN_MODULES),
    *(name for name in _MODULES if name.startswith("pytest_vnc_use.plugin.")),
}
"""Plugins and their packages, which pytest would warn of, as it cannot rewrite their
assertions any more.
"""

_SERVER: Any = forkserver._forkserver
# since Python 3.14 it asks for the second
_OF_A_SERVER = ("_forkserver_address", "_forkserver_authkey")
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(_MODULES)


class ForkedPython:
    """A running `python -m module`, or `python -c code`, with the part of
    `subprocess.Popen` that tests use.
    """

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
        self.args = [module, *arguments]
        self.stdin: IO[str] | None = None
        self.stdout: IO[str] | None = None
        environment = dict(os.environ if env is None else env)
        with contextlib.ExitStack() as stack:
            if stdin == subprocess.DEVNULL:
                stdin = stack.enter_context(Path(os.devnull).open())
            elif stdin == subprocess.PIPE:
                reader, writer = os.pipe()
                self.stdin = os.fdopen(writer, "w", encoding="utf-8")
                stdin = stack.enter_context(os.fdopen(reader, "rb"))
            if stdout == subprocess.PIPE:
                reader, writer = os.pipe()
                self.stdout = os.fdopen(reader, encoding="utf-8")
                stdout = stack.enter_context(os.fdopen(writer, "wb"))
            if stderr == subprocess.STDOUT:
                stderr = stdout
            streams = [*map(_Stream, (stdin, stdout, stderr))]
            directory = str(Path(cwd).absolute())
            given = (self.args, directory, environment, streams, start_server())
            self._process = _forks.Process(target=_run, args=given)
            self._process.start()
        self.pid = self._process.pid or 0

    def poll(self) -> int | None:
        return self._process.exitcode

    returncode = property(poll)

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self._process.exitcode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()


def start_server() -> dict[str, Any]:
    """Start the process that sessions are forked from, unless it runs, and return what
    `use_server` takes.
    """
    with pytest.MonkeyPatch.context() as patch:
        # it imports `support`, and the package under test
        directories = [Path(__file__).parents[1], _PACKAGE.parent]
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, directories)))
        _SERVER.ensure_running()
    return {name: vars(_SERVER)[name] for name in _OF_A_SERVER if name in vars(_SERVER)}


def use_server(server: Mapping[str, Any]) -> None:
    """Fork sessions from the server that another process has started, and ends."""
    vars(_SERVER).update(server, ensure_running=lambda: None)
    # it goes to each forked process, and there on to those that it forks
    if _SERVER._forkserver_alive_fd is None:
        _SERVER._forkserver_alive_fd = os.open(os.devnull, os.O_RDONLY)


def run_python(
    module: str, *arguments: str, timeout: float, **options: Any
) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = ForkedPython(module, *arguments, stdout=out, stderr=err, **options)
        try:
            process.wait(timeout)
        finally:
            process.kill()
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(
            process.args, process.wait(), out.read(), err.read()
        )


class _Stream:
    """An open file that goes to a forked process with its arguments."""

    def __init__(self, file: int | IO[Any]) -> None:
        self._number = file if isinstance(file, int) else file.fileno()

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[Any]]:
        return methodcaller("detach"), (reduction.DupFd(self._number),)


def _run(
    command: list[str],
    directory: str,
    env: dict[str, str],
    streams: list[int],
    server: dict[str, Any],
) -> None:
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in set(streams):
        os.close(stream)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout, sys.stderr = (
        os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2)
    )
    sys.argv = command
    paths = env.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [directory, *filter(None, paths)]
    for name in _REWRITTEN & sys.modules.keys():
        sys.modules[name].__doc__ = "PYTEST_DONT_REWRITE"
    ours: Any = sys.modules["pytest_vnc_use.backends.reactor"]
    ours.reactor.waker = None
    # forked processes would share its `epoll` and pipe, and wake up each other
    ours.reactor.__init__()
    use_server(server)  # workers are forked from the same server
    gateway_io.Popen2IOMaster.__init__ = _fork_worker  # type: ignore[assignment]
    # what was imported ahead is no garbage: pytest collects five times at its end, 0.4
    # s in all
    gc.freeze()
    try:
        if command[0] == "-c":
            exec(command[1], {"__name__": "__main__"})
        else:
            runpy.run_module(command[0], run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()


def _fork_worker(
    io: gateway_io.Popen2IOMaster, command: list[str], execmodel: gateway_base.ExecModel
) -> None:
    """Start a worker of pytest-xdist as a session is started. Its command is `python -u
    -c CODE`.
    """
    popen = ForkedPython(
        *command[-2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=2
    )
    io.popen = popen
    gateway_base.Popen2IO.__init__(io, popen.stdin, popen.stdout, execmodel=execmodel)


def made_once(
    factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Path]
) -> Path:
    """Return the directory `name`, which the first worker that asks for it has `make`
    make in an empty directory.

    `make` returns the directory to keep, within the empty one, which is moved.
    """
    shared = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # one directory for each worker lies in it
    with FileLock(shared / f"{name}.lock"):
        if not (shared / name).exists():
            shutil.move(make(factory.mktemp(name)), shared / name)
    return shared / name
