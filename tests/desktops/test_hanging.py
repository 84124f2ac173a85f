"""A program that runs and answers nothing is told from one that answers, and from one of which nobody can tell."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator

import pytest

from pytest_vnc_use.desktops import qt
from pytest_vnc_use.desktops.started import StartedDesktop
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from support import vnc_servers
from support.paths import PROGRAMS
from support.qt_desktop import QtDesktop

pytestmark = pytest.mark.desktop

PAD = PROGRAMS / "pad.py"
Start = Callable[..., StartedDesktop]


@pytest.fixture
def started() -> Iterator[Start]:
    """A desktop with a program that writes its process id down; stopped after the test."""
    desktops: list[StartedDesktop] = []

    def start(kind: Start, *program: str) -> StartedDesktop:
        desktops.append(kind(["sh", "-c", f"echo $$ > pid; exec {shlex.join(program)}"]))
        return desktops[-1]

    yield start
    for desktop in desktops:
        desktop.stop()


def stop_program(desktop: StartedDesktop) -> None:
    os.kill(int(desktop.read_file("pid")), signal.SIGSTOP)


def test_a_program_that_answers_does_not_hang_until_it_is_stopped(
    started: Callable[..., StartedDesktop], monkeypatch: pytest.MonkeyPatch
) -> None:
    vnc_servers.require_pyside()
    desktop = started(QtDesktop, sys.executable, str(PAD))
    assert not desktop.program_hangs()
    stop_program(desktop)
    monkeypatch.setattr(qt, "ANSWERS_WITHIN_S", 1.0)
    assert desktop.program_hangs()
    assert not desktop.program_fault()


def test_of_a_program_beside_its_server_nobody_can_tell(started: Callable[..., StartedDesktop]) -> None:
    vnc_servers.require("Xtigervnc")
    vnc_servers.require("xterm")
    desktop = started(XvncDesktop, "xterm")
    stop_program(desktop)
    assert not desktop.program_hangs()


def test_what_has_ended_does_not_hang(started: Callable[..., StartedDesktop]) -> None:
    vnc_servers.require_pyside()
    desktop = started(QtDesktop, sys.executable, str(PAD))
    os.kill(int(desktop.read_file("pid")), signal.SIGKILL)
    vnc_servers.wait_for(desktop.program_fault, "its end")
    assert not desktop.program_hangs()
    desktop.stop()
    assert not desktop.program_hangs()
