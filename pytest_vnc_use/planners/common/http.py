"""The connection to a model's service: JSON sent and read, asked again, and logged. No other module uses httpx2.

An `Attempt` is a value: the request, the response, and its result or its failure. A failure says whether another
attempt may help. `ask` makes attempts until one succeeds, and reports each as a `ModelExchange`.

Services report errors alike: a status, and `{"error": {"type": …, "message": …}}`, or a part of that.
The caller gives what differs between services: the headers, and the function that reads an answer.
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
from urllib.parse import urlsplit
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
)
from pytest_vnc_use.errors.causes import blocked
from pytest_vnc_use.settings.variables import VARIABLES
from pytest_vnc_use.types import JsonObject, ModelExchange, ModelRequest, Report, Usage
from pytest_vnc_use.types.actions import DEEPEST, is_shallow

Result = TypeVar("Result")

MAX_BYTES = 4 * 2**20
"""The largest answer that is read. A turn of a model is a few thousand bytes."""

CLEAN_UP_S = 1.0
"""The extra seconds that a read may wait after our time limit. An abandoned request then ends automatically."""

PASSING = frozenset({408, 425, 429, 499, 500, 502, 503, 504, 529})
"""HTTP statuses after which the same request may succeed. 529 is Anthropic's "overloaded"."""

USED_UP = frozenset(
    {"insufficient_quota", "billing_error", "billing_hard_limit_reached", "exceeded_current_quota_error"}
)
"""Error types and codes after which waiting does not help."""

KINDS = {"rate_limit": 429, "overloaded": 529, "invalid_": 400, "authentication": 401, "not_found": 404}
"""The beginnings of error types and codes within a response of status 200, and the statuses that they mean."""

UNSENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.InvalidURL,
)
"""Errors after which no request was sent."""

MAX_ANSWER_TOKENS = 64_000
"""The assumed tokens of an answer if the request does not limit its length."""

_WRONG_PATH = re.compile(r"\b(?:endpoint|route|not found)\b", re.IGNORECASE)
ApiKey = Union[str, Callable[[str], str], None]
"""A key, or a function that gets the rejected key ("" at first) and returns another."""
_DATA_URL = re.compile(r"data:(image/[\w.+-]+);base64,(.*)", re.DOTALL)
_MAX_DIGITS = 18


@dataclass
class Service:
    """The URL and the headers of a service. `key` is removed from all reports; it is in `headers` too."""

    url: str
    model: str
    key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    usage_of: Callable[[JsonObject], Usage] = field(default=lambda _: Usage(), repr=False)
    """The function that reads the tokens of a response."""
    api_key: ApiKey = field(default=None, repr=False)

    def renew_key(self) -> bool:
        """Send a new key from now on, if a function gives one. Raises KeyMissing."""
        old_key = self.key
        self.key = self.api_key(old_key) if callable(self.api_key) else old_key
        self.headers = {name: value.replace(old_key, self.key) for name, value in self.headers.items()}
        return self.key != old_key


def resolve_key(api_key: ApiKey, variables: Sequence[str]) -> str:
    """Return the given key, or the key in the environment. Raises KeyMissing, or KeyRejected if it cannot be sent."""
    keys = [api_key("") if callable(api_key) else api_key, *(VARIABLES.get(name) for name in variables)]
    key = next((key.strip() for key in keys if key and key.strip()), "")
    if not key:
        raise KeyMissing(f"no API key is set. Set {variables[0]}. In Python a planner or judge also takes api_key=…")
    if not (key.isascii() and key.isprintable()):
        raise KeyRejected("the API key must contain only printable ASCII characters")
    return key


