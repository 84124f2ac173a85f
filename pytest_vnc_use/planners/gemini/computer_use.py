"""A planner that asks Gemini Computer Use: contents out, function calls in.

Nothing is kept between turns: a request is rebuilt from the observation. It repeats the
model's contents as they came (`Decision.provider_details`), each followed by one
function response a call; the oldest turns are summarised in text. With the environment
`browser`, the model works as an agent in a browser does: it ends a run only by `done`.
"""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from pytest_vnc_use.errors import AnswerRefused, SettingsError
from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.functions import BROWSER_STATE, declare_all
from pytest_vnc_use.planners.common.http import (
    ApiKey,
    Attempt,
    Backoff,
    Failure,
    Service,
    ask,
    count_of,
    malformed,
    post_json,
    resolve_key,
    resolve_url,
)
from pytest_vnc_use.planners.common.judge import Grid, ServiceJudge
from pytest_vnc_use.planners.common.screens import halved
from pytest_vnc_use.planners.common.service_planner import ModelAnswer, ServicePlanner
from pytest_vnc_use.planners.common.toolset import (
    DONE,
    GIVE_UP,
    FunctionCall,
    check_at_least_one,
    check_excluded,
)
from pytest_vnc_use.planners.common.turns import KEPT_TURNS, removed_of, steps_of
from pytest_vnc_use.planners.gemini.calls import (
    PREDEFINED_FUNCTIONS,
    FunctionNames,
    can_detect_injection,
    filter_supported,
    offered_names,
    read_proposal,
    resolve_tool_format,
)
from pytest_vnc_use.types import (
    Decision,
    FrameRef,
    JsonObject,
    Observation,
    Proposal,
    Report,
    Step,
    TakeScreenshot,
    Turn,
    Usage,
    ignore_report,
)
from pytest_vnc_use.types.actions import EMPTY_PAGE

if TYPE_CHECKING:
    from google.genai import types

API_URL = "https://generativelanguage.googleapis.com"
API_VERSION = "v1beta"
"""The version with documented Computer Use."""
KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
URL_VARIABLE = "GOOGLE_GEMINI_BASE_URL"
SEARCH_PAGE = "https://www.google.com"
ENVIRONMENTS = ("desktop", "browser", "mobile")
SAFETY_POLICIES = (
    "FINANCIAL_TRANSACTIONS",
    "SENSITIVE_DATA_MODIFICATION",
    "COMMUNICATION_TOOL",
    "ACCOUNT_CREATION",
    "DATA_MODIFICATION",
    "USER_CONSENT_MANAGEMENT",
    "LEGAL_TERMS_AND_AGREEMENTS",
)
ALL_TURNS = 40
"""The turns that go back whole in the older tool format and in a browser: as many as a
run has by default.
"""
BLOCK_REASONS = frozenset(
    "SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII ESCALATION MODEL_ARMOR"
    " PUP_LIMITED_DISABLED IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION".split()
)
"""Finish reasons with which the service withholds an answer. With any other, a missing
answer is worth a retry.
"""

WHOLE = frozenset({"STOP", "FINISH_REASON_UNSPECIFIED", ""})
"""Finish reasons of an answer whose text was not cut off."""


