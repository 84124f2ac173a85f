"""The common part of desktops that are started here, independent of their screen's server."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence

from pytest_vnc_use.desktops.files import WorkingDirectory
from pytest_vnc_use.desktops.program import STAY, check_argv, early_end, starting
from pytest_vnc_use.desktops.session import Process, Session
from pytest_vnc_use.errors import CommandMissing, DesktopError, SettingsError, VncUseError
from pytest_vnc_use.types.protocols import Ran

_MAX_SIDE = 16384


class StartedDesktop:
    """The files, commands and program under test of a desktop that lives in a session; a subclass adds the screen."""

    def __init__(self, environment: Mapping[str, str], *, pinned: bool, name: str) -> None:
        self._session = Session(environment, pinned=pinned, name=name)
        self._files = WorkingDirectory(self._session.home)
        self._program: Process | None = None
        self._kept: tuple[str, str, Mapping[str, str]] | None = None
        """Once stopped: the faults of the program and of the desktop, and the logs."""

    @property
    def alive(self) -> bool:
        """Return whether all processes of the desktop itself still run."""
        return self._session.alive

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of the program under test.

        It is None while the program runs, or if none was started; -n if signal n ended it.
        """
        return self._program.exit_code if self._program else None

    def output_tail(self, lines: int = 20) -> str:
        """Return the last lines of standard output and error of the program under test; empty once stopped."""
        return self._program.output_tail(lines) if self._program else ""

    def read_file(self, name: str) -> str:
        """Return the text of a file in the program's working directory. Raises FileNotFoundError, DesktopError."""
        self._check_not_stopped(f"read {name!r}")
        return self._files.read(name)

    def write_file(self, name: str, text: str) -> None:
        """Write a text file, relative to the program's working directory. Raises DesktopError."""
        self._check_not_stopped(f"write {name!r}")
        self._files.write(name, text)

    def run(self, command: Sequence[str], *, timeout_s: float = 60.0) -> Ran:
        """Run a command in the program's working directory and environment, until it ends.

        Raises DesktopError; its subclass CommandMissing if the command's program cannot be found or run.
        """
        check_argv(command)
        self._check_not_stopped(f"run {shlex.join(command)!r}")
        with starting(command[0], CommandMissing):
            return self._session.run(command, timeout_s)

    def program_fault(self) -> str:
        """Return how the program under test ended and its last output; "" while it runs, or if none was started.

        After `stop()` the answer stays as it was before.
        """
        if self._kept:
            return self._kept[0]
        if not (self._program and self._program.end) or self.fault():
            return ""
        return self._program.message(self._program.end)

    def program_hangs(self) -> bool:
        """Return whether the program under test runs but does not answer; False if that is not known."""
        return False

    def fault(self) -> str:
        """Return how the X server or the window manager ended, and its last output; "" if neither has ended."""
        return self._kept[1] if self._kept else self._session.fault()

    def logs(self) -> Mapping[str, str]:
        """Return the output of each process so far, by its role, such as `program`: the last megabyte of each."""
        return self._kept[2] if self._kept else self._session.logs()

    def stop(self) -> None:
        """End everything that was started and remove the working directory; a second call does nothing."""
        self._kept = self.program_fault(), self.fault(), self.logs()
        self._session.stop()

    def _start_program(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, network: str = ""
    ) -> Process:
        """Start the program under test and end the one before. Raises DesktopError, ProgramMissing.

        `environment` is the program's alone; `network` as in `Session.start`.
        """
        self._program = None
        self._session.end_program()
        self._files.set_times()
        with starting(command[0]):
            self._program = self._session.start("program", command, environment or {}, network=network)
        return self._program

    def _ended_early(self, process: Process, undone: str, hint: str = "") -> VncUseError:
        """Return the error for a process that ended before it showed anything: the program, or one of this package."""
        message = process.message(f"{process.end} and {undone}{'' if process.exit_code else STAY}{hint}")
        if process is not self._program or self.fault():
            return DesktopError(self.fault() or message)
        return early_end(message, process.exit_code, process.output_tail())

    def _check_not_stopped(self, wish: str) -> None:
        if self._kept:
            raise DesktopError(
                f"cannot {wish}: the desktop is stopped, and its working directory is removed; do it before stop()"
            )


def check_linux(means: str, reason: str) -> None:
    """Raise DesktopError if this is not Linux."""
    if sys.platform != "linux":
        raise DesktopError(
            f"a desktop started by {means!r} needs Linux, {reason}, got {sys.platform!r}. Give the address of a "
            "VNC server instead, such as --vnc-server=host::5901"
        )


def check_size(size: tuple[int, int]) -> None:
    """Raise SettingsError if no VNC server has such a screen."""
    if len(size) != 2 or not all(isinstance(side, int) and 1 <= side <= _MAX_SIDE for side in size):
        raise SettingsError(f"a screen's size must be width and height in pixels, 1 to {_MAX_SIDE} each, got {size!r}")