def resolve_url(base_url: str | None, variable: str = "") -> str | None:
    """Return the given URL, or the one in the environment, if any. Raises SettingsError if it is not http(s)."""
    url = base_url or VARIABLES.get(variable) or None
    try:
        split_url = urlsplit(url or "http://x")
    except ValueError:
        split_url = urlsplit("")
    if split_url.scheme not in ("http", "https") or not split_url.hostname:
        raise SettingsError(f"base_url must be a URL such as https://host/path, got {url!r}")
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
    """The number of attempts (with the first), the time limit of each, and the waits if the service names none."""

    attempts: int = 5
    each_s: float = 120.0
    first_wait_s: float = 1.0
    max_wait_s: float = 30.0

    def wait_s(self, attempt: int) -> float:
        """Return the wait after an attempt (counted from 1).

        It doubles with every attempt. Up to a quarter is added, so that parallel runs do not ask at the same time.
        """
        return min(self.max_wait_s, self.first_wait_s * 2.0 ** (attempt - 1)) * random.uniform(1.0, 1.25)

    def within(self, request_s: float | None) -> Backoff:
        """Return the same backoff with this time limit for each request, if one is given."""
        return self if request_s is None else replace(self, each_s=request_s)


@dataclass(frozen=True)
class Failure:
    """The reason why an attempt failed.

    `again`: another attempt may succeed, after `after_s` seconds if known. `unbilled`: the service cannot have done any
    work for it. `status` is the HTTP status that the service meant, if any. `error` has a foreign error only as text,
    because the frames of its traceback contain the API key.
    """

    error: PlannerError
    again: bool = False
    after_s: float | None = None
    unbilled: bool = False
    status: int = 0


@dataclass(frozen=True)
class Attempt(Generic[Result]):
    """One request, its response in loggable form, its result, and the tokens that the service counted."""

    request: JsonObject
    response: JsonObject | None
    result: Result | Failure
    usage: Usage = field(default_factory=Usage)

    @property
    def uncounted(self) -> bool:
        """Return whether it may be billed although the service counted nothing."""
        return self.usage == Usage() and not (isinstance(self.result, Failure) and self.result.unbilled)


