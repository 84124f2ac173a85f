"""The requests that OpenAI's Responses API refuses: each rule is a function that yields its messages, or nothing.

Texts are OpenAI's own where one is known. A rule marked (ours) stands for a documented demand without a known text, or
for a demand of ours. Sources: developers.openai.com, "Computer use", "Reasoning models", "Images and vision"; the types
of the openai SDK 3.54; reports of its errors in issues of openai/openai-agents-python (1660) and pydantic/pydantic-ai
(2861).
"""

from __future__ import annotations

import base64
import binascii
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

from PIL import Image

from support.json_server import Posted
from support.strict_schemas import problems_of_format

JsonObject = Mapping[str, Any]

FIELDS = {
    *("model", "input", "instructions", "tools", "tool_choice", "max_output_tokens", "store", "include", "reasoning"),
    *("previous_response_id", "parallel_tool_calls", "truncation", "text", "metadata"),
}
INCLUDABLE = {"reasoning.encrypted_content", "computer_call_output.output.image_url", "message.input_image.image_url"}
ITEMS = {"message", "reasoning", "computer_call", "computer_call_output", "function_call", "function_call_output"}
OUTPUT_OF = {"computer_call": "computer_call_output", "function_call": "function_call_output"}
DETAILS = {"auto", "low", "high", "original"}


@dataclass(frozen=True)
class Refusal:
    """An error of OpenAI's that refuses a request."""

    message: str
    status: int = 400
    kind: str = "invalid_request_error"
    code: str | None = None


def refusal_of(posted: Posted, *, api_key: str, said: Sequence[JsonObject]) -> Refusal | None:
    """Return how the service refuses the request, or None; `said` are the items that its models really said."""
    if posted.path != "/v1/responses":
        return Refusal(f"Invalid URL (POST {posted.path})", 404)
    key = posted.headers.get("authorization", "").removeprefix("Bearer ")
    if key != api_key:
        return Refusal(f"Incorrect API key provided: {key}.", 401, code="invalid_api_key")
    request = posted.body
    rules = chain(*(rule(request) for rule in RULES), changed_items(request, said), lost_reasoning(request, said))
    return next((Refusal(message) for message in rules), None)


# --- the request as a whole ------------------------------------------------------------------------------------------


def fields(request: JsonObject) -> Iterator[str]:
    for name in ("model", "input"):
        if not request.get(name):
            yield f"Missing required parameter: '{name}'."
    for name in sorted(set(request) - FIELDS):
        yield f"Unknown parameter: '{name}'."
    for name in sorted(set(request.get("include", ())) - INCLUDABLE):
        yield f"Invalid value: '{name}'. Supported values are: {sorted(INCLUDABLE)}."
    if request.get("previous_response_id") and not request.get("store", True):
        yield f"Previous response with id '{request['previous_response_id']}' not found."


def tools(request: JsonObject) -> Iterator[str]:
    for number, tool in enumerate(request.get("tools", ())):
        match tool:
            case {"type": "computer", **more}:
                yield from (f"Unknown parameter: 'tools[{number}].{name}'." for name in sorted(map(str, more)))
            case {"type": "function", "name": str(name), "parameters": {"type": "object"} as schema}:
                if tool.get("strict", True) and schema.get("additionalProperties") is not False:
                    yield f"Invalid schema for function '{name}': 'additionalProperties' is required to be supplied."
            case _:
                yield f"Invalid value: 'tools[{number}]'."


def text_format(request: JsonObject) -> Iterator[str]:
    said = request.get("text", {}).get("format", {"type": "text"})
    if said.get("type") == "json_schema":
        yield from problems_of_format(said, "text.format")
    elif said.get("type") not in ("text", "json_object"):
        yield f"Invalid value: '{said.get('type')}'. Supported values are: 'json_object', 'json_schema', and 'text'."


def known_items(request: JsonObject) -> Iterator[str]:
    for number, item in enumerate(_items(request)):
        if item["type"] not in ITEMS:
            yield f"Invalid value: '{item['type']}'. Supported values are: {sorted(ITEMS)}."
        if item["type"] == "message" and item["role"] not in ("user", "assistant", "developer", "system"):
            yield f"Invalid value: 'input[{number}].role'."
        for part in item.get("content", ()) if item.get("role") == "user" else ():
            if part["type"] not in ("input_text", "input_image"):
                yield f"Invalid value: '{part['type']}'. Supported values are: 'input_text', 'input_image'."


# --- calls and outputs -----------------------------------------------------------------------------------------------


def pairing(request: JsonObject) -> Iterator[str]:
    """Yield each call without exactly one output of its own type after it."""
    asked: dict[str, str] = {}
    for item in _items(request):
        if item["type"] in OUTPUT_OF:
            asked[item["call_id"]] = OUTPUT_OF[item["type"]]
        elif item["type"] in OUTPUT_OF.values() and asked.pop(item["call_id"], None) != item["type"]:
            yield f"No tool call found for {_words(item['type'])} with call_id {item['call_id']}."
    for call_id, output in asked.items():
        yield f"No tool output found for {_words(output.removesuffix('_output'))} {call_id}."


