"""An agent's timing, read and changed between its runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use import Limits, Outcome, VncUseAgent
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Click, DesktopAction, Proposal, Settled, Wait
from support.memory_desktop import ListPlanner, PaintedController, act, finished


def test_timing_replaced_holds_from_next_run_on(tmp_path: Path) -> None:
    controller = PaintedController()
    clicks = [act(Proposal(Click(place, 1))) for place in range(3)]
    planner = ListPlanner([*clicks, finished()])
    agent = VncUseAgent(settings=Settings(runs_dir=str(tmp_path)), planner=planner, controller=controller)
    before = agent.run("Click")
    assert (before.outcome, controller.performed) == (Outcome.DONE, [Click(0, 1), Click(1, 1), Click(2, 1)])

    agent.settings = dataclasses.replace(agent.settings, step_delay=0.01, max_steps=1, max_seconds=60.0)
    controller.performed.clear()
    after = agent.run("Click")
    assert (after.outcome, controller.performed) == (Outcome.STEP_LIMIT, [Click(0, 1), Wait(0.01)])
    assert read_trace(after.run_dir).started.limits == Limits(steps=1, seconds=60.0)


class Noting(PaintedController):
    """A desktop that notes what it is asked to do, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[str] = []

    def settle(self, *, briefly: bool = False) -> Settled:
        self.noted.append("settle")
        return super().settle(briefly=briefly)

    def perform(self, action: DesktopAction) -> None:
        self.noted.append("perform")
        super().perform(action)


@pytest.mark.parametrize(
    "do", [lambda agent: agent.type_text("a"), lambda agent: agent.key("a"), lambda agent: agent.run("Type a")]
)
def test_first_action_waits_for_first_screen(do: Callable[[VncUseAgent], object], tmp_path: Path) -> None:
    controller, planner = Noting(), ListPlanner([act(Proposal(Click(1, 1))), finished()])
    agent = VncUseAgent(settings=Settings(runs_dir=str(tmp_path)), planner=planner, controller=controller)
    do(agent)
    agent.key("b")
    assert controller.noted == ["settle", "perform", "settle", "perform", "settle"]
