"""A test that only uses hands needs no planner, and one that then asks for a planner is told what is missing."""

from __future__ import annotations

import pytest

from support.paths import PAD_LINE

pytestmark = pytest.mark.desktop

HANDS = """
def test_hands(vnc_agent, vnc_desktop):
    vnc_agent.click(100, 100)
    assert "press 100 100 left" in vnc_desktop.read_file("events.txt")

def test_task(vnc_agent):
    vnc_agent.click(100, 100)
    vnc_agent.run("Click it", expect=None)
"""


@pytest.mark.parametrize(
    ("planner", "told"),
    [
        ("--vnc-planner=", "*no planner is configured: *--vnc-record=manual*--vnc-planner=gemini*"),
        ("--vnc-planner=gemini", "*no API key*"),
    ],
)
def test_hands_need_no_planner(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, planner: str, told: str
) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile(HANDS)
    result = pytester.runpytest_subprocess("--vnc-server=qt", f"--vnc-app={PAD_LINE}", planner, timeout=400)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([told])
