"""The leases of the given desktops, one for each test, across threads, pytest-xdist workers and sessions."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import socket
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from filelock import FileLock, Timeout

from pytest_vnc_use import clock
from pytest_vnc_use.desktops.kinds.given import AddressDesktop
from pytest_vnc_use.desktops.processes.remote_exec import RemoteExec
from pytest_vnc_use.errors import DesktopError, DesktopRefused
from pytest_vnc_use.plain_text import without_query
from pytest_vnc_use.types.protocols import Connect
from pytest_vnc_use.types.wire import host_and_port

_FIRST_POLL_S, _POLL_S = 0.005, 0.1
"""The wait before the second try, which doubles from try to try, and the longest wait."""
_SSH_PORT = 22
_LOOPBACK = ("", "localhost", "127.0.0.1", "[::1]", "::1")
_REMEDY = "remove the file or folder there, or set TMPDIR to a folder of your own"


class LeasedDesktop(AddressDesktop):
    """A given desktop that nobody else uses until it is stopped; then it is given back."""

    def __init__(self, lease: Lease, remote_exec: RemoteExec | None = None, connect: Connect | None = None) -> None:
        super().__init__(lease.server, remote_exec, connect)
        self._lease = lease

    def stop(self) -> None:
        """End everything that was launched and run there, and give the desktop back; a second call does nothing.

        If the desktop has a remote execution and its screen differs from the first one, warn that the next test starts
        on the changed screen.
        """
        if self._lease.held:
            try:
                self._leave_as_found()
            finally:
                self._lease.release()

    def _leave_as_found(self) -> None:
        program = self._program
        try:
            if self._remote:
                self.reset()
        except DesktopError as exc:
            warnings.warn(f"{exc}; the next test will start on this changed screen", stacklevel=3)
        finally:
            self._program = program
            super().stop()


class Lease:
    """The right to use one desktop, until `release()` or the death of this process, whichever comes first."""

    def __init__(self, server: str, lock: FileLock) -> None:
        self.server = server
        self._lock = lock

    @property
    def held(self) -> bool:
        """Return whether it has not been released."""
        return self._lock.is_locked

    def release(self) -> None:
        """Give the lease back, and remove its files; a second call does nothing."""
        if self.held:
            _remove(self._lock)


def lease(
    servers: Sequence[str], holder: str, *, timeout_s: float, folder: Path | None = None, tunnel: str = ""
) -> Lease:
    """Lease the first of `servers` that nobody uses, and wait for one up to `timeout_s`.

    With a `tunnel` the addresses are as its other end sees them. Others see `holder` as the name of the user. The locks
    are files in `folder` (one for each user and machine by default). The operating system holds them while the process
    lives: a kill -9 frees them. Raises DesktopRefused that names each holder, DesktopError if `folder` belongs to
    another user.
    """
    folder = folder or folder_of_user()
    _make_own_folder(folder)
    _remove_leftovers_once(folder)
    deadline_s, poll_s = clock.monotonic() + timeout_s, _FIRST_POLL_S
    while True:
        _make_own_folder(folder)  # again, because the release of the last lock removes it
        for server in servers:
            if lock := _try(_path(canonical(server, tunnel), folder), holder):
                return Lease(server, lock)
        if clock.monotonic() >= deadline_s:
            held = "; ".join(
                f"{without_query(server)!r} by {_holder(_path(canonical(server, tunnel), folder))}"
                for server in servers
            )
            raise DesktopRefused(f"all desktops were in use for {timeout_s:g} s. In use: {held}")
        time.sleep(poll_s)
        poll_s = min(2 * poll_s, _POLL_S)


def folder_of_user() -> Path:
    """Return the folder for the locks of one user on one machine.

    Its name has the user's number, because a user need not have a name.
    """
    user = getpass.getuser() if sys.platform == "win32" else os.getuid()
    return Path(tempfile.gettempdir(), f"pytest-vnc-use-{user}")


def _make_own_folder(folder: Path) -> None:
    """Make the folder if it is missing. Raises DesktopError if something else has its name.

    The temporary folder is everybody's, so a folder of that name may be another user's.
    """
    try:
        while (found := _status_of(folder)) is None:
            pass
    except OSError as exc:
        raise DesktopError(f"cannot make the folder of locks {str(folder)!r}: {exc.strerror}; {_REMEDY}") from exc
    if not stat.S_ISDIR(found.st_mode) or (sys.platform != "win32" and found.st_uid != os.getuid()):
        raise DesktopError(f"the folder of locks must belong to this user, got {str(folder)!r}; {_REMEDY}")


def _status_of(folder: Path) -> os.stat_result | None:
    """Return the status of the folder; None if another process removed it meanwhile, with its last lock."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    try:
        return folder.lstat()
    except FileNotFoundError:
        return None


