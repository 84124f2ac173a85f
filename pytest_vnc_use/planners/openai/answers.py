"""The content of answers of OpenAI's Responses API, read from their JSON, without network access.

Source: the types `Response`, `ResponseOutputItem`, `ResponseComputerToolCall`, `ResponseUsage` of the openai SDK 3.54.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from pytest_vnc_use.errors import AnswerRefused
from pytest_vnc_use.planners.common.json_answers import malformed
from pytest_vnc_use.planners.common.retry import Failure, count_of
from pytest_vnc_use.types import JsonObject, Usage

CALLS = ("computer_call", "function_call")


@dataclass(frozen=True)
class OpenAIAnswer:
    """One answer: its output items as they came, and the values read from them."""

    output: Sequence[JsonObject]
    words: str
    thoughts: str
    calls: tuple[JsonObject, ...]
    usage: Usage
    model: str


def read_answer(body: JsonObject) -> OpenAIAnswer | Failure:
    """Return the answer in a response, or why it cannot be used: refused, or worth asking again at once."""
    details = body.get("incomplete_details")
    reason = str(details.get("reason") or "") if isinstance(details, dict) else ""
    if reason == "content_filter":
        return Failure(AnswerRefused("the model's service blocked the answer: content_filter"))
    if body.get("status") != "completed":
        return malformed(f"its status is {body.get('status')!r} {reason}")
    output = body.get("output")
    if not _is_output(output):
        return malformed(f"its output is {output!r}")
    refusal = _texts(output, "refusal")
    if refusal:
        return Failure(AnswerRefused(f"the model refused to answer: {refusal}"))
    summaries = [part for item in output if item["type"] == "reasoning" for part in item["summary"]]
    answer = OpenAIAnswer(
        output=output,
        words=_texts(output, "text"),
        thoughts=_join(part.get("text") for part in summaries),
        calls=tuple(item for item in output if item["type"] in CALLS),
        usage=usage_of(body),
        model=str(body.get("model") or ""),
    )
    return answer if answer.calls or answer.words else malformed("it holds neither text nor a call")


def _is_output(output: Any) -> TypeGuard[list[JsonObject]]:
    """Return whether these are items that can be read and sent back. The last one must not be a thought."""
    if not isinstance(output, list) or not all(map(_is_item, output)):
        return False
    ids = [item["call_id"] for item in output if item["type"] in CALLS]
    return len(ids) == len(set(ids)) and (not output or output[-1]["type"] != "reasoning")


def _is_item(item: Any) -> bool:
    match item:
        case {"type": "computer_call", "call_id": str(id)}:
            return bool(id)
        case {"type": "function_call", "call_id": str(id), "name": str(name), "arguments": str()}:
            return bool(id and name)
        case {"type": "message", "content": list(parts)}:
            return all(isinstance(part, dict) for part in parts)
        case {"type": "reasoning", "summary": list(parts)}:
            return all(isinstance(part, dict) for part in parts)
        case {"type": "computer_call" | "function_call" | "message" | "reasoning"}:
            return False
        case {"type": str()}:
            return True
        case _:
            return False


def _texts(output: Sequence[JsonObject], field: str) -> str:
    parts = [part for item in output if item["type"] == "message" for part in item["content"]]
    return _join(part.get(field) for part in parts)


def _join(texts: Any) -> str:
    return "\n".join(text for text in texts if isinstance(text, str) and text.strip()).strip()


def usage_of(body: JsonObject) -> Usage:
    """Return the tokens of a response.

    `input_tokens` include the cached ones; `output_tokens` include reasoning.
    """
    counts = body.get("usage")
    thinking = count_of(counts, "output_tokens_details", "reasoning_tokens")
    return Usage(
        input=count_of(counts, "input_tokens"),
        cached=count_of(counts, "input_tokens_details", "cached_tokens"),
        output=max(0, count_of(counts, "output_tokens") - thinking),
        thinking=thinking,
    )
