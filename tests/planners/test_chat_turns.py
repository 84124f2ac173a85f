"""The conversation with a tool-calling model, turn by turn, as the server sees it."""

from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.chat.planner import OpenAICompatible
from pytest_vnc_use.types import CallFunction, Click, Drag, InvalidAction, Move, Scroll, TypeText, Wait
from support.chat_conversations import chat
from support.chat_server import ChatRequest, call, calls, said

CLICK = call("click", x=500, y=500)
BATCH = call("batch", actions=[{"command": "wait"}, {"command": "press_key", "key": "F5"}])


def colours(request: ChatRequest) -> list[int]:
    """Return the colours of the screens of `History` that were sent."""
    pixels = [Image.open(io.BytesIO(png)).getpixel((0, 0)) for png in request.images]
    return [red + 256 * green for red, green, _ in pixels]


def test_what_is_sent_only_where_it_is_asked_for() -> None:
    with chat([CLICK]) as talk:
        talk.decide()
        assert not {"temperature", "parallel_tool_calls"} & set(talk.server.requests[0].body)
    with chat([call("left_click", coordinate=[1, 1])], toolset="computer_use", coordinates="pixels") as talk:
        talk.decide()
        [request] = talk.server.requests
    assert request.body["parallel_tool_calls"] is False
    assert set(request.tools) == {"computer_use"}
    assert "pixels of the newest screenshot, which has 1440 x 900 pixels" in request.texts[0]


def test_batch_costs_one_call_and_one_image() -> None:
    with chat([BATCH, CLICK]) as talk:
        talk.act()
        talk.act()
        request = talk.server.requests[1]
    assert len(talk.server.requests) == 2
    assert [tool["content"] for tool in request.of("tool")] == ["1. wait: ok\n2. press_key: ok"]
    assert colours(request) == [0, 2]


@pytest.mark.parametrize(
    ("toolset", "answer", "kind", "words"),
    [
        ("commands", calls(("task_complete", {}), words="It is open."), "finished", "It is open."),
        ("commands", calls(("wait", {}), ("task_failed", {"reason": "No basket."})), "gave_up", "No basket."),
        ("computer_use", call("computer_use", action="answer", text="3.00"), "finished", "3.00"),
        (
            "computer_use",
            calls(("computer_use", {"action": "terminate", "status": "success"}), words="It is open."),
            "finished",
            "It is open.",
        ),
        (
            "computer_use",
            call("computer_use", action="terminate", status="failure", text="No basket."),
            "gave_up",
            "No basket.",
        ),
    ],
)
def test_model_says_how_it_ends(toolset: str, answer: Any, kind: str, words: str) -> None:
    with chat([answer], toolset=toolset) as talk:
        decision = talk.decide()
    assert (decision.kind, decision.words, decision.proposals) == (kind, words, ())


def test_success_is_not_believed_beside_action() -> None:
    with chat([calls(("wait", {}), ("task_complete", {"summary": "Done."}))]) as talk:
        first, second = [proposal.action for proposal in talk.decide().proposals]
    assert first == Wait(1.0)
    assert isinstance(second, InvalidAction)
    assert second.problem == "call this on its own, once a screenshot shows that the task is done"


TWO = calls(("computer_use", {"action": "wait"}), ("computer_use", {"action": "wait"}), words="Both.")
MANY = calls(*[("wait", {})] * 21)


