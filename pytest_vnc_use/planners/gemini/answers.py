"""The content of Gemini's answers and errors, read from their JSON, without the SDK or network access."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import getitem
from typing import Any

from pytest_vnc_use.errors import AnswerRefused, KeyRejected, ModelUnavailable, PlannerError, QuotaExhausted
from pytest_vnc_use.planners.common.calls import FunctionCall
from pytest_vnc_use.planners.common.counts import count_of
from pytest_vnc_use.planners.common.json_answers import malformed, redact_key, shortened
from pytest_vnc_use.planners.common.retry import Failure
from pytest_vnc_use.types import JsonObject, Usage

REFUSED = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "ESCALATION",
        "MODEL_ARMOR",
        "PUP_LIMITED_DISABLED",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
    }
)
"""Finish reasons with which the service withholds an answer. With any other, a missing answer is worth a retry."""

WHOLE = frozenset({"STOP", "FINISH_REASON_UNSPECIFIED", ""})
"""Finish reasons of an answer whose text was not cut off."""

PASSING = frozenset({408, 429, 499, 500, 502, 503, 504})
"""HTTP statuses after which the same request may succeed."""


@dataclass(frozen=True)
class GeminiAnswer:
    """One answer: the model's `content` as it came, and the values read from it.

    `words` exclude thoughts. `block_reason` is why the prompt was blocked, or empty.
    """

    content: JsonObject
    words: str = ""
    thoughts: str = ""
    calls: tuple[FunctionCall, ...] = ()
    finish_reason: str = ""
    block_reason: str = ""
    usage: Usage = field(default_factory=Usage)
    model: str = ""


def read_answer(body: JsonObject) -> GeminiAnswer:
    """Return the first candidate of a generateContent response; an empty answer if there is none."""
    candidates = body.get("candidates")
    candidate = _object(candidates[0] if isinstance(candidates, list) and candidates else None)
    content = _object(candidate.get("content"))
    parts = _objects(content.get("parts"))
    return GeminiAnswer(
        content=content,
        words=_joined(parts, thoughts=False),
        thoughts=_joined(parts, thoughts=True),
        calls=extract_function_calls(content),
        finish_reason=str(candidate.get("finishReason") or ""),
        block_reason=str(_object(body.get("promptFeedback")).get("blockReason") or ""),
        usage=usage_of(body),
        model=str(body.get("modelVersion") or ""),
    )


def extract_function_calls(content: JsonObject) -> tuple[FunctionCall, ...]:
    """Return the function calls of a model's content (JSON as it came), in order. A missing name becomes empty."""
    calls = [_object(part["functionCall"]) for part in _objects(content.get("parts")) if "functionCall" in part]
    return tuple(
        FunctionCall(str(call.get("name") or ""), _object(call.get("args")), str(call.get("id") or ""))
        for call in calls
    )


def answer_failure(answer: GeminiAnswer, *, detects_injection: bool = False) -> Failure | None:
    """Return why an answer with status 200 cannot be used; None if it can be used.

    With `detects_injection`, a last answer without content counts as refused, because the service does not document how
    it reports an injection.
    """
    why = answer.block_reason or answer.finish_reason or "no candidate"
    if answer.block_reason or answer.finish_reason in REFUSED:
        what = "prompt" if answer.block_reason else "answer"
        return Failure(AnswerRefused(f"the model's service blocked the {what}: {why}"))
    is_silent = answer.finish_reason in WHOLE and not answer.content.get("parts")
    if detects_injection and (is_silent or answer.finish_reason == "OTHER"):
        refused = AnswerRefused(f"the model's service withheld its answer, as on a prompt injection: {why}")
        return Failure(refused, again=answer.finish_reason != "OTHER")  # services also fall silent for no reason
    if answer.finish_reason in WHOLE and (answer.calls or answer.words) and all(call.name for call in answer.calls):
        return None
    return malformed(why)


