"""What goes wrong with OpenAI's service: what is asked again, what is not, and that nothing outlasts its time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from pytest_vnc_use.errors import AnswerRefused, KeyRejected, ModelUnavailable, PlannerError, QuotaExhausted
from support import responses_server as gpt_says
from support.json_server import Reply
from support.native_conversations import gpt
from support.responses_server import acts, computer_call, function_call, response, said, text, thought

DONE = text("It is open.")
CLICKED = {"type": "click", "button": "left", "x": 720, "y": 450}
REFUSAL = {**said(""), "content": [{"type": "refusal", "refusal": "Not this."}]}


@pytest.mark.parametrize(
    "failure",
    [
        gpt_says.rate_limited(0.01),
        gpt_says.error(500, "server_error", "The server had an error."),
        Reply(b"<html>Bad Gateway</html>", 502),
        Reply(b'{"output": [{"ty'),
        Reply(b""),
        response(said("cut off"), status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        response(status="failed", error={"code": "server_error", "message": "It failed."}),
        response(status="in_progress"),
        response(),
        response(said(" ")),
        response(said("Where is it?"), thought()),
        response(computer_call(CLICKED), thought()),
        response("It is open."),
        response({"id": "1"}),
        response({**said("It is open."), "content": "It is open."}),
        response({**said("It is open."), "content": ["It is open."]}),
        response({**thought(), "summary": "Hm."}, computer_call(CLICKED)),
        response({**computer_call(CLICKED), "call_id": None}),
        response({**computer_call(CLICKED), "call_id": "1"}, {**computer_call(CLICKED), "call_id": "1"}),
        response({**function_call("users", "{}"), "arguments": {}}),
        response({**function_call("", "{}"), "call_id": "1"}),
    ],
)
def test_asked_again(failure: Reply) -> None:
    with gpt([failure, DONE]) as talk:
        assert talk.decide().kind == "finished"
        assert [bool(exchange.error) for exchange in talk.exchanges] == [True, False]
        assert len(talk.server.requests) == 2


def test_nonsense_for_ever_ends() -> None:
    with gpt(lambda request: response()) as talk, pytest.raises(ModelUnavailable, match="empty or malformed"):
        talk.decide()
    assert len(talk.exchanges) == 5


@pytest.mark.parametrize(
    ("reply", "error", "told"),
    [
        (response(REFUSAL), AnswerRefused, "the model refused to answer: Not this."),
        (
            response(status="incomplete", incomplete_details={"reason": "content_filter"}),
            AnswerRefused,
            "blocked the answer: content_filter",
        ),
        (gpt_says.error(400, "invalid_request_error", "No."), PlannerError, "400 invalid_request_error: No."),
        (gpt_says.error(429, "insufficient_quota", "Pay.", "insufficient_quota"), QuotaExhausted, "quota is used up"),
        (gpt_says.error(403, "forbidden", "Not yours."), KeyRejected, "the model 'gpt-5.5', was refused"),
    ],
)
def test_not_asked_again(reply: Reply, error: type[Exception], told: str) -> None:
    with gpt([reply, DONE]) as talk, pytest.raises(error, match=told):
        talk.decide()
    assert len(talk.exchanges) == 1


def test_a_wrong_key_is_told_nowhere() -> None:
    with gpt([DONE], api_key="sk-proj-a-wrong-key") as talk, pytest.raises(KeyRejected, match="Incorrect API key"):
        talk.decide()
    assert "sk-proj" not in repr(talk.exchanges)


def test_pictures_are_told_by_their_digest() -> None:
    with gpt([acts(CLICKED)]) as talk:
        talk.decide()
        [exchange] = talk.exchanges
        [_, picture] = exchange.request["input"][0]["content"]
        assert picture["image_url"] == f"sha256:{talk.history.first.digest}"


@pytest.mark.parametrize(
    "late", [lambda reply: Reply(reply.body, hang_s=60.0), lambda reply: Reply(reply.body, drip_s=0.05)]
)
def test_nothing_outlasts_its_time(late: Callable[[Reply], Reply]) -> None:
    started = time.monotonic()
    with gpt([late(DONE)]) as talk, pytest.raises(ModelUnavailable, match="did not answer within"):
        talk.decide(timeout_s=0.5)
    assert time.monotonic() - started < 20.0


def test_unknown_items_go_back_as_they_came() -> None:
    with gpt([response({"type": "compaction", "data": [1]}, computer_call(CLICKED)), DONE]) as talk:
        talk.act()
        with pytest.raises(PlannerError, match="Invalid value: 'compaction'"):
            talk.decide()
        assert talk.server.requests[1]["input"][1] == {"type": "compaction", "data": [1]}


def test_a_malformed_count_is_no_reason_to_throw_an_answer_away() -> None:
    with gpt([response(said("Done."), usage={"input_tokens": "many", "output_tokens_details": []})]) as talk:
        assert talk.decide().usage.input == 0
