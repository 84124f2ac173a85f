"""Which of the given desktops a test may use: a lease each, across threads, pytest-xdist workers and sessions."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from pytest_vnc_use.desktops.address import AddressDesktop
from pytest_vnc_use.errors import DesktopRefused

_POLL_S = 0.1
_FIRST_PORT = 5900
"""VNC's port of display 0."""


class LeasedDesktop(AddressDesktop):
    """A given desktop that nobody else uses until it is stopped, which gives it back."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(lease.server)
        self._lease = lease

    def stop(self) -> None:
        """Give it back; a second call does nothing."""
        self._lease.release()


class Lease:
    """The right to use one desktop, until `release()` or the death of this process, whichever comes first."""

    def __init__(self, server: str, lock: FileLock) -> None:
        self.server = server
        self._lock = lock

    def release(self) -> None:
        """Let the next one have it; a second call does nothing."""
        self._lock.release()


def lease(servers: Sequence[str], holder: str, *, timeout_s: float, folder: Path | None = None) -> Lease:
    """The first of `servers` that nobody uses, waited for up to `timeout_s`; `holder` is who others are told has it.

    The locks are files in `folder` (one for each user and machine by default), held by the operating system for as long
    as the process lives: a kill -9 frees them. Raises DesktopRefused with who holds what.
    """
    folder = folder or Path(tempfile.gettempdir(), f"pytest-vnc-use-{getpass.getuser()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    deadline_s = time.monotonic() + timeout_s
    while True:
        for server in servers:
            if found := _try(server, holder, folder):
                return found
        if time.monotonic() >= deadline_s:
            held = "; ".join(f"{server!r} by {_holder(server, folder)}" for server in servers)
            raise DesktopRefused(f"no desktop came free within {timeout_s:g} s; held: {held}")
        time.sleep(_POLL_S)


def _try(server: str, holder: str, folder: Path) -> Lease | None:
    path = _path(server, folder)
    lock = FileLock(path.with_suffix(".lock"), timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        return None
    path.with_suffix(".json").write_text(json.dumps({"holder": holder, "pid": os.getpid()}), encoding="utf-8")
    return Lease(server, lock)


def _holder(server: str, folder: Path) -> str:
    try:
        note = json.loads(_path(server, folder).with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # it is being written right now
        return "another process"
    return f"{note['holder']} (process {note['pid']})"


def _path(server: str, folder: Path) -> Path:
    return folder / hashlib.sha256(canonical(server).encode()).hexdigest()[:24]


def canonical(server: str) -> str:
    """The same for all spellings of an address: `localhost:1` is `127.0.0.1::5901`."""
    host, _, number = server.rpartition(":")
    if not number.isdecimal():
        return server
    port = int(number) if host.endswith(":") else _FIRST_PORT + int(number)
    name = host.removesuffix(":").lower()
    return f"{'127.0.0.1' if name in ('', 'localhost') else name}::{port}"
