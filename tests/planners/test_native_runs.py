"""Whole runs of the loop with Claude's and OpenAI's own tools: the fake servers refuse nothing of what is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.safety.rules import Policy
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Click
from support.memory_desktop import PaintedController
from support.native_conversations import Talk, gpt
from support.responses_server import acts, text as gpts_text

POINT = {"x": 10, "y": 20}
CLICKED = {"type": "click", "button": "left", **POINT}
CHECK = {"id": "sc_1", "code": "malicious_instructions", "message": "The page gives orders."}


@pytest.fixture
def controller() -> PaintedController:
    return PaintedController()


@pytest.fixture
def agent_of(controller: PaintedController, tmp_path: Path) -> Callable[..., VncUseAgent]:
    settings = Settings(runs_dir=str(tmp_path / "runs"))

    def build(talk: Talk, **options: object) -> VncUseAgent:
        return VncUseAgent(settings=settings, controller=controller, planner=talk.planner, **options)  # type: ignore[arg-type]

    return build


@pytest.mark.parametrize("says_yes", [True, False])
def test_person_is_asked_about_safety_check(
    agent_of: Callable[..., VncUseAgent], controller: PaintedController, says_yes: bool
) -> None:
    with gpt([acts(CLICKED, thinks=True, checks=[CHECK]), gpts_text("done so")]) as talk:
        agent = agent_of(talk, hitl_mode=True)
        waiting = agent.run("click")
        assert (waiting.outcome, controller.performed) == (Outcome.WAITING, [])
        result = agent.approve(waiting.run_id) if says_yes else agent.deny(waiting.run_id)
        assert talk.server.refusals == []
        assert ("acknowledged_safety_checks" in str(talk.server.requests[-1])) is says_yes
    assert result.outcome is (Outcome.DONE if says_yes else Outcome.DENIED)
    assert controller.performed == ([Click(10, 20)] if says_yes else [])


def test_safety_check_that_rule_refuses_is_told_and_run_goes_on(
    agent_of: Callable[..., VncUseAgent], controller: PaintedController
) -> None:
    with gpt([acts(CLICKED, thinks=True, checks=[CHECK]), gpts_text("done so")]) as talk:
        result = agent_of(talk, policy=Policy(on_deny="continue"), hitl_mode=False).run("click")
        assert (result.outcome, talk.server.refusals) == (Outcome.DONE, [])
        assert "denied: " in str(talk.server.requests[1]["input"])
    assert controller.performed == []
