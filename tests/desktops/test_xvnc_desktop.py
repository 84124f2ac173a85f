"""A TigerVNC desktop: what the contract of all desktops does not say of it."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.desktops.supervised_session import SupervisedSession
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


@pytest.fixture(autouse=True)
def _needs_tigervnc_and_xterm() -> None:
    for program in ("Xtigervnc", "openbox", "xterm", "xwininfo"):
        require(program)


def directory_of(desktop: XvncDesktop) -> Path:
    return Path(desktop.server).parent


def test_started_desktop_takes_input_and_keeps_logs(
    start: Callable[..., XvncDesktop],
) -> None:
    noise = "head -c 1200000 /dev/zero | tr '\\0' x; echo good morning"
    desktop = start(
        XvncDesktop,
        ["sh", "-c", f"{noise}; exec xterm -e 'head -1 > typed.txt'"],
        size=(801, 603),
    )
    with closing(connect(desktop.server, desktop.password)) as controller:
        assert controller.size == (801, 603)
        controller.type_text("two apples", press_enter=True)
        wait_for(
            lambda: desktop.run(["cat", "typed.txt"]).stdout == "two apples\n",
            "the text to arrive",
        )
    logs = desktop.logs()
    assert set(logs) == {"VNC server", "window manager", "program"}
    assert 1_000_000 <= len(logs["program"]) < 1_000_100
    assert logs["program"].endswith("xgood morning\n")
    assert "TigerVNC" in logs["VNC server"]


def test_first_screen_has_no_pointer(start: Callable[..., XvncDesktop]) -> None:
    without_cursor = ["xterm", "-e", "printf '\\033[?25l'; exec sleep 99"]
    desktop = start(XvncDesktop, without_cursor, start_timeout_s=60)
    with closing(connect(desktop.server, password=desktop.password)) as controller:
        controller.settle()
        first = controller.screenshot_png()
        controller.move(200, 200)
        controller.settle()
        assert controller.screenshot_png() == first


def test_program_meets_own_desktop(
    start: Callable[..., XvncDesktop], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (
        "DBUS_SESSION_BUS_ADDRESS",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
    ):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("WAYLAND_DISPLAY", "of-the-user")
    desktop = start(XvncDesktop, pinned=False, environment={"FRUIT": "plum"})
    values = desktop.run(
        ["sh", "-c", "echo $DBUS_SESSION_BUS_ADDRESS$WAYLAND_DISPLAY$FRUIT $DISPLAY"]
    ).stdout
    assert values == f"plum {desktop.display}\n"

    directories = "XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR".split()
    listed = {
        name: desktop.run(["sh", "-c", f"ls -A ${name} && stat -c %a ${name}"]).stdout
        for name in directories
    }
    assert listed == dict.fromkeys(directories, "700\n")
    assert not any(tmp_path.iterdir())


def test_clients_need_password_or_key(start: Callable[..., XvncDesktop]) -> None:
    desktop = start(XvncDesktop)
    with pytest.raises(AuthenticationFailed):
        connect(desktop.server, "wrong")
    with pytest.raises(AuthenticationFailed):
        connect(desktop.server, None)
    connect(desktop.server, desktop.password).close()
    ask = ["xwininfo", "-root"]
    assert desktop.run(ask).exit_code == 0
    assert desktop.run(["env", "XAUTHORITY=/dev/null", *ask]).exit_code != 0


BAD: list[tuple[list[str], dict[str, Any], type[VncUseError], str]] = [
    (
        ["no-such-program"],
        {},
        ProgramMissing,
        r"cannot start 'no-such-program': No such file.* on PATH",
    ),
    (
        ["xterm"],
        {"start_timeout_s": 0.001},
        DesktopError,
        r"'Xtigervnc .*' had not taken connections within 0.001 s",
    ),
    ([], {"size": (0, 900)}, SettingsError, r"1 to 16384 each, got \(0, 900\)"),
]


@pytest.mark.parametrize(
    ("command", "options", "error", "message"),
    BAD,
    ids=["program", "time", "size"],
)
def test_bad_input_is_named_and_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    options: dict[str, Any],
    error: type[VncUseError],
    message: str,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(error, match=message):
        XvncDesktop(command, **options)
    assert list(tmp_path.iterdir()) == []
    assert processes_naming(tmp_path) == {}


def test_xvnc_on_unfit_machine_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with pytest.raises(
        DesktopError, match=r"at most 107 bytes.*Set TMPDIR to a shorter path"
    ):
        XvncDesktop()
    assert list(deep.iterdir()) == []
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        DesktopError, match=r"not installed.*apt-get install tigervnc-standalone-server"
    ):
        XvncDesktop()


# It replaces its environment by one of its own.
OWN_ENVIRONMENT = (
    "exec env -i DISPLAY=$DISPLAY XAUTHORITY=$XAUTHORITY /usr/bin/xterm -e cat"
)


def test_desktops_started_together_share_nothing(
    start: Callable[..., XvncDesktop],
) -> None:
    with ThreadPoolExecutor() as pool:
        desktops = [
            *pool.map(lambda _: start(XvncDesktop, ["sh", "-c", "exec xterm"]), "12")
        ]
    first, second = desktops
    assert first.display != second.display
    assert first.server != second.server
    assert first.password != second.password
    first.stop()
    connect(second.server, second.password).close()


@pytest.mark.parametrize("killed", ["", "Xtigervnc", "vnc-supervisor"])
def test_stopped_desktop_leaves_nothing(
    start: Callable[..., XvncDesktop], killed: str
) -> None:
    desktop = start(XvncDesktop, ["sh", "-c", OWN_ENVIRONMENT])
    SupervisedSession().stop()  # a next start leaves living desktops alone
    connect(desktop.server, desktop.password).close()
    display = OneFile(Path(f"/tmp/.X11-unix/X{desktop.display[1:]}"))
    pids = processes_naming(directory_of(desktop))
    assert display.exists()
    if killed:
        (pid,) = (pid for pid, name in pids.items() if name == killed)
        os.kill(pid, signal.SIGKILL)
    desktop.stop()
    desktop.stop()
    wait_for(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids),
        "the end of all processes",
    )
    assert not display.exists()
    assert not directory_of(desktop).exists()
