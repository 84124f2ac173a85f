"""A class of agents plans tests: its actions are steps of a run, and its thread ends
with the run.
"""

from __future__ import annotations

import base64
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use import Outcome, Policy, RunResult, VncUseAgent
from pytest_vnc_use.errors import ActionError, AgentFailed
from pytest_vnc_use.harness import (
    Agent,
    MouseButton,
    MouseClickAction,
    MouseClickType,
    MouseDragAction,
    Position,
    ScrollAction,
    ScrollDirection,
    record_action,
)
from pytest_vnc_use.planners.local.callables import as_planner
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    Click,
    KeyCombo,
    Limits,
    MouseDown,
    MouseUp,
    Move,
    Scroll,
    TypeText,
    Wait,
)
from support.memory_desktop import PaintedController
from support.players import History

CLICK = MouseClickAction(position=Position(10, 20))


@dataclass(kw_only=True)
class Typist(Agent):
    task: str = ""
    model: str = "none"

    def act(self) -> bool:
        self.mouse_click(
            MouseClickAction(MouseButton.RIGHT, Position(10, 20), MouseClickType.DOUBLE)
        )
        self.type_text("hello")
        return self.finish({"typed": "hello"})


def threads() -> list[threading.Thread]:
    return [
        thread for thread in threading.enumerate() if thread.name == "vnc-use harness"
    ]


@pytest.fixture
def controller() -> PaintedController:
    return PaintedController()


@pytest.fixture
def desk(tmp_path: Path, controller: PaintedController) -> VncUseAgent:
    return VncUseAgent(
        settings=Settings(runs_dir=str(tmp_path), planner=""),
        controller=controller,
        policy=Policy(),
    )


def run(desk: VncUseAgent, agent: Any, steps: int = 5) -> RunResult:
    return desk.run(
        "Type hello", planner=agent, limits=Limits(steps, desk.settings.max_seconds, 3)
    )


def test_actions_of_class_become_steps(
    desk: VncUseAgent, controller: PaintedController
) -> None:
    result = run(desk, Typist)
    assert result.outcome == Outcome.DONE
    assert result.task == "Type hello"
    assert result.params == {"typed": "hello"}
    assert controller.performed == [Click(10, 20, "right", 2), TypeText("hello")]
    assert [step.proposal.action for step in result.steps] == controller.performed
    for thread in threads():
        thread.join(10)
    assert threads() == []


def test_class_without_super_post_init_plans(
    desk: VncUseAgent, controller: PaintedController
) -> None:
    class Plain(Agent):
        def __post_init__(self) -> None:
            self.text = "hello"

        def act(self) -> bool:
            self.type_text(self.text)
            return True

    assert run(desk, Plain).outcome is Outcome.DONE
    assert controller.performed == [TypeText("hello")]


def test_rejected_action_raises_in_act_and_ends_run(
    desk: VncUseAgent, controller: PaintedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(action: object) -> None:
        raise ActionError("it is not on the screen")

    monkeypatch.setattr(controller, "perform", refuse)

    class Careless(Agent):
        def act(self) -> bool:
            with pytest.raises(ActionError, match="is not on the screen"):
                self.mouse_click(CLICK)
            raise KeyError("so it is")

    with pytest.raises(AgentFailed, match="raised KeyError: 'so it is'"):
        run(desk, Careless)


def test_screenshot_shows_screen_after_last_action(desk: VncUseAgent) -> None:
    seen: list[bytes] = []
    sizes: list[object] = []

    class Looking(Agent):
        def __post_init__(self) -> None:
            super().__post_init__()
            seen.append(base64.b64decode(self.screenshot()))

        def act(self) -> bool:
            self.mouse_scroll(
                ScrollAction(Position(10, 20), ScrollDirection.DOWN, repeat=2)
            )
            seen.append(base64.b64decode(self.screenshot()))
            sizes.append((self.client_resolution(), self.check_task_success()))
            self.scratch()
            return True

        @record_action
        def scratch(self) -> None:
            self.mouse_drag(
                MouseDragAction(MouseButton.RIGHT, Position(1, 2), Position(3, 4))
            )
            self.press_keys(["Ctrl+Shift+P"])
            self.wait(0.0)

    result = run(desk, Looking, 9)
    frames = result.steps[0].frame_before, result.steps[0].frame_after
    assert seen == [
        (result.run_dir / "screens" / f"{frame.digest}.png").read_bytes()
        for frame in frames
    ]
    assert sizes == [((320, 200), None)]
    assert [step.proposal.action for step in result.steps] == [
        Scroll(10, 20, "down", 2),
        MouseDown(1, 2, "right"),
        Move(3, 4),
        MouseUp(3, 4, "right"),
        KeyCombo(("Ctrl+Shift+P",)),
        Wait(0.0),
    ]


def test_class_decides_action_by_action() -> None:
    history = History()
    planner: Any = as_planner(Typist)
    assert planner.name == f"harness ({__name__}:Typist)"
    first = history.observation()
    history.perform(planner.decide(first, timeout_s=5.0))
    other: Any = as_planner(Typist)
    continued = other.decide(history.observation(), timeout_s=5.0)
    assert [proposal.action for proposal in continued.proposals] == [
        TypeText("hello")
    ], "no action is repeated"
    other.end_run()
    history.perform(planner.decide(history.observation(), timeout_s=5.0))
    done = planner.decide(history.observation(), timeout_s=5.0)
    assert (done.kind, dict(done.params)) == ("finished", {"typed": "hello"})
    again = planner.decide(first, timeout_s=5.0)
    assert [proposal.action for proposal in again.proposals] == [
        Click(10, 20, "right", 2)
    ]
    planner.end_run()


class Late(Agent):
    """One that acts on when its run has ended."""

    def act(self) -> bool:
        try:
            self.mouse_click(CLICK)
        finally:
            self.type_text("late")
        return False


def test_action_after_run_is_not_performed(
    desk: VncUseAgent, controller: PaintedController
) -> None:
    others = {*threading.enumerate()}
    assert run(desk, Late, 1).outcome is Outcome.STEP_LIMIT
    for thread in {*threads()} - others:
        thread.join(10)
    assert {*threads()} <= others
    assert controller.performed == [Click(10, 20)]
