"""One POST of JSON to a model's service within a time limit, as an attempt. No other module uses httpx2.

Services report errors in much the same way: a status, and `{"error": {"type": …, "message": …}}`, or a part of that.
The caller gives what differs between services: the headers, and the function that reads an answer.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timezone
from email.utils import parsedate_to_datetime
from functools import cache, partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2

from pytest_vnc_use import clock
from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import KeyRejected, ModelUnavailable, PlannerError, QuotaExhausted
from pytest_vnc_use.errors.faults import blocked
from pytest_vnc_use.planners.common.certificates import certificate_failure
from pytest_vnc_use.planners.common.json_answers import (
    MOST_BYTES,
    MOST_VALUES,
    NotJson,
    read_json,
    redact_key,
    shortened,
)
from pytest_vnc_use.planners.common.proxies import Route, is_loopback
from pytest_vnc_use.planners.common.retry import Attempt, Failure
from pytest_vnc_use.runs.json_lines import load_json
from pytest_vnc_use.types import JsonObject, Usage

Result = TypeVar("Result")

CLEAN_UP_S = 1.0
"""The extra seconds that a read may wait after our own time limit. A request that was given up then ends by itself."""

PASSING = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
"""HTTP statuses after which the same request may succeed. 529 is Anthropic's "overloaded"."""

USED_UP = frozenset(
    {"insufficient_quota", "billing_error", "billing_hard_limit_reached", "exceeded_current_quota_error"}
)
"""Error types and codes after which waiting does not help."""

KINDS = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "invalid_api_key": 401,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "overloaded_error": 529,
}
"""Error types and codes within a response of status 200, and the statuses with which they come elsewhere."""

WRONG_PATH = re.compile(r"\b(?:endpoint|route|not found)\b", re.IGNORECASE)

UNSENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.InvalidURL,
)
"""Errors after which no request was sent."""

DATA_URL = re.compile(r"data:(image/[\w.+-]+);base64,(.*)", re.DOTALL)


@dataclass(frozen=True)
class Service:
    """The address and the headers of a service. `key` is removed from all reports; it is in `headers` too."""

    url: str
    model: str
    key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    usage_of: Callable[[JsonObject], Usage] = field(default=lambda _: Usage(), repr=False)
    """The function that reads the tokens of a response."""


@dataclass(frozen=True)
class _Response:
    status: int
    headers: httpx2.Headers
    text: str


class _TooLarge(Exception):
    """The answer is larger than any answer of a model."""


def post_json(
    service: Service, body: JsonObject, *, timeout_s: float, read: Callable[[JsonObject], Result | Failure]
) -> Attempt[Result]:
    """Return the attempt of one request. `read` reads its answer; an error before that is a Failure of the attempt.

    The call takes no longer than `timeout_s`, even if an answer comes a byte at a time. It raises nothing.
    """
    response, failure = _ask(service, body, timeout_s, route := Route())
    result = route.explain(failure, response) if failure else read(response)
    if isinstance(result, Failure):
        error = type(result.error)(redact_key(str(result.error), key=service.key))
        result = replace(result, error=error)
    clean = loggable(response, key=service.key) if response else None
    return Attempt(loggable(body, key=service.key), clean, result, service.usage_of(response))


def _ask(service: Service, body: JsonObject, timeout_s: float, route: Route) -> tuple[JsonObject, Failure | None]:
    """Return the response's JSON. An error of httpx2 becomes a failure here, in our own words."""
    unsent = False
    try:
        response = Deadline(timeout_s).call(partial(_post, service, body, timeout_s, route))
        return _read(service, response)
    except NotJson as exc:
        unavailable = str(exc)
    except _TooLarge:
        unavailable = f"the model's service sent more than {MOST_BYTES // 2**20} MiB"
    except (DeadlineExceeded, httpx2.TimeoutException):
        unavailable = f"the model's service did not answer within {timeout_s:.1f} s"
    except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
        if failure := certificate_failure(exc):
            return {}, failure
        unavailable, unsent = f"the model's service cannot be reached: {exc!r}", isinstance(exc, UNSENT)
    except Exception as exc:  # noqa: BLE001  # any error: the frames of its traceback hold the API key
        problem = f"the model's service could not be asked: {blocked(str(exc)) or repr(exc)}"
        return {}, Failure(PlannerError(problem), unbilled=True)
    return {}, Failure(ModelUnavailable(unavailable), again=True, unbilled=unsent)


def _post(service: Service, body: JsonObject, timeout_s: float, route: Route) -> _Response:
    """Return the response as it came. It is requested uncompressed, so that few bytes cannot become many."""
    ends_at = clock.monotonic() + timeout_s
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", **service.headers}
    asking = httpx2.Client(
        timeout=timeout_s + CLEAN_UP_S,
        verify=load_certificates(),
        trust_env=not is_loopback(service.url),
        event_hooks={"request": [route.follow]},
    )
    request = partial(asking.stream, "POST", service.url, content=json.dumps(body), headers=headers)
    with asking, request() as response:
        content = bytearray()
        for chunk in response.iter_bytes():
            content += chunk
            if len(content) > MOST_BYTES:
                raise _TooLarge
            if clock.monotonic() > ends_at:
                raise DeadlineExceeded
    return _Response(response.status_code, response.headers, content.decode(errors="replace"))


