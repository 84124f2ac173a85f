"""A local stand-in for OpenAI's Responses API: it answers as we believe the service does, and refuses our mistakes.

    with ResponsesServer([acts({"type": "click", "button": "left", "x": 720, "y": 450}), text("Done.")]) as server:
        planner = OpenAIComputer(base_url=server.url, api_key=server.api_key)

It answers request n with reply n of a script, or with the result of a function of the request. A request that OpenAI
would refuse gets OpenAI's error, and uses up no reply: see `responses_rules.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from support.json_server import JsonServer, Posted, Reply, Script, Service, in_order
from support.responses_rules import refusal_of

API_KEY = "sk-proj-the-test-key"
JsonObject = Mapping[str, Any]
USAGE = {
    "input_tokens": 1500,
    "input_tokens_details": {"cached_tokens": 500, "cache_write_tokens": 0},
    "output_tokens": 100,
    "output_tokens_details": {"reasoning_tokens": 60},
    "total_tokens": 1600,
}

# --- what a model says -----------------------------------------------------------------------------------------------


def response(*output: Any, status: str = "completed", **more: Any) -> Reply:
    body = {"id": "resp_1", "object": "response", "status": status, "error": None, "usage": USAGE}
    return Reply({**body, "output": list(output), **more})


def said(words: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": words, "annotations": []}
    return {"type": "message", "id": "", "role": "assistant", "status": "completed", "content": [part]}


def thought(summary: str = "", encrypted: str = "gAAAAA") -> dict[str, Any]:
    summaries = [{"type": "summary_text", "text": summary}] if summary else []
    return {"type": "reasoning", "id": "", "summary": summaries, "encrypted_content": encrypted}


def computer_call(*actions: Any, checks: Iterable[JsonObject] = (), **more: Any) -> dict[str, Any]:
    call = {"type": "computer_call", "id": "", "call_id": "", "status": "completed", "actions": list(actions)}
    return {**call, "pending_safety_checks": list(checks), **more}


def function_call(name: str, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "id": "", "call_id": "", "name": name, "arguments": arguments}


def text(words: str) -> Reply:
    """Return words and no calls: the model believes it is done."""
    return response(said(words))


def acts(*actions: Any, words: str = "", thinks: bool = False, checks: Iterable[JsonObject] = ()) -> Reply:
    """Return the actions of one computer_call, in order."""
    before = [*([said(words)] if words else []), *([thought("Where is it?")] if thinks else [])]
    return response(*before, computer_call(*actions, checks=checks))


def calls(name: str, arguments: str) -> Reply:
    """Return a call of a function."""
    return response(function_call(name, arguments))


def error(status: int, kind: str, told: str, code: str | None = None, **headers: str) -> Reply:
    return Reply({"error": {"message": told, "type": kind, "param": None, "code": code}}, status, headers)


def rate_limited(retry_in_s: float) -> Reply:
    after = {"retry-after-ms": str(int(retry_in_s * 1000))}
    return error(429, "requests", "Rate limit reached.", "rate_limit_exceeded", **after)


# --- the server ------------------------------------------------------------------------------------------------------


@dataclass
class ResponsesServer(Service):
    """The service on a free port; `requests` are the bodies it received, `refusals` the messages for refused ones."""

    _path = "/v1"
    script: Script = ()
    api_key: str = API_KEY
    requests: list[Any] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    said: list[JsonObject] = field(default_factory=list)

    def __post_init__(self) -> None:
        used_up = error(400, "invalid_request_error", "the test's script has no reply left")
        self._next = in_order(self.script, used_up)
        self._http = JsonServer(self._answer)

    def _answer(self, posted: Posted) -> Reply:
        request = posted.body
        self.requests.append(request)
        self.sizes.append(len(posted.raw))
        refusal = refusal_of(posted, api_key=self.api_key, said=self.said)
        if refusal is not None:
            self.refusals.append(refusal.message)
            return error(refusal.status, refusal.kind, refusal.message, refusal.code)
        return self._said(self._next(request), request)

    def _said(self, reply: Reply, request: Any) -> Reply:
        """Return the reply with an id on each item, remembered for the next request's check; malformed ones are not."""
        if isinstance(reply.body, bytes) or not isinstance(reply.body.get("output"), list):
            return reply
        output = json.loads(json.dumps(reply.body["output"]))
        for item in (item for item in output if isinstance(item, dict)):
            number = len(self.said)
            item.update({name: f"{name}_{number}" for name in ("id", "call_id") if item.get(name) == ""})
            self.said.append(item)
        return replace(reply, body={"model": f"{request['model']}-2026-04-23", **reply.body, "output": output})
