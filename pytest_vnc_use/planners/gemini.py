"""Gemini Computer Use as a planner: contents out, function calls in. The only module that knows Google's SDK.

Nothing is kept between turns. The contents of a request are rebuilt from the observation: the model's own words as they
came, from `Decision.provider_details`, each followed by one function response a call, with the newest screenshots.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from google import genai
from google.genai import errors, types
from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import ModelUnavailable, SettingsError
from pytest_vnc_use.planners import prompts
from pytest_vnc_use.planners.endpoint import Endpoint, found_key, found_url
from pytest_vnc_use.planners.functions import Declaration, declare_all
from pytest_vnc_use.planners.gemini_actions import (
    PREDEFINED_FUNCTIONS,
    TASK_FAILED,
    FunctionCall,
    denorm_x,
    denorm_y,
    read_proposal,
)
from pytest_vnc_use.planners.gemini_answers import (
    Answer,
    extract_function_calls,
    failure_of,
    failure_of_error,
    known_fields,
    presentable,
    read_answer,
)
from pytest_vnc_use.planners.retry import Attempt, Backoff, Failure, ask
from pytest_vnc_use.types import Decision, FrameRef, JsonObject, Observation, Report, Step, Turn

__all__ = [
    "Endpoint",
    "GeminiComputerUse",
    "build_function_response",
    "denorm_x",
    "denorm_y",
    "extract_function_calls",
    "generate",
    "start_contents",
]

Member = TypeVar("Member", bound=Enum)

API_VERSION = "v1beta"
"""Where Computer Use is documented; the SDK's own default has moved between its versions."""

BROWSER_ONLY = ("gemini-2.5-", "gemini-3-", "gemini-3.1-")
"""Beginnings of the names of models that know no desktop; they are told of a browser, and use the older dialect."""

CLEAN_UP_S = 1.0
"""How much longer the SDK may wait than we do: after this, a request that was given up has ended by itself."""

GIVE_UP = Declaration(
    TASK_FAILED,
    "Give up: the task cannot be done. Say what you saw on the screen that makes it impossible.",
    {"type": "object", "properties": {"reason": {"type": "string"}}, "required": ["reason"]},
)


# --- asking the service ----------------------------------------------------------------------------------------------


def generate(
    endpoint: Endpoint,
    model: str,
    contents: Sequence[types.Content],
    config: types.GenerateContentConfig,
    *,
    purpose: str,
    timeout_s: float,
    report: Report,
) -> Answer:
    """The first usable answer to the contents, asked for as often as `endpoint.backoff` allows. Raises PlannerError.

    Every attempt is bounded by the time that is left, also where an answer comes a byte at a time.
    """

    def send(attempt_s: float) -> Attempt[Answer]:
        sent: list[bytes] = []
        body, result = _asked(endpoint, model, contents, config, attempt_s, sent)
        request = presentable(json.loads(sent[-1]), key=endpoint.api_key) if sent else {"model": model}
        return Attempt(request, body and presentable(body, key=endpoint.api_key), result)

    return ask(send, timeout_s=timeout_s, purpose=purpose, report=report, backoff=endpoint.backoff)


def _asked(
    endpoint: Endpoint,
    model: str,
    contents: Sequence[types.Content],
    config: types.GenerateContentConfig,
    timeout_s: float,
    sent: list[bytes],
) -> tuple[JsonObject | None, Answer | Failure]:
    """Response and result of one request; what the SDK and its HTTP library raise becomes a failure here."""
    client = _client(endpoint, timeout_s, sent)
    try:
        body = Deadline(timeout_s).call(lambda: _body(client, model, contents, config))
    except errors.APIError as exc:
        failure = failure_of_error(exc.code, presentable(exc.details, key=endpoint.api_key))
        return exc.details, replace(failure, cause=None if endpoint.api_key in str(exc) else exc)
    except json.JSONDecodeError as exc:
        error = ModelUnavailable("the model's service sent something that is not JSON")
        return None, Failure(error, exc, again=True)
    except DeadlineExceeded as exc:
        error = ModelUnavailable(f"the model's service did not answer within {timeout_s:.1f} s")
        return None, Failure(error, exc, again=True)
    except _http_errors() as exc:
        error = ModelUnavailable(f"the model's service cannot be reached: {exc!r}")
        return None, Failure(error, exc, again=True)
    finally:
        client.close()
    answer = read_answer(body)
    return body, failure_of(answer) or answer


def _client(endpoint: Endpoint, timeout_s: float, sent: list[bytes]) -> genai.Client:
    """A client for one request, whose bytes it notes in `sent`; a client that is kept leaves its sockets open."""

    def note(request: Any) -> None:
        sent.append(request.content)

    options = types.HttpOptions(
        base_url=endpoint.base_url,
        api_version=API_VERSION,
        timeout=int((timeout_s + CLEAN_UP_S) * 1000),  # milliseconds
        client_args={"event_hooks": {"request": [note]}},
    )
    return genai.Client(api_key=endpoint.api_key, http_options=options)


