"""Sessions of pytest on the pad, and their results for each test."""

from __future__ import annotations

from pathlib import Path

from pytest_vnc_use.report.results import ItemResult, read_results
from support.paths import PAD_LINE

QUIET = ("-p", "no:cacheprovider", "-p", "no:pytest-vnc")
ON_PAD = (*QUIET, "--vnc-server=qt", f"--vnc-app={PAD_LINE}", "--vnc-scope=session")


def results() -> dict[str, ItemResult]:
    """Return the results of the session in this directory, by each test's name without
    `test_`.
    """
    return {
        test.test.rpartition("::test_")[2]: test
        for test in read_results(Path("runs/vnc-results.json")).tests
    }


def scripted_conftest(turns: str = "") -> str:
    """Return a conftest.py with a planner that proposes these turns, such as `[Click(5,
    5)]`, and then finishes.
    """
    return f"""
import pytest
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.types import Click, TypeText

@pytest.fixture
def vnc_planner():
    return ScriptedPlanner([{turns}])
"""
