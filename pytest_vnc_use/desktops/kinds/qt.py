"""The program under test on Qt's own VNC platform: no X server, no window manager, the program is the whole desktop."""

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
    """Starts a Qt program with `QT_QPA_PLATFORM=vnc`, in an empty working folder, and waits until it greets over VNC.

    The program is the desktop: with an empty `command`, and after `reset()`, there is no screen until `launch()`.

    `size` is in pixels. `environment` is added to `inherited`, this process's own by default; the desktop's private
    folder is made in `place`, the temporary folder by default. The program ends with `stop()`, and with this process,
    however that dies. `run` starts a command beside the program, in the same environment: there is no display to share,
    and a Qt program started that way opens a VNC server of its own.

    Qt's server listens on all interfaces, asks for no password, and encrypts nothing (Qt 6.6 to 6.12, measured): where
    the network is not trusted, run the tests in a container. It ignores wheel buttons and takes Latin-1 characters
    only. Linux only: the wheels of PySide6 for macOS and Windows lack the `vnc` platform.

    Raises ProgramCrashed where the program fails first, ProgramMissing where it cannot be run, DesktopError where it
    ends first without a fault, DesktopRefused where it does not greet within `start_timeout_s`, SettingsError for a
    size of nonsense.
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
        except BaseException:  # whatever it was, Ctrl-C too: nothing that was started stays behind
            self.stop()
            raise

    def launch(self, command: Sequence[str]) -> None:
        """Start the program, in place of the one before, and wait until it greets over VNC. Raises as the class."""
        self._check_not_stopped(f"launch {shlex.join(command)!r}")
        self._port = None
        self._port = self._wait_for_greeting(self._start_program(command), Deadline(self._timeout_s))

    def reset(self) -> None:
        """End the program and all else that was started, and empty the working folder. Raises DesktopError."""
        self._port = None
        super().reset()

    def program_hangs(self) -> bool:
        """Whether the program runs, and does not greet over VNC any more: its server has no thread of its own."""
        runs = self._port is not None and self.alive and not self.program_fault()
        return runs and not greets_with_rfb(self._port or 0, ANSWERS_WITHIN_S)

    @property
    def server(self) -> str:
        """Where the program's VNC server listens, as `host::port`. Raises DesktopError before a program is launched."""
        if self._port is None:
            raise DesktopError("there is no screen: no program was launched, and with Qt the program is the desktop")
        return f"127.0.0.1::{self._port}"

    @property
    def password(self) -> None:
        """None: Qt's server asks for none."""
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
        "QT_FORCE_STDERR_LOGGING": "1",  # else what Qt says may go to the system's journal
    }
