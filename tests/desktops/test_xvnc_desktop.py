"""A TigerVNC desktop: it starts, takes input, tells the truth about its program, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.desktops.session import Session
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.errors import (
    AuthenticationFailed,
    DesktopError,
    ProgramMissing,
    SettingsError,
    VncUseError,
)
from support.leftovers import OneFile, processes_naming
from support.vnc_servers import require, wait_for

pytestmark = pytest.mark.desktop

Start = Callable[..., XvncDesktop]

PARENT = """
import sys
from pytest_vnc_use.desktops.xvnc import XvncDesktop
desktop = XvncDesktop(["xterm"])
desktop.run(["sh", "-c", "setsid sleep 300 &"])
print(desktop.server, desktop.display[1:], flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _needs_tigervnc_and_xterm() -> None:
    require("Xtigervnc")
    require("openbox")
    require("xterm")


@pytest.fixture
def start() -> Iterator[Start]:
    """`XvncDesktop(…)`, stopped after the test."""
    started: list[XvncDesktop] = []

    def starting(*args: Any, **kwargs: Any) -> XvncDesktop:
        started.append(XvncDesktop(*args, **kwargs))
        return started[-1]

    yield starting
    for desktop in started:
        desktop.stop()


def socket_path(number: int) -> Path:
    return Path(f"/tmp/.X11-unix/X{number}")


def folder_of(desktop: XvncDesktop) -> Path:
    return Path(desktop.server).parent


def server_pid(desktop: XvncDesktop) -> int:
    return next(pid for pid, name in processes_naming(folder_of(desktop)).items() if name == "Xtigervnc")


# --- eyes, hands, files, commands ------------------------------------------------------------------------------------


def test_it_takes_input_as_soon_as_it_is_there(start: Start) -> None:
    desktop = start(["xterm", "-e", "head -1 > typed.txt"])
    with closing(connect(desktop.server, desktop.password)) as controller:
        controller.type_text("two apples", press_enter=True)
        wait_for(lambda: desktop.run(["cat", "typed.txt"]).stdout == "two apples\n", "the text to arrive")


@pytest.mark.parametrize(("size", "depth"), [((1440, 900), 24), ((801, 603), 16)])
def test_it_has_the_size_and_depth_asked_for(start: Start, size: tuple[int, int], depth: int) -> None:
    require("xwininfo")
    desktop = start(size=size, depth=depth)
    with closing(connect(desktop.server, desktop.password)) as controller:
        assert controller.size == size
    assert f"Depth: {depth}\n" in desktop.run(["xwininfo", "-root"]).stdout


def test_a_program_has_its_window_when_the_desktop_is_there(start: Start) -> None:
    require("xwininfo")
    desktop = start(["xterm", "-T", "the program"])
    assert "Map State: IsViewable" in desktop.run(["xwininfo", "-name", "the program"]).stdout


def test_a_command_runs_on_the_display_in_the_working_folder(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-of-the-user")
    desktop = start(environment={"FRUIT": "plum"})
    desktop.write_file("list.txt", "apples")
    ran = desktop.run(["sh", "-c", "cat list.txt; echo $FRUIT$WAYLAND_DISPLAY $DISPLAY >&2; exit 3"])
    assert (ran.exit_code, ran.stdout, ran.stderr) == (3, "apples", f"plum {desktop.display}\n")


def test_the_program_meets_a_new_user(start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("DBUS_SESSION_BUS_ADDRESS", *(f"XDG_{each}_HOME" for each in ("CONFIG", "DATA", "STATE"))):
        monkeypatch.setenv(name, str(tmp_path))
    desktop = start(pinned=False)  # nor of GTK's settings that pin how programs draw
    assert desktop.run(["sh", "-c", "echo $DBUS_SESSION_BUS_ADDRESS"]).stdout == "\n"
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        assert desktop.run(["sh", "-c", f"ls -A ${name} && stat -c %a ${name}"]).stdout == "700\n"
    assert not any(tmp_path.iterdir())


def test_a_program_of_one_instance_is_one_on_each_desktop(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that finds itself on the session bus opens its windows there, and ends at once."""
    require("mousepad")
    require("dbus-daemon")
    with subprocess.Popen(
        ["dbus-daemon", "--session", "--nofork", "--print-address"], stdout=subprocess.PIPE, text=True
    ) as bus:
        try:
            assert bus.stdout is not None
            monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", bus.stdout.readline().strip())
            first, second = start(["mousepad"]), start(["mousepad"])
            assert (first.exit_code, second.exit_code) == (None, None)
        finally:
            bus.terminate()


def test_what_a_command_leaves_in_the_background_lives_as_long_as_the_desktop(start: Start) -> None:
    desktop = start()
    desktop.run(["sh", "-c", "setsid sleep 300 &"], timeout_s=10)
    wait_for(lambda: "sleep" in processes_naming(folder_of(desktop)).values(), "the sleep to start")
    desktop.stop()
    assert processes_naming(folder_of(desktop)) == {}


def test_working_directory_has_only_files_of_the_program(start: Start) -> None:
    desktop = start(["sh", "-c", "echo good morning; touch mine; exec xterm"])
    assert desktop.run(["ls", "-A"]).stdout == "mine\n"
    assert desktop.logs()["program"] == "good morning\n"


def test_it_does_without_a_window_manager(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Xtigervnc", "xterm", "cat"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(tmp_path))
    desktop = start(["xterm"])
    assert set(processes_naming(folder_of(desktop)).values()) >= {"Xtigervnc", "xterm"}
    assert "window manager" not in desktop.logs()


# --- who may in ------------------------------------------------------------------------------------------------------


def test_a_wrong_password_is_refused_as_often_as_it_comes_and_the_right_one_taken(start: Start) -> None:
    desktop = start()
    for password in ["wrong", None] * 4:
        with pytest.raises(AuthenticationFailed):
            connect(desktop.server, password)
    connect(desktop.server, desktop.password).close()


def test_an_x_client_needs_the_cookie(start: Start) -> None:
    require("xwininfo")
    desktop = start()
    assert desktop.run(["xwininfo", "-root"]).exit_code == 0
    assert desktop.run(["env", "XAUTHORITY=/dev/null", "xwininfo", "-root"]).exit_code != 0


def test_desktops_started_at_once_share_nothing(start: Start) -> None:
    with ThreadPoolExecutor(6) as pool:
        desktops = list(pool.map(lambda _: start(["xterm"]), range(6)))
    for distinct in (lambda d: d.display, lambda d: d.server, lambda d: d.password):
        assert len({distinct(desktop) for desktop in desktops}) == 6
    for desktop in desktops:
        connect(desktop.server, desktop.password).close()


# --- the truth about the program -------------------------------------------------------------------------------------


def test_what_processes_print_is_told_by_role_and_still_there_once_stopped(start: Start) -> None:
    desktop = start(["sh", "-c", "head -c 1200000 /dev/zero | tr '\\0' x; echo good morning; exec xterm"])
    logs = desktop.logs()
    assert set(logs) == {"VNC server", "window manager", "program"}
    assert 1_000_000 <= len(logs["program"]) < 1_000_100
    assert logs["program"].endswith("xgood morning\n")
    assert "TigerVNC" in logs["VNC server"]
    desktop.stop()
    assert desktop.logs()["program"] == logs["program"]


# --- bad input -------------------------------------------------------------------------------------------------------

BAD = {
    "no such program": (["no-such-program"], {}, r"cannot start 'no-such-program': No such file.* on PATH"),
    "shows nothing": (["sleep", "300"], {"start_timeout_s": 3}, r"'sleep 300' had not shown a window within 3 s"),
    "no time": (["xterm"], {"start_timeout_s": 0.001}, r"'Xtigervnc .*' had not taken connections within 0.001 s"),
    "no width": ([], {"size": (0, 900)}, r"1 to 16384 each, got \(0, 900\)"),
    "no depth": ([], {"depth": 17}, r"depth must be one of \(16, 24\) bits a pixel, got 17"),
}


@pytest.mark.parametrize(("command", "options", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], options: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(VncUseError, match=message) as caught:
        XvncDesktop(command, **options)
    expected = SettingsError if {"size", "depth"} & set(options) else DesktopError
    assert isinstance(caught.value, ProgramMissing if command == ["no-such-program"] else expected)
    assert list(tmp_path.iterdir()) == []
    assert processes_naming(tmp_path) == {}


def test_a_missing_server_is_told_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DesktopError, match=r"not installed.*apt-get install tigervnc-standalone-server"):
        XvncDesktop()


def test_a_temporary_folder_too_deep_for_sockets_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with pytest.raises(DesktopError, match=r"at most 107 bytes.*set TMPDIR to a shorter folder"):
        XvncDesktop()
    assert list(deep.iterdir()) == []


def test_display_files_left_over_do_not_stop_a_start(start: Start) -> None:
    number = next(number for number in range(1000) if not socket_path(number).exists())
    lock = Path(f"/tmp/.X{number}-lock")
    with socket.socket(socket.AF_UNIX) as abandoned, subprocess.Popen(["true"]) as dead:
        abandoned.bind(str(socket_path(number)))
    lock.write_text(f"{dead.pid:>10}\n")
    left = OneFile(socket_path(number))
    try:
        desktop = start(["xterm"])
        connect(desktop.server, desktop.password).close()
    finally:
        lock.unlink(missing_ok=True)
        if left.exists():
            socket_path(number).unlink()


# --- nothing is left -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "program",
    [
        "trap '' TERM; xterm & wait; sleep 300",
        "exec env -i DISPLAY=$DISPLAY XAUTHORITY=$XAUTHORITY /usr/bin/xterm -e cat",
    ],
    ids=["deaf to SIGTERM", "with an environment of its own"],
)
def test_stopping_ends_everything_and_removes_all_files(start: Start, program: str) -> None:
    desktop = start(["sh", "-c", program])
    display = OneFile(socket_path(int(desktop.display[1:])))
    pids = processes_naming(folder_of(desktop))
    assert display.exists()
    desktop.stop()
    desktop.stop()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the end of all processes")
    assert not display.exists()
    assert not folder_of(desktop).exists()


def test_a_server_that_was_killed_leaves_nothing_either(start: Start) -> None:
    desktop = start()
    display = OneFile(socket_path(int(desktop.display[1:])))
    os.kill(server_pid(desktop), signal.SIGKILL)
    desktop.stop()
    assert not display.exists()


def test_without_its_supervisor_the_desktop_cleans_up_itself(start: Start) -> None:
    desktop = start(["xterm"])
    names = processes_naming(folder_of(desktop))
    os.kill(next(pid for pid, name in names.items() if name == "vnc-supervisor"), signal.SIGKILL)
    desktop.stop()
    assert processes_naming(folder_of(desktop)) == {}
    assert not folder_of(desktop).exists()


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    """A process that has started a desktop, and prints its server and the number of its display."""
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_what_a_killed_supervisor_could_not_remove_goes_at_the_next_start(parent: subprocess.Popen[str]) -> None:
    folder, display = announced(parent)
    for pid, name in processes_naming(folder).items():
        if name in ("vnc-supervisor", "Xtigervnc"):
            os.kill(pid, signal.SIGKILL)
    parent.kill()
    parent.wait(10)
    assert "sleep" in processes_naming(folder).values()
    assert folder.exists()
    assert display.exists()
    Session().stop()
    wait_for(lambda: not folder.exists(), "the cleanup, which another test's start may be doing")
    assert processes_naming(folder) == {}
    assert not display.exists()


def test_a_next_start_leaves_living_desktops_alone(start: Start) -> None:
    desktop = start(["xterm"])
    Session().stop()
    assert desktop.program_fault() == ""
    connect(desktop.server, desktop.password).close()


def announced(parent: subprocess.Popen[str]) -> tuple[Path, OneFile]:
    assert parent.stdout is not None
    server, number = parent.stdout.readline().split()
    folder = Path(server).parent
    wait_for(lambda: "sleep" in processes_naming(folder).values(), "the command in the background")
    return folder, OneFile(socket_path(int(number)))
