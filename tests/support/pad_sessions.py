"""Sessions of pytest, their results for each test, and what they run: mostly the pad."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_vnc_use.report.results import ItemResult, read_results
from support.forked_python import run_python
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


def judged_conftest(turns: str, judge: str = "Says()") -> str:
    """Return a conftest.py with such a planner, and with a judge."""
    return f"""
from support.judges import Says
{scripted_conftest(turns)}
@pytest.fixture
def vnc_judge():
    return {judge}
"""


def run_job(*options: str, ci: str = "", **environment: str) -> str:
    """Return the last line of a session of pytest in the working directory."""
    env = {**os.environ, "CI": ci, **environment}
    done = run_python("pytest", *QUIET, *options, cwd=Path.cwd(), env=env, timeout=400)
    return done.stdout.splitlines()[-1]
