"""What goes wrong with a model's service: what is asked again, what is not, and that nothing outlasts its time."""

from __future__ import annotations

import dataclasses
import json
import socket
import time
from collections.abc import Callable
from typing import Any

import gemini_server as gemini
import pytest
from conversations import QUICK, Conversation, History
from gemini_server import Reply

from pytest_vnc_use.errors import (
    AnswerRefused,
    KeyRejected,
    ModelUnavailable,
    PlannerError,
    QuotaExhausted,
    SettingsError,
)
from pytest_vnc_use.planners.gemini import GeminiComputerUse
from pytest_vnc_use.planners.retry import Backoff

Converse = Callable[..., Conversation]
DONE = gemini.text("It is open.")
CLICK = gemini.calls(("click", {"x": 500, "y": 500}))


@pytest.mark.parametrize(
    "failure",
    [
        gemini.rate_limited(0.05),
        gemini.rate_limited(None),
        gemini.overloaded(),
        gemini.error(500, "INTERNAL", "An internal error has occurred."),
        gemini.error(504, "DEADLINE_EXCEEDED", "Deadline exceeded."),
        gemini.html_502(),
        gemini.not_json(),
        gemini.empty(),
        gemini.Reply({"candidates": []}),
        gemini.Reply(b""),
        gemini.stopped("MALFORMED_FUNCTION_CALL"),
        gemini.stopped("MAX_TOKENS"),
        gemini.stopped("A_REASON_OF_NEXT_YEAR"),
        gemini.candidate([{"text": "cut off in the mid"}], "MAX_TOKENS"),
        gemini.candidate([{"text": "only a thought", "thought": True}]),
    ],
)
def test_what_may_pass_is_asked_again(converse: Converse, failure: Reply) -> None:
    talk = converse([failure, failure, CLICK])
    assert talk.decide().kind == "act"
    assert [exchange.attempt for exchange in talk.exchanges] == [1, 2, 3]
    assert [bool(exchange.error) for exchange in talk.exchanges] == [True, True, False]
    assert [exchange.retry_in_s is not None for exchange in talk.exchanges] == [True, True, False]


@pytest.mark.parametrize(
    ("failure", "error", "message"),
    [
        (gemini.overloaded(), ModelUnavailable, "503 UNAVAILABLE: The model is overloaded"),
        (gemini.html_502(), ModelUnavailable, "502 Bad Gateway"),
        (gemini.not_json(), ModelUnavailable, "not JSON"),
        (gemini.empty(), ModelUnavailable, "empty or malformed: STOP"),
        (gemini.stopped("MALFORMED_FUNCTION_CALL"), ModelUnavailable, "malformed: MALFORMED_FUNCTION_CALL"),
        (gemini.rate_limited(0.01), QuotaExhausted, "quota is used up: 429"),
    ],
)
def test_five_attempts_and_no_more(converse: Converse, failure: Reply, error: type[PlannerError], message: str) -> None:
    talk = converse(lambda request: failure)
    with pytest.raises(error, match=message):
        talk.decide()
    assert len(talk.server.requests) == 5
    assert talk.exchanges[-1].retry_in_s is None


@pytest.mark.parametrize(
    ("failure", "error", "message"),
    [
        (gemini.daily_quota(), QuotaExhausted, "the daily quota is used up"),
        (gemini.error(403, "PERMISSION_DENIED", "Forbidden."), KeyRejected, "403 PERMISSION_DENIED: Forbidden."),
        (gemini.error(401, "UNAUTHENTICATED", "Who are you?"), KeyRejected, "401"),
        (gemini.error(400, "INVALID_ARGUMENT", "Bad shape."), PlannerError, "refused the request: 400 .*Bad shape"),
        (gemini.error(400, "FAILED_PRECONDITION", "Not in your country."), PlannerError, "Not in your country"),
        (gemini.blocked_prompt("PROHIBITED_CONTENT"), AnswerRefused, "blocked the prompt: PROHIBITED_CONTENT"),
        (gemini.blocked_prompt("A_REASON_OF_NEXT_YEAR"), AnswerRefused, "A_REASON_OF_NEXT_YEAR"),
        (gemini.stopped("SAFETY"), AnswerRefused, "blocked the answer: SAFETY"),
        (gemini.candidate([{"text": "half of it"}], "SAFETY"), AnswerRefused, "SAFETY"),
        (gemini.stopped("RECITATION"), AnswerRefused, "RECITATION"),
    ],
)
def test_what_will_not_pass_is_not_asked_again(
    converse: Converse, failure: Reply, error: type[PlannerError], message: str
) -> None:
    talk = converse([failure, CLICK])
    with pytest.raises(error, match=message):
        talk.decide()
    assert len(talk.server.requests) == 1
    assert talk.exchanges[0].error


def test_a_wrong_key(converse: Converse) -> None:
    talk = converse([CLICK], api_key="another key")
    with pytest.raises(KeyRejected, match="API key not valid"):
        talk.decide()
    assert len(talk.server.requests) == 1


def test_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(KeyRejected, match="set GOOGLE_API_KEY"):
        GeminiComputerUse()
    with pytest.raises(KeyRejected, match="printable ASCII"):
        GeminiComputerUse(api_key="schlüssel")