@pytest.mark.parametrize(
    ("toolset", "answer", "line"),
    [
        ("commands", said("I would click."), "you answered without a tool call, with 'I would click.'; answer with a"),
        ("commands", said(None), "you answered without a tool call, with nothing; answer with a short reason and a"),
        ("commands", said("[1] is the button"), "you answered without a tool call, with '[1] is the button'"),
        ("commands", said("I am", finish_reason="length"), "your answer was cut off at max_tokens=4096; answer with"),
        ("commands", calls(("wait", {}), finish_reason="length"), "your answer was cut off at max_tokens=4096"),
        ("commands", MANY, "one turn may hold 20 actions, got 21; nothing was performed"),
        ("computer_use", TWO, "one turn may hold 1 action, got 2; nothing was performed"),
    ],
)
def test_it_is_asked_for_again_with_line(toolset: str, answer: Any, line: str) -> None:
    with chat([answer, call("wait")], toolset=toolset) as talk:
        assert [proposal.action for proposal in talk.act().proposals] == [Wait(1.0)]
        again = talk.server.requests[1]
        assert [exchange.attempt for exchange in talk.exchanges] == [1, 2]
    assert again.texts[-1].startswith(f"Nothing was performed: {line}")
    assert again.messages[-2]["role"] == "assistant"
    assert line in talk.exchanges[0].error
    assert (talk.exchanges[0].retry_in_s, talk.exchanges[1].error) == (0.0, "")


def test_name_says_which_model_and_where() -> None:
    planner = OpenAICompatible("http://localhost:1234", "qwen3-vl-8b", "sk-key")
    assert planner.name == "openai-compatible (qwen3-vl-8b at localhost:1234)"


def stock_of(fruit: str) -> str:
    """How many of a fruit are in stock."""
    return f"3 {fruit}"


def test_function_of_user_is_command_too() -> None:
    batch = call("batch", actions='[{"name": "stock_of", "fruit": "pears"}]')
    with chat([call("stock_of", fruit="apples"), batch], functions=[stock_of]) as talk:
        assert talk.actions() == [CallFunction("stock_of", {"fruit": "apples"})]
        assert talk.actions() == [CallFunction("stock_of", {"fruit": "pears"})]
        offered = talk.server.requests[0].tools["stock_of"]
    assert offered["description"] == "How many of a fruit are in stock."
    assert offered["parameters"]["required"] == ["fruit"]


@pytest.mark.parametrize(
    ("toolset", "name", "answer"),
    [
        ("commands", "paste", call("paste", text="a")),
        ("commands", "paste", call("batch", actions=[{"command": "paste", "text": "a"}])),
        ("commands", "batch", call("batch", actions=[])),
        ("computer_use", "type", call("computer_use", action="type", text="a")),
    ],
)
def test_excluded_command_is_not_offered_nor_performed(toolset: str, name: str, answer: Any) -> None:
    with chat([answer], toolset=toolset, excluded_actions=[name]) as talk:
        [action] = talk.actions()
        tools = talk.server.requests[0].tools
    assert isinstance(action, InvalidAction)
    assert f"'{name}' is excluded in this run" in action.problem
    assert name not in tools
    assert f"'{name}'" not in str([tool["parameters"] for tool in tools.values()]).replace("'type': ", "")


def test_computer_use_without_point_acts_at_pointer() -> None:
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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"excluded_actions": ["clack"]}, r"excluded_actions must be among .*'click'.*, got \['clack'\]"),
        ({"toolset": "gestures"}, "toolset must be one of commands, computer_use, vnc_command, local_agent, got"),
        ({"coordinates": "percent"}, "coordinates must be one of 1000, pixels, got 'percent'"),
        ({"keep_screenshots": 0}, "keep_screenshots must be at least 1, got 0"),
    ],
)
def test_planner_wrong_setting_raises(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message), chat([], **settings):
        pass


def test_thoughts_of_newest_turns_are_sent_back() -> None:
    clicked = ("click", {"x": 500, "y": 500})
    script = [
        calls(clicked, words="<think>The first.</think>I click."),
        calls(clicked, words="I click.", reasoning_content="The second."),
        calls(clicked, words=f"<think>{'a' * 9000}</think>Go."),
        CLICK,
    ]
    with chat(script, keep_thoughts=2) as talk:
        for _ in range(4):
            talk.act()
        *_, last = talk.server.requests
    first, second, third = [message["content"] for message in last.of("assistant")]
    assert (first, second) == ("I click.", "<think>\nThe second.\n</think>\n\nI click.")
    assert len(third) < 2100
    assert third.endswith("(cut, of 9000 characters)\n</think>\n\nGo.")
