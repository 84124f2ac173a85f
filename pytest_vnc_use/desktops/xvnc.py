"""A desktop for one test: TigerVNC's X server, a window manager if one is installed,
then the program.
"""

from __future__ import annotations

import os
import secrets
import select
import shlex
import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_vnc_use.backends.security import mirrored_des
from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.desktops.started import (
    StartedDesktop,
    check_linux,
    check_size,
    greets_at,
    shows_window,
)
from pytest_vnc_use.desktops.supervised_session import Process
from pytest_vnc_use.errors import DesktopError, DesktopRefused

SERVERS = ("Xtigervnc", "Xvnc")
WINDOW_MANAGER = ("openbox", "--sm-disable")
_SETTINGS_VARIABLES = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
"""Variables for the directories of a window manager's settings.

They lead to the private directory, so that every desktop starts alike.
"""
_MAX_SOCKET_PATH = 107  # unix(7): 108 bytes with the zero at the end
_NO_LOCKOUT = "-BlacklistThreshold=1000000000"
"""All clients of a unix socket count as one host: some wrong passwords would lock out
the right one.
"""
_NOTICE_S = 0.05
"""The delay before the end of a process is noticed, during another wait."""
_ANY_DISPLAY = 0xFFFF  # FamilyWild of X11/Xauth.h
_PASSWORD_FILE_KEY = bytes((23, 82, 107, 6, 35, 78, 88, 7))
"""The key with which VNC servers hide the password file."""