def ask(
    service: Service,
    body: JsonObject | Callable[[], JsonObject],
    *,
    purpose: str,
    read: Callable[[JsonObject], Result | Failure],
    timeout_s: float,
    report: Report,
    backoff: Backoff,
    after: Callable[[JsonObject, Attempt[Result]], Attempt[Result]] = lambda _, attempt: attempt,
) -> Result:
    """Return the first good result of a request.

    `body` may be a function that makes the body of each attempt, `after` one that gets each body
    and its attempt, and may change that.
    `report` is called before and after each attempt; if it raises before it, the request is not sent. A rejected key is
    renewed once, if a function gives one. Raises the last attempt's error if no attempt or time is left, or if another
    attempt cannot help.
    """
    deadline = clock.monotonic() + timeout_s
    number, request, may_renew = 0, body() if callable(body) else body, True
    limits: JsonObject = {**request, **request.get("generationConfig", {})}
    names = ("max_tokens", "max_output_tokens", "maxOutputTokens")
    answer_tokens = next((limits[name] for name in names if limits.get(name)), MAX_ANSWER_TOKENS)
    asked = ModelRequest(purpose, service.model, *_size(request), answer_tokens)
    while True:
        number += 1
        report(asked)
        started = clock.monotonic()
        attempt = post_json(service, request, timeout_s=min(backoff.each_s, deadline - started), read=read)
        attempt = after(request, attempt)
        now = clock.monotonic()
        result, wait_s = attempt.result, None
        if isinstance(result, Failure):
            if result.status == 401 and may_renew:
                may_renew = False
                result = replace(result, again=service.renew_key(), after_s=0.0)
            if result.again and number < backoff.attempts:
                wait_s = backoff.wait_s(number) if result.after_s is None else result.after_s
                wait_s = wait_s if wait_s < deadline - now else None
        exchange = ModelExchange(
            asked.purpose,
            number,
            attempt.request,
            attempt.response,
            now - started,
            str(result.error) if isinstance(result, Failure) else "",
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


def _size(value: Any) -> tuple[int, int]:
    """Return how many characters a request's keys and texts have, and how many images it has."""
    match value:
        case str() if value.startswith("data:image/"):
            return 0, 1
        case str():
            return len(value), 0
        case {"mimeType": str(), "data": str()} | {"type": "base64", "data": str()}:
            return 0, 1
        case Mapping():
            sizes = [(len(name) + size[0], size[1]) for name, size in ((str(k), _size(v)) for k, v in value.items())]
        case list() | tuple():
            sizes = [_size(item) for item in value]
        case _:
            return len(str(value)), 0
    return sum(size[0] for size in sizes), sum(size[1] for size in sizes)


def count_of(counts: Any, *path: str) -> int:
    """Return the count at this path, a number or its digits; 0 if there is none.

    An unreadable count is no reason to throw an answer away.
    """
    for name in path:
        counts = counts.get(name) if isinstance(counts, Mapping) else None
    if isinstance(counts, str) and counts.isascii() and len(counts) <= _MAX_DIGITS and counts.isdecimal():
        counts = int(counts)
    return counts if isinstance(counts, int) and not isinstance(counts, bool) and counts > 0 else 0


class NotJson(Exception):
    """The service sent something that is not JSON, or JSON that cannot be written again."""


def post_json(
    service: Service, body: JsonObject | None, *, timeout_s: float, read: Callable[[JsonObject], Result | Failure]
) -> Attempt[Result]:
    """Return the attempt of one request: a POST of the body, or a GET without one. `read` reads its answer.

    An error before that is a Failure of the attempt. The call takes no longer than `timeout_s`, even if an answer comes
    a byte at a time. It raises nothing.
    """
    response, failure = _answered(service, body, timeout_s)
    result = _through_proxy(service, failure, response) if failure else read(response)
    if isinstance(result, Failure):
        error = type(result.error)(redact_key(str(result.error), key=service.key))
        result = replace(result, error=error)
    clean = loggable(response, key=service.key) if response else None
    return Attempt(loggable(body or {}, key=service.key), clean, result, service.usage_of(response))


def _answered(service: Service, body: JsonObject | None, timeout_s: float) -> tuple[JsonObject, Failure | None]:
    """Return the response's JSON, and a failure if there is none, or if it reports an error."""
    unsent = False
    try:
        response = Deadline(timeout_s).call(partial(_send, service, body, timeout_s))
        return _read(service, response)
    except NotJson as exc:
        unavailable = str(exc)
    except (DeadlineExceeded, httpx2.TimeoutException):
        unavailable = f"the model's service did not answer within {timeout_s:.1f} s"
    except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
        cause: BaseException | None = exc
        while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
            cause = cause.__cause__ or cause.__context__
        if cause is not None:
            problem = f"the certificate of the model's service does not fit: {cause.verify_message}; if you trust its "
            return {}, Failure(ModelUnavailable(f"{problem}issuer, name it in SSL_CERT_FILE"), unbilled=True)
        unavailable, unsent = f"the model's service cannot be reached: {exc!r}", isinstance(exc, UNSENT)
    except Exception as exc:  # noqa: BLE001  # any error: the frames of its traceback hold the API key
        problem = f"the model's service could not be asked: {blocked(str(exc)) or repr(exc)}"
        return {}, Failure(PlannerError(problem), unbilled=True)
    return {}, Failure(ModelUnavailable(unavailable), again=True, unbilled=unsent)


def _send(service: Service, body: JsonObject | None, timeout_s: float) -> httpx2.Response:
    """Return the response as it came. It is requested uncompressed, so that `MAX_BYTES` limits it."""
    ends_at = clock.monotonic() + timeout_s
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", **service.headers}
    method, sent = ("GET", None) if body is None else ("POST", json.dumps(body))
    trust_env = not is_loopback(service.url)
    client = httpx2.Client(timeout=timeout_s + CLEAN_UP_S, verify=load_certificates(), trust_env=trust_env)
    with client, client.stream(method, service.url, content=sent, headers=headers) as response:
        content = bytearray()
        for chunk in response.iter_bytes():
            content += chunk
            if len(content) > MAX_BYTES:
                raise NotJson(f"the model's service sent more than {MAX_BYTES // 2**20} MiB")
            if clock.monotonic() > ends_at:
                raise DeadlineExceeded
    return httpx2.Response(response.status_code, headers=response.headers, text=content.decode(errors="replace"))


@cache
def load_certificates() -> ssl.SSLContext:
    """Return httpx2's certificates, cached because reading them takes longer than a local request."""
    return httpx2.create_ssl_context()


def _read(service: Service, response: httpx2.Response) -> tuple[JsonObject, Failure | None]:
    """Return the body, and a failure if the status or the body reports an error. Raises NotJson."""
    body = read_json(response.text) if response.status_code == 200 else _error_body(response.text)
    clean = loggable(body, key=service.key)
    choices = clean.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    error = clean.get("error") or (choice.get("error") if isinstance(choice, dict) else None)
    if response.status_code == 200 and not error:
        return body, None
    after_s = retry_after_s(response.headers)
    return clean, failure_of_error(response.status_code, error or clean, service=service, after_s=after_s)


def read_json(text: str) -> JsonObject:
    """Return a response's JSON object; empty if there is none. Raises NotJson.

    Infinity and half of a surrogate pair can be read but not sent back: the next turn would fail on them.
    """
    try:
        body = json.loads(text or "{}")
        json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as exc:
        raise NotJson(f"the model's service sent something that is not JSON: {exc}") from exc
    if not is_shallow(body):
        raise NotJson(f"the model's service sent something that is not JSON: more than {DEEPEST} levels deep")
    return body if isinstance(body, dict) else {}


def _error_body(text: str) -> JsonObject:
    """Return an error's JSON; of a list, its first item. Text, such as a proxy's HTML, becomes a message."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return {"message": text[:2000]}
    first = body[0] if isinstance(body, list) and body else body
    return first if isinstance(first, dict) else {"message": str(first)[:2000]}


def _through_proxy(service: Service, failure: Failure, body: JsonObject) -> Failure:
    """Name the request's proxy, if any, in its failure. A refusal that is no service's error may be the proxy's."""
    url = urlsplit(service.url)
    proxies = getproxies()
    proxy = urlsplit(proxies.get(url.scheme) or proxies.get("all") or "")
    if not proxy.hostname or is_loopback(service.url) or proxy_bypass(url.hostname or ""):
        return failure
    text, kind = str(failure.error), type(failure.error)
    refusal = re.search(r"rejected(?: the request)?: (.*)", text, re.DOTALL)
    if refusal and "error" not in body and not failure.again:
        text, kind = f"the proxy, or the model's service, rejected the request: {refusal[1]}", ModelUnavailable
    text += (
        f"; it was asked through the proxy {proxy.netloc.rpartition('@')[2]} (of HTTP_PROXY, HTTPS_PROXY or "
        f"ALL_PROXY); to ask {url.hostname} directly, add it to NO_PROXY"
    )
    return replace(failure, error=kind(text))


def malformed(why: str) -> Failure:
    """Return the failure for an answer that cannot be read. The request is repeated at once."""
    error = ModelUnavailable(f"the model's answer was empty or malformed: {shortened(why)}")
    return Failure(error, again=True, after_s=0.0)


def failure_of_error(status: int, error: Any, *, service: Service, after_s: float | None = None) -> Failure:
    """Return the failure for an error response, with whether and when to ask again.

    `error` is `{"type", "code", "message"}` (OpenAI, Anthropic, vLLM), `{"code", "status", "message", "details"}`
    (Google), text (LM Studio), or `{"detail": …}` (FastAPI). In a response of status 200 it counts as an error of the
    status that it means; the message names only the status that was sent.
    """
    fields = error if isinstance(error, dict) else {"message": error}
    kinds = [str(fields[name]) for name in ("type", "code", "status") if fields.get(name)]
    details = fields.get("details")
    details = [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []
    metadata = fields.get("metadata")  # OpenRouter passes on the message of the service behind it.
    raw = metadata.get("raw") if isinstance(metadata, dict) else ""
    text = shortened(" ".join(str(line) for line in (fields.get("message") or fields.get("detail"), raw) if line))
    meant = status if status != 200 else _status_meant(kinds, text)
    sent = meant if str(meant) in kinds else status
    kind = next((kind for kind in kinds if kind != str(sent)), "")
    message = f"{sent} {kind}".rstrip() + f": {text or 'no message'}"
    for detail in details if after_s is None else ():
        if str(detail.get("@type")).endswith("google.rpc.RetryInfo"):
            with suppress(ValueError):
                after_s = max(0.0, float(str(detail.get("retryDelay")).rstrip("s")))
    if after_s is not None:
        message += f" (it asks to wait {after_s:g} s)"
    if meant in (404, 405):
        split_url = urlsplit(service.url)
        message += f"; asked at {split_url.scheme}://{split_url.netloc.rpartition('@')[2]}{split_url.path}: "
        message += "is that the right path?" if "/v1" in split_url.path else "is /v1 missing in the base URL?"
    is_daily = meant == 429 and any("PerDay" in str(detail.get("violations")) for detail in details)
    used_up = meant == 402 or is_daily or not USED_UP.isdisjoint(kinds)
    if any(detail.get("reason") == "API_KEY_INVALID" for detail in details):
        meant = 401  # Google's status is 400
    again = meant in PASSING and not used_up
    if used_up or meant == 429:
        raised: PlannerError = QuotaExhausted(f"the {'daily ' if is_daily else ''}quota is used up: {message}")
    elif meant == 401:
        raised = KeyRejected(f"the API key is missing or was rejected: {message}")
    elif meant == 403:
        raised = KeyRejected(f"the API key, or its access to the model {service.model!r}, was rejected: {message}")
    elif meant in PASSING:
        raised = ModelUnavailable(f"the model's service failed: {message}")
    else:
        raised = PlannerError(f"the model's service rejected the request: {message}")
    return Failure(raised, again=again, after_s=after_s, unbilled=True, status=meant)


def _status_meant(kinds: Sequence[str], text: str) -> int:
    """Return the status of an error within a response of status 200. One that says nothing is an outage."""
    for kind in kinds:
        if re.fullmatch("[45][0-9][0-9]", kind):
            return int(kind)
        if meant := next((status for begin, status in KINDS.items() if kind.lower().startswith(begin)), None):
            return meant
    return 404 if not kinds and _WRONG_PATH.search(text) else 500


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait, or None if no header says so.

    The headers are `retry-after-ms` (OpenAI) and `retry-after` (RFC 9110: seconds, or a date).
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
    return max(0.0, (date.replace(tzinfo=date.tzinfo or timezone.utc) - clock.utc_now()).total_seconds())


def shortened(message: Any, limit: int = 500) -> str:
    """Return the text on one line, cut if it is long."""
    text = " ".join(str(message or "").split())
    return text if len(text) <= limit else f"{text[:limit]} …"


def redact_key(text: str, *, key: str) -> str:
    """Return the text with the key replaced by a placeholder."""
    return text.replace(key, "[api key]") if key else text


def loggable(value: Any, *, key: str) -> Any:
    """Return a request or response for the run directory: without the key, each image as `sha256:<hex>` of its bytes.

    It finds images in `data:` URLs, in Anthropic's `{"type": "base64", "data": …}`, and in Google's `inlineData`.
    """
    if isinstance(value, str):
        image = _DATA_URL.fullmatch(value)
        return _digest(image[2]) if image else redact_key(value, key=key)
    if isinstance(value, Mapping):
        is_image = (value.get("type") == "base64" or "mimeType" in value) and isinstance(value.get("data"), str)
        items = {**value, "data": _digest(value["data"])} if is_image else value
        return {redact_key(str(name), key=key): loggable(inner, key=key) for name, inner in items.items()}
    return [loggable(inner, key=key) for inner in value] if isinstance(value, (list, tuple)) else value


def _digest(data: str) -> str:
    """Return the digest of an image in base64 of either alphabet."""
    try:
        image = base64.urlsafe_b64decode(data.replace("+", "-").replace("/", "_") + "=" * (-len(data) % 4))
    except ValueError:
        image = data.encode()
    return f"sha256:{hashlib.sha256(image).hexdigest()}"
