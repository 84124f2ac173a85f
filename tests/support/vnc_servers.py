"""Real VNC servers and programs for tests: started on free displays, reachable from
loopback only, stopped by pid.

Where a program is not installed, the test is skipped and names its package; in a CI
job it fails.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use.backends.security import mirrored_des
from pytest_vnc_use.interactive import is_ci

START_S = 20.0
_X11VNC = "-localhost -forever -shared -noipv6 -autoport 5950"
_PASSWORD_FILE_KEY = bytes([23, 82, 107, 6, 35, 78, 88, 7])
PACKAGES = {
    "Xtigervnc": "tigervnc-standalone-server",
    "Xtightvnc": "tightvncserver",
    "Xvfb": "xvfb",
    **dict.fromkeys(("xev", "xwininfo", "xprop", "xmessage"), "x11-utils"),
    **dict.fromkeys(("xrandr", "xsetroot"), "x11-xserver-utils"),
    "xwd": "x11-apps",
    "qemu-system-x86_64": "qemu-system-x86",
    "swaymsg": "sway",
    "dbus-run-session": "dbus-daemon",
    "mke2fs": "e2fsprogs",
    "ssh": "openssh-client",
    "sshd": "openssh-server",
    **dict.fromkeys(("ss", "ip"), "iproute2"),
    "unshare": "util-linux",
    "markdown_it": "markdown-it-py",
}
"""The Debian packages of programs that are not named as their package."""


@dataclass
class VncServer:
    """A running VNC server: its address, and the X display behind it (empty for a
    program that is its own server).
    """

    address: str
    process: subprocess.Popen[bytes]
    display: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(
        self, *command: str, **options: object
    ) -> AbstractContextManager[subprocess.Popen[bytes]]:
        return running(*command, environment=self.environment, **options)  # type: ignore[arg-type]

    def output_of(self, *command: str) -> bytes:
        require(command[0])
        environment = {**os.environ, **self.environment}
        return subprocess.run(
            command, env=environment, capture_output=True, check=True, timeout=120
        ).stdout

    def paint(self, columns: int) -> None:
        self.output_of("xsetroot", "-mod", str(columns), "16")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def require(program: str) -> None:
    """Skip where a program is missing, fail in CI."""
    if shutil.which(program) is None:
        missing(program, f"apt-get install {PACKAGES.get(program, program)}")


def missing(what: str, remedy: str) -> None:
    report = pytest.fail if is_ci() else pytest.skip
    report(f"{what} is not installed: {remedy}")


def require_package(module: str) -> Any:
    package = PACKAGES.get(module, module.partition(".")[0].replace("_", "-"))
    return pytest.importorskip(
        module, reason=f"{package} is not installed: pip install {package}"
    )


@contextmanager
def running(
    *command: str,
    environment: Mapping[str, str] | None = None,
    stdout: int | None = subprocess.DEVNULL,
    **options: object,
) -> Iterator[subprocess.Popen[bytes]]:
    require(command[0])
    process = subprocess.Popen(
        command,
        env={**os.environ, **(environment or {})},
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        **options,  # type: ignore[call-overload]
    )
    try:
        yield process
    finally:
        for ending in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, ending)
                process.wait(timeout=3)
        process.wait()
        for pipe in filter(None, (process.stdin, process.stdout)):
            pipe.close()


@contextmanager
def tigervnc(
    size: tuple[int, int] = (1024, 768),
    password_file: Path | None = None,
    options: Sequence[str] = (),
    interface: str = "127.0.0.1",
) -> Iterator[VncServer]:
    """Yield Xtigervnc, with the VNC port that belongs to its display."""
    security = ["-SecurityTypes", "None"]
    if password_file:
        security = ["-rfbauth", str(password_file)]
    screen = ["-geometry", f"{size[0]}x{size[1]}", "-interface", interface]
    command = ["Xtigervnc", *screen, *security, *options]
    with _x_server(*command) as (process, display):
        yield _x_vnc(process, display, 5900 + display, interface)


@contextmanager
def tightvnc(
    size: tuple[int, int] = (1024, 768), password_file: Path | None = None
) -> Iterator[VncServer]:
    """Yield Xtightvnc, which cannot choose a display on its own: the first of some that
    it gets.
    """
    options = f"-geometry {size[0]}x{size[1]} -depth 24 -localhost".split()
    if password_file:
        options += ["-rfbauth", str(password_file)]
    for display in filter(is_free, range(*own_displays())):
        with running("Xtightvnc", f":{display}", *options) as process:
            if _greets(5900 + display, process):
                yield _x_vnc(process, display, 5900 + display)
                return
    raise RuntimeError("Xtightvnc got no display")


def own_displays() -> tuple[int, int]:
    """Return the range of displays in which no other worker of pytest-xdist looks."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return 60 + 100 * worker, 160 + 100 * worker


