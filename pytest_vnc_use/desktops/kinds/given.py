"""A desktop that somebody else started, known by its address, and perhaps by a command that runs others there."""

from __future__ import annotations

from contextlib import closing
from functools import partial

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.desktops.processes.remote_exec import RemoteExec
from pytest_vnc_use.desktops.processes.remote_program import Program, RemoteDesktop
from pytest_vnc_use.desktops.processes.screen_wait import await_screen
from pytest_vnc_use.errors import AuthenticationFailed, DesktopError
from pytest_vnc_use.same_screen import same_screen
from pytest_vnc_use.types.actions import Move
from pytest_vnc_use.types.protocols import Connect

_RESET_S = 5.0
_POINTER_HOME = Move(0, 0)
"""The pointer's place in both pictures: it is not visible there, and hovers over the same thing."""


class AddressDesktop(RemoteDesktop):
    """The desktop whose VNC server listens at `server`; it is never stopped.

    Files and programs need a `remote_exec`. With `remote_exec` and `connect`, `reset` restores the screen as it is now;
    raises DesktopError if the desktop does not answer. The working folder, which may be somebody's home, is never
    emptied.
    """

    outlives_program = True
    """The server is not the program: if the connection is lost and the program ends, the desktop is at fault."""

    def __init__(self, server: str, remote_exec: RemoteExec | None = None, connect: Connect | None = None) -> None:
        super().__init__(connect)
        self._server = server
        self._remote = remote_exec
        self._was_used = False
        self._last_end: tuple[Program | None, str] = None, ""
        self._start = self._look() if remote_exec and connect else b""

    @property
    def server(self) -> str:
        """The address as it was given."""
        return self._server

    @property
    def password(self) -> None:
        """None, because only the user knows it."""
        return None

    def fault(self) -> str:
        """Return why the server could not be reached when the program ended; "" while the program runs."""
        program = self._program
        if program and program.fault and self._last_end[0] is not program:
            self._last_end = program, self._end_now()
        return self._last_end[1] if self._last_end[0] is program else ""

    def reset(self) -> None:
        """End everything that was launched and run, and prove that the screen is as it was. Raises DesktopError."""
        remote_exec = self._remote_exec("reset the desktop")
        self._end_program()
        self._program = None
        remote_exec.end()
        with closing(self._screen("prove that the desktop is as it was")) as screen:
            screen.perform(_POINTER_HOME)
            if not await_screen(screen, partial(same_screen, self._start), Deadline(_RESET_S)):
                problem = f"the screen of {self._server!r} is not as it was when it was leased"
                raise DesktopError(
                    f"{problem}, although all programs of the test ended {_RESET_S:g} s ago. Reset the desktop by hand"
                )

    def stop(self) -> None:
        """End everything that was launched and run; the desktop stays, because this test did not start it."""
        self._end_program()
        if self._remote and self._was_used:
            self._was_used = False
            self._remote.end()

    def _end_program(self) -> None:
        self.fault()  # later the desktop may be another test's
        super()._end_program()

    def _end_now(self) -> str:
        if self._connect is None:
            return ""
        try:
            self._connect(self._server, None).close()
        except AuthenticationFailed:
            return ""  # the server answers
        except DesktopError as exc:
            return f"the server at {self._server!r} cannot be reached, and the program ended: {exc}"
        return ""

    def _look(self) -> bytes:
        with closing(self._screen("look at the desktop")) as screen:
            screen.perform(_POINTER_HOME)
            screen.settle()
            return screen.frame().png

    def _remote_exec(self, wish: str) -> RemoteExec:
        if self._remote is None:
            raise DesktopError(
                f"cannot {wish}: only VNC reaches the desktop at {self._server!r}. Say how a command runs there "
                "(--vnc-exec='docker exec -i NAME' or 'ssh HOST'), or let the test start a desktop "
                "(--vnc-server=xvnc, qt or container:IMAGE)"
            )
        self._was_used = True
        return self._remote
