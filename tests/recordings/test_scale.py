"""Recordings of a screen with two pixels a point (HiDPI): they count its pixels, so they hold at their scale only."""

from __future__ import annotations

import pytest

from support.paths import PAD_LINE
from support.scripted import scripted_conftest

TESTS = """
import pytest

@pytest.mark.vnc_task("Type it", expect=None)
def test_it(vnc_desktop):
    lines = vnc_desktop.read_file("events.txt").splitlines()
    assert lines[0] == "press 150 100 left"
    assert "text n" in lines
"""
PLAN = scripted_conftest("[Click(300, 200), TypeText('née')]")


@pytest.mark.slow
@pytest.mark.desktop
def test_a_recording_replays_at_its_own_scale_only(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    pytester.makeconftest(PLAN)
    fixed = ("--vnc-server=qt", "-p", "no:cacheprovider", "-ovnc_gate_seconds=3")
    large, small = (f"--vnc-app=env QT_SCALE_FACTOR={factor} {PAD_LINE}" for factor in (2, 1))
    recorded = pytester.runpytest_subprocess(*fixed, large, "--vnc-record=rewrite", timeout=400)
    recorded.stdout.fnmatch_lines(["vnc-use: 1 recording written*"])
    (pytester.path / "conftest.py").unlink()
    replayed = pytester.runpytest_subprocess(*fixed, large, "--vnc-record=replay", timeout=400)
    replayed.assert_outcomes(passed=1)
    replayed.stdout.fnmatch_lines(["vnc-use: 1 run planned by recording"])
    elsewhere = pytester.runpytest_subprocess(*fixed, small, "--vnc-record=replay", timeout=400)
    elsewhere.assert_outcomes(failed=1)
    elsewhere.stdout.fnmatch_lines(["*inconclusive: drift *"])
