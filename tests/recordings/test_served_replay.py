"""A test on a VNC server in this process: recorded with a planner and a judge, replayed without, drifting, healed."""

from __future__ import annotations

import pytest

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
from support.fixed_judge import Says

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

    def run(mode: str, colour: int = BLUE) -> pytest.RunResult:
        gate_s = 10 if colour == BLUE else 2  # the second never opens
        with served_screen(colour) as screen:
            options = (f"--vnc-server={screen.address}", f"--vnc-record={mode}", f"-ovnc_gate_seconds={gate_s}")
            return pytester.runpytest_subprocess("-p", "no:cacheprovider", *options, timeout=400)

    run("auto").assert_outcomes(passed=1)
    written = recording.read_bytes()
    (pytester.path / "conftest.py").unlink()
    run("replay").assert_outcomes(passed=1)
    drifted = run("replay", colour=RED)
    drifted.assert_outcomes(failed=1)
    drifted.stdout.fnmatch_lines(["*inconclusive: *"])
    assert recording.read_bytes() == written
    pytester.makeconftest(CONFTEST)
    healed = run("auto", colour=RED)
    healed.assert_outcomes(passed=1)
    healed.stdout.fnmatch_lines(["*HEALED*"])
    assert recording.read_bytes() != written
