"""A fake server (`json_server.Service`) for Anthropic's Messages API.

Sources: platform.claude.com/docs, "Computer use tool", "Handle tool calls", "Vision",
"Preserved thinking", "Structured outputs"; the types of the anthropic SDK 2.12.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from support.json_server import (
    JsonObject,
    Posted,
    Reply,
    Service,
    is_scaled,
    problems_of_schema,
    size_of,
)

API_KEY = "sk-ant-the-test-key"
USAGE = {
    "input_tokens": 900,
    "cache_read_input_tokens": 500,
    "cache_creation_input_tokens": 100,
    "output_tokens": 100,
    "output_tokens_details": {"thinking_tokens": 60},
}
TOOLSET = "computer_toolset_20260801"
BETAS = {
    "computer_20251124": "computer-use-2025-11-24",
    "computer_20250124": "computer-use-2025-01-24",
}
NOT_FORCED = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-1")
TOOLSET_ONLY = (*NOT_FORCED, "claude-haiku-5-5")
WITHOUT_FORMAT = ("claude-3", "claude-opus-4-2", "claude-opus-4-1", "claude-sonnet-4-2")
REQUIRED = ("model", "max_tokens", "messages")
FIELDS = frozenset(
    "model max_tokens messages system tools cache_control thinking tool_choice metadata"
    " output_config".split()
)
LARGEST = {TOOLSET: (2576, 4784), **dict.fromkeys(BETAS, (1568, 1568))}
"""The longest side and the visual tokens, 28 x 28 pixels each, of an image that is
looked at as it is.
"""
THINKING = ("thinking", "redacted_thinking")


def message(content: Any, stop_reason: str, **more: Any) -> Reply:
    body = {"type": "message", "role": "assistant", "usage": USAGE, **more}
    return Reply({**body, "content": content, "stop_reason": stop_reason})


def text(words: str) -> Reply:
    return message([{"type": "text", "text": words}], "end_turn")


def uses(
    *named: tuple[str, JsonObject],
    words: str = "",
    thinking: str | None = None,
    toolset: str | None = "computer",
) -> Reply:
    """Return calls of one turn, in order, of members of the toolset, or else of tools
    by these names.
    """
    content: list[JsonObject] = []
    if thinking is not None:
        content.append({"type": "thinking", "thinking": thinking, "signature": ""})
    if words:
        content.append({"type": "text", "text": words})
    member = {"toolset_name": toolset} if toolset else {}
    for name, arguments in named:
        use = {"type": "tool_use", "id": "", "name": name, "input": arguments}
        content.append({**use, **member})
    return message(content, "tool_use")


def refused(category: str, explanation: str) -> Reply:
    details = {"type": "refusal", "category": category, "explanation": explanation}
    return message([], "refusal", stop_details=details)


def error(status: int, kind: str, details: str) -> Reply:
    return Reply({"type": "error", "error": {"type": kind, "message": details}}, status)


@dataclass(frozen=True)
class Said:
    content: Sequence[JsonObject]
    request: JsonObject


def _fields(request: JsonObject) -> Iterator[str]:
    for name in REQUIRED:
        if name not in request:
            yield f"{name}: Field required"
    for name in sorted(set(request) - FIELDS):
        yield f"{name}: Extra inputs are not permitted"
    if "output_config" in request:  # the wording is ours
        if request.get("model", "").startswith(WITHOUT_FORMAT):
            yield (
                "output_config.format: this model does not support structured outputs."
            )
        schema = request["output_config"]["format"]["schema"]
        for problem in problems_of_schema(schema):
            yield f"output_config.format.schema: {problem}"


def _tools(request: JsonObject) -> Iterator[str]:
    model = request.get("model", "")
    offered = request.get("tools", ())
    names = [tool.get("name") for tool in offered]
    if len(names) != len(set(names)):
        yield "tools: Tool names must be unique."
    for tool in offered:
        kind = tool.get("type", "custom")
        if kind == TOOLSET:
            for name in sorted(set(tool) - {"type", "configs", "cache_control"}):
                yield f"tools.0.{TOOLSET}.{name}: Extra inputs are not permitted"
        elif kind in BETAS:
            if model.startswith(TOOLSET_ONLY):
                yield (
                    f"'{model}' does not support tool types: {kind}. Did you mean"
                    f" {TOOLSET}?"
                )
            for name in ("name", "display_width_px", "display_height_px"):
                if name not in tool:
                    yield f"tools.0.{kind}.{name}: Field required"
        elif kind != "custom" or tool.get("input_schema", {}).get("type") != "object":
            yield (
                f"tools: Input tag {kind!r} found using 'type' does not match any of"
                " the expected tags"
            )
    choice = request.get("tool_choice", {"type": "auto"})
    if choice["type"] in ("any", "tool") and model.startswith(NOT_FORCED):
        yield 'tool_choice: type "tool" and "any" are not supported for this model.'
    if choice["type"] == "tool" and choice.get("name") not in names:
        yield f"Tool '{choice.get('name')}' not found in provided tools"


def _shape(messages: Sequence[JsonObject]) -> Iterator[str]:
    if not messages or messages[0]["role"] != "user":
        yield "messages: first message must use the user role"
    elif messages[-1]["role"] != "user":
        yield (
            "This model does not support assistant message prefill. The conversation"
            " must end with a user message."
        )
    for number, message in enumerate(messages):
        if not message["content"]:
            yield f"messages.{number}: all messages must have non-empty content"
    for block in _blocks(messages):
        if block["type"] == "text" and not block["text"].strip():
            yield "messages: text content blocks must contain non-whitespace text"


def _pairing(messages: Sequence[JsonObject]) -> Iterator[str]:
    """Yield each tool_use without exactly one tool_result first in the next message."""
    asked: dict[str, JsonObject] = {}
    for number, message in enumerate(messages):
        content = message["content"]
        results = [block for block in content if block["type"] == "tool_result"]
        ids = [result["tool_use_id"] for result in results]
        if missing := [use for use in asked if use not in ids]:
            yield (
                f"messages.{number - 1}: `tool_use` ids were found without"
                f" `tool_result` blocks immediately after: {missing}."
            )
        for result in results:
            use = asked.get(result["tool_use_id"])
            if use is None:
                yield (
                    f"messages.{number}: unexpected `tool_use_id` in `tool_result`"
                    f" blocks: {result['tool_use_id']}"
                )
            elif use.get("toolset_name") != result.get("toolset_name"):
                yield (
                    f"(ours) messages.{number}: the tool_result must echo toolset_name"
                    f" {use.get('toolset_name')!r}"
                )
        if asked and list(content[: len(results)]) != results:
            yield (
                f"messages.{number}: `tool_result` blocks must come before other"
                " content"
            )
        asked = {block["id"]: block for block in content if block["type"] == "tool_use"}


def _images(request: JsonObject) -> Iterator[str]:
    kinds = [tool.get("type") for tool in request.get("tools", ())]
    limits = [LARGEST[kind] for kind in kinds if kind in LARGEST]
    for block in _blocks(request["messages"]):
        if block["type"] != "image":
            continue
        size = size_of(block["source"]["data"], block["source"]["media_type"])
        if size is None:
            yield "Could not process image"
        elif limits and is_scaled(size, *limits[0], patch=28):
            yield (
                f"(ours) an image of {size} pixels is scaled down before the model sees"
                " it: its points are off"
            )


def _history(request: JsonObject, said: Sequence[Said]) -> Iterator[str]:
    """Yield the differences between what a model said and what came back, and thoughts
    that follow other messages.

    Thoughts may be left out.
    """
    known = [_without_thinking(answer.content) for answer in said]
    for number, message in enumerate(request["messages"]):
        if message["role"] != "assistant":
            continue
        if _without_thinking(message["content"]) not in known:
            yield f"(ours) messages.{number} is not what the model said"
        for block in message["content"]:
            if block["type"] not in THINKING:
                continue
            where = f"messages.{number}.content.0: "
            origin = next((answer for answer in said if block in answer.content), None)
            if origin is None:
                yield f"{where}Invalid `signature` in `thinking` block."
            elif _prefix(request, number) != _prefix(origin.request):
                yield (
                    f"{where}Invalid `signature` in `thinking` block. The block is"
                    " bound to a different conversation. Remove the block."
                )


def _prefix(request: JsonObject, number: int | None = None) -> str:
    """Return the JSON that a model read before a message; all without a number."""
    before = [request.get("system"), request.get("tools"), request["messages"][:number]]
    return json.dumps(before, sort_keys=True)


def _without_thinking(content: Sequence[Any]) -> list[JsonObject]:
    """Return the part of a model's answer that must come back, even if it is
    malformed.
    """
    blocks = [block for block in content if isinstance(block, dict)]
    spoken = [block for block in blocks if block.get("type") not in THINKING]
    return [block for block in spoken if str(block.get("text", "…")).strip()]


def _blocks(messages: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Yield every content block, those inside of tool results too."""
    for message in messages:
        for block in message["content"]:
            yield block
            if block["type"] == "tool_result":
                yield from block.get("content", ())