class XvncDesktop(StartedDesktop):
    """A desktop of TigerVNC's X server, of openbox if that is installed, and of the
    program `command`, if there is one. The constructor returns when all are ready.

    The VNC server is ready when it sends its greeting, the window manager when it
    reports that it runs, and the program when it has changed the screen. `size` is in
    pixels. `environment` is added to that of the program, which inherits `variables`.
    With `pinned=False` programs draw as the user of this machine has configured it. The
    programs' home is a copy of the directory `home`, or empty.

    The VNC server listens only on a unix socket in a private directory. So no other
    program can take its port first, and no other machine or user can reach it. It still
    asks for a random `password`. The X server chooses a free display, and accepts
    clients that know its cookie. Everything ends with `stop()`, and with this process,
    however it dies. Linux only.

    Raises:
        SettingsError: the size is invalid, or the fonts are not installed.
        DesktopError: the X server is not installed; it, the window manager or the
            program ended before it was ready, the program without a failure.
        ProgramMissing: the program cannot be run.
        ProgramCrashed: the program failed before it was ready.
        DesktopRefused: not all are ready within `start_timeout_s`.
    """

    def __init__(
        self,
        command: Sequence[str] = (),
        *,
        size: tuple[int, int] = (1440, 900),
        environment: Mapping[str, str] | None = None,
        start_timeout_s: float = 20.0,
        pinned: bool = True,
        name: str = "",
        home: Path | None = None,
        variables: Mapping[str, str] = os.environ,
    ) -> None:
        check_linux("xvnc", "because TigerVNC's X server is made for it")
        check_size(size)
        if not (server := next(filter(shutil.which, SERVERS), None)):
            raise DesktopError(
                "TigerVNC's X server is not installed (neither 'Xtigervnc' nor 'Xvnc'"
                " is on PATH): apt-get install tigervnc-standalone-server"
            )
        super().__init__(
            environment or {}, pinned=pinned, name=name, home=home, variables=variables
        )
        self._timeout_s = start_timeout_s
        self._screen: VNCController | None = None
        # 8 characters: VNC's password check uses no more
        self._password = secrets.token_urlsafe(6)
        try:
            self._start(server, size)
            if command:
                self.launch(command)
        except BaseException:
            # on any error, and on Ctrl-C: nothing that was started stays behind
            self.stop()
            raise

    @property
    def server(self) -> str:
        """Return the path of the unix socket on which the VNC server listens."""
        return str(self._session.directory / "vnc")

    @property
    def password(self) -> str:
        """The random password of this desktop."""
        return self._password

    @property
    def display(self) -> str:
        """The X display, such as `:1`; `run` and the program under test have it in
        their environment.
        """
        return self._session.environment["DISPLAY"]

    @contextmanager
    def launching(self, command: Sequence[str]) -> Iterator[None]:
        """Start the program instead of the one before. At the end of the block, wait
        until it shows a window. Raises as the class does.

        The connection over which the window is seen stays open until `stop()`. If it
        were closed, the next client could get a screenshot in which TigerVNC has drawn
        the pointer over an older state of the screen (1.12, with LibreOffice).
        """
        self._check_not_stopped(f"launch {shlex.join(command)!r}")
        # before the screenshot, from which its window disappears
        self._session.end_program()
        screen = self.connect()
        before = screen.raw_frame()
        program = self._start_program(command)
        yield
        deadline = Deadline(self._timeout_s)
        shows = False
        # the connection was lost: the end of the server is the reason
        with suppress(DesktopError):
            shows = shows_window(program, screen, before, deadline)
            screen.rest()
        if shows:
            return
        if program.end:
            raise self._ended_early(program, "had not shown a window")
        if reason := self.exit_reason():
            raise DesktopError(reason)
        raise self._late(program, "had not shown a window")

    def connect(self) -> VNCController:
        """Return the connection over which windows are seen, with the screen as it is
        now. Raises DesktopError if the server does not answer.
        """
        if self._screen:
            self._screen.refresh()
            return self._screen
        screen = connect(
            self.server, self._password, timeout_s=self._timeout_s, encoding="raw"
        )
        self._screen = screen
        # TigerVNC draws the pointer for a client that has not put it where it is, and
        # counts (0, 0) as put. So no first screen has a pointer, whose theme and size
        # another machine may lack.
        screen.move(0, 0)
        return screen

    def _start(self, server: str, size: tuple[int, int]) -> None:
        deadline = Deadline(self._timeout_s)
        authority = self._session.directory / "authority"
        entry = struct.pack(">H", _ANY_DISPLAY)
        cookie = (b"", b"", b"MIT-MAGIC-COOKIE-1", secrets.token_bytes(16))
        for field in cookie:  # Xau(3)
            entry += struct.pack(">H", len(field)) + field
        _write_private(authority, entry)
        number = self._start_server(
            [server, *self._server_options(size, authority)], deadline
        )
        self._session.note_files(
            [Path(f"/tmp/.X11-unix/X{number}"), Path(f"/tmp/.X{number}-lock")]
        )
        self._session.environment |= {
            "DISPLAY": f":{number}",
            "XAUTHORITY": str(authority),
            "XDG_SESSION_TYPE": "x11",
        }
        manager_ready = self._start_window_manager()
        if not greets_at(self.server, deadline.remaining_s):
            raise DesktopRefused(
                self.exit_reason()
                or f"the VNC server of display :{number} sends no RFB greeting"
            )
        if manager_ready:
            self._await_manager(*manager_ready, deadline)

    def _server_options(self, size: tuple[int, int], authority: Path) -> list[str]:
        password_file = self._session.directory / "password"
        _write_private(
            password_file, mirrored_des(_PASSWORD_FILE_KEY, self._password.encode())
        )
        if len(os.fsencode(self.server)) > _MAX_SOCKET_PATH:
            problem = (
                f"a unix socket's path must have at most {_MAX_SOCKET_PATH} bytes, got"
                f" {self.server!r}"
            )
            raise DesktopError(f"{problem}. Set TMPDIR to a shorter path")
        screen = [
            "-geometry",
            f"{size[0]}x{size[1]}",
            "-depth",
            "24",
            "-AcceptSetDesktopSize=0",
        ]
        vnc = [
            "-rfbport",
            "-1",
            "-rfbunixpath",
            self.server,
            "-rfbunixmode",
            str(0o600),
        ]
        security = [
            "-SecurityTypes",
            "VncAuth",
            "-PasswordFile",
            str(password_file),
            _NO_LOCKOUT,
        ]
        x = [
            "-auth",
            str(authority),
            "-nolisten",
            "tcp",
            "-noreset",
            "-s",
            "0",
            "-displayfd",
            "3",
        ]
        return [*screen, *vnc, *security, *x]

    def _start_server(self, command: list[str], deadline: Deadline) -> int:
        """Start the server, and return the number of its display. The server writes it
        once it takes connections.
        """
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb", buffering=0):
            try:
                server = self._session.start(
                    "VNC server", command, descriptors=[writer]
                )
            finally:
                os.close(writer)
            line = b""
            while not line.endswith(b"\n"):
                if not select.select([reader], [], [], deadline.remaining_s)[0]:
                    raise self._late(server, "had not taken connections")
                if not (chunk := os.read(reader, 16)):
                    server.wait(deadline.remaining_s)
                    raise DesktopError(
                        server.message(f"{server.end} and had not taken connections")
                    )
                line += chunk
        return int(line)

    def stop(self) -> None:
        """End everything that was started and remove the working directory; a second
        call does nothing.
        """
        screen = self._screen
        self._screen = None
        try:
            if screen:
                screen.close()
        finally:
            super().stop()

    def _start_window_manager(self) -> tuple[Process, Path] | None:
        """Start the window manager, and return it with the pipe that it writes to once
        it is ready for windows.

        A program that shows its window before that may wait for five seconds (openbox
        3.6.1 and xterm, measured). Return None if none is installed.
        """
        if not shutil.which(WINDOW_MANAGER[0]):
            return None
        ready = self._session.directory / "window-manager-is-ready"
        os.mkfifo(ready, 0o600)
        private = dict.fromkeys(_SETTINGS_VARIABLES, str(self._session.directory))
        startup = shlex.join(["sh", "-c", f"echo >{shlex.quote(str(ready))}"])
        argv = [*WINDOW_MANAGER, "--startup", startup]
        return self._session.start("window manager", argv, private), ready

    def _await_manager(self, manager: Process, ready: Path, deadline: Deadline) -> None:
        reader = os.open(ready, os.O_RDONLY | os.O_NONBLOCK)
        try:
            while True:
                wait_s = min(_NOTICE_S, deadline.remaining_s)
                if select.select([reader], [], [], wait_s)[0]:
                    return
                if manager.end:
                    raise self._ended_early(manager, "had not come up")
                if not deadline.remaining_s:
                    raise self._late(manager, "had not come up")
        finally:
            os.close(reader)

    def _late(self, process: Process, undone: str) -> DesktopRefused:
        return DesktopRefused(process.message(f"{undone} within {self._timeout_s:g} s"))


def _write_private(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
