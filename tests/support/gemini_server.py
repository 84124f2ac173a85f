"""A fake server (`json_server.Service`) for Gemini's generateContent:

with GeminiServer([calls(("click", {"x": 500, "y": 500})), text("Done.")]) as server:
    planner = GeminiComputerUse(base_url=server.url, api_key=server.api_key)
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from support.json_server import JsonObject, Posted, Reply as Reply, Service

API_KEY = "AIza-the-test-key"
COMPUTER_USE_ONLY = "gemini-2.5-computer-use-preview-10-2025"
WITHOUT_DESKTOP = {"gemini-3-flash-preview", COMPUTER_USE_ONLY}
WITHOUT_SAMPLING = {"gemini-3.8-flash", "gemini-3.7-flash", "gemini-3.6-flash"}
OTHERS = {"gemini-3.5-flash", "gemini-3.5-flash-lite"}
MODELS = OTHERS | WITHOUT_DESKTOP | WITHOUT_SAMPLING
DESKTOP, BROWSER, MOBILE = (
    f"ENVIRONMENT_{name}" for name in ("DESKTOP", "BROWSER", "MOBILE")
)
FIELDS = frozenset(
    "contents systemInstruction tools toolConfig generationConfig safetySettings"
    " cachedContent".split()
)
TOOL_FIELDS = frozenset(
    "environment excludedPredefinedFunctions enablePromptInjectionDetection"
    " disabledSafetyPolicies".split()
)
SAMPLING = ("temperature", "topP", "topK", "candidateCount")
USAGE = {
    "promptTokenCount": 1500,
    "cachedContentTokenCount": 300,
    "candidatesTokenCount": 40,
    "thoughtsTokenCount": 60,
    "totalTokenCount": 1600,
}


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
    signature = {}
    if signed:
        content = b"signed\xfb\xff" + repr(named).encode()
        signature = {"thoughtSignature": base64.b64encode(content).decode()}
    for name, args in named:
        parts.append({"functionCall": {"name": name, "args": dict(args)}, **signature})
        signature = {}
    return candidate(parts)


def wants_confirmation(args: JsonObject, explanation: str) -> JsonObject:
    """Return arguments of a call that the model wants confirmed."""
    decision = {"decision": "require_confirmation", "explanation": explanation}
    return {**args, "safety_decision": decision}


def candidate(parts: list[dict[str, Any]], finish_reason: str = "STOP") -> Reply:
    content = {"role": "model", "parts": parts}
    return _answered({"finishReason": finish_reason, "content": content})


def empty() -> Reply:
    return _answered({"finishReason": "STOP", "content": {}})


def stopped(finish_reason: str) -> Reply:
    return _answered({"finishReason": finish_reason, "finishMessage": "so it is"})


def _answered(answer: JsonObject) -> Reply:
    return Reply({"candidates": [{"index": 0, **answer}], "usageMetadata": USAGE})


def blocked_prompt(reason: str) -> Reply:
    feedback = {"blockReason": reason, "blockReasonMessage": "blocked"}
    return Reply({"promptFeedback": feedback, "usageMetadata": USAGE})


def error(code: int, status: str, message: str, *details: JsonObject) -> Reply:
    error = {"code": code, "message": message, "status": status}
    return Reply({"error": {**error, "details": list(details)}}, code)


def rate_limited(retry_in_s: float, per: str = "Minute") -> Reply:
    """Return a quota that is used up. For one per day Google sends a RetryInfo too,
    which is of no use.
    """
    quota = f"GenerateRequestsPer{per}PerProjectPerModel-FreeTier"
    failure = {
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"quotaId": quota}],
    }
    retry = {
        "@type": "type.googleapis.com/google.rpc.RetryInfo",
        "retryDelay": f"{retry_in_s}s",
    }
    exceeded = "You exceeded your current quota."
    return error(429, "RESOURCE_EXHAUSTED", exceeded, failure, retry)


def daily_quota() -> Reply:
    return rate_limited(0.1, per="Day")


def overloaded() -> Reply:
    return error(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")


def not_json() -> Reply:
    return Reply(b'{"candidates": [{"ind', 200)


def hang(seconds: float = 60.0) -> Reply:
    return replace(text("too late"), hang_s=seconds)


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
        for tool in self.body.get("tools", ()):
            if "computerUse" in tool:
                return dict(tool["computerUse"])
        return None

    @property
    def images(self) -> tuple[bytes, ...]:
        return tuple(_from_base64(blob["data"]) for blob in _blobs(self.contents))

    @property
    def function_responses(self) -> tuple[JsonObject, ...]:
        named = (_named(content, "functionResponse") for content in self.contents)
        return tuple(chain.from_iterable(named))


def _fields(request: Request) -> Iterator[str]:
    unknown = 'Invalid JSON payload received. Unknown name "{}"{}: Cannot find field.'
    for name in sorted(set(request.body) - FIELDS):
        yield unknown.format(name, "")
    for name in sorted(set(request.computer_use or ()) - TOOL_FIELDS):
        yield unknown.format(name, " at 'tools[0].computer_use'")
    if request.model in WITHOUT_SAMPLING:
        for name in request.body.get("generationConfig", {}):
            if name in SAMPLING:
                yield f"{name} is not supported by this model."


def _tool(request: Request) -> Iterator[str]:
    if request.model == COMPUTER_USE_ONLY and request.computer_use is None:
        yield "This model requires the use of the Computer Use tool."
    environment = (request.computer_use or {}).get("environment", BROWSER)
    if environment not in (DESKTOP, BROWSER, MOBILE):
        yield f"Invalid value at 'tools[0].computer_use.environment', \"{environment}\""
    if request.model in WITHOUT_DESKTOP and environment == DESKTOP:
        yield f"(ours) {request.model} does not support {DESKTOP}."


def _last_content(request: Request) -> Iterator[str]:
    if not request.contents:
        yield "contents is not specified"
        return
    last = request.contents[-1]
    if last.get("role") == "model":
        yield "Please ensure that the last content of the request is of the role user."
    if not last.get("parts") or any(part.get("text") == "" for part in last["parts"]):
        yield "The text of the last user content must not be empty."


def _pairing(request: Request) -> Iterator[str]:
    tool = request.computer_use
    needs_url = tool is not None and tool.get("environment", BROWSER) == BROWSER
    before: JsonObject = {}
    for number, content in enumerate(request.contents):
        called = _named(before, "functionCall")
        responses = _named(content, "functionResponse")
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
            for problem in _problems_of_response(call, response):
                yield f"contents[{number}].parts.function_response: {problem}"
            if needs_url and "url" not in response["response"]:
                yield f"(ours) The response to {call['name']} must have a url."
        before = content


def _problems_of_response(call: JsonObject, response: JsonObject) -> Iterator[str]:
    for name in ("name", "id"):
        if response.get(name) != call.get(name):
            yield (
                f"The {name} {response.get(name)!r} is not that of the function call,"
                f" {call.get(name)!r}."
            )
    decision = call.get("args", {}).get("safety_decision", {})
    if isinstance(decision, dict):
        decision = decision.get("decision")
    acknowledged = str(response["response"].get("safety_acknowledgement", ""))
    if decision == "require_confirmation" and acknowledged.lower() != "true":
        yield (
            f"The safety decision from function call {call['name']} must be"
            " acknowledged in the corresponding response."
        )


def _signatures(request: Request) -> Iterator[str]:
    """Yield the steps since the user's last own words whose first call is not signed,
    as Gemini 3 asks.
    """
    if request.model == COMPUTER_USE_ONLY:
        return
    problems: list[str] = []
    for number, content in enumerate(request.contents, 1):
        has_text = any("text" in part for part in content["parts"])
        if content.get("role") == "user" and has_text:
            problems.clear()
        calls = [part for part in content["parts"] if "functionCall" in part]
        if calls and not calls[0].get("thoughtSignature"):
            problems.append(
                f"Function call `{calls[0]['functionCall']['name']}` in the {number}."
                " content block is missing a `thought_signature`."
            )
    yield from problems


def _images(request: Request) -> Iterator[str]:
    for blob in _blobs(request.contents):
        is_png = _from_base64(blob["data"]).startswith(b"\x89PNG\r\n\x1a\n")
        if blob["mimeType"] != "image/png" or not is_png:
            yield "Computer Use requires image of mime_type image/png."


def _changed_history(request: Request, answered: Sequence[JsonObject]) -> Iterator[str]:
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
        signature = _from_base64(part.get("thoughtSignature", "")).hex()
        meaning = [part.get("text"), call.get("id"), call.get("name"), call.get("args")]
        parts.append([*meaning, signature])
    return json.dumps(parts, sort_keys=True)


def _from_base64(data: str) -> bytes:
    """Return the bytes of either alphabet, padded or not."""
    standard = data.replace("+", "-").replace("/", "_")
    return base64.urlsafe_b64decode(standard + "=" * (-len(data) % 4))


@dataclass
class GeminiServer(Service):
    """`said` are contents as they were: a history is held against them."""

    api_key: str = API_KEY
    with_ids: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.answer_get = self._describe

    def _read(self, posted: Posted) -> Request:
        found = re.fullmatch(r".*/(v1\w*)/models/([^:/]+):generateContent", posted.path)
        version, model = found.groups() if found else ("", posted.path)
        key = posted.headers.get("x-goog-api-key", "")
        return Request(version, model, key, posted.body)

    def _denial_of(self, _posted: Posted, request: Request) -> Reply | None:
        if request.key != self.api_key:
            info = {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "API_KEY_INVALID",
                "domain": "googleapis.com",
            }
            message = "API key not valid. Please pass a valid API key."
            return error(400, "INVALID_ARGUMENT", message, info)
        if request.model not in MODELS or request.version != "v1beta":
            return error(
                404,
                "NOT_FOUND",
                f"models/{request.model} is not found for API version"
                f" {request.version}",
            )
        return None

    def _problems_of(self, request: Request) -> Iterator[str]:
        yield from _fields(request)
        yield from _tool(request)
        yield from _last_content(request)
        yield from _pairing(request)
        yield from _signatures(request)
        yield from _images(request)
        yield from _changed_history(request, self.said)

    def _error(self, message: str) -> Reply:
        return error(400, "INVALID_ARGUMENT", message)

    def _describe(self, asked: Posted) -> Reply:
        """Return the service's description of the model in the path; it costs nothing,
        and uses up no reply.
        """
        _, version, _, model = asked.path.split("/")
        key = asked.headers.get("x-goog-api-key", "")
        if denial := self._denial_of(asked, Request(version, model, key, {})):
            return denial
        methods = ["generateContent", "countTokens"]
        return Reply({"name": f"models/{model}", "supportedGenerationMethods": methods})

    def _keep(self, body: dict[str, Any], request: Request) -> None:
        """Put an id on each call, and the model's version."""
        if "error" in body:
            return
        body.setdefault("modelVersion", f"{request.model}-001")
        for answer in body.get("candidates", ()):
            content = answer.get("content", {})
            if not isinstance(content, dict):
                continue  # A malformed one is not sent back.
            if self.with_ids:
                for number, call in enumerate(_named(content, "functionCall")):
                    call.setdefault("id", f"call-{len(self.said)}-{number}")
            self.said.append(content)
