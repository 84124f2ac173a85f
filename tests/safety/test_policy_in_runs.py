"""The policy in whole runs: typing over turns, runs and processes, and what the model's
service blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.safety.rules import Policy, ReviewContext, Rule
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    Click,
    Confirmation,
    Decision,
    KeyCombo,
    OpenUrl,
    Proposal,
    Ruling,
    RunResult,
    TypeText,
)
from pytest_vnc_use.types.keys import key_set
from support.memory_desktop import ListPlanner, PaintedController, act, finished

NO_RM = Rule("deny", "no rm", text=re.compile(r"rm\s+-rf"))
ASK_CLICKS = Rule("ask", "clicks", action="click")
BLOCK = Confirmation("it harms somebody", blocks=True)
Make = Callable[..., VncUseAgent]


@pytest.fixture
def controller() -> PaintedController:
    return PaintedController()


@pytest.fixture
def make(tmp_path: Path, controller: PaintedController) -> Make:
    def agent(
        *decisions: Decision, rules: tuple[Rule, ...] = (), policy: Policy | None = None
    ) -> VncUseAgent:
        return VncUseAgent(
            settings=Settings(runs_dir=str(tmp_path / "runs")),
            planner=ListPlanner([*decisions, finished()]),
            controller=controller,
            policy=policy or Policy(rules, unmatched="ask"),
            hitl_mode=True,
        )

    return agent


def denied_by(result: RunResult) -> str:
    assert result.outcome is Outcome.DENIED
    return result.steps[-1].ruling.rule


def test_typing_over_turns_and_runs_is_one_text(
    make: Make, controller: PaintedController
) -> None:
    pieces = [Proposal(TypeText("r")), Proposal(KeyCombo(("m",)))]
    agent = make(rules=(NO_RM,))
    one = ListPlanner([act(*pieces), act(Proposal(TypeText(" -r"))), finished()])
    assert agent.run("one", planner=one).outcome is Outcome.DONE
    result = agent.run(
        "two", planner=ListPlanner([act(Proposal(KeyCombo(("f",)))), finished()])
    )
    assert denied_by(result) == "rule 1 'no rm'"
    assert controller.performed == [TypeText("r"), KeyCombo(("m",)), TypeText(" -r")]


def test_denied_text_is_not_typed_step_has_url(
    make: Make, controller: PaintedController
) -> None:
    no_rm = Rule("deny", "no rm", text=re.compile("rm"), on_deny="continue")
    turns = [
        act(Proposal(action))
        for action in (TypeText("rm"), TypeText(" -rf"), OpenUrl("http://shop/"))
    ]
    result = make(*turns, rules=(no_rm, NO_RM)).run("go")
    assert [step.ruling.kind for step in result.steps] == ["deny", "allow", "allow"]
    assert [step.url for step in result.steps] == ["", "", "http://shop/"]
    controller.page_url = lambda: "http://shop/basket"  # type: ignore[attr-defined]
    assert [step.url for step in make(*turns[1:]).run("go").steps] == [
        "http://shop/basket"
    ] * 2


def test_typing_over_processes_is_one_text(
    make: Make, controller: PaintedController
) -> None:
    """The agent that approves is another one than that which typed before."""
    decisions = [
        act(Proposal(TypeText("rm"))),
        act(Proposal(KeyCombo(("end",))), Proposal(TypeText(" -rf"))),
    ]
    rules = (Rule("ask", "end", keys=key_set("end")), NO_RM)
    waiting = make(*decisions, rules=rules).run("go")
    assert waiting.outcome is Outcome.WAITING
    result = make(*decisions, rules=rules).approve(waiting.run_id)
    assert denied_by(result) == "rule 2 'no rm'"
    assert controller.performed == [TypeText("rm"), KeyCombo(("end",))]


def test_approved_run_counts_text_once(make: Make) -> None:
    twice = Rule("deny", "twice", text=re.compile("aa"))
    decisions = [
        act(Proposal(TypeText("a"))),
        act(Proposal(Click(1, 1)), Proposal(KeyCombo(("end",)))),
    ]
    agent = make(*decisions, rules=(ASK_CLICKS, twice))
    waiting = agent.run("go")
    assert agent.approve(waiting.run_id).outcome is Outcome.DONE


def test_blocked_action_approved_is_denied(
    make: Make, controller: PaintedController
) -> None:
    """As of a run that was asked about by an older version, which asked a user."""

    class Asking(Policy):
        def review(self, proposal: Proposal, context: ReviewContext) -> Ruling:
            return Ruling("ask", "clicks")

    blocked = act(Proposal(Click(1, 1), confirmation=BLOCK))
    waiting = make(blocked, policy=Asking()).run("go")
    assert waiting.outcome is Outcome.WAITING
    assert (
        denied_by(make(blocked).approve(waiting.run_id))
        == "blocked by the model's service"
    )
    assert controller.performed == []


def test_approved_action_is_reviewed_again(
    make: Make, controller: PaintedController
) -> None:
    clicks = act(Proposal(Click(1, 1)))
    waiting = make(clicks, rules=(ASK_CLICKS,)).run("go")
    assert waiting.outcome is Outcome.WAITING
    denying = make(clicks, rules=(Rule("deny", "no clicks", action="click"),))
    assert denied_by(denying.approve(waiting.run_id)) == "rule 1 'no clicks'"
    assert controller.performed == []
