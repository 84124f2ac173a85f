"""A Qt program on its own VNC platform: what the contract of all desktops does not say
of it.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.desktops import qt
from pytest_vnc_use.desktops.started import greets_at
from pytest_vnc_use.errors import DesktopError, DesktopRefused, SettingsError
from support.qt_desktop import WHY_OPEN, QtDesktop
from support.vnc_servers import wait_for

pytestmark = pytest.mark.desktop


def pid_of(desktop: QtDesktop) -> int:
    return int(desktop.read_file("pid.txt"))


def screen_size(server: str) -> tuple[int, int]:
    with closing(connect(server)) as controller:
        return controller.size


@pytest.fixture
def desktop(start: Callable[..., QtDesktop], qt_program: list[str]) -> QtDesktop:
    started = start(QtDesktop, qt_program)
    wait_for(lambda: "ready" in started.logs()["program"], "the program")
    return started


def test_desktops_started_together_have_separate_size_and_port(
    start: Callable[..., QtDesktop],
    qt_program: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = Path(qt_program[1])
    monkeypatch.chdir(program.parent.parent)
    argv = [qt_program[0], f"{program.parent.name}/{program.name}", "one", "two words"]
    environment = {"FRUIT": "plum"}

    def start_with(size: tuple[int, int]) -> QtDesktop:
        return start(QtDesktop, argv, size=size, environment=environment)

    sizes = [(800, 600), (1440, 900)]
    with ThreadPoolExecutor() as pool:
        desktops = list(pool.map(start_with, sizes))
    assert [screen_size(desktop.server) for desktop in desktops] == sizes
    wait_for(
        lambda: all("ready" in desktop.logs()["program"] for desktop in desktops),
        "the programs",
    )
    seen = [desktop.read_file("seen.txt") for desktop in desktops]
    assert seen == ["plum one two words"] * 2


def test_program_that_never_serves_is_refused_in_time(
    start: Callable[..., QtDesktop],
) -> None:
    with pytest.raises(
        DesktopError, match=r"the desktop has no screen yet\. Launch a program first"
    ):
        assert start(QtDesktop).server
    with pytest.raises(
        DesktopRefused, match=r"'sleep 60' opened no VNC server within 0.5 s"
    ) as caught:
        QtDesktop(["sleep", "60"], start_timeout_s=0.5)
    assert "(it printed nothing)" in str(caught.value)


@pytest.mark.skipif(
    bool(WHY_OPEN), reason=f"no network namespace is allowed here: {WHY_OPEN}"
)
def test_own_network_is_relayed_to_several_clients(
    desktop: QtDesktop, qt_program: list[str]
) -> None:
    with ThreadPoolExecutor(2) as clients:
        assert set(clients.map(screen_size, [desktop.server] * 4)) == {(1440, 900)}
    own, here = (
        Path(f"/proc/{pid}/ns/net").readlink() for pid in (pid_of(desktop), "self")
    )
    assert own != here
    before = desktop.server
    desktop.launch(qt_program)
    assert screen_size(desktop.server) == (1440, 900)
    assert desktop.server == before
    wait_for(lambda: "ready" in desktop.logs()["program"], "the program")
    os.kill(pid_of(desktop), signal.SIGKILL)
    wait_for(desktop.program_exit_reason, "its end")
    wait_for(lambda: not greets_at(desktop.server, 1.0), "the end of the relay")
    assert "SIGKILL" in desktop.program_exit_reason()


def test_missing_namespace_is_error_or_one_warning(
    start: Callable[..., QtDesktop],
    qt_program: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(qt, "why_not_closable", lambda: "unshare: not permitted")
    host, _, port = start(QtDesktop, qt_program, is_open=True).server.partition("::")
    assert host == "127.0.0.1"
    assert greets_at(f"{host}::{port}", 5.0)
    with pytest.raises(
        SettingsError, match=r"unshare: not permitted.*vnc_qt_host_network=true"
    ):
        start(QtDesktop, qt_program, may_be_open=False)
    with pytest.warns(
        UserWarning,
        match=r"on all interfaces without a password.*unshare: not permitted",
    ):
        assert start(QtDesktop, qt_program).server.startswith("127.0.0.1::")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start(QtDesktop, qt_program)  # one warning is enough


def test_stopped_program_hangs_until_its_end(
    desktop: QtDesktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = pid_of(desktop)
    assert not desktop.program_hangs()
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(qt, "ANSWERS_WITHIN_S", 1.0)
    assert desktop.program_hangs()
    assert desktop.program_exit_reason() == ""
    os.kill(pid, signal.SIGKILL)
    wait_for(desktop.program_exit_reason, "its end")
    assert not desktop.program_hangs()
    desktop.stop()
    assert not desktop.program_hangs()
