"""A desktop in a container of its own, run by Docker or Podman."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.desktops.kinds.container_engine import Run, find_engine
from pytest_vnc_use.desktops.kinds.local import check_linux, check_size
from pytest_vnc_use.desktops.processes import cleanup
from pytest_vnc_use.desktops.processes.ports import greets_with_rfb
from pytest_vnc_use.desktops.processes.remote_exec import RemoteExec
from pytest_vnc_use.desktops.processes.remote_program import RemoteDesktop
from pytest_vnc_use.desktops.processes.screen_wait import await_screen, is_blank
from pytest_vnc_use.desktops.processes.session import Session
from pytest_vnc_use.desktops.x11.credentials import new_password
from pytest_vnc_use.errors import DesktopError, DesktopRefused, SettingsError
from pytest_vnc_use.types.protocols import Connect

_POLL_S = 0.05
_GREETING_TIMEOUT_S = 1.0
_SHOWN_LINES = 20


class ContainerDesktop(RemoteDesktop):
    """A desktop in a container of `image`; once it is ready, it launches `command`, if there is one.

    Ready means: the VNC server at `port` in the container greets, and its screen no longer has one single colour. The
    container gets the variables `VNC_GEOMETRY`, such as 1440x900, and `VNC_PASSWORD`, which is random by default. Its
    VNC server should have that size and want that password, as examples/desktop does. `environment` holds NAME=VALUE,
    or NAME for the value it has here; `volumes` holds HERE:THERE or HERE:THERE:ro. The port is published on loopback
    only. The local files of the desktop are in a private folder in `place`, the temporary folder by default.

    Files and commands are those of the image's own user, in its own working folder. A missing image is pulled.
    Everything ends with `stop()`, and with this process, however it dies. Linux only.

    Raises SettingsError for invalid arguments. Raises DesktopError if no engine (`docker`, `podman`) answers, the image
    cannot be pulled, or its container ends first. Raises DesktopRefused if it is not ready within `start_timeout_s`.
    """

    def __init__(
        self,
        image: str,
        command: Sequence[str] = (),
        *,
        size: tuple[int, int] = (1440, 900),
        environment: Sequence[str] = (),
        volumes: Sequence[str] = (),
        port: int = 5901,
        engine: str = "",
        password: str | None = None,
        start_timeout_s: float = 60.0,
        connect: Connect,
        place: Path | None = None,
    ) -> None:
        check_linux("container", "because /proc there lists the processes of a desktop")
        check_size(size)
        if not image or image.startswith("-") or image != "".join(image.split()):
            raise SettingsError(f"an image must have a name, such as 'desktop:latest', got {image!r}")
        super().__init__(connect, launch_timeout_s=start_timeout_s)
        self._image, self._port, self._start_timeout_s, self._place = image, port, start_timeout_s, place
        self._volumes = [_volume(each) for each in volumes]
        self._password = password or new_password()
        own = {"VNC_GEOMETRY": f"{size[0]}x{size[1]}", "VNC_PASSWORD": self._password}
        self._environment = {**_environment(environment), **own}
        self._kept_logs: Mapping[str, str] | None = None
        self._kept_fault: str | None = None
        self._engine = find_engine(engine)
        self._engine.pull_missing(image)
        self._begin()
        if command:
            self._launch_or_stop(command)

    @property
    def server(self) -> str:
        """Return the loopback address that leads to its VNC server, as `host::port`."""
        return f"127.0.0.1::{self._published_port}"

    @property
    def password(self) -> str:
        """The password of this desktop."""
        return self._password

    @property
    def alive(self) -> bool:
        """Return whether the container still runs. Raises DesktopError if the engine does not answer."""
        return self._kept_logs is None and not self._engine.end(self.container)

    @property
    def container(self) -> str:
        """The container's name, for `docker exec`."""
        return self._session.folder.name

    def fault(self) -> str:
        """Return how the container ended, and the last lines of its output; "" while it runs."""
        if self._kept_fault is not None:
            return self._kept_fault
        try:
            end = self._engine.end(self.container)
        except DesktopError as exc:  # somebody removed it, or the engine ended
            return str(exc)
        return self._message(end) if end else ""

    def logs(self) -> Mapping[str, str]:
        """Return the output of the container, as `container`, and of the program under test, as `program`."""
        return self._kept_logs if self._kept_logs is not None else {"container": self._printed(), **super().logs()}

    def reset(self) -> None:
        """Replace the container by a new one, and wait until that is ready.

        Raises DesktopError if that fails; then the desktop is stopped.
        """
        self._remote_exec("reset the desktop")
        self._end_program()
        self._session.stop()
        self._program = None
        self._begin()

    def stop(self) -> None:
        """End and remove the container; a second call does nothing."""
        if self._kept_logs is None:
            self._kept_fault = self.fault() if self._program and self._program.fault else ""
            self._kept_logs = self.logs()
            self._end_program()
            self._session.stop()

    def _begin(self) -> None:
        self._session = Session({}, self._place)
        self._remote = RemoteExec([self._engine.path, "exec", "-i", self.container])
        try:
            self._run()
            self._published_port = self._engine.published_port(self.container, self._port)
            self._await_ready(Deadline(self._start_timeout_s))
        except BaseException:  # on any error, and on Ctrl-C: nothing that was started stays behind
            self.stop()
            raise

    def _launch_or_stop(self, command: Sequence[str]) -> None:
        try:
            self.launch(command)
        except BaseException:  # on any error, and on Ctrl-C: nothing that was started stays behind
            self.stop()
            raise

    def _run(self) -> None:
        folder = self._session.folder
        for command in self._engine.removal(self.container):
            cleanup.note_command(folder, command)
        file = folder / "environment"  # every user of this machine could read a command line
        file.touch(mode=0o600)
        file.write_text("".join(f"{name}={value}\n" for name, value in self._environment.items()), encoding="utf-8")
        self._engine.run(Run(self._image, self._port, self._volumes, file, folder))

    def _await_ready(self, deadline: Deadline) -> None:
        while not greets_with_rfb(self._published_port, _GREETING_TIMEOUT_S):
            self._check_running()
            if not deadline.remaining_s:
                raise self._late(f"its VNC server does not greet at port {self._port}")
            time.sleep(_POLL_S)
        try:
            with closing(self._screen("see whether the desktop is ready")) as screen:
                shows = await_screen(screen, lambda png: not is_blank(png), deadline)
        except DesktopError:
            self._check_running()
            raise
        if not shows:
            raise self._late("its screen is of one single colour")

    def _check_running(self) -> None:
        if end := self._engine.end(self.container):
            raise DesktopError(self._message(f"{end} and had not shown a desktop"))

    def _late(self, what: str) -> DesktopRefused:
        return DesktopRefused(self._message(f"is not ready after {self._start_timeout_s:g} s: {what}"))

    def _message(self, what: str) -> str:
        last = "\n".join(self._printed().splitlines()[-_SHOWN_LINES:])
        return f"the container of the image {self._image!r} {what}\n{last or '(it printed nothing)'}"

    def _printed(self) -> str:
        try:
            return self._engine.logs(self.container)
        except DesktopError as exc:  # it was removed, or the engine ended: other faults say more
            return str(exc)

    def _remote_exec(self, wish: str) -> RemoteExec:
        if self._kept_logs is not None:
            raise DesktopError(
                f"cannot {wish}: the desktop is stopped, and its container is removed; do it before stop()"
            )
        return self._remote


