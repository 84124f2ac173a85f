"""A Qt program on its own VNC platform: it starts, is reached, and leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_vnc_use.desktops import qt
from pytest_vnc_use.desktops.program import greets_at
from pytest_vnc_use.desktops.qt import listening_ports
from pytest_vnc_use.errors import DesktopError, DesktopRefused, SettingsError
from pytest_vnc_use.types.protocols import Desktop
from support.leftovers import is_running
from support.qt_desktop import WHY_OPEN, QtDesktop
from support.vnc_servers import wait_for

pytestmark = pytest.mark.desktop

Start = Callable[..., QtDesktop]


def pids_of(desktop: Desktop) -> list[int]:
    return [int(pid) for pid in desktop.read_file("pids.txt").split()]


def screen_size(server: str) -> tuple[int, int]:
    """Width and height as the server's ServerInit says (RFC 6143 7.1 to 7.3, version 3.3)."""
    host, _, port = server.partition("::")  # or it is the path of a unix socket
    with socket.socket(socket.AF_INET if port else socket.AF_UNIX) as connection, connection.makefile("rb") as answers:
        connection.settimeout(10)
        connection.connect((host, int(port)) if port else server)
        assert answers.read(12).startswith(b"RFB 003.")
        connection.sendall(b"RFB 003.003\n")
        assert struct.unpack(">I", answers.read(4)) == (1,)
        connection.sendall(b"\x01")
        width, height = struct.unpack(">HH", answers.read(4))
    return width, height


@pytest.fixture
def desktop(start: Start, qt_program: list[str]) -> QtDesktop:
    started = start(qt_program)
    wait_for(lambda: "ready" in started.output_tail(), "the program")
    return started


@pytest.mark.parametrize("size", [(1440, 900), (800, 600)])
def test_the_program_is_served_at_the_size_asked_for(
    start: Start, qt_program: list[str], size: tuple[int, int]
) -> None:
    assert screen_size(start(qt_program, size=size).server) == size


def test_the_program_gets_its_arguments_its_environment_and_a_folder_of_its_own(
    start: Start, qt_program: list[str]
) -> None:
    desktop = start([*qt_program, "one", "two words"], environment={"FRUIT": "plum"})
    wait_for(lambda: "ready" in desktop.output_tail(), "the program")
    assert desktop.read_file("seen.txt") == "plum one two words"


def test_a_relative_path_in_the_command_is_seen_from_here(
    start: Start, qt_program: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Path(qt_program[1])
    monkeypatch.chdir(program.parent.parent)
    desktop = start([qt_program[0], f"{program.parent.name}/{program.name}"])
    wait_for(lambda: "ready" in desktop.output_tail(), "the program")
    assert desktop.exit_code is None


def test_stopping_ends_the_program_and_its_children_and_removes_the_folder(desktop: QtDesktop) -> None:
    pids = pids_of(desktop)
    folder = Path(f"/proc/{pids[0]}/cwd").readlink().parent
    assert folder.exists()
    desktop.stop()
    desktop.stop()
    assert not any(map(is_running, pids))
    assert not folder.exists()


def test_a_program_that_never_serves_is_refused_in_time_though_others_serve(desktop: QtDesktop) -> None:
    began = time.monotonic()
    with pytest.raises(DesktopRefused, match=r"'sleep 60' opened no VNC server within 0.5 s") as caught:
        QtDesktop(["sleep", "60"], start_timeout_s=0.5)
    assert time.monotonic() - began < 20
    assert "(it printed nothing)" in str(caught.value)


@pytest.mark.usefixtures("qt_program")
def test_a_server_that_does_not_speak_rfb_is_no_desktop() -> None:
    web = [sys.executable, "-m", "http.server", "0"]
    with pytest.raises(DesktopRefused, match="opened no VNC server"):
        QtDesktop(web, start_timeout_s=2)


def test_desktops_started_at_once_get_a_port_each(start: Start, qt_program: list[str]) -> None:
    with ThreadPoolExecutor() as pool:
        desktops = list(pool.map(lambda _: start(qt_program), range(4)))
    assert len({desktop.server for desktop in desktops}) == 4
    assert {screen_size(desktop.server) for desktop in desktops} == {(1440, 900)}


# --- who can reach it ------------------------------------------------------------------------------------------------

CLOSED = pytest.mark.skipif(bool(WHY_OPEN), reason=f"no network namespace is allowed here: {WHY_OPEN}")


@CLOSED
def test_several_may_look_at_once_and_a_new_program_takes_the_place(start: Start, qt_program: list[str]) -> None:
    desktop = start(qt_program)
    with ThreadPoolExecutor(4) as clients:
        assert set(clients.map(screen_size, [desktop.server] * 8)) == {(1440, 900)}
    wait_for(lambda: "ready" in desktop.output_tail(), "the program")
    own, here = (Path(f"/proc/{pid}/ns/net").readlink() for pid in (pids_of(desktop)[0], "self"))
    assert own != here
    before = desktop.server
    desktop.launch(qt_program)
    assert screen_size(desktop.server) == (1440, 900)
    assert desktop.server == before


@CLOSED
def test_the_relay_ends_with_the_program(desktop: QtDesktop) -> None:
    os.kill(pids_of(desktop)[0], signal.SIGKILL)
    wait_for(desktop.program_fault, "its end")
    wait_for(lambda: not greets_at(desktop.server, 1.0), "the end of the relay")
    assert "SIGKILL" in desktop.program_fault()


def test_a_program_may_be_left_on_the_machines_network(start: Start, qt_program: list[str]) -> None:
    desktop = start(qt_program, is_open=True)
    host, _, port = desktop.server.partition("::")
    assert (host, greets_at(desktop.server, 5.0)) == ("127.0.0.1", True)
    assert int(port) in listening_ports(os.getsid(desktop._program.pid))  # type: ignore[union-attr]  # it runs


def test_where_no_namespace_is_allowed_it_starts_only_if_it_may_be_open(
    start: Start, qt_program: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qt, "why_not_closable", lambda: "unshare: not permitted")
    with pytest.raises(SettingsError, match=r"unshare: not permitted.*vnc_qt_host_network=true"):
        start(qt_program, may_be_open=False)
    with pytest.warns(UserWarning, match=r"on all interfaces without a password.*unshare: not permitted"):
        assert start(qt_program).server.startswith("127.0.0.1::")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start(qt_program)  # one warning is enough


def test_stopped_program_hangs_until_its_end(desktop: QtDesktop, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = pids_of(desktop)[0]
    assert not desktop.program_hangs()
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(qt, "ANSWERS_WITHIN_S", 1.0)
    assert (desktop.program_hangs(), desktop.program_fault()) == (True, "")
    os.kill(pid, signal.SIGKILL)
    wait_for(desktop.program_fault, "its end")
    assert not desktop.program_hangs()
    desktop.stop()
    assert not desktop.program_hangs()


def test_desktop_without_program_has_no_screen(start: Start) -> None:
    with pytest.raises(DesktopError, match="the desktop has no screen yet: launch a program first"):
        assert start().server
