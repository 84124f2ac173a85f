"""An agent's timing, read and changed between its runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from gemini_server import GeminiServer, hang, text
from painted import ListPlanner, PaintedController, act, finished

from pytest_vnc_use import Limits, Outcome, VncUseAgent
from pytest_vnc_use.settings import Settings
from pytest_vnc_use.trace import read_trace
from pytest_vnc_use.types import Click, Proposal, Wait


def test_timing_that_is_replaced_holds_from_the_next_run_on(tmp_path: Path) -> None:
    controller = PaintedController()
    clicks = [act(Proposal(Click(place, 1))) for place in range(3)]
    planner = ListPlanner([*clicks, finished()])
    agent = VncUseAgent(settings=Settings(runs_dir=str(tmp_path)), planner=planner, controller=controller)
    before = agent.run("Click")
    assert (before.outcome, controller.performed) == (Outcome.DONE, [Click(0, 1), Click(1, 1), Click(2, 1)])

    agent.settings = dataclasses.replace(agent.settings, step_delay=0.01, steps=1, seconds=60.0, stall=5)
    controller.performed.clear()
    after = agent.run("Click")
    assert (after.outcome, controller.performed) == (Outcome.STEP_LIMIT, [Click(0, 1), Wait(0.01)])
    assert read_trace(after.run_folder).started.limits == Limits(steps=1, seconds=60.0, stall=5)


def test_how_long_a_request_may_take_holds_from_the_next_run_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with GeminiServer([text("done"), hang(), text("done")]) as server:
        monkeypatch.setenv("GOOGLE_API_KEY", server.api_key)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        settings = Settings(planner="gemini", runs_dir=str(tmp_path), seconds=60.0)
        agent = VncUseAgent(settings=settings, controller=PaintedController())
        assert agent.run("Look").outcome is Outcome.DONE
        assert agent.planner is agent.planner

        agent.settings = dataclasses.replace(agent.settings, request_seconds=3.0)
        assert agent.run("Look").outcome is Outcome.DONE
        assert len(server.requests) == 3
