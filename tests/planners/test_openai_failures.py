"""What goes wrong behind chat completions: what is asked again, what is not, what it costs in time, what it leaks."""

from __future__ import annotations

import json
import time
import traceback
from typing import Any

import pytest

from pytest_vnc_use.errors import (
    AnswerRefused,
    KeyRejected,
    ModelUnavailable,
    PlannerError,
    QuotaExhausted,
    SettingsError,
)
from pytest_vnc_use.planners.chat.planner import ChatJudge, OpenAICompatible
from support.chat_conversations import chat
from support.chat_server import MODEL, call, error, said
from support.gemini_conversations import History
from support.json_server import Reply

STARTED = History()
KEY = "sk-a-secret-key"
WAIT = call("wait")


@pytest.mark.parametrize(
    "failure",
    [
        error(429, "rate_limit_exceeded", "Slow down.", {"Retry-After": "0"}),
        error(500, "server_error", "Oh."),
        error(503, "unavailable_error", "Loading model"),  # llama.cpp while it loads
        Reply({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}),
        Reply({"error": "The model has crashed."}),  # LM Studio
        Reply({"choices": [{"finish_reason": "error", "error": {"code": 429, "message": "Limit."}, "message": {}}]}),
        said("I will", finish_reason="error"),  # OpenRouter
        said("", finish_reason="abort"),  # vLLM
        said("", finish_reason="a_reason_of_next_year"),
        Reply(b"<html>502</html>", 502),
        Reply(b'{"choices": [{"mess'),
        Reply(b""),
        Reply(b"[]"),
        Reply({"choices": []}),
        Reply({"choices": [None]}),
        Reply({"choices": {"0": 1}}),
        Reply({"choices": [{"message": "hello"}]}),
        Reply({"choices": [{"finish_reason": "stop"}]}),
    ],
)
def test_what_may_pass_is_asked_again(failure: Reply) -> None:
    with chat([failure, failure, WAIT], history=STARTED) as talk:
        assert talk.decide().kind == "act"
    assert [exchange.attempt for exchange in talk.exchanges] == [1, 2, 3]
    assert [bool(exchange.error) for exchange in talk.exchanges] == [True, True, False]


@pytest.mark.parametrize(
    ("failure", "kind", "message"),
    [
        (error(400, "invalid_request_error", "Too long."), PlannerError, "400 invalid_request_error: Too long"),
        (error(404, "NotFoundError", "The model `x` does not exist."), PlannerError, "404 NotFoundError: The model"),
        (error(401, "invalid_api_key", "No."), KeyRejected, "the API key is missing or was refused: 401"),
        (error(402, "billing", "Pay."), QuotaExhausted, "402 billing: Pay"),
        (error(429, "insufficient_quota", "Pay."), QuotaExhausted, "429 insufficient_quota: Pay"),
        (said(None, refusal="I cannot."), AnswerRefused, "the model's service refused: I cannot"),
        (said("", finish_reason="content_filter"), AnswerRefused, "the model's service refused: content_filter"),
        (said("", finish_reason="SAFETY"), AnswerRefused, "the model's service refused: SAFETY"),
        (Reply({"error": "Unexpected endpoint or method."}), PlannerError, "200: Unexpected .*asked at http://"),
    ],
)
def test_what_will_not_pass_is_not_asked_again(failure: Reply, kind: type[PlannerError], message: str) -> None:
    with chat([failure, WAIT], history=STARTED) as talk:
        with pytest.raises(kind, match=message):
            talk.decide()
        assert len(talk.server.requests) == 1


def test_five_attempts_and_no_more() -> None:
    with chat(lambda request: error(503, "", "Busy."), history=STARTED) as talk:
        with pytest.raises(ModelUnavailable, match="the model's service failed: 503: Busy"):
            talk.decide()
        assert len(talk.server.requests) == 5


