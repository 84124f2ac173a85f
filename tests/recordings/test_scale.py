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
def test_a_recording_replays_at_its_own_scale_only(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QT_SCALE_FACTOR", "2")
    pytester.makepyfile(TESTS)
    pytester.makeconftest(PLAN)
    fixed = ("--vnc-server=qt", f"--vnc-app={PAD_LINE}", "-p", "no:cacheprovider", "-ovnc_gate_seconds=3")
    recorded = pytester.runpytest_subprocess(*fixed, "--vnc-record=rewrite", timeout=400)
    recorded.stdout.fnmatch_lines(["vnc-use: 1 recording written*"])
    (pytester.path / "conftest.py").unlink()
    replayed = pytester.runpytest_subprocess(*fixed, "--vnc-record=replay", timeout=400)
    replayed.assert_outcomes(passed=1)
    replayed.stdout.fnmatch_lines(["vnc-use: 1 run planned by recording"])
    monkeypatch.setenv("QT_SCALE_FACTOR", "1")
    elsewhere = pytester.runpytest_subprocess(*fixed, "--vnc-record=replay", timeout=400)
    elsewhere.assert_outcomes(failed=1)
    elsewhere.stdout.fnmatch_lines(["*inconclusive: drift *"])