def _body(
    client: genai.Client, model: str, contents: Sequence[types.Content], config: types.GenerateContentConfig
) -> JsonObject:
    """The response's JSON as it came: the SDK's own reading warns of enum values that it does not know."""
    response = client.models.generate_content(model=model, contents=list(contents), config=config)
    raw = response.sdk_http_response.body if response.sdk_http_response else None
    body = json.loads(raw or "{}")
    return body if isinstance(body, dict) else {}


def _http_errors() -> tuple[type[Exception], ...]:
    """What the SDK lets through of its HTTP library: httpx below version 3 of the SDK, httpx2 from there on."""
    libraries = [sys.modules[name] for name in ("httpx", "httpx2") if name in sys.modules]
    return tuple(error for library in libraries for error in (library.HTTPError, library.InvalidURL))


def base_config(**fields: Any) -> types.GenerateContentConfig:
    """A request's settings: `fields`, no calling of functions by the SDK, and the response left as it came.

    Sampling parameters are not set: models from 3.6 on refuse them.
    """
    return types.GenerateContentConfig(
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        should_return_http_response=True,
        **fields,
    )


# --- contents --------------------------------------------------------------------------------------------------------


def start_contents(text: str, png: bytes | None) -> list[types.Content]:
    """The first content: the task, or a judge's question, and a screenshot."""
    return [_users_words(text, png)]


def _users_words(text: str, png: bytes | None) -> types.Content:
    parts = [types.Part(text=text)]
    if png is not None:
        parts.append(types.Part(inline_data=types.Blob(data=png, mime_type="image/png")))
    return types.Content(role="user", parts=parts)


def build_function_response(
    call: FunctionCall, step: Step, png: bytes | None, *, with_url: bool = False
) -> types.FunctionResponse:
    """The one response to a call: same name and id, what came of it, and the screen after it where it is still sent.

    The acknowledgement stands only where a confirmation was asked and a person, or a rule of the policy, allowed it.
    """
    response = {"error" if prompts.problem_of(step) else "output": prompts.result_in_words(step)}
    if with_url:
        response["url"] = ""
    if step.proposal.confirmation is not None and step.ruling.kind == "allow":
        response["safety_acknowledgement"] = "true"
    picture = types.FunctionResponsePart(inline_data=types.FunctionResponseBlob(mime_type="image/png", data=png))
    return types.FunctionResponse(
        id=call.id or None, name=call.name, response=response, parts=None if png is None else [picture]
    )


def rebuild_contents(
    observation: Observation,
    *,
    keep_screenshots: int = 3,
    include_initial_screenshot: bool = True,
    with_url: bool = False,
) -> list[types.Content]:
    """The whole conversation so far, of which only the newest `keep_screenshots` pictures are sent again."""
    steps = [step for turn in observation.turns for step in turn.steps]
    shown = {step.number: step.frame_after for step in steps[-keep_screenshots:]}
    if steps:
        shown[steps[-1].number] = observation.frame

    def png_after(step: Step) -> bytes | None:
        return observation.load_png(shown[step.number]) if step.number in shown else None

    first = observation.first_frame if steps else observation.frame
    with_first = include_initial_screenshot and len(steps) < keep_screenshots
    contents = start_contents(observation.task, observation.load_png(first) if with_first else None)
    for turn in observation.turns:
        contents.extend(_contents_of(turn, png_after, with_url))
    return contents


def _contents_of(turn: Turn, png_after: Callable[[Step], bytes | None], with_url: bool) -> Iterator[types.Content]:
    """The model's words and the responses; or a turn in the user's words, where the service would not take those."""
    content = turn.decision.provider_details.get("content") or {}
    calls = extract_function_calls(content)
    if not turn.steps:
        return
    if len(calls) != len(turn.steps) or any(map(_unacknowledged, turn.steps)):
        yield _users_words(prompts.told_in_words(turn), png_after(turn.steps[-1]))
        return
    responses = [
        build_function_response(call, step, png_after(step), with_url=with_url)
        for call, step in zip(calls, turn.steps, strict=True)
    ]
    yield _models_words(content)
    yield types.Content(role="user", parts=[types.Part(function_response=response) for response in responses])


def _unacknowledged(step: Step) -> bool:
    """A confirmation that was refused: the service takes no history in which it is not acknowledged."""
    return step.proposal.confirmation is not None and step.ruling.kind != "allow"


def _models_words(content: JsonObject) -> types.Content:
    parts = known_fields(content, parts=_field_names(types.Part), calls=_field_names(types.FunctionCall))
    return types.Content(role="model", parts=[types.Part.model_validate(part) for part in parts])


def _field_names(model: type[BaseModel]) -> frozenset[str]:
    return frozenset(to_camel(name) for name in model.model_fields)


# --- the planner -----------------------------------------------------------------------------------------------------


