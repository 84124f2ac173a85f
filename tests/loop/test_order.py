"""The order of nodes: a replay runs in a plain loop; LangGraph takes over where a model plans or a person is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.errors import BudgetExceeded, ModelUnavailable, RunFolderError
from pytest_vnc_use.loop.checkpoints import CHECKPOINTS
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Click, Confirmation, Decision, Observation, Outcome, Proposal
from support.json_server import JsonServer, Posted, Reply
from support.memory_desktop import ListPlanner, PaintedController, act, finished
from support.paths import TESTS

FIRST, SECOND, THIRD = Click(10, 10), Click(20, 20), Click(30, 30)
RISKY = Proposal(Click(50, 50), "buy", confirmation=Confirmation("this spends money"))


class RecordedTurns(ListPlanner):
    """A planner whose first `replayed` turns are from a recording."""

    def __init__(self, *decisions: Decision | Callable[[], Decision], replayed: int) -> None:
        super().__init__(decisions)
        self._replayed = replayed
        self.is_live = False

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        self.is_live = len(observation.turns) >= self._replayed
        return super().decide(observation, timeout_s=timeout_s)


@pytest.fixture
def controller() -> PaintedController:
    return PaintedController()


@pytest.fixture
def agent_of(controller: PaintedController, tmp_path: Path) -> Callable[..., VncUseAgent]:
    def build(planner: ListPlanner, **options: object) -> VncUseAgent:
        settings = Settings(runs_dir=str(tmp_path / "runs"))
        return VncUseAgent(settings=settings, controller=controller, planner=planner, **options)  # type: ignore[arg-type]

    return build


def test_a_replay_writes_no_checkpoint(agent_of: Callable[..., VncUseAgent], controller: PaintedController) -> None:
    def last() -> Decision:
        assert not (agent.runs[-1] / CHECKPOINTS).exists()
        return finished("done")

    turns = RecordedTurns(act(Proposal(FIRST), Proposal(SECOND)), act(Proposal(THIRD)), last, replayed=9)
    agent = agent_of(turns)
    result = agent.run("look")
    assert (result.outcome, result.message) == (Outcome.DONE, "done")
    assert [(step.number, step.turn) for step in result.steps] == [(1, 1), (2, 1), (3, 2)]
    assert controller.performed == [FIRST, SECOND, THIRD]


def test_a_model_goes_on_where_the_replay_ended(
    agent_of: Callable[..., VncUseAgent], controller: PaintedController
) -> None:
    turns = RecordedTurns(act(Proposal(FIRST)), act(Proposal(SECOND), Proposal(THIRD)), finished("done"), replayed=1)
    result = agent_of(turns).run("look")
    assert (result.outcome, result.message) == (Outcome.DONE, "done")
    assert [(step.number, step.turn) for step in result.steps] == [(1, 1), (2, 2), (3, 2)]
    assert controller.performed == [FIRST, SECOND, THIRD]
    assert [len(each.turns) for each in turns.seen] == [0, 1, 2]


def test_a_run_that_broke_goes_on_after_the_model_took_over(
    agent_of: Callable[..., VncUseAgent], controller: PaintedController
) -> None:
    outage = iter([ModelUnavailable("no answer")])

    def last() -> Decision:
        for error in outage:
            raise error
        return finished("done")

    turns = RecordedTurns(act(Proposal(FIRST)), act(Proposal(SECOND)), last, replayed=1)
    agent = agent_of(turns)
    with pytest.raises(ModelUnavailable):
        agent.run("look")
    result = agent.resume(agent.runs[-1].name)
    assert (result.outcome, len(result.steps)) == (Outcome.DONE, 2)
    assert controller.performed == [FIRST, SECOND]


def test_a_replay_that_broke_does_not_go_on(agent_of: Callable[..., VncUseAgent]) -> None:
    def last() -> Decision:
        raise ModelUnavailable("no answer")

    agent = agent_of(RecordedTurns(act(Proposal(FIRST)), last, replayed=9))
    with pytest.raises(ModelUnavailable):
        agent.run("look")
    with pytest.raises(RunFolderError, match="a replay leaves none, so run its test again"):
        agent.resume(agent.runs[-1].name)


def test_a_replay_waits_for_a_person_too(agent_of: Callable[..., VncUseAgent], controller: PaintedController) -> None:
    agent = agent_of(RecordedTurns(act(Proposal(FIRST), RISKY, Proposal(SECOND)), finished(), replayed=9))
    waiting = agent.run("buy")
    assert waiting.outcome is Outcome.WAITING
    assert controller.performed == [FIRST]
    assert agent.approve(waiting.run_id).outcome is Outcome.DONE
    assert controller.performed == [FIRST, RISKY.action, SECOND]


def test_the_budget_ends_a_replay_too(agent_of: Callable[..., VncUseAgent]) -> None:
    class Spent(RecordedTurns):
        def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
            raise BudgetExceeded("all spent")

    result = agent_of(Spent(replayed=9)).run("look")
    assert (result.outcome, result.message) == (Outcome.BUDGET, "all spent")


def test_what_a_replay_imports_does_not_import_langgraph() -> None:
    code = "import sys, pytest_vnc_use.agent.agent; print(sorted({'langgraph', 'langsmith'} & sys.modules.keys()))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=400)
    assert ended.stdout == "[]\n"


TRACED = """
import sys

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.settings.settings import Settings
from support.memory_desktop import PaintedController
from test_order import FIRST, RISKY, RecordedTurns, act, finished
from pytest_vnc_use.types import Proposal

turns = RecordedTurns(act(Proposal(FIRST)), act(Proposal(FIRST), RISKY), finished("done"), replayed=1)
settings = Settings(runs_dir=sys.argv[1])
agent = VncUseAgent(settings=settings, controller=PaintedController(), planner=turns)
agent.approve(agent.run("a task").run_id)
from langchain_core.tracers.langchain import wait_for_all_tracers

wait_for_all_tracers()
"""


@pytest.mark.slow
def test_nothing_of_a_run_is_traced(tmp_path: Path) -> None:
    """LangGraph would send the state to the address in LANGSMITH_ENDPOINT, where a model takes over too."""

    def accept(_: Posted) -> Reply:
        return Reply({})

    with JsonServer(accept, accept) as server:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (TESTS, TESTS / "loop", TESTS.parent))),
            "LANGSMITH_TRACING": "true",
            "LANGSMITH_ENDPOINT": server.url,
            "LANGSMITH_API_KEY": "a-key",
        }
        command = [sys.executable, "-c", TRACED, str(tmp_path)]
        subprocess.run(command, env=environment, check=True, timeout=400)
        assert server.requests == []
