"""The setting `vnc_fork_workers`: workers of pytest-xdist are forked from a process that has imported the engine.

A plugin, registered by on_demand.py. Only workers on this machine, of this Python, on Linux are forked, and only where
a VNC server is configured: elsewhere a fork is unsafe or unknown, or saves nothing, and workers start as usual.
"""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from secrets import token_hex
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.plugin import engine, worker_launcher, worker_server
from pytest_vnc_use.plugin.recordings import only_replays
from pytest_vnc_use.plugin.stash import SETTINGS

if TYPE_CHECKING:
    from execnet import XSpec

SERVER = "from pytest_vnc_use.plugin.worker_server import worker_code; exec(worker_code({listener}, {modules}))"

LONGEST_END_S = 10.0
"""How long the server may take to end, once all workers have ended."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[XSpec]) -> None:
    """Start the server, and let pytest-xdist start launchers in the place of workers."""
    settings = config.stash[SETTINGS]
    own = [spec for spec in specs if spec.popen and not spec.python and not spec.via]
    if not (settings.fork_workers and settings.server) or sys.platform != "linux" or not own:
        return
    name = f"vnc-use-{token_hex(16)}"
    server = _start_server(name, engine.REPLAYS if only_replays(settings) else engine.ENGINE)
    config.add_cleanup(lambda: _end(server))
    for spec in own:
        spec.python = shlex.join([sys.executable, "-I", "-S", worker_launcher.__file__, name])


def _start_server(name: str, engine_module: str) -> subprocess.Popen[bytes]:
    """Start the server, which imports this module too.

    It listens at an abstract address, which ends with it and leaves nothing on the disk.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        options = ["-u", *(["-B"] if sys.dont_write_bytecode else [])]
        code = SERVER.format(listener=listener.fileno(), modules=[engine_module, *worker_server.MODULES])
        return subprocess.Popen(
            [sys.executable, *options, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
        )


def _end(server: subprocess.Popen[bytes]) -> None:
    """End the server; pytest-xdist has ended the workers."""
    assert server.stdin
    server.stdin.close()
    try:
        server.wait(LONGEST_END_S)
    except subprocess.TimeoutExpired:  # it was stopped, or hangs
        server.kill()
        server.wait()
