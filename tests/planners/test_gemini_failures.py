"""What goes wrong with a model's service: what is asked again, what is not, and that nothing outlasts its time."""

from __future__ import annotations

import dataclasses
import gc
import json
import math
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use.errors import (
    AnswerRefused,
    KeyMissing,
    KeyRejected,
    ModelUnavailable,
    PlannerError,
    QuotaExhausted,
    SettingsError,
)
from pytest_vnc_use.planners.common.http import Backoff, load_certificates
from pytest_vnc_use.planners.gemini.planner import GeminiComputerUse
from pytest_vnc_use.types import ModelExchange
from support import gemini_server as gemini
from support.exchanges import into
from support.gemini_conversations import QUICK, Conversation, History
from support.gemini_server import Reply
from support.json_server import JsonServer

Converse = Callable[..., Conversation]
DONE = gemini.text("It is open.")
CLICK = gemini.calls(("click", {"x": 500, "y": 500}))
CLICKS = {"functionCall": {"name": "click", "args": {"x": 500, "y": 500}}, "thoughtSignature": "AAEC"}
NOT_TO_BE_CARRIED_OUT = (
    "MALFORMED_FUNCTION_CALL",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
    "MAX_TOKENS",
    "OTHER",
    "A_REASON_OF_NEXT_YEAR",
)
MALFORMED = (
    gemini.malformed("a part that is text"),
    gemini.malformed(CLICKS, "a part that is text"),
    gemini.malformed({"functionCall": "click"}),
    gemini.malformed({"functionCall": None}, {"text": "It is open."}),
    gemini.malformed({"functionCall": {"args": {}}}),
    gemini.malformed({"functionCall": {"name": ["click"], "args": {}}}),
    gemini.malformed({"functionCall": {"name": "click", "args": [500, 500]}}),
    gemini.malformed({"functionCall": {"name": "click", "args": {"x": 500, "y": 500}, "id": 7}}),
    gemini.malformed(CLICKS, {"text": 5}),
    gemini.malformed({"functionCall": {"name": "click", "args": {"x": math.inf}}}),
    gemini.malformed({"text": "half a character: \ud83d"}),
    gemini.Reply({"candidates": [{"finishReason": "STOP", "content": {"parts": 5}}]}, malformed=True),
    gemini.Reply({"candidates": [{"finishReason": "STOP", "content": "It is open."}]}, malformed=True),
    gemini.malformed({"functionCall": {"name": "click", "args": json.loads('{"x":' * 400 + "1" + "}" * 400)}}),
    gemini.Reply(b"[" * 100_000),
    gemini.Reply(b'{"candidates": [' + b"9" * 5000 + b"]}"),
)


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
        *MALFORMED,
        *[gemini.candidate([CLICKS], reason) for reason in NOT_TO_BE_CARRIED_OUT],
    ],
)
def test_what_may_pass_is_asked_again(converse: Converse, failure: Reply) -> None:
    talk = converse([failure, failure, CLICK], detect_prompt_injection=False)
    assert talk.decide().kind == "act"
    assert [exchange.attempt for exchange in talk.exchanges] == [1, 2, 3]
    assert [bool(exchange.error) for exchange in talk.exchanges] == [True, True, False]
    assert [exchange.retry_in_s is not None for exchange in talk.exchanges] == [True, True, False]


@pytest.mark.parametrize(
    ("failure", "error", "message"),
    [
        (gemini.overloaded(), ModelUnavailable, "503 UNAVAILABLE: The model is overloaded"),
        (gemini.Reply(gemini.overloaded().body), ModelUnavailable, "503 UNAVAILABLE: The model is overloaded"),
        (gemini.html_502(), ModelUnavailable, "502 Bad Gateway"),
        (gemini.not_json(), ModelUnavailable, "not JSON"),
        (gemini.empty(), ModelUnavailable, "empty or malformed: STOP"),
        (gemini.stopped("MALFORMED_FUNCTION_CALL"), ModelUnavailable, "malformed: MALFORMED_FUNCTION_CALL"),
        (gemini.candidate([CLICKS], "UNEXPECTED_TOOL_CALL"), ModelUnavailable, "malformed: UNEXPECTED_TOOL_CALL"),
        (gemini.malformed(CLICKS, {"text": 5}), ModelUnavailable, "malformed: it holds the part {'text': 5"),
        (gemini.rate_limited(0.01), QuotaExhausted, "quota is used up: 429"),
    ],
)
def test_five_attempts_and_no_more(converse: Converse, failure: Reply, error: type[PlannerError], message: str) -> None:
    talk = converse(lambda request: failure, detect_prompt_injection=False)
    with pytest.raises(error, match=message):
        talk.decide()
    assert len(talk.server.requests) == 5
    assert talk.exchanges[-1].retry_in_s is None


