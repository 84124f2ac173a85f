"""The connection to a model's service: JSON sent and read, asked again, and logged. No
other module uses httpx2.

An `Attempt` is a value: the request, the response, and its result or its failure. A
failure says whether another attempt may help. `ask` makes attempts until one succeeds,
and reports each as a `ModelExchange`.

Services report errors alike: a status, and `{"error": {"type": …, "message": …}}`, or a
part of that. The caller gives what differs between services: the headers, and the
function that reads an answer.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import random
import re
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timezone
from email.utils import parsedate_to_datetime
from functools import cache, partial
from typing import Any, Generic, TypeVar, Union
from urllib.parse import SplitResult, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from pytest_vnc_use import clock
from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import (
    KeyMissing,
    KeyRejected,
    ModelUnavailable,
    PlannerError,
    QuotaExhausted,
    SettingsError,
    VncUseError,
)
from pytest_vnc_use.errors.causes import blocked, chain
from pytest_vnc_use.settings.variables import VARIABLES
from pytest_vnc_use.types import JsonObject, ModelExchange, ModelRequest, Report, Usage
from pytest_vnc_use.types.actions import DEEPEST, is_shallow

Result = TypeVar("Result")

MAX_BYTES = 4 * 2**20
"""The largest answer that is read. A turn of a model is a few thousand bytes."""

CLEAN_UP_S = 1.0
"""The seconds after our time limit at which a read times out, so that an abandoned
request ends too.
"""

PASSING = frozenset({408, 425, 429, 499, 500, 502, 503, 504, 529})
"""HTTP statuses after which the same request may succeed. 529 is Anthropic's
"overloaded".
"""

NO_SUCH_URL = frozenset({404, 405, 501})
"""HTTP statuses of a wrong path or model. 501 is how a plain file server rejects a
POST.
"""

USED_UP = frozenset(
    {
        "insufficient_quota",
        "billing_error",
        "billing_hard_limit_reached",
        "exceeded_current_quota_error",
    }
)
"""Error types and codes after which waiting does not help."""

KINDS = {
    "rate_limit": 429,
    "overloaded": 529,
    "invalid_": 400,
    "authentication": 401,
    "not_found": 404,
}
"""The beginnings of error types and codes within a response of status 200, and the
statuses that they mean.
"""

UNSENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.InvalidURL,
)
"""Errors after which no request was sent."""

NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"})
"""OpenSSL's reasons if what answers a handshake is not TLS; the latter since 3.2."""

MAX_ANSWER_TOKENS = 64_000
"""The assumed tokens of an answer if the request does not limit its length."""

_WRONG_PATH = re.compile(r"\b(?:endpoint|route|not found)\b", re.IGNORECASE)
ApiKey = Union[str, Callable[[str], str], None]
"""A key, or a function that gets the rejected key ("" at first) and returns another."""
_DATA_URL = re.compile(r"data:(image/[\w.+-]+);base64,(.*)", re.DOTALL)
_MAX_DIGITS = 18


@dataclass
class Service:
    """The URL and the headers of a service. `key` is removed from all reports; it is in
    `headers` too.
    """

    url: str
    model: str
    key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    usage_of: Callable[[JsonObject], Usage] = field(
        default=lambda _: Usage(), repr=False
    )
    """The function that reads the tokens of a response."""
    api_key: ApiKey = field(default=None, repr=False)
    answer_fields: Sequence[str] = ()
    """The fields of which each answer has one; other JSON is not from this service."""
    url_help: str = "Check the base URL"
    """The remedy if something else answers at `url`."""

    def renew_key(self) -> bool:
        """Send a new key from now on, if a function gives one. Raises KeyMissing."""
        old_key = self.key
        self.key = self.api_key(old_key) if callable(self.api_key) else old_key
        self.headers = {
            name: value.replace(old_key, self.key)
            for name, value in self.headers.items()
        }
        return self.key != old_key


def resolve_key(api_key: ApiKey, variables: Sequence[str]) -> str:
    """Return the given key, or the key in the environment. Raises KeyMissing, or
    KeyRejected if it cannot be sent.
    """
    key = ((api_key("") if callable(api_key) else api_key) or "").strip()
    for name in variables:
        key = key or (VARIABLES.get(name) or "").strip()
    if not key:
        raise KeyMissing(
            f"no API key is set. Set {variables[0]}. In Python a planner or judge also"
            " takes api_key=…"
        )
    if not (key.isascii() and key.isprintable()):
        raise KeyRejected("the API key must contain only printable ASCII characters")
    return key


