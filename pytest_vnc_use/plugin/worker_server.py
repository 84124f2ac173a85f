"""The process from which workers of pytest-xdist are forked: it has imported what each of them would import.

It runs no test, starts no thread, and imports no code of the user's and no reactor of Twisted's, so that a forked
worker is as one that was started anew.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

MODULES = [
    "pytest",
    "pytest_vnc_use.agent",
    "PIL.Image",
    "twisted.internet.epollreactor",
    "vncdotool.rfb",
]
"""The slow imports of a worker, besides the engine. None of them may import `twisted.internet.reactor`."""
LONGEST_CODE = 4096


def worker_code(listener: int, modules: Sequence[str]) -> str:
    """Import the modules. Then fork a worker for each launcher that asks; in the worker, return the code that it runs.

    In the server itself, return no code once the session has closed standard input and all workers have ended.
    """
    on_ctrl_c = signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in modules:
        import_module(name)
    gc.freeze()  # a search for garbage writes into each object: the memory would not be shared any more
    with socket.socket(fileno=listener) as asked, selectors.DefaultSelector() as waiting:
        code = _served(asked, waiting)
    signal.signal(signal.SIGINT, on_ctrl_c)
    return code


def _served(asked: socket.socket, waiting: selectors.BaseSelector) -> str:
    waiting.register(0, selectors.EVENT_READ)
    waiting.register(asked, selectors.EVENT_READ)
    workers: dict[int, tuple[int, socket.socket]] = {}
    while waiting.get_map():
        for key, _ in waiting.select():
            if key.fd == 0:
                waiting.unregister(0)
                waiting.unregister(asked)
            elif key.fd == asked.fileno():
                launcher, _ = asked.accept()
                launcher_pid, user, _ = struct.unpack(
                    "3i", launcher.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                )
                if user != os.getuid():  # everybody on the machine can connect
                    launcher.close()
                    continue
                pid, code = _forked(launcher, launcher_pid)
                if pid == 0:
                    for _, other in workers.values():
                        other.close()
                    return code
                workers[launcher.fileno()] = pid, launcher
                waiting.register(launcher, selectors.EVENT_READ)
            else:  # the launcher has ended: so has the worker, or the worker shall
                waiting.unregister(key.fd)
                pid, launcher = workers.pop(key.fd)
                launcher.close()
                os.kill(pid, signal.SIGKILL)  # its number is its own until it is waited for
                os.waitpid(pid, 0)
    return ""


def _forked(launcher: socket.socket, launcher_pid: int) -> tuple[int, str]:
    """Fork a worker with the launcher's streams, environment and folder. Return 0 in the worker, and its code."""
    code, streams, _, _ = socket.recv_fds(launcher, LONGEST_CODE, 4)
    *standard, held_by_worker = streams
    pid = os.fork()
    if pid == 0:
        launcher.close()
        _take_over_environment(Path("/proc", str(launcher_pid)))
        for number, stream in enumerate(standard):
            os.dup2(stream, number)
        _let_pytest_rewrite_others()
        os.write(held_by_worker, b"1")  # and it stays open as long as the worker runs
    else:
        os.close(held_by_worker)
    for stream in standard:
        os.close(stream)
    return pid, code.decode()


def _take_over_environment(process: Path) -> None:
    """Use the environment and the working folder of another process: a conftest.py may have changed them since."""
    pairs = (line.partition(b"=") for line in (process / "environ").read_bytes().split(b"\0") if line)
    os.environb.clear()
    os.environb.update({name: value for name, _, value in pairs})
    os.chdir(process / "cwd")


def _let_pytest_rewrite_others() -> None:
    """Mark the packages of plugins that are imported: else pytest warns that it cannot rewrite them any more."""
    for name in {each.value.partition(".")[0] for each in entry_points(group="pytest11")} & sys.modules.keys():
        sys.modules[name].__doc__ = "PYTEST_DONT_REWRITE"
