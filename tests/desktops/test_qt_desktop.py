"""A Qt program on its own VNC platform: it starts, is reached, and leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import stat
import struct
import subprocess
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
from pytest_vnc_use.errors import DesktopError, DesktopRefused, ProgramCrashed, ProgramMissing, SettingsError
from pytest_vnc_use.types.protocols import Desktop
from support.qt_desktop import WHY_OPEN, QtDesktop

pytestmark = pytest.mark.desktop

Start = Callable[..., QtDesktop]

PARENT = """
import os, sys, time
from pytest_vnc_use.desktops import qt
desktop = qt.QtDesktop(sys.argv[1:], may_be_open=True)
while "ready" not in desktop.output_tail():
    time.sleep(0.01)
pids = desktop.read_file("pids.txt")
print(pids, os.readlink(f"/proc/{pids.split()[0]}/cwd"), flush=True)
sys.stdin.read()
"""


def wait_for(condition: Callable[[], object], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"did not happen within {timeout_s} s"
        time.sleep(0.01)


def pids_of(desktop: Desktop) -> list[int]:
    return [int(pid) for pid in desktop.read_file("pids.txt").split()]


def ended(pid: int, timeout_s: float = 30.0) -> bool:
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], timeout_s)[0])
    finally:
        os.close(watched)


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
    wait_for(lambda: "ready" in started.output_tail())
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
    wait_for(lambda: "ready" in desktop.output_tail())
    assert desktop.read_file("seen.txt") == "plum one two words"


def test_a_relative_path_in_the_command_is_seen_from_here(
    start: Start, qt_program: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Path(qt_program[1])
    monkeypatch.chdir(program.parent.parent)
    desktop = start([qt_program[0], f"{program.parent.name}/{program.name}"])
    wait_for(lambda: "ready" in desktop.output_tail())
    assert desktop.exit_code is None


def test_files_are_written_and_read_in_the_working_folder(desktop: QtDesktop) -> None:
    desktop.write_file("price list.txt", "apples;1.50")
    assert desktop.read_file("price list.txt") == "apples;1.50"
    with pytest.raises(DesktopError, match="must lie in the program's working folder"):
        desktop.read_file("../lock")


def test_a_command_runs_beside_the_program(desktop: QtDesktop) -> None:
    ran = desktop.run(["sh", "-c", "cat pids.txt; echo $QT_QPA_PLATFORM >&2; exit 4"])
    assert ran.stdout == desktop.read_file("pids.txt")
    assert (ran.exit_code, ran.stderr) == (4, "offscreen\n")


def test_stopping_ends_the_program_and_its_children_and_removes_the_folder(desktop: QtDesktop) -> None:
    pids = pids_of(desktop)
    folder = Path(f"/proc/{pids[0]}/cwd").readlink().parent
    assert folder.exists()
    desktop.stop()
    desktop.stop()
    assert [ended(pid) for pid in pids] == [True, True]
    assert not folder.exists()


def test_a_program_that_ignores_sigterm_is_ended_too(start: Start, qt_program: list[str]) -> None:
    deaf = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); exec(open(sys.argv[1]).read())"
    desktop = start([qt_program[0], "-c", deaf, qt_program[1]])
    wait_for(lambda: "ready" in desktop.output_tail())
    pid = pids_of(desktop)[0]
    desktop.stop()
    assert ended(pid, timeout_s=0)


def test_a_crash_can_be_named(desktop: QtDesktop) -> None:
    assert desktop.exit_code is None
    os.kill(pids_of(desktop)[0], signal.SIGSEGV)
    wait_for(lambda: desktop.exit_code is not None)
    assert desktop.exit_code == -signal.SIGSEGV
    fault = desktop.program_fault()
    assert re.match(r"the program '.+' exited with -11 \(SIGSEGV\)\n", fault)
    assert "ready" in fault
    assert desktop.read_file("seen.txt") == ""
    desktop.stop()
    assert desktop.program_fault() == fault


@pytest.mark.usefixtures("qt_program")
def test_an_early_end_is_told_with_exit_code_and_output() -> None:
    command = [sys.executable, "-c", "import sys; print('no such database'); sys.exit(3)"]
    with pytest.raises(
        ProgramCrashed, match=r"exited with 3 and had not shown a desktop; is it a Qt program\?\nno such database"
    ):
        QtDesktop(command)


@pytest.mark.usefixtures("qt_program")
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'cannot open display: ' >&2; exit 1", r"'sh .*' exited with 1 and had not shown a desktop; is it a Qt"),
        ("exit 0", r"had not shown a desktop; it must stay in the foreground; is it a Qt program\?"),
    ],
)
def test_a_program_that_may_be_none_of_qt_is_asked_about(script: str, said: str) -> None:
    with pytest.raises(DesktopError, match=said):
        QtDesktop(["sh", "-c", script])


@pytest.mark.usefixtures("qt_program")
def test_a_command_that_does_not_exist_is_told() -> None:
    with pytest.raises(ProgramMissing, match=r"cannot start 'no-such-program': No such file.* on PATH"):
        QtDesktop(["no-such-program"])


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


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda by: by.name)
def test_nothing_outlives_the_process_that_started_it(qt_program: list[str], by: signal.Signals) -> None:
    command = [sys.executable, "-c", PARENT, *qt_program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            *pids, folder = parent.stdout.readline().split()
            assert Path(folder).exists()
            parent.send_signal(by)
            assert parent.wait(10) != 0
        finally:
            parent.kill()
    assert [ended(int(pid)) for pid in pids] == [True, True]
    wait_for(lambda: not Path(folder).parent.exists())


# --- who can reach it ------------------------------------------------------------------------------------------------

CLOSED = pytest.mark.skipif(bool(WHY_OPEN), reason=f"no network namespace is allowed here: {WHY_OPEN}")


@CLOSED
def test_nobody_else_reaches_the_server(desktop: QtDesktop) -> None:
    socket_file = Path(desktop.server)
    assert stat.S_IMODE(socket_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(socket_file.parent.stat().st_mode) == 0o700
    session = os.getsid(pids_of(desktop)[0])
    assert listening_ports(session) == []  # none on this machine's network
    own, here = (Path(f"/proc/{pid}/ns/net").readlink() for pid in (pids_of(desktop)[0], "self"))
    assert own != here


@CLOSED
def test_several_may_look_at_once_and_a_new_program_takes_the_place(start: Start, qt_program: list[str]) -> None:
    desktop = start(qt_program)
    with ThreadPoolExecutor(4) as clients:
        assert set(clients.map(screen_size, [desktop.server] * 8)) == {(1440, 900)}
    before = desktop.server
    desktop.launch(qt_program)
    assert screen_size(desktop.server) == (1440, 900)
    assert desktop.server == before


@CLOSED
def test_the_relay_ends_with_the_program(desktop: QtDesktop) -> None:
    os.kill(pids_of(desktop)[0], signal.SIGKILL)
    wait_for(desktop.program_fault)
    wait_for(lambda: not greets_at(desktop.server, 1.0))
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
    with pytest.raises(SettingsError, match=r"unshare: not permitted.*vnc_qt_open=true"):
        start(qt_program, may_be_open=False)
    with pytest.warns(UserWarning, match=r"on all interfaces without a password.*unshare: not permitted"):
        assert start(qt_program).server.startswith("127.0.0.1::")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start(qt_program)  # one warning is enough
