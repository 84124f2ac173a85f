"""One POST of JSON: what each way of failing means, that nothing outlasts its time, and that no key is told."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import pytest

from pytest_vnc_use.errors import KeyRejected, ModelUnavailable, PlannerError, QuotaExhausted
from pytest_vnc_use.planners.common.http import (
    Attempt,
    Failure,
    Service,
    count_of,
    is_loopback,
    post_json,
    retry_after_s,
)
from support.json_server import JsonServer, Reply

KEY = "sk-a-secret-key"
Ask = Callable[..., Attempt[Any]]


@pytest.fixture
def ask() -> Iterator[Ask]:
    """Posts to a server that answers every request with the one reply."""
    with ExitStack() as servers:

        def post(reply: Reply, body: Any = None, timeout_s: float = 20.0) -> Attempt[Any]:
            server = servers.enter_context(JsonServer(lambda posted: reply))
            service = Service(f"{server.url}/v1/x", "some-model", KEY, {"Authorization": f"Bearer {KEY}"})
            attempt = post_json(service, body or {"question": 1}, timeout_s=timeout_s, read=len)
            assert KEY not in repr(attempt)
            return attempt

        yield post


def failure_of(attempt: Attempt[Any]) -> Failure:
    assert isinstance(attempt.result, Failure)
    return attempt.result


def error(message: str, kind: str = "", **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, **more}}


def test_answer_is_read() -> None:
    with JsonServer(lambda posted: Reply({"answer": posted.body["question"] + 1})) as server:
        service = Service(f"{server.url}/v1/x", "some-model", KEY, {"Authorization": f"Bearer {KEY}"})
        attempt = post_json(service, {"question": 1}, timeout_s=20.0, read=lambda body: body["answer"])
    assert attempt == Attempt({"question": 1}, {"answer": 2}, 2)
    [posted] = server.requests
    assert (posted.path, posted.headers["authorization"]) == ("/v1/x", f"Bearer {KEY}")
    assert posted.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("status", "body", "kind", "again", "told"),
    [
        (429, error("Slow down.", "rate_limit_error"), QuotaExhausted, True, "429 rate_limit_error: Slow down."),
        (429, error("Pay.", "x", code="insufficient_quota"), QuotaExhausted, False, "the quota is used up: 429 x: Pay"),
        (402, error("Pay."), QuotaExhausted, False, "402: Pay."),
        (500, error("Oh."), ModelUnavailable, True, "the model's service failed: 500: Oh."),
        (529, error("Busy.", "overloaded_error"), ModelUnavailable, True, "529 overloaded_error: Busy."),
        (503, b"<html>\n<b>Bad Gateway</b>", ModelUnavailable, True, "503: <html> <b>Bad Gateway</b>"),
        (504, b"", ModelUnavailable, True, "504: no message"),
        (401, error(f"Incorrect: {KEY}"), KeyRejected, False, r"was refused: 401: Incorrect: \[api key\]"),
        (403, error("Not yours."), KeyRejected, False, "its access to the model 'some-model', was refused: 403"),
        (400, error("Bad.", "invalid_request_error"), PlannerError, False, "request: 400 invalid_request_error: Bad."),
        (400, {"error": "no such model"}, PlannerError, False, "400: no such model"),
        (400, {"object": "error", "type": "BadRequestError", "message": "Long."}, PlannerError, False, "Error: Long."),
        (422, {"detail": [{"loc": ["body"]}]}, PlannerError, False, "422: .*loc"),
        (400, [error("Listed.", status="INVALID_ARGUMENT")], PlannerError, False, "INVALID_ARGUMENT: Listed."),
        (404, b"not found", PlannerError, False, "404: not found"),
        (307, b"", PlannerError, False, "307"),
        (200, error("Late.", code=503), ModelUnavailable, True, "503: .*Late"),
        (200, error("Wrong.", "invalid", code=400), PlannerError, False, "400 invalid: Wrong"),
        (200, error("Slow.", code="429"), QuotaExhausted, True, "quota is used up: 429: Slow"),
        (200, error("Slow.", "rate_limit_error"), QuotaExhausted, True, "quota is used up: 200 rate_limit_error: Slow"),
        (200, error("Busy.", "overloaded_error"), ModelUnavailable, True, "failed: 200 overloaded_error: Busy"),
        (200, error("Oh.", code="server_error"), ModelUnavailable, True, "failed: 200 server_error: Oh"),
        (200, error(f"Incorrect: {KEY}"), ModelUnavailable, True, r"failed: 200: Incorrect: \[api key\]"),
        (200, {"error": "The model has crashed."}, ModelUnavailable, True, "failed: 200: The model has crashed"),
        (
            200,
            {"error": "Unexpected endpoint or method. (POST /x)"},
            PlannerError,
            False,
            r"request: 200: Unexpected endpoint or method. \(POST /x\); asked at http://127.0.0.1:\d+/v1/x: is that",
        ),
        (
            200,
            {"choices": [{"finish_reason": "error", "error": {"code": 429, "message": "Limit."}, "message": {}}]},
            QuotaExhausted,
            True,
            "the quota is used up: 429: Limit.",
        ),
        (
            200,
            {"choices": [{"error": {"code": 502, "message": "Provider returned error", "metadata": {"raw": "Full."}}}]},
            ModelUnavailable,
            True,
            "the model's service failed: 502: Provider returned error Full.",
        ),
        (200, b"<html>", ModelUnavailable, True, "not JSON"),
        (200, b'{"a": [', ModelUnavailable, True, "not JSON"),
    ],
)
def test_what_error_means(ask: Ask, status: int, body: Any, kind: type[PlannerError], again: bool, told: str) -> None:
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    failure = failure_of(ask(Reply(encoded, status)))
    assert (type(failure.error), failure.again) == (kind, again)
    with pytest.raises(kind, match=told):
        raise failure.error


def test_wrong_path_without_v1_asks_for_it() -> None:
    with JsonServer(lambda posted: Reply(b"not found", 404)) as server:
        service = Service(f"{server.url}/api/x?token=secret", "some-model")
        failure = failure_of(post_json(service, {}, timeout_s=20.0, read=len))
    assert str(failure.error) == (
        "the model's service refused the request: 404: not found; "
        f"asked at {server.url}/api/x: is /v1 missing in the base URL?"
    )


def test_how_long_to_wait_is_taken_from_header(ask: Ask) -> None:
    failure = failure_of(ask(Reply(error("Slow down."), 429, {"Retry-After": "7"})))
    assert (failure.after_s, failure.again) == (7.0, True)
    assert "(it asks to wait 7 s)" in str(failure.error)


def test_spellings_of_wait() -> None:
    in_a_minute = format_datetime(datetime.now(timezone.utc) + timedelta(minutes=1))
    assert retry_after_s({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    assert 50 < (retry_after_s({"retry-after": in_a_minute}) or 0) <= 60
    assert retry_after_s({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0
    assert [retry_after_s(headers) for headers in ({}, {"retry-after": "soon"})] == [None, None]


@pytest.mark.parametrize(
    "reply",
    [
        Reply({}, hang_s=60.0),
        Reply(b" " * 5000, drip_s=0.05),
        Reply(b" " * 5000, drip_s=0.05, drip_headers=True),
        Reply(b"oh " * 5000, 500, drip_s=0.05),
    ],
)
def test_nothing_outlasts_its_time(ask: Ask, reply: Reply) -> None:
    started = time.monotonic()
    attempt = ask(reply, timeout_s=0.4)
    assert time.monotonic() - started < 20.0
    assert attempt.uncounted
    failure = failure_of(attempt)
    assert failure.again
    with pytest.raises(ModelUnavailable, match=r"did not answer within 0\.4 s"):
        raise failure.error


def test_service_not_there() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # bound, and nobody listens
        service = Service(f"http://127.0.0.1:{reserved.getsockname()[1]}/", "some-model")
        attempt = post_json(service, {}, timeout_s=10.0, read=lambda body: body)
    assert not attempt.uncounted
    failure = failure_of(attempt)
    assert failure.again
    assert "cannot be reached: ConnectError" in str(failure.error)


@pytest.mark.parametrize(
    ("url", "key", "told"),
    [
        ("http://localhost:1/", "kéy", "could not be asked: Unicode"),
    ],
)
def test_request_that_cannot_be_made(url: str, key: str, told: str) -> None:
    service = Service(url, "some-model", key, {"Authorization": f"Bearer {key}"})
    attempt = post_json(service, {}, timeout_s=10.0, read=len)
    assert not attempt.uncounted
    failure = failure_of(attempt)
    assert told in str(failure.error)
    assert "kéy" not in str(failure.error)


def test_exchange_shows_neither_keys_nor_images(ask: Ask) -> None:
    png = base64.b64encode(b"\x89PNG").decode()
    body = {
        "messages": [{"image_url": {"url": f"data:image/png;base64,{png}"}}, {"type": "base64", "data": png}],
        "text": f"the key is {KEY}",
    }
    digest = f"sha256:{hashlib.sha256(base64.b64decode(png)).hexdigest()}"
    attempt = ask(Reply({"said": f"{KEY}!"}), body)
    assert attempt.request["messages"] == [{"image_url": {"url": digest}}, {"type": "base64", "data": digest}]
    assert (attempt.request["text"], attempt.response) == ("the key is [api key]", {"said": "[api key]!"})


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets the proxy of the environment, and no other."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return lambda url: [monkeypatch.setenv(name, url) for name in ("http_proxy", "https_proxy")] and None


def test_loopback_is_asked_directly_despite_proxy(proxy: Callable[[str], None]) -> None:
    proxy("http://127.0.0.1:9")
    with JsonServer(lambda posted: Reply({"answer": 1})) as server:
        for url in (server.url, server.url.replace("127.0.0.1", "localhost")):
            attempt = post_json(Service(url, "some-model"), {}, timeout_s=20.0, read=lambda body: body["answer"])
            assert attempt.result == 1


@pytest.mark.parametrize(
    ("url", "is_here"),
    [
        ("http://LOCALHOST.:1/v1", True),
        ("http://model.localhost/v1", True),
        ("http://127.8.8.8/v1", True),
        ("http://0.0.0.0:8000", True),
        ("https://[::1]:1/v1", True),
        ("http://localhost.example", False),
        ("http://10.0.0.1", False),
        ("http://[::1", False),
        ("", False),
    ],
)
def test_is_loopback(url: str, is_here: bool) -> None:
    assert is_loopback(url) == is_here


@pytest.mark.parametrize(
    ("reply", "kind", "told"),
    [
        (
            Reply(b"<html>Not allowed</html>", 403),
            ModelUnavailable,
            "the proxy, or the model's service, refused the request: 403: <html>Not allowed</html>; ",
        ),
        (
            Reply(b"Who are you?", 407),
            ModelUnavailable,
            "the proxy, or the model's service, refused the request: 407: Who are you?; ",
        ),
        (Reply(error("Not yours."), 403), KeyRejected, "the API key, or its access to the model"),
        (Reply(b"<html>", 200), ModelUnavailable, "the model's service sent something that is not JSON"),
        (Reply(b"", 504), ModelUnavailable, "the model's service failed: 504: no message; "),
    ],
)
def test_error_through_proxy_names_it(
    proxy: Callable[[str], None], reply: Reply, kind: type[PlannerError], told: str
) -> None:
    with JsonServer(lambda posted: reply) as server:
        proxy(server.url.replace("//", "//me:secret@"))
        failure = failure_of(post_json(Service("http://model.test/v1", "m"), {}, timeout_s=20.0, read=len))
    assert server.requests[0].path == "http://model.test/v1"
    assert type(failure.error) is kind
    assert str(failure.error).startswith(told)
    assert str(failure.error).endswith(
        f"; it was asked through the proxy {server.url[7:]} (of HTTP_PROXY, HTTPS_PROXY or ALL_PROXY); "
        "to ask model.test directly, add it to NO_PROXY"
    )
    assert "secret" not in str(failure.error)


def test_proxy_without_tunnel_is_named(proxy: Callable[[str], None]) -> None:
    with JsonServer(lambda posted: Reply({})) as server:  # it answers CONNECT with 501
        proxy(server.url)
        attempt = post_json(Service("https://model.test/v1", "some-model"), {}, timeout_s=20.0, read=len)
    assert "ProxyError(" in str(failure_of(attempt).error)
    assert f"through the proxy {server.url[7:]} " in str(failure_of(attempt).error)
    assert not attempt.uncounted


@pytest.mark.parametrize(
    ("counts", "count"),
    [
        ({"a": {"b": 7}}, 7),
        ({"a": {"b": "7"}}, 7),
        *((counts, 0) for counts in (None, [], 5, {}, {"a": 7}, {"a": {"b": "many"}}, {"a": {"b": True}})),
        ({"a": {"b": -1}}, 0),
    ],
)
def test_count_of_unreadable_is_zero(counts: Any, count: int) -> None:
    assert count_of(counts, "a", "b") == count
