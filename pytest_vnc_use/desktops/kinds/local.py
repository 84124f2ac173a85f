"""The common part of all desktops that are started here, independent of their screen's server."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_vnc_use.desktops.processes import cleanup
from pytest_vnc_use.desktops.processes.process import Process
from pytest_vnc_use.desktops.processes.session import Session
from pytest_vnc_use.desktops.processes.start_faults import STAY, check_words, early_end, starting
from pytest_vnc_use.desktops.processes.working_folder import WorkingFolder
from pytest_vnc_use.errors import CommandMissing, DesktopError, SettingsError, VncUseError
from pytest_vnc_use.types.protocols import Ran

ANSWERS_WITHIN_S = 5.0
"""The time in which a running program must answer; window managers offer to kill it after 5 to 10 s."""
_LARGEST = 16384


class StartedDesktop:
    """The files, commands and program under test of a desktop that lives in a session; a subclass adds the screen."""

    def __init__(
        self,
        environment: Mapping[str, str],
        place: Path | None = None,
        inherited: Mapping[str, str] | None = None,
        *,
        new_user: bool = True,
    ) -> None:
        self._session = Session(environment, place, inherited, new_user=new_user)
        self._files = WorkingFolder(self._session.working_folder)
        self._program: Process | None = None
        self._last_fault: str | None = None
        self._last_own_fault = ""
        self._last_logs: Mapping[str, str] | None = None

    @property
    def alive(self) -> bool:
        """Return whether all processes of the desktop itself still run."""
        return self._last_fault is None and self._session.alive

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
        """Return the text of a file in the program's working folder. Raises FileNotFoundError, DesktopError."""
        self._check_not_stopped(f"read {name!r}")
        return self._files.read(name)

    def write_file(self, name: str, text: str) -> None:
        """Write a text file, relative to the program's working folder. Raises DesktopError."""
        self._check_not_stopped(f"write {name!r}")
        self._files.write(name, text)

    def run(self, command: Sequence[str], *, timeout_s: float = 60.0) -> Ran:
        """Run a command in the program's working folder and environment, until it ends.

        Raises DesktopError; its subclass CommandMissing if the command's program cannot be found or run.
        """
        check_words(command)
        self._check_not_stopped(f"run {shlex.join(command)!r}")
        with starting(command[0], CommandMissing):
            return self._session.run(command, timeout_s)

    def program_fault(self) -> str:
        """Return how the program under test ended and its last output; "" while it runs, or if none was started.

        After `stop()` the answer stays as it was before.
        """
        if self._last_fault is not None:
            return self._last_fault
        if not (self._program and self._program.end) or self.fault():
            return ""
        return self._program.message(self._program.end)

    def program_hangs(self) -> bool:
        """Return whether the program under test runs but does not answer; False if that is not known."""
        return False

    def fault(self) -> str:
        """Return how the X server or the window manager ended, and its last output; "" if neither has ended."""
        return self._session.fault() if self._last_fault is None else self._last_own_fault

    def logs(self) -> Mapping[str, str]:
        """Return the output of each process so far, by its role, such as `program`: the last megabyte of each."""
        return self._session.logs() if self._last_logs is None else self._last_logs

    def end_program(self) -> None:
        """End the program under test; another thread than the one that waits for it to show may call this."""
        if self._program:
            cleanup.end_sessions(self._program.sessions)

    def reset(self) -> None:
        """End everything that was launched and run, and empty the working folder. Raises DesktopError if that fails."""
        self._check_not_stopped("reset")
        self._program = None
        self._session.reset()

    def stop(self) -> None:
        """End everything that was started and remove the working folder; a second call does nothing."""
        self._last_own_fault, self._last_logs = self.fault(), self.logs()
        self._last_fault = self.program_fault()
        self._session.stop()

    def _start_program(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, closed_at: str = ""
    ) -> Process:
        """Start the program under test and end the one before. Raises DesktopError, ProgramMissing.

        `environment` is the program's alone; `closed_at` as in `Session.start`.
        """
        if self._program is not None:
            self._session.end(self._program)
            self._program = None
        with starting(command[0]):
            self._program = self._session.start("program", command, environment, attended=True, closed_at=closed_at)
        return self._program

    def _ended_early(self, process: Process, undone: str, hint: str = "") -> VncUseError:
        """Return the error for a process that ended before it showed anything: the program, or one of our own."""
        message = process.message(f"{process.end} and {undone}{'' if process.exit_code else STAY}{hint}")
        if process is not self._program or self.fault():
            return DesktopError(self.fault() or message)
        return early_end(message, process.exit_code, process.output_tail())

    def _check_not_stopped(self, wish: str) -> None:
        if self._last_fault is not None:
            raise DesktopError(
                f"cannot {wish}: the desktop is stopped, and its working folder is removed; do it before stop()"
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
    if len(size) != 2 or not all(isinstance(side, int) and 1 <= side <= _LARGEST for side in size):
        raise SettingsError(f"a screen's size must be width and height in pixels, 1 to {_LARGEST} each, got {size!r}")
