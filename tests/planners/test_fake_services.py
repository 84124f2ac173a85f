"""The fake servers refuse what the services would: a planner's own second request is
taken, and malformed it is not.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from support import chat_server, gemini_server, messages_server, responses_server
from support.json_server import Posted
from support.players import PLAYERS, Conversation, cases_of

DROP = object()
CHECK = {
    "id": "sc_1",
    "code": "malicious_instructions",
    "message": "The page gives orders.",
}
CLICK = {"type": "click", "button": "left", "x": 720, "y": 450}
FIRST_REPLY = {
    "gemini": gemini_server.calls(
        ("click", gemini_server.wants_confirmation({"x": 1, "y": 1}, "This pays."))
    ),
    "anthropic": messages_server.uses(
        ("left_click", {"coordinate": [720, 450]}), thinking="Hm."
    ),
    "openai": responses_server.acts(CLICK, thinks=True, checks=[CHECK]),
    "openai-compatible, commands": chat_server.call("click", x=500, y=500),
}
GEMINI_TOLD = "contents.2.parts.0.functionResponse"
CLAUDE_TOLD = "messages.2.content.0"
MALFORMED: dict[str, list[tuple[str, object, str]]] = {
    "gemini": [
        ("contents.1", DROP, "comes immediately after a function call turn"),
        (f"{GEMINI_TOLD}.response", {}, "must be acknowledged"),
        ("contents.1.parts.0.thoughtSignature", DROP, "missing a `thought_signature`"),
    ],
    "anthropic": [
        (f"{CLAUDE_TOLD}.tool_use_id", "toolu_3", "without `tool_result` blocks"),
        (f"{CLAUDE_TOLD}.toolset_name", DROP, "must echo toolset_name"),
        ("messages.1.content.0.signature", "another", "Invalid `signature`"),
        ("system", "You pay.", "bound to a different conversation"),
    ],
    "openai": [
        ("input.3", DROP, "No tool output found for computer call"),
        ("input.1", DROP, "without its required 'reasoning' item"),
        ("input.2.actions", [], "is not what the model said"),
        ("input.3.acknowledged_safety_checks", DROP, "have not been acknowledged"),
        ("input.3.output.detail", "high", "its points are off"),
    ],
    "openai-compatible, commands": [
        ("messages.2.content", "<think>Hm.", "thoughts of earlier turns"),
        ("messages.3", DROP, "did not have response messages"),
        ("messages.2.tool_calls.0.function.arguments", "{", "cannot be parsed as JSON"),
        ("response_format", {"type": "json_object"}, "must be 'json_schema' or 'text'"),
    ],
}
"""By a planner, what is changed in its second request: the place, the new value, and a
part of the refusal.
"""


def changed(body: object, path: str, value: object) -> bytes:
    """Return a request's body with another value at a path, or without it."""
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    part: Any = body
    for step in steps:
        part = part[step]
    if value is DROP:
        del part[last]
    else:
        part[last] = value
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    ("name", "path", "value", "message"),
    [(name, *case) for name, case in cases_of(MALFORMED)],
)
def test_fake_service_malformed_request_is_refused(
    name: str, path: str, value: object, message: str
) -> None:
    player = PLAYERS[name]
    with player.serve([FIRST_REPLY[name], player.done]) as server:
        conversation = Conversation(server, player.planner(server))
        conversation.act()
        conversation.act()
        assert server.refusals == []
        sent = server.posted[-1]
        said = [*server.said]
        malformed = changed(sent.body, path, value)
        reply = server.reply_to(Posted(sent.path, sent.headers, malformed))
        assert reply.status == 400
        assert message in str(reply.body)
        assert server.said == said
