"""What goes wrong with a model's service: what is asked again, what it costs, and that
the key goes nowhere else.
"""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import socket
import ssl
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
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
from pytest_vnc_use.planners.anthropic import AnthropicComputer, AnthropicJudge
from pytest_vnc_use.planners.chat.chat_completions import OpenAICompatible
from pytest_vnc_use.planners.common.http import (
    Attempt,
    Backoff,
    Failure,
    Service,
    is_loopback,
    load_certificates,
    post_json,
    retry_after_s,
)
from pytest_vnc_use.planners.gemini.computer_use import GeminiComputerUse, GeminiJudge
from pytest_vnc_use.planners.openai import OpenAIComputer, OpenAIJudge
from pytest_vnc_use.types import ModelExchange
from support import gemini_server as gemini, messages_server, responses_server
from support.certificates import Authority, Certificate
from support.chat_server import said
from support.json_server import JsonServer, Posted, Reply
from support.messages_server import message
from support.players import PLAYERS, QUICK, History, cases_of, into
from support.responses_server import computer_call, response, thought

KEY = "sk-a-secret-key"
PROVIDERS = {
    name.removeprefix("openai-compatible, "): player for name, player in PLAYERS.items()
}
GEMINI = PROVIDERS["gemini"]
CLICKED = {"type": "click", "button": "left", "x": 720, "y": 450}
GEMINIS = {
    "functionCall": {"name": "click", "args": {"x": 500, "y": 500}},
    "thoughtSignature": "AAEC",
}
USE = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "left_click",
    "toolset_name": "computer",
    "input": {},
}
AGAIN: dict[str, list[Reply]] = {
    "gemini": [
        gemini.rate_limited(0.05),
        gemini.not_json(),
        gemini.empty(),
        gemini.stopped("A_REASON_OF_NEXT_YEAR"),
        gemini.candidate([{"text": "cut off in the mid"}], "MAX_TOKENS"),
        *[
            gemini.candidate([GEMINIS], reason)
            for reason in ("UNEXPECTED_TOOL_CALL", "OTHER")
        ],
        gemini.candidate([{"text": "half a character: \ud83d"}]),
        gemini.Reply(
            {"candidates": [{"finishReason": "STOP", "content": "It is open."}]}
        ),
    ],
    "anthropic": [
        messages_server.error(529, "overloaded_error", "Overloaded"),
        Reply({"content": "It is open.", "stop_reason": "end_turn"}),
        message([USE], "max_tokens"),
        message([{"type": "text", "text": "…"}], "pause_turn"),
        message([USE, USE], "tool_use"),
    ],
    "openai": [
        response(
            responses_server.said("cut"),
            status="incomplete",
            incomplete_details={"reason": "max_output_tokens"},
        ),
        response(
            status="failed", error={"code": "server_error", "message": "It failed."}
        ),
        response(computer_call(CLICKED), thought()),
        response(
            {**computer_call(CLICKED), "call_id": "1"},
            {**computer_call(CLICKED), "call_id": "1"},
        ),
    ],
    "commands": [
        said("I will", finish_reason="error"),  # OpenRouter
        said("", finish_reason="abort"),  # vLLM
        Reply({"choices": [{"finish_reason": "stop"}]}),
    ],
}


@pytest.mark.parametrize(("name", "failure"), cases_of(AGAIN))
def test_decide_passing_failure_asks_again(name: str, failure: Reply) -> None:
    provider = PROVIDERS[name]
    settings = {"detect_prompt_injection": False} if name == "gemini" else {}
    with provider.conversation(
        [failure, failure, provider.click()], **settings
    ) as conversation:
        assert conversation.decide().kind == "act"
        pattern = [
            (each.attempt, bool(each.error), each.retry_in_s is not None)
            for each in conversation.exchanges
        ]
        assert pattern == [(1, True, True), (2, True, True), (3, False, False)]


