"""What is started here is for this user alone: nothing listens beyond loopback, and no file may be read by others."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vnc_use.desktops.supervisor import MARK
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.types.protocols import Desktop
from support.containers import started_container
from support.qt_desktop import WHY_OPEN, QtDesktop
from support.vnc_servers import require

pytestmark = [pytest.mark.desktop, pytest.mark.container]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The temporary folder of a test without a umask, not pytest's; its path leaves room for a socket's."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        before = os.umask(0)
        yield Path(folder)
        os.umask(before)


@pytest.fixture(params=["xvnc", "qt", "container"])
def started(request: pytest.FixtureRequest, folder: Path) -> Iterator[Desktop]:
    if request.param == "xvnc":
        require("Xtigervnc")
        require("xterm")
        desktop: Desktop = XvncDesktop(["xterm"])
    elif request.param == "qt":
        if WHY_OPEN:
            pytest.skip(f"no network namespace is allowed here: {WHY_OPEN}")
        desktop = QtDesktop(request.getfixturevalue("qt_program"))
    else:
        desktop = started_container("xterm")
    yield desktop
    desktop.stop()


def listeners(folder: Path) -> list[tuple[str, str]]:
    """Return the addresses and ports at which processes of a desktop in this folder listen."""
    require("ss")
    found = []
    for line in subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=True).stdout.splitlines():
        address, _, port = line.split()[3].rpartition(":")
        for pid in re.findall(r"pid=(\d+)", line):
            try:
                environment = Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:  # it has ended, or is another user's
                continue
            if f"{MARK}={folder}".encode() in environment:
                found.append((address, port))
    return found


def test_nobody_else_comes_in_or_reads_its_files(started: Desktop, folder: Path) -> None:
    assert listeners(folder) == []
    if "/" in started.server:
        assert Path(started.server).stat().st_mode & 0o777 == 0o600
    else:
        host, _, port = started.server.partition("::")
        assert host == "127.0.0.1"
        beyond = subprocess.run(["ss", "-ltnH", f"sport = :{port}"], capture_output=True, text=True, check=True).stdout
        assert {line.split()[3] for line in beyond.splitlines()} <= {f"127.0.0.1:{port}"}
        for address in {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}:
            if not str(address).startswith("127."):
                with socket.socket() as stranger:
                    assert stranger.connect_ex((str(address), int(port))) != 0
    if not isinstance(started, QtDesktop):  # which has no password, and a network of its own
        assert started.password is not None
        assert re.fullmatch(r"\S{8}", started.password)
    started.write_file("list.txt", "apples")
    rights = {path.relative_to(folder).parts[1:]: path.lstat().st_mode & 0o777 for path in folder.rglob("*")}
    ours = {parts: mode for parts, mode in rights.items() if not is_of_a_program(parts)}
    assert len(ours) >= 4
    assert {"/".join(parts): oct(mode) for parts, mode in ours.items() if mode & 0o077} == {}


def is_of_a_program(parts: tuple[str, ...]) -> bool:
    """Return whether a program wrote a file: the window manager, or the one under test in its working folder."""
    return parts[:1] == ("openbox",) or (parts[:1] == ("Home",) and parts[1:2] not in ((), ("list.txt",)))