def resolve_url(base_url: str | None, variable: str = "") -> str | None:
    """Return the given URL, or the one in the environment, if any. Raises SettingsError
    if it is not http(s).
    """
    url = base_url or VARIABLES.get(variable) or None
    try:
        split_url = urlsplit(url or "http://x")
    except ValueError:
        split_url = urlsplit("")
    if split_url.scheme not in ("http", "https") or not split_url.hostname:
        raise SettingsError(
            f"base_url must be a URL such as https://host/path, got {url!r}"
        )
    return url


def is_loopback(url: str) -> bool:
    """Return whether the URL names this machine, which no proxy can reach."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
        if host == "localhost" or host.endswith(".localhost"):
            return True
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


@dataclass(frozen=True)
class Backoff:
    """The number of attempts (with the first), the time limit of each, and the waits if
    the service names none.
    """

    attempts: int = 5
    each_s: float = 120.0
    first_wait_s: float = 1.0
    max_wait_s: float = 30.0

    def wait_s(self, attempt: int) -> float:
        """Return the wait after an attempt (counted from 1).

        It doubles with every attempt. Up to a quarter is added, so that parallel runs
        do not ask at the same time.
        """
        doubled_s = self.first_wait_s * 2.0 ** (attempt - 1)
        return min(self.max_wait_s, doubled_s) * random.uniform(1.0, 1.25)

    def within(self, request_s: float | None) -> Backoff:
        """Return the same backoff with this time limit for each request, if one is
        given.
        """
        return self if request_s is None else replace(self, each_s=request_s)


@dataclass(frozen=True)
class Failure:
    """The reason why an attempt failed.

    `again`: another attempt may succeed, after `after_s` seconds if known. `unbilled`:
    the service cannot have done any work for it. `status` is the HTTP status that the
    service meant, if any. `error` is a PlannerError, or a SettingsError if no service
    of models is at the URL. It has a foreign error only as text, because the frames of
    its traceback contain the API key.
    """

    error: VncUseError
    again: bool = False
    after_s: float | None = None
    unbilled: bool = False
    status: int = 0
    refusal: str = ""
    """How the request, or its key, was rejected: the status and the reason."""


@dataclass(frozen=True)
class Attempt(Generic[Result]):
    """One request, its response in loggable form, its result, and the tokens that the
    service counted.
    """

    request: JsonObject
    response: JsonObject | None
    result: Result | Failure
    usage: Usage = field(default_factory=Usage)

    @property
    def uncounted(self) -> bool:
        """Return whether it may be billed although the service counted nothing."""
        is_unbilled = isinstance(self.result, Failure) and self.result.unbilled
        return self.usage == Usage() and not is_unbilled


def ask(
    service: Service,
    body: JsonObject | Callable[[], JsonObject],
    *,
    purpose: str,
    read: Callable[[JsonObject], Result | Failure],
    timeout_s: float,
    report: Report,
    backoff: Backoff,
    after: Callable[
        [JsonObject, Attempt[Result]], Attempt[Result]
    ] = lambda _, attempt: attempt,
) -> Result:
    """Return the first good result of a request.

    `body` may be a function that makes the body of each attempt. `after` gets each body
    and its attempt, and returns the attempt, which it may have changed. `report` is
    called before and after each attempt; if it raises before, the request is not sent.
    A rejected key is renewed once, if a function gives one. Raises the last attempt's
    error if no attempt or time is left, or if another attempt cannot help.
    """
    ends_at = clock.monotonic() + timeout_s
    request = body() if callable(body) else body
    asked = ModelRequest(
        purpose,
        service.model,
        *_size(request),
        _answer_tokens(request),
    )
    number = 0
    may_renew = True
    while True:
        number += 1
        report(asked)
        started_at = clock.monotonic()
        attempt_s = min(backoff.each_s, ends_at - started_at)
        attempt = post_json(
            service,
            request,
            timeout_s=attempt_s,
            read=read,
        )
        attempt = after(request, attempt)
        ended_at = clock.monotonic()
        result = attempt.result
        error = ""
        wait_s = None
        if isinstance(result, Failure):
            error = str(result.error)
            if result.status == 401 and may_renew:
                may_renew = False
                result = replace(result, again=service.renew_key(), after_s=0.0)
            if result.again and number < backoff.attempts:
                wait_s = result.after_s
                if wait_s is None:
                    wait_s = backoff.wait_s(number)
                if wait_s >= ends_at - ended_at:
                    wait_s = None
        exchange = ModelExchange(
            asked.purpose,
            number,
            attempt.request,
            attempt.response,
            ended_at - started_at,
            error,
            wait_s,
            model=asked.model,
            usage=attempt.usage,
            uncounted=attempt.uncounted,
        )
        report(exchange)
        if not isinstance(result, Failure):
            return result
        if wait_s is None:
            raise result.error from None
        time.sleep(wait_s)
        request = body() if callable(body) else body


def _answer_tokens(request: JsonObject) -> int:
    """Return the maximum tokens of the answer to a request."""
    limits = {**request, **request.get("generationConfig", {})}
    for name in ("max_tokens", "max_output_tokens", "maxOutputTokens"):
        if limits.get(name):
            return int(limits[name])
    return MAX_ANSWER_TOKENS


def _size(value: Any) -> tuple[int, int]:
    """Return how many characters a request's keys and texts have, and how many images
    it has.
    """
    match value:
        case str() if value.startswith("data:image/"):
            return 0, 1
        case str():
            return len(value), 0
        case {"mimeType": str(), "data": str()} | {"type": "base64", "data": str()}:
            return 0, 1
        case Mapping():
            characters = sum(len(str(name)) for name in value)
            items = list(value.values())
        case list() | tuple():
            characters = 0
            items = list(value)
        case _:
            return len(str(value)), 0
    images = 0
    for item in items:
        size = _size(item)
        characters += size[0]
        images += size[1]
    return characters, images


def count_of(counts: Any, *path: str) -> int:
    """Return the count at this path, a number or its digits; 0 if there is none.

    An unreadable count is no reason to throw an answer away.
    """
    for name in path:
        counts = counts.get(name) if isinstance(counts, Mapping) else None
    if isinstance(counts, bool):
        return 0
    if isinstance(counts, int):
        return max(0, counts)
    is_number = isinstance(counts, str) and counts.isascii() and counts.isdecimal()
    return int(counts) if is_number and len(counts) <= _MAX_DIGITS else 0


class NotJson(Exception):
    """The service sent something that is not JSON, or JSON that cannot be written
    again.
    """


def post_json(
    service: Service,
    body: JsonObject | None,
    *,
    timeout_s: float,
    read: Callable[[JsonObject], Result | Failure],
) -> Attempt[Result]:
    """Return the attempt of one request: a POST of the body, or a GET without one.
    `read` reads its answer.

    An error before that is a Failure of the attempt. The call takes no longer than
    `timeout_s`, even if an answer comes a byte at a time. It raises nothing.
    """
    response, failure = _answered(service, body, timeout_s)
    result = _through_proxy(service, failure, response) if failure else read(response)
    if isinstance(result, Failure):
        text = redact_key(str(result.error), key=service.key)
        result = replace(result, error=type(result.error)(text))
    sent = loggable(body or {}, key=service.key)
    received = loggable(response, key=service.key) if response else None
    return Attempt(
        sent,
        received,
        result,
        service.usage_of(response),
    )


def _answered(
    service: Service,
    body: JsonObject | None,
    timeout_s: float,
) -> tuple[JsonObject, Failure | None]:
    """Return the response's JSON, and a failure if there is none, or if it reports an
    error.
    """
    try:
        response = Deadline(timeout_s).call(
            partial(
                _send,
                service,
                body,
                timeout_s,
            )
        )
        return _read(service, response)
    except NotJson as exc:
        return {}, Failure(ModelUnavailable(str(exc)), again=True)
    except (DeadlineExceeded, httpx2.TimeoutException):
        late = f"the model's service did not answer within {timeout_s:.1f} s"
        return {}, Failure(ModelUnavailable(late), again=True)
    except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
        return {}, _unreached(service, exc)
    except Exception as exc:  # noqa: BLE001  # any error: the frames of its traceback hold the API key
        reason = blocked(str(exc)) or repr(exc)
        error = PlannerError(f"the model's service could not be asked: {reason}")
        return {}, Failure(error, unbilled=True)


def _unreached(service: Service, exc: Exception) -> Failure:
    """Return the failure of a request for which no service was reached."""
    for cause in chain(exc):
        if isinstance(cause, ssl.SSLCertVerificationError):
            error = ModelUnavailable(
                "the certificate of the model's service does not fit:"
                f" {cause.verify_message}; if you trust its issuer, name it in"
                " SSL_CERT_FILE"
            )
            return Failure(error, unbilled=True)
        if isinstance(cause, ssl.SSLError) and cause.reason in NO_TLS:
            return _without_tls(service)
    url = _shown_url(service.url)
    unreachable = f"the model's service at {url} cannot be reached: {exc!r}"
    is_unsent = isinstance(exc, UNSENT)
    return Failure(ModelUnavailable(unreachable), again=True, unbilled=is_unsent)


def _without_tls(service: Service) -> Failure:
    """Return the failure if the first server on the way has no TLS, but its URL is
    https.
    """
    proxy = _proxy_of(service)
    if proxy and proxy.scheme == "https":
        server = f"proxy at https://{_host_of(proxy)}"
    else:
        server = f"model's service at {_shown_url(service.url)}"
    error = SettingsError(
        f"the {server} answers without TLS. Use http:// in place of https://"
    )
    return Failure(error, unbilled=True)


def _send(
    service: Service,
    body: JsonObject | None,
    timeout_s: float,
) -> httpx2.Response:
    """Return the response as it came. It is requested uncompressed, so that `MAX_BYTES`
    limits it.
    """
    ends_at = clock.monotonic() + timeout_s
    headers = {
        "Content-Type": "application/json",
        "Accept-Encoding": "identity",
        **service.headers,
    }
    method = "GET" if body is None else "POST"
    sent = None if body is None else json.dumps(body)
    with (
        httpx2.Client(
            timeout=timeout_s + CLEAN_UP_S,
            verify=load_certificates(),
            trust_env=not is_loopback(service.url),
        ) as client,
        client.stream(
            method,
            service.url,
            content=sent,
            headers=headers,
        ) as response,
    ):
        content = bytearray()
        for chunk in response.iter_bytes():
            content += chunk
            if len(content) > MAX_BYTES:
                raise NotJson(
                    f"the model's service sent more than {MAX_BYTES // 2**20} MiB"
                )
            if clock.monotonic() > ends_at:
                raise DeadlineExceeded
    return httpx2.Response(
        response.status_code,
        headers=response.headers,
        text=content.decode(errors="replace"),
    )


@cache
def load_certificates() -> ssl.SSLContext:
    """Return httpx2's certificates, cached because reading them takes longer than a
    local request.
    """
    return httpx2.create_ssl_context()


def _read(
    service: Service, response: httpx2.Response
) -> tuple[JsonObject, Failure | None]:
    """Return the body, and a failure if the status or the body reports an error. Raises
    NotJson.
    """
    status = response.status_code
    text = response.text.lstrip()
    is_json = text.startswith(("{", "["))
    # DeepSeek sends blank lines until an answer is ready: alone they are no answer yet
    is_answer = status == 200 and (is_json or response.text.isspace())
    body = read_json(response.text) if is_answer else _error_body(response.text)
    clean = loggable(body, key=service.key)
    error = _error_in(clean)
    if is_json and status == 200 and not error:
        fields = service.answer_fields
        if not fields or any(name in body for name in fields):
            return body, None
    is_page = status == 400 and text.startswith("<")
    is_redirect = status // 100 == 3
    if (status < 400 and not error) or is_redirect or is_page:
        answer = f"{status}: {_first_words(service, response)}"
        return clean, _not_found(service, answer)
    after_s = retry_after_s(response.headers)
    error = error or clean
    return clean, failure_of_error(
        status,
        error,
        service=service,
        after_s=after_s,
    )


def _error_in(body: JsonObject) -> Any:
    """Return the error that a response's body reports, if any; OpenRouter has it in the
    first choice.
    """
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    choices_error = choice.get("error") if isinstance(choice, dict) else None
    return body.get("error") or choices_error


def _first_words(service: Service, response: httpx2.Response) -> str:
    """Return the beginning of a response that is not from a service of models."""
    if location := response.headers.get("location"):
        return f"a redirect to {_shown_url(location)}"
    text = redact_key(response.text, key=service.key)
    return shortened(text, 200) or "an empty body"


def _not_found(service: Service, answer: str) -> Failure:
    """Return the failure if the URL's answer, with its status, is not that of a service
    with this model.
    """
    error = SettingsError(
        f"the model {service.model!r} was not found at {_shown_url(service.url)}, which"
        f" answered {answer.rstrip('.')}. {service.url_help}"
    )
    return Failure(error, unbilled=True, status=404)


def _shown_url(url: str) -> str:
    """Return the URL without user, password and query, which may be secret."""
    split_url = urlsplit(url)
    return urlunsplit((split_url.scheme, _host_of(split_url), split_url.path, "", ""))


def read_json(text: str) -> JsonObject:
    """Return a response's JSON object; empty for other JSON. Raises NotJson.

    Infinity and half of a surrogate pair can be read but not sent back: the next turn
    would fail on them.
    """
    try:
        body = json.loads(text)
        json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as exc:
        raise NotJson(
            f"the model's service sent something that is not JSON: {exc}"
        ) from exc
    if not is_shallow(body):
        raise NotJson(
            f"the model's service sent something that is not JSON: more than {DEEPEST}"
            " levels deep"
        )
    return body if isinstance(body, dict) else {}


def _error_body(text: str) -> JsonObject:
    """Return an error's JSON; of a list, its first item. Text, such as a proxy's HTML,
    becomes a message.
    """
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return {"message": text[:2000]}
    first = body[0] if isinstance(body, list) and body else body
    return first if isinstance(first, dict) else {"message": str(first)[:2000]}


def _through_proxy(
    service: Service,
    failure: Failure,
    body: JsonObject,
) -> Failure:
    """Return the failure with the name of the request's proxy, if there is one. Unless
    a refusal has a service's error in its body, it may be the proxy's.
    """
    proxy = _proxy_of(service)
    if proxy is None:
        return failure
    text = str(failure.error)
    kind = type(failure.error)
    if failure.refusal and "error" not in body:
        kind = ModelUnavailable
        text = (
            "the proxy, or the model's service, rejected the request:"
            f" {failure.refusal}"
        )
    host = urlsplit(service.url).hostname
    text += (
        f"; it was asked through the proxy {_host_of(proxy)} (of HTTP_PROXY,"
        f" HTTPS_PROXY or ALL_PROXY); to ask {host} directly, add it to NO_PROXY"
    )
    return replace(failure, error=kind(text))


def _proxy_of(service: Service) -> SplitResult | None:
    """Return the URL of the proxy that requests to a service go through, if any."""
    url = urlsplit(service.url)
    proxies = getproxies()
    proxy = urlsplit(proxies.get(url.scheme) or proxies.get("all") or "")
    if not proxy.hostname or is_loopback(service.url):
        return None
    return None if proxy_bypass(url.hostname or "") else proxy


def _host_of(url: SplitResult) -> str:
    """Return the host and the port, without user and password."""
    return url.netloc.rpartition("@")[2]


def malformed(why: str) -> Failure:
    """Return the failure for an answer that cannot be read. The request is repeated at
    once.
    """
    error = ModelUnavailable(
        f"the model's answer was empty or malformed: {shortened(why)}"
    )
    return Failure(error, again=True, after_s=0.0)


def failure_of_error(
    status: int,
    error: Any,
    *,
    service: Service,
    after_s: float | None,
) -> Failure:
    """Return the failure for an error response, with whether and when to ask again.

    `error` is `{"type", "code", "message"}` (OpenAI, Anthropic, vLLM), `{"code",
    "status", "message", "details"}` (Google), text (LM Studio), or `{"detail": …}`
    (FastAPI). In a response of status 200 it counts as an error of the status that it
    means; the message names only the status that was sent.
    """
    fields = error if isinstance(error, dict) else {"message": error}
    names = ("type", "code", "status")
    kinds = [str(fields[name]) for name in names if fields.get(name)]
    details = _details_of(fields)
    text = _message_of(fields)
    meant = status if status != 200 else _status_meant(kinds, text)
    sent = meant if str(meant) in kinds else status
    kind = next((kind for kind in kinds if kind != str(sent)), "")
    message = f"{sent} {kind}".rstrip() + f": {text or 'no message'}"
    if after_s is None:
        after_s = _google_retry_s(details)
    if after_s is not None:
        message += f" (it asks to wait {after_s:g} s)"
    if meant in NO_SUCH_URL:
        return _not_found(service, message)
    is_daily = meant == 429 and any(
        "PerDay" in str(detail.get("violations")) for detail in details
    )
    used_up = meant == 402 or is_daily or not USED_UP.isdisjoint(kinds)
    if any(detail.get("reason") == "API_KEY_INVALID" for detail in details):
        meant = 401  # Google's status is 400
    again = meant in PASSING and not used_up
    refusal = ""
    if used_up or meant == 429:
        quota = "daily quota" if is_daily else "quota"
        raised: PlannerError = QuotaExhausted(f"the {quota} is used up: {message}")
    elif meant in PASSING:
        raised = ModelUnavailable(f"the model's service failed: {message}")
    else:
        refusal = message
        raised = _rejected(meant, message, service)
    return Failure(
        raised,
        again,
        after_s,
        unbilled=True,
        status=meant,
        refusal=refusal,
    )


def _rejected(
    status: int,
    message: str,
    service: Service,
) -> PlannerError:
    """Return the error for a request, or a key, that was rejected with this status."""
    if status == 401:
        return KeyRejected(f"the API key is missing or was rejected: {message}")
    if status == 403:
        return KeyRejected(
            f"the API key, or its access to the model {service.model!r}, was rejected:"
            f" {message}"
        )
    return PlannerError(f"the model's service rejected the request: {message}")


def _message_of(error: JsonObject) -> str:
    """Return the message of an error, also that of the service behind OpenRouter."""
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else ""
    messages = (error.get("message") or error.get("detail"), raw)
    return shortened(" ".join(str(message) for message in messages if message))


def _details_of(error: JsonObject) -> list[JsonObject]:
    """Return the details of Google's error."""
    details = error.get("details")
    if not isinstance(details, list):
        return []
    return [detail for detail in details if isinstance(detail, dict)]


