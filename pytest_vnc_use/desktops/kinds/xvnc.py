"""A desktop for one test: TigerVNC's X server, a window manager if one is installed, then the program."""

from __future__ import annotations

import os
import select
import shlex
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.desktops.kinds.local import ANSWERS_WITHIN_S, StartedDesktop, check_linux, check_size
from pytest_vnc_use.desktops.processes import cleanup
from pytest_vnc_use.desktops.processes.process import Process
from pytest_vnc_use.desktops.x11 import ping
from pytest_vnc_use.desktops.x11.credentials import new_password, write_authority_file, write_password_file
from pytest_vnc_use.desktops.x11.display import XDisplay, socket_path
from pytest_vnc_use.desktops.x11.state import StartState
from pytest_vnc_use.errors import ConnectionLost, DesktopError, DesktopRefused, SettingsError

SERVERS = ("Xtigervnc", "Xvnc")
WINDOW_MANAGER = ("openbox", "--sm-disable")
_HOMES_OF_SETTINGS = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
"""Variables for the folders in which a window manager finds the user's settings and keeps its own.

They lead to the private folder, so that every desktop begins alike.
"""
DEPTHS = (16, 24)
_LONGEST_SOCKET_PATH = 107  # unix(7): 108 bytes with the zero at the end
_NO_LOCKOUT = "-BlacklistThreshold=1000000000"
"""All clients of a unix socket count as one host: some wrong passwords would lock out the right one."""
_NOTICE_S = 0.05
"""The delay before the end of a process is noticed, during another wait."""
_RESTORE_S = 2.0
"""The time for the window manager to tidy up once the programs have ended; its longest popup stays for 0.9 s."""


