"""What the commands and batches of tool-calling models mean, and Qwen's computer_use."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Drag,
    InvalidAction,
    KeyCombo,
    Move,
    OpenAddress,
    Scroll,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)
from support.chat_conversations import chat
from support.chat_server import call, calls
from support.gemini_conversations import History

STARTED = History()
MIDDLE = {"x": 500, "y": 500}


def stock_of(fruit: str) -> str:
    """How many of a fruit are in stock."""
    return f"3 {fruit}"


def meaning(name: str, arguments: Any, **settings: Any) -> list[Action]:
    with chat([calls((name, arguments))], history=STARTED, **settings) as talk:
        return [proposal.action for proposal in talk.decide().proposals]


def problem(actions: list[Action]) -> str:
    [action] = actions
    assert isinstance(action, InvalidAction)
    return action.problem


@pytest.mark.parametrize(
    ("name", "arguments", "action"),
    [
        ("click", MIDDLE, Click(720, 450)),
        ("click", {"x": "500", "y": 500.4}, Click(720, 450)),
        ("click", {"coordinate": [500, 500]}, Click(720, 450)),
        ("click", {"box": [[400, 400], [600, 600]]}, Click(720, 450)),
        ("click", {"point": "(500, 500)"}, Click(720, 450)),
        ("click", {"x": -7, "y": 2000}, Click(0, 899)),
        ("double_click", MIDDLE, Click(720, 450, count=2)),
        ("right_click", MIDDLE, Click(720, 450, "right")),
        ("move", MIDDLE, Move(720, 450)),
        ("drag", {"from_x": 0, "from_y": 0, "to_x": 500, "to_y": 500}, Drag(0, 0, 720, 450)),
        ("drag", {"start_point": [0, 0], "end_box": [400, 400, 600, 600]}, Drag(0, 0, 720, 450)),
        ("scroll", {"direction": "down"}, Scroll(720, 450, "down", 3)),
        ("scroll", {"direction": "Up", "clicks": 5, "x": 0, "y": 0}, Scroll(0, 0, "up", 5)),
        ("scroll", {"direction": "down", "clicks": -4}, Scroll(720, 450, "up", 4)),
        ("scroll", {"direction": "left", "amount": "5e1"}, Scroll(720, 450, "left", 50)),
        ("type_text", {"text": "añ\n"}, TypeText("añ\n")),
        ("type_text", {"text": "a", "press_enter": "true"}, TypeText("a", press_enter=True)),
        ("type_text", {"text": "a", **MIDDLE}, TypeText("a", 720, 450)),
        ("paste", {"text": "日本"}, TypeText("日本")),
        ("press_key", {"key": "Ctrl+Shift+P"}, KeyCombo(("Ctrl", "Shift", "P"))),
        ("press_key", {"key": 1}, KeyCombo(("1",))),
        ("press_key", {"keys": ["ctrl", "+"]}, KeyCombo(("ctrl", "+"))),
        ("wait", {}, Wait(1.0)),
        ("wait", {"seconds": "2.5"}, Wait(2.5)),
        ("open_address", {"address": "example.org"}, OpenAddress("example.org")),
        ("go_back", {}, TraverseHistory("back")),
        ("go_forward", {}, TraverseHistory("forward")),
        ("take_screenshot", {}, TakeScreenshot()),
    ],
)
def test_commands(name: str, arguments: Any, action: Action) -> None:
    assert meaning(name, arguments) == [action]


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("clack", MIDDLE, "there is no command 'clack'; there are click, double_click"),
        ("click", {}, "a point is missing: give x and y"),
        ("click", {"x": 5}, "a point must be [x, y], or a box [x1, y1, x2, y2], in numbers, got {'x': 5}"),
        ("click", '{"x": 5', "the arguments must be a JSON object, got '{\"x\": 5'"),
        ("click", '{"x": NaN, "y": 1}', 'the arguments must be a JSON object, got \'{"x": NaN'),
        ("click", '{"x":' * 300 + "1" + "}" * 300, "the arguments must be a JSON object, got"),
        ("drag", {"from_x": 0, "from_y": 0}, "a point is missing: give to_x and to_y"),
        ("scroll", {"direction": "back"}, "'direction' must be up, down, left or right, got 'back'"),
        ("type_text", {}, "'text' is missing"),
        ("wait", {"seconds": "long"}, "'seconds' must be a number, got 'long'"),
    ],
)
def test_what_cannot_be_read_is_told_to_model(name: str, arguments: Any, told: str) -> None:
    with chat([calls((name, arguments)), call("task_complete", summary="Done.")]) as talk:
        decision = talk.decide()
        said = problem([proposal.action for proposal in decision.proposals])
        talk.history.carry_out(decision, error=said)
        assert told in said
        assert talk.decide().kind == "finished"
        assert told in talk.server.requests[-1].of("tool")[0]["content"]


def test_coordinates_may_be_pixels() -> None:
    assert meaning("click", MIDDLE, coordinates="pixels") == [Click(500, 500)]
    assert meaning("click", {"x": 1440, "y": 900}, coordinates="pixels") == [Click(1439, 899)]


def test_users_functions_are_commands_too() -> None:
    with chat([call("stock_of", fruit="apples"), call("batch", actions=[{"name": "stock_of", "fruit": "pears"}])],
              functions=[stock_of]) as talk:  # fmt: skip
        assert talk.actions() == [CallFunction("stock_of", {"fruit": "apples"})]
        assert talk.actions() == [CallFunction("stock_of", {"fruit": "pears"})]
        offered = talk.server.requests[0].tools["stock_of"]
    assert offered["description"] == "How many of a fruit are in stock."
    assert offered["parameters"]["required"] == ["fruit"]


def test_excluded_command_is_neither_offered_nor_carried_out() -> None:
    with chat([calls(("paste", {"text": "a"})), call("batch", actions=[{"command": "paste", "text": "a"}])],
              excluded_actions=["paste"]) as talk:  # fmt: skip
        assert "'paste' is excluded in this run" in problem(talk.actions())
        assert "'paste' is excluded in this run" in problem(talk.actions())
        tools = talk.server.requests[0].tools
    assert "paste" not in tools
    assert (
        "paste" not in tools["batch"]["parameters"]["properties"]["actions"]["items"]["properties"]["command"]["enum"]
    )
    assert "is excluded" in problem(meaning("batch", {"actions": []}, excluded_actions=["batch"]))


TYPE_A = {"command": "type_text", "arguments": {"text": "a"}}


@pytest.mark.parametrize(
    "item",
    [
        TYPE_A,
        {"name": "type_text", "args": {"text": "a"}},
        {"action": "type_text", "text": "a"},
        {"command": "type_text", "arguments": '{"text": "a"}'},
        {"type": "function", "function": {"name": "type_text", "arguments": '{"text": "a"}'}},
    ],
)
def test_batch_is_one_turn_of_several_actions(item: Any) -> None:
    with chat([call("batch", actions=[{"command": "click", "arguments": MIDDLE}, item])]) as talk:
        decision = talk.decide()
    assert [proposal.action for proposal in decision.proposals] == [Click(720, 450), TypeText("a")]
    assert decision.proposals[1].as_proposed == {"name": "type_text", "args": {"text": "a"}}
    assert decision.stop_at_error
    assert len(talk.server.requests) == 1


def test_batch_may_hold_twenty_actions_and_be_written_as_text() -> None:
    assert meaning("batch", {"actions": [TYPE_A] * 20}) == [TypeText("a")] * 20
    assert meaning("batch", {"actions": '[{"command": "wait"}]'}) == [Wait(1.0)]


@pytest.mark.parametrize(
    ("actions", "got"), [([TYPE_A] * 21, 21), ([], 0), ("click", 0), ({"command": "wait"}, 0), (None, 0)]
)
def test_batch_of_too_many_actions_or_none_is_refused_whole(actions: Any, got: int) -> None:
    told = problem(meaning("batch", {"actions": actions}))
    assert told == f"'actions' must be a list of 1 to 20 commands, got {got}; nothing was done"


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ({"command": "batch", "actions": [TYPE_A]}, "'batch' cannot stand in a batch; call it on its own"),
        ({"command": "task_complete", "summary": ""}, "'task_complete' cannot stand in a batch"),
        ({"command": "task_failed"}, "'task_failed' cannot stand in a batch"),
        ({"command": "clack"}, "there is no command 'clack'"),
        ({"text": "a"}, "an action of a batch must be {'command': …, 'arguments': …}, got {'text': 'a'}"),
        ("click", "an action of a batch must be {'command': …, 'arguments': …}, got 'click'"),
        ({"command": "click", "arguments": "5, 5"}, "an action of a batch must be"),
    ],
)
def test_bad_action_of_batch_stands_at_its_place(item: Any, told: str) -> None:
    first, bad, last = meaning("batch", {"actions": [TYPE_A, item, TYPE_A]})
    assert (first, last) == (TypeText("a"), TypeText("a"))
    assert told in problem([bad])


@pytest.mark.parametrize(
    ("arguments", "action"),
    [
        ({"action": "left_click", "coordinate": [500, 500]}, Click(720, 450)),
        ({"action": "right_click", "coordinate": [500, 500]}, Click(720, 450, "right")),
        ({"action": "middle_click", "coordinate": [500, 500]}, Click(720, 450, "middle")),
        ({"action": "double_click", "coordinate": [500, 500]}, Click(720, 450, count=2)),
        ({"action": "mouse_move", "coordinate": "[500, 500]"}, Move(720, 450)),
        ({"action": "left_click_drag", "start_coordinate": [0, 0], "coordinate": [500, 500]}, Drag(0, 0, 720, 450)),
        ({"action": "scroll", "pixels": -500}, Scroll(720, 450, "down", 5)),
        ({"action": "scroll", "pixels": 3, "coordinate": [0, 0]}, Scroll(0, 0, "up", 1)),
        ({"action": "hscroll", "pixels": -200}, Scroll(720, 450, "left", 2)),
        ({"action": "key", "keys": ["ctrl", "c"]}, KeyCombo(("ctrl", "c"))),
        ({"action": "type", "text": "a"}, TypeText("a")),
        ({"action": "wait", "time": 2}, Wait(2.0)),
        ({"action": "screenshot"}, TakeScreenshot()),
    ],
)
def test_computer_use(arguments: Any, action: Action) -> None:
    assert meaning("computer_use", arguments, toolset="computer_use") == [action]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"action": "dance"}, "there is no action 'dance'; there are key, type"),
        ({"action": "left_click"}, "a point is missing: give x and y"),
        ({"action": "scroll"}, "'pixels' must be a number above 0 for up, below 0 for down, got 0"),
        ({"action": "terminate", "status": ["success"]}, "'status' must be success or failure, got ['success']"),
        ({"action": "answer"}, "'text' is missing"),
        ("left_click", "the arguments must be a JSON object, got 'left_click'"),
    ],
)
def test_what_computer_use_cannot_mean(arguments: Any, told: str) -> None:
    assert told in problem(meaning("computer_use", arguments, toolset="computer_use"))


def test_without_point_computer_use_goes_on_where_pointer_is() -> None:
    script = [
        call("computer_use", action="mouse_move", coordinate=[500, 500]),
        call("computer_use", action="left_click_drag", coordinate=[0, 0]),
        call("computer_use", action="type", text="a"),
        call("left_click"),
        call("computer_use", action="scroll", pixels=-100),
    ]
    with chat(script, toolset="computer_use") as talk:
        actions = [talk.actions()[0] for _ in script]
    assert actions == [Move(720, 450), Drag(720, 450, 0, 0), TypeText("a"), Click(0, 0), Scroll(0, 0, "down", 1)]


def test_excluded_action_of_computer_use() -> None:
    settings = {"toolset": "computer_use", "excluded_actions": ["type"]}
    assert "'type' is excluded" in problem(meaning("computer_use", {"action": "type", "text": "a"}, **settings))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"excluded_actions": ["clack"]}, r"excluded_actions must be among .*'click'.*, got \['clack'\]"),
        ({"toolset": "gestures"}, "toolset must be one of commands, computer_use, vnc_command, local_agent, got"),
        ({"coordinates": "percent"}, "coordinates must be one of 1000, pixels, got 'percent'"),
        ({"keep_screenshots": 0}, "keep_screenshots must be at least 1, got 0"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=told), chat([], **settings):
        pass
