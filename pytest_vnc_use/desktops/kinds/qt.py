"""A desktop that is one Qt program on Qt's own VNC platform: no X server, no window manager."""

from __future__ import annotations

import functools
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.desktops.kinds.local import ANSWERS_WITHIN_S, StartedDesktop, check_linux, check_size
from pytest_vnc_use.desktops.processes import closed_network
from pytest_vnc_use.desktops.processes.closed_network import PORT
from pytest_vnc_use.desktops.processes.ports import greets_at, vnc_port
from pytest_vnc_use.desktops.processes.process import Process
from pytest_vnc_use.errors import DesktopError, DesktopRefused, SettingsError

_POLL_S = 0.02
_GREETING_TIMEOUT_S = 1.0
_HINT = "; is it a Qt program?"
_COMMON = {"QT_FORCE_STDERR_LOGGING": "1"}  # otherwise Qt's messages may go to the system's journal


class QtDesktop(StartedDesktop):
    """A Qt program with `QT_QPA_PLATFORM=vnc`, started in an empty working folder; it is ready when it greets over VNC.

    The program is the desktop: with an empty `command`, and after `reset()`, there is no screen until `launch()`.

    `size` is in pixels. `environment` is added to `inherited`, this process's own by default. The desktop's private
    folder is made in `place`, the temporary folder by default. The program ends with `stop()`, and with this process,
    however it dies. `run` starts a command beside the program, on the machine's network. There is no display to share:
    another Qt program that is started that way is not visible anywhere.

    Qt's server listens on all interfaces, asks for no password, and encrypts nothing (Qt 6.6 to 6.12, measured). So the
    program has its own network, with loopback only, and the server is reached at a unix socket that only this user can
    open. With `is_open` the program has the machine's network, and everybody on it can reach the server. It is the same
    in a container that allows no network namespace. The server ignores wheel buttons and takes Latin-1 characters only.
    Linux only: the wheels of PySide6 for macOS and Windows lack the `vnc` platform.

    Raises ProgramCrashed if the program fails first, ProgramMissing if it cannot be run, DesktopError if it ends first
    without a fault, DesktopRefused if it does not greet within `start_timeout_s`. Raises SettingsError for an invalid
    size, and if the program must have its own network but cannot.
    """

    def __init__(
        self,
        command: Sequence[str] = (),
        *,
        size: tuple[int, int] = (1440, 900),
        environment: Mapping[str, str] | None = None,
        start_timeout_s: float = 20.0,
        place: Path | None = None,
        inherited: Mapping[str, str] | None = None,
        new_user: bool = True,
        is_open: bool = False,
    ) -> None:
        check_linux("qt", "because PySide6 brings Qt's VNC platform there only")
        check_size(size)
        is_closed = not is_open and check_closable()
        environment = {**(environment or {}), **_COMMON, "QT_QPA_PLATFORM": "offscreen"}
        super().__init__(environment, place, inherited, new_user=new_user)
        self._timeout_s = start_timeout_s
        self._closed_at = str(self._session.folder / "vnc") if is_closed else ""
        self._platform = f"vnc:size={size[0]}x{size[1]}:port={PORT if is_closed else 0}"  # 0: Qt takes a free port
        self._server = ""
        try:
            if command:
                self.launch(command)
        except BaseException:  # on any error, and on Ctrl-C: nothing that was started stays behind
            self.stop()
            raise

    def launch(self, command: Sequence[str]) -> None:
        """Start the program in place of the one before, and wait until it greets over VNC. Raises as the class does."""
        self._check_not_stopped(f"launch {shlex.join(command)!r}")
        self._server = ""
        program = self._start_program(command, {"QT_QPA_PLATFORM": self._platform}, self._closed_at)
        self._server = self._wait_for_greeting(program, Deadline(self._timeout_s))

    def reset(self) -> None:
        """End the program and everything else that was started, and empty the working folder. Raises DesktopError."""
        self._server = ""
        super().reset()

    def program_hangs(self) -> bool:
        """Return whether the program runs but no longer greets over VNC: its server has no thread of its own."""
        runs = bool(self._server) and self.alive and not self.program_fault()
        return runs and not greets_at(self._server, ANSWERS_WITHIN_S)

    @property
    def server(self) -> str:
        """Return the address of the program's VNC server: the path of a unix socket, or `host::port` if it is open.

        Raises DesktopError before a program is launched.
        """
        if not self._server:
            raise DesktopError(
                "the desktop has no screen yet: launch a program first. With --vnc-server=qt the program is the desktop"
            )
        return self._server

    @property
    def password(self) -> None:
        """None, because Qt's server asks for none."""
        return None

    def _wait_for_greeting(self, program: Process, deadline: Deadline) -> str:
        while deadline.remaining_s:
            if program.end:
                raise self._ended_early(program, "had not shown a desktop", _HINT)
            if self._closed_at and greets_at(self._closed_at, _GREETING_TIMEOUT_S):
                return self._closed_at
            if not self._closed_at and (port := vnc_port(program.popen.pid, timeout_s=_GREETING_TIMEOUT_S)):
                return f"127.0.0.1::{port}"
            time.sleep(_POLL_S)
        raise DesktopRefused(program.message(f"opened no VNC server within {self._timeout_s:g} s{_HINT}"))


def check_closable() -> bool:
    """Return whether a program can have a network of its own; False in a container, which is one already.

    Raises SettingsError elsewhere.
    """
    reason = why_not_closable()
    if not reason or is_in_container():
        return not reason
    raise SettingsError(
        "Qt's VNC server has no password and listens on all interfaces. This machine allows no network namespace "
        f"to protect it ({reason}). Allow unprivileged user namespaces, run in a container, or use "
        "--vnc-server=xvnc. Behind a firewall, -o vnc_qt_open=true starts it unprotected"
    )


@functools.cache
def why_not_closable() -> str:
    """Return why no program can have a network of its own on this machine; "" if it can."""
    command = [sys.executable, "-I", "-S", closed_network.__file__]
    tried = subprocess.run(command, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, check=False)
    return "" if tried.returncode == 0 else tried.stdout.strip() or f"exit code {tried.returncode}"


def reach_of_server() -> str:
    """Return who reaches a server that is open only where it must be, as a session's header says it."""
    reason = why_not_closable()
    if not reason:
        return "Qt's VNC server: closed in a network of its own, only this user reaches it"
    return f"Qt's VNC server: on all interfaces without a password, use a firewall; no network namespace here: {reason}"


def is_in_container() -> bool:
    """Return whether this process runs in a container of Docker, Podman or Kubernetes."""
    if os.environ.get("container") or os.environ.get("KUBERNETES_SERVICE_HOST"):  # noqa: SIM112  # its name is so
        return True
    return any(map(os.path.exists, ("/.dockerenv", "/run/.containerenv")))
