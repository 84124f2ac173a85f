"""The common part of desktops with remote execution: their files, commands, and the program under test."""

from __future__ import annotations

import shlex
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import closing

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.desktops.processes import cleanup
from pytest_vnc_use.desktops.processes.remote_exec import RemoteExec
from pytest_vnc_use.desktops.processes.screen_wait import await_screen
from pytest_vnc_use.desktops.processes.session import Session
from pytest_vnc_use.desktops.processes.start_faults import STAY, check_words, early_end
from pytest_vnc_use.errors import DesktopError, DesktopRefused, ProgramCrashed, ProgramMissing
from pytest_vnc_use.same_screen import same_screen
from pytest_vnc_use.types.protocols import Connect, Controller, Ran

_PART = "program"


class Program:
    """A program that was started on the desktop, and has changed the screen; its client lives in a session here.

    Raises ProgramMissing if it cannot be run there, ProgramCrashed if it fails first, DesktopError if the desktop
    cannot be reached or the program ends first without a fault, DesktopRefused if nothing shows in `timeout_s`.
    """

    def __init__(self, command: Sequence[str], remote_exec: RemoteExec, screen: Controller, timeout_s: float) -> None:
        if not remote_exec.has(command[0]):
            raise ProgramMissing(f"cannot start {command[0]!r}: the desktop has no such program on its PATH")
        self._kept: tuple[str, str] | None = None
        self._session = Session({})
        try:
            cleanup.note_command(self._session.folder, remote_exec.ending(_PART))
            before = screen.frame().png
            self._process = self._session.start(
                "program", remote_exec.words(command, _PART), client_of=command, attended=True
            )
            self._await_change(before, screen, timeout_s)
        except BaseException:  # on any error, and on Ctrl-C: nothing that was started stays behind
            self._session.stop()
            raise

    @property
    def fault(self) -> str:
        """Return how it ended, and its last output; "" while it runs. Once stopped, the answer stays as it was."""
        return self._kept[0] if self._kept else self._process.message(self._process.end) if self._process.end else ""

    @property
    def output(self) -> str:
        """Return the last megabyte of its output. Once stopped, the answer stays as it was."""
        return self._kept[1] if self._kept else self._process.output

    def stop(self) -> None:
        """End the program; a second call does nothing."""
        if self._kept is None:
            self._kept = (self.fault, self.output)
            self._session.stop()

    def _await_change(self, before: bytes, screen: Controller, timeout_s: float) -> None:
        program = self._process

        def shows(png: bytes) -> bool:
            if program.end:
                message = program.message(
                    f"{program.end} and had not shown a window{'' if program.exit_code else STAY}"
                )
                raise early_end(message, program.exit_code, program.output_tail(), elsewhere=True)
            return not same_screen(before, png)

        if not await_screen(screen, shows, Deadline(timeout_s)):
            raise DesktopRefused(program.message(f"had not shown a window within {timeout_s:g} s"))


class RemoteDesktop(ABC):
    """A desktop whose files and commands are reached by a RemoteExec.

    `connect` opens a Controller, which sees whether a launched program changes the screen.
    """

    def __init__(self, connect: Connect | None, launch_timeout_s: float = 20.0) -> None:
        self._connect = connect
        self._launch_timeout_s = launch_timeout_s
        self._program: Program | None = None

    @property
    @abstractmethod
    def server(self) -> str:
        """Return the address of its VNC server."""

    @property
    @abstractmethod
    def password(self) -> str | None:
        """Return the password of its VNC server; None if it asks for none, or only the user knows it."""

    @abstractmethod
    def _remote_exec(self, wish: str) -> RemoteExec:
        """Return the remote execution. Raises DesktopError that says why `wish` is not possible."""

    def read_file(self, name: str) -> str:
        """Return the text of a file, relative to the working folder there. Raises FileNotFoundError, DesktopError."""
        return self._remote_exec(f"read the file {name!r}").read(name)

    def write_file(self, name: str, text: str) -> None:
        """Write a text file, relative to the working folder there. Raises DesktopError."""
        self._remote_exec(f"write the file {name!r}").write(name, text)

    def run(self, command: Sequence[str], *, timeout_s: float = 60.0) -> Ran:
        """Run a command in the working folder there, until it ends. Raises DesktopError."""
        check_words(command)
        return self._remote_exec(f"run {shlex.join(command)!r}").run(command, timeout_s)

    def launch(self, command: Sequence[str]) -> None:
        """Start the program under test in place of the one before, and wait until the screen has changed.

        Linux only, here and there. Raises DesktopError, ProgramMissing, ProgramCrashed.
        """
        wish = f"launch {shlex.join(command)!r}"
        remote_exec = self._remote_exec(wish)
        if sys.platform != "linux":
            raise DesktopError(f"cannot {wish}: that needs Linux, got {sys.platform!r}; start it over there yourself")
        self._end_program()
        with closing(self._screen(wish)) as screen:
            try:
                self._program = Program(command, remote_exec, screen, self._launch_timeout_s)
            except ProgramCrashed as exc:
                if fault := self._end_now():  # the desktop ended, and the program with it
                    raise DesktopError(fault) from exc
                raise

    def program_hangs(self) -> bool:
        """Return False, because a hanging program cannot be recognised from here."""
        return False

    def program_fault(self) -> str:
        """Return how the program under test ended and its last output; "" while it runs, or if none was launched."""
        fault = self._program.fault if self._program else ""
        return "" if fault and self.fault() else fault

    def fault(self) -> str:
        """Return "", because the end of such a desktop cannot be recognised from here."""
        return ""

    def _end_now(self) -> str:
        """Return how the desktop ended; "" while it is there. It may take as long as a connection."""
        return self.fault()

    def logs(self) -> Mapping[str, str]:
        """Return the output of the program under test, as `program`."""
        return {"program": self._program.output} if self._program else {}

    def _screen(self, wish: str) -> Controller:
        if self._connect is None:
            raise DesktopError(
                f"cannot {wish}: this desktop has no VNC connection to look at its screen; give `connect`"
            )
        return self._connect(self.server, self.password)

    def _end_program(self) -> None:
        if self._program:
            self._program.stop()
