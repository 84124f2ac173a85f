"""The actions of OpenAI's computer tool, one by one: what each becomes, and what is told where it makes no sense."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_vnc_use.planners.common.screens import SentScreen
from pytest_vnc_use.planners.openai.actions import (
    read_computer_call,
    read_confirmation,
    read_function_call,
)
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Confirmation,
    Drag,
    FrameRef,
    InvalidAction,
    KeyCombo,
    KeyDown,
    KeyUp,
    Move,
    Scroll,
    TakeScreenshot,
    TypeText,
    Wait,
)

HALF = SentScreen(FrameRef("", 2000, 1000), 1000, 500)
"""A screen of which an image half as wide and high is sent."""

AT = {"x": 100, "y": 50}
HERE = (201, 101)


def actions_of(*actions: Any) -> list[Action]:
    return [proposal.action for proposal in read_computer_call({"actions": list(actions)}, HALF)]


@pytest.mark.parametrize(
    ("asked", "actions"),
    [
        ({"type": "click", "button": "left", **AT}, [Click(*HERE)]),
        ({"type": "click", "button": "right", **AT}, [Click(*HERE, button="right")]),
        ({"type": "click", "button": "wheel", **AT}, [Click(*HERE, button="middle")]),
        (
            {"type": "click", "button": "left", **AT, "keys": ["CTRL", "SHIFT"]},
            [KeyDown("CTRL"), KeyDown("SHIFT"), Click(*HERE), KeyUp("SHIFT"), KeyUp("CTRL")],
        ),
        ({"type": "double_click", **AT}, [Click(*HERE, count=2)]),
        ({"type": "move", **AT}, [Move(*HERE)]),
        ({"type": "drag", "path": [{"x": 0, "y": 0}, {"x": 9, "y": 9}, AT]}, [Drag(1, 1, *HERE)]),
        ({"type": "drag", "path": [[0, 0], [100, 50]]}, [Drag(1, 1, *HERE)]),
        ({"type": "drag", "path": [AT, AT], "keys": ["ALT"]}, [KeyDown("ALT"), Drag(*HERE, *HERE), KeyUp("ALT")]),
        ({"type": "scroll", **AT, "scroll_x": 0, "scroll_y": 300}, [Scroll(*HERE, "down", 3)]),
        ({"type": "scroll", **AT, "scroll_x": 0, "scroll_y": -40}, [Scroll(*HERE, "up", 1)]),
        ({"type": "scroll", **AT, "scrollX": -200, "scrollY": 0}, [Scroll(*HERE, "left", 2)]),
        (
            {"type": "scroll", **AT, "scroll_x": 100, "scroll_y": 5000},
            [Scroll(*HERE, "down", 50), Scroll(*HERE, "right", 1)],
        ),
        ({"type": "type", "text": "a\nb "}, [TypeText("a\nb ")]),
        ({"type": "keypress", "keys": ["CTRL", "A"]}, [KeyCombo(("CTRL", "A"))]),
        ({"type": "keypress", "keys": ["ENTER"]}, [KeyCombo(("ENTER",))]),
        ({"type": "keypress", "keys": ["DOWN", "DOWN"]}, [KeyCombo(("DOWN",)), KeyCombo(("DOWN",))]),
        ({"type": "wait"}, [Wait(2.0)]),
        ({"type": "screenshot"}, [TakeScreenshot()]),
    ],
)
def test_action(asked: Any, actions: list[Action]) -> None:
    assert actions_of(asked) == actions
    assert [proposal.action for proposal in read_computer_call({"action": asked}, HALF)] == actions


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"type": "click", "button": "back", **AT}, "'button' must be left, right or wheel, got 'back'"),
        ({"type": "click", "x": "left", "y": 2}, "'x' must be a number, got 'left'"),
        ({"type": "click", "x": 1001, "y": 2}, "'x' must lie on the screenshot, 0 to 999, got 1001"),
        ({"type": "click", **AT, "keys": 5}, "'keys' must be a key or a list of keys, got 5"),
        ({"type": "drag", "path": [AT]}, "'path' must be a list of at least two points"),
        ({"type": "drag", "path": [AT, 5]}, "a point of 'path' must be"),
        ({"type": "scroll", **AT}, "'scroll_x' or 'scroll_y' must be a number of pixels other than 0"),
        ({"type": "type", "text": 5}, "'text' must be text, got 5"),
        ({"type": "navigate", "url": "x"}, "there is no action 'navigate'; there are click, .*, wait"),
        ("click", "there is no action 'computer'; there are click"),
    ],
)
def test_nonsense_is_told_in_one_line(asked: Any, problem: str) -> None:
    [action] = actions_of(asked)
    assert isinstance(action, InvalidAction)
    assert "\n" not in action.problem
    with pytest.raises(ValueError, match=problem):
        raise ValueError(action.problem)


@pytest.mark.parametrize("actions", ["click", {"type": "click"}, [{"type": "wait"}] * 21])
def test_call_without_list_of_actions_does_nothing(actions: Any) -> None:
    [proposal] = read_computer_call({"actions": actions}, HALF)
    assert isinstance(proposal.action, InvalidAction)
    assert "a list of 1 to 20 actions; nothing was done" in proposal.action.problem


def test_empty_call_is_told() -> None:
    [action] = actions_of()
    assert isinstance(action, InvalidAction)


def test_what_was_asked_is_kept() -> None:
    [proposal] = read_computer_call({"actions": [{"type": "click", **AT}]}, HALF)
    assert proposal.as_proposed == {"name": "click", "args": AT}
    held = read_computer_call({"actions": [{"type": "move", **AT, "keys": ["ALT"]}]}, HALF)
    assert [proposal.as_proposed for proposal in held] == [
        {"name": "move", "args": {"key_down": {"key": "ALT"}}},
        {"name": "move", "args": {"move": {"x": 201, "y": 101}}},
        {"name": "move", "args": {"key_up": {"key": "ALT"}}},
    ]


@pytest.mark.parametrize(
    ("checks", "confirmation"),
    [
        (None, None),
        ([], None),
        ("unsafe", None),
        ([{"id": "1", "code": "a", "message": "A."}], Confirmation("A.", "a")),
        ([{"id": "1", "code": "a"}, {"id": "2", "message": "B."}, {"id": "3"}], Confirmation("a; B.; 3", "a")),
    ],
)
def test_safety_checks(checks: Any, confirmation: Confirmation | None) -> None:
    assert read_confirmation(checks) == confirmation


@pytest.mark.parametrize(
    ("name", "arguments", "action"),
    [
        ("users", '{"name": "al"}', CallFunction("users", {"name": "al"})),
        ("users", "", CallFunction("users", {})),
        ("users", "[1]", InvalidAction("users", "the arguments of 'users' must be a JSON object")),
        ("bash", "{}", InvalidAction("bash", "there is no function 'bash'; use one of those that you were given")),
    ],
)
def test_function_call(name: str, arguments: str, action: Action) -> None:
    [proposal] = read_function_call({"name": name, "arguments": arguments}, functions=["users"])
    assert proposal.action == action


def test_arguments_not_json() -> None:
    [proposal] = read_function_call({"name": "users", "arguments": "{name: al}"}, functions=["users"])
    assert isinstance(proposal.action, InvalidAction)
    assert "the arguments of 'users' must be JSON" in proposal.action.problem
