"""A fake server (`json_server.Service`) for Gemini's generateContent:

    with GeminiServer([calls(("click", {"x": 500, "y": 500})), text("Done.")]) as server:
        planner = GeminiComputerUse(base_url=server.url, api_key=server.api_key)

What Google would refuse is in `gemini_rules.py`. `requests` holds all requests, in camelCase.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from support import json_server
from support.gemini_rules import Request, refusal_of, refusal_of_access
from support.json_server import Posted, Refusal, Service

API_KEY = "AIza-the-test-key"
JsonObject = Mapping[str, Any]


@dataclass(frozen=True)
class Reply(json_server.Reply):
    """One answer of the service. A `malformed` one has parts that no content may have."""

    malformed: bool = False


def text(words: str) -> Reply:
    """Return words and no calls: the model believes it is done. Also the answer of a judge, as JSON text."""
    return candidate([{"text": words}])


def calls(*named: tuple[str, JsonObject], words: str = "", thought: str = "", signed: bool = True) -> Reply:
    """Return function calls of one turn, in order; the first carries the turn's thought signature, as in Gemini 3."""
    parts: list[dict[str, Any]] = []
    if thought:
        parts.append({"text": thought, "thought": True})
    if words:
        parts.append({"text": words})
    function_calls: list[dict[str, Any]] = [
        {"functionCall": {"name": name, "args": dict(args)}} for name, args in named
    ]
    if signed and function_calls:
        function_calls[0]["thoughtSignature"] = base64.b64encode(b"signed\xfb\xff" + repr(named).encode()).decode()
    return candidate(parts + function_calls)


def wants_confirmation(args: JsonObject, explanation: str) -> JsonObject:
    """Return arguments of a call that the model wants confirmed: the decision is one of them, not on the candidate."""
    return {**args, "safety_decision": {"decision": "require_confirmation", "explanation": explanation}}


def candidate(parts: list[dict[str, Any]], finish_reason: str = "STOP", **more: Any) -> Reply:
    answered = {"index": 0, "finishReason": finish_reason, "content": {"role": "model", "parts": parts}}
    return Reply({"candidates": [answered], "usageMetadata": USAGE, "responseId": "response", **more})


USAGE = {
    "promptTokenCount": 1500,
    "cachedContentTokenCount": 300,
    "candidatesTokenCount": 40,
    "thoughtsTokenCount": 60,
    "totalTokenCount": 1600,
}


def empty() -> Reply:
    return Reply({"candidates": [{"index": 0, "finishReason": "STOP", "content": {}}], "usageMetadata": USAGE})


def stopped(finish_reason: str) -> Reply:
    """Return an answer without content that ended for another reason than STOP: SAFETY, MAX_TOKENS …"""
    return Reply({"candidates": [{"index": 0, "finishReason": finish_reason, "finishMessage": "so it is"}]})


def blocked_prompt(reason: str = "SAFETY") -> Reply:
    """Return no candidates: the prompt itself was blocked."""
    return Reply({"promptFeedback": {"blockReason": reason, "blockReasonMessage": "blocked"}, "usageMetadata": USAGE})


def error(code: int, status: str, message: str, *details: JsonObject) -> Reply:
    return Reply({"error": {"code": code, "message": message, "status": status, "details": list(details)}}, code)


def rate_limited(retry_in_s: float | None) -> Reply:
    """Return a quota per minute, which a wait refills."""
    details = [quota_failure("GenerateRequestsPerMinutePerProjectPerModel-FreeTier")]
    if retry_in_s is not None:
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{retry_in_s}s"})
    return error(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", *details)


def daily_quota() -> Reply:
    """Return a quota per day; Google sends a RetryInfo here too, which is of no use."""
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.1s"}
    failure = quota_failure("GenerateRequestsPerDayPerProjectPerModel-FreeTier")
    return error(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", failure, retry)


def quota_failure(quota_id: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota_id}]}


def overloaded() -> Reply:
    return error(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")


def not_json() -> Reply:
    return Reply(b'{"candidates": [{"ind', 200)


def malformed(*parts: Any, **more: Any) -> Reply:
    return replace(candidate(list(parts), **more), malformed=True)


def hang(seconds: float = 60.0) -> Reply:
    """Accept the request and say nothing for so long."""
    return replace(text("too late"), hang_s=seconds)


@dataclass
class GeminiServer(Service):
    """The service on a free port of this machine. `said` are contents as they were: a history is held against them."""

    api_key: str = API_KEY
    with_ids: bool = True
    methods: tuple[str, ...] = ("generateContent", "countTokens")
    """What the models are described as able to do."""

    def _read(self, posted: Posted) -> Request:
        return Request.read(posted.path, posted.headers.get("x-goog-api-key", ""), posted.raw)

    def _refusal_of(self, posted: Posted, request: Request) -> Refusal | None:
        return refusal_of(request, api_key=self.api_key, answered=self.said)

    def _error(self, refusal: Refusal) -> Reply:
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": refusal.code, "domain": "googleapis.com"}
        kind = refusal.kind or "INVALID_ARGUMENT"
        return error(refusal.status, kind, refusal.message, *([info] if refusal.code else []))

    def _describe(self, asked: Posted) -> json_server.Reply:
        """Return the service's description of the model in the path; it costs nothing, and uses up no reply."""
        _, version, _, model = asked.path.split("/")
        refused = refusal_of_access(version, model, asked.headers.get("x-goog-api-key", ""), api_key=self.api_key)
        if refused is not None:
            return self._error(refused)
        return Reply({"name": f"models/{model}", "version": "001", "supportedGenerationMethods": self.methods})

    def _kept(self, reply: json_server.Reply, request: Request) -> json_server.Reply:
        """Return the reply with an id on each call and the model's version, remembered for the next request's check.

        A malformed one stays as it is, and is not remembered: nobody is to send it back.
        """
        if isinstance(reply.body, bytes) or "error" in reply.body or (isinstance(reply, Reply) and reply.malformed):
            return reply
        body = json.loads(json.dumps({"modelVersion": f"{request.model}-001", **reply.body}))
        for answer in body.get("candidates", ()):
            content = answer.get("content", {})
            parts = [part for part in content.get("parts", ()) if "functionCall" in part]
            for number, part in enumerate(parts):
                if self.with_ids:
                    part["functionCall"].setdefault("id", f"call-{len(self.said)}-{number}")
            self.said.append(content)
        return replace(reply, body=body)


def digest(png: bytes) -> str:
    """Return the name of an image in a run directory."""
    return hashlib.sha256(png).hexdigest()