def failure_of_error(code: int, body: JsonObject, *, model: str) -> Failure:
    """Return the failure for an error response, with whether and when to ask again."""
    error = _object(body.get("error")) or body
    details = _objects(error.get("details"))
    message = f"{code} {error.get('status') or ''}: {shortened(error.get('message'))}"
    delay_s = _retry_delay_s(details)
    if delay_s is not None:
        message += f" (it asks to wait {delay_s:g} s)"
    again = code in PASSING and not _is_daily(details)
    return Failure(_error_of(code, message, details, model), again=again, after_s=delay_s, unbilled=True)


def _error_of(code: int, message: str, details: list[JsonObject], model: str) -> PlannerError:
    if code == 401 or any(detail.get("reason") == "API_KEY_INVALID" for detail in details):
        return KeyRejected(f"the API key was refused: {message}")
    if code == 403:
        return KeyRejected(f"the API key, or its access to the model {model!r}, was refused: {message}")
    if code == 429:
        return QuotaExhausted(f"the {'daily ' if _is_daily(details) else ''}quota is used up: {message}")
    if code in PASSING:
        return ModelUnavailable(f"the model's service failed: {message}")
    return PlannerError(f"the model's service refused the request: {message}")


def _is_daily(details: list[JsonObject]) -> bool:
    violations = [violation for detail in details for violation in _objects(detail.get("violations"))]
    return any("PerDay" in str(violation.get("quotaId")) for violation in violations)


def _retry_delay_s(details: list[JsonObject]) -> float | None:
    """Return the delay of google.rpc.RetryInfo, spelled `37s` or `0.5s`; None if there is none."""
    for detail in details:
        if str(detail.get("@type")).endswith("google.rpc.RetryInfo"):
            try:
                return max(0.0, float(str(detail.get("retryDelay")).rstrip("s")))
            except ValueError:
                return None
    return None


def usage_of(body: JsonObject) -> Usage:
    """Return the tokens of a response."""
    counts = body.get("usageMetadata")
    return Usage(
        input=count_of(counts, "promptTokenCount"),
        cached=count_of(counts, "cachedContentTokenCount"),
        output=count_of(counts, "candidatesTokenCount"),
        thinking=count_of(counts, "thoughtsTokenCount"),
    )


def _joined(parts: list[JsonObject], *, thoughts: bool) -> str:
    return "".join(str(part.get("text") or "") for part in parts if bool(part.get("thought")) is thoughts).strip()


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


# --- for the run folder ----------------------------------------------------------------------------------------------


def loggable(body: Any, *, key: str) -> JsonObject:
    """Return a request or response for the run folder: without the key, each image as `sha256:<hex>` of its bytes."""
    clean: JsonObject = _without_images(json.loads(redact_key(json.dumps(body), key=key)))
    return clean


def _without_images(value: Any) -> Any:
    if isinstance(value, dict):
        return dict(_field(name, inner) for name, inner in value.items())
    return [_without_images(inner) for inner in value] if isinstance(value, list) else value


def _field(name: str, value: Any) -> tuple[str, Any]:
    if name in ("inlineData", "inline_data") and isinstance(value, dict) and isinstance(value.get("data"), str):
        return name, {**value, "data": f"sha256:{hashlib.sha256(_from_base64(value['data'])).hexdigest()}"}
    return name, _without_images(value)


def _from_base64(text: str) -> bytes:
    """Return bytes from base64 of either alphabet, padded or not; the text's own bytes if it is not base64."""
    try:
        return base64.urlsafe_b64decode(text.replace("+", "-").replace("/", "_") + "=" * (-len(text) % 4))
    except ValueError:
        return text.encode()


def without(body: JsonObject, paths: Iterable[Sequence[Any]]) -> JsonObject:
    """Return a copy of JSON without the fields at these paths."""
    left = copy.deepcopy(dict(body))
    for *above, name in paths:
        del reduce(getitem, above, left)[name]
    return left
