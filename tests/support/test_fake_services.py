"""The fake servers refuse what the services would: a planner's own second request is taken, and malformed it is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support import chat_server, gemini_server, messages_server, responses_server
from support.conversations import Talk
from support.json_server import Posted
from support.players import PLAYERS

DROP = object()
CHECK = {"id": "sc_1", "code": "malicious_instructions", "message": "The page gives orders."}
CLICK = {"type": "click", "button": "left", "x": 720, "y": 450}
FIRST_REPLY = {
    "gemini": gemini_server.calls(("click", gemini_server.wants_confirmation({"x": 1, "y": 1}, "This pays."))),
    "anthropic": messages_server.uses(("left_click", {"coordinate": [720, 450]}), thinking="Hm."),
    "openai": responses_server.acts(CLICK, thinks=True, checks=[CHECK]),
    "openai-compatible, commands": chat_server.call("click", x=500, y=500),
}
GEMINI_TOLD, CLAUDE_TOLD = "contents.2.parts.0.functionResponse", "messages.2.content.0"


@pytest.mark.parametrize(
    ("name", "path", "value", "message"),
    [
        ("gemini", "contents.1", DROP, "comes immediately after a function call turn"),
        ("gemini", f"{GEMINI_TOLD}.name", "type", "is not the name of the function call"),
        ("gemini", f"{GEMINI_TOLD}.id", DROP, "is not the id of the function call"),
        ("gemini", f"{GEMINI_TOLD}.response", {}, "must be acknowledged"),
        ("gemini", f"{GEMINI_TOLD}.parts.0.inlineData.data", "AAAA", "requires image of mime_type image/png"),
        ("gemini", "contents.1.parts.0.thoughtSignature", DROP, "missing a `thought_signature`"),
        ("gemini", "contents.1.parts.0.thoughtSignature", "AAAA", "is not what the model said"),
        ("gemini", "generationConfig", {"temperature": 0}, "temperature is not supported"),
        ("anthropic", "max_tokens", DROP, "max_tokens: Field required"),
        ("anthropic", "temprature", 1, "temprature: Extra inputs"),
        ("anthropic", "messages.2", DROP, "must end with a user message"),
        ("anthropic", f"{CLAUDE_TOLD}.tool_use_id", "toolu_3", "without `tool_result` blocks"),
        ("anthropic", f"{CLAUDE_TOLD}.toolset_name", DROP, "must echo toolset_name"),
        ("anthropic", "messages.1.content.1.name", "wait", "is not what the model said"),
        ("anthropic", "messages.1.content.0.signature", "another", "Invalid `signature`"),
        ("anthropic", "system", "You pay.", "bound to a different conversation"),
        ("openai", "temprature", 1, "Unknown parameter: 'temprature'"),
        ("openai", "tools.0.display_width", 9, "Unknown parameter: 'tools[0].display_width'"),
        ("openai", "input.3", DROP, "No tool output found for computer call"),
        ("openai", "input.1", DROP, "without its required 'reasoning' item"),
        ("openai", "input.1.encrypted_content", DROP, "not persisted when `store` is set to false"),
        ("openai", "input.2.actions", [], "is not what the model said"),
        ("openai", "input.3.acknowledged_safety_checks", DROP, "have not been acknowledged"),
        ("openai", "input.3.output.image_url", "data:image/png;base64,AAAA", "Invalid 'image_url'"),
        ("openai", "input.3.output.detail", "high", "its points are off"),
        ("openai-compatible, commands", "top_k", 1, "Unrecognized request argument supplied: top_k"),
        ("openai-compatible, commands", "messages.2.content", "<think>Hm.", "thoughts of earlier turns"),
        ("openai-compatible, commands", "messages.3", DROP, "did not have response messages"),
        ("openai-compatible, commands", "messages.3.tool_call_id", "c2", "must be a response to a preceding message"),
        ("openai-compatible, commands", "messages.2.tool_calls.0.function.arguments", "{", "cannot be parsed as JSON"),
        ("openai-compatible, commands", "response_format", {"type": "json_object"}, "must be 'json_schema' or 'text'"),
    ],
)
def test_fake_service_malformed_request_is_refused(name: str, path: str, value: object, message: str) -> None:
    player = PLAYERS[name]
    with player.replying([FIRST_REPLY[name], player.done]) as (server, planner):
        talk: Talk[Any] = Talk(server, planner)
        talk.act()
        talk.act()
        assert server.refusals == []
        sent = server._http.requests[-1]
        place = body = sent.body
        *steps, last = (int(step) if step.isdigit() else step for step in path.split("."))
        for step in steps:
            place = place[step]
        if value is DROP:
            del place[last]
        else:
            place[last] = value
        reply = server._http.reply_to(Posted(sent.path, sent.headers, json.dumps(body).encode()))
    assert reply.status == 400
    assert message in str(reply.body)