@cache
def load_certificates() -> ssl.SSLContext:
    """Return httpx2's certificates. They are kept, because reading them takes longer than a request on this machine."""
    return httpx2.create_ssl_context()


def _read(service: Service, response: _Response) -> tuple[JsonObject, Failure | None]:
    """Return the body, and a failure if the status or the body reports an error. Raises NotJson."""
    body = read_json(response.text) if response.status == 200 else _error_body(response.text)
    clean = loggable(body, key=service.key)
    choices = clean.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    error = clean.get("error") or (choice.get("error") if isinstance(choice, dict) else None)
    if response.status == 200 and not error:
        return body, None
    after_s = retry_after_s(response.headers)
    return clean, failure_of_error(response.status, error or clean, service=service, after_s=after_s)


def _error_body(text: str) -> JsonObject:
    """Return an error's JSON; of a list, its first item. Text, such as a proxy's HTML, becomes a message."""
    try:
        body = load_json(text.encode(), MOST_VALUES)
    except (ValueError, RecursionError):
        return {"message": text[:2000]}
    first = body[0] if isinstance(body, list) and body else body
    return first if isinstance(first, dict) else {"message": str(first)[:2000]}


# --- errors ----------------------------------------------------------------------------------------------------------


def failure_of_error(status: int, error: Any, *, service: Service, after_s: float | None = None) -> Failure:
    """Return the failure for an error response, with whether and when to ask again.

    `error` is `{"type", "code", "message"}` (OpenAI, Anthropic, vLLM), text (LM Studio), or `{"detail": …}` (FastAPI).
    In a response of status 200 it counts as an error of the status that it means; only what was sent is told.
    """
    fields = error if isinstance(error, dict) else {"message": error}
    kinds = [str(fields[name]) for name in ("type", "code", "status") if fields.get(name)]
    metadata = fields.get("metadata")  # OpenRouter's, with the words of the service behind it
    raw = metadata.get("raw") if isinstance(metadata, dict) else ""
    text = shortened(" ".join(str(part) for part in (fields.get("message") or fields.get("detail"), raw) if part))
    meant = status if status != 200 else _status_meant(kinds, text)
    sent = meant if str(meant) in kinds else status
    kind = next((kind for kind in kinds if kind != str(sent)), "")
    message = f"{sent} {kind}".rstrip() + f": {text or 'no message'}"
    if after_s is not None:
        message += f" (it asks to wait {after_s:g} s)"
    if meant in (404, 405):
        parts = urlsplit(service.url)
        message += f"; asked at {parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}: "
        message += "is that the right path?" if "/v1" in parts.path else "is /v1 missing in the base URL?"
    used_up = meant == 402 or not USED_UP.isdisjoint(kinds)
    found = _error_of(meant, message, model=service.model, used_up=used_up)
    return Failure(found, again=meant in PASSING and not used_up, after_s=after_s, unbilled=True)


def _status_meant(kinds: Sequence[str], text: str) -> int:
    """Return the status of an error within a response of status 200. One that says nothing is an outage."""
    for kind in kinds:
        if re.fullmatch("[45][0-9][0-9]", kind):
            return int(kind)
        if kind.lower() in KINDS:
            return KINDS[kind.lower()]
    return 404 if not kinds and WRONG_PATH.search(text) else 500


def _error_of(status: int, message: str, *, model: str, used_up: bool) -> PlannerError:
    if used_up or status == 429:
        return QuotaExhausted(f"the quota is used up: {message}")
    if status == 401:
        return KeyRejected(f"the API key is missing or was refused: {message}")
    if status == 403:
        return KeyRejected(f"the API key, or its access to the model {model!r}, was refused: {message}")
    if status in PASSING:
        return ModelUnavailable(f"the model's service failed: {message}")
    return PlannerError(f"the model's service refused the request: {message}")


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


# --- for the run folder ----------------------------------------------------------------------------------------------


def loggable(body: JsonObject, *, key: str) -> JsonObject:
    """Return a request or response for the run folder: without the key, each image as `sha256:<hex>` of its bytes.

    It finds images in `data:` URLs, and in Anthropic's `{"type": "base64", "data": …}`.
    """
    clean: JsonObject = _loggable(body, key)
    return clean


def _loggable(value: Any, key: str) -> Any:
    if isinstance(value, str):
        image = DATA_URL.fullmatch(value)
        return _digest(image[2]) if image else redact_key(value, key=key)
    if isinstance(value, Mapping):
        is_image = value.get("type") == "base64" and isinstance(value.get("data"), str)
        image_data = {"data": _digest(value["data"])} if is_image else {}
        return {
            redact_key(str(name), key=key): _loggable(inner, key) for name, inner in {**value, **image_data}.items()
        }
    return [_loggable(inner, key) for inner in value] if isinstance(value, (list, tuple)) else value


def _digest(data: str) -> str:
    try:
        image = base64.b64decode(data)
    except ValueError:
        image = data.encode()
    return f"sha256:{hashlib.sha256(image).hexdigest()}"
