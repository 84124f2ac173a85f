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
    Reply,
    Service,
    openai_error,
    problems_of_format,
    size_of,
)

MODEL = "qwen3-vl-8b"
FIELDS = frozenset(
    "model messages tools tool_choice max_tokens temperature parallel_tool_calls"
    " response_format".split()
)
THOUGHTS = "(ours) thoughts of earlier turns must not be sent back."
USAGE = {
    "prompt_tokens": 1500,
    "completion_tokens": 100,
    "total_tokens": 1600,
    "prompt_tokens_details": {"cached_tokens": 300},
    "completion_tokens_details": {"reasoning_tokens": 60},
}


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
    tool_calls = []
    for number, (name, arguments) in enumerate(named):
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        function = {"name": name, "arguments": arguments}
        tool_call = {"id": f"id{number}", "type": "function", "function": function}
        tool_calls.append(tool_call)
    return said(words, finish_reason=finish_reason, tool_calls=tool_calls, **message)


def said(words: Any, *, finish_reason: str | None = "stop", **message: Any) -> Reply:
    reply = {"role": "assistant", "content": words, **message}
    choice = {"index": 0, "message": reply, "finish_reason": finish_reason}
    return Reply({"model": MODEL, "choices": [choice], "usage": USAGE})


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
        parts = chain.from_iterable(map(_parts_of, self.messages))
        urls = [part["image_url"]["url"] for part in parts if _is_image(part)]
        return tuple(base64.b64decode(url.partition(",")[2]) for url in urls)

    @property
    def tools(self) -> dict[str, JsonObject]:
        functions = [tool["function"] for tool in self.body["tools"]]
        return {function["name"]: function for function in functions}


def _parts_of(message: JsonObject) -> list[JsonObject]:
    content = message.get("content") or ()
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content)


def _text_in(message: JsonObject) -> str:
    return "".join(part.get("text", "") for part in _parts_of(message))


def _is_image(part: JsonObject) -> bool:
    return part.get("type") == "image_url"


def _problems_of_message(message: JsonObject) -> Iterator[str]:
    role = message.get("role")
    if not message.get("content") and not message.get("tool_calls"):
        yield "content must not be empty."
    for part in filter(_is_image, _parts_of(message)):
        if role != "user":
            yield (
                "Image URLs are only allowed for messages with role 'user', but this"
                f" message has role {role!r}."
            )
        head, _, data = part["image_url"]["url"].partition(",")
        if head != "data:image/png;base64":
            yield f"'url' field must be a base64 encoded image, got {head!r}."
        elif size_of(data) is None:
            yield "cannot decode the image"
    if "<think>" in json.dumps(message):
        yield THOUGHTS
    for tool_call in message.get("tool_calls", ()):
        function = tool_call.get("function", {})
        is_function = tool_call.get("type") == "function"
        if not (is_function and tool_call.get("id") and function.get("name")):
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
                ids = ", ".join(waiting)
                yield f"tool_call_ids did not have response messages: {ids}"
            waiting = [str(call.get("id")) for call in message.get("tool_calls", ())]
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

    def _denial_of(self, posted: Posted, request: ChatRequest) -> Reply | None:
        if posted.path != "/v1/chat/completions":
            unknown = f"Unknown request URL: POST {posted.path}"
            return openai_error(404, "invalid_request_error", unknown)
        key = posted.headers.get("authorization")
        if self.api_key and key != f"Bearer {self.api_key}":
            incorrect = f"Incorrect API key provided: {key}"
            return openai_error(401, "invalid_api_key", incorrect)
        if "response_format" in request.body and not self.binds:
            return self._error("This response_format type is unavailable now")
        return None

    def _problems_of(self, request: ChatRequest) -> Iterator[str]:
        for name in sorted(set(request.body) - FIELDS):
            yield f"Unrecognized request argument supplied: {name}"
        for number, message in enumerate(request.messages):
            for problem in _problems_of_message(message):
                if problem != THOUGHTS or not self.takes_thoughts:
                    yield f"messages[{number}]: {problem}"
        yield from _unpaired(request.messages)
        if request.messages[-1]["role"] == "assistant":
            yield "Cannot continue an assistant message."
        for tool in request.body.get("tools", ()):
            function = tool.get("function", {})
            has_schema = function.get("parameters", {}).get("type") == "object"
            if not (function.get("name") and has_schema):
                yield f"Invalid tool {tool!r}."
        form = request.body.get("response_format", {"type": "text"})
        if form.get("type") not in ("json_schema", "text"):
            # LM Studio takes no json_object
            yield "'response_format.type' must be 'json_schema' or 'text'"
        elif form["type"] == "json_schema":
            described = form.get("json_schema", {})
            yield from problems_of_format(described, "response_format")
