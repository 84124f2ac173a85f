"""What a model asks for and nobody can follow is told to it, in all dialects; nothing of a call is dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_vnc_use.planners.anthropic.actions import Call, read_calls
from pytest_vnc_use.planners.chat.answers import call_of
from pytest_vnc_use.planners.chat.toolsets import COMMANDS, COMPUTER_USE
from pytest_vnc_use.planners.common.screens import SentScreen
from pytest_vnc_use.planners.common.toolset import FunctionCall, ScreenArguments, Table, Toolset
from pytest_vnc_use.planners.gemini.actions import FunctionNames, offered_names, read_proposal
from pytest_vnc_use.planners.openai.actions import read_computer_call
from pytest_vnc_use.types import Action, Click, FrameRef, InvalidAction, KeyCombo, Proposal, Wait

SCREEN_1000 = FrameRef("0" * 64, 1000, 1000)
SENT = SentScreen(SCREEN_1000, 1000, 1000)
AT, PAIR = {"x": 100, "y": 50}, {"coordinate": [100, 50]}
OFFERED = offered_names("desktop", (), older=False)
Read = Callable[[str, dict[str, Any]], Action]


def gemini(name: str, args: dict[str, Any]) -> Action:
    return read_proposal(FunctionCall(name, args), SCREEN_1000, FunctionNames(offered=OFFERED)).action


def _toolset(table: Table, *args: Any) -> Toolset:
    return Toolset(table, *args, call_in=call_of)


def _tool(toolset: Toolset, call: FunctionCall) -> Proposal:
    reading = toolset.read(call, lambda args: ScreenArguments(args, SCREEN_1000))
    assert isinstance(reading, tuple)
    return reading[0]


def commands(name: str, args: dict[str, Any]) -> Action:
    return _tool(_toolset(COMMANDS), FunctionCall(name, args)).action


def qwen(name: str, args: dict[str, Any]) -> Action:
    return _tool(_toolset(COMPUTER_USE), FunctionCall("computer_use", {"action": name, **args})).action


def anthropic(name: str, args: dict[str, Any]) -> Action:
    return read_calls([Call("1", name, {"action": name, **args}, is_computer=True)], SENT)[0][0].action


def openai(name: str, args: dict[str, Any]) -> Action:
    return read_computer_call({"actions": [{"type": name, **args}]}, SENT)[0].action


def problem(action: Action) -> str:
    assert isinstance(action, InvalidAction), action
    return action.problem


@pytest.mark.parametrize(
    ("read", "name", "args", "told"),
    [
        (gemini, "click", {**AT, "button": "right"}, "'click' does not take button='right'; .*; there is right_click"),
        (gemini, "wait", {"ms": 3000}, "'wait' does not take ms=3000; its arguments: seconds, duration, time"),
        (gemini, "take_screenshot", {"region": [0, 0, 9, 9]}, r"does not take region=\[0, 0, 9, 9\]; .*: none"),
        (gemini, "type", {"text": "a", "delay": 5, "into": "name"}, "does not take delay=5, into='name'"),
        (commands, "click", {**AT, "modifiers": ["ctrl"]}, "its arguments: x, y, button"),
        (commands, "click", {**AT, "button": "back"}, "'button' must be left, middle, right, got 'back'"),
        (commands, "double_click", {**AT, "button": "right"}, "does not take button='right'; .*; there is right_click"),
        (
            commands,
            "batch",
            {"actions": [{"command": "wait"}], "stop": True},
            "does not take stop=True.*nothing was done",
        ),
        (commands, "batch", {"actions": [{"command": "wait", "arguments": {}, "ms": 3}]}, "does not take ms=3"),
        (qwen, "left_click", {**PAIR, "button": "right"}, "does not take button='right'; .*; there is right_click"),
        (qwen, "type", {"text": "a", "coordinate": [1, 1]}, r"does not take coordinate=\[1, 1\]"),
        (
            anthropic,
            "left_click",
            {**PAIR, "button": "right"},
            "does not take button='right'; .*; there is right_click",
        ),
        (anthropic, "type", {"text": "a", "press_enter": True}, "does not take press_enter=True"),
        (openai, "double_click", {**AT, "button": "right"}, "does not take button='right'"),
        (openai, "wait", {"ms": 3000}, "'wait' does not take ms=3000"),
    ],
)
def test_unknown_argument_is_told(read: Read, name: str, args: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        raise ValueError(problem(read(name, args)))


@pytest.mark.parametrize(
    ("read", "name", "args", "told"),
    [
        (gemini, "wait", {"seconds": 600}, "a wait takes 0 to 60 seconds, got 600"),
        (gemini, "scroll", {"direction": "up", "clicks": 0}, "more than 0 and at most 50 clicks of the wheel, got 0"),
        (gemini, "scroll", {"direction": "up", "clicks": 500}, "at most 50 clicks of the wheel, got 500"),
        (gemini, "type", {"text": "a", "press_enter": "maybe"}, "'press_enter' must be true or false, got 'maybe'"),
        (commands, "type_text", {"text": "a", "press_enter": 2}, "'press_enter' must be true or false, got 2"),
        (qwen, "scroll", {"pixels": 10**6}, "at most 50 clicks"),
        (anthropic, "wait", {"duration": 300}, "a wait takes 0 to 60 seconds"),
        (anthropic, "key", {"text": "a", "repeat": 1.5}, "'repeat' must be a whole number"),
        (anthropic, "scroll", {**PAIR, "scroll_direction": "up", "scroll_amount": 0}, "more than 0"),
        (openai, "scroll", {**AT, "scroll_y": 10**6}, "at most 50 clicks"),
    ],
)
def test_value_that_nobody_can_follow_is_told(read: Read, name: str, args: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        raise ValueError(problem(read(name, args)))


@pytest.mark.parametrize(
    ("read", "name", "args", "action"),
    [
        (commands, "click", {**AT, "button": "right"}, Click(100, 50, "right")),
        (gemini, "click", {**AT, "button": None}, Click(100, 50)),
        (gemini, "wait", {"seconds": 2, "reason": "it loads", "intent": "to see"}, Wait(2.0)),
        (commands, "wait", {"seconds": 2, "thought": "it loads"}, Wait(2.0)),
        (qwen, "left_click", {**PAIR, "text": "", "keys": []}, Click(100, 50)),
        (gemini, "press_key", {"key": "alt f"}, KeyCombo(("alt", "f"))),
        (openai, "keypress", {"keys": ["alt f"]}, KeyCombo(("alt", "f"))),
        (commands, "press_key", {"key": "ctrl shift page down"}, KeyCombo(("ctrl", "shift", "page down"))),
    ],
)
def test_what_can_be_followed_is(read: Read, name: str, args: dict[str, Any], action: Action) -> None:
    assert read(name, args) == action


def test_reason_for_call_is_its_intent() -> None:
    assert read_proposal(FunctionCall("wait", {"reason": "it loads"}), SCREEN_1000).intent == "it loads"
    assert _tool(_toolset(COMMANDS), FunctionCall("wait", {"thought": "it loads"})).intent == "it loads"


def test_what_stands_beside_arguments_belongs_to_them() -> None:
    item = {"name": "wait", "arguments": {"seconds": 1}, "ms": 3, "id": "call-1", "type": "function"}
    assert call_of(item) == FunctionCall("wait", {"seconds": 1, "ms": 3})


def test_list_of_commands_in_error_is_one_offered() -> None:
    def stock_of(fruit: str) -> str:
        """How many are in stock."""
        return fruit

    toolset = _toolset(COMMANDS, [stock_of], ["paste", "go_back"])
    told = problem(_tool(toolset, FunctionCall("copy", {})).action)
    names = [declaration.name for declaration in toolset.declarations]
    assert told == f"there is no command 'copy'; there are {', '.join(names)}"
    assert {"batch", "stock_of", "task_complete", "click"} <= set(names)
    assert not {"paste", "go_back"} & set(names)
    assert set(COMMANDS.rows) - {"paste", "go_back"} < set(names)


def test_list_of_actions_of_qwens_tool_is_one_offered() -> None:
    told = problem(
        _tool(_toolset(COMPUTER_USE, (), ["hscroll"]), FunctionCall("computer_use", {"action": "copy"})).action
    )
    assert "left_click, " in told
    assert "terminate" in told
    assert "hscroll" not in told


def test_list_of_geminis_functions_is_one_offered() -> None:
    offered = offered_names("desktop", ["drag_and_drop", "hotkey"], older=False)
    told = problem(read_proposal(FunctionCall("bash", {}), SCREEN_1000, FunctionNames(offered=offered)).action)
    assert told == f"there is no function 'bash'; there are {', '.join(offered)}"
    assert {"click", "done", "task_failed"} <= set(offered)
    assert not {"drag_and_drop", "hotkey", "click_at", "navigate"} & set(offered)
    assert "navigate" in offered_names("browser", (), older=False)
    assert "click_at" in offered_names("browser", (), older=True)


def test_list_of_openais_actions_leaves_out_what_is_excluded() -> None:
    [refused] = read_computer_call({"actions": [{"type": "zoom"}]}, SENT, excluded=["drag"])
    assert problem(refused.action).startswith("there is no action 'zoom'; there are click, double_click, keypress, ")
