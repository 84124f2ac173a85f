"""The fake server for Anthropic refuses what the API would: one valid request, and each way to break it."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from support.gemini_conversations import frame_of
from support.json_server import Posted
from support.messages_server import API_KEY, Said, refusal_of
from support.spoiled_json import add, at, drop, put

HEADERS = {"x-api-key": API_KEY, "anthropic-version": "2023-06-01"}
Body = dict[str, Any]


def image(width: int = 100, height: int = 50, **source: str) -> Body:
    data = base64.b64encode(frame_of(1, width, height).png).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data, **source}}


def member(number: int) -> Body:
    place = {"coordinate": [1, 1]}
    return {
        "type": "tool_use",
        "id": f"toolu_{number}",
        "name": "left_click",
        "toolset_name": "computer",
        "input": place,
    }


def result(number: int) -> Body:
    content = [{"type": "text", "text": "ok"}]
    return {"type": "tool_result", "tool_use_id": f"toolu_{number}", "toolset_name": "computer", "content": content}


THOUGHT = {"type": "thinking", "thinking": "", "signature": "signed"}
FIRST: Body = {
    "model": "claude-sonnet-5",
    "max_tokens": 100,
    "system": "You operate a computer.",
    "tools": [{"type": "computer_toolset_20260801"}],
    "messages": [{"role": "user", "content": [image(), {"type": "text", "text": "Pay"}]}],
}
SAID = Said([THOUGHT, member(1), member(2)], FIRST)


@pytest.fixture
def sound() -> Body:
    """Return the second request of a conversation, with two calls answered."""
    body = copy.deepcopy(FIRST)
    body["messages"] += [
        {"role": "assistant", "content": list(SAID.content)},
        {"role": "user", "content": [result(1), {**result(2), "content": [image()]}]},
    ]
    return copy.deepcopy(body)


def told(body: Body, path: str = "/v1/messages", signs: bool = True, **headers: str | None) -> str:
    """Return how the fake server refuses it, or nothing; a header that is None is left out."""
    changed = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = {name: value for name, value in {**HEADERS, **changed}.items() if value is not None}
    refusal = refusal_of(Posted(path, sent, json.dumps(body).encode()), api_key=API_KEY, said=[SAID], signs=signs)
    return refusal.message if refusal else ""


def test_sound_request_is_taken(sound: Body) -> None:
    assert told(sound) == ""


def test_headers(sound: Body) -> None:
    assert told(sound, path="/v1/chat/completions").startswith("Not found")
    assert told(sound, x_api_key=None) == told(sound, x_api_key="another") == "invalid x-api-key"
    assert told(sound, anthropic_version=None) == "anthropic-version: header is required"


def test_older_tool_needs_its_beta_header_and_older_model() -> None:
    tool = {"type": "computer_20251124", "name": "computer", "display_width_px": 100, "display_height_px": 50}
    body = {**FIRST, "tools": [tool]}
    assert "Input tag 'computer_20251124'" in told(body)
    beta = {"anthropic_beta": "computer-use-2025-11-24"}
    assert told(body, **beta) == ""
    assert "Did you mean computer_toolset" in told({**body, "model": "claude-opus-5-5"}, **beta)
    del tool["name"]
    assert "computer_20251124.name: Field required" in told(body, **beta)


ASKED, ANSWERED = ("messages", 1, "content"), ("messages", 2, "content")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (drop("max_tokens"), "max_tokens: Field required"),
        (drop("model"), "model: Field required"),
        (put("temprature", 1), "temprature: Extra inputs are not permitted"),
        (put("messages", []), "at least one message"),
        (drop("messages", 0), "first message must use the user role"),
        (drop("messages", 2), "The conversation must end with a user message"),
        (put("messages", 0, "role", "system"), "first message must use the user role"),
        (put("messages", 2, "role", "tool"), "The conversation must end with a user message"),
        (put("messages", 0, "content", []), "non-empty content"),
        (put("messages", 0, "content", 1, "text", " "), "must contain non-whitespace text"),
        (put("tools", 0, "name", "computer"), "computer_toolset_20260801.name: Extra inputs"),
        (put("tools", 0, "configs", {"klick": {}}), "configs.klick: Extra inputs"),
        (put("tools", 0, "type", "computer_2030"), "Input tag 'computer_2030'"),
        (add("tools", {"name": "users"}), "Input tag 'custom'"),
        (put("tool_choice", {"type": "tool", "name": "users"}), "Tool 'users' not found in provided tools"),
        (drop(*ANSWERED, 0), "`tool_use` ids were found without `tool_result` blocks immediately after: toolu_1"),
        (add(*ANSWERED, result(2)), "Found multiple `tool_result` blocks"),
        (add(*ANSWERED, result(3)), "unexpected `tool_use_id` found in `tool_result` blocks: toolu_3"),
        (drop(*ANSWERED, 0, "toolset_name"), "must echo toolset_name 'computer'"),
        (lambda body: at(body, ANSWERED).insert(0, {"type": "text", "text": "so"}), "must come before other content"),
        (put(*ANSWERED, 1, "content", [image(data="")]), "Could not process image"),
        (put(*ANSWERED, 1, "content", [image(data="%%")]), "Could not process image"),
        (put(*ANSWERED, 1, "content", [image(media_type="image/jpeg")]), "Could not process image"),
        (put(*ANSWERED, 1, "content", [image(2600, 10)]), "its points are off"),
        (put(*ANSWERED, 1, "content", [image(2500, 2000)]), "its points are off"),
        (put(*ASKED, 1, "input", {"coordinate": [2, 2]}), "is not what the model said"),
        (put(*ASKED, 0, "signature", "another"), "Invalid `signature`"),
        (put("system", "You pay."), "bound to a different conversation"),
        (add("tools", {"name": "users", "input_schema": {"type": "object"}}), "bound to a different conversation"),
        (put("messages", 0, "content", 1, "text", "Steal"), "bound to a different conversation"),
    ],
)
def test_spoilt_request_is_refused(sound: Body, spoil: Callable[[Body], None], message: str) -> None:
    spoil(sound)
    assert message in told(sound)


def test_thoughts_may_be_left_out_and_older_models_do_not_bind_them(sound: Body) -> None:
    sound["system"] = "You pay."
    assert told(sound, signs=False) == ""
    del sound["messages"][1]["content"][0]
    assert told(sound) == ""
