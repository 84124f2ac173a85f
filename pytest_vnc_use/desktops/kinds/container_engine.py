"""The engines that run containers, Docker or Podman, through python-on-whales; no other module uses that library.

The library drives the engine's own command, which is always the one found on PATH: the library never downloads it.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import DesktopError, DesktopRefused, SettingsError

if TYPE_CHECKING:
    from python_on_whales import Container, DockerClient
    from python_on_whales.exceptions import DockerException

Result = TypeVar("Result")

ENGINES = ("docker", "podman")
_FOLDER, _MACHINE = "pytest-vnc-use.folder", "pytest-vnc-use.machine"
"""Labels of a container: the session's folder that it belongs to, and the machine that has that folder."""
_ANSWER_S = 30.0
_PULL_S = 900.0
_LOG_CHARACTERS = 1_000_000


@dataclass(frozen=True)
class Run:
    """A container to run: volumes are (here, there, "ro" or "rw"), `port` is the one in the container."""

    image: str
    port: int
    volumes: Sequence[tuple[str, str, str]]
    environment_file: Path
    folder: Path
    """The session's folder: its name is the container's, and while it exists the container has an owner."""


class Engine:
    """An engine, known by the name of its command. Every call has a time limit, and raises DesktopError."""

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.path = path
        self._client = _client(path)

    def pull_missing(self, image: str) -> None:
        """Pull the image if it is not here. Raises DesktopError if it cannot be fetched."""
        if not self._ask(f"look for the image {image!r}", lambda: self._client.image.exists(image)):
            wish, advice = f"pull the image {image!r}, which is not here", "build it first, or correct its name"
            self._ask(wish, lambda: self._client.image.pull(image, quiet=True), advice=advice, limit_s=_PULL_S)

    def run(self, run: Run) -> None:
        """Start a container named after the session's folder, its port published on a free one of 127.0.0.1."""

        def start() -> None:
            self._client.container.run(
                run.image,
                detach=True,
                name=run.folder.name,
                labels={_FOLDER: str(run.folder), _MACHINE: _machine()},
                env_files=[run.environment_file],
                volumes=run.volumes,
                publish=[(f"127.0.0.1::{run.port}",)],
                pull="never",
            )

        self._ask(f"run the image {run.image!r}", start)

    def published_port(self, name: str, port: int) -> int:
        """Return the port of 127.0.0.1 that leads to `port` of a running container."""
        ports = self._ask("find the container's port", lambda: self._inspect(name).network_settings.ports or {})
        published = ports.get(f"{port}/tcp")
        if not published:
            raise DesktopError(f"{self.name} did not publish port {port!r} of the container {name!r}")
        return int(published[0]["HostPort"])

    def end(self, name: str) -> str:
        """Return how a container ended, such as `exited with 3`; empty while it runs."""
        state = self._ask("read the container's state", lambda: self._inspect(name).state)
        return "" if state.running else f"exited with {state.exit_code}"

    def logs(self, name: str) -> str:
        """Return the end of a container's output, a million characters at most.

        The engine is asked for all output, because Podman 4.3 reverses partial lines if asked for the last ones only.
        """
        printed = self._ask("read what the container printed", lambda: self._client.container.logs(name))
        return str(printed)[-_LOG_CHARACTERS:]

    def removal(self, name: str) -> list[list[str]]:
        """Return the commands that end and remove a container at once, with its own volumes."""
        return [[self.path, "kill", name], [self.path, "rm", "--force", "--volumes", name]]

    def remove_leftovers(self) -> None:
        """Remove containers of this machine whose session's folder is gone.

        A session removes its folder after its container, or never.
        """
        client, machine = self._client, _machine()
        containers = self._ask(
            "list containers",
            lambda: client.container.list(all=True, filters=[("label", f"{_MACHINE}={machine}")]),
        )
        for container in containers:
            self._ask("remove containers of earlier sessions", partial(_remove_unless_owned, container))

    def _inspect(self, name: str) -> Container:
        return self._client.container.inspect(name)

    def _ask(self, wish: str, work: Callable[[], Result], *, advice: str = "", limit_s: float = _ANSWER_S) -> Result:
        from python_on_whales.exceptions import DockerException

        try:
            return Deadline(limit_s).call(work)
        except DockerException as exc:
            raise DesktopError("; ".join(filter(None, [f"{self.name} cannot {wish}: {_reason(exc)}", advice]))) from exc
        except DeadlineExceeded as exc:
            raise DesktopRefused(f"{self.name} cannot {wish}: it did not answer within {limit_s:g} s") from exc


def find_engine(engine: str = "") -> Engine:
    """Return the engine of that name, or else the first that answers; remove containers of earlier sessions there.

    Raises SettingsError for an unknown engine, DesktopError if none answers.
    """
    if engine and engine not in ENGINES:
        raise SettingsError(f"an engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    found = []
    for name in [engine] if engine else ENGINES:
        try:
            return _answering_engine(name)
        except DesktopError as exc:
            found.append(str(exc))
    raise DesktopError(f"nothing here runs containers: {'; '.join(found)}; start one, or apt-get install podman")


def _answering_engine(name: str) -> Engine:
    path = shutil.which(name)
    if path is None:
        raise DesktopError(f"{name} is not on PATH")
    engine = Engine(name, path)
    engine.remove_leftovers()
    return engine


def _client(path: str) -> DockerClient:
    try:
        from python_on_whales import DockerClient
    except ImportError as exc:
        raise SettingsError(
            "containers need the library 'python-on-whales', which is not installed: "
            "pip install 'pytest-vnc-use[container]'"
        ) from exc
    return DockerClient(client_call=[path])


def _remove_unless_owned(container: Container) -> None:
    from python_on_whales.exceptions import DockerException

    with suppress(DockerException):  # somebody else has removed it meanwhile
        if not Path((container.config.labels or {})[_FOLDER]).exists():
            if container.state.running:
                container.kill()  # `rm --force` alone lets Podman wait 10 s
            container.remove(force=True, volumes=True)


def _machine() -> str:
    """Return a name for this machine, because one engine may serve several.

    An engine may also serve containers that have folders of their own.
    """
    return f"{socket.gethostname()}:{Path('/proc/self/ns/mnt').stat().st_ino}"


def _reason(error: DockerException) -> str:
    """Return the engine's last line, which is its reason; Docker's hint at its own help is left out."""
    lines = [line for line in (error.stderr or "").splitlines() if line.strip() and not line.startswith("See ")]
    return (lines or [f"exit code {error.return_code}"])[-1].removeprefix("Error: ").removeprefix("docker: ")