REFUSAL = {
    **responses_server.said(""),
    "content": [{"type": "refusal", "refusal": "Not this."}],
}
FILTERED = response(
    status="incomplete", incomplete_details={"reason": "content_filter"}
)
LASTING: list[tuple[str, Reply, type[Exception], str]] = [
    ("gemini", gemini.daily_quota(), QuotaExhausted, "the daily quota is used up"),
    (
        "gemini",
        gemini.error(400, "INVALID_ARGUMENT", "Bad shape."),
        PlannerError,
        "rejected the request: 400 .*Bad",
    ),
    (
        "gemini",
        gemini.blocked_prompt("A_REASON_OF_NEXT_YEAR"),
        AnswerRefused,
        "blocked the prompt: A_REASON_OF_NEXT_Y",
    ),
    (
        "gemini",
        gemini.candidate([{"text": "half of it"}], "SAFETY"),
        AnswerRefused,
        "blocked the answer: SAFETY",
    ),
    (
        "anthropic",
        messages_server.refused("cyber", "Not this."),
        AnswerRefused,
        "refused to answer: cyber: Not this.",
    ),
    (
        "anthropic",
        message([], "model_context_window_exceeded"),
        PlannerError,
        "longer than the model's context",
    ),
    (
        "openai",
        response(REFUSAL),
        AnswerRefused,
        "the model refused to answer: Not this.",
    ),
    ("openai", FILTERED, AnswerRefused, "blocked the answer: content_filter"),
    (
        "commands",
        said(None, refusal="I cannot."),
        AnswerRefused,
        "the model's service refused: I cannot",
    ),
]
REPEATED: list[tuple[str, Reply, type[Exception], str]] = [
    (
        "gemini",
        gemini.overloaded(),
        ModelUnavailable,
        "503 UNAVAILABLE: The model is overloaded",
    ),
    (
        "commands",
        said("I will", finish_reason="error"),
        ModelUnavailable,
        "finish_reason 'error', after 'I will'",
    ),
    (
        "commands",
        Reply({"code": 1305, "msg": "Too many."}),
        ModelUnavailable,
        "no choice with a message: .*Too many",
    ),
]


@pytest.mark.parametrize(
    ("row", "requests"),
    [*((row, 1) for row in LASTING), *((row, 5) for row in REPEATED)],
)
def test_decide_failing_service_raises_after_requests(
    row: tuple[str, Reply, type[Exception], str], requests: int
) -> None:
    name, failure, error, problem = row
    settings = {"detect_prompt_injection": False} if name == "gemini" else {}
    with PROVIDERS[name].conversation(
        lambda request: failure, **settings
    ) as conversation:
        with pytest.raises(error, match=problem):
            conversation.decide()
        assert len(conversation.server.requests) == requests
        assert conversation.exchanges[-1].retry_in_s is None


@pytest.mark.parametrize(
    ("answer", "requests"),
    [
        (gemini.stopped("OTHER"), 1),
        (gemini.candidate([GEMINIS], "OTHER"), 1),
        (gemini.empty(), 5),
    ],
)
def test_decide_withheld_answer_with_detection_is_refused(
    answer: Reply, requests: int
) -> None:
    with GEMINI.conversation(
        lambda request: answer, detect_prompt_injection=True
    ) as conversation:
        with pytest.raises(
            AnswerRefused, match="withheld its answer, as on a prompt injection: "
        ):
            conversation.decide()
        assert len(conversation.server.requests) == requests


def test_decide_waits_as_service_asks_within_its_time() -> None:
    with GEMINI.conversation(
        [gemini.rate_limited(0.4), GEMINI.click(), gemini.rate_limited(37)]
    ) as conversation:
        started = time.monotonic()
        conversation.decide()
        assert time.monotonic() - started >= 0.4
        assert conversation.exchanges[0].retry_in_s == 0.4
        with pytest.raises(QuotaExhausted, match="asks to wait 37 s"):
            conversation.decide(timeout_s=5.0)
        assert time.monotonic() - started < 30.0


def test_decide_hanging_attempt_leaves_time_for_another() -> None:
    with GEMINI.conversation(
        [gemini.hang(), GEMINI.click()], backoff=dataclasses.replace(QUICK, each_s=0.4)
    ) as conversation:
        assert conversation.decide(timeout_s=20.0).kind == "act"
        assert "did not answer within 0.4 s" in conversation.exchanges[0].error


