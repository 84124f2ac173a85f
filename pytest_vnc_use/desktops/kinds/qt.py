"""A desktop that is one Qt program on Qt's own VNC platform: no X server, no window manager."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.desktops.kinds.local import ANSWERS_WITHIN_S, StartedDesktop, check_linux, check_size
from pytest_vnc_use.desktops.processes.ports import greets_with_rfb, vnc_port
from pytest_vnc_use.desktops.processes.process import Process
from pytest_vnc_use.errors import DesktopError, DesktopRefused

_POLL_S = 0.02
_GREETING_TIMEOUT_S = 1.0


class QtDesktop(StartedDesktop):
    """A Qt program with `QT_QPA_PLATFORM=vnc`, started in an empty working folder; it is ready when it greets over VNC.

    The program is the desktop: with an empty `command`, and after `reset()`, there is no screen until `launch()`.

    `size` is in pixels. `environment` is added to `inherited`, this process's own by default. The desktop's private
    folder is made in `place`, the temporary folder by default. The program ends with `stop()`, and with this process,
    however it dies. `run` starts a command beside the program, in the same environment. There is no display to share: a
    Qt program that is started that way opens a VNC server of its own.

    Qt's server listens on all interfaces, asks for no password, and encrypts nothing (Qt 6.6 to 6.12, measured). Where
    the network is not trusted, run the tests in a container. The server ignores wheel buttons and takes Latin-1
    characters only. Linux only: the wheels of PySide6 for macOS and Windows lack the `vnc` platform.

    Raises ProgramCrashed where the program fails first, ProgramMissing where it cannot be run, DesktopError where it
    ends first without a fault, DesktopRefused where it does not greet within `start_timeout_s`, SettingsError for a
    size that makes no sense.
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
    ) -> None:
        check_linux("qt", "where PySide6 brings Qt's VNC platform")
        check_size(size)
        super().__init__({**(environment or {}), **_qt_environment(size)}, place, inherited)
        self._timeout_s = start_timeout_s
        self._port: int | None = None
        try:
            if command:
                self.launch(command)
        except BaseException:  # on any error, and on Ctrl-C: nothing that was started stays behind
            self.stop()
            raise

    def launch(self, command: Sequence[str]) -> None:
        """Start the program in place of the one before, and wait until it greets over VNC. Raises as the class does."""
        self._check_not_stopped(f"launch {shlex.join(command)!r}")
        self._port = None
        self._port = self._wait_for_greeting(self._start_program(command), Deadline(self._timeout_s))

    def reset(self) -> None:
        """End the program and everything else that was started, and empty the working folder. Raises DesktopError."""
        self._port = None
        super().reset()

    def program_hangs(self) -> bool:
        """Return whether the program runs but no longer greets over VNC: its server has no thread of its own."""
        runs = self._port is not None and self.alive and not self.program_fault()
        return runs and not greets_with_rfb(self._port or 0, ANSWERS_WITHIN_S)

    @property
    def server(self) -> str:
        """Return the address of the program's VNC server, as `host::port`.

        Raises DesktopError before a program is launched.
        """
        if self._port is None:
            raise DesktopError("there is no screen: no program was launched, and with Qt the program is the desktop")
        return f"127.0.0.1::{self._port}"

    @property
    def password(self) -> None:
        """None, because Qt's server asks for none."""
        return None

    def _wait_for_greeting(self, program: Process, deadline: Deadline) -> int:
        while deadline.remaining_s:
            if program.end:
                raise self._ended_early(program, "had not shown a desktop")
            if port := vnc_port(program.popen.pid, timeout_s=_GREETING_TIMEOUT_S):
                return port
            time.sleep(_POLL_S)
        raise DesktopRefused(program.message(f"opened no VNC server within {self._timeout_s:g} s; is it a Qt program?"))


def _qt_environment(size: tuple[int, int]) -> dict[str, str]:
    width, height = size
    return {
        "QT_QPA_PLATFORM": f"vnc:size={width}x{height}:port=0",  # 0: Qt takes a free port, found in ports.py
        "QT_FORCE_STDERR_LOGGING": "1",  # else Qt's messages may go to the system's journal
    }
