"""While a model thinks the screen is watched: an answer about a screen that is gone is
asked for again.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use import Outcome, RunResult, VncUseAgent
from pytest_vnc_use.agent.nodes import MAX_REPLANS, STALE
from pytest_vnc_use.errors import AnswerRefused, ConnectionLost
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Click, Decision, Observation, Proposal, Usage, Wait
from support.memory_desktop import (
    ListPlanner,
    PaintedController,
    act,
    finished,
    painted,
)

Runs = Callable[..., RunResult]
CLICK = act(Proposal(Click(10, 10)))
COSTS = Usage(100, 10, 5, 2)


class Model:
    """The port Planner, as a model: before answer n the screen is painted in shade n of
    `shades`; 0 leaves it.
    """

    name = "model"

    def __init__(
        self, controller: PaintedController, shades: list[int], *decisions: Decision
    ) -> None:
        self._controller = controller
        self._shades = iter(shades)
        self._decisions = [
            dataclasses.replace(decision, model="m-1", usage=COSTS)
            for decision in decisions
        ]
        self.seen: list[Observation] = []

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        self.seen.append(observation)
        self._controller.other_than_painted = (
            next(self._shades, 0) or self._controller.other_than_painted
        )
        return self._decisions[len(observation.turns)]


@pytest.fixture
def run(controller: PaintedController, tmp_path: Path) -> Callable[..., RunResult]:
    def run_with(planner: object, **settings: object) -> RunResult:
        agent = VncUseAgent(
            settings=Settings(runs_dir=str(tmp_path), **settings),  # type: ignore[arg-type]
            controller=controller,
            planner=planner,  # type: ignore[arg-type]
        )
        return agent.run("look")

    return run_with


def test_stale_answer_is_asked_again_and_counted(
    controller: PaintedController, run: Runs
) -> None:
    model = Model(controller, [77, 0, 78], CLICK, finished())
    result = run(model)
    assert (result.outcome, controller.performed) == (Outcome.DONE, [Click(10, 10)])
    frames = [observation.frame for observation in model.seen]
    assert frames == [painted(shade).ref for shade in (0, 77, 77, 78)], (
        "an end too is asked again"
    )
    assert model.seen[1].turns == ()
    (step,) = result.steps
    assert step.frame_before == painted(77).ref
    assert step.repeated_requests == 1
    assert step.note == ""
    assert step.usage == COSTS + COSTS
    assert result.usage == COSTS + COSTS + COSTS + COSTS
    assert "asked again once: the screen changed" in result.transcript
    assert [
        turn.decision.repeated_requests for turn in read_trace(result.run_dir).turns
    ] == [1, 1]


def test_stale_answer_is_used_after_maximum_repeats(
    controller: PaintedController, run: Runs
) -> None:
    model = Model(controller, [*range(71, 71 + MAX_REPLANS + 1)], CLICK, finished())
    result = run(model)
    assert len(model.seen) == MAX_REPLANS + 2
    assert controller.performed == [Click(10, 10)]
    (step,) = result.steps
    assert (step.repeated_requests, step.note) == (MAX_REPLANS, STALE)
    assert model.seen[-1].turns[0].decision.stale


@pytest.mark.parametrize(
    ("decision", "watch"), [(CLICK, False), (act(Proposal(Wait(0.1))), True)]
)
def test_unwatched_answer_or_wait_is_asked_once(
    controller: PaintedController, run: Runs, decision: Decision, watch: bool
) -> None:
    model = Model(controller, [77], decision, finished())
    run(model, watch=watch)
    assert len(model.seen) == 2


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [(None, Outcome.TIME_LIMIT), (AnswerRefused("SAFETY"), Outcome.BLOCKED)],
)
def test_stale_answer_counts_in_run_that_ends(
    controller: PaintedController, run: Runs, reason: Exception | None, outcome: Outcome
) -> None:
    released = threading.Event()

    class Ends(Model):
        def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
            if self.seen and reason:
                raise reason
            if self.seen:
                released.wait()
            return super().decide(observation, timeout_s=timeout_s)

    result = run(Ends(controller, [77], CLICK), max_seconds=60.0 if reason else 1.0)
    released.set()
    assert (result.outcome, result.usage, result.steps) == (outcome, COSTS, ())
    assert controller.performed == []


def test_lost_desktop_raises_while_model_thinks(
    controller: PaintedController, run: Runs
) -> None:
    answered = threading.Event()

    def hang() -> Decision:
        controller.close()
        answered.wait()
        return finished()

    with pytest.raises(ConnectionLost, match="closed"):
        run(ListPlanner([hang]), max_seconds=60.0)
    answered.set()