def is_free(display: int) -> bool:
    lock = Path(f"/tmp/.X{display}-lock")
    return not (lock.exists() or Path(f"/tmp/.X11-unix/X{display}").exists())


@contextmanager
def x11vnc(
    size: tuple[int, int] = (1024, 768),
    password_file: Path | None = None,
    *,
    naps: bool = False,
    options: Sequence[str] = (),
) -> Iterator[VncServer]:
    """Yield x11vnc, showing an Xvfb. If it `naps`, it answers up to half a second late
    while nothing happens.
    """
    security = ["-rfbauth", str(password_file)] if password_file else ["-nopw"]
    napping = "-nap" if naps else "-nonap"
    screen = ("Xvfb", "-screen", "0", f"{size[0]}x{size[1]}x24")
    with ExitStack() as stack:
        _, display = stack.enter_context(_x_server(*screen))
        command = f"x11vnc -display :{display} {napping} {_X11VNC}".split()
        process = stack.enter_context(
            running(*command, *options, *security, stdout=subprocess.PIPE)
        )
        assert process.stdout is not None
        ports = (line[5:] for line in process.stdout if line.startswith(b"PORT="))
        yield _x_vnc(process, display, int(next(ports)))


@contextmanager
def on_free_port(
    start: Callable[[int], AbstractContextManager[subprocess.Popen[bytes]]],
) -> Iterator[VncServer]:
    """Yield a VNC server that `start` starts at a port of 127.0.0.1; at another one if
    that was taken meanwhile.
    """
    for _ in range(5):
        port = free_port()
        with start(port) as process:
            if _greets(port, process):
                yield VncServer(f"127.0.0.1::{port}", process)
                return
    raise RuntimeError("no VNC server came up")


@contextmanager
def websockify(target: str, *options: str) -> Iterator[int]:
    port = free_port()
    host, _, number = target.partition("::")
    command = ("websockify", *options, f"127.0.0.1:{port}", f"{host}:{number}")
    with running(*command) as process:

        def listens() -> bool:
            assert process.poll() is None, "websockify has ended"
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", port)) == 0

        wait_for(listens, "the start of websockify")
        yield port


def password_file(directory: Path, password: str) -> Path:
    """Return a file for `-rfbauth`: the first eight characters, under the key that all
    VNC servers share.
    """
    path = directory / "passwd"
    eight = password.encode()[:8].ljust(8, b"\0")
    path.write_bytes(mirrored_des(_PASSWORD_FILE_KEY, eight))
    path.chmod(0o600)
    return path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def wait_for(
    condition: Callable[[], object], what: str, timeout_s: float = 30.0
) -> None:
    """Look until `condition()` is true; for what announces itself in no other way."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, (
            f"{what} did not happen within {timeout_s} s"
        )
        time.sleep(0.02)


@contextmanager
def _x_server(*command: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    reader, writer = os.pipe()
    with (
        os.fdopen(reader) as stream,
        running(*command, "-displayfd", str(writer), pass_fds=[writer]) as process,
    ):
        os.close(writer)
        line = stream.readline()
        assert line, f"{command[0]} ended with {process.wait()} before it had a display"
        yield process, int(line)


def _x_vnc(
    process: subprocess.Popen[bytes], display: int, port: int, host: str = "127.0.0.1"
) -> VncServer:
    assert _greets(port, process, host), (
        f"no VNC server came up at port {port}; exit code {process.poll()}"
    )
    name = f":{display}"
    return VncServer(f"127.0.0.1::{port}", process, name, {"DISPLAY": name})


def _greets(
    port: int, process: subprocess.Popen[bytes], host: str = "127.0.0.1"
) -> bool:
    """Return whether a VNC server greets at a port, before its process ends."""
    deadline_s = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline_s:
        try:
            with socket.create_connection((host, port), timeout=1) as connection:
                if connection.recv(4) == b"RFB ":
                    return process.poll() is None
        except OSError:
            time.sleep(0.02)
    return False


def require_pyside() -> None:
    try:
        import PySide6  # noqa: F401
    except ImportError:
        missing("PySide6", "pip install -e '.[demo]'")