def reasoning(request: JsonObject) -> Iterator[str]:
    items = _items(request)
    for item, after in pairwise([*items, {"type": "the end"}]):
        if item["type"] != "reasoning":
            continue
        if after["type"] not in (*OUTPUT_OF, "message", "reasoning") or after.get("role") == "user":
            yield f"Item '{item['id']}' of type 'reasoning' was provided without its required following item."
        if not request.get("store", True) and not item.get("encrypted_content"):
            yield f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false."


def safety_checks(request: JsonObject) -> Iterator[str]:
    pending: dict[str, Any] = {}
    for item in _items(request):
        if item["type"] == "computer_call":
            pending[item["call_id"]] = item["pending_safety_checks"]
        if item["type"] == "computer_call_output":
            acknowledged = item.get("acknowledged_safety_checks") or []
            missing = [check for check in pending.get(item["call_id"], ()) if check not in acknowledged]
            if missing:
                yield f"The following safety checks have not been acknowledged: {missing}. You must acknowledge them."
            if len(acknowledged) > len(pending.get(item["call_id"], ())):
                yield f"(ours) {item['call_id']} acknowledges a safety check that was not pending."


def pictures(request: JsonObject) -> Iterator[str]:
    for picture in _pictures(request):
        size = size_of(picture.get("image_url"))
        if picture.get("detail", "auto") not in DETAILS:
            yield f"Invalid value: '{picture['detail']}'. Supported values are: {sorted(DETAILS)}."
        if size is None:
            yield "Invalid 'image_url'. Expected a base64-encoded data URL with an image MIME type."
        elif picture.get("detail") != "original" or not _is_seen_as_it_is(size):
            yield f"(ours) a picture of {size} pixels is scaled down before the model sees it: its points are off"


def outputs(request: JsonObject) -> Iterator[str]:
    for item in _items(request):
        if item["type"] == "computer_call_output" and item["output"].get("type") != "computer_screenshot":
            yield "Invalid value: 'output.type'. Supported values are: 'computer_screenshot'."
        if item["type"] == "function_call_output" and not isinstance(item["output"], (str, list)):
            yield "Invalid type for 'output': expected a string or an array."


RULES: tuple[Callable[[JsonObject], Iterator[str]], ...] = (
    fields,
    tools,
    text_format,
    known_items,
    pairing,
    reasoning,
    safety_checks,
    pictures,
    outputs,
)

# --- what was said ---------------------------------------------------------------------------------------------------


def changed_items(request: JsonObject, said: Sequence[JsonObject]) -> Iterator[str]:
    for number, item in enumerate(_items(request)):
        if item["type"] not in OUTPUT_OF.values() and item.get("role") != "user" and item not in said:
            yield f"(ours) input[{number}] is not what the model said"


def lost_reasoning(request: JsonObject, said: Sequence[JsonObject]) -> Iterator[str]:
    """Yield each item that came after reasoning and does not go back after it."""
    before = {after["id"]: item for item, after in pairwise(said) if item.get("type") == "reasoning"}
    for item, after in pairwise([{"type": "the start"}, *_items(request)]):
        thought = before.get(after.get("id"))
        if thought is not None and item != thought:
            yield (
                f"Item '{after['id']}' of type '{after['type']}' was provided without its required 'reasoning' item: "
                f"'{thought['id']}'."
            )


# --- reading ---------------------------------------------------------------------------------------------------------


def _items(request: JsonObject) -> list[Any]:
    return [{"type": "message", **item} for item in request.get("input", ())]


def _words(kind: str) -> str:
    return kind.replace("_", " ")


def _pictures(request: JsonObject) -> Iterator[JsonObject]:
    for item in _items(request):
        if item["type"] == "computer_call_output":
            yield item["output"]
        parts = item.get("content", ()) if item.get("role") == "user" else item.get("output", ())
        yield from (part for part in parts if isinstance(part, dict) and part.get("type") == "input_image")


def _is_seen_as_it_is(size: tuple[int, int]) -> bool:
    return max(size) <= 6000 and math.ceil(size[0] / 32) * math.ceil(size[1] / 32) <= 10_000


def picture_of(url: Any) -> bytes:
    """Return the bytes of a data URL. Raises ValueError if it is none."""
    kind, _, data = str(url).partition(";base64,")
    if kind != "data:image/png":
        raise ValueError(kind)
    return base64.b64decode(data, validate=True)


def size_of(url: Any) -> tuple[int, int] | None:
    try:
        with Image.open(io.BytesIO(picture_of(url))) as picture:
            picture.load()
            return picture.size if picture.format == "PNG" else None
    except (OSError, ValueError, binascii.Error):
        return None
