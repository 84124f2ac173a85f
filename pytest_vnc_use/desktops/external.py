"""External desktops, which are known by their addresses, and leases of them.

A leased desktop belongs to one test, across threads, pytest-xdist workers and sessions.
"""

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
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from pytest_vnc_use import clock
from pytest_vnc_use.desktops.remote import RemoteDesktop, RemoteExec
from pytest_vnc_use.desktops.supervised_session import Process
from pytest_vnc_use.errors import AuthenticationFailed, DesktopError, DesktopRefused
from pytest_vnc_use.plain_text import without_query
from pytest_vnc_use.types.protocols import Connect
from pytest_vnc_use.types.wire import host_and_port

_FIRST_POLL_S = 0.005
"""The wait before the second try; it doubles with each try."""
_POLL_S = 0.1
"""The maximum wait between two tries."""
_LOOPBACK = ("", "localhost", "127.0.0.1", "[::1]", "::1")
_REMEDY = "Remove it, or set TMPDIR to a directory that you own"


class ExternalDesktop(RemoteDesktop):
    """A desktop whose VNC server listens at `server`. It is never stopped; `stop()`
    only releases its `lease`.

    Files and programs need a `remote_exec`, and a program needs `connect` too. The
    working directory, which may be a user's home, is never emptied.
    """

    outlives_program = True
    """The server is not part of the program: if the connection is lost when the program
    ends, the desktop has failed.
    """

    def __init__(
        self,
        server: str,
        remote_exec: RemoteExec | None = None,
        connect: Connect | None = None,
        lease: Lease | None = None,
    ) -> None:
        super().__init__(connect)
        self._server = server
        self._remote = remote_exec
        self._lease = lease
        self._was_used = False
        self._last_end: tuple[Process | None, str] = None, ""

    @property
    def server(self) -> str:
        """The address as it was configured."""
        return self._server

    @property
    def password(self) -> None:
        """None, because only the user knows it."""
        return None

    def _failure_now(self) -> str:
        """Return why the server could not be reached when the program ended; "" while
        the program runs.
        """
        if not self._program or not self._program.end:
            return ""
        if self._last_end[0] is not self._program:
            self._last_end = self._program, self._why_out_of_reach()
        return self._last_end[1]

    def stop(self) -> None:
        """End everything that was launched and run, and release the lease; a second
        call does nothing.

        The desktop stays, because this test did not start it.
        """
        try:
            self._keep_answers(self.exit_reason())
            self._end_program()
            if self._session:
                self._session.stop()
            if self._remote and self._was_used:
                self._was_used = False
                self._remote.end()
        finally:
            if self._lease:
                self._lease.release()

    def _why_out_of_reach(self) -> str:
        if self._connect is None:
            return ""
        try:
            self._connect(self._server, None).close()
        except AuthenticationFailed:
            return ""  # the server answers
        except DesktopError as exc:
            return (
                f"the server at {self._server!r} cannot be reached, and the program"
                f" ended: {exc}"
            )
        return ""

    def _reach(self, request: str) -> RemoteExec:
        if self._remote is None:
            raise DesktopError(
                f"cannot {request}: only VNC reaches the desktop at {self._server!r}."
                " Set how a command runs there (--vnc-exec='docker exec -i NAME' or"
                " 'ssh HOST'), or let the test start a desktop (--vnc-server=xvnc, qt"
                " or container:IMAGE)"
            )
        self._was_used = True
        return self._remote


class Lease:
    """The right to use one desktop, until `release()` or the death of this process,
    whichever comes first.
    """

    def __init__(self, server: str, lock: FileLock) -> None:
        self.server = server
        self._lock = lock

    def release(self) -> None:
        """Release the lease; a second call does nothing."""
        self._lock.release()


def lease(
    servers: Sequence[str],
    holder: str,
    *,
    timeout_s: float,
    directory: Path | None = None,
) -> Lease:
    """Lease the first free server, waiting up to `timeout_s`.

    Other processes see `holder` as the name of the user. The locks are files in
    `directory`, by default one for each user and machine. The operating system holds
    them while the process lives: a kill -9 frees them. Raises DesktopRefused that names
    each holder, DesktopError if `directory` belongs to another user.
    """
    directory = directory or lock_directory()
    _make_directory(directory)
    paths = {
        server: directory / _digest(normalize_address(server)) for server in servers
    }
    deadline_s = clock.monotonic() + timeout_s
    poll_s = _FIRST_POLL_S
    while True:
        for server, path in paths.items():
            with suppress(Timeout):
                lock = FileLock(
                    path.with_suffix(".lock"), mode=0o600, timeout=0, thread_local=False
                )
                lock.acquire()
                path.with_suffix(".json").write_text(
                    json.dumps({"holder": holder, "pid": os.getpid()}), "utf-8"
                )
                return Lease(server, lock)
        if clock.monotonic() >= deadline_s:
            held = "; ".join(
                f"{without_query(server)!r} by {_holder(path)}"
                for server, path in paths.items()
            )
            raise DesktopRefused(
                f"all desktops were in use for {timeout_s:g} s. In use: {held}"
            )
        time.sleep(poll_s)
        poll_s = min(2 * poll_s, _POLL_S)


def lock_directory() -> Path:
    """Return the directory for the locks of one user on one machine.

    Its name has the user's number, because a user need not have a name.
    """
    user = getpass.getuser() if sys.platform == "win32" else os.getuid()
    return Path(tempfile.gettempdir(), f"pytest-vnc-use-{user}")


def _make_directory(directory: Path) -> None:
    """Make the directory if it is missing.

    Raises DesktopError if another user has made it first, because all users share the
    temporary directory, or if it is no directory.
    """
    try:
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        status = directory.lstat()
    except OSError as exc:
        raise DesktopError(
            f"Cannot make lock directory {str(directory)!r}: {exc.strerror}. {_REMEDY}"
        ) from exc
    if not stat.S_ISDIR(status.st_mode) or (
        sys.platform != "win32" and status.st_uid != os.getuid()
    ):
        raise DesktopError(
            f"Lock directory {str(directory)!r} is not a directory owned by the current"
            f" user. {_REMEDY}"
        )


def _holder(path: Path) -> str:
    try:
        note = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # it is being written right now
        return "another process"
    return f"{note['holder']} (process {note['pid']})"


def _digest(address: str) -> str:
    return hashlib.sha256(address.encode("utf-8", "replace")).hexdigest()[:24]


def normalize_address(server: str) -> str:
    """Return the one form that all formats of an address have in common: `localhost:1`
    becomes `127.0.0.1::5901`.
    """
    if endpoint := host_and_port(server):
        return f"{_machine(endpoint[0])}::{endpoint[1]}"
    if "://" in server:
        scheme, remainder = server.split("://", 1)
        authority, slash, path = remainder.partition("/")
        host = authority
        port = ""
        if authority[-1:].isdecimal():
            host, colon, number = authority.rpartition(":")
            port = colon + number
        return f"{scheme.lower()}://{_machine(host)}{port}{slash}{path}"
    return os.path.abspath(server)  # noqa: PTH100  # a link keeps its name; ".." is resolved


def _machine(host: str) -> str:
    """Return the host, or 127.0.0.1 for each name of this machine."""
    name = host.lower()
    return "127.0.0.1" if name in (*_LOOPBACK, socket.gethostname().lower()) else name
