"""A fake server (`json_server.Service`) for OpenAI's Responses API.

Sources: developers.openai.com, "Computer use", "Reasoning models", "Images and vision";
the types of the openai SDK 3.54; reports of its errors in issues of
openai/openai-agents-python (1660) and pydantic/pydantic-ai (2861).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

from support.json_server import (
    JsonObject,
    Posted,
    Refusal,
    Reply,
    Service,
    is_scaled,
    openai_error,
    problems_of_format,
    size_of,
)

error = openai_error
API_KEY = "sk-proj-the-test-key"
USAGE = {
    "input_tokens": 1500,
    "input_tokens_details": {"cached_tokens": 500, "cache_write_tokens": 0},
    "output_tokens": 100,
    "output_tokens_details": {"reasoning_tokens": 60},
    "total_tokens": 1600,
}


def response(*output: Any, status: str = "completed", **more: Any) -> Reply:
    body = {
        "id": "resp_1",
        "object": "response",
        "status": status,
        "error": None,
        "usage": USAGE,
    }
    return Reply({**body, "output": list(output), **more})


def said(words: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": words, "annotations": []}
    return {
        "type": "message",
        "id": "",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def thought(summary: str = "", encrypted: str = "gAAAAA") -> dict[str, Any]:
    summaries = [{"type": "summary_text", "text": summary}] if summary else []
    return {
        "type": "reasoning",
        "id": "",
        "summary": summaries,
        "encrypted_content": encrypted,
    }


def computer_call(
    *actions: Any, checks: Iterable[JsonObject] = (), **more: Any
) -> dict[str, Any]:
    call = {
        "type": "computer_call",
        "id": "",
        "call_id": "",
        "status": "completed",
        "actions": list(actions),
    }
    return {**call, "pending_safety_checks": list(checks), **more}


def function_call(name: str, arguments: str) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": "",
        "call_id": "",
        "name": name,
        "arguments": arguments,
    }


def text(words: str) -> Reply:
    return response(said(words))


def acts(
    *actions: Any,
    words: str = "",
    thinks: bool = False,
    checks: Iterable[JsonObject] = (),
) -> Reply:
    before = [
        *([said(words)] if words else []),
        *([thought("Where is it?")] if thinks else []),
    ]
    return response(*before, computer_call(*actions, checks=checks))


def calls(name: str, arguments: str) -> Reply:
    return response(function_call(name, arguments))


def rate_limited(retry_in_s: float) -> Reply:
    after = {"retry-after-ms": str(int(retry_in_s * 1000))}
    return error(429, "requests", "Rate limit reached.", "rate_limit_exceeded", **after)


FIELDS = {
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "max_output_tokens",
    "store",
    "include",
    "reasoning",
    "previous_response_id",
    "parallel_tool_calls",
    "truncation",
    "text",
    "metadata",
}
OUTPUT_OF = {
    "computer_call": "computer_call_output",
    "function_call": "function_call_output",
}
ITEMS = {"message", "reasoning", *OUTPUT_OF, *OUTPUT_OF.values()}


def fields(request: JsonObject) -> Iterator[str]:
    for name in ("model", "input"):
        if not request.get(name):
            yield f"Missing required parameter: '{name}'."
    for name in sorted(set(request) - FIELDS):
        yield f"Unknown parameter: '{name}'."
    for kind in sorted({item["type"] for item in _items(request)} - ITEMS):
        yield f"Invalid value: '{kind}'. Supported values are: {sorted(ITEMS)}."
    if request.get("previous_response_id") and not request.get("store", True):
        yield (
            f"Previous response with id '{request['previous_response_id']}' not found."
        )
    if request.get("text", {}).get("format", {}).get("type") == "json_schema":
        yield from problems_of_format(request["text"]["format"], "text.format")


def tools(request: JsonObject) -> Iterator[str]:
    for number, tool in enumerate(request.get("tools", ())):
        match tool:
            case {"type": "computer", **more}:
                yield from (
                    f"Unknown parameter: 'tools[{number}].{name}'."
                    for name in sorted(map(str, more))
                )
            case {
                "type": "function",
                "name": str(name),
                "parameters": {"type": "object"} as schema,
            }:
                if (
                    tool.get("strict", True)
                    and schema.get("additionalProperties") is not False
                ):
                    yield (
                        f"Invalid schema for function '{name}': 'additionalProperties'"
                        " is required to be supplied."
                    )
            case _:
                yield f"Invalid value: 'tools[{number}]'."


def pairing(request: JsonObject) -> Iterator[str]:
    """Yield each call without exactly one output of its own type after it."""
    asked: dict[str, str] = {}
    for item in _items(request):
        if item["type"] in OUTPUT_OF:
            asked[item["call_id"]] = OUTPUT_OF[item["type"]]
        elif (
            item["type"] in OUTPUT_OF.values()
            and asked.pop(item["call_id"], None) != item["type"]
        ):
            yield (
                f"No tool call found for {_words(item['type'])} with call_id"
                f" {item['call_id']}."
            )
    for call_id, output in asked.items():
        yield (
            f"No tool output found for {_words(output.removesuffix('_output'))}"
            f" {call_id}."
        )


def reasoning(request: JsonObject) -> Iterator[str]:
    items = _items(request)
    for item, after in pairwise([*items, {"type": "the end"}]):
        if item["type"] != "reasoning":
            continue
        if (
            after["type"] not in (*OUTPUT_OF, "message", "reasoning")
            or after.get("role") == "user"
        ):
            yield (
                f"Item '{item['id']}' of type 'reasoning' was provided without its"
                " required following item."
            )
        if not request.get("store", True) and not item.get("encrypted_content"):
            yield (
                f"Item with id '{item['id']}' not found. Items are not persisted when"
                " `store` is set to false."
            )


def safety_checks(request: JsonObject) -> Iterator[str]:
    pending: dict[str, Any] = {}
    for item in _items(request):
        if item["type"] == "computer_call":
            pending[item["call_id"]] = item["pending_safety_checks"]
        if item["type"] == "computer_call_output":
            acknowledged = item.get("acknowledged_safety_checks") or []
            if missing := [
                check
                for check in pending.get(item["call_id"], ())
                if check not in acknowledged
            ]:
                yield (
                    "The following safety checks have not been acknowledged:"
                    f" {missing}. You must acknowledge them."
                )


def images(request: JsonObject) -> Iterator[str]:
    for image in _images(request):
        kind, _, data = str(image.get("image_url")).partition(";base64,")
        size = size_of(data) if kind == "data:image/png" else None
        if size is None:
            yield (
                "Invalid 'image_url'. Expected a base64-encoded data URL with an image"
                " MIME type."
            )
        elif image.get("detail") != "original" or is_scaled(
            size, 6000, 10_000, patch=32
        ):
            yield (
                f"(ours) an image of {size} pixels is scaled down before the model sees"
                " it: its points are off"
            )


RULES: tuple[Callable[[JsonObject], Iterator[str]], ...] = (
    fields,
    tools,
    pairing,
    reasoning,
    safety_checks,
    images,
)


def changed_items(request: JsonObject, said: Sequence[JsonObject]) -> Iterator[str]:
    for number, item in enumerate(_items(request)):
        if (
            item["type"] not in OUTPUT_OF.values()
            and item.get("role") != "user"
            and item not in said
        ):
            yield f"(ours) input[{number}] is not what the model said"


def lost_reasoning(request: JsonObject, said: Sequence[JsonObject]) -> Iterator[str]:
    """Yield each item that came after reasoning and does not go back after it."""
    before = {
        after["id"]: item
        for item, after in pairwise(said)
        if item.get("type") == "reasoning"
    }
    for item, after in pairwise([{"type": "the start"}, *_items(request)]):
        thought = before.get(after.get("id"))
        if thought is not None and item != thought:
            yield (
                f"Item '{after['id']}' was provided without its required 'reasoning'"
                f" item: '{thought['id']}'."
            )


def _items(request: JsonObject) -> list[Any]:
    return [{"type": "message", **item} for item in request.get("input", ())]


def _words(kind: str) -> str:
    return kind.replace("_", " ")


def _images(request: JsonObject) -> Iterator[JsonObject]:
    for item in _items(request):
        if item["type"] == "computer_call_output":
            yield item["output"]
        parts = (
            item.get("content", ())
            if item.get("role") == "user"
            else item.get("output", ())
        )
        yield from (
            part
            for part in parts
            if isinstance(part, dict) and part.get("type") == "input_image"
        )


@dataclass
class ResponsesServer(Service):
    path = "/v1"
    api_key: str = API_KEY

    def _denial_of(self, posted: Posted, request: JsonObject) -> Refusal | None:
        if posted.path != "/v1/responses":
            return Refusal(f"Invalid URL (POST {posted.path})", 404)
        key = posted.headers.get("authorization", "").removeprefix("Bearer ")
        if key != self.api_key:
            return Refusal(
                f"Incorrect API key provided: {key}.", 401, code="invalid_api_key"
            )
        return None

    def _problems_of(self, request: JsonObject) -> Iterator[str]:
        rules = (rule(request) for rule in RULES)
        return chain(
            *rules,
            changed_items(request, self.said),
            lost_reasoning(request, self.said),
        )

    def _kept(self, reply: Reply, request: Any) -> Reply:
        """Return the reply with an id on each item, remembered for the next request's
        check; malformed ones are not.
        """
        if isinstance(reply.body, bytes) or not isinstance(
            reply.body.get("output"), list
        ):
            return reply
        output = json.loads(json.dumps(reply.body["output"]))
        for item in (item for item in output if isinstance(item, dict)):
            number = len(self.said)
            item.update(
                {
                    name: f"{name}_{number}"
                    for name in ("id", "call_id")
                    if item.get(name) == ""
                }
            )
            self.said.append(item)
        return replace(
            reply,
            body={
                "model": f"{request['model']}-2026-04-23",
                **reply.body,
                "output": output,
            },
        )