def test_outage_within_an_answer_reports_its_words() -> None:
    for script, told in (
        (said("I will", finish_reason="error"), "ended its answer with finish_reason 'error', after 'I will'"),
        (said("", finish_reason="odd"), "ended its answer with finish_reason 'odd', after ''"),
        (Reply({"code": 1305, "msg": "Too many."}), "no choice with a message: .*Too many"),
    ):
        with chat(lambda request, reply=script: reply, history=STARTED) as talk:
            with pytest.raises(ModelUnavailable, match=told):
                talk.decide()
            assert len(talk.server.requests) == 5


@pytest.mark.parametrize("late", [Reply({}, hang_s=60.0), Reply(b" " * 9000, drip_s=0.05)])
def test_no_turn_outlasts_its_time(late: Reply) -> None:
    with chat(lambda request: late, history=STARTED) as talk:
        started = time.monotonic()
        with pytest.raises(ModelUnavailable, match=r"did not answer within 0\.[0-4] s"):
            talk.decide(timeout_s=0.4)
        assert time.monotonic() - started < 20.0


def test_a_wait_longer_than_the_time_left_is_not_waited() -> None:
    busy = error(429, "rate_limit_exceeded", "Slow down.", {"Retry-After": "60"})
    with chat([busy], history=STARTED) as talk, pytest.raises(QuotaExhausted, match="it asks to wait 60 s"):
        talk.decide(timeout_s=5.0)


def test_malformed_json_around_a_good_call_costs_only_that_attempt() -> None:
    """The refused answers of one turn and the failures of the service share one bound."""
    script = [said("Hm."), Reply(b"{"), WAIT]
    with chat(script, history=STARTED) as talk:
        assert talk.decide().kind == "act"
        assert talk.server.requests[2].texts[-2:] == talk.server.requests[1].texts[-2:]


# --- the key ---------------------------------------------------------------------------------------------------------


def test_a_key_is_sent_where_one_is_given() -> None:
    with chat([WAIT], api_key=KEY, history=STARTED) as talk:
        assert talk.decide().kind == "act"


def test_a_key_stands_in_no_exchange_and_no_traceback() -> None:
    def echo(request: Any) -> Reply:
        return error(400, "invalid_request_error", f"Wrong: {KEY}")

    with chat(echo, api_key=KEY, history=STARTED) as talk:
        with pytest.raises(PlannerError, match=r"Wrong: \[api key\]") as raised:
            talk.decide()
        told = "".join(traceback.format_exception(raised.value)) + repr(talk.exchanges) + repr(vars(talk.planner))
    assert KEY not in told


def test_a_key_that_is_missing() -> None:
    with chat([WAIT], api_key=KEY, history=STARTED) as talk:
        planner = OpenAICompatible(talk.server.url, MODEL)
        with pytest.raises(KeyRejected, match="the API key is missing or was refused: 401 invalid_api_key"):
            planner.decide(STARTED.observation(), timeout_s=20.0)


def test_exchanges_hold_no_pictures() -> None:
    with chat([WAIT], history=STARTED) as talk:
        talk.decide()
    shown = json.dumps(talk.exchanges[0].request)
    assert f"sha256:{STARTED.first.digest}" in shown
    assert "base64" not in shown


@pytest.mark.parametrize("asker", [OpenAICompatible, ChatJudge])
@pytest.mark.parametrize(
    ("address", "model", "key", "kind", "message"),
    [
        ("", "m", "", SettingsError, "base_url must not be empty, got ''"),
        ("http://localhost:1234", "", "", SettingsError, "model must not be empty, got ''"),
        ("localhost:1234", "m", "", SettingsError, "base_url must be an address such as .*, got 'localhost:1234'"),
        ("http://u:secret@host/v1", "m", "", SettingsError, "^base_url must be without a user and a password; pass"),
        ("http://host/v1", "m", "kéy", KeyRejected, "must contain only printable ASCII characters"),
    ],
)
def test_addresses_and_keys_that_cannot_be(
    asker: Any, address: str, model: str, key: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        asker(address, model, key)
