"""A test on a VNC server in this process: recorded with a planner and a judge, healed, replayed without them."""

from __future__ import annotations

import os

import pytest

from support.forked_python import run_python
from support.served_screen import served_screen

TEST = """
import pytest

@pytest.mark.vnc_task("Click, and type ok", expect="two squares are shown")
def test_squares(vnc_agent):
    vnc_agent.verify("the squares have one colour")
"""
CONFTEST = """
import pytest
from pytest_vnc_use.planners import finish
from pytest_vnc_use.types import Click, TypeText
from support.judges import Says

STEPS = [Click(30, 40), TypeText("ok")]

@pytest.fixture
def vnc_planner():
    return lambda observation: STEPS[len(observation.turns)] if len(observation.turns) < 2 else finish()

@pytest.fixture
def vnc_judge():
    return Says()
"""


def test_recording_heals_and_replays(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)  # with it a heal is a proposal
    monkeypatch.setenv("VNC_USE_WATCH_SECONDS", "0.3")
    pytester.makepyfile(test_squares=TEST)
    pytester.makeconftest(CONFTEST)
    recording = pytester.path / "__vnc_recordings__" / "test_squares" / "test_squares.json"

    def run(mode: str, colour: int, gate_s: float = 10) -> str:
        with served_screen(colour) as screen:
            options = (f"--vnc-server={screen.address}", f"--vnc-record={mode}", f"-ovnc_gate_seconds={gate_s}")
            command = ("pytest", "-p", "no:cacheprovider", *options)
            return run_python(*command, cwd=pytester.path, env={**os.environ}, timeout=140).stdout

    blue, red = 0x2070B0, 0xC02020
    assert "1 passed" in run("auto", blue)
    written = recording.read_bytes()
    healed = run("auto", red, gate_s=1)
    assert "1 passed" in healed
    assert "HEALED" in healed
    assert recording.read_bytes() != written
    (pytester.path / "conftest.py").unlink()
    assert "1 passed" in run("replay", red)
