"""Limits hold for everything: what hangs ends in its time, what has no end is cut, control characters stay inside."""

from __future__ import annotations

import pytest

from support.pad_sessions import QUIET
from support.paths import TESTS

CONFTEST = """
import pytest
from support.memory_desktop import PaintedController, ListPlanner, act, finished
from pytest_vnc_use.types import Click, Proposal, Verdict
from pytest_vnc_use import VncUseAgent

EVIL = "\\x1b]0;owned\\x07\\x9b2J\\r\\u202egnp"

class Judge:
    def judge(self, claim, frame, *, timeout_s, report):
        return Verdict(claim, "fails" if "not" in claim else "holds", EVIL + "long " * 60_000)

class Painted:
    server, password = "painted::1", None
    def logs(self): return {}

@pytest.fixture
def vnc_desktop():
    return Painted()

@pytest.fixture
def vnc_planner():
    return ListPlanner([act(Proposal(Click(1, 1), EVIL), text=EVIL), finished(EVIL)])

@pytest.fixture
def vnc_judge():
    return Judge()

@pytest.fixture
def vnc_agent(vnc_agent):
    vnc_agent._controller = PaintedController()
    return vnc_agent
"""


def test_reports_are_harmless_and_paths_survive_chdir(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    pytester.makeconftest(CONFTEST)
    pytester.makefile(".toml", policy='[[rule]]\ndecision = "allow"\naction = "click"\n')
    pytester.makepyfile("""
        import pytest

        @pytest.mark.vnc_task("Look", expect="it is not so")
        def test_claim(vnc_agent): pass

        @pytest.mark.vnc_task("Look", expect=None)
        def test_check(vnc_agent):
            vnc_agent.check("it is not so")

        @pytest.fixture
        def elsewhere(tmp_path, monkeypatch):
            monkeypatch.chdir(tmp_path)

        @pytest.mark.vnc_task("Look", expect="it is so", policy="policy.toml")
        def test_elsewhere(elsewhere, vnc_agent, tmp_path):
            assert vnc_agent.saw("it is so", steps=1)
            vnc_agent.run("Look again", expect=None)
            assert not list(tmp_path.iterdir())
    """)
    options = (*QUIET, "-v", "-rA", "--vnc-policy=policy.toml", "--junitxml=junit.xml")
    result = pytester.runpytest_subprocess(*options, timeout=400)
    result.assert_outcomes(failed=2, passed=1)
    terminal = result.stdout.str() + result.stderr.str()
    assert all(character.isprintable() or character == "\n" for character in terminal), repr(terminal)
    assert len(terminal) < 100_000
    assert "of 3000" in terminal, "the length of a reason that was cut is told"
    assert (pytester.path / "junit.xml").stat().st_size < 100_000
    assert len(list((pytester.path / "runs").glob("*/trace.jsonl"))) == 4