@pytest.mark.parametrize(
    ("attempt", "wait_s"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0)]
)
def test_backoff_waits_double_up_to_limit(attempt: int, wait_s: float) -> None:
    backoff = Backoff(first_wait_s=1.0, max_wait_s=5.0)
    assert wait_s <= backoff.wait_s(attempt) <= wait_s * 1.25


@pytest.mark.parametrize(
    ("answer", "uncounted"), [(gemini.not_json(), True), (gemini.overloaded(), False)]
)
def test_exchange_without_tokens_is_uncounted_unless_error(
    answer: Reply, uncounted: bool
) -> None:
    with GEMINI.conversation(
        [answer, gemini.text("It is open."), gemini.text("It is open.")]
    ) as conversation:
        conversation.decide()
        assert conversation.exchanges[0].uncounted == uncounted


ASKERS = {
    "gemini": (GeminiComputerUse, GeminiJudge),
    "anthropic": (AnthropicComputer, AnthropicJudge),
    "openai": (OpenAIComputer, OpenAIJudge),
}
# The variables of a service's key, the preferred first, and of its URL.
VARIABLES = {
    "gemini": (["GOOGLE_API_KEY", "GEMINI_API_KEY"], "GOOGLE_GEMINI_BASE_URL"),
    "anthropic": (["ANTHROPIC_API_KEY"], "ANTHROPIC_BASE_URL"),
    "openai": (["OPENAI_API_KEY"], "OPENAI_BASE_URL"),
}


