"""The content of Claude's answers, read from the JSON of the Messages API, without network access.

Source: platform.claude.com/docs, "Stop reasons" and "Messages"; the types `Message`, `StopReason`, `Usage`,
`OutputTokensDetails`, `RefusalStopDetails` of the anthropic SDK 2.12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from pytest_vnc_use.errors import AnswerRefused, PlannerError
from pytest_vnc_use.planners.anthropic.actions import Call
from pytest_vnc_use.planners.common.json_answers import malformed
from pytest_vnc_use.planners.common.retry import Failure, count_of
from pytest_vnc_use.types import JsonObject, Usage

TOOLSET = "computer"
"""The `toolset_name` of a member's call, and the name of the older tools."""

WHOLE = frozenset({"end_turn", "tool_use", "stop_sequence"})
"""Stop reasons of an answer that was not cut off."""


@dataclass(frozen=True)
class ClaudeAnswer:
    """One answer: its content blocks as they came, and the values read from them."""

    content: Sequence[JsonObject]
    words: str
    thoughts: str
    calls: tuple[Call, ...]
    usage: Usage
    model: str


def read_answer(body: JsonObject) -> ClaudeAnswer | Failure:
    """Return the answer in a response, or why it cannot be used: refused, or worth asking again at once."""
    reason = str(body.get("stop_reason") or "no stop reason")
    content = body.get("content")
    if reason == "refusal":
        return Failure(AnswerRefused(f"the model refused to answer: {_why_refused(body)}"))
    if reason == "model_context_window_exceeded":
        return Failure(PlannerError("the conversation is longer than the model's context window"))
    if reason not in WHOLE:
        return malformed(f"its stop reason is {reason!r}")
    if not _is_content(content):
        return malformed(f"its content is {content!r}")
    answer = ClaudeAnswer(
        content=content,
        words=_join(content, "text", "text"),
        thoughts=_join(content, "thinking", "thinking"),
        calls=tuple(_call(block) for block in content if block["type"] == "tool_use"),
        usage=usage_of(body),
        model=str(body.get("model") or ""),
    )
    if not (answer.calls or answer.words):
        return malformed("it holds neither text nor a tool use")
    return answer


def _why_refused(body: JsonObject) -> str:
    details = body.get("stop_details")
    details = details if isinstance(details, dict) else {}
    reasons = [str(details[name]) for name in ("category", "explanation") if details.get(name)]
    return ": ".join(reasons) or "no reason given"


def _is_content(content: Any) -> TypeGuard[list[JsonObject]]:
    """Return whether these are blocks that can be read and sent back."""
    if not isinstance(content, list) or not all(map(_is_block, content)):
        return False
    ids = [block["id"] for block in content if block["type"] == "tool_use"]
    return len(ids) == len(set(ids))


def _is_block(block: Any) -> bool:
    match block:
        case {"type": "text", "text": str()}:
            return True
        case {"type": "tool_use", "id": str(id), "name": str(name), "input": dict()}:
            return bool(id and name)
        case {"type": "thinking", "thinking": str(), "signature": str()}:
            return True
        case {"type": "text" | "tool_use" | "thinking"}:
            return False
        case {"type": str()}:
            return True
        case _:
            return False


def _call(block: JsonObject) -> Call:
    """Return a call. For the older tools, its name is the name of the action."""
    name, values = block["name"], block["input"]
    if block.get("toolset_name") == TOOLSET:
        return Call(block["id"], name, values, is_computer=True)
    if name == TOOLSET:
        return Call(block["id"], str(values.get("action") or name), values, is_computer=True)
    return Call(block["id"], name, values, is_computer=False)


def _join(content: Sequence[JsonObject], kind: str, field: str) -> str:
    return "\n".join(block[field] for block in content if block["type"] == kind and block[field].strip()).strip()


def usage_of(body: JsonObject) -> Usage:
    """Return the tokens of a response.

    `input_tokens` exclude tokens read from the cache or written to it. `output_tokens` include thinking.
    """
    counts = body.get("usage")
    thinking = count_of(counts, "output_tokens_details", "thinking_tokens")
    read, written = count_of(counts, "cache_read_input_tokens"), count_of(counts, "cache_creation_input_tokens")
    return Usage(
        input=count_of(counts, "input_tokens") + read + written,
        cached=read,
        output=max(0, count_of(counts, "output_tokens") - thinking),
        thinking=thinking,
    )
