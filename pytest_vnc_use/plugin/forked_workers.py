"""The setting `vnc_fork_workers`: workers of pytest-xdist are forked from a process that has imported the engine.

A plugin, registered by on_demand.py. Only workers on this machine, of this Python, on Linux are forked: elsewhere a
fork is unsafe or unknown, and workers start as usual.
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

from pytest_vnc_use.plugin import worker_launcher
from pytest_vnc_use.plugin.stash import SETTINGS

if TYPE_CHECKING:
    from execnet import XSpec

SERVER = "from pytest_vnc_use.plugin.worker_server import worker_code; exec(worker_code({listener}))"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[XSpec]) -> None:
    """Start the server, and let pytest-xdist start launchers in the place of workers."""
    own = [spec for spec in specs if spec.popen and not spec.python and not spec.via]
    if not config.stash[SETTINGS].fork_workers or sys.platform != "linux" or not own:
        return
    folder = tempfile.mkdtemp(prefix="vnc-use-")  # nobody else may look into it
    address = str(Path(folder, "workers"))
    server = _start_server(address)
    config.add_cleanup(lambda: _end(server))
    for spec in own:
        spec.python = shlex.join([sys.executable, "-I", "-S", worker_launcher.__file__, address])


def _start_server(address: str) -> subprocess.Popen[bytes]:
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(address)
        except OSError as exc:
            Path(address).parent.rmdir()
            raise pytest.UsageError(
                f"no worker can be forked by way of {address!r}: {exc}; "
                "set TMPDIR to a shorter path, or vnc_fork_workers to false"
            ) from exc
        listener.listen()
        options = ["-u", *(["-B"] if sys.dont_write_bytecode else [])]
        return subprocess.Popen(
            [sys.executable, *options, "-c", SERVER.format(listener=listener.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
        )


def _end(server: subprocess.Popen[bytes]) -> None:
    """End the server; pytest-xdist has ended the workers."""
    assert server.stdin
    server.stdin.close()
    server.wait()
