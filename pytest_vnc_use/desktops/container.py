"""A desktop in a container, run by Docker or Podman through python-on-whales.

No other module uses that library. It drives the engine's command found on PATH, which
the library never downloads.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.desktops.remote import RemoteDesktop, RemoteExec
from pytest_vnc_use.desktops.started import (
    check_linux,
    check_size,
    greets_at,
    shows_anything,
)
from pytest_vnc_use.desktops.supervised_session import SupervisedSession
from pytest_vnc_use.errors import (
    DesktopError,
    DesktopRefused,
    SettingsError,
    install_hint,
)
from pytest_vnc_use.types.protocols import Connect

if TYPE_CHECKING:
    from python_on_whales import Container

Result = TypeVar("Result")

ENGINES = ("docker", "podman")
_ANSWER_S = 30.0
_PULL_S = 900.0
_LOG_CHARACTERS = 1_000_000
_POLL_S = 0.05
_GREETING_TIMEOUT_S = 1.0
_LAST_LINES = 20
_TO_PORT = (
    'exec 3<>"/dev/tcp/127.0.0.1/$0" && { cat <&3 & cat <&0 >&3 & wait -n; kill 0; }'
)
"""The relay by bash in a container without a network: its input to the port in $0, and
the port's output.
"""


class ContainerDesktop(RemoteDesktop):
    """A desktop in a container of `image`. Once it is ready, `command` is launched, if
    there is one.

    It is ready when the VNC server at `port` in the container sends its greeting, and
    the screen has more than one colour. The container gets the variables `VNC_GEOMETRY`,
    such as 1440x900, and `VNC_PASSWORD`, which is random by default. Its VNC server
    should have that size and require that password, as examples/desktop does.
    `environment` holds NAME=VALUE, or NAME for its local value; `volumes` holds
    HOST:CONTAINER or HOST:CONTAINER:ro. The port is published on loopback only. With
    `network` "none" the container has no network: its port is reached at a unix socket,
    through its bash.

    Files and commands are those of the image's user, in its working directory. A
    missing image is pulled. Everything ends with `stop()`, and with this process,
    however it dies. Linux only.

    Raises SettingsError for invalid arguments. Raises DesktopError if no engine
    (`docker`, `podman`) answers, the image cannot be pulled, or its container ends
    first. Raises DesktopRefused if it is not ready within `start_timeout_s`.
    """

    _session: SupervisedSession

    def __init__(
        self,
        image: str,
        command: Sequence[str] = (),
        *,
        size: tuple[int, int] = (1440, 900),
        environment: Sequence[str] = (),
        volumes: Sequence[str] = (),
        port: int = 5901,
        network: str = "",
        engine: str = "",
        password: str | None = None,
        start_timeout_s: float = 60.0,
        connect: Connect,
    ) -> None:
        check_linux("container", "because /proc there lists the processes of a desktop")
        check_size(size)
        if not image or image.startswith("-") or image != "".join(image.split()):
            raise SettingsError(
                f"an image must have a name, such as 'desktop:latest', got {image!r}"
            )
        if network not in ("", "none"):
            raise SettingsError(
                "a container's network must be none, or empty for the engine's"
                f" default, got {network!r}"
            )
        self._image = image
        self._start_timeout_s = start_timeout_s
        mounts = [_volume(text) for text in volumes]
        # VNC's password check uses no more
        self._password = password or secrets.token_urlsafe(6)
        built_in = {
            "VNC_GEOMETRY": f"{size[0]}x{size[1]}",
            "VNC_PASSWORD": self._password,
        }
        variables = {**dict(map(_variable, environment)), **built_in}
        self._listener: socket.socket | None = None
        self._engine = find_engine(engine)
        client = self._engine.client
        self._client = client
        if not self._engine.ask(
            f"look for the image {image!r}", lambda: client.image.exists(image)
        ):
            request = f"pull the image {image!r}, which is not on this machine"
            advice = "build it first, or correct its name"
            self._engine.ask(
                request,
                lambda: client.image.pull(image, quiet=True),
                advice=advice,
                limit_s=_PULL_S,
            )
        super().__init__(connect, start_timeout_s, SupervisedSession(as_tester=True))
        self._remote = RemoteExec([self._engine.path, "exec", "-i", self.container])
        try:
            # `rm --force` alone lets Podman wait 10 s
            for removal in ("kill",), ("rm", "--force", "--volumes"):
                self._session.note_command(
                    [self._engine.path, *removal, self.container]
                )
            # every user of this machine could read a command line
            file = self._session.directory / "environment"
            file.touch(mode=0o600)
            file.write_text(
                "".join(f"{name}={value}\n" for name, value in variables.items()),
                encoding="utf-8",
            )
            options: dict[str, Any] = {
                "env_files": [file],
                "volumes": mounts,
                "pull": "never",
            }
            if network:
                self._server = str(self._session.directory / "vnc")
                in_container = [self._engine.path, "exec", "-i", self.container]
                self._listen([*in_container, "bash", "-c", _TO_PORT, str(port)])
                options["networks"] = [network]
            else:
                options["publish"] = [(f"127.0.0.1::{port}",)]
            self._engine.ask(
                f"run the image {image!r}",
                lambda: client.container.run(
                    image, detach=True, name=self.container, **options
                ),
            )
            if not network:
                inspected = self._engine.ask("find the container's port", self._inspect)
                ports = inspected.network_settings.ports or {}
                if not (published := ports.get(f"{port}/tcp")):
                    raise DesktopError(
                        f"{self._engine.name} did not publish port {port!r} of"
                        f" {self.container!r}"
                    )
                self._server = f"127.0.0.1::{published[0]['HostPort']}"
            self._await_ready(port, Deadline(start_timeout_s))
            if command:
                self.launch(command)
        except BaseException:
            # on any error, and on Ctrl-C: nothing that was started stays behind
            self.stop()
            raise

    @property
    def server(self) -> str:
        """Return the address that leads to its VNC server: `host::port` on loopback, or
        the path of a unix socket.
        """
        return self._server

    @property
    def password(self) -> str:
        """The password of this desktop."""
        return self._password

    @property
    def container(self) -> str:
        """The container's name, for `docker exec`."""
        return self._session.directory.name

    def _failure_now(self) -> str:
        """Return how the container ended, and the last lines of its output; "" while it
        runs.
        """
        try:
            end = self._end()
        except DesktopError as exc:  # it was removed, or the engine ended
            return str(exc)
        return self._message(end) if end else ""

    def _inspect(self) -> Container:
        return self._client.container.inspect(self.container)

    def _end(self) -> str:
        """Return how the container ended, such as `exited with 3`; empty while it
        runs.
        """
        state = self._engine.ask(
            "read the container's state", lambda: self._inspect().state
        )
        return "" if state.running else f"exited with {state.exit_code}"

    def _logs_now(self) -> Mapping[str, str]:
        return {"container": self._output(), **super()._logs_now()}

    def stop(self) -> None:
        """End and remove the container; a second call does nothing."""
        if self._last_answers is None:
            failure = self.exit_reason() if self._program and self._program.end else ""
            self._keep_answers(failure)
            self._end_program()
            if self._listener:
                # accept() returns, which close() alone would not do
                self._listener.shutdown(socket.SHUT_RDWR)
            self._session.stop()

    def _listen(self, argv: Sequence[str]) -> None:
        """Run `argv` for each connection to the unix socket, with the connection as its
        input and output.
        """
        listener = socket.socket(socket.AF_UNIX)
        self._listener = listener
        listener.bind(self._server)  # in a directory that only this user may enter
        listener.listen()

        def accept() -> None:
            running: list[subprocess.Popen[bytes]] = []
            with suppress(OSError), listener:
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        to = connection.fileno()
                        tunnel = subprocess.Popen(
                            argv,
                            stdin=to,
                            stdout=to,
                            stderr=subprocess.DEVNULL,
                            start_new_session=True,
                        )
                    running = [process for process in running if process.poll() is None]
                    running.append(tunnel)
            for process in running:
                process.kill()
                process.wait()

        threading.Thread(target=accept, name="container's VNC", daemon=True).start()

    def _await_ready(self, port: int, deadline: Deadline) -> None:
        while not greets_at(self.server, _GREETING_TIMEOUT_S):
            self._check_running()
            if not deadline.remaining_s:
                problem = f"its VNC server sends no RFB greeting at port {port}"
                if self._listener:
                    problem += (
                        ". Without a network it is reached through bash, which the"
                        " image must have"
                    )
                raise self._late(problem)
            time.sleep(_POLL_S)
        try:
            with closing(
                self._open_screen("see whether the desktop is ready")
            ) as screen:
                shows = shows_anything(screen, deadline)
        except DesktopError:
            self._check_running()
            raise
        if not shows:
            raise self._late("its screen still has only one colour")

    def _check_running(self) -> None:
        if end := self._end():
            raise DesktopError(self._message(f"{end} and had not shown a desktop"))

    def _late(self, problem: str) -> DesktopRefused:
        return DesktopRefused(
            self._message(f"is not ready after {self._start_timeout_s:g} s: {problem}")
        )

    def _message(self, text: str) -> str:
        last = "\n".join(self._output().splitlines()[-_LAST_LINES:])
        return (
            f"the container of the image {self._image!r}"
            f" {text}\n{last or '(it printed nothing)'}"
        )

    def _output(self) -> str:
        """Return the end of the container's output, a million characters at most.

        The engine is asked for all output, because Podman 4.3 reverses partial lines if
        asked for the last ones only.
        """
        try:
            output = self._engine.ask(
                "read what the container printed",
                lambda: self._client.container.logs(self.container),
            )
        except DesktopError as exc:
            # it was removed, or the engine ended: other failures explain more
            return str(exc)
        return str(output)[-_LOG_CHARACTERS:]

    def _reach(self, request: str) -> RemoteExec:
        self._check_not_stopped(request)
        return self._remote


