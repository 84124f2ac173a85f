"""A test on a VNC server in this process: recorded with a planner and a judge, replayed without, drifting, healed."""

from __future__ import annotations

import os

import pytest

from support.forked_python import run_python
from support.served_screen import served_screen

BLUE, RED = 0x2070B0, 0xC02020
TEST = """
import pytest

@pytest.mark.vnc_task("Click twice, and type ok", expect="three squares are shown")
def test_squares(vnc_agent):
    vnc_agent.verify("the squares have one colour")
"""
CONFTEST = """
import pytest
from pytest_vnc_use.planners import finish
from pytest_vnc_use.types import Click, TypeText
from support.judges import Says

STEPS = [Click(30, 40), Click(90, 40), TypeText("ok")]

@pytest.fixture
def vnc_planner():
    return lambda observation: STEPS[len(observation.turns)] if len(observation.turns) < 3 else finish()

@pytest.fixture
def vnc_judge():
    return Says()
"""


def test_recording_replays_drifts_and_heals(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)  # with it a heal is a proposal
    pytester.makepyfile(test_squares=TEST)
    pytester.makeconftest(CONFTEST)
    recording = pytester.path / "__vnc_recordings__" / "test_squares" / "test_squares.json"

    def run(mode: str, colour: int = BLUE) -> str:
        gate_s = 10 if colour == BLUE else 2  # the second never opens
        with served_screen(colour) as screen:
            options = (f"--vnc-server={screen.address}", f"--vnc-record={mode}", f"-ovnc_gate_seconds={gate_s}")
            done = run_python(
                "pytest", "-p", "no:cacheprovider", *options, cwd=pytester.path, env={**os.environ}, timeout=140
            )
            return done.stdout

    assert "1 passed" in run("auto")
    written = recording.read_bytes()
    (pytester.path / "conftest.py").unlink()
    assert "1 passed" in run("replay")
    drifted = run("replay", colour=RED)
    assert "1 failed" in drifted
    assert "inconclusive: " in drifted
    assert recording.read_bytes() == written
    pytester.makeconftest(CONFTEST)
    healed = run("auto", colour=RED)
    assert "1 passed" in healed
    assert "HEALED" in healed
    assert recording.read_bytes() != written