def _google_retry_s(details: Sequence[JsonObject]) -> float | None:
    """Return the seconds to wait; None if no detail of Google's error has them."""
    for detail in details:
        if str(detail.get("@type")).endswith("google.rpc.RetryInfo"):
            with suppress(ValueError):
                return max(0.0, float(str(detail.get("retryDelay")).rstrip("s")))
    return None


def _status_meant(kinds: Sequence[str], text: str) -> int:
    """Return the status of an error within a response of status 200. One that says
    nothing is an outage.
    """
    for kind in kinds:
        if re.fullmatch("[45][0-9][0-9]", kind):
            return int(kind)
        for beginning, status in KINDS.items():
            if kind.lower().startswith(beginning):
                return status
    return 404 if not kinds and _WRONG_PATH.search(text) else 500


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait, or None if no header says so.

    The headers are `retry-after-ms` (OpenAI) and `retry-after` (RFC 9110: seconds, or a
    date).
    """
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * unit_s)
        except (KeyError, ValueError):
            continue
    try:
        date = parsedate_to_datetime(headers["retry-after"])
    except (KeyError, ValueError, TypeError):
        return None
    date = date.replace(tzinfo=date.tzinfo or timezone.utc)
    wait = date - clock.utc_now()
    return max(0.0, wait.total_seconds())


def shortened(message: Any, limit: int = 500) -> str:
    """Return the text on one line, cut if it is long."""
    text = " ".join(str(message or "").split())
    return text if len(text) <= limit else f"{text[:limit]} …"


def redact_key(text: str, *, key: str) -> str:
    """Return the text with the key replaced by a placeholder."""
    return text.replace(key, "[api key]") if key else text


def loggable(value: Any, *, key: str) -> Any:
    """Return a request or response for the run directory: without the key, each image
    as `sha256:<hex>` of its bytes.

    It finds images in `data:` URLs, in Anthropic's `{"type": "base64", "data": …}`, and
    in Google's `inlineData`.
    """
    if isinstance(value, str):
        image = _DATA_URL.fullmatch(value)
        return _digest(image[2]) if image else redact_key(value, key=key)
    if isinstance(value, Mapping):
        is_encoded = value.get("type") == "base64" or "mimeType" in value
        if is_encoded and isinstance(value.get("data"), str):
            value = {**value, "data": _digest(value["data"])}
        return {
            redact_key(str(name), key=key): loggable(inner, key=key)
            for name, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [loggable(inner, key=key) for inner in value]
    return value


def _digest(data: str) -> str:
    """Return the digest of an image in base64 of either alphabet."""
    url_safe = data.replace("+", "-").replace("/", "_")
    padding = "=" * (-len(data) % 4)
    try:
        image = base64.urlsafe_b64decode(url_safe + padding)
    except ValueError:
        image = data.encode()
    return f"sha256:{hashlib.sha256(image).hexdigest()}"
