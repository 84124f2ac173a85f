"""Turns of OpenAI's computer tool: what is asked, what is read, and what goes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from pytest_vnc_use.types import (
    Click,
    InvalidAction,
    KeyCombo,
    TypeText,
)
from support.gemini_conversations import frame_of
from support.gemini_server import digest
from support.native_conversations import Talk, gpt
from support.responses_server import (
    ResponsesServer,
    acts,
    computer_call,
    function_call,
    image_of,
    response,
    size_of,
    text,
    thought,
)

Converse = Callable[..., Talk[ResponsesServer]]
CLICKED = {"type": "click", "button": "left", "x": 720, "y": 450}
CLICK = acts(CLICKED, words="I open it.")
DONE = text("It is open.")
CHECK = {"id": "sc_1", "code": "malicious_instructions", "message": "The page gives orders."}


@pytest.fixture
def converse() -> Iterator[Converse]:
    with ExitStack() as talks:
        yield lambda *args, **settings: talks.enter_context(gpt(*args, **settings))


def outputs_of(request: Any) -> list[Any]:
    return [item for item in request["input"] if item["type"].endswith("_output")]


def words_of(request: Any) -> list[str]:
    """The user's own words, one text a message."""
    return [item["content"][0]["text"] for item in request["input"] if item.get("role") == "user"]


def images_of(request: Any) -> list[bytes]:
    parts = [part for item in request["input"] if item.get("role") == "user" for part in item["content"]]
    urls = [item["output"]["image_url"] for item in outputs_of(request) if item["type"] == "computer_call_output"]
    return [image_of(url) for url in [*(part["image_url"] for part in parts if "image_url" in part), *urls]]


def test_first_request(converse: Converse) -> None:
    talk = converse([CLICK])
    talk.decide()
    [request] = talk.server.requests
    assert (request["model"], request["store"], request["max_output_tokens"]) == ("gpt-5.5", False, 16_000)
    assert request["include"] == ["reasoning.encrypted_content"]
    assert "reasoning" not in request
    computer, give_up = request["tools"]
    assert computer == {"type": "computer"}
    assert (give_up["name"], give_up["parameters"]["required"]) == ("task_failed", ["reason"])
    assert words_of(request) == ["Open the basket"]
    assert images_of(request) == [talk.history.pngs[talk.history.first.digest]]
    assert "screenshot" in request["instructions"]
    assert talk.planner.name == "openai (gpt-5.5)"


def test_batch_is_one_turn_and_one_output(converse: Converse) -> None:
    batch = [CLICKED, {"type": "type", "text": "alice"}, {"type": "keypress", "keys": ["ENTER"]}]
    talk = converse([acts(*batch, thinks=True), DONE])
    decision = talk.act()
    actions = [proposal.action for proposal in decision.proposals]
    assert actions == [Click(720, 450), TypeText("alice"), KeyCombo(("ENTER",))]
    assert talk.decide().kind == "finished"
    request = talk.server.requests[1]
    assert [item["type"] for item in request["input"]] == [
        "message",
        "reasoning",
        "computer_call",
        "computer_call_output",
    ]
    [output] = outputs_of(request)
    assert output["output"]["detail"] == "original"
    assert "acknowledged_safety_checks" not in output
    assert [digest(png) for png in images_of(request)[1:]] == [talk.history.screen.digest]


def test_what_failed_is_told_in_words(converse: Converse) -> None:
    """An output is an image and nothing else."""
    talk = converse([acts(CLICKED, {"type": "wait"}), DONE])
    decision = talk.decide()
    talk.history.carry_out(decision)
    [turn] = talk.history.turns
    told = [
        replace(step, error=error)
        for step, error in zip(turn.steps, ["it is off the screen", "not performed: …"], strict=True)
    ]
    talk.history.turns = [replace(turn, steps=tuple(told))]
    talk.decide()
    words = words_of(talk.server.requests[1])[-1]
    assert "- click(button='left', x=720, y=450): it is off the screen\n- wait(): not performed" in words


def test_function_and_computer_in_one_turn(converse: Converse) -> None:
    talk = converse([response(thought(), function_call("users", "5"), thought(), computer_call(CLICKED)), DONE])
    decision = talk.act()
    assert isinstance(decision.proposals[0].action, InvalidAction)
    assert talk.decide().kind == "finished"
    assert [output["type"] for output in outputs_of(talk.server.requests[1])] == [
        "function_call_output",
        "computer_call_output",
    ]


def test_check_that_nobody_was_asked_about_is_never_acknowledged(converse: Converse) -> None:
    """A call that is skipped after a failure is allowed without a question, and was not done."""
    first, paying = computer_call(CLICKED), computer_call(CLICKED, checks=[CHECK])
    talk = converse([response(first, paying), DONE])
    decision = talk.decide()
    talk.history.carry_out(decision, error="not performed: …")
    assert talk.decide().kind == "finished"
    assert talk.server.refusals == []
    assert "acknowledged_safety_checks" not in str(talk.server.requests[1])


@pytest.mark.slow
def test_large_screen_is_scaled_down_and_its_points_back(converse: Converse) -> None:
    talk = converse([acts({**CLICKED, "x": 0, "y": 2391}), DONE])
    frame = frame_of(1, 5120, 2880)
    talk.history.first = talk.history.screen = frame.ref
    talk.history.pngs[frame.ref.digest] = frame.png
    decision = talk.act()
    url = talk.server.requests[0]["input"][0]["content"][1]["image_url"]
    assert size_of(url) == (4256, 2394)
    assert decision.proposals[0].action == Click(0, 2876)
    assert talk.server.refusals == []
