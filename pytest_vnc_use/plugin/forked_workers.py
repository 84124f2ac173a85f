"""The setting `vnc_fork_workers`: workers of pytest-xdist are forked from a process that has imported the engine.

A plugin, registered by on_demand.py. Only workers on this machine, of this Python, on Linux are forked, and only where
a VNC server is configured: elsewhere a fork is unsafe or unknown, or saves nothing, and workers start as usual.
"""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.plugin import engine, worker_launcher, worker_server
from pytest_vnc_use.plugin.recordings import only_replays
from pytest_vnc_use.plugin.stash import SETTINGS

if TYPE_CHECKING:
    from execnet import XSpec

SERVER = "from pytest_vnc_use.plugin.worker_server import worker_code; exec(worker_code({listener}, {modules}))"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[XSpec]) -> None:
    """Start the server, and let pytest-xdist start launchers in the place of workers."""
    settings = config.stash[SETTINGS]
    own = [spec for spec in specs if spec.popen and not spec.python and not spec.via]
    if not (settings.fork_workers and settings.server) or sys.platform != "linux" or not own:
        return
    folder = tempfile.mkdtemp(prefix="vnc-use-")  # nobody else may look into it
    address = str(Path(folder, "workers"))
    server = _start_server(address, engine.REPLAYS if only_replays(settings) else engine.ENGINE)
    if server is None:
        return
    config.add_cleanup(lambda: _end(server))
    for spec in own:
        spec.python = shlex.join([sys.executable, "-I", "-S", worker_launcher.__file__, address])


def _start_server(address: str, engine_module: str) -> subprocess.Popen[bytes] | None:
    """Start the server, which imports this module too. Return None where a socket cannot have this address."""
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(address)
        except OSError:  # the path of the temporary folder is too long: workers start as usual
            Path(address).parent.rmdir()
            return None
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
    server.wait()
