"""A fake server (`json_server.Service`) for OpenAI's Responses API.

Sources: developers.openai.com, "Computer use", "Reasoning models", "Images and vision";
the types of the openai SDK 3.54; reports of its errors in issues of
openai/openai-agents-python (1660) and pydantic/pydantic-ai (2861).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from support.json_server import (
    JsonObject,
    Posted,
    Reply,
    Service,
    is_scaled,
    openai_error,
    problems_of_format,
    size_of,
)

API_KEY = "sk-proj-the-test-key"
USAGE = {
    "input_tokens": 1500,
    "input_tokens_details": {"cached_tokens": 500, "cache_write_tokens": 0},
    "output_tokens": 100,
    "output_tokens_details": {"reasoning_tokens": 60},
    "total_tokens": 1600,
}
FIELDS = frozenset(
    "model input instructions tools tool_choice max_output_tokens store include"
    " reasoning previous_response_id parallel_tool_calls truncation text"
    " metadata".split()
)
OUTPUT_OF = {
    "computer_call": "computer_call_output",
    "function_call": "function_call_output",
}
ITEMS = {"message", "reasoning", *OUTPUT_OF, *OUTPUT_OF.values()}


def response(*output: Any, status: str = "completed", **more: Any) -> Reply:
    body = {"object": "response", "status": status, "error": None, "usage": USAGE}
    return Reply({**body, "output": list(output), **more})


def said(words: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": words, "annotations": []}
    item = {"type": "message", "id": "", "role": "assistant", "status": "completed"}
    return {**item, "content": [part]}


def thought(summary: str = "") -> dict[str, Any]:
    summaries = [{"type": "summary_text", "text": summary}] if summary else []
    item = {"type": "reasoning", "id": "", "encrypted_content": "gAAAAA"}
    return {**item, "summary": summaries}


def computer_call(*actions: Any, checks: Iterable[JsonObject] = ()) -> dict[str, Any]:
    call = {"type": "computer_call", "id": "", "call_id": "", "status": "completed"}
    return {**call, "actions": list(actions), "pending_safety_checks": list(checks)}


def text(words: str) -> Reply:
    return response(said(words))


def acts(
    *actions: Any,
    words: str = "",
    thinks: bool = False,
    checks: Iterable[JsonObject] = (),
) -> Reply:
    before = []
    if words:
        before.append(said(words))
    if thinks:
        before.append(thought("Where is it?"))
    return response(*before, computer_call(*actions, checks=checks))


def calls(name: str, arguments: str) -> Reply:
    call = {"type": "function_call", "id": "", "call_id": ""}
    return response({**call, "name": name, "arguments": arguments})


def _fields(request: JsonObject) -> Iterator[str]:
    for name in ("model", "input"):
        if not request.get(name):
            yield f"Missing required parameter: '{name}'."
    for name in sorted(set(request) - FIELDS):
        yield f"Unknown parameter: '{name}'."
    for kind in sorted({item["type"] for item in _items(request)} - ITEMS):
        yield f"Invalid value: '{kind}'. Supported values are: {sorted(ITEMS)}."
    previous = request.get("previous_response_id")
    if previous and not request.get("store", True):
        yield f"Previous response with id '{previous}' not found."
    form = request.get("text", {}).get("format", {})
    if form.get("type") == "json_schema":
        yield from problems_of_format(form, "text.format")


def _tools(request: JsonObject) -> Iterator[str]:
    for number, tool in enumerate(request.get("tools", ())):
        match tool:
            case {"type": "computer", **more}:
                for name in sorted(map(str, more)):
                    yield f"Unknown parameter: 'tools[{number}].{name}'."
            case {
                "type": "function",
                "name": str(name),
                "parameters": {"type": "object"} as schema,
            }:
                is_closed = schema.get("additionalProperties") is False
                if tool.get("strict", True) and not is_closed:
                    yield (
                        f"Invalid schema for function '{name}': 'additionalProperties'"
                        " is required to be supplied."
                    )
            case _:
                yield f"Invalid value: 'tools[{number}]'."


def _pairing(request: JsonObject) -> Iterator[str]:
    """Yield each call without exactly one output of its own type after it."""
    asked: dict[str, str] = {}
    for item in _items(request):
        kind = item["type"]
        if kind in OUTPUT_OF:
            asked[item["call_id"]] = OUTPUT_OF[kind]
        if kind in OUTPUT_OF.values() and asked.pop(item["call_id"], None) != kind:
            what = kind.replace("_", " ")
            yield f"No tool call found for {what} with call_id {item['call_id']}."
    for call_id, output in asked.items():
        what = output.removesuffix("_output").replace("_", " ")
        yield f"No tool output found for {what} {call_id}."


def _reasoning(request: JsonObject) -> Iterator[str]:
    followers = (*OUTPUT_OF, "message", "reasoning")
    for item, after in pairwise([*_items(request), {"type": "the end"}]):
        if item["type"] != "reasoning":
            continue
        if after["type"] not in followers or after.get("role") == "user":
            yield (
                f"Item '{item['id']}' of type 'reasoning' was provided without its"
                " required following item."
            )
        if not request.get("store", True) and not item.get("encrypted_content"):
            yield (
                f"Item with id '{item['id']}' not found. Items are not persisted when"
                " `store` is set to false."
            )


def _safety_checks(request: JsonObject) -> Iterator[str]:
    pending: dict[str, Any] = {}
    for item in _items(request):
        if item["type"] == "computer_call":
            pending[item["call_id"]] = item["pending_safety_checks"]
        if item["type"] == "computer_call_output":
            known = item.get("acknowledged_safety_checks") or []
            checks = pending.get(item["call_id"], ())
            if missing := [check for check in checks if check not in known]:
                yield (
                    "The following safety checks have not been acknowledged:"
                    f" {missing}. You must acknowledge them."
                )


def _images(request: JsonObject) -> Iterator[str]:
    for image in _images_of(request):
        kind, _, data = str(image.get("image_url")).partition(";base64,")
        size = size_of(data) if kind == "data:image/png" else None
        if size is None:
            yield (
                "Invalid 'image_url'. Expected a base64-encoded data URL with an image"
                " MIME type."
            )
            continue
        is_whole = image.get("detail") == "original"
        if not is_whole or is_scaled(size, 6000, 10_000, patch=32):
            yield (
                f"(ours) an image of {size} pixels is scaled down before the model sees"
                " it: its points are off"
            )


def _images_of(request: JsonObject) -> Iterator[JsonObject]:
    for item in _items(request):
        if item["type"] == "computer_call_output":
            yield item["output"]
        elif item.get("role") == "user" or item["type"] == "function_call_output":
            for part in item.get("content") or item.get("output", ()):
                if isinstance(part, dict) and part.get("type") == "input_image":
                    yield part


def _history(request: JsonObject, said: Sequence[JsonObject]) -> Iterator[str]:
    """Yield each item that the model did not say so, and each that came after reasoning
    and does not go back after it.
    """
    before = {}
    for item, after in pairwise(said):
        if item.get("type") == "reasoning":
            before[after["id"]] = item
    for item, after in pairwise([{"type": "the start"}, *_items(request)]):
        is_answer = after["type"] in OUTPUT_OF.values() or after.get("role") == "user"
        if not is_answer and after not in said:
            yield f"(ours) the item {after.get('id')} is not what the model said"
        thought = before.get(after.get("id"))
        if thought is not None and item != thought:
            yield (
                f"Item '{after['id']}' was provided without its required 'reasoning'"
                f" item: '{thought['id']}'."
            )


def _items(request: JsonObject) -> list[Any]:
    return [{"type": "message", **item} for item in request.get("input", ())]


@dataclass
class ResponsesServer(Service):
    path = "/v1"
    api_key: str = API_KEY

    def _denial_of(self, posted: Posted, request: JsonObject) -> Reply | None:
        kind = "invalid_request_error"
        if posted.path != "/v1/responses":
            return openai_error(404, kind, f"Invalid URL (POST {posted.path})")
        key = posted.headers.get("authorization", "").removeprefix("Bearer ")
        if key != self.api_key:
            incorrect = f"Incorrect API key provided: {key}."
            return openai_error(401, kind, incorrect, "invalid_api_key")
        return None

    def _problems_of(self, request: JsonObject) -> Iterator[str]:
        yield from _fields(request)
        yield from _tools(request)
        yield from _pairing(request)
        yield from _reasoning(request)
        yield from _safety_checks(request)
        yield from _images(request)
        yield from _history(request, self.said)

    def _keep(self, body: dict[str, Any], request: JsonObject) -> None:
        """Put an id on each item."""
        output = body.get("output")
        if not isinstance(output, list):
            return
        body.setdefault("model", f"{request['model']}-2026-04-23")
        for item in filter(lambda item: isinstance(item, dict), output):
            for name in ("id", "call_id"):
                if item.get(name) == "":
                    item[name] = f"{name}_{len(self.said)}"
            self.said.append(item)
