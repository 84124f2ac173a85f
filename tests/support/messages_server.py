"""A local stand-in for Anthropic's Messages API: it answers as we believe the service does, and refuses our mistakes.

    with MessagesServer([uses(("left_click", {"coordinate": [720, 450]})), text("Done.")]) as server:
        planner = AnthropicComputer(base_url=server.url, api_key=server.api_key)

It answers request n with reply n of a script, or with the result of a function of the request. A request that Anthropic
would refuse gets Anthropic's error, and uses up no reply: see `messages_rules.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from support.json_server import JsonServer, Posted, Reply, Script, Service, in_order
from support.messages_rules import Said, refusal_of

API_KEY = "sk-ant-the-test-key"
JsonObject = Mapping[str, Any]
USAGE = {
    "input_tokens": 900,
    "cache_read_input_tokens": 500,
    "cache_creation_input_tokens": 100,
    "output_tokens": 100,
    "output_tokens_details": {"thinking_tokens": 60},
}

# --- what a model says -----------------------------------------------------------------------------------------------


def message(content: Any, stop_reason: str = "end_turn", **more: Any) -> Reply:
    body = {"id": "msg_1", "type": "message", "role": "assistant", "content": content, "usage": USAGE, **more}
    return Reply({**body, "stop_reason": stop_reason})


def text(words: str) -> Reply:
    """Return words and no calls: the model believes it is done."""
    return message([{"type": "text", "text": words}])


def uses(
    *named: tuple[str, JsonObject], words: str = "", thinking: str | None = None, toolset: str | None = "computer"
) -> Reply:
    """Return calls of one turn, in order, of members of the toolset, or else of tools by these names."""
    content: list[JsonObject] = []
    if thinking is not None:
        content.append({"type": "thinking", "thinking": thinking, "signature": ""})
    if words:
        content.append({"type": "text", "text": words})
    member = {"toolset_name": toolset} if toolset else {}
    content += [{"type": "tool_use", "id": "", "name": name, "input": args, **member} for name, args in named]
    return message(content, "tool_use")


def older(*actions: JsonObject) -> Reply:
    """Return calls of the older tool, which is one with a field `action`."""
    return uses(*(("computer", action) for action in actions), toolset=None)


def refused(category: str, explanation: str) -> Reply:
    details = {"type": "refusal", "category": category, "explanation": explanation}
    return message([], "refusal", stop_details=details)


def error(status: int, kind: str, told: str, **headers: str) -> Reply:
    return Reply({"type": "error", "error": {"type": kind, "message": told}}, status, headers)


def rate_limited(retry_in_s: float) -> Reply:
    return error(
        429, "rate_limit_error", "This request would exceed your rate limit.", **{"retry-after": str(retry_in_s)}
    )


def overloaded() -> Reply:
    return error(529, "overloaded_error", "Overloaded")


# --- the server ------------------------------------------------------------------------------------------------------


@dataclass
class MessagesServer(Service):
    """The service on a free port; `requests` are the bodies it received, `refusals` the messages for refused ones.

    `signs` is true where a thinking block is valid only after the content before it, as with newer models.
    """

    script: Script = ()
    api_key: str = API_KEY
    signs: bool = True
    requests: list[Any] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)

    def __post_init__(self) -> None:
        used_up = error(400, "invalid_request_error", "the test's script has no reply left")
        self._next = in_order(self.script, used_up)
        self._http = JsonServer(self._answer)

    def _answer(self, posted: Posted) -> Reply:
        request = posted.body
        self.requests.append(request)
        self.sizes.append(len(posted.raw))
        refusal = refusal_of(posted, api_key=self.api_key, said=self.said, signs=self.signs)
        if refusal is not None:
            self.refusals.append(refusal.message)
            return error(refusal.status, refusal.kind, refusal.message)
        return self._signed(self._next(request), request)

    def _signed(self, reply: Reply, request: Any) -> Reply:
        """Return the reply with an id on each call and a signature on each thought, and remember it for the next check.

        A call or thought that is malformed stays as it is.
        """
        if isinstance(reply.body, bytes) or not isinstance(reply.body.get("content"), list):
            return reply
        content = json.loads(json.dumps(reply.body["content"]))
        for number, block in enumerate(content):
            tag = f"{len(self.said)}_{number}"
            if isinstance(block, dict) and block.get("id") == "":
                block["id"] = f"toolu_{tag}"
            if isinstance(block, dict) and block.get("signature") == "":
                block["signature"] = f"signed_{tag}"
        self.said.append(Said(content, request))
        return replace(reply, body={"model": f"{request['model']}-20260901", **reply.body, "content": content})
