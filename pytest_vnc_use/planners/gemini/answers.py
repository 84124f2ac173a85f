"""The content of Gemini's answers, read from their JSON, without the SDK or network access."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_vnc_use.errors import AnswerRefused
from pytest_vnc_use.planners.common.http import Failure, count_of, malformed
from pytest_vnc_use.planners.common.planner import Answer
from pytest_vnc_use.planners.common.toolset import FunctionCall
from pytest_vnc_use.types import JsonObject, Usage

REFUSED = frozenset(
    "SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII ESCALATION MODEL_ARMOR PUP_LIMITED_DISABLED IMAGE_SAFETY "
    "IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION".split()
)
"""Finish reasons with which the service withholds an answer. With any other, a missing answer is worth a retry."""

WHOLE = frozenset({"STOP", "FINISH_REASON_UNSPECIFIED", ""})
"""Finish reasons of an answer whose text was not cut off."""


def read_answer(body: JsonObject, *, detects_injection: bool = False) -> Answer[FunctionCall] | Failure:
    """Return the first candidate of a generateContent response, or why it cannot be used.

    Its only item is the model's `content` as it came. With `detects_injection`, a last answer without content counts as
    refused, because the service does not document how it reports an injection.
    """
    try:
        blocked = (body.get("promptFeedback") or {}).get("blockReason")
        candidate = (body.get("candidates") or [{}])[0]
        reason, content = str(candidate.get("finishReason") or ""), candidate.get("content") or {}
        parts = content.get("parts") or ()
        why = str(blocked or reason or "no candidate")
        if blocked or reason in REFUSED:
            what = "prompt" if blocked else "answer"
            return Failure(AnswerRefused(f"the model's service blocked the {what}: {why}"))
        if detects_injection and (reason == "OTHER" or (reason in WHOLE and not parts)):
            refused = AnswerRefused(f"the model's service withheld its answer, as on a prompt injection: {why}")
            return Failure(refused, again=reason != "OTHER")  # services also fall silent for no reason
        answer = Answer(
            items=(content,),
            words=_join(parts, thoughts=False),
            thoughts=_join(parts, thoughts=True),
            calls=extract_function_calls(content),
            usage=usage_of(body),
            model=str(body.get("modelVersion") or ""),
        )
    except (AttributeError, LookupError, TypeError, ValueError):
        return malformed(f"got {body!r}")
    return answer if reason in WHOLE and (answer.calls or answer.words) else malformed(why)


def extract_function_calls(content: JsonObject) -> tuple[FunctionCall, ...]:
    """Return the function calls of a model's content (JSON as it came), in order. Raises the errors of other JSON."""
    calls = [part["functionCall"] for part in content.get("parts") or () if "functionCall" in part]
    return tuple(
        FunctionCall(call["name"].strip(), dict(call.get("args") or {}), str(call.get("id") or "")) for call in calls
    )


def _join(parts: Sequence[JsonObject], *, thoughts: bool) -> str:
    return "".join(part.get("text") or "" for part in parts if bool(part.get("thought")) is thoughts).strip()


def usage_of(body: JsonObject) -> Usage:
    """Return the tokens of a response."""
    counts = body.get("usageMetadata")
    return Usage(
        input=count_of(counts, "promptTokenCount"),
        cached=count_of(counts, "cachedContentTokenCount"),
        output=count_of(counts, "candidatesTokenCount"),
        thinking=count_of(counts, "thoughtsTokenCount"),
    )