@pytest.fixture
def no_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the keys of all services but the one that the test names."""
    for keys, _ in VARIABLES.values():
        for variable in keys:
            monkeypatch.setenv(variable, "another key")
    for variable in VARIABLES[name][0]:
        monkeypatch.delenv(variable)


@pytest.mark.usefixtures("no_key")
@pytest.mark.parametrize(("name", "asker"), cases_of(ASKERS))
def test_missing_or_malformed_key_is_named(name: str, asker: Any) -> None:
    first = VARIABLES[name][0][0]
    missing = rf"Set {first}\. In Python a planner or judge also takes api_key="
    with pytest.raises(KeyMissing, match=missing):
        asker()
    with pytest.raises(KeyRejected, match="printable ASCII"):
        asker(api_key="schlüssel")


@pytest.mark.usefixtures("no_key")
@pytest.mark.parametrize("name", ASKERS)
def test_key_and_url_come_from_environment(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, url = VARIABLES[name]
    planner, _ = ASKERS[name]
    with PROVIDERS[name].conversation([PROVIDERS[name].click()]) as conversation:
        monkeypatch.setenv(keys[-1], conversation.server.api_key)
        monkeypatch.setenv(url, f"{conversation.server.url}/")
        observation = conversation.history.observation()
        assert planner().decide(observation, timeout_s=20.0).kind == "act"


@pytest.mark.parametrize("name", PROVIDERS)
def test_refused_key_is_renewed_once(name: str) -> None:
    """A function that gives keys, such as that of a key command, is asked for another
    one.
    """
    asked: list[str] = []

    def key(refused: str) -> str:
        asked.append(refused)
        return KEY if refused == "sk-an-old-key" else "sk-an-old-key"

    provider = PROVIDERS[name]
    with provider.conversation([provider.click()] * 2, api_key=key) as conversation:
        conversation.server.api_key = KEY
        assert [conversation.decide().kind, conversation.decide().kind] == [
            "act",
            "act",
        ]
        errors = [exchange.error[:38] for exchange in conversation.exchanges]
        assert errors == ["the API key is missing or was rejected", "", ""]
        assert asked == ["", "sk-an-old-key"]
        assert KEY not in repr(conversation.exchanges)
        assert "sk-an-old" not in repr(conversation.exchanges)
        conversation.server.api_key = "sk-another"
        with pytest.raises(KeyRejected):
            conversation.decide()
    assert asked == ["", "sk-an-old-key", KEY]


@pytest.mark.parametrize("answer", [gemini.daily_quota(), gemini.not_json()])
def test_no_frame_of_traceback_holds_key(answer: Reply) -> None:
    """As `pytest --tb=long --showlocals` would print it."""
    with (
        GEMINI.conversation(lambda request: answer) as conversation,
        pytest.raises(PlannerError) as caught,
    ):
        conversation.decide(timeout_s=0.5)
    frames = []
    error: BaseException | None = caught.value
    while error is not None:
        frames += [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        error = error.__cause__ or error.__context__
    # Those of the tests have the server, which knows its key.
    code = {frame: frame.f_code.co_filename for frame in frames}
    ours = [
        frame
        for frame, file in code.items()
        if file != __file__ and "players" not in file
    ]
    assert ours
    holding = [frame for frame in ours if gemini.API_KEY in repr(frame.f_locals)]
    assert holding == []


def service_at(url: str, key: str = KEY) -> Service:
    return Service(url, "some-model", key, {"Authorization": f"Bearer {key}"})


def ask(reply: Reply, body: Any = None, timeout_s: float = 20.0) -> Attempt[Any]:
    """Post to a server that answers every request with the one reply."""
    with JsonServer(lambda posted: reply) as server:
        attempt = post_json(
            service_at(f"{server.url}/v1/x"), body or {}, timeout_s=timeout_s, read=len
        )
    assert KEY not in repr(attempt)
    return attempt


def failure_of(attempt: Attempt[Any]) -> Failure:
    assert isinstance(attempt.result, Failure)
    return attempt.result


def error(message: str, kind: str = "", **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, **more}}


PROVIDERS_ERROR = {
    "code": 502,
    "message": "Provider returned error",
    "metadata": {"raw": "Full."},
}
CHOICES = {
    "choices": [{"finish_reason": "error", "message": {}, "error": PROVIDERS_ERROR}]
}


@pytest.mark.parametrize(
    ("status", "body", "kind", "again", "pattern"),
    [
        (
            429,
            error("Slow.", "rate_limit_error"),
            QuotaExhausted,
            True,
            r"429 rate_limit_error: Slow.* to wait 7 s\)",
        ),
        (
            429,
            error("Pay.", "x", code="insufficient_quota"),
            QuotaExhausted,
            False,
            "the quota is used up: 429 x: Pay",
        ),
        (
            529,
            error("Busy.", "overloaded_error"),
            ModelUnavailable,
            True,
            "529 overloaded_error: Busy.",
        ),
        (
            401,
            error(f"Incorrect: {KEY}"),
            KeyRejected,
            False,
            r"was rejected: 401: Incorrect: \[api key\]",
        ),
        (
            400,
            error("Bad.", "invalid_request_error"),
            PlannerError,
            False,
            "request: 400 invalid_request_error: Bad.",
        ),
        (
            400,
            {"object": "error", "type": "BadRequestError", "message": "Long."},
            PlannerError,
            False,
            "Error: Long.",
        ),
        (
            200,
            error("Slow.", "rate_limit_error"),
            QuotaExhausted,
            True,
            "quota is used up: 200 rate_limit_error: Slow",
        ),
        (
            200,
            error(f"Incorrect: {KEY}"),
            ModelUnavailable,
            True,
            r"failed: 200: Incorrect: \[api key\]",
        ),
        (
            200,
            CHOICES,
            ModelUnavailable,
            True,
            "failed: 502: Provider returned error Full.",
        ),
    ],
)
def test_error_has_kind(
    status: int, body: Any, kind: type[PlannerError], again: bool, pattern: str
) -> None:
    failure = failure_of(ask(Reply(body, status, {"Retry-After": "7"})))
    assert (type(failure.error), failure.again, failure.after_s) == (kind, again, 7.0)
    with pytest.raises(kind, match=pattern):
        raise failure.error


PAGE = b"<!doctype html><title>Open WebUI</title>"
ELSEWHERE = {"Location": "https://me:secret@host/v1/x?token=secret"}
OTHER_SERVERS: list[tuple[str, Reply, str]] = [
    ("commands", Reply(PAGE), "200: <!doctype html><title>Open WebUI</title>"),
    ("commands", Reply(PAGE, 404), "404: <!doctype html>"),
    ("commands", Reply({"detail": "Not Found"}, 404), "404: Not Found"),
    ("commands", Reply({"detail": "Method Not Allowed"}, 405), "405: Method Not"),
    ("commands", Reply(PAGE, 501), "501: <!doctype html>"),
    ("commands", Reply(b"<h1>HTTP to an HTTPS port</h1>", 400), "400: <h1>HTTP to an"),
    ("commands", Reply(b"", 307, ELSEWHERE), "307: a redirect to https://host/v1/x\\."),
    ("commands", Reply(b"<a>Found</a>", 302), "302: <a>Found</a>"),
    ("commands", Reply(b""), "200: an empty body"),
    ("commands", Reply(b"", 204), "204: an empty body"),
    ("commands", Reply(b"Ollama is running"), "200: Ollama is running"),
    ("commands", Reply(b'data: {"choices": []}'), "200: data: "),
    ("commands", Reply({"error": "Unexpected endpoint."}), "200: Unexpected endpoint"),
    ("commands", Reply({"status": "ok"}), '200: {"status": "ok"}'),
    ("commands", Reply(b"[1, 2]"), r"200: \[1, 2\]"),
    ("commands", Reply(b'"hello"'), '200: "hello"'),
    ("gemini", Reply(b'{"choices": []}'), '200: {"choices": '),
    ("gemini", gemini.error(404, "NOT_FOUND", "No x."), "404 NOT_FOUND: No x"),
    ("anthropic", Reply({"choices": []}), '200: {"choices": '),
    ("openai", Reply({"choices": []}), '200: {"choices": '),
]
REMEDIES = {
    "commands": (
        "vnc_base_url must be the URL that has /chat/completions below it, such as"
        " http://host:8000/v1"
    ),
    "gemini": "GOOGLE_GEMINI_BASE_URL must be the URL that has /v1beta below it",
    "anthropic": "ANTHROPIC_BASE_URL must be the URL that has /v1/messages below it",
    "openai": "OPENAI_BASE_URL must be the URL that has /responses below it",
}


@pytest.mark.parametrize(("name", "reply", "words"), OTHER_SERVERS)
def test_decide_other_server_is_settings_error(
    name: str, reply: Reply, words: str
) -> None:
    with PROVIDERS[name].conversation(lambda request: reply) as conversation:
        with pytest.raises(SettingsError, match=f"which answered {words}") as caught:
            conversation.decide()
        assert f" was not found at {conversation.server.url}/" in str(caught.value)
        assert REMEDIES[name] in str(caught.value)
        assert "secret" not in str(caught.value)
        assert len(conversation.server.requests) == 1
        assert conversation.exchanges[0].error == str(caught.value)


@pytest.mark.parametrize(
    "reply", [Reply(PAGE, 503), Reply(PAGE, 429), Reply(b"\n\n"), Reply(b'{"choi')]
)
def test_decide_failing_proxy_asks_again(reply: Reply) -> None:
    """An outage. Blank lines are what DeepSeek sends until an answer is ready."""
    with PROVIDERS["commands"].conversation(
        [reply, PROVIDERS["commands"].click()]
    ) as conversation:
        assert conversation.decide().kind == "act"
        assert len(conversation.server.requests) == 2


def test_other_server_message_has_no_key_or_query() -> None:
    page = Reply(f"<p>{'x' * 190} Bearer {KEY}</p>".encode())
    with JsonServer(lambda posted: page) as server:
        service = service_at(f"{server.url}/{KEY}/x?token=secret")
        failure = failure_of(post_json(service, {}, timeout_s=20.0, read=len))
    shown = f"at {server.url}/[api key]/x, which answered 200: <p>xx"
    assert shown in str(failure.error)
    assert "secret" not in str(failure.error)
    assert KEY[:6] not in str(failure.error)


def test_spellings_of_wait() -> None:
    in_a_minute = format_datetime(datetime.now(timezone.utc) + timedelta(minutes=1))
    assert retry_after_s({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    assert 50 < (retry_after_s({"retry-after": in_a_minute}) or 0) <= 60
    assert retry_after_s({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0
    assert [retry_after_s(headers) for headers in ({}, {"retry-after": "soon"})] == [
        None,
        None,
    ]


@pytest.mark.parametrize(
    "reply", [Reply({}, hang_s=60.0), Reply(b"oh " * 5000, 500, drip_s=0.05)]
)
def test_network_call_ends_at_time_limit(reply: Reply) -> None:
    started = time.monotonic()
    attempt = ask(reply, timeout_s=0.3)
    assert time.monotonic() - started < 20.0
    assert attempt.uncounted
    failure = failure_of(attempt)
    assert failure.again
    with pytest.raises(ModelUnavailable, match=r"did not answer within 0\.3 s"):
        raise failure.error


def test_service_absent_or_key_unsendable_bills_nothing() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # bound, and nothing listens
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}/"
        absent = post_json(service_at(url), {}, timeout_s=20.0, read=len)
    unsendable = post_json(
        service_at("http://localhost:1/", "kéy"), {}, timeout_s=20.0, read=len
    )
    assert absent.uncounted is False
    assert unsendable.uncounted is False
    assert failure_of(absent).again is True
    assert f"at {url} cannot be reached: ConnectError" in str(failure_of(absent).error)
    assert "could not be asked: Unicode" in str(failure_of(unsendable).error)
    assert "kéy" not in str(failure_of(unsendable).error)


def test_exchange_shows_neither_keys_nor_images() -> None:
    png = base64.b64encode(b"\x89PNG").decode()
    body = {
        "messages": [
            {"image_url": {"url": f"data:image/png;base64,{png}"}},
            {"type": "base64", "data": png},
        ],
        "text": f"the key is {KEY}",
    }
    digest = f"sha256:{hashlib.sha256(base64.b64decode(png)).hexdigest()}"
    attempt = ask(Reply({"said": f"{KEY}!"}), body)
    assert attempt.request["messages"] == [
        {"image_url": {"url": digest}},
        {"type": "base64", "data": digest},
    ]
    assert attempt.request["text"] == "the key is [api key]"
    assert attempt.response == {"said": "[api key]!"}


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets the proxy of the environment, and no other."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return lambda url: (
        [monkeypatch.setenv(name, url) for name in ("http_proxy", "https_proxy")]
        and None
    )


def test_loopback_is_asked_directly_despite_proxy(proxy: Callable[[str], None]) -> None:
    proxy("http://127.0.0.1:9")
    assert ask(Reply({"answer": 1})).result == 1


def test_is_loopback() -> None:
    near = [
        "http://LOCALHOST.:1/v1",
        "http://model.localhost/v1",
        "http://127.8.8.8/v1",
        "https://[::1]:1/v1",
    ]
    assert [
        url
        for url in (
            *near,
            "http://localhost.example",
            "http://10.0.0.1",
            "http://[::1",
            "",
        )
        if is_loopback(url)
    ] == near


@pytest.mark.parametrize(
    ("reply", "kind", "text"),
    [
        (
            Reply(b"<html>", 403),
            ModelUnavailable,
            "the proxy, or the model's service, rejected the request: 403: <html>",
        ),
        (
            Reply(error("Not yours."), 403),
            KeyRejected,
            "the API key, or its access to the model",
        ),
        (
            Reply({"message": "your card was rejected: it is too old"}, 402),
            QuotaExhausted,
            "the quota is used up: 402: your card was rejected: it is too old",
        ),
    ],
    ids=["page", "key", "quota"],
)
def test_error_through_proxy_names_it(
    proxy: Callable[[str], None], reply: Reply, kind: type[PlannerError], text: str
) -> None:
    service = Service("http://model.test/v1", "m")
    with JsonServer(lambda posted: reply) as server:
        proxy(server.url.replace("//", "//me:secret@"))
        attempt = post_json(service, {}, timeout_s=20.0, read=len)
    assert server.requests[0].path == "http://model.test/v1"
    failure = failure_of(attempt)
    assert type(failure.error) is kind
    assert str(failure.error).startswith(text)
    assert str(failure.error).endswith(
        f"; it was asked through the proxy {server.url[7:]} (of HTTP_PROXY,"
        " HTTPS_PROXY or ALL_PROXY); to ask model.test directly, add it to"
        " NO_PROXY"
    )
    assert "secret" not in str(failure.error)


def test_decide_https_to_http_port_asks_once() -> None:
    exchanges: list[ModelExchange] = []
    with JsonServer(lambda posted: Reply({})) as server:
        url = server.url.replace("http:", "https:")
        planner = OpenAICompatible(f"{url}/v1", "m", backoff=QUICK)
        observation = History().observation(into(exchanges))
        with pytest.raises(SettingsError) as caught:
            planner.decide(observation, timeout_s=20.0)
    assert str(caught.value) == (
        f"the model's service at {url}/v1/chat/completions answers without TLS. Use"
        " http:// in place of https://"
    )
    assert [exchange.error for exchange in exchanges] == [str(caught.value)]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_proxy_of_http_named_https_is_settings_error(
    scheme: str, proxy: Callable[[str], None]
) -> None:
    with JsonServer(lambda posted: Reply({})) as server:
        proxy(server.url.replace("http://", "https://me:secret@"))
        service = Service(f"{scheme}://model.test/v1", "m")
        failure = failure_of(post_json(service, {}, timeout_s=20.0, read=len))
    assert (type(failure.error), failure.again) == (SettingsError, False)
    assert str(failure.error).startswith(
        f"the proxy at https://{server.url[7:]} answers without TLS. Use http:// in"
        " place of https://; it was asked through the proxy"
    )
    assert "secret" not in str(failure.error)


def test_redirect_is_not_followed() -> None:
    """It would take the key along."""
    with JsonServer(lambda posted: Reply({})) as elsewhere:
        to = Reply(b"", 308, {"Location": f"{elsewhere.url}/x"})
        with JsonServer(lambda posted: to) as server:
            attempt = post_json(service_at(server.url), {}, timeout_s=20.0, read=len)
        assert "308" in str(failure_of(attempt).error)
        assert elsewhere.requests == []


@pytest.mark.parametrize(
    "large",
    [
        Reply(b" " * 5_000_000),
        Reply(gzip.compress(bytes(20_000_000)), 429, {"Content-Encoding": "gzip"}),
    ],
    ids=["long", "compressed"],
)
def test_large_answer_is_not_read(large: Reply) -> None:
    with JsonServer(lambda posted: large) as server:
        attempt = post_json(service_at(server.url), {}, timeout_s=20.0, read=len)
    assert "more than 4 MiB" in str(failure_of(attempt).error)
    assert server.requests[0].headers["accept-encoding"] == "identity"


def asked_over_tls(certificate: Certificate) -> tuple[Attempt[Any], list[Posted]]:
    """Return what becomes of a request to a server over TLS, and what the server
    receives.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.file, certificate.key)
    with JsonServer(lambda posted: Reply({})) as server:
        server._http.socket = context.wrap_socket(server._http.socket, server_side=True)
        service = service_at(server.url.replace("http:", "https:"))
        return post_json(service, {}, timeout_s=20.0, read=len), server.requests


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Authority]:
    """An authority that is trusted in this test."""
    authority = Authority(tmp_path)
    with monkeypatch.context() as trusted:
        trusted.setenv("SSL_CERT_FILE", str(authority.file))
        load_certificates.cache_clear()
        yield authority
    load_certificates.cache_clear()


