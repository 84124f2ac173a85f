"""The conversation with a tool-calling model, turn by turn, as the server sees it."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from PIL import Image

from pytest_vnc_use.planners.chat.planner import OpenAICompatible
from pytest_vnc_use.types import InvalidAction, Turn, Wait
from support.chat_conversations import chat
from support.chat_server import MODEL, ChatRequest, ChatServer, call, calls, said
from support.gemini_conversations import QUICK, History

CLICK = call("click", x=500, y=500)
BATCH = call("batch", actions=[{"command": "wait"}, {"command": "press_key", "key": "F5"}])


def colours(request: ChatRequest) -> list[int]:
    """Return the colours of the screens of `History` that were sent."""
    pixels = [Image.open(io.BytesIO(png)).getpixel((0, 0)) for png in request.images]
    return [red + 256 * green for red, green, _ in pixels]


def test_first_request() -> None:
    with chat([CLICK], temperature=0.6, max_tokens=512) as talk:
        talk.decide()
        [request] = talk.server.requests
    assert {name: request.body[name] for name in ("model", "temperature", "max_tokens", "tool_choice")} == {
        "model": MODEL,
        "temperature": 0.6,
        "max_tokens": 512,
        "tool_choice": "auto",
    }
    assert [message["role"] for message in request.messages] == ["system", "user"]
    assert "Coordinates go from 0 to 1000" in request.texts[0]
    assert request.texts[1] == "Open the basket"
    assert colours(request) == [0]
    assert {"click", "batch", "paste", "task_complete", "task_failed"} <= set(request.tools)


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


def test_turn_is_answered_in_text_and_screen_follows() -> None:
    with chat([calls(("click", {"x": 500, "y": 500}), words="I click."), CLICK]) as talk:
        talk.act()
        talk.act()
        request = talk.server.requests[1]
    assert [message["role"] for message in request.messages] == ["system", "user", "assistant", "tool", "user"]
    assert request.texts[2:] == ["I click.", "ok", "The screen after that:"]
    assert colours(request) == [0, 1]


def test_batch_costs_one_call_and_one_image() -> None:
    with chat([BATCH, CLICK]) as talk:
        talk.act()
        talk.act()
        request = talk.server.requests[1]
    assert len(talk.server.requests) == 2
    assert [tool["content"] for tool in request.of("tool")] == ["1. wait: ok\n2. press_key: ok"]
    assert colours(request) == [0, 2]


def test_model_is_told_where_batch_broke_off() -> None:
    with chat([BATCH, CLICK]) as talk:
        decision = talk.decide()
        talk.history.carry_out(decision)
        steps = talk.history.turns[0].steps
        failed = (replace(steps[0], error="too long"), replace(steps[1], error="not performed: an earlier …"))
        talk.history.turns = [Turn(decision, failed)]
        talk.decide()
        [tool] = talk.server.requests[1].of("tool")
    assert tool["content"] == "1. wait: too long\n2. press_key: not performed: an earlier …"


def test_several_calls_of_one_answer_are_one_turn() -> None:
    with chat([calls(("wait", {}), ("click", {"x": 0, "y": 0})), CLICK]) as talk:
        decision = talk.act(output="5 apples")
        talk.decide()
        request = talk.server.requests[1]
    assert (len(decision.proposals), decision.stop_at_error) == (2, True)
    assert [(tool["tool_call_id"], tool["content"]) for tool in request.of("tool")] == [
        ("id0", "5 apples"),
        ("id1", "5 apples"),
    ]


@pytest.mark.parametrize(
    ("toolset", "answer", "kind", "words"),
    [
        ("commands", call("task_complete", summary="It is open."), "finished", "It is open."),
        ("commands", calls(("task_complete", {}), words="It is open."), "finished", "It is open."),
        ("commands", call("task_failed", reason="No basket."), "gave_up", "No basket."),
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


def test_what_was_refused_is_forgotten_with_next_turn() -> None:
    with chat([said("Hm."), CLICK, CLICK]) as talk:
        talk.act()
        talk.act()
        assert "Hm." not in talk.server.requests[2].texts
        assert len(talk.server.requests[2].messages) == 5


def test_name_says_which_model_and_where() -> None:
    planner = OpenAICompatible("http://localhost:1234", "qwen3-vl-8b", "sk-key")
    assert planner.name == "openai-compatible (qwen3-vl-8b at localhost:1234)"


def test_path_may_be_left_out() -> None:
    with ChatServer([CLICK]) as server:
        planner = OpenAICompatible(server.url.removesuffix("/v1"), MODEL, backoff=QUICK)
        assert planner.decide(History().observation(), timeout_s=20.0).kind == "act"