def _try(path: Path, holder: str) -> FileLock | None:
    lock = _try_lock(path.with_suffix(".lock"))
    if lock:
        _write_note(path.with_suffix(".json"), json.dumps({"holder": holder, "pid": os.getpid()}))
    return lock


def _try_lock(path: Path) -> FileLock | None:
    """Return the lock; None if somebody has it.

    A file that was removed just before it was locked counts as held: filelock notices that.
    """
    lock = FileLock(path, mode=0o600, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except (Timeout, FileNotFoundError, FileExistsError):  # the last two: the folder was removed with its last lock
        return None
    return lock


def _remove(lock: FileLock) -> None:
    """Release the lock; remove it and its note while nobody else can have it, and the folder once it is empty."""
    path = Path(lock.lock_file)
    with suppress(OSError):  # Windows removes no open file, but removes the lock when it is released
        path.with_suffix(".json").unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    lock.release()
    with suppress(OSError):  # there are other locks
        path.parent.rmdir()


@cache
def _remove_leftovers_once(folder: Path) -> None:
    remove_leftovers(folder)


def remove_leftovers(folder: Path) -> None:
    """Remove the locks of processes that were killed, and the folder if no others are in it."""
    with suppress(FileNotFoundError):  # another process removed the folder meanwhile, with its last lock
        for path in folder.glob("*.lock"):
            if lock := _try_lock(path):
                _remove(lock)


def _write_note(path: Path, text: str) -> None:
    """Write a note, and cut the file to its length only at the end.

    To empty the file first would take as long as ten leases, because ext4 then waits for the disk.
    """
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as note:
        note.write(text)
        note.truncate()


def _holder(path: Path) -> str:
    try:
        note = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # it is being written right now
        return "another process"
    return f"{note['holder']} (process {note['pid']})"


def _path(desktop: str, folder: Path) -> Path:
    return folder / hashlib.sha256(desktop.encode("utf-8", "replace")).hexdigest()[:24]


def canonical(server: str, tunnel: str = "") -> str:
    """Return one spelling for all spellings of an address: `localhost:1` is `127.0.0.1::5901`.

    `localhost` behind a tunnel to `testbox` is `testbox`. Any other host counts as the same machine for every tunnel.
    If that is wrong, tests only wait longer; the opposite mistake would share a desktop.
    """
    if found := host_and_port(server):
        return f"{_machine(found[0], tunnel)}::{found[1]}"
    if "://" in server:
        scheme, rest = server.split("://", 1)
        authority, slash, path = rest.partition("/")
        host, colon, number = authority.rpartition(":") if authority[-1:].isdecimal() else (authority, "", "")
        return f"{scheme.lower()}://{_machine(host, tunnel)}{colon}{number}{slash}{path}"
    return os.path.abspath(server)  # noqa: PTH100  # a link keeps its own name; ".." goes


def _machine(host: str, tunnel: str = "") -> str:
    """Return one name for the machine that a host is, as the other end of the tunnel sees it."""
    name = host.lower()
    if name in _LOOPBACK and tunnel:
        way = urlsplit(tunnel)
        there = _machine(way.hostname or "")
        return there if way.port in (None, _SSH_PORT) else f"{there}:{way.port}/127.0.0.1"
    return "127.0.0.1" if name in (*_LOOPBACK, socket.gethostname().lower()) else name
