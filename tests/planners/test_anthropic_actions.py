"""Claude's actions, one by one: what each becomes on the screen, and what is told where it makes no sense."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_vnc_use.planners.anthropic.actions import MEMBERS, Call, read_calls
from pytest_vnc_use.planners.common.screens import SentScreen
from pytest_vnc_use.types import (
    Action,
    Click,
    Drag,
    FrameRef,
    InvalidAction,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    Scroll,
    TakeScreenshot,
    TypeText,
    Wait,
)

HALF = SentScreen(FrameRef("", 2000, 1000), 1000, 500)
"""A screen of which an image half as wide and high is sent."""

AT = {"coordinate": [100, 50]}
HERE = (201, 101)


def actions_of(name: str, values: Any, pointer: tuple[int, int] | None = None) -> list[Action]:
    [proposals] = read_calls([Call("id", name, values, is_computer=True)], HALF, pointer=pointer)
    assert {proposal.as_proposed["name"] for proposal in proposals} == {name}
    assert len(proposals) > 1 or proposals[0].as_proposed["args"] == values
    return [proposal.action for proposal in proposals]


@pytest.mark.parametrize(
    ("name", "values", "actions"),
    [
        ("screenshot", {}, [TakeScreenshot()]),
        ("left_click", AT, [Click(*HERE)]),
        ("right_click", AT, [Click(*HERE, button="right")]),
        ("middle_click", AT, [Click(*HERE, button="middle")]),
        ("double_click", AT, [Click(*HERE, count=2)]),
        ("triple_click", AT, [Click(*HERE, count=3)]),
        ("left_click", {"coordinate": ["100", 49.6]}, [Click(201, 100)]),
        ("left_click", {**AT, "text": "shift"}, [KeyDown("shift"), Click(*HERE), KeyUp("shift")]),
        ("left_click_drag", {"start_coordinate": [0, 0], **AT}, [Drag(1, 1, *HERE)]),
        (
            "left_click_drag",
            {"start_coordinate": [0, 0], **AT, "text": "alt"},
            [KeyDown("alt"), Drag(1, 1, *HERE), KeyUp("alt")],
        ),
        ("mouse_move", AT, [Move(*HERE)]),
        ("scroll", {**AT, "scroll_direction": "down", "scroll_amount": 5}, [Scroll(*HERE, "down", 5)]),
        (
            "scroll",
            {**AT, "scroll_direction": "up", "scroll_amount": 2, "text": "ctrl"},
            [KeyDown("ctrl"), Scroll(*HERE, "up", 2), KeyUp("ctrl")],
        ),
        ("type", {"text": "a\nb "}, [TypeText("a\nb ")]),
        ("key", {"text": "ctrl+shift+Escape"}, [KeyCombo(("ctrl", "shift", "Escape"))]),
        ("key", {"text": "Down", "repeat": 3}, [KeyCombo(("Down",))] * 3),
        (
            "hold_key",
            {"text": "ctrl+w", "duration": 2},
            [KeyDown("ctrl"), KeyDown("w"), Wait(2), KeyUp("w"), KeyUp("ctrl")],
        ),
        ("wait", {"duration": 3}, [Wait(3.0)]),
    ],
)
def test_action(name: str, values: Any, actions: list[Action]) -> None:
    assert actions_of(name, values) == actions


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("left_click", Click(7, 8)),
        ("left_mouse_down", MouseDown(7, 8)),
        ("left_mouse_up", MouseUp(7, 8)),
    ],
)
def test_without_coordinate_it_is_where_pointer_is(name: str, action: Action) -> None:
    assert actions_of(name, {}, (7, 8)) == [action]
    [unknown] = actions_of(name, {})
    assert isinstance(unknown, InvalidAction)
    assert "the pointer was not moved yet" in unknown.problem


def test_pointer_moves_with_calls_of_batch() -> None:
    named: list[tuple[str, Any]] = [
        ("left_click", {}),
        ("mouse_move", AT),
        ("left_click", {}),
        ("left_click_drag", {"start_coordinate": [100, 50], "coordinate": [0, 0]}),
        ("key", {"text": "a"}),
        ("double_click", {}),
    ]
    read = read_calls([Call("id", *each, is_computer=True) for each in named], HALF, pointer=(7, 8))
    clicks = [proposal.action for proposals in read for proposal in proposals if isinstance(proposal.action, Click)]
    assert clicks == [Click(7, 8), Click(*HERE), Click(1, 1, count=2)]


@pytest.mark.parametrize(
    ("name", "values", "problem"),
    [
        ("left_click", {"coordinate": 5}, r"'coordinate' must be \[x, y\], got 5"),
        ("left_click", {"coordinate": ["left", 2]}, "'x' must be a number, got 'left'"),
        ("left_click", {"coordinate": [float("inf"), 2]}, "'x' must be a number, got inf"),
        ("left_click", {"coordinate": [1, 501]}, "'y' must lie on the screenshot, 0 to 499, got 501"),
        ("left_click", {**AT, "text": 5}, "'keys' must be a key"),
        ("left_click_drag", AT, "'start_coordinate' is missing"),
        ("scroll", {**AT, "scroll_direction": "down"}, "'scroll_amount' is missing"),
        ("scroll", {**AT, "scroll_direction": "in", "scroll_amount": 1}, "must be up, down, left or right, got 'in'"),
        ("type", {"text": ["a"]}, "'text' must be text"),
        ("key", {"text": "Down", "repeat": 100}, "'repeat' must be a whole number, 1 to 20, got 100"),
        ("zoom", {"region": [0, 0, 9, 9]}, "'zoom' is not available here; look at the newest screenshot"),
        ("cursor_position", {}, "it was not moved yet"),
        ("bash", {"command": "ls"}, "there is no tool 'bash'"),
    ],
)
def test_nonsense_is_told_in_one_line(name: str, values: Any, problem: str) -> None:
    [action] = actions_of(name, values)
    assert isinstance(action, InvalidAction)
    assert "\n" not in action.problem
    with pytest.raises(ValueError, match=problem):
        raise ValueError(action.problem)


def test_cursor_position_is_told() -> None:
    [action] = actions_of("cursor_position", {}, (7, 8))
    assert isinstance(action, InvalidAction)
    assert "you last moved it to pixel (7, 8)" in action.problem


def test_member_is_one_only_of_computer() -> None:
    """Names of members are not reserved: a tool of the user's may have one, without the toolset's name."""
    for name in sorted(MEMBERS):
        [[proposal]] = read_calls([Call("id", name, {}, is_computer=False)], HALF)
        assert isinstance(proposal.action, InvalidAction)
