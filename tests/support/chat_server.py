"""A fake server (`json_server.Service`) for chat completions, strict where LM Studio,
vLLM or llama.cpp is.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from support.json_server import (
    JsonObject,
    Posted,
    Refusal,
    Reply,
    Service,
    openai_error,
    problems_of_format,
    size_of,
)

error = openai_error
MODEL = "qwen3-vl-8b"
FIELDS = {
    "model",
    "messages",
    "tools",
    "tool_choice",
    "max_tokens",
    "temperature",
    "parallel_tool_calls",
    "response_format",
}
THOUGHTS = "(ours) thoughts of earlier turns must not be sent back."


def call(name: str, /, **arguments: Any) -> Reply:
    return calls((name, arguments))


def calls(
    *named: tuple[str, Any],
    words: str = "",
    finish_reason: str = "tool_calls",
    **message: Any,
) -> Reply:
    """Return tool calls of one answer; arguments that are text are sent as they are,
    others as JSON.
    """
    encoded = [(name, _argument_text(given)) for name, given in named]
    tool_calls = [
        {
            "id": f"id{number}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for number, (name, arguments) in enumerate(encoded)
    ]
    return said(words, finish_reason=finish_reason, tool_calls=tool_calls, **message)


def said(words: Any, *, finish_reason: str | None = "stop", **message: Any) -> Reply:
    reply = {"role": "assistant", "content": words, **message}
    choice = {"index": 0, "message": reply, "finish_reason": finish_reason}
    return Reply(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": MODEL,
            "choices": [choice],
            "usage": USAGE,
        }
    )


USAGE = {
    "prompt_tokens": 1500,
    "completion_tokens": 100,
    "total_tokens": 1600,
    "prompt_tokens_details": {"cached_tokens": 300},
    "completion_tokens_details": {"reasoning_tokens": 60},
}


@dataclass(frozen=True)
class ChatRequest:
    body: JsonObject

    @property
    def messages(self) -> Sequence[JsonObject]:
        return tuple(self.body["messages"])

    def of(self, role: str) -> list[JsonObject]:
        return [message for message in self.messages if message["role"] == role]

    @property
    def texts(self) -> list[str]:
        return [_text_in(message) for message in self.messages]

    @property
    def images(self) -> tuple[bytes, ...]:
        parts = chain.from_iterable(map(parts_of, self.messages))
        urls = [part["image_url"]["url"] for part in parts if _is_image(part)]
        return tuple(base64.b64decode(url.partition(",")[2]) for url in urls)

    @property
    def tools(self) -> dict[str, JsonObject]:
        return {
            tool["function"]["name"]: tool["function"] for tool in self.body["tools"]
        }


def parts_of(message: JsonObject) -> list[JsonObject]:
    content = message.get("content")
    return (
        [{"type": "text", "text": content}]
        if isinstance(content, str)
        else list(content or ())
    )


def _text_in(message: JsonObject) -> str:
    return "".join(part.get("text", "") for part in parts_of(message))


def _argument_text(given: object) -> str:
    return given if isinstance(given, str) else json.dumps(given)


def _is_image(part: JsonObject) -> bool:
    return part.get("type") == "image_url"


def problems_of(body: JsonObject) -> Iterator[str]:
    for name in sorted(set(body) - FIELDS):
        yield f"Unrecognized request argument supplied: {name}"
    messages = body["messages"]
    for number, message in enumerate(messages):
        yield from (
            f"messages[{number}]: {problem}"
            for problem in _problems_of_message(message)
        )
    yield from _unpaired(messages)
    if messages[-1]["role"] == "assistant":
        yield "Cannot continue an assistant message."
    for tool in body.get("tools", ()):
        function = tool.get("function", {})
        if (
            not function.get("name")
            or function.get("parameters", {}).get("type") != "object"
        ):
            yield f"Invalid tool {tool!r}."
    form = body.get("response_format", {"type": "text"})
    if form.get("type") not in ("json_schema", "text"):
        # LM Studio takes no json_object
        yield "'response_format.type' must be 'json_schema' or 'text'"
    elif form["type"] == "json_schema":
        yield from problems_of_format(form.get("json_schema", {}), "response_format")


def _problems_of_message(message: JsonObject) -> Iterator[str]:
    role = message.get("role")
    if not message.get("content") and not message.get("tool_calls"):
        yield "content must not be empty."
    for part in parts_of(message):
        if _is_image(part) and role != "user":
            yield (
                "Image URLs are only allowed for messages with role 'user', but this"
                f" message has role {role!r}."
            )
        if _is_image(part):
            head, _, data = part["image_url"]["url"].partition(",")
            if head != "data:image/png;base64":
                yield f"'url' field must be a base64 encoded image, got {head!r}."
            elif size_of(data) is None:
                yield "cannot decode the image"
    if "<think>" in json.dumps(message):
        yield THOUGHTS
    for tool_call in message.get("tool_calls", ()):
        yield from _problems_of_call(tool_call)


def _problems_of_call(tool_call: JsonObject) -> Iterator[str]:
    function = tool_call.get("function", {})
    if (
        tool_call.get("type") != "function"
        or not tool_call.get("id")
        or not function.get("name")
    ):
        yield f"Invalid tool call {tool_call!r}."
    try:
        assert isinstance(json.loads(function["arguments"]), dict)
    except (AssertionError, TypeError, ValueError) as exc:
        # vLLM fails with 500 here
        yield f"tool_calls[0].function.arguments cannot be parsed as JSON: {exc}"


def _unpaired(messages: Sequence[JsonObject]) -> Iterator[str]:
    """Yield the calls that are not answered once, by the tool messages that directly
    follow.
    """
    waiting: list[str] = []
    for number, message in enumerate([*messages, {"role": "the end"}]):
        if message["role"] != "tool":
            if waiting:
                yield (
                    "tool_call_ids did not have response messages:"
                    f" {', '.join(waiting)}"
                )
            waiting = [
                str(tool_call.get("id")) for tool_call in message.get("tool_calls", ())
            ]
        elif message.get("tool_call_id") in waiting:
            waiting.remove(message["tool_call_id"])
        else:
            yield (
                f"messages[{number}]: 'tool' must be a response to a preceding message"
                " with 'tool_calls'."
            )


@dataclass
class ChatServer(Service):
    """With `api_key` it requires that key, without it takes any or none.

    `binds` is true where it binds answers to a schema; else it refuses to. With
    `takes_thoughts` it takes think blocks.
    """

    path = "/v1"
    binds: bool = True
    takes_thoughts: bool = False

    def _read(self, posted: Posted) -> ChatRequest:
        return ChatRequest(posted.body)

    def _denial_of(self, posted: Posted, request: ChatRequest) -> Refusal | None:
        if posted.path != "/v1/chat/completions":
            return Refusal(f"Unknown request URL: POST {posted.path}", 404)
        key = posted.headers.get("authorization")
        if self.api_key and key != f"Bearer {self.api_key}":
            return Refusal(f"Incorrect API key provided: {key}", 401, "invalid_api_key")
        if "response_format" in request.body and not self.binds:
            return Refusal("This response_format type is unavailable now")
        return None

    def _problems_of(self, request: ChatRequest) -> Iterator[str]:
        return (
            each
            for each in problems_of(request.body)
            if not (self.takes_thoughts and each.endswith(THOUGHTS))
        )
