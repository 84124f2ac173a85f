"""An agent that acts by itself: its actions are steps of a run, and its thread ends with the run."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import Outcome, Policy, RunResult, VncUseAgent
from pytest_vnc_use.errors import ActionError, PlannerError, SettingsError
from pytest_vnc_use.harness import Agent
from pytest_vnc_use.planners.local.callables import as_planner
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Click, KeyCombo, Scroll, TakeScreenshot, TypeText, Wait
from support.gemini_conversations import History
from support.memory_desktop import PaintedController


class Typist(Agent):
    def act(self) -> bool:
        self.mouse_click(10, 20, button="right", click_type="double")
        self.type_text("hello")
        return self.finish({"typed": "hello"})


class Idler(Agent):
    def act(self) -> bool:
        return False


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "vnc-use harness"]


@pytest.fixture
def controller() -> PaintedController:
    return PaintedController()


@pytest.fixture
def desk(tmp_path: Path, controller: PaintedController) -> VncUseAgent:
    return VncUseAgent(settings=Settings(runs_dir=str(tmp_path), planner=""), controller=controller, policy=Policy())


def test_what_it_does_are_steps_of_a_run(desk: VncUseAgent, controller: PaintedController) -> None:
    result = Typist(desk, "Type hello").run(max_steps=5)
    assert (result.outcome, result.task, result.params) == (Outcome.DONE, "Type hello", {"typed": "hello"})
    assert controller.performed == [Click(10, 20, "right", 2), TypeText("hello")]
    assert [step.proposal.action for step in result.steps] == controller.performed
    assert threads() == []


def test_the_limit_of_steps_ends_it_and_its_thread(desk: VncUseAgent) -> None:
    assert Typist(desk, "Type hello").run(max_steps=1).outcome is Outcome.STEP_LIMIT
    for thread in threading.enumerate():
        if thread.name == "vnc-use harness":
            thread.join(10)
    assert threads() == []


def test_one_that_does_nothing_looks_until_the_limit(desk: VncUseAgent) -> None:
    result = Idler(desk, "Nothing").run(max_steps=3)
    assert result.outcome is Outcome.STEP_LIMIT
    assert {type(step.proposal.action) for step in result.steps} == {TakeScreenshot}


def test_an_action_that_is_refused_raises(
    desk: VncUseAgent, controller: PaintedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(action: object) -> None:
        raise ActionError(f"{action!r} is not on the screen")

    problems: list[str] = []
    monkeypatch.setattr(controller, "perform", refuse)

    class Careless(Agent):
        def act(self) -> bool:
            try:
                self.mouse_click(10**6, 20)
            except ActionError as problem:
                problems.append(str(problem))
            return True

    Careless(desk, "Click").run()
    assert "is not on the screen" in problems[0]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyError])
def test_its_own_error_breaks_the_run(desk: VncUseAgent, error: type[Exception]) -> None:
    class Broken(Agent):
        def act(self) -> bool:
            raise error("so it is")

    with pytest.raises(error, match="so it is"):
        Broken(desk, "Break").run()


def test_its_screenshot_is_the_screen_after_the_last_action(desk: VncUseAgent) -> None:
    seen: list[bytes] = []

    class Looking(Agent):
        def act(self) -> bool:
            seen.append(base64.b64decode(self.screenshot()))
            self.mouse_scroll(10, 20, "down", repeat=2)
            seen.append(base64.b64decode(self.screenshot()))
            self.press_keys("Ctrl+Shift+P")
            self.wait(0.0)
            return True

    result = Looking(desk, "Look").run()
    stored = [(result.run_folder / "screens" / f"{frame.digest}.png").read_bytes() for frame in frames(result)]
    assert seen == stored[:2]
    actions = [step.proposal.action for step in result.steps]
    assert actions == [Scroll(10, 20, "down", 2), KeyCombo(("Ctrl+Shift+P",)), Wait(0.0)]


def frames(result: RunResult) -> Sequence[Any]:
    return [result.steps[0].frame_before, *(step.frame_after for step in result.steps)]


def test_outside_of_a_run_its_hands_are_the_agents(desk: VncUseAgent, controller: PaintedController) -> None:
    agent = Typist(desk, "Type hello")
    agent.mouse_click(1, 2)
    assert controller.performed == [Click(1, 2)]
    assert base64.b64decode(agent.screenshot()).startswith(b"\x89PNG")


def test_without_a_desktop_it_says_what_it_needs() -> None:
    with pytest.raises(SettingsError, match=r"Typist needs a desktop: write Typist\(vnc_agent, task\)"):
        Typist().run()


# --- as a planner ----------------------------------------------------------------------------------------------------


def test_its_class_is_a_planner(history: History) -> None:
    planner: Any = as_planner(Typist)
    assert planner.name == f"harness ({__name__}:Typist)"
    first = history.observation()
    history.carry_out(planner.decide(first, timeout_s=5.0))
    history.carry_out(planner.decide(history.observation(), timeout_s=5.0))
    done = planner.decide(history.observation(), timeout_s=5.0)
    assert (done.kind, dict(done.params)) == ("finished", {"typed": "hello"})
    again = planner.decide(first, timeout_s=5.0)
    assert [proposal.action for proposal in again.proposals] == [Click(10, 20, "right", 2)]
    planner.end_run()


@pytest.fixture
def history() -> History:
    return History()


def test_where_a_run_goes_on_what_was_done_is_not_done_again(history: History) -> None:
    history.carry_out(Typist().decide(history.observation(), timeout_s=5.0))
    another = Typist()
    decision = another.decide(history.observation(), timeout_s=5.0)
    assert [proposal.action for proposal in decision.proposals] == [TypeText("hello")]
    another.end_run()


def test_one_that_does_something_else_then_is_told(history: History) -> None:
    other = replace(Typist().decide(history.observation(), timeout_s=5.0), proposals=(decided(Wait(1.0)),))
    history.carry_out(other)
    with pytest.raises(PlannerError, match="must repeat what it did"):
        Typist().decide(history.observation(), timeout_s=5.0)


def decided(action: Any) -> Any:
    return as_planner(lambda _: action).decide(History().observation(), timeout_s=1.0).proposals[0]


def test_one_that_takes_too_long_is_told(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_vnc_use.harness._LATE_S", 0.0)
    until: Callable[..., bool] = threading.Event().wait

    class Slow(Agent):
        def act(self) -> bool:
            return until(1.0)

    with pytest.raises(PlannerError, match=r"did not decide within 0\.1 s"):
        Slow().decide(history.observation(), timeout_s=0.1)


class Slow(Agent):
    """One that acts on after its run has ended."""

    def __init__(self, vnc_agent: VncUseAgent) -> None:
        super().__init__(vnc_agent, "Type hello")
        self.ended = threading.Event()

    def act(self) -> bool:
        try:
            self.mouse_click(10, 20)
            self.ended.wait(10)
            self.mouse_click(10, 20)
        finally:
            self.type_text("late")
        return False


def test_after_its_run_nothing_is_done(desk: VncUseAgent, controller: PaintedController) -> None:
    agent = Slow(desk)
    desk.settings = replace(desk.settings, seconds=2.0)
    others = {*threading.enumerate()}
    assert agent.run(max_steps=5).outcome is Outcome.TIME_LIMIT
    [thread] = [each for each in threading.enumerate() if each.name == "vnc-use harness" and each not in others]
    agent.ended.set()
    thread.join(10)
    assert not thread.is_alive()
    assert controller.performed == [Click(10, 20)]


class Sharing(Agent):
    """One that has another thread act."""

    def act(self) -> bool:
        with ThreadPoolExecutor(1) as others:
            others.submit(self.mouse_click, 10, 20).result(10)
        return True


def test_another_thread_may_not_act(desk: VncUseAgent, controller: PaintedController) -> None:
    with pytest.raises(ActionError, match="only the thread that calls `act` may act"):
        Sharing(desk, "Click").run(max_steps=1)
    assert controller.performed == []