def test_key_is_sent_if_certificate_fits(authority: Authority) -> None:
    attempt, [received] = asked_over_tls(authority.certificate("127.0.0.1"))
    assert attempt.result == 0
    assert received.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("make", "pattern"),
    [
        pytest.param(
            lambda authority, _: authority.certificate("elsewhere.example"),
            "127.0.0.1",
            id="other host",
        ),
        pytest.param(
            lambda authority, _: authority.certificate("127.0.0.1", days=-1),
            "expired",
            id="expired",
        ),
        pytest.param(
            lambda _, directory: Authority(directory).certificate("127.0.0.1"),
            "SSL_CERT_FILE",
            id="other authority",
        ),
    ],
)
def test_nothing_is_sent_unless_certificate_fits(
    authority: Authority,
    tmp_path: Path,
    make: Callable[[Authority, Path], Certificate],
    pattern: str,
) -> None:
    """One clear error, and no second attempt."""
    other = tmp_path / "other"
    other.mkdir()
    attempt, received = asked_over_tls(make(authority, other))
    failure = failure_of(attempt)
    assert not attempt.uncounted
    assert not failure.again
    assert received == []
    unfit = "the certificate of the model's service does not fit"
    with pytest.raises(ModelUnavailable, match=rf"^{unfit}: (?!.*Error\().*{pattern}"):
        raise failure.error