class XvncDesktop(StartedDesktop):
    """A desktop of TigerVNC, openbox if it is installed, and `command`, if there is one; it is made when all are ready.

    Ready means: the VNC server greets, the window manager says that it runs, and a window of the program shows. `size`
    is in pixels, `depth` is 16 or 24 bits a pixel. `environment` is added to `inherited`, this process's own by
    default. The desktop's private folder is made in `place`, the temporary folder by default. With
    `window_manager=False` none is started.

    The VNC server listens only on a unix socket in a private folder. So no other program can take its port first, and
    no other machine or user can reach it. It still asks for a random `password`. The X server chooses a free display
    itself, and accepts clients that know its cookie. Everything ends with `stop()`, and with this process, however it
    dies. The output of each process is in the working folder, under `logs`. Linux only.

    Raises SettingsError for an invalid size or depth. Raises DesktopError if the X server is not installed, or if it or
    the window manager ends first. Raises ProgramMissing if the program cannot be run, ProgramCrashed if it fails first,
    DesktopError if it ends first without a fault. Raises DesktopRefused if not all are ready within `start_timeout_s`.
    """

    def __init__(
        self,
        command: Sequence[str] = (),
        *,
        size: tuple[int, int] = (1440, 900),
        depth: int = 24,
        environment: Mapping[str, str] | None = None,
        start_timeout_s: float = 20.0,
        place: Path | None = None,
        window_manager: bool = True,
        inherited: Mapping[str, str] | None = None,
        new_user: bool = True,
    ) -> None:
        check_linux("xvnc", "because TigerVNC's X server is made for it")
        check_size(size)
        if depth not in DEPTHS:
            raise SettingsError(f"a screen's depth must be one of {DEPTHS} bits a pixel, got {depth!r}")
        server = _installed_server()
        super().__init__(environment or {}, place, inherited, new_user=new_user)
        self._wants_manager = window_manager
        self._deadline, self._timeout_s = Deadline(start_timeout_s), start_timeout_s
        self._password = new_password()
        try:
            self._start(server, command, size, depth)
        except BaseException:  # on any error, and on Ctrl-C: nothing that was started stays behind
            self.stop()
            raise

    @property
    def server(self) -> str:
        """Return the path of the unix socket on which the VNC server listens."""
        return str(self._session.folder / "vnc")

    @property
    def password(self) -> str:
        """The random password of this desktop."""
        return self._password

    @property
    def display(self) -> str:
        """The X display, such as `:1`; `run` and the program under test have it in their environment."""
        return f":{self._number}"

    def launch(self, command: Sequence[str]) -> None:
        """Start the program in place of the one before, and wait until its window shows. Raises as the class does."""
        self._check_not_stopped(f"launch {shlex.join(command)!r}")
        self._deadline = Deadline(self._timeout_s)
        with self._open_display() as display:
            self._show(command, display)

    def program_hangs(self) -> bool:
        """Return whether a window of a program leaves pings unanswered.

        Return False if no window takes pings, or X does not answer.
        """
        if not self.alive or self.program_fault():
            return False
        try:
            with self._open_display() as display:
                return ping.hangs(display, ANSWERS_WITHIN_S)
        except ConnectionLost:
            return False

    def reset(self) -> None:
        """End everything that was launched and run, empty the working folder, and undo a test's changes to the screen.

        It proves that: the framebuffer, to the last pixel, and all settings that the X server reports are as they were
        before the first program. Raises DesktopError if they are not, or if the X server or the window manager has
        ended. Files that programs wrote elsewhere, such as in the home folder, stay.
        """
        super().reset()
        with self._open_display() as display:
            self._bare.restore(display, Deadline(_RESTORE_S))

    def _start(self, server: str, command: Sequence[str], size: tuple[int, int], depth: int) -> None:
        authority = self._session.folder / "authority"
        self._cookie = write_authority_file(authority)
        x_server = self._start_server([server, *self._server_options(size, depth, authority)])
        self._session.environment |= {"DISPLAY": self.display, "XAUTHORITY": str(authority), "XDG_SESSION_TYPE": "x11"}
        with self._open_display() as display:
            manager = self._start_window_manager()
            self._await_greeting(x_server)
            if manager:
                self._await(manager, display.manager_came_up, "had not come up")
            self._bare = StartState(display)
            self._session.mark_start()
            if command:
                self._show(command, display)

    def _open_display(self) -> XDisplay:
        return XDisplay(self._number, self._cookie, self._timeout_s)

    def _server_options(self, size: tuple[int, int], depth: int, authority: Path) -> list[str]:
        password_file = self._session.folder / "password"
        write_password_file(password_file, self._password)
        _check_socket_path(self.server)
        screen = ["-geometry", f"{size[0]}x{size[1]}", "-depth", str(depth), "-AcceptSetDesktopSize=0"]
        vnc = ["-rfbport", "-1", "-rfbunixpath", self.server, "-rfbunixmode", str(0o600)]
        security = ["-SecurityTypes", "VncAuth", "-PasswordFile", str(password_file), _NO_LOCKOUT]
        x = ["-auth", str(authority), "-nolisten", "tcp", "-noreset", "-s", "0"]
        return [*screen, *vnc, *security, *x]

    def _start_server(self, command: list[str]) -> Process:
        """Start the server, and return once it has a display and takes connections."""
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb", buffering=0) as pipe:
            try:
                process = self._session.start("VNC server", [*command, "-displayfd", str(writer)], pass_fds=[writer])
            finally:
                os.close(writer)
            self._number = self._display_number(process, pipe.fileno())
        files = [socket_path(self._number), Path(f"/tmp/.X{self._number}-lock")]
        cleanup.note_files(self._session.folder, files)
        return process

    def _display_number(self, server: Process, descriptor: int) -> int:
        """Return the number that the server writes once it takes connections.

        The server writes nothing if it ends first.
        """
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([descriptor], [], [], self._deadline.remaining_s)[0]:
                raise self._late(server, "had not taken connections")
            if not (piece := os.read(descriptor, 16)):
                server.popen.wait()
                raise DesktopError(server.message(f"{server.end} and had not taken connections"))
            line += piece
        return int(line)

    def _await_greeting(self, server: Process) -> None:
        """Raise DesktopError if no greeting comes; the socket exists before the server writes its display's number."""
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(self._deadline.remaining_s)
                client.connect(self.server)
                greets = client.recv(4) == b"RFB "
        except OSError as exc:
            raise DesktopRefused(server.message(f"cannot be reached over VNC: {exc}")) from exc
        if not greets:
            raise DesktopRefused(server.message("does not greet over VNC"))

    def _start_window_manager(self) -> Process | None:
        """Start the window manager; return None if none is installed, or wanted."""
        if not (self._wants_manager and shutil.which(WINDOW_MANAGER[0])):
            return None
        private = dict.fromkeys(_HOMES_OF_SETTINGS, str(self._session.folder))
        return self._session.start("window manager", WINDOW_MANAGER, private)

    def _show(self, command: Sequence[str], display: XDisplay) -> None:
        self._await(self._start_program(command), display.window_showed, "had not shown a window")

    def _await(self, process: Process, happened: Callable[[float], bool], undone: str) -> None:
        while not happened(min(_NOTICE_S, self._deadline.remaining_s)):
            if process.end:
                raise self._ended_early(process, undone)
            if not self._deadline.remaining_s:
                raise self._late(process, undone)

    def _late(self, process: Process, undone: str) -> DesktopRefused:
        return DesktopRefused(process.message(f"{undone} within {self._timeout_s:g} s"))


def _installed_server() -> str:
    server = next(filter(shutil.which, SERVERS), None)
    if server is None:
        raise DesktopError(
            "TigerVNC's X server is not installed (neither 'Xtigervnc' nor 'Xvnc' is on PATH): "
            "apt-get install tigervnc-standalone-server"
        )
    return server


def _check_socket_path(path: str) -> None:
    if len(os.fsencode(path)) > _LONGEST_SOCKET_PATH:
        problem = f"a unix socket's path must have at most {_LONGEST_SOCKET_PATH} bytes, got {path!r}"
        raise DesktopError(f"{problem}; set TMPDIR to a shorter folder")
