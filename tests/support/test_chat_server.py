"""The fake server for chat completions refuses the requests that real servers refuse."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image

from support.chat_server import problems_of

Body = dict[str, Any]


def image(data: bytes | None = None) -> Body:
    if data is None:
        file = io.BytesIO()
        Image.new("RGB", (4, 4)).save(file, "PNG")
        data = file.getvalue()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(data).decode()}"}}


def good() -> Body:
    """Return a request with which nothing is wrong."""
    tool_call = {"id": "c1", "type": "function", "function": {"name": "wait", "arguments": "{}"}}
    return {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Operate."},
            {"role": "user", "content": [{"type": "text", "text": "Wait."}, image()]},
            {"role": "assistant", "content": "", "tool_calls": [tool_call]},
            {"role": "tool", "tool_call_id": "c1", "content": "ok"},
            {"role": "user", "content": [{"type": "text", "text": "The screen:"}, image()]},
        ],
        "tools": [{"type": "function", "function": {"name": "wait", "parameters": {"type": "object"}}}],
    }


def test_good_request_is_accepted() -> None:
    assert list(problems_of(good())) == []


Spoil = Callable[[Body], object]
SPOILT: list[tuple[Spoil, str]] = [
    (lambda body: body.update(top_k=1), "Unrecognized request argument supplied: top_k"),
    (lambda body: body.pop("model"), "you must provide a model parameter"),
    (lambda body: body.update(messages=[]), "is too short"),
    (lambda body: body["messages"][0].update(role="developer"), "Unexpected message role 'developer'"),
    (lambda body: body["messages"][1].update(content=""), "content must not be empty"),
    (lambda body: body["messages"][2].update(content="<think>Hm."), "thoughts of earlier turns"),
    (lambda body: body["messages"][3].update(content=[image()]), "only allowed for messages with role 'user'"),
    (lambda body: body["messages"][3].update(tool_call_id="c2"), "must be a response to a preceding message"),
    (lambda body: body["messages"].pop(3), "did not have response messages: c1"),
    (lambda body: body["messages"].insert(3, body["messages"].pop()), "did not have response messages: c1"),
    (lambda body: body["messages"].append({"role": "assistant", "content": "Go."}), "Cannot continue an assistant"),
    (lambda body: body["messages"][4].update(content=[image(b"no image")]), "cannot decode the image"),
    (
        lambda body: body["messages"][4]["content"][1]["image_url"].update(url="http://host/a.png"),
        "'url' field must be a base64 encoded image",
    ),
    (
        lambda body: body["messages"][2]["tool_calls"][0]["function"].update(arguments={}),
        "'tool_calls[0].function.arguments': expected a string",
    ),
    (
        lambda body: body["messages"][2]["tool_calls"][0]["function"].update(arguments="{"),
        "arguments cannot be parsed as JSON",
    ),
    (
        lambda body: body["messages"][2]["tool_calls"][0]["function"].update(arguments="[]"),
        "arguments is not an object",
    ),
    (lambda body: body["messages"][2]["tool_calls"][0].pop("id"), "Invalid tool call"),
    (lambda body: body["tools"][0]["function"].pop("parameters"), "Invalid tool"),
    (lambda body: body.update(response_format={"type": "json_object"}), "must be 'json_schema' or 'text'"),
    (lambda body: body.update(response_format={"type": "json_schema"}), "'response_format.name'"),
    (lambda body: body["tools"][0]["function"]["parameters"].update(required=["x"]), "Invalid schema of 'wait'"),
]


@pytest.mark.parametrize(("spoil", "problem"), SPOILT, ids=[problem for _, problem in SPOILT])
def test_what_is_refused(spoil: Spoil, problem: str) -> None:
    body = good()
    spoil(body)
    assert problem in next(problems_of(body), "")
