"""A desktop that is one Qt program on Qt's VNC platform: no X server, no window
manager.
"""

from __future__ import annotations

import functools
import shlex
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.desktops import network_namespace
from pytest_vnc_use.desktops.started import (
    StartedDesktop,
    check_linux,
    check_size,
    greets_at,
)
from pytest_vnc_use.errors import DesktopError, DesktopRefused, SettingsError

ANSWERS_WITHIN_S = 5.0
"""The time in which a running program must greet; window managers offer to kill one
after 5 to 10 s.
"""
_POLL_S = 0.02
_GREETING_TIMEOUT_S = 1.0
_HINT = "; is it a Qt program?"
# otherwise Qt's messages may go to the system's journal
_COMMON = {"QT_FORCE_STDERR_LOGGING": "1"}
_LISTENS = "0A"


class QtDesktop(StartedDesktop):
    """A Qt program with `QT_QPA_PLATFORM=vnc`, in a working directory that is empty or a
    copy of `home`; it is ready when it greets over VNC.

    The program is the desktop: with an empty `command` there is no screen until
    `launch()`. `size` is in pixels. `environment` is added to that of the program. With
    `pinned=False` it draws as the user of this machine has configured it. The program
    ends with `stop()`, and with this process, however it dies. `run` starts a command
    beside the program, on the machine's network. A Qt program that is started so is not
    visible, because there is no display to share.

    Qt's server listens on all interfaces, asks for no password, and encrypts nothing
    (Qt 6.6 to 6.12, measured). So the program has a network namespace, with loopback
    only, and the server is reached at a unix socket that only this user can open. With
    `is_open` the program has the machine's network, where every user can reach the
    server. With `may_be_open` it has the machine's network only if no network namespace
    is allowed, and this process warns once. The server ignores wheel buttons and takes
    Latin-1 characters only. Linux only: the wheels of PySide6 for macOS and
    Windows lack the `vnc` platform.

    Raises:
        SettingsError: the size is invalid, the fonts are not installed, or the program
            needs a network namespace that this machine does not allow.
        ProgramMissing: the program cannot be run.
        ProgramCrashed: the program failed before it was ready.
        DesktopError: the program ended before it was ready, without a failure.
        DesktopRefused: it does not send its greeting within `start_timeout_s`.
    """

    def __init__(
        self,
        command: Sequence[str] = (),
        *,
        size: tuple[int, int] = (1440, 900),
        environment: Mapping[str, str] | None = None,
        start_timeout_s: float = 20.0,
        is_open: bool = False,
        may_be_open: bool = False,
        pinned: bool = True,
        name: str = "",
        home: Path | None = None,
    ) -> None:
        check_linux("qt", "because PySide6 brings Qt's VNC platform there only")
        check_size(size)
        is_closed = not is_open and check_network(may_be_open=may_be_open)
        super().__init__(
            {**(environment or {}), **_COMMON, "QT_QPA_PLATFORM": "offscreen"},
            pinned=pinned,
            name=name,
            home=home,
        )
        self._timeout_s = start_timeout_s
        self._network = str(self._session.directory / "vnc") if is_closed else ""
        port = network_namespace.PORT if is_closed else 0  # 0: Qt takes a free one
        self._platform = f"vnc:size={size[0]}x{size[1]}:port={port}"
        self._server = ""
        try:
            if command:
                self.launch(command)
        except BaseException:
            # on any error, and on Ctrl-C: nothing that was started stays behind
            self.stop()
            raise

    @contextmanager
    def launching(self, command: Sequence[str]) -> Iterator[None]:
        """Start the program instead of the one before. At the end of the block, wait
        until it greets over VNC. Raises as the class does.
        """
        self._check_not_stopped(f"launch {shlex.join(command)!r}")
        self._server = ""
        program = self._start_program(
            command, {"QT_QPA_PLATFORM": self._platform}, self._network
        )
        yield
        deadline = Deadline(self._timeout_s)
        while deadline.remaining_s:
            if program.end:
                raise self._ended_early(program, "had not shown a desktop", _HINT)
            for address in self._addresses(program.pid):
                if greets_at(address, _GREETING_TIMEOUT_S):
                    self._server = address
                    return
            time.sleep(_POLL_S)
        raise DesktopRefused(
            program.message(f"opened no VNC server within {self._timeout_s:g} s{_HINT}")
        )

    def _addresses(self, session: int) -> list[str]:
        if self._network:
            return [self._network]
        return [f"127.0.0.1::{port}" for port in listening_ports(session)]

    def program_hangs(self) -> bool:
        """Return whether the program runs but sends no greeting to a new client. Its
        VNC server runs in the thread that draws.
        """
        runs = bool(self._server) and self.program_runs()
        return runs and not greets_at(self._server, ANSWERS_WITHIN_S)

    @property
    def server(self) -> str:
        """Return the address of the program's VNC server: the path of a unix socket, or
        `host::port` if it is open.

        Raises DesktopError before a program is launched.
        """
        if not self._server:
            raise DesktopError(
                "the desktop has no screen yet. Launch a program first: with"
                " --vnc-server=qt the program is the desktop"
            )
        return self._server

    @property
    def password(self) -> None:
        """None, because Qt's server asks for none."""
        return None


def check_network(*, may_be_open: bool) -> bool:
    """Return whether a program can have a network namespace.

    If it cannot, warn once where the desktop `may_be_open`; else raise SettingsError.
    """
    reason = why_not_closable()
    if reason and not may_be_open:
        raise SettingsError(
            "Qt's VNC server has no password and listens on all interfaces. This"
            f" machine allows no network namespace to protect it ({reason}). Allow"
            " unprivileged user namespaces, or use --vnc-server=xvnc. In a container"
            " or behind a firewall, -o vnc_qt_host_network=true starts it unprotected"
        )
    if reason:
        _warn_once(reason)
    return not reason


@functools.cache
def _warn_once(reason: str) -> None:
    with warnings.catch_warnings():
        # a setting allows it: where warnings are errors, this is none
        warnings.simplefilter("always")
        warnings.warn(
            "Qt's VNC server is on all interfaces without a password, so use a"
            f" firewall. No network namespace: {reason} (vnc_qt_host_network"
            " allows it)",
            stacklevel=4,
        )


@functools.cache
def why_not_closable() -> str:
    """Return why this machine allows no network namespace; "" if it does."""
    command = [sys.executable, "-I", "-S", network_namespace.__file__]
    tried = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if tried.returncode == 0:
        return ""
    return tried.stdout.strip() or f"exit code {tried.returncode}"


def listening_ports(session: int) -> list[int]:
    """Return the ports on which the processes of a session listen, in order; proc(5).

    The server chooses its own port and is asked for it afterwards, so that no other
    program can take a port that was chosen for it.
    """
    sockets = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile, or closed one
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                for descriptor in (process / "fd").iterdir():
                    sockets.add(str(descriptor.readlink()))
    # the program is still loading; do not read the long tables of a busy machine
    if not sockets:
        return []
    ports = set()
    for table in filter(Path.exists, map(Path, ("/proc/net/tcp", "/proc/net/tcp6"))):
        for fields in map(str.split, table.read_text().splitlines()[1:]):
            if fields[3] == _LISTENS and f"socket:[{fields[9]}]" in sockets:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return sorted(ports)