class GeminiComputerUse:
    """A planner that asks Gemini with its Computer Use tool.

    `environment` is desktop, browser or mobile; a model that knows no desktop is told of a browser. `excluded_actions`
    are names of predefined functions of either dialect. `functions` are Python callables with docstrings and type
    hints, offered to the model by name; the agent calls them. `base_url` and `api_key` default to the SDK's environment
    variables. Raises SettingsError, and KeyRejected where no key is set.
    """

    def __init__(
        self,
        *,
        model: str = "gemini-3.8-flash",
        environment: str = "desktop",
        api_key: str | None = None,
        base_url: str | None = None,
        excluded_actions: Sequence[str] = (),
        functions: Sequence[Callable[..., object]] = (),
        include_thoughts: bool = False,
        detect_prompt_injection: bool = False,
        disabled_safety_policies: Sequence[str] = (),
        include_initial_screenshot: bool = True,
        keep_screenshots: int = 3,
        system_instruction: str | None = None,
        max_output_tokens: int = 8192,
        backoff: Backoff | None = None,
    ) -> None:
        if keep_screenshots < 1:
            raise SettingsError(f"keep_screenshots must be at least 1, got {keep_screenshots!r}")
        if environment == "desktop" and model.startswith(BROWSER_ONLY):
            environment = "browser"
        self._model = model
        self._endpoint = Endpoint(found_key(api_key), found_url(base_url), backoff or Backoff())
        self._excluded = _known_actions(excluded_actions)
        self._rebuild_contents = partial(
            rebuild_contents,
            keep_screenshots=keep_screenshots,
            include_initial_screenshot=include_initial_screenshot,
            with_url=environment == "browser",
        )
        declarations = declare_all(functions, taken=(*PREDEFINED_FUNCTIONS, TASK_FAILED))
        self._functions = frozenset(declaration.name for declaration in declarations)
        computer = _computer(environment, self._excluded, detect_prompt_injection, disabled_safety_policies)
        self._config = base_config(
            system_instruction=prompts.OPERATOR if system_instruction is None else system_instruction,
            max_output_tokens=max_output_tokens,
            thinking_config=types.ThinkingConfig(include_thoughts=True) if include_thoughts else None,
            tools=[computer, _declared(GIVE_UP, *declarations)],
        )

    @property
    def name(self) -> str:
        return f"gemini ({self._model})"

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """The model's next turn. Raises PlannerError."""
        contents = self._rebuild_contents(observation)
        ask = partial(generate, self._endpoint, self._model, contents, self._config)
        answer = ask(purpose="planner", timeout_s=timeout_s, report=observation.report)
        return self._decision(answer, observation.frame)

    def _decision(self, answer: Answer, screen: FrameRef) -> Decision:
        calls = answer.calls
        decided = partial(
            Decision, model=answer.model, usage=answer.usage, provider_details={"content": dict(answer.content)}
        )
        gave_up = next((call for call in calls if call.name == TASK_FAILED), None)
        if gave_up is not None:
            return decided("gave_up", str(gave_up.args.get("reason") or answer.words))
        if not calls:
            return decided("finished", answer.words)
        read = partial(read_proposal, screen=screen, functions=self._functions, excluded=self._excluded)
        return decided("act", answer.words or answer.thoughts, tuple(read(call) for call in calls))


def _known_actions(names: Sequence[str]) -> tuple[str, ...]:
    unknown = sorted(set(names) - PREDEFINED_FUNCTIONS)
    if unknown:
        raise SettingsError(f"excluded_actions must be among {sorted(PREDEFINED_FUNCTIONS)}, got {unknown!r}")
    return tuple(names)


def _computer(environment: str, excluded: Sequence[str], detect: bool, policies: Sequence[str]) -> types.Tool:
    """The Computer Use tool; a field is sent only where it is set, as older services refuse what they do not know."""
    tool = types.ComputerUse(environment=_member(types.Environment, environment, "ENVIRONMENT_"))
    if excluded:
        tool.excluded_predefined_functions = list(excluded)
    if detect:
        tool.enable_prompt_injection_detection = True
    if policies:
        if "disabled_safety_policies" not in types.ComputerUse.model_fields:
            raise SettingsError(f"disabled_safety_policies needs a newer google-genai, got {policies!r}")
        tool.disabled_safety_policies = [_member(types.SafetyPolicy, policy) for policy in policies]
    return types.Tool(computer_use=tool)


def _member(kind: type[Member], name: str, prefix: str = "") -> Member:
    """A member by its name in either case; the SDK would take an unknown one, with a warning."""
    known = {member.removeprefix(prefix).lower(): kind[member] for member in kind.__members__}
    if name.lower() not in known:
        raise SettingsError(f"{kind.__name__} must be one of {sorted(known)}, got {name!r}")
    return known[name.lower()]


def _declared(*declarations: Declaration) -> types.Tool:
    return types.Tool(
        function_declarations=[
            types.FunctionDeclaration(
                name=declaration.name,
                description=declaration.description,
                parameters_json_schema=dict(declaration.parameters),
            )
            for declaration in declarations
        ]
    )
