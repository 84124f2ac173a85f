"""What every planner keeps to, whoever decides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conversations import Conversation, History
from gemini_server import calls

from pytest_vnc_use.planners.scripted import ScriptedPlanner
from pytest_vnc_use.ports import Planner
from pytest_vnc_use.types import Click

CLICK = calls(("click", {"x": 500, "y": 500}))


@pytest.fixture(params=["gemini", "scripted"])
def planner(request: pytest.FixtureRequest, converse: Callable[..., Conversation]) -> Planner:
    """A planner that clicks on the middle of the screen in every turn."""
    if request.param == "scripted":
        return ScriptedPlanner(lambda observation: [Click(720, 450)])
    return converse(lambda asked: CLICK).planner


def test_actions_are_pixels_of_the_screen(planner: Planner, history: History) -> None:
    decision = planner.decide(history.observation(), timeout_s=20.0)
    assert (decision.kind, [proposal.action for proposal in decision.proposals]) == ("act", [Click(720, 450)])


def test_nothing_is_kept_between_turns(planner: Planner, history: History) -> None:
    """Turns may be asked for again, and out of order, as when a run is resumed."""
    first = history.observation()
    decision = planner.decide(first, timeout_s=20.0)
    history.carry_out(decision)
    assert planner.decide(history.observation(), timeout_s=20.0).kind == "act"
    assert planner.decide(first, timeout_s=20.0).proposals == decision.proposals


def test_the_name_tells_who_decides(planner: Planner) -> None:
    assert planner.name.split()[0] in ("gemini", "scripted")
