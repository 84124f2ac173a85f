"""What the tests of the desktops share: a small Qt program, and desktops that are stopped whatever happens."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_vnc_use.desktops.remote import RemoteExec, remote_exec_of
from support.qt_desktop import QtDesktop
from support.ssh_server import ssh_server
from support.vnc_servers import require_pyside

PROGRAM = """
import os, subprocess, sys
from pathlib import Path
from PySide6.QtWidgets import QApplication, QLabel
application = QApplication(sys.argv)
label = QLabel("hello")
label.show()
child = subprocess.Popen(["sleep", "300"])
Path("seen.txt").write_text(" ".join([os.environ.get("FRUIT", ""), *sys.argv[1:]]), encoding="utf-8")
Path("pids.txt").write_text(f"{os.getpid()} {child.pid}")
print("ready", flush=True)
application.exec()
"""


@pytest.fixture(scope="session")
def qt_program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Command of a Qt program that writes down what it sees, and its process id and its child's."""
    require_pyside()
    path: Path = tmp_path_factory.mktemp("program") / "program.py"
    path.write_text(PROGRAM)
    return [sys.executable, str(path)]


@pytest.fixture
def start() -> Iterator[Callable[..., QtDesktop]]:
    """`QtDesktop(…)`, stopped after the test."""
    started: list[QtDesktop] = []

    def starting(*args: object, **kwargs: object) -> QtDesktop:
        started.append(QtDesktop(*args, **kwargs))  # type: ignore[arg-type]
        return started[-1]

    yield starting
    for desktop in started:
        desktop.stop()


@pytest.fixture(scope="session")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The command of a real ssh to a server on this machine."""
    with ssh_server(tmp_path_factory.mktemp("ssh")) as command:
        yield command


@pytest.fixture(params=["a directory", "ssh"])
def reach(request: pytest.FixtureRequest, tmp_path: Path) -> RemoteExec:
    """Each way of a command, into an empty directory."""
    if request.param == "a directory":
        return RemoteExec(["env", "-C", str(tmp_path)])
    return remote_exec_of(f"{request.getfixturevalue('ssh')} env -C {tmp_path}", "desktop-host:1")
