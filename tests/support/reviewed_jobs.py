"""Sessions of pytest that record two tests, and replay them as a CI job does."""

from __future__ import annotations

import os
from pathlib import Path

from support.forked_python import run_python
from support.pad_sessions import QUIET

_CONFTEST = """
import pytest
from pytest_vnc_use.planners import finish
from pytest_vnc_use.types import Click
from support.judges import Says

STEPS = [Click(*at) for at in {clicks}]

@pytest.fixture
def vnc_planner():
    return lambda observation: STEPS[len(observation.turns)] if len(observation.turns) < 2 else finish()

@pytest.fixture
def vnc_judge():
    return {judge}
"""


def conftest_of(*clicks: tuple[int, int], judge: str = "Says()") -> str:
    """Return a conftest whose planner clicks twice."""
    return _CONFTEST.format(clicks=clicks, judge=judge)


def run_job(*options: str, ci: str = "", **environment: str) -> str:
    """Return the last line of a session of pytest in the working directory."""
    env = {**os.environ, "CI": ci, **environment}
    done = run_python("pytest", *QUIET, *options, cwd=Path.cwd(), env=env, timeout=400)
    return done.stdout.splitlines()[-1]