def _environment(entries: Sequence[str]) -> dict[str, str]:
    """Return the value of each variable by its name."""
    return dict(_variable(entry) for entry in entries)


def _variable(entry: str) -> tuple[str, str]:
    name, equals, value = entry.partition("=")
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise SettingsError(
            f"a container's variable must be NAME=VALUE, or NAME for the value it has here, got {entry!r}"
        )
    if not equals and name not in os.environ:
        raise SettingsError(f"the variable {entry!r} is not set on this machine: set it, or write NAME=VALUE")
    value = value if equals else os.environ[name]
    if "\n" in value:
        raise SettingsError(f"the variable {name!r} must be one line, got several")
    return name, value


def _volume(text: str) -> tuple[str, str, str]:
    """Return (here, there, "ro" or "rw"), with `here` absolute."""
    parts = re.fullmatch(r"([^:]+):(/[^:]*)(?::(ro|rw))?", text)
    if parts is None:
        raise SettingsError(
            f"a volume must be HERE:THERE or HERE:THERE:ro with an absolute path in the container, got {text!r}"
        )
    here = Path(parts[1]).expanduser().absolute()
    if not here.exists():
        raise SettingsError(f"a volume must be an existing folder or file, got {text!r}: there is no {str(here)!r}")
    return str(here), parts[2], parts[3] or "rw"
