"""One POST of JSON: what each failure means, what a hostile service costs, and that the key goes nowhere else."""

from __future__ import annotations

import base64
import gzip
import hashlib
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use.errors import KeyRejected, ModelUnavailable, PlannerError, QuotaExhausted
from pytest_vnc_use.planners.common.http import (
    Attempt,
    Failure,
    Service,
    is_loopback,
    load_certificates,
    post_json,
    retry_after_s,
)
from support.certificates import Authority, Certificate
from support.json_server import JsonServer, Posted, Reply

KEY = "sk-a-secret-key"


def service_at(url: str, key: str = KEY) -> Service:
    return Service(url, "some-model", key, {"Authorization": f"Bearer {key}"})


def failure_at(service: Service, timeout_s: float = 20.0) -> Failure:
    """Return the failure of a request, for which nothing may be billed."""
    attempt = post_json(service, {}, timeout_s=timeout_s, read=len)
    assert not attempt.uncounted
    return failure_of(attempt)


def ask(reply: Reply, body: Any = None, timeout_s: float = 20.0) -> Attempt[Any]:
    """Post to a server that answers every request with the one reply."""
    with JsonServer(lambda posted: reply) as server:
        attempt = post_json(service_at(f"{server.url}/v1/x"), body or {}, timeout_s=timeout_s, read=len)
    assert KEY not in repr(attempt)
    return attempt


def failure_of(attempt: Attempt[Any]) -> Failure:
    assert isinstance(attempt.result, Failure)
    return attempt.result


def error(message: str, kind: str = "", **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, **more}}


PROVIDERS_ERROR = {"code": 502, "message": "Provider returned error", "metadata": {"raw": "Full."}}
CHOICES = {"choices": [{"finish_reason": "error", "message": {}, "error": PROVIDERS_ERROR}]}


@pytest.mark.parametrize(
    ("status", "body", "kind", "again", "told"),
    [
        (429, error("Slow.", "rate_limit_error"), QuotaExhausted, True, r"429 rate_limit_error: Slow.* to wait 7 s\)"),
        (429, error("Pay.", "x", code="insufficient_quota"), QuotaExhausted, False, "the quota is used up: 429 x: Pay"),
        (529, error("Busy.", "overloaded_error"), ModelUnavailable, True, "529 overloaded_error: Busy."),
        (401, error(f"Incorrect: {KEY}"), KeyRejected, False, r"was refused: 401: Incorrect: \[api key\]"),
        (400, error("Bad.", "invalid_request_error"), PlannerError, False, "request: 400 invalid_request_error: Bad."),
        (400, {"object": "error", "type": "BadRequestError", "message": "Long."}, PlannerError, False, "Error: Long."),
        (200, error("Slow.", "rate_limit_error"), QuotaExhausted, True, "quota is used up: 200 rate_limit_error: Slow"),
        (200, error(f"Incorrect: {KEY}"), ModelUnavailable, True, r"failed: 200: Incorrect: \[api key\]"),
        (200, {"error": "Unexpected endpoint."}, PlannerError, False, r"asked at http://127.0.0.1:\d+/v1/x: is that"),
        (200, CHOICES, ModelUnavailable, True, "failed: 502: Provider returned error Full."),
    ],
)
def test_error_has_kind(status: int, body: Any, kind: type[PlannerError], again: bool, told: str) -> None:
    failure = failure_of(ask(Reply(body, status, {"Retry-After": "7"})))
    assert (type(failure.error), failure.again, failure.after_s) == (kind, again, 7.0)
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


def test_spellings_of_wait() -> None:
    in_a_minute = format_datetime(datetime.now(timezone.utc) + timedelta(minutes=1))
    assert retry_after_s({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    assert 50 < (retry_after_s({"retry-after": in_a_minute}) or 0) <= 60
    assert retry_after_s({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0
    assert [retry_after_s(headers) for headers in ({}, {"retry-after": "soon"})] == [None, None]


@pytest.mark.parametrize("reply", [Reply({}, hang_s=60.0), Reply(b"oh " * 5000, 500, drip_s=0.05)])
def test_nothing_outlasts_its_time(reply: Reply) -> None:
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
        failure = failure_at(Service(f"http://127.0.0.1:{reserved.getsockname()[1]}/", "some-model"))
    assert failure.again
    assert "cannot be reached: ConnectError" in str(failure.error)
    failure = failure_at(service_at("http://localhost:1/", "kéy"))
    assert "could not be asked: Unicode" in str(failure.error)
    assert "kéy" not in str(failure.error)


def test_exchange_shows_neither_keys_nor_images() -> None:
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
    assert ask(Reply({"answer": 1})).result == 1


def test_is_loopback() -> None:
    near = ["http://LOCALHOST.:1/v1", "http://model.localhost/v1", "http://127.8.8.8/v1", "https://[::1]:1/v1"]
    assert [
        url for url in (*near, "http://localhost.example", "http://10.0.0.1", "http://[::1", "") if is_loopback(url)
    ] == near


@pytest.mark.parametrize(
    ("reply", "kind", "told"),
    [
        (
            Reply(b"<html>", 403),
            ModelUnavailable,
            "the proxy, or the model's service, refused the request: 403: <html>",
        ),
        (Reply(error("Not yours."), 403), KeyRejected, "the API key, or its access to the model"),
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


def test_redirect_is_not_followed() -> None:
    """It would take the key along."""
    with JsonServer(lambda posted: Reply({})) as elsewhere:
        to = Reply(b"", 308, {"Location": f"{elsewhere.url}/x"})
        with JsonServer(lambda posted: to) as server:
            attempt = post_json(service_at(server.url), {}, timeout_s=20.0, read=len)
        assert "308" in str(failure_of(attempt).error)
        assert elsewhere.requests == []


def test_large_answer_is_not_read() -> None:
    bomb = Reply(gzip.compress(bytes(20_000_000)), 429, {"Content-Encoding": "gzip"})
    for large in (Reply(b" " * 5_000_000), bomb):
        with JsonServer(lambda posted, large=large: large) as server:
            attempt = post_json(service_at(server.url), {}, timeout_s=20.0, read=len)
        assert "more than 4 MiB" in str(failure_of(attempt).error)
        assert server.requests[0].headers["accept-encoding"] == "identity"


def asked_over_tls(certificate: Certificate) -> tuple[Attempt[Any], list[Posted]]:
    """Return what becomes of a request to a server over TLS, and what the server receives."""
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


def test_certificate_decides_whether_key_is_sent(authority: Authority, tmp_path: Path) -> None:
    """If not: one clear error, no second attempt, and nothing is sent."""
    attempt, [received] = asked_over_tls(authority.certificate("127.0.0.1"))
    assert (attempt.result, received.headers["authorization"]) == (0, f"Bearer {KEY}")
    (tmp_path / "other").mkdir()
    for certificate, told in (
        (authority.certificate("elsewhere.example"), "127.0.0.1"),
        (authority.certificate("127.0.0.1", days=-1), "expired"),
        (Authority(tmp_path / "other").certificate("127.0.0.1"), "SSL_CERT_FILE"),
    ):
        attempt, none = asked_over_tls(certificate)
        failure = failure_of(attempt)
        assert (attempt.uncounted, failure.again, none) == (False, False, [])
        words = rf"^the certificate of the model's service does not fit: (?!.*Error\().*{told}"
        with pytest.raises(ModelUnavailable, match=words):
            raise failure.error