def test_key_and_address_from_the_environment(converse: Converse, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = converse([CLICK])
    monkeypatch.setenv("GOOGLE_API_KEY", talk.server.api_key)
    monkeypatch.setenv("GEMINI_API_KEY", "another key")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", talk.server.url)
    planner = GeminiComputerUse()
    assert planner.decide(talk.history.observation(), timeout_s=20.0).kind == "act"


def test_an_unknown_model(converse: Converse) -> None:
    talk = converse([CLICK], model="gemini-0")
    with pytest.raises(PlannerError, match="404 NOT_FOUND: models/gemini-0 is not found"):
        talk.decide()


# --- time ------------------------------------------------------------------------------------------------------------


def test_the_wait_that_the_service_asks_for(converse: Converse) -> None:
    talk = converse([gemini.rate_limited(0.4), CLICK])
    started = time.monotonic()
    talk.decide()
    assert time.monotonic() - started >= 0.4
    assert talk.exchanges[0].retry_in_s == 0.4


def test_a_wait_that_is_longer_than_the_time_left_is_not_begun(converse: Converse) -> None:
    talk = converse([gemini.rate_limited(37), CLICK])
    started = time.monotonic()
    with pytest.raises(QuotaExhausted, match="asks to wait 37 s"):
        talk.decide(timeout_s=5.0)
    assert time.monotonic() - started < 3.0


def test_waits_double_up_to_a_limit() -> None:
    backoff = Backoff(first_wait_s=1.0, longest_wait_s=5.0)
    waits = [backoff.wait_s(attempt) for attempt in (1, 2, 3, 4)]
    assert [int(wait / 1.25 + 0.999) for wait in waits] == [1, 2, 4, 5]
    assert all(nominal <= wait <= nominal * 1.25 for nominal, wait in zip((1, 2, 4, 5), waits, strict=True))


@pytest.mark.parametrize("slow", [gemini.hang(), gemini.drip(), gemini.drip(0.2)])
def test_no_answer_outlasts_its_time(converse: Converse, slow: Reply) -> None:
    talk = converse(lambda request: slow)
    started = time.monotonic()
    with pytest.raises(ModelUnavailable, match="did not answer within"):
        talk.decide(timeout_s=0.8)
    assert 0.7 < time.monotonic() - started < 2.5
    assert talk.exchanges[-1].request["contents"]


def test_one_hanging_attempt_does_not_use_up_all_the_time(converse: Converse) -> None:
    backoff = dataclasses.replace(QUICK, each_s=0.8)
    talk = converse([gemini.hang(), CLICK], backoff=backoff)
    assert talk.decide(timeout_s=20.0).kind == "act"
    assert "did not answer within 0.8 s" in talk.exchanges[0].error


def test_nobody_listens(history: History) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        planner = GeminiComputerUse(api_key="a key", base_url=url, backoff=QUICK)
        with pytest.raises(ModelUnavailable, match=r"cannot be reached: .*ConnectError"):
            planner.decide(history.observation(), timeout_s=10.0)


@pytest.mark.parametrize("url", ["http://[", "nonsense://host", "not an address", "http://"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(SettingsError, match="base_url must be an address such as https://host/path, got"):
        GeminiComputerUse(api_key="a key", base_url=url)


# --- what is told of it ----------------------------------------------------------------------------------------------


def test_an_exchange_is_what_was_sent_and_what_came(converse: Converse) -> None:
    talk = converse([gemini.overloaded(), CLICK])
    talk.decide()
    failed, good = talk.exchanges
    assert failed.purpose == good.purpose == "planner"
    assert failed.response is not None
    assert failed.response["error"]["status"] == "UNAVAILABLE"
    assert good.response is not None
    assert good.response["modelVersion"] == "gemini-3.8-flash-001"
    told = json.loads(json.dumps(good.request))
    assert told["contents"][0]["parts"][0] == {"text": "Open the basket"}
    assert told["contents"][0]["parts"][1]["inlineData"]["data"] == f"sha256:{talk.history.first.digest}"
    assert len(json.dumps(told)) < 10_000


def test_images_inside_responses_are_hidden_too(converse: Converse) -> None:
    talk = converse([CLICK, DONE])
    talk.history.carry_out(talk.decide())
    talk.decide()
    told = json.dumps(talk.exchanges[1].request)
    assert f"sha256:{talk.history.screen.digest}" in told
    assert "iVBOR" not in told


def _says_the_key(key: str) -> Callable[[Any], Reply]:
    return lambda request: gemini.error(403, "PERMISSION_DENIED", f"Consumer 'api_key:{key}' has been suspended.")


def test_the_key_appears_nowhere(converse: Converse) -> None:
    talk = converse(_says_the_key(gemini.API_KEY))
    with pytest.raises(KeyRejected, match="has been suspended") as caught:
        talk.decide()
    everything = [repr(talk.planner.__dict__), repr(talk.exchanges), str(caught.value), repr(caught.value.__cause__)]
    assert "suspended" in everything[1]
    assert not [text for text in everything if gemini.API_KEY in text]
