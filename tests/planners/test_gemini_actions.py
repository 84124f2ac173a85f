"""Function calls of both dialects, and of none, as actions."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_vnc_use.planners.common.arguments import Unreadable, split_keys
from pytest_vnc_use.planners.common.toolset import FunctionCall
from pytest_vnc_use.planners.gemini import denorm_x
from pytest_vnc_use.planners.gemini.actions import DESKTOP, FunctionNames, read_confirmation, read_proposal
from pytest_vnc_use.planners.gemini.answers import extract_function_calls
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
    MouseDown,
    MouseUp,
    Move,
    OpenAddress,
    Scroll,
    TakeScreenshot,
    TypeText,
    Wait,
)

SCREEN = FrameRef("0" * 64, 1440, 900)
POINT = {"x": 500, "y": 500}


def action_of(name: str, args: dict[str, Any]) -> Action:
    return read_proposal(FunctionCall(name, args), SCREEN).action


@pytest.mark.parametrize("value", ["left", None, True, "nan", "inf", [1], 10**400])
def test_denorm_refuses_what_is_no_number(value: Any) -> None:
    with pytest.raises(Unreadable, match="must be a number"):
        denorm_x(value, 1440)


NEWER: list[tuple[str, dict[str, Any], Action]] = [
    ("click", POINT, Click(720, 450)),
    ("double_click", POINT, Click(720, 450, count=2)),
    ("triple_click", POINT, Click(720, 450, count=3)),
    ("middle_click", POINT, Click(720, 450, "middle")),
    ("right_click", POINT, Click(720, 450, "right")),
    ("mouse_down", POINT, MouseDown(720, 450)),
    ("mouse_up", POINT, MouseUp(720, 450)),
    ("move", POINT, Move(720, 450)),
    ("type", {"text": "Grüße 你好"}, TypeText("Grüße 你好")),
    ("type", {"text": "a", "press_enter": True}, TypeText("a", press_enter=True)),
    ("type", {"text": "a", **POINT}, TypeText("a", 720, 450)),
    ("drag_and_drop", {"start_x": 0, "start_y": 0, "end_x": 500, "end_y": 500}, Drag(0, 0, 720, 450)),
    ("wait", {}, Wait(1.0)),
    ("wait", {"seconds": 3}, Wait(3.0)),
    ("press_key", {"key": "enter"}, KeyCombo(("enter",))),
    ("press_key", {"key": "ctrl+a"}, KeyCombo(("ctrl", "a"))),
    ("key_down", {"key": "shift"}, KeyDown("shift")),
    ("key_up", {"key": "shift"}, KeyUp("shift")),
    ("hotkey", {"keys": ["ctrl", "shift", "p"]}, KeyCombo(("ctrl", "shift", "p"))),
    ("take_screenshot", {}, TakeScreenshot()),
    ("scroll", {**POINT, "direction": "down", "magnitude_in_wheel_clicks": 4}, Scroll(720, 450, "down", 4)),
    ("scroll", {**POINT, "direction": "down", "magnitude_in_pixels": 500}, Scroll(720, 450, "down", 4)),
    ("scroll", {**POINT, "direction": "down"}, Scroll(720, 450, "down", 3)),
]

DRIFT: list[tuple[str, dict[str, Any], Action]] = [
    ("search", {}, KeyCombo(("ctrl", "k"))),
    ("click", {"x": "500", "y": 500.0}, Click(720, 450)),
    ("click", {"x": 5000, "y": -5}, Click(1439, 0)),
    ("click", {"coordinate": [500, 500]}, Click(720, 450)),
    ("click", {"x": [500, 500]}, Click(720, 450)),
    ("mouse_click", POINT, Click(720, 450)),
    ("type", {"text": 42}, TypeText("42")),
    ("type", {"text": "a", "press_enter": "true"}, TypeText("a", press_enter=True)),
    ("type", {"text": ""}, TypeText("")),
    ("key", {"key": "Return"}, KeyCombo(("Return",))),
    ("open_url", {"url": "example.org"}, OpenAddress("example.org")),
    ("drag", {"source_x": 0, "source_y": 0, "target_x": 500, "target_y": 500}, Drag(0, 0, 720, 450)),
    ("drag_and_drop", {"start": [0, 0], "end": [500, 500]}, Drag(0, 0, 720, 450)),
    ("drag_and_drop", {"path": [[0, 0], [300, 300], [500, 500]]}, Drag(0, 0, 720, 450)),
    ("scroll", {"direction": "DOWN", "clicks": "2"}, Scroll(720, 450, "down", 2)),
    ("scroll", {"direction": "up", "magnitude": 9999}, Scroll(720, 450, "up", 9)),
]


@pytest.mark.parametrize(("name", "args", "action"), [*NEWER, *DRIFT])
def test_calls_become_actions(name: str, args: dict[str, Any], action: Action) -> None:
    assert action_of(name, args) == action


def test_every_predefined_function_is_in_table() -> None:
    """Those of the older dialect are in the tables of tests/sources."""
    assert {name for name, _, _ in NEWER} == set(DESKTOP)


@pytest.mark.parametrize(
    ("name", "args", "problem"),
    [
        ("bash", {"command": "ls"}, "no function 'bash'"),
        ("click", {"x": 5}, "'y' is missing"),
        ("click", {"x": "left", "y": 5}, "'x' must be a number, got 'left'"),
        ("type", {}, "'text' is missing"),
        ("scroll", {**POINT, "direction": "sideways"}, "must be up, down, left or right, got 'sideways'"),
        ("hotkey", {"keys": []}, "at least one key"),
        ("key_down", {"key": "ctrl+a"}, "must be one key"),
        ("drag_and_drop", {"x": 1, "y": 1}, "'end_x' is missing"),
        ("drag_and_drop", {"path": [1, 2]}, "pairs, got [1, 2]"),
    ],
)
def test_what_cannot_be_read_says_why(name: str, args: dict[str, Any], problem: str) -> None:
    action = action_of(name, args)
    assert isinstance(action, InvalidAction)
    assert action.name == name
    assert problem in action.problem


@pytest.mark.parametrize(
    ("keys", "split"),
    [
        ("+", ("+",)),
        ("ctrl++", ("ctrl", "+")),
        ("Digit_1", ("Digit_1",)),
        (" ", (" ",)),
        (["ctrl+k", "s"], ("ctrl", "k", "s")),
    ],
)
def test_split_keys(keys: Any, split: tuple[str, ...]) -> None:
    assert split_keys(keys) == split


def test_call_stays_as_it_came() -> None:
    args = {
        **POINT,
        "intent": "open it",
        "safety_decision": {"decision": "require_confirmation", "explanation": "pays"},
    }
    call = FunctionCall("click", args)
    proposal = read_proposal(call, SCREEN)
    assert proposal.intent == "open it"
    assert proposal.confirmation == Confirmation("pays")
    assert proposal.as_proposed == {"name": "click", "args": args}
    assert set(call.args) == {"x", "y", "intent", "safety_decision"}
    assert proposal.as_proposed["args"] is not args


@pytest.mark.parametrize(
    ("decision", "confirmation"),
    [
        ({"decision": "allow"}, None),
        ({"decision": "regular", "explanation": "fine"}, None),
        ({"decision": "require_confirmation", "explanation": "pays"}, Confirmation("pays")),
        ({"decision": "require_confirmation", "explanation": "x", "category": "y"}, Confirmation("x", "y")),
        ({"explanation": "pays"}, Confirmation("pays")),
        ({"decision": "", "explanation": "pays"}, Confirmation("pays")),
        ({"decision": "block"}, Confirmation("the model's safety decision is {'decision': 'block'}", blocks=True)),
        ({"decision": "BLOCK", "explanation": "harm"}, Confirmation("harm", blocks=True)),
        ({"decision": "allow all", "explanation": "harm"}, Confirmation("harm", blocks=True)),
        (
            {"decision": " Require_Confirmation "},
            Confirmation("the model's safety decision is {'decision': ' Require_Confirmation '}"),
        ),
        ("require_confirmation", Confirmation("the model's safety decision is 'require_confirmation'")),
        ([], Confirmation("the model's safety decision is []", blocks=True)),
    ],
)
def test_only_plain_go_needs_no_confirmation(decision: Any, confirmation: Confirmation | None) -> None:
    assert read_confirmation(decision) == confirmation


@pytest.mark.parametrize("name", ["safety_decision", "safetyDecision"])
def test_safety_decision_in_either_casing(name: str) -> None:
    args = {"text": "a", name: {"decision": "require_confirmation", "explanation": "pays"}}
    proposal = read_proposal(FunctionCall("add_user", args), SCREEN, FunctionNames({"add_user"}))
    assert proposal.confirmation == Confirmation("pays")
    assert proposal.action == CallFunction("add_user", {"text": "a"})
    assert proposal.as_proposed["args"] == args
    assert name in args


def test_go_beside_question_is_no_go() -> None:
    args = {**POINT, "safety_decision": {"decision": "allowed"}, "safetyDecision": {"decision": "require_confirmation"}}
    assert read_proposal(FunctionCall("click", args), SCREEN).confirmation is not None


def test_of_two_decisions_one_that_blocks_counts() -> None:
    asks, blocks = {"decision": "require_confirmation"}, {"decision": "block"}
    for first, second in ((asks, blocks), (blocks, asks)):
        args = {**POINT, "safety_decision": first, "safetyDecision": second}
        confirmation = read_proposal(FunctionCall("click", args), SCREEN).confirmation
        assert confirmation is not None
        assert confirmation.blocks


def test_own_functions_and_excluded_ones() -> None:
    call = FunctionCall("add_user", {"name": "alice", "intent": "needed"})
    assert read_proposal(call, SCREEN, FunctionNames({"add_user"})).action == CallFunction(
        "add_user", {"name": "alice"}
    )
    for name in ("navigate", "open_url"):
        refused = read_proposal(FunctionCall(name, {"url": "x"}), SCREEN, FunctionNames(excluded={"navigate"})).action
        assert isinstance(refused, InvalidAction)
        assert "'navigate' is excluded" in refused.problem


@pytest.mark.parametrize(
    ("excluded", "name", "args"),
    [
        ("type", "type_text_at", {**POINT, "text": "a"}),
        ("type_text_at", "type", {"text": "a"}),
        ("click_at", "click", POINT),
        ("scroll_document", "scroll", {"direction": "up"}),
        ("wait", "wait_5_seconds", {}),
        ("hotkey", "press_key", {"key": "ctrl+w"}),
        ("hotkey", "key_combination", {"keys": "Control+W"}),
        ("key_combination", "hotkey", {"keys": ["ctrl", "w"]}),
        ("press_key", "hotkey", {"keys": ["enter"]}),
        ("press_key", "key_combination", {"keys": "Enter"}),
    ],
)
def test_what_is_excluded_is_excluded_by_any_name(excluded: str, name: str, args: dict[str, Any]) -> None:
    action = read_proposal(FunctionCall(name, args), SCREEN, FunctionNames(excluded=["drag_and_drop", excluded])).action
    assert action == InvalidAction(name, f"{excluded!r} is excluded in this run; use another action")


@pytest.mark.parametrize(
    ("excluded", "name", "args"),
    [
        ("click", "double_click", POINT),
        ("hotkey", "press_key", {"key": "enter"}),
        ("hotkey", "key_combination", {"keys": "Enter"}),
        ("press_key", "hotkey", {"keys": ["ctrl", "w"]}),
        ("open_web_browser", "take_screenshot", {}),
    ],
)
def test_what_means_something_else_is_not_excluded(excluded: str, name: str, args: dict[str, Any]) -> None:
    action = read_proposal(FunctionCall(name, args), SCREEN, FunctionNames(excluded=[excluded])).action
    assert action == action_of(name, args)
    assert not isinstance(action, InvalidAction)


def test_extract_function_calls() -> None:
    parts = [
        {"text": "thinking", "thought": True},
        {"functionCall": {"id": "a", "name": "click", "args": POINT}, "thoughtSignature": "c2lnbmVk"},
        {"functionCall": {"name": "wait"}},
    ]
    calls = extract_function_calls({"role": "model", "parts": parts})
    assert calls == (FunctionCall("click", POINT, "a"), FunctionCall("wait", {}, ""))
    assert extract_function_calls({}) == ()


def test_browser_is_opened_where_windows_can_be() -> None:
    call, window = FunctionCall("open_web_browser", {}), OpenAddress("about:blank", in_new_window=True)
    assert read_proposal(call, SCREEN, FunctionNames(opens_windows=True)).action == window
    refused = read_proposal(call, SCREEN, FunctionNames(opens_windows=True, excluded={"open_web_browser"})).action
    assert isinstance(refused, InvalidAction)
