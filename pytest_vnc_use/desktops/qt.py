"""The program under test on Qt's own VNC platform: no X server, no window manager, the program is the whole desktop."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence

from pytest_vnc_use.desktops.folder import WorkingFolder
from pytest_vnc_use.desktops.listening import vnc_port
from pytest_vnc_use.desktops.program import Program
from pytest_vnc_use.errors import DesktopError, DesktopRefused

_POLL_S = 0.05
_GREETING_TIMEOUT_S = 1.0


class QtDesktop:
    """Starts a Qt program with `QT_QPA_PLATFORM=vnc`, in an empty working folder, and waits until it greets over VNC.

    `size` is in pixels. `environment` is added to this process's own. The program ends with `stop()`, and with this
    process, however that dies.

    Qt's server listens on all interfaces, asks for no password, and encrypts nothing (Qt 6.6 to 6.12, measured): where
    the network is not trusted, run the tests in a container. It ignores wheel buttons and takes Latin-1 characters
    only. Linux only: the wheels of PySide6 for macOS and Windows lack the `vnc` platform.

    Raises DesktopError where the program ends first, DesktopRefused where it does not greet within `start_timeout_s`.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        size: tuple[int, int] = (1440, 900),
        environment: Mapping[str, str] | None = None,
        start_timeout_s: float = 20.0,
    ) -> None:
        _check_platform()
        self._command = list(command)
        self._program = Program(command, {**(environment or {}), **_qt_environment(size)})
        self._files = WorkingFolder(self._program.working_folder)
        try:
            self._port = self._wait_for_greeting(start_timeout_s)
        except BaseException:  # whatever it was, Ctrl-C too: nothing that was started stays behind
            self.stop()
            raise

    @property
    def server(self) -> str:
        """Where the program's VNC server listens, as `host::port`."""
        return f"127.0.0.1::{self._port}"

    @property
    def exit_code(self) -> int | None:
        """None while the program runs and once it is stopped; 128 + n where signal n ended it."""
        return self._program.exit_code

    def output_tail(self, lines: int = 20) -> str:
        """The last lines of what the program wrote to its standard output and error; empty once it is stopped."""
        return self._program.output_tail(lines)

    def read_file(self, name: str) -> str:
        """Text of a file, relative to the program's working folder. Raises DesktopError."""
        return self._files.read(name)

    def write_file(self, name: str, text: str) -> None:
        """Write a text file, relative to the program's working folder. Raises DesktopError."""
        self._files.write(name, text)

    def stop(self) -> None:
        """End the program and remove its working folder; a second call does nothing."""
        self._program.stop()

    def _wait_for_greeting(self, timeout_s: float) -> int:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if (code := self.exit_code) is not None:
                raise DesktopError(self._told(f"ended with exit code {code} before it showed a desktop"))
            if port := vnc_port(self._program.session, timeout_s=_GREETING_TIMEOUT_S):
                return port
            time.sleep(_POLL_S)
        raise DesktopRefused(self._told(f"opened no VNC server within {timeout_s:g} s; is it a Qt program?"))

    def _told(self, what: str) -> str:
        output = self.output_tail() or "(it printed nothing)"
        return f"the program {' '.join(self._command)!r} {what}\n{output}"


def _check_platform() -> None:
    if sys.platform != "linux":
        raise DesktopError(
            f"a desktop started by 'qt' needs Linux, where PySide6 brings Qt's VNC platform, got {sys.platform!r}; "
            "give the address of a VNC server, such as --vnc-server=host::5901"
        )


def _qt_environment(size: tuple[int, int]) -> dict[str, str]:
    width, height = size
    return {
        "QT_QPA_PLATFORM": f"vnc:size={width}x{height}:port=0",  # 0: Qt takes a free port, found in listening.py
        "QT_FORCE_STDERR_LOGGING": "1",  # else what Qt says may go to the system's journal
    }
