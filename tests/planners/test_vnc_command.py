"""The tools `vnc_command` and `action_queue`: what each command means, and the rules that the model is told."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_vnc_use.agent.run import Timing
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.functions import VERIFY
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Decision,
    Drag,
    InvalidAction,
    KeyCombo,
    Move,
    Proposal,
    Scroll,
    TakeScreenshot,
    TypeText,
    Wait,
)
from support.chat_conversations import chat
from support.chat_server import call, calls
from support.gemini_conversations import History

MIDDLE = {"x": 500, "y": 500}
LISTED = "1. button 'Save' at (500, 500), [490, 490, 510, 510]\n2. link 'a at (9, 9), [1]' at (250, 100), [0, 0, 9, 9]"


def list_elements() -> str:
    """List the elements."""
    return LISTED


def meaning(command: str, history: History | None = None, **arguments: Any) -> Action:
    asked = call("vnc_command", command=command, **arguments)
    with chat([asked], vocabulary="vnc_command", history=history, functions=[list_elements]) as talk:
        [proposal] = talk.decide().proposals
    return proposal.action


@pytest.mark.parametrize(
    ("command", "arguments", "action"),
    [
        ("mouse_click", MIDDLE, Click(720, 450)),
        ("mouse_click", {**MIDDLE, "button": "middle"}, Click(720, 450, "middle")),
        ("mouse_click", {**MIDDLE, "button": "right", "count": 2}, Click(720, 450, "right", 2)),
        ("mouse_click", {"x": 50, "y": 50, "units": "percent"}, Click(720, 450)),
        ("mouse_click", {"x": 720, "y": 450, "units": "pixels"}, Click(720, 450)),
        ("mouse_click", {**MIDDLE, "units": "normalized"}, Click(720, 450)),
        ("mouse_click", {"params": MIDDLE}, Click(720, 450)),
        ("mouse_move", MIDDLE, Move(720, 450)),
        ("mouse_drag", {"from_x": 0, "from_y": 0, "to_x": 500, "to_y": 500}, Drag(0, 0, 720, 450)),
        ("key_tap", {"key": "Enter"}, KeyCombo(("Enter",))),
        ("key_combo", {"keys": ["ctrl", "shift", "p"]}, KeyCombo(("ctrl", "shift", "p"))),
        ("key_combo", {"keys": "ctrl+a"}, KeyCombo(("ctrl", "a"))),
        ("scroll_at_position", {**MIDDLE, "direction": "down", "clicks": 4}, Scroll(720, 450, "down", 4)),
        ("scroll_at_position", {**MIDDLE, "direction": "down", "pixels": 300}, Scroll(720, 450, "down", 3)),
        ("type_text", {"text": "a", "press_enter": True}, TypeText("a", press_enter=True)),
        ("paste", {"text": "é"}, TypeText("é")),
        ("wait", {"ms": 250}, Wait(0.25)),
        ("wait", {}, Wait(1.0)),
        ("observe_screen", {}, TakeScreenshot()),
    ],
)
def test_what_a_command_means(command: str, arguments: dict[str, Any], action: Action) -> None:
    assert meaning(command, **arguments) == action


@pytest.mark.parametrize(
    ("command", "arguments", "problem"),
    [
        ("mouse_click", {**MIDDLE, "button": "back"}, "'button' must be left, middle, right, got 'back'"),
        ("mouse_click", {**MIDDLE, "count": 4}, "'count' must be 1, 2 or 3, got 4"),
        ("mouse_click", {**MIDDLE, "units": "inches"}, "'units' must be normalized, percent, pixels, got 'inches'"),
        ("mouse_click", {**MIDDLE, "modifiers": ["ctrl"]}, "does not take modifiers"),
        ("key_tap", {"key": "ctrl+a"}, "'key' must be one key, got ('ctrl', 'a'); there is key_combo"),
        ("wait", {"ms": 600_000}, "a wait takes 0 to 60 seconds, got 600"),
        ("wait", {"seconds": 3}, "does not take seconds=3"),
        ("click_element", {"index": 1}, "got 1; call list_elements first"),
        ("fly", {}, "'command' must be one of mouse_click, mouse_move"),
        ("mouse_click", {"params": "middle"}, "the arguments of 'mouse_click' must be an object, got {"),
        ("type_text", {"text": {"line": 1}}, "'text' must be text, got {'line': 1}"),
        ("paste", {"text": ["a"]}, "'text' must be text, got ['a']"),
    ],
)
def test_what_cannot_be_followed_is_told(command: str, arguments: dict[str, Any], problem: str) -> None:
    action = meaning(command, **arguments)
    assert isinstance(action, InvalidAction)
    assert problem in action.problem


@pytest.fixture
def listed() -> History:
    """A run that has listed the elements."""
    history = History()
    history.carry_out(Decision("act", proposals=(Proposal(CallFunction("list_elements", {})),)), output=LISTED)
    history.carry_out(Decision("act", proposals=(Proposal(Wait(0.1)),)))
    return history


def test_an_element_is_clicked_by_its_number(listed: History) -> None:
    assert meaning("click_element", listed, index=1) == Click(720, 450)
    assert meaning("click_element", listed, index=2, button="right", count=2) == Click(360, 90, "right", 2)
    unknown = meaning("click_element", listed, index=3)
    assert isinstance(unknown, InvalidAction)
    assert "got 3; the newest list has 1 to 2" in unknown.problem


def test_a_queue_is_a_batch_and_a_command_may_be_called_by_its_own_name() -> None:
    queue = [{"command": "mouse_click", **MIDDLE}, {"command": "key_tap", "params": {"key": "F5"}}]
    with chat([call("action_queue", actions=queue), call("observe_screen")], vocabulary="vnc_command") as talk:
        assert talk.actions() == [Click(720, 450), KeyCombo(("F5",))]
        assert talk.actions() == [TakeScreenshot()]
        tools = talk.server.requests[0].tools
    names = {"vnc_command", "action_queue", "observe_screen", "get_timing", "configure", "task_complete", "task_failed"}
    assert set(tools) == names
    assert tools["action_queue"]["parameters"]["properties"]["actions"]["maxItems"] == 20


def test_a_queue_of_too_many_is_refused() -> None:
    with chat([call("action_queue", actions=[{"command": "wait"}] * 21)], vocabulary="vnc_command") as talk:
        [refused] = talk.actions()
    assert isinstance(refused, InvalidAction)
    assert "must be a list of 1 to 20 commands, got 21" in refused.problem


def test_excluded_commands_are_neither_offered_nor_carried_out() -> None:
    asked = call("vnc_command", command="paste", text="a")
    with chat([asked], vocabulary="vnc_command", excluded_actions=["paste", "action_queue"]) as talk:
        [refused] = talk.actions()
        tools = talk.server.requests[0].tools
    assert isinstance(refused, InvalidAction)
    assert "'paste' is excluded in this run" in refused.problem
    assert "action_queue" not in tools
    assert "paste" not in tools["vnc_command"]["parameters"]["properties"]["command"]["enum"]
    with (
        pytest.raises(SettingsError, match=r"got \['fly'\]"),
        chat([], vocabulary="vnc_command", excluded_actions=["fly"]),
    ):
        pass


# --- rules -----------------------------------------------------------------------------------------------------------

RULES = (prompts.ADDRESS_BAR_RULE, prompts.PASTE_RULE, prompts.SCROLL_RULE)


@pytest.mark.parametrize("vocabulary", ["commands", "vnc_command"])
def test_the_prompt_says_how_a_desktop_is_used_well(vocabulary: str) -> None:
    with chat([call("observe_screen"), call("observe_screen")], vocabulary=vocabulary) as talk:
        talk.decide()
        prompt = talk.server.requests[0].texts[0]
    assert all(rule in prompt for rule in RULES)
    assert "Enter, never Escape" in prompt
    assert prompts.VERIFY_RULE not in prompt
    assert prompts.ELEMENTS_RULE not in prompt


def test_a_rule_about_a_function_is_for_models_that_have_it() -> None:
    with chat([call("observe_screen")], vocabulary="vnc_command", functions=[list_elements, VERIFY]) as talk:
        talk.decide()
        prompt = talk.server.requests[0].texts[0]
    assert prompts.VERIFY_RULE in prompt
    assert prompts.ELEMENTS_RULE in prompt


# --- timing ----------------------------------------------------------------------------------------------------------


def test_the_timing_is_read_and_changed() -> None:
    timing = Timing(0.5, {"step_delay": 0.5, "seconds": 300.0})
    functions = timing.functions()
    assert functions["get_timing"]() == "step_delay_ms: 500\nseconds_ms: 300000"
    assert functions["configure"](step_delay_ms=40) == "step_delay_ms: 40\nseconds_ms: 300000"
    assert timing.step_delay_s == 0.04
    for wrong in (-1, 60_000, True):
        with pytest.raises(ValueError, match=f"step_delay_ms must be 0 to 10000, got {wrong}"):
            functions["configure"](step_delay_ms=wrong)


def test_both_are_calls_of_functions() -> None:
    both = calls(("get_timing", {}), ("configure", {"step_delay_ms": 5}))
    with chat([both], vocabulary="vnc_command") as talk:
        assert talk.actions() == [CallFunction("get_timing", {}), CallFunction("configure", {"step_delay_ms": 5})]