class Engine:
    """A container engine: the name and path of its command, and the library's client."""

    def __init__(self, name: str, path: str) -> None:
        try:
            from python_on_whales import DockerClient
        except ImportError as exc:
            raise SettingsError(
                "containers need the library 'python-on-whales', which is not"
                f" installed. {install_hint('container')}"
            ) from exc
        self.name = name
        self.path = path
        self.client = DockerClient(client_call=[path])

    def ask(
        self,
        request: str,
        work: Callable[[], Result],
        *,
        advice: str = "",
        limit_s: float = _ANSWER_S,
    ) -> Result:
        """Return the result of `work`, a call of the client.

        Raises DesktopError if the call fails, DesktopRefused if it takes longer than
        `limit_s`. In the message, `request` says what was asked for.
        """
        # an extra, which need not be installed
        from python_on_whales.exceptions import DockerException

        try:
            return Deadline(limit_s).call(work)
        except DockerException as exc:
            # The engine's last line is its reason; Docker's hint at its help is left
            # out.
            reason = f"exit code {exc.return_code}"
            for line in (exc.stderr or "").splitlines():
                if line.strip() and not line.startswith("See "):
                    reason = line
            reason = reason.removeprefix("Error: ").removeprefix("docker: ")
            problem = f"{self.name} cannot {request}: {reason}"
            raise DesktopError(f"{problem}; {advice}" if advice else problem) from exc
        except DeadlineExceeded as exc:
            raise DesktopRefused(
                f"{self.name} cannot {request}: it did not answer within {limit_s:g} s"
            ) from exc


