"""A fake server (`json_server.Service`) for Gemini's generateContent:

with GeminiServer([calls(("click", {"x": 500, "y": 500})), text("Done.")]) as server:
    planner = GeminiComputerUse(base_url=server.url, api_key=server.api_key)
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

from support.json_server import JsonObject, Posted, Refusal, Reply as Reply, Service

API_KEY = "AIza-the-test-key"


def text(words: str) -> Reply:
    return candidate([{"text": words}])


def calls(
    *named: tuple[str, JsonObject],
    words: str = "",
    thought: str = "",
    signed: bool = True,
) -> Reply:
    """Return function calls of one turn, in order; the first carries the turn's thought
    signature, as in Gemini 3.
    """
    parts: list[dict[str, Any]] = []
    if thought:
        parts.append({"text": thought, "thought": True})
    if words:
        parts.append({"text": words})
    function_calls: list[dict[str, Any]] = [
        {"functionCall": {"name": name, "args": dict(args)}} for name, args in named
    ]
    if signed and function_calls:
        function_calls[0]["thoughtSignature"] = base64.b64encode(
            b"signed\xfb\xff" + repr(named).encode()
        ).decode()
    return candidate(parts + function_calls)


def wants_confirmation(args: JsonObject, explanation: str) -> JsonObject:
    """Return arguments of a call that the model wants confirmed."""
    return {
        **args,
        "safety_decision": {
            "decision": "require_confirmation",
            "explanation": explanation,
        },
    }


def candidate(
    parts: list[dict[str, Any]], finish_reason: str = "STOP", **more: Any
) -> Reply:
    answered = {
        "index": 0,
        "finishReason": finish_reason,
        "content": {"role": "model", "parts": parts},
    }
    return Reply(
        {
            "candidates": [answered],
            "usageMetadata": USAGE,
            "responseId": "response",
            **more,
        }
    )


USAGE = {
    "promptTokenCount": 1500,
    "cachedContentTokenCount": 300,
    "candidatesTokenCount": 40,
    "thoughtsTokenCount": 60,
    "totalTokenCount": 1600,
}


def empty() -> Reply:
    return Reply(
        {
            "candidates": [{"index": 0, "finishReason": "STOP", "content": {}}],
            "usageMetadata": USAGE,
        }
    )


def stopped(finish_reason: str) -> Reply:
    return Reply(
        {
            "candidates": [
                {"index": 0, "finishReason": finish_reason, "finishMessage": "so it is"}
            ]
        }
    )


def blocked_prompt(reason: str) -> Reply:
    return Reply(
        {
            "promptFeedback": {"blockReason": reason, "blockReasonMessage": "blocked"},
            "usageMetadata": USAGE,
        }
    )


def error(code: int, status: str, message: str, *details: JsonObject) -> Reply:
    return Reply(
        {
            "error": {
                "code": code,
                "message": message,
                "status": status,
                "details": list(details),
            }
        },
        code,
    )


def rate_limited(retry_in_s: float) -> Reply:
    return over_quota(
        "GenerateRequestsPerMinutePerProjectPerModel-FreeTier", retry_in_s
    )


def daily_quota() -> Reply:
    """Return a quota per day; Google sends a RetryInfo here too, which is of no use."""
    return over_quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier", 0.1)


def over_quota(quota_id: str, retry_in_s: float) -> Reply:
    failure = {
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"quotaId": quota_id}],
    }
    retry = {
        "@type": "type.googleapis.com/google.rpc.RetryInfo",
        "retryDelay": f"{retry_in_s}s",
    }
    return error(
        429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", failure, retry
    )


def overloaded() -> Reply:
    return error(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")


def not_json() -> Reply:
    return Reply(b'{"candidates": [{"ind', 200)


def hang(seconds: float = 60.0) -> Reply:
    return replace(text("too late"), hang_s=seconds)


COMPUTER_USE_ONLY = "gemini-2.5-computer-use-preview-10-2025"
WITHOUT_DESKTOP = {"gemini-3-flash-preview", COMPUTER_USE_ONLY}
WITHOUT_SAMPLING = {"gemini-3.8-flash", "gemini-3.7-flash", "gemini-3.6-flash"}
MODELS = {
    "gemini-3.5-flash",
    "gemini-3.5-flash-lite",
    *WITHOUT_DESKTOP,
    *WITHOUT_SAMPLING,
}
ENVIRONMENTS = ("ENVIRONMENT_DESKTOP", "ENVIRONMENT_BROWSER", "ENVIRONMENT_MOBILE")
FIELDS = {
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "generationConfig",
    "safetySettings",
    "cachedContent",
}
TOOL_FIELDS = {
    "environment",
    "excludedPredefinedFunctions",
    "enablePromptInjectionDetection",
    "disabledSafetyPolicies",
}


@dataclass(frozen=True)
class Request:
    """One generateContent request, with keys in camelCase."""

    version: str
    model: str
    key: str
    body: JsonObject

    @property
    def contents(self) -> Sequence[JsonObject]:
        return tuple(self.body.get("contents", ()))

    @property
    def computer_use(self) -> JsonObject | None:
        return next(
            (
                tool["computerUse"]
                for tool in self.body.get("tools", ())
                if "computerUse" in tool
            ),
            None,
        )

    @property
    def images(self) -> tuple[bytes, ...]:
        return tuple(from_base64(blob["data"]) for blob in _blobs(self.contents))

    @property
    def function_responses(self) -> tuple[JsonObject, ...]:
        named = (_named(content, "functionResponse") for content in self.contents)
        return tuple(chain.from_iterable(named))


def fields(request: Request) -> Iterator[str]:
    for name in sorted(set(request.body) - FIELDS):
        yield (
            f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'
        )
    for name in sorted(set(request.computer_use or ()) - TOOL_FIELDS):
        yield (
            f'Invalid JSON payload received. Unknown name "{name}" at'
            " 'tools[0].computer_use': Cannot find field."
        )
    for name in ("temperature", "topP", "topK", "candidateCount"):
        if (
            name in request.body.get("generationConfig", {})
            and request.model in WITHOUT_SAMPLING
        ):
            yield f"{name} is not supported by this model."


def tool(request: Request) -> Iterator[str]:
    if request.model == COMPUTER_USE_ONLY and request.computer_use is None:
        yield "This model requires the use of the Computer Use tool."
    asked = request.computer_use or {}
    environment = asked.get("environment", "ENVIRONMENT_BROWSER")
    if environment not in ENVIRONMENTS:
        yield f"Invalid value at 'tools[0].computer_use.environment', \"{environment}\""
    if request.model in WITHOUT_DESKTOP and environment == "ENVIRONMENT_DESKTOP":
        yield f"(ours) {request.model} does not support ENVIRONMENT_DESKTOP."


def last_content(request: Request) -> Iterator[str]:
    if not request.contents:
        yield "contents is not specified"
        return
    last = request.contents[-1]
    if last.get("role") == "model":
        yield "Please ensure that the last content of the request is of the role user."
    if not last.get("parts") or any(part.get("text") == "" for part in last["parts"]):
        yield "The text of the last user content must not be empty."


def pairing(request: Request) -> Iterator[str]:
    browser = "ENVIRONMENT_BROWSER"
    needs_url = (
        request.computer_use is not None
        and request.computer_use.get("environment", browser) == browser
    )
    for number, (before, after) in enumerate(
        pairwise([{"parts": []}, *request.contents])
    ):
        called = _named(before, "functionCall")
        responses = _named(after, "functionResponse")
        if responses and not called:
            yield (
                "Please ensure that function response turn comes immediately after a"
                " function call turn."
            )
        if len(called) != len(responses):
            yield (
                "Please ensure that the number of function response parts is equal to"
                " the number of function call parts of the function call turn."
            )
        for call, response in zip(called, responses, strict=False):
            yield from answer(
                call, response, f"contents[{number}].parts.function_response"
            )
            if needs_url and "url" not in response["response"]:
                yield f"(ours) The response to {call['name']} must have a url."


def answer(call: JsonObject, response: JsonObject, where: str) -> Iterator[str]:
    if not response.get("name"):
        yield f"* GenerateContentRequest.{where}.name: Name cannot be empty."
    elif response["name"] != call["name"]:
        yield (
            f"{where}.name: {response['name']} is not the name of the function call,"
            f" {call['name']}."
        )
    if response.get("id") != call.get("id"):
        yield (
            f"{where}.id: {response.get('id')} is not the id of the function call,"
            f" {call.get('id')}."
        )
    decision = call.get("args", {}).get("safety_decision", {})
    decision = decision.get("decision") if isinstance(decision, dict) else decision
    acknowledged = (
        str(response["response"].get("safety_acknowledgement", "")).lower() == "true"
    )
    if decision == "require_confirmation" and not acknowledged:
        name = call["name"]
        yield (
            f"The safety decision from function call {name} must be acknowledged in the"
            " corresponding response."
        )


def _has_text(content: JsonObject) -> bool:
    return any("text" in part for part in content["parts"])


def signatures(request: Request) -> Iterator[str]:
    """Yield the steps since the user's last own words whose first call is not signed,
    as Gemini 3 asks.
    """
    if request.model == COMPUTER_USE_ONLY:
        return
    last_words = 0
    for number, content in enumerate(request.contents):
        if content.get("role") == "user" and _has_text(content):
            last_words = number
    for number, content in list(enumerate(request.contents))[last_words:]:
        first = next(
            (part for part in content["parts"] if "functionCall" in part), None
        )
        if first is not None and not first.get("thoughtSignature"):
            name = first["functionCall"]["name"]
            yield (
                f"Function call `{name}` in the {number + 1}. content block is missing"
                " a `thought_signature`."
            )


def images(request: Request) -> Iterator[str]:
    for blob in _blobs(request.contents):
        if blob["mimeType"] != "image/png" or not from_base64(blob["data"]).startswith(
            b"\x89PNG\r\n\x1a\n"
        ):
            yield "Computer Use requires image of mime_type image/png."


RULES: tuple[Callable[[Request], Iterator[str]], ...] = (
    fields,
    tool,
    last_content,
    pairing,
    signatures,
    images,
)


def changed_history(request: Request, answered: Sequence[JsonObject]) -> Iterator[str]:
    known = [*map(_canonical, answered)]
    for number, content in enumerate(request.contents):
        if content.get("role") == "model" and _canonical(content) not in known:
            yield (
                f"(ours) contents[{number}] is not what the model said: its parts or"
                " its signature were changed."
            )


def _named(content: JsonObject, field: str) -> list[Any]:
    return [part[field] for part in content.get("parts", ()) if field in part]


def _blobs(value: Any) -> Iterator[JsonObject]:
    for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if name == "inlineData":
            yield inner
        elif isinstance(inner, (dict, list)):
            yield from _blobs(inner)


def _canonical(content: JsonObject) -> str:
    """Return the meaning of a model content as text, whatever the base64 alphabet and
    the order of keys.
    """
    parts = []
    for part in content.get("parts", ()):
        call = part.get("functionCall", {})
        signature = from_base64(part.get("thoughtSignature", "")).hex()
        parts.append(
            [
                part.get("text"),
                call.get("id"),
                call.get("name"),
                call.get("args"),
                signature,
            ]
        )
    return json.dumps(parts, sort_keys=True)


def from_base64(data: str) -> bytes:
    """Return the bytes of either alphabet, padded or not."""
    return base64.urlsafe_b64decode(
        data.replace("+", "-").replace("/", "_") + "=" * (-len(data) % 4)
    )


@dataclass
class GeminiServer(Service):
    """`said` are contents as they were: a history is held against them. `methods` are
    what models can do.
    """

    api_key: str = API_KEY
    with_ids: bool = True
    methods: tuple[str, ...] = ("generateContent", "countTokens")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.answer_get = self._describe

    def _read(self, posted: Posted) -> Request:
        found = re.fullmatch(r".*/(v1\w*)/models/([^:/]+):generateContent", posted.path)
        version, model = found.groups() if found else ("", posted.path)
        return Request(
            version, model, posted.headers.get("x-goog-api-key", ""), posted.body
        )

    def _denial_of(self, _posted: Posted, request: Request) -> Refusal | None:
        return self._refusal_of_access(request.version, request.model, request.key)

    def _refusal_of_access(
        self, version: str, model: str, key: str | None
    ) -> Refusal | None:
        if key != self.api_key:
            return Refusal(
                "API key not valid. Please pass a valid API key.",
                code="API_KEY_INVALID",
            )
        if model not in MODELS or version != "v1beta":
            return Refusal(
                f"models/{model} is not found for API version {version}",
                404,
                "NOT_FOUND",
            )
        return None

    def _problems_of(self, request: Request) -> Iterator[str]:
        return chain(
            *(rule(request) for rule in RULES), changed_history(request, self.said)
        )

    def _error(self, refusal: Refusal) -> Reply:
        info = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": refusal.code,
            "domain": "googleapis.com",
        }
        kind = refusal.kind or "INVALID_ARGUMENT"
        return error(
            refusal.status, kind, refusal.message, *([info] if refusal.code else [])
        )

    def _describe(self, asked: Posted) -> Reply:
        """Return the service's description of the model in the path; it costs nothing,
        and uses up no reply.
        """
        _, version, _, model = asked.path.split("/")
        if refused := self._refusal_of_access(
            version, model, asked.headers.get("x-goog-api-key")
        ):
            return self._error(refused)
        return Reply(
            {
                "name": f"models/{model}",
                "version": "001",
                "supportedGenerationMethods": self.methods,
            }
        )

    def _kept(self, reply: Reply, request: Request) -> Reply:
        """Return the reply with an id on each call and the model's version, remembered
        for the next request's check.
        """
        if isinstance(reply.body, bytes) or "error" in reply.body:
            return reply
        body = json.loads(
            json.dumps({"modelVersion": f"{request.model}-001", **reply.body})
        )
        contents = [answer.get("content", {}) for answer in body.get("candidates", ())]
        # a malformed one is not sent back
        for content in filter(lambda content: isinstance(content, dict), contents):
            for number, call in enumerate(
                _named(content, "functionCall") if self.with_ids else ()
            ):
                call.setdefault("id", f"call-{len(self.said)}-{number}")
            self.said.append(content)
        return replace(reply, body=body)