@pytest.mark.parametrize(
    ("failure", "error", "message"),
    [
        (gemini.daily_quota(), QuotaExhausted, "the daily quota is used up"),
        (
            gemini.error(403, "PERMISSION_DENIED", "Forbidden."),
            KeyRejected,
            r"^the API key, or its access to the model 'gemini-3.8-flash', was refused: 403 PERMISSION_DENIED: Forb",
        ),
        (gemini.error(401, "UNAUTHENTICATED", "Who are you?"), KeyRejected, "401"),
        (gemini.Reply({"error": {"code": 401, "message": "Who?"}}), KeyRejected, "missing or was refused: 401: Who"),
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


@pytest.mark.parametrize("answer", [gemini.stopped("OTHER"), gemini.candidate([CLICKS], "OTHER")])
def test_a_withheld_answer_is_a_refusal_where_injections_are_detected(converse: Converse, answer: Reply) -> None:
    talk = converse([answer, CLICK], detect_prompt_injection=True)
    with pytest.raises(AnswerRefused, match="withheld its answer, as on a prompt injection: "):
        talk.decide()
    assert len(talk.server.requests) == 1


@pytest.mark.parametrize("answer", [gemini.empty(), gemini.Reply({})])
def test_silence_is_a_refusal_if_it_stays(converse: Converse, answer: Reply) -> None:
    assert converse([answer, CLICK], detect_prompt_injection=True).decide().kind == "act"
    talk = converse(lambda request: answer, detect_prompt_injection=True)
    with pytest.raises(AnswerRefused, match="withheld its answer, as on a prompt injection: "):
        talk.decide()
    assert len(talk.server.requests) == 5


@pytest.mark.parametrize("answer", [gemini.stopped("MALFORMED_FUNCTION_CALL"), gemini.stopped("MAX_TOKENS")])
def test_what_was_merely_malformed_is_asked_again_all_the_same(converse: Converse, answer: Reply) -> None:
    talk = converse([answer, CLICK], detect_prompt_injection=True)
    assert talk.decide().kind == "act"


@pytest.mark.parametrize("details", [{}, 5, [7], [{"violations": 3}], [{"violations": ["PerDay"]}]])
def test_an_error_of_any_shape_is_an_error(converse: Converse, details: Any) -> None:
    refused = {"error": {"code": 400, "message": ["Bad"], "status": None, "details": details}}
    with pytest.raises(PlannerError, match=r"refused the request: 400: .*Bad"):
        converse([gemini.Reply(refused, 400)]).decide()


@pytest.mark.parametrize("body", [b"5", b'"Bad gateway"', b"[]", b'[{"error": {}}]', b"[" * 100_000])
def test_an_error_without_an_object_is_an_error(converse: Converse, body: bytes) -> None:
    with pytest.raises(PlannerError):
        converse([gemini.Reply(body, 400)]).decide()


def test_a_wrong_key(converse: Converse) -> None:
    talk = converse([CLICK], api_key="another key")
    with pytest.raises(KeyRejected, match="API key not valid"):
        talk.decide()
    assert len(talk.server.requests) == 1


def test_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(KeyMissing, match="set GOOGLE_API_KEY"):
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


def test_an_environment_made_for_vertex(converse: Converse, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"):
        monkeypatch.setenv(name, "true")
    talk = converse([CLICK])
    assert talk.decide().kind == "act"
    assert talk.server.requests[0].version == "v1beta"


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
    assert time.monotonic() - started < 30.0


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
    assert 0.7 < time.monotonic() - started < 20.0
    assert talk.exchanges[-1].request["contents"]
    assert all(exchange.uncounted for exchange in talk.exchanges)


def test_one_hanging_attempt_does_not_use_up_all_the_time(converse: Converse) -> None:
    backoff = dataclasses.replace(QUICK, each_s=0.8)
    talk = converse([gemini.hang(), CLICK], backoff=backoff)
    assert talk.decide(timeout_s=20.0).kind == "act"
    assert "did not answer within 0.8 s" in talk.exchanges[0].error


def test_proxy_is_passed_by_or_named(converse: Converse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with JsonServer(lambda posted: gemini.Reply(b"<html>Not allowed</html>", 403)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert converse([CLICK]).decide().kind == "act"  # its server is on this machine
        assert not proxy.requests
        told = f"the proxy, or the model's service, refused the request: 403: .*through the proxy {proxy.url[7:]} "
        with pytest.raises(ModelUnavailable, match=told):
            converse([CLICK], base_url="http://gemini.test").decide()
    assert len(proxy.requests) == 1


def test_nobody_listens(history: History) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        planner = GeminiComputerUse(api_key="a key", base_url=url, backoff=QUICK)
        exchanges: list[ModelExchange] = []
        with pytest.raises(ModelUnavailable, match=r"cannot be reached: .*ConnectError"):
            planner.decide(history.observation(into(exchanges)), timeout_s=10.0)
    assert [exchange.uncounted for exchange in exchanges] == [False] * 5


@pytest.mark.parametrize("url", ["http://[", "nonsense://host", "not an address", "http://"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(SettingsError, match="base_url must be an address such as https://host/path, got"):
        GeminiComputerUse(api_key="a key", base_url=url)


def test_a_request_that_was_given_up_leaves_no_socket_open(converse: Converse, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was given up while it connected; the connection comes about all the same, and is answered."""
    gave_up, connect = threading.Event(), socket.create_connection

    def slowly(*address: Any, **options: Any) -> socket.socket:
        gave_up.wait(timeout=20.0)
        return connect(*address, **options)

    talk = converse([DONE])
    monkeypatch.setattr(socket, "create_connection", slowly)
    with pytest.raises(ModelUnavailable, match="did not answer within"):
        talk.decide(timeout_s=0.5)
    gave_up.set()
    for thread in threading.enumerate():
        if thread.name == "vnc-use deadline":
            thread.join(timeout=20.0)
    assert len(talk.server.requests) == 1
    gc.collect()  # an open socket that nobody holds any more is told of now


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


@pytest.mark.parametrize(
    ("answer", "uncounted"),
    [
        (gemini.not_json(), True),
        (gemini.Reply({"candidates": CLICK.body["candidates"]}), True),
        (gemini.overloaded(), False),
        (gemini.html_502(), False),
        (gemini.rate_limited(None), False),
        (gemini.empty(), False),
        (gemini.stopped("MAX_TOKENS"), True),
        (gemini.stopped("MALFORMED_FUNCTION_CALL"), True),
    ],
)
def test_an_answer_that_tells_no_tokens_is_marked_and_an_error_is_not(
    converse: Converse, answer: Reply, uncounted: bool
) -> None:
    talk = converse([answer, DONE])
    talk.decide()
    assert talk.exchanges[0].uncounted == uncounted


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
    everything = [repr(talk.planner.__dict__), repr(talk.exchanges), str(caught.value)]
    assert "suspended" in everything[1]
    assert not [text for text in everything if gemini.API_KEY in text]


@pytest.mark.parametrize(
    "answer", [gemini.daily_quota(), gemini.not_json(), gemini.hang(), gemini.empty(), gemini.Reply(b"5", 400)]
)
def test_no_traceback_shows_the_key(converse: Converse, answer: Reply) -> None:
    """As `pytest --tb=long --showlocals` would: whatever stands in the frames of ours, or of any library."""
    talk = converse(lambda request: answer)
    with pytest.raises(PlannerError) as caught:
        talk.decide(timeout_s=0.5)
    assert not [shown for shown in _frames(caught.value) if gemini.API_KEY in shown]


def test_no_traceback_shows_the_key_where_nothing_can_be_sent(
    history: History, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    planner = GeminiComputerUse(api_key=gemini.API_KEY, base_url="https://localhost:1", backoff=QUICK)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
    load_certificates.cache_clear()
    with pytest.raises(PlannerError, match=r"could not be asked: FileNotFoundError") as caught:
        planner.decide(history.observation(), timeout_s=5.0)
    assert not [shown for shown in _frames(caught.value) if gemini.API_KEY in shown]


def _frames(error: BaseException | None) -> Iterator[str]:
    """The local names of every frame of an error, and of those that led to it, but for the test's own."""
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename != __file__ and "conversations" not in frame.f_code.co_filename:
                yield repr(frame.f_locals)
        error = error.__cause__ or error.__context__
