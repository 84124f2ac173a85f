"""Turns of Claude with Anthropic's computer use tools: what is asked, what is read, and what goes back."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from PIL import Image

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.anthropic.planner import AnthropicComputer
from pytest_vnc_use.planners.common.turns import KEPT_TURNS
from pytest_vnc_use.types import (
    Click,
    InvalidAction,
    KeyCombo,
    TypeText,
)
from support import messages_server as claude_says
from support.gemini_conversations import frame_of
from support.gemini_server import digest
from support.messages_server import MessagesServer, older, text, uses
from support.native_conversations import Talk, claude

Converse = Callable[..., Talk[MessagesServer]]
POINT = {"coordinate": [720, 450]}
CLICK = uses(("left_click", POINT), words="I open it.")
DONE = text("It is open.")


@pytest.fixture
def converse() -> Iterator[Converse]:
    with ExitStack() as talks:
        yield lambda *args, **settings: talks.enter_context(claude(*args, **settings))


def results_of(request: Any) -> list[Any]:
    """The tool results of the newest message."""
    return [block for block in request["messages"][-1]["content"] if block["type"] == "tool_result"]


def text_of(result: Any) -> str:
    return result["content"][0]["text"]


def images_of(request: Any) -> list[bytes]:
    blocks = [block for message in request["messages"] for block in message["content"]]
    inner = [block for result in blocks for block in result.get("content", [result])]
    return [base64.b64decode(block["source"]["data"]) for block in inner if block["type"] == "image"]


def test_first_request(converse: Converse) -> None:
    talk = converse([CLICK])
    talk.decide()
    [request] = talk.server.requests
    assert (request["model"], request["max_tokens"]) == ("claude-sonnet-5", 16_000)
    assert "thinking" not in request
    toolset, give_up = request["tools"]
    assert toolset == {
        "type": "computer_toolset_20260801",
        "configs": {"zoom": {"enabled": False}, "cursor_position": {"enabled": False}},
    }
    assert (give_up["name"], give_up["input_schema"]["required"]) == ("task_failed", ["reason"])
    [message] = request["messages"]
    assert message["content"][1] == {"type": "text", "text": "Open the basket"}
    assert images_of(request) == [talk.history.pngs[talk.history.first.digest]]
    assert "screenshot" in request["system"]
    assert talk.planner.name == "anthropic (claude-sonnet-5)"


def test_batch_is_answered_call_by_call(converse: Converse) -> None:
    """Several calls are several actions in order; the screen after the last of them is shown once."""
    named = [("left_click", POINT), ("type", {"text": "alice"}), ("key", {"text": "Return"})]
    talk = converse([uses(*named), DONE])
    decision = talk.act()
    actions = [proposal.action for proposal in decision.proposals]
    assert actions == [Click(720, 450), TypeText("alice"), KeyCombo(("Return",))]
    assert talk.decide().kind == "finished"
    results = results_of(talk.server.requests[1])
    assert [result["tool_use_id"] for result in results] == ["toolu_0_0", "toolu_0_1", "toolu_0_2"]
    assert [result["toolset_name"] for result in results] == ["computer"] * 3
    assert [text_of(result) for result in results] == ["ok"] * 3
    assert [digest(png) for png in images_of(talk.server.requests[1])[1:]] == [talk.history.screen.digest]


def test_what_follows_failure_was_not_executed(converse: Converse) -> None:
    talk = converse([uses(("left_click", POINT), ("key", {"text": "Hyper"}), ("wait", {"duration": 1})), DONE])
    decision = talk.decide()
    talk.history.carry_out(decision)
    failed = [
        replace(step, error=error) for step, error in zip(talk.history.turns[0].steps, ["", "no key", "…"], strict=True)
    ]
    talk.history.turns[0] = replace(talk.history.turns[0], steps=tuple(failed))
    talk.decide()
    results = results_of(talk.server.requests[1])
    assert [result.get("is_error", False) for result in results] == [False, True, True]
    not_executed = "Not executed: an earlier computer action in this turn failed."
    assert [text_of(result) for result in results] == ["ok", "no key", not_executed]


def test_excluded_action(converse: Converse) -> None:
    talk = converse([uses(("wait", {"duration": 1}))], excluded_actions=["wait"])
    [proposal] = talk.decide().proposals
    assert isinstance(proposal.action, InvalidAction)
    assert "'wait' is excluded in this run" in proposal.action.problem
    assert talk.server.requests[0]["tools"][0]["configs"]["wait"] == {"enabled": False}
    assert talk.server.refusals == []


def test_large_screen_is_scaled_down_and_its_points_back(converse: Converse) -> None:
    """The fake server refuses images that the service would scale down on its own."""
    talk = converse([uses(("left_click", {"coordinate": [2575, 0]}), ("left_click", {"coordinate": [0, 1448]})), DONE])
    frame = frame_of(1, 5120, 2880)
    talk.history.first = talk.history.screen = frame.ref
    talk.history.pngs[frame.ref.digest] = frame.png
    decision = talk.act()
    [png] = images_of(talk.server.requests[0])
    assert Image.open(io.BytesIO(png)).size == (2576, 1449)
    actions = [proposal.action for proposal in decision.proposals]
    assert actions == [Click(5119, 0), Click(0, 2879)]


@pytest.mark.parametrize("tool", ["computer_20251124", "computer_20250124"])
def test_older_tools(converse: Converse, tool: str) -> None:
    """One tool with a field `action`, which is told the size of the images."""
    replies = [older({"action": "left_click", "coordinate": [694, 434]}, {"action": "wait", "duration": 1}), DONE]
    talk = converse(replies, model="claude-opus-4-5", tool=tool)
    decision = talk.act()
    assert decision.proposals[0].action == Click(720, 450)
    assert decision.proposals[0].as_proposed == {"name": "left_click", "args": {"coordinate": [694, 434]}}
    assert talk.decide().kind == "finished"
    assert talk.server.refusals == []
    computer = talk.server.requests[0]["tools"][0]
    assert computer == {"type": tool, "name": "computer", "display_width_px": 1389, "display_height_px": 868}
    assert Image.open(io.BytesIO(images_of(talk.server.requests[0])[0])).size == (1389, 868)
    assert all("toolset_name" not in result for result in results_of(talk.server.requests[1]))


def thoughts_in(request: Any) -> list[str]:
    blocks = [block for message in request["messages"] for block in message["content"]]
    return [block["signature"] for block in blocks if block["type"] == "thinking"]


def test_thoughts_go_back_as_long_as_nothing_before_them_changed(converse: Converse) -> None:
    """The fake server refuses a thought whose prefix changed; between two removals of images there is none such."""
    talk = converse(lambda request: uses(("left_click", POINT), thinking="Where is it?"))
    for _ in range(6):
        talk.act()
    assert talk.server.refusals == []
    sent = [thoughts_in(request) for request in talk.server.requests]
    assert sent == [[], ["signed_0_0"], ["signed_0_0", "signed_1_0"], [], ["signed_3_0"], []]


@pytest.mark.slow
def test_turns_are_told_in_words_at_points_where_thoughts_are_left_out_anyway(converse: Converse) -> None:
    talk = converse(lambda request: uses(("left_click", POINT), thinking="long " * 200))
    for _ in range(KEPT_TURNS + 8):
        talk.act()
    assert talk.server.refusals == []
    assert "What was done so far:" in str(talk.server.requests[-1])
    assert max(map(len, map(thoughts_in, talk.server.requests))) == 2


def test_screen_shown_stays_as_it_was_shown(converse: Converse) -> None:
    """A run that stood still looks again before it asks: that screen is what the model saw."""
    talk = converse(lambda request: uses(("left_click", POINT), thinking="Where is it?"))
    talk.act()
    talk.history.screen = talk.history.first
    talk.act()
    talk.decide()
    assert talk.server.refusals == []
    assert [digest(png) for png in images_of(talk.server.requests[2])][:2] == [talk.history.first.digest] * 2


def test_empty_text_does_not_go_back(converse: Converse) -> None:
    block = {"type": "tool_use", "id": "", "name": "left_click", "toolset_name": "computer", "input": POINT}
    talk = converse([claude_says.message([{"type": "text", "text": " "}, block], "tool_use"), DONE])
    talk.act()
    assert talk.decide().kind == "finished"
    assert talk.server.refusals == []


def test_unknown_tool_raises_settings_error() -> None:
    with pytest.raises(SettingsError, match=r"tool must be one of \['computer_20250124'.*\], got 'computer_2030'"):
        AnthropicComputer(api_key="a key", tool="computer_2030")
