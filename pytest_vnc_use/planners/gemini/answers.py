"""The content of Gemini's answers, read from their JSON, without the SDK or network access."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pytest_vnc_use.errors import AnswerRefused
from pytest_vnc_use.planners.common.http import Failure, count_of, malformed
from pytest_vnc_use.planners.common.toolset import FunctionCall
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
        words=_join(parts, thoughts=False),
        thoughts=_join(parts, thoughts=True),
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
    if answer.finish_reason not in WHOLE or not (answer.calls or answer.words):
        return malformed(why)
    unreadable = [part for part in answer.content["parts"] if not _is_part(part)]
    return malformed(f"it holds the part {unreadable[0]!r}") if unreadable else None


def _is_part(part: Any) -> bool:
    """Return whether a part can be read and sent back."""
    if not isinstance(part, dict) or not isinstance(part.get("text") or "", str):
        return False
    match part.get("functionCall", ...):
        case {"name": str(name), "args": args, **rest} if name:
            return isinstance(args, (dict, type(None))) and isinstance(rest.get("id") or "", str)
        case {"name": str(name), **rest} if name:
            return isinstance(rest.get("id") or "", str)
        case other:
            return other is ...


def usage_of(body: JsonObject) -> Usage:
    """Return the tokens of a response."""
    counts = body.get("usageMetadata")
    return Usage(
        input=count_of(counts, "promptTokenCount"),
        cached=count_of(counts, "cachedContentTokenCount"),
        output=count_of(counts, "candidatesTokenCount"),
        thinking=count_of(counts, "thoughtsTokenCount"),
    )


def _join(parts: list[JsonObject], *, thoughts: bool) -> str:
    return "".join(str(part.get("text") or "") for part in parts if bool(part.get("thought")) is thoughts).strip()


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
