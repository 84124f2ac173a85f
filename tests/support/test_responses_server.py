"""The fake server for OpenAI refuses what the service would: one valid request, and each way to break it."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from support.gemini_conversations import frame_of
from support.json_server import Posted
from support.responses_server import API_KEY, refusal_of
from support.spoiled_json import drop, put

Body = dict[str, Any]


def url(width: int = 100, height: int = 50) -> str:
    return f"data:image/png;base64,{base64.b64encode(frame_of(1, width, height).png).decode()}"


CHECK = {"id": "sc_1", "code": "malicious_instructions", "message": "The page gives orders."}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAA"}
CALL = {
    "type": "computer_call",
    "id": "cu_1",
    "call_id": "call_1",
    "status": "completed",
    "actions": [{"type": "wait"}],
    "pending_safety_checks": [CHECK],
}
ASKED = {"type": "function_call", "id": "fc_1", "call_id": "call_2", "name": "users", "arguments": "{}"}
SAID = [THOUGHT, CALL, ASKED]


@pytest.fixture
def sound() -> Body:
    """Return the second request of a conversation, with two calls answered, the first of them acknowledged."""
    content = [{"type": "input_text", "text": "Pay"}, {"type": "input_image", "image_url": url(), "detail": "original"}]
    screenshot = {"type": "computer_screenshot", "image_url": url(), "detail": "original"}
    done = {"type": "computer_call_output", "call_id": "call_1", "output": screenshot}
    body: Body = {
        "model": "gpt-5.5",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "tools": [
            {"type": "computer"},
            {"type": "function", "name": "users", "parameters": {"type": "object"}, "strict": False},
        ],
        "input": [
            {"role": "user", "content": content},
            *SAID,
            {**done, "acknowledged_safety_checks": [CHECK]},
            {"type": "function_call_output", "call_id": "call_2", "output": "alice"},
        ],
    }
    return copy.deepcopy(body)


def told(body: Body, path: str = "/v1/responses", key: str = API_KEY) -> str:
    posted = Posted(path, {"authorization": f"Bearer {key}"}, json.dumps(body).encode())
    refusal = refusal_of(posted, api_key=API_KEY, said=SAID)
    return refusal.message if refusal else ""


def test_sound_request_is_taken(sound: Body) -> None:
    assert told(sound) == ""


def test_address_and_key(sound: Body) -> None:
    assert told(sound, path="/responses").startswith("Invalid URL")
    assert told(sound, key="another") == "Incorrect API key provided: another."


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (drop("model"), "Missing required parameter: 'model'."),
        (put("input", []), "Missing required parameter: 'input'."),
        (put("temprature", 1), "Unknown parameter: 'temprature'."),
        (put("include", ["thoughts"]), "Invalid value: 'thoughts'"),
        (put("previous_response_id", "resp_1"), "Previous response with id 'resp_1' not found."),
        (put("tools", 0, "display_width", 9), "Unknown parameter: 'tools[0].display_width'."),
        (drop("tools", 1, "strict"), "'additionalProperties' is required"),
        (put("tools", 1, "type", "fn"), "Invalid value: 'tools[1]'."),
        (put("text", {"format": {"type": "xml"}}), "Invalid value: 'xml'"),
        (put("text", {"format": {"type": "json_schema", "name": "x"}}), "Invalid schema for text.format"),
        (put("input", 0, "role", "tool"), "Invalid value: 'input[0].role'."),
        (put("input", 0, "content", 0, "type", "text"), "Invalid value: 'text'"),
        (put("input", 2, "type", "click"), "Invalid value: 'click'"),
        (drop("input", 4), "No tool output found for computer call call_1."),
        (drop("input", 5), "No tool output found for function call call_2."),
        (put("input", 5, "call_id", "call_3"), "No tool call found for function call output with call_id call_3."),
        (put("input", 5, "type", "computer_call_output"), "No tool call found for computer call output"),
        (lambda body: body["input"].append(body["input"][5]), "No tool call found for function call output"),
        (lambda body: body["input"].append(body["input"].pop(1)), "without its required following item"),
        (drop("input", 1), "was provided without its required 'reasoning' item: 'rs_1'."),
        (drop("input", 1, "encrypted_content"), "not persisted when `store` is set to false"),
        (drop("input", 4, "acknowledged_safety_checks"), "safety checks have not been acknowledged"),
        (put("input", 4, "acknowledged_safety_checks", [CHECK, CHECK]), "that was not pending"),
        (put("input", 4, "output", "type", "input_image"), "'output.type'"),
        (put("input", 5, "output", {"said": "alice"}), "Invalid type for 'output'"),
        (put("input", 4, "output", "image_url", "https://host/screen.png"), "Invalid 'image_url'"),
        (put("input", 4, "output", "image_url", "data:image/png;base64,%%"), "Invalid 'image_url'"),
        (put("input", 0, "content", 1, "image_url", "data:image/png;base64,AAAA"), "Invalid 'image_url'"),
        (put("input", 4, "output", "image_url", url(6001, 10)), "its points are off"),
        (put("input", 4, "output", "detail", "high"), "its points are off"),
        (put("input", 4, "output", "detail", "best"), "Invalid value: 'best'"),
        (put("input", 2, "actions", []), "is not what the model said"),
    ],
)
def test_spoilt_request_is_refused(sound: Body, spoil: Callable[[Body], None], message: str) -> None:
    spoil(sound)
    assert message in told(sound)
