"""The planner that follows a script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pytest_vnc_use.errors import AgentFailed
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner, ScriptedTurn
from pytest_vnc_use.types import Click, Decision, Observation, Proposal, TypeText, Wait
from pytest_vnc_use.types.protocols import Planner
from support.gemini_conversations import History

GAVE_UP = Decision("gave_up", "There is no basket.")
TURNS: list[ScriptedTurn] = [
    [Click(1, 2), TypeText("alice")],
    [Proposal(Click(3, 4), "open the basket")],
    GAVE_UP,
]


def decide(planner: Planner, history: History) -> Decision:
    return planner.decide(history.observation(), timeout_s=1.0)


def generated() -> Iterator[ScriptedTurn]:
    yield from TURNS


def by_number(observation: Observation) -> ScriptedTurn:
    return TURNS[len(observation.turns)]


@pytest.mark.parametrize("script", [TURNS, generated(), by_number])
def test_turns_are_followed_in_order(history: History, script: Any) -> None:
    planner = ScriptedPlanner(script)
    first = decide(planner, history)
    assert [proposal.action for proposal in first.proposals] == [Click(1, 2), TypeText("alice")]
    history.carry_out(first)
    second = decide(planner, history)
    assert second.proposals == (Proposal(Click(3, 4), "open the basket"),)
    history.carry_out(second)
    assert decide(planner, history) == GAVE_UP


def test_after_its_last_turn_it_has_finished(history: History) -> None:
    planner = ScriptedPlanner([[Wait(1.0)]])
    history.carry_out(decide(planner, history))
    finished = decide(planner, history)
    assert (finished.kind, finished.words) == ("finished", "the script is at its end")


@pytest.mark.parametrize("turn", [[], None, ["click"], [None]])
def test_turn_none_is_error(history: History, turn: Any) -> None:
    with pytest.raises(AgentFailed, match="a scripted turn must"):
        decide(ScriptedPlanner([turn]), history)
