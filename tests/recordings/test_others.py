"""Recordings of a program that is not Qt's, on a VNC server that is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.planners.local.scripted import NoPlanner
from pytest_vnc_use.recordings import Mode
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.recordings.store import Key
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Click, KeyCombo, TypeText
from support.tills import Steps
from support.vnc_servers import VncServer, tigervnc

pytestmark = pytest.mark.desktop


def drive(server: VncServer, directory: Path, mode: Mode, *steps: object, gate_s: float = 30.0) -> Outcome:
    """Perform the steps in a terminal, or what was recorded of them."""
    key = Key(directory / "test_terminal.py", "test_terminal.py::test_it")
    recorded = RecordedTest(key, mode)
    planner = Steps(*steps) if steps else NoPlanner()  # type: ignore[arg-type]  # actions
    settings = Settings(server=server.address, runs_dir=str(directory / "runs"), watch=False, gate_seconds=gate_s)
    with VncUseAgent(settings=settings, planner=planner, hitl_mode=False, recorded=recorded) as agent:
        outcome = agent.run("Count").outcome
        recorded.keep()
    return outcome


SUGGESTS = """
import os, time, tty
tty.setcbreak(0)
typed_at = 0
print("ready")
while key := os.read(0, 16):
    if key.startswith(b"\\33"):
        print(" chosen" if time.monotonic() - typed_at > 0.35 else " too early", flush=True)
    else:
        os.write(1, key)
        typed_at = time.monotonic()
"""


@pytest.mark.slow
def test_replay_waits_for_list_off_screen(tmp_path: Path) -> None:
    terminal = ["xterm", "-geometry", "80x24+100+100", "-e", sys.executable, "-c", SUGGESTS]
    with tigervnc() as server, server.run(*terminal):
        assert drive(server, tmp_path, "auto", Click(300, 200), TypeText("java"), KeyCombo(("down",))) is Outcome.DONE
    with tigervnc() as server, server.run(*terminal):
        assert drive(server, tmp_path, "replay", gate_s=5.0) is Outcome.DONE
