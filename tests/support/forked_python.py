"""Start Python modules in processes of their own that need not import the libraries again.

A session of pytest spends most of its time on imports: langgraph and google-genai take two seconds of processor. Here
one process imports them once, and each session is forked from it (`multiprocessing`'s fork server). The package itself
is not among what is imported ahead: each session imports it anew, with its own environment.

What differs from a process of its own: its parent is the fork server, it takes umask and limits from there, and Python
is not taken down at its end. A test of such things starts `sys.executable` by `subprocess`.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import time
from typing import IO

_LIBRARIES = (
    "google.genai",
    "jinja2",
    "langgraph.checkpoint.sqlite",
    "langgraph.graph",
    "PIL.Image",
    "pydantic",
    "pytest",
    "pytest_html.plugin",
    "twisted.internet.reactor",
    "vncdotool.client",
    "xdist.plugin",
)
_PLUGINS = ("anyio", "langsmith", "pytest_html", "xdist")
"""Packages with a plugin, which pytest would warn of, as it cannot rewrite their assertions any more."""

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(list(_LIBRARIES))


class ForkedPython:
    """A running module, with the part of `subprocess.Popen` that pytest's `Pytester` uses."""

    stdin = None

    def __init__(
        self, module: str, arguments: list[str], env: dict[str, str], stdout: IO[str], stderr: IO[str]
    ) -> None:
        """Start `python -m module` in the working folder; its output is appended to two files."""
        outputs = (os.path.abspath(stdout.name), os.path.abspath(stderr.name))
        self._process = _forks.Process(target=_run, args=(module, arguments, os.getcwd(), env, *outputs))
        self._process.start()
        self.args = [module, *arguments]

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status; raise subprocess.TimeoutExpired."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self._process.exitcode

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()


def _run(module: str, arguments: list[str], folder: str, env: dict[str, str], stdout: str, stderr: str) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    for number, path in ((1, stdout), (2, stderr)):
        with open(path, "ab") as file:
            os.dup2(file.fileno(), number)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    sys.argv = [module, *arguments]
    sys.path[:0] = [folder, *env.get("PYTHONPATH", "").split(os.pathsep)]
    for name in _PLUGINS:
        sys.modules[name].__doc__ = "PYTEST_DONT_REWRITE"
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()