class GeminiComputerUse(ServicePlanner[ModelAnswer[FunctionCall]]):
    """A planner that asks Gemini with its Computer Use tool.

    `excluded_actions` are names of predefined functions of either tool format, or of
    `functions`. `environment` is desktop, browser or mobile; a model that knows no
    desktop gets a browser. `detect_prompt_injection` enables the service's detection
    (default: where the model supports it). `functions` are Python callables with
    docstrings and type hints; the model may call them by name, and the agent performs
    the call. `keep_screenshots` is 3 by default; the older tool format and a browser
    get all of the newest turns. `search_page` is what `search` opens; with
    `has_devtools` the function `open_web_browser` empties the browser's window, once.
    `base_url` and `api_key` default to GOOGLE_GEMINI_BASE_URL and GOOGLE_API_KEY.
    Raises SettingsError, and KeyMissing if no key is set.
    """

    provider = "gemini"

    def __init__(
        self,
        excluded_actions: Sequence[str] | None = None,
        *,
        model: str = "gemini-3.8-flash",
        environment: str = "desktop",
        api_key: ApiKey = None,
        base_url: str | None = None,
        functions: Sequence[Callable[..., object]] = (),
        include_thoughts: bool = False,
        detect_prompt_injection: bool | None = None,
        disabled_safety_policies: Sequence[str] = (),
        include_initial_screenshot: bool = True,
        keep_screenshots: int | None = None,
        search_page: str = "",
        has_devtools: bool = False,
        system_instruction: str | None = None,
        max_output_tokens: int = 8192,
        backoff: Backoff | None = None,
    ) -> None:
        asked = _member("environment", environment, ENVIRONMENTS)
        self._in_browser = asked == "browser"
        older, environment = resolve_tool_format(model, environment)
        if keep_screenshots is not None:
            check_at_least_one(keep_screenshots=keep_screenshots)
        self._keep = keep_screenshots or (None if older or self._in_browser else 3)
        self._shows_first = include_initial_screenshot
        detects = detect_prompt_injection
        if detects is None:
            detects = can_detect_injection(model)
        read = partial(read_answer, detects_injection=detects)
        super().__init__(gemini_service(model, api_key, base_url), read, backoff)
        declared = declare_all(
            functions, taken=(*PREDEFINED_FUNCTIONS, DONE.name, GIVE_UP.name)
        )
        functions_of_user = [declaration.name for declaration in declared]
        if self._in_browser and BROWSER_STATE.name not in functions_of_user:
            declared = (*declared, BROWSER_STATE)
        choices = (*PREDEFINED_FUNCTIONS, *(function.name for function in declared))
        excluded = check_excluded(excluded_actions or (), choices)
        declarations = [
            declaration for declaration in declared if declaration.name not in excluded
        ]
        names = [declaration.name for declaration in declarations]
        self._names = FunctionNames(
            functions=frozenset(functions_of_user) - excluded,
            excluded=excluded,
            offered=(*offered_names(environment, excluded, older=older), *names),
            search_page=search_page or (SEARCH_PAGE if self._in_browser else ""),
            opens_browser=has_devtools and self._in_browser,
        )
        computer: dict[str, Any] = {"environment": f"ENVIRONMENT_{environment.upper()}"}
        if left_out := filter_supported(sorted(excluded), environment, older=older):
            computer["excludedPredefinedFunctions"] = left_out
        if detects:  # Older services reject unknown fields.
            computer["enablePromptInjectionDetection"] = True
        if disabled_safety_policies:
            policies = [
                _member("SafetyPolicy", name, SAFETY_POLICIES)
                for name in disabled_safety_policies
            ]
            computer["disabledSafetyPolicies"] = policies
        declared_as = [
            {
                "name": tool.name,
                "description": tool.description,
                "parametersJsonSchema": dict(tool.parameters),
            }
            for tool in (DONE, GIVE_UP, *declarations)
        ]
        generation: dict[str, Any] = {"maxOutputTokens": max_output_tokens}
        if include_thoughts:
            generation["thinkingConfig"] = {"includeThoughts": True}
        if system_instruction is None:
            system_instruction = prompts.OPERATOR
            if self._in_browser:
                system_instruction = prompts.BROWSER_OPERATOR
        self._fixed: JsonObject = {
            "systemInstruction": _user(system_instruction),
            "tools": [{"computerUse": computer}, {"functionDeclarations": declared_as}],
            "generationConfig": generation,
        }

    def _body(self, observation: Observation) -> JsonObject:
        if self._in_browser:
            load_png = observation.load_png
            observation = replace(
                observation, load_png=lambda screen: halved(load_png(screen))
            )
        return {"contents": self._rebuild_contents(observation), **self._fixed}

    def _decision(
        self, answer: ModelAnswer[FunctionCall], observation: Observation
    ) -> Decision:
        details = {"content": dict(answer.items[0])}
        decided = partial(
            Decision, model=answer.model, usage=answer.usage, provider_details=details
        )
        text = answer.text or answer.reasoning
        if self._in_browser and not answer.calls:
            return decided("act", text, (Proposal(TakeScreenshot()),))
        # Giving up ends the run despite other calls, `done` only without them.
        for call in answer.calls:
            if call.name == GIVE_UP.name:
                return decided("gave_up", str(call.args.get("reason") or answer.text))
        if [call.name for call in answer.calls] in ([], [DONE.name]):
            message = answer.calls[0].args.get("message") if answer.calls else ""
            return decided("finished", str(message or answer.text))
        opened = any(
            step.proposal.as_proposed.get("name") == "open_web_browser"
            and not prompts.problem_of(step)
            for step in steps_of(observation.turns)
        )
        proposals: list[Proposal] = []
        for call in answer.calls:
            names = replace(
                self._names, opens_browser=self._names.opens_browser and not opened
            )
            proposals.append(read_proposal(call, observation.frame, names))
            opened = opened or call.name == "open_web_browser"
        return decided("act", text, tuple(proposals))

    def _rebuild_contents(self, observation: Observation) -> list[JsonObject]:
        """Return the conversation so far. The newest turns have images, one a step,
        `keep_screenshots` or more.
        """
        turns = [*_with_urls([turn for turn in observation.turns if turn.steps])]
        omitted = removed_of(len(turns), ALL_TURNS)
        if self._keep:
            omitted = removed_of(len(turns) - self._keep, KEPT_TURNS)
        steps = steps_of(turns)
        # the screen of the next request
        seen = [*(step.frame_before for step in steps[1:]), observation.frame]
        keep = self._keep or len(steps) + 1
        with_images = _newest_with_images(turns, keep)
        frame_after = {
            step.number: frame
            for step, frame in zip(steps, seen, strict=False)
            if step.number in with_images
        }

        def png_after(step: Step) -> bytes | None:
            frame = frame_after.get(step.number)
            return None if frame is None else observation.load_png(frame)

        first = observation.first_frame if steps else observation.frame
        with_first = self._shows_first and len(steps) < keep
        task = prompts.format_task(observation.task, turns[:omitted])
        contents = [_user(task, observation.load_png(first) if with_first else None)]
        for turn in turns[omitted:]:
            contents.extend(self._contents_of(turn, png_after))
        return contents

    def _contents_of(
        self, turn: Turn, png_after: Callable[[Step], bytes | None]
    ) -> Iterator[JsonObject]:
        """Yield the model's content and the responses; if the service would reject
        them, a summary.
        """
        content = turn.decision.provider_details.get("content") or {}
        calls = extract_function_calls(content)
        newest = png_after(turn.steps[-1])
        if content and not calls:
            yield {**content, "role": "model"}
            yield _user(prompts.CALLS_ONLY, newest)
            return
        # The service rejects a history without the acknowledgement of a confirmation.
        is_denied = any(
            step.proposal.confirmation is not None and step.ruling.kind != "allow"
            for step in turn.steps
        )
        if len(calls) != len(turn.steps) or is_denied:
            yield _user(prompts.format_turn(turn), newest)
            return
        yield {**content, "role": "model"}
        responses = [
            self._response(call, step, png_after(step))
            for call, step in zip(calls, turn.steps, strict=True)
        ]
        yield {
            "role": "user",
            "parts": [{"functionResponse": response} for response in responses],
        }

    def _response(
        self, call: FunctionCall, step: Step, png: bytes | None
    ) -> JsonObject:
        """Return the one response to a call: its result, the browser's URL, and the
        screen after it if it is sent.
        """
        opens = self._in_browser and call.name == "open_web_browser"
        kind = "error" if prompts.problem_of(step) else "output"
        result = {kind: prompts.format_result(step)}
        if opens and kind == "output" and not self._names.opens_browser:
            needs = prompts.NO_DEVTOOLS.format(name=call.name)
            result[kind] = f"{needs}; {result[kind]}"
        result["url"] = EMPTY_PAGE if opens else step.url
        if step.proposal.confirmation is not None and step.ruling.kind == "allow":
            result["safety_acknowledgement"] = "true"
        return _function_response(call.name, result, png, call.id)

    # The steps of a turn, for code with a custom loop. google.genai takes half a second
    # to load.

    def start_contents(
        self, task: str, maybe_initial_png: bytes | None = None
    ) -> list[types.Content]:
        """Return the contents of the first request: the task, and the screen if there
        is one.
        """
        from google.genai import types

        return [
            types.Content.model_validate_json(
                json.dumps(_user(task, maybe_initial_png))
            )
        ]

    def generate(
        self,
        contents: Sequence[types.Content | JsonObject],
        config: types.GenerateContentConfig | None = None,
        *,
        timeout_s: float = 120.0,
        report: Report = ignore_report,
    ) -> types.GenerateContentResponse:
        """Return the model's response. `config` replaces the planner's. Raises
        PlannerError.

        Append `response.candidates[0].content` to the contents.
        """
        fixed = self._fixed if config is None else _fields_of(config)
        body = {
            "contents": _with_ids([_as_json(content) for content in contents]),
            **fixed,
        }

        def read(answered: JsonObject) -> JsonObject | Failure:
            answer = self._read(answered)
            return answer if isinstance(answer, Failure) else answered

        answered = ask(
            self._service,
            body,
            purpose="planner",
            read=read,
            timeout_s=timeout_s,
            report=report,
            backoff=self._backoff,
        )
        return _response_of_sdk(answered)

    def extract_function_calls(
        self, response: types.GenerateContentResponse | JsonObject
    ) -> list[dict[str, Any]]:
        """Return the function calls of a response as `{"name", "args"}`, with the
        service's `id` if it gave one.
        """
        body = _as_json(response)
        candidates = body.get("candidates") or [{"content": body}]
        calls = extract_function_calls(candidates[0].get("content") or {})
        found = []
        for call in calls:
            fields = {"name": call.name, "args": dict(call.args)}
            if call.id:
                fields["id"] = call.id
            found.append(fields)
        return found

    def build_function_response(
        self,
        name: str,
        screenshot_png: bytes | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> types.FunctionResponse:
        """Return the response to a call, with the screen after it as PNG.

        Its `response` is `{"url": ""}` with the values of `extra`, such as `url`,
        `error`, or `safety_acknowledgement`. The responses to all calls of an answer go
        into one content of the user, in the order of the calls: `generate` gives each
        the id of its call, if the service gave one.
        """
        from google.genai import types

        if extra is not None and not isinstance(extra, Mapping):
            raise SettingsError(
                f"extra must be a mapping such as {{'url': …}}, got {extra!r:.100}"
            )
        response = _function_response(
            name, {"url": "", **(extra or {})}, screenshot_png
        )
        return types.FunctionResponse.model_validate_json(json.dumps(response))


class GeminiJudge(ServiceJudge):
    """A judge that asks Gemini, without the Computer Use tool. Its answer is JSON that
    is bound to a schema.

    Raises KeyMissing if no key is set.
    """

    def __init__(
        self,
        *,
        model: str = "gemini-3.8-flash",
        api_key: ApiKey = None,
        base_url: str | None = None,
        max_output_tokens: int = 4096,
        backoff: Backoff | None = None,
    ) -> None:
        super().__init__(
            gemini_service(model, api_key, base_url), read_answer, backoff=backoff
        )
        self._generation: JsonObject = {"maxOutputTokens": max_output_tokens}

    def _grid(self, screen: FrameRef) -> Grid:
        return Grid(1000, 1000, rows_first=True)

    def _body(self, rules: str, observation: Observation) -> JsonObject:
        question = _user(observation.task, observation.load_png(observation.frame))
        return {
            "contents": [question],
            "systemInstruction": _user(rules),
            "generationConfig": self._generation,
        }

    def _binding(self, name: str, schema: JsonObject) -> JsonObject:
        ordered = {**schema, "propertyOrdering": schema["required"]}
        bound = {"responseMimeType": "application/json", "responseJsonSchema": ordered}
        return {"generationConfig": {**self._generation, **bound}}


def read_answer(
    body: JsonObject, *, detects_injection: bool = False
) -> ModelAnswer[FunctionCall] | Failure:
    """Return the first candidate of a generateContent response, or why it cannot be
    used.

    Its only item is the model's `content` as it came. With `detects_injection`, a last
    answer without content counts as withheld, because the service does not document how
    it reports an injection.
    """
    try:
        blocked = (body.get("promptFeedback") or {}).get("blockReason")
        candidate = (body.get("candidates") or [{}])[0]
        reason = str(candidate.get("finishReason") or "")
        content = candidate.get("content") or {}
        parts = content.get("parts") or ()
        why = str(blocked or reason or "no candidate")
        if blocked or reason in BLOCK_REASONS:
            what = "prompt" if blocked else "answer"
            return Failure(
                AnswerRefused(f"the model's service blocked the {what}: {why}")
            )
        if detects_injection and (reason == "OTHER" or (reason in WHOLE and not parts)):
            error = AnswerRefused(
                "the model's service withheld its answer, as on a prompt injection:"
                f" {why}"
            )
            # Services sometimes return nothing, without a reason.
            return Failure(error, again=reason != "OTHER")
        answer = ModelAnswer(
            items=(content,),
            text=_join(parts, is_reasoning=False),
            reasoning=_join(parts, is_reasoning=True),
            calls=extract_function_calls(content),
            usage=usage_of(body),
            model=str(body.get("modelVersion") or ""),
        )
    except (AttributeError, LookupError, TypeError, ValueError):
        return malformed(f"got {body!r}")
    return (
        answer if reason in WHOLE and (answer.calls or answer.text) else malformed(why)
    )


def extract_function_calls(content: JsonObject) -> tuple[FunctionCall, ...]:
    """Return the function calls of a model's content (JSON as it came), in order.
    Raises the errors of other JSON.
    """
    calls = [
        part["functionCall"]
        for part in content.get("parts") or ()
        if "functionCall" in part
    ]
    return tuple(
        FunctionCall(
            call["name"].strip(),
            dict(call.get("args") or {}),
            str(call.get("id") or ""),
        )
        for call in calls
    )


def _join(parts: Sequence[JsonObject], *, is_reasoning: bool) -> str:
    return "".join(
        part.get("text") or ""
        for part in parts
        if bool(part.get("thought")) is is_reasoning
    ).strip()


def usage_of(body: JsonObject) -> Usage:
    """Return the tokens of a response."""
    counts = body.get("usageMetadata")
    return Usage(
        input=count_of(counts, "promptTokenCount"),
        cached=count_of(counts, "cachedContentTokenCount"),
        output=count_of(counts, "candidatesTokenCount"),
        thinking=count_of(counts, "thoughtsTokenCount"),
    )


def _with_urls(turns: Sequence[Turn]) -> Iterator[Turn]:
    """Yield the turns; a step without a URL gets the URL of the step before."""
    url = ""
    for turn in turns:
        steps = []
        for step in turn.steps:
            url = step.url or url
            steps.append(replace(step, url=url))
        yield replace(turn, steps=tuple(steps))


def _newest_with_images(turns: Sequence[Turn], keep: int) -> set[int]:
    """Return the numbers of the steps whose images are sent: those of the newest whole
    turns, at least `keep`.
    """
    numbers: set[int] = set()
    for turn in reversed(turns):
        if len(numbers) >= keep:
            break
        numbers.update(step.number for step in turn.steps)
    return numbers


def gemini_service(
    model: str, api_key: ApiKey = None, base_url: str | None = None
) -> Service:
    """Return the service of a model. Raises KeyMissing, KeyRejected, SettingsError."""
    key = resolve_key(api_key, KEY_VARIABLES)
    base = resolve_url(base_url, URL_VARIABLE) or API_URL
    path = model if "/" in model else f"models/{model}"
    url = f"{base.rstrip('/')}/{API_VERSION}/{path}:generateContent"
    return Service(
        url,
        model,
        key,
        {"x-goog-api-key": key},
        usage_of,
        api_key,
        answer_fields=("candidates", "promptFeedback", "usageMetadata"),
        url_help=(
            f"{URL_VARIABLE} must be the URL that has /{API_VERSION} below it, such as"
            f" {API_URL}"
        ),
    )


def describe_model(model: str, *, timeout_s: float) -> JsonObject:
    """Return the service's description of a model, to check the key and the model's
    name. One request, free of charge.

    Raises PlannerError, such as KeyRejected; SettingsError if there is no such model.
    """
    service = gemini_service(model)
    service = replace(
        service,
        url=service.url.removesuffix(":generateContent"),
        answer_fields=("name",),
    )
    attempt: Attempt[JsonObject] = post_json(
        service, None, timeout_s=timeout_s, read=lambda body: body
    )
    if isinstance(attempt.result, Failure):
        raise attempt.result.error from None
    return attempt.result


def _user(text: str, png: bytes | None = None) -> JsonObject:
    parts: list[JsonObject] = [{"text": text}]
    if png is not None:
        parts.append(_image(png))
    return {"role": "user", "parts": parts}


def _image(png: bytes) -> JsonObject:
    return {
        "inlineData": {"mimeType": "image/png", "data": base64.b64encode(png).decode()}
    }


def _function_response(
    name: str, response: JsonObject, png: bytes | None, call_id: str = ""
) -> JsonObject:
    fields: dict[str, Any] = {"name": name, "response": dict(response)}
    if call_id:
        fields["id"] = call_id
    if png is not None:
        fields["parts"] = [_image(png)]
    return fields


def _member(kind: str, name: str, members: Sequence[str]) -> str:
    """Return a member by its name in either case. Raises SettingsError."""
    value = next((member for member in members if member.lower() == name.lower()), None)
    if value is None:
        raise SettingsError(
            f"{kind} must be one of {sorted(map(str.lower, members))}, got {name!r}"
        )
    return value


def _as_json(value: Any) -> JsonObject:
    """Return a value of the SDK as JSON, and JSON unchanged."""
    if isinstance(value, Mapping):
        return value
    dumped: JsonObject = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {
        name: inner
        for name, inner in dumped.items()
        if name not in ("sdkHttpResponse", "parsed")
    }


def _with_ids(contents: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the contents; each function response without an id gets the id of its
    call, by their order.
    """
    done: list[JsonObject] = []
    ids: list[str] = []
    for content in contents:
        parts = [dict(part) for part in content.get("parts") or ()]
        responses = [part for part in parts if "functionResponse" in part]
        for part, call_id in zip(responses, ids, strict=False):
            if call_id and not part["functionResponse"].get("id"):
                part["functionResponse"] = {**part["functionResponse"], "id": call_id}
        ids = [
            str(part["functionCall"].get("id") or "")
            for part in parts
            if "functionCall" in part
        ]
        done.append({**content, "parts": parts})
    return done


_TOP_FIELDS = (
    "tools",
    "toolConfig",
    "safetySettings",
    "systemInstruction",
    "cachedContent",
    "labels",
    "serviceTier",
)
_SDK_ONLY = ("httpOptions", "shouldReturnHttpResponse", "automaticFunctionCalling")


def _fields_of(config: types.GenerateContentConfig) -> JsonObject:
    """Return the fields of a request that the SDK's configuration stands for."""
    dumped = _as_json(config)
    fields = {name: value for name, value in dumped.items() if name in _TOP_FIELDS}
    if isinstance(fields.get("systemInstruction"), str):
        fields["systemInstruction"] = _user(fields["systemInstruction"])
    others = {
        name: value
        for name, value in dumped.items()
        if name not in (*_TOP_FIELDS, *_SDK_ONLY)
    }
    return {**fields, "generationConfig": others}


def _response_of_sdk(body: JsonObject) -> types.GenerateContentResponse:
    """Return the response as the SDK's type, without fields that the installed version
    does not know.
    """
    from google.genai import types

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the SDK warns about values newer than itself
        try:
            return types.GenerateContentResponse.model_validate_json(json.dumps(body))
        except ValidationError as exc:
            unknown = [
                error["loc"]
                for error in exc.errors()
                if error["type"] == "extra_forbidden"
            ]
            if not unknown:
                raise
    left = json.loads(json.dumps(body))
    for *above, name in unknown:
        inner = left
        for key in above:
            inner = inner[key]
        inner.pop(name, None)
    return _response_of_sdk(left)