def find_engine(engine: str = "") -> Engine:
    """Return the engine of that name, or else the first that answers.

    Raises SettingsError for an unknown engine, DesktopError if none answers.
    """
    if engine and engine not in ENGINES:
        raise SettingsError(
            f"an engine must be one of {', '.join(ENGINES)}, got {engine!r}"
        )
    problems = []
    for name in [engine] if engine else ENGINES:
        if not (path := shutil.which(name)):
            problems.append(f"{name} is not on PATH")
            continue
        found = Engine(name, path)
        listed = partial(found.client.container.list, filters=[("name", "vnc-use-")])
        try:
            found.ask("list containers", listed)
        except DesktopError as exc:
            problems.append(str(exc))
        else:
            return found
    raise DesktopError(
        f"no container engine runs: {'; '.join(problems)}. Start one, or apt-get"
        " install podman"
    )


def _variable(entry: str) -> tuple[str, str]:
    name, equals, value = entry.partition("=")
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise SettingsError(
            "a container's variable must be NAME=VALUE, or NAME for this machine's"
            f" value, got {entry!r}"
        )
    if not equals and name not in os.environ:
        raise SettingsError(
            f"the variable {entry!r} is not set on this machine. Set it, or write"
            " NAME=VALUE"
        )
    value = value if equals else os.environ[name]
    if "\n" in value:
        raise SettingsError(f"the variable {name!r} must be one line, got several")
    return name, value


def _volume(text: str) -> tuple[str, str, str]:
    """Return (local path, path in the container, "ro" or "rw"), with `local`
    absolute.
    """
    match = re.fullmatch(r"([^:]+):(/[^:]*)(?::(ro|rw))?", text)
    if match is None:
        raise SettingsError(
            "a volume must be HOST:CONTAINER or HOST:CONTAINER:ro with an absolute"
            f" path in the container, got {text!r}"
        )
    local = Path(match[1]).expanduser().absolute()
    if not local.exists():
        raise SettingsError(
            f"a volume must be an existing directory or file, got {text!r}: there is no"
            f" {str(local)!r}"
        )
    return str(local), match[2], match[3] or "rw"