@dataclass
class MessagesServer(Service):
    api_key: str = API_KEY

    def _denial_of(self, posted: Posted, request: JsonObject) -> Reply | None:
        if posted.path != "/v1/messages":
            return error(404, "not_found_error", f"Not found: {posted.path}")
        if posted.headers.get("x-api-key") != self.api_key:
            return error(401, "authentication_error", "invalid x-api-key")
        if "anthropic-version" not in posted.headers:
            return self._error("anthropic-version: header is required")
        betas = posted.headers.get("anthropic-beta", "")
        for tool in request.get("tools", ()):
            kind = tool.get("type", "")
            if BETAS.get(kind, "") not in betas:
                return self._error(
                    f"tools.0: Input tag '{kind}' does not match any of the expected"
                    " tags"
                )
        return None

    def _problems_of(self, request: JsonObject) -> Iterator[str]:
        yield from _fields(request)
        yield from _tools(request)
        yield from _shape(request["messages"])
        yield from _pairing(request["messages"])
        yield from _images(request)
        yield from _history(request, self.said)

    def _error(self, message: str) -> Reply:
        return error(400, "invalid_request_error", message)

    def _keep(self, body: dict[str, Any], request: JsonObject) -> None:
        """Put an id on each call and a signature on each thought."""
        content = body.get("content")
        if not isinstance(content, list):
            return
        body.setdefault("model", f"{request['model']}-20260901")
        number = len(self.said)
        for place, block in enumerate(content):
            for name, prefix in (("id", "toolu"), ("signature", "signed")):
                if isinstance(block, dict) and block.get(name) == "":
                    block[name] = f"{prefix}_{number}_{place}"
        self.said.append(Said(content, request))
