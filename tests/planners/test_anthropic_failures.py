"""What goes wrong with Claude's service: what is asked again, what is not, and that nothing outlasts its time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pytest_vnc_use.errors import AnswerRefused, KeyRejected, ModelUnavailable, PlannerError, QuotaExhausted
from support import messages_server as claude_says
from support.json_server import Reply
from support.messages_server import text, uses
from support.native_conversations import claude

DONE = text("It is open.")
USE = {"type": "tool_use", "id": "toolu_1", "name": "left_click", "toolset_name": "computer", "input": {}}


@pytest.mark.parametrize(
    "failure",
    [
        claude_says.rate_limited(0.01),
        claude_says.overloaded(),
        claude_says.error(500, "api_error", "Internal server error"),
        Reply(b"<html>Bad Gateway</html>", 502),
        Reply(b'{"content": [{"ty'),
        Reply(b""),
        Reply({"content": "It is open.", "stop_reason": "end_turn"}),
        claude_says.message([], "end_turn"),
        claude_says.message([{"type": "text", "text": " "}], "end_turn"),
        claude_says.message([{"type": "text", "text": "cut off in the mid"}], "max_tokens"),
        claude_says.message([USE], "max_tokens"),
        claude_says.message([{"type": "text", "text": "…"}], "pause_turn"),
        claude_says.message([{"type": "text", "text": "…"}], "a_reason_of_next_year"),
        claude_says.message(["It is open."]),
        claude_says.message([{"text": "It is open."}]),
        claude_says.message([{"type": "text", "text": 5}]),
        claude_says.message([USE, {"type": "thinking", "thinking": "unsigned"}], "tool_use"),
        claude_says.message([USE, USE], "tool_use"),
        claude_says.message([{**USE, "input": "left"}], "tool_use"),
        claude_says.message([{**USE, "name": ""}], "tool_use"),
        claude_says.message([{**USE, "id": 7}], "tool_use"),
    ],
)
def test_asked_again(failure: Reply) -> None:
    with claude([failure, DONE]) as talk:
        assert talk.decide().kind == "finished"
        assert [bool(exchange.error) for exchange in talk.exchanges] == [True, False]
        assert len(talk.server.requests) == 2


def test_nonsense_for_ever_ends() -> None:
    nonsense = claude_says.message([], "end_turn")
    with claude(lambda request: nonsense) as talk, pytest.raises(ModelUnavailable, match="empty or malformed"):
        talk.decide()
    assert len(talk.exchanges) == 5


@pytest.mark.parametrize(
    ("reply", "error", "told"),
    [
        (claude_says.refused("cyber", "Not this."), AnswerRefused, "the model refused to answer: cyber: Not this."),
        (claude_says.message([], "refusal", stop_details=None), AnswerRefused, "no reason given"),
        (claude_says.message([], "model_context_window_exceeded"), PlannerError, "longer than the model's context"),
        (claude_says.error(400, "invalid_request_error", "No."), PlannerError, "400 invalid_request_error: No."),
        (claude_says.error(402, "billing_error", "Pay."), QuotaExhausted, "402 billing_error: Pay."),
        (claude_says.error(403, "permission_error", "Not yours."), KeyRejected, "'claude-sonnet-5', was refused"),
    ],
)
def test_not_asked_again(reply: Reply, error: type[Exception], told: str) -> None:
    with claude([reply, DONE]) as talk, pytest.raises(error, match=told):
        talk.decide()
    assert len(talk.exchanges) == 1


def test_a_wrong_key_is_told_nowhere() -> None:
    with claude([DONE], api_key="sk-ant-a-wrong-key") as talk, pytest.raises(KeyRejected, match="invalid x-api-key"):
        talk.decide()
    assert "sk-ant" not in repr(talk.exchanges)


def test_pictures_are_told_by_their_digest() -> None:
    with claude([uses(("screenshot", {}))]) as talk:
        talk.decide()
        [exchange] = talk.exchanges
        [picture, _] = exchange.request["messages"][0]["content"]
        assert picture["source"]["data"] == f"sha256:{talk.history.first.digest}"


@pytest.mark.parametrize(
    "late", [lambda reply: Reply(reply.body, hang_s=60.0), lambda reply: Reply(reply.body, drip_s=0.05)]
)
def test_nothing_outlasts_its_time(late: Callable[[Reply], Reply]) -> None:
    started = time.monotonic()
    with claude([late(DONE)]) as talk, pytest.raises(ModelUnavailable, match="did not answer within"):
        talk.decide(timeout_s=0.5)
    assert time.monotonic() - started < 20.0


def test_unknown_blocks_go_back_as_they_came() -> None:
    block = {"type": "a_block_of_next_year", "data": {"x": [1]}}
    with claude([claude_says.message([block, {**USE, "input": {"coordinate": [1, 1]}}], "tool_use"), DONE]) as talk:
        talk.act()
        assert talk.decide().kind == "finished"
        assert talk.server.requests[1]["messages"][1]["content"][0] == block


def test_a_malformed_count_is_no_reason_to_throw_an_answer_away() -> None:
    usages: list[Any] = [None, 5, {"input_tokens": "many", "output_tokens_details": [], "output_tokens": 7}]
    for usage in usages:
        with claude([claude_says.message([{"type": "text", "text": "Done."}], usage=usage)]) as talk:
            assert talk.decide().usage.input == 0
