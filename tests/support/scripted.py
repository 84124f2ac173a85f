"""The text of a conftest.py whose tests are planned by a script."""

from __future__ import annotations


def scripted_conftest(turns: str = "") -> str:
    """Return a conftest.py with a planner that proposes these turns, such as `[Click(5, 5)]`, and then finishes."""
    return f"""
import pytest
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.types import Click, TypeText

@pytest.fixture
def vnc_planner():
    return ScriptedPlanner([{turns}])
"""
