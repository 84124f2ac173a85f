"""A planner that asks Gemini Computer Use: contents out, function calls in. No other module uses Google's SDK.

Nothing is kept between turns: a request is rebuilt from the observation. It repeats the model's own words as they came
(`Decision.provider_details`), each followed by one function response a call. The oldest turns are summarised in words.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from google import genai
from google.genai import errors, types
from pydantic import ValidationError

from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import ModelUnavailable, PlannerError, SettingsError
from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.calls import DONE, GIVE_UP, FunctionCall, ending_of
from pytest_vnc_use.planners.common.endpoint import UNSENT, Endpoint, found_key, found_url, http_errors
from pytest_vnc_use.planners.common.functions import Declaration, declare_all
from pytest_vnc_use.planners.common.json_answers import NotJson, malformed, read_json, redact_key
from pytest_vnc_use.planners.common.retry import Attempt, Backoff, Failure, ask, request_size
from pytest_vnc_use.planners.common.turn_results import KEPT_TURNS, newest_pictured, removed_of
from pytest_vnc_use.planners.common.vocabulary import check_at_least_one
from pytest_vnc_use.planners.gemini import dialects
from pytest_vnc_use.planners.gemini.actions import PREDEFINED_FUNCTIONS, Known, denorm_x, denorm_y, read_proposal
from pytest_vnc_use.planners.gemini.answers import (
    GeminiAnswer,
    answer_failure,
    extract_function_calls,
    failure_of_error,
    loggable,
    read_answer,
    usage_of,
    without,
)
from pytest_vnc_use.types import Decision, FrameRef, JsonObject, Observation, Report, Step, Turn

__all__ = [
    "Endpoint",
    "GeminiComputerUse",
    "build_function_response",
    "denorm_x",
    "denorm_y",
    "describe_model",
    "extract_function_calls",
    "generate",
    "start_contents",
]

Member = TypeVar("Member", bound=Enum)

API_VERSION = "v1beta"
"""The version with documented Computer Use. The SDK's own default has changed between its versions."""

CLEAN_UP_S = 1.0
"""The extra seconds that the SDK may wait after our own time limit. A request that was given up then ends by itself."""


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
) -> GeminiAnswer:
    """Return the first usable answer to the contents, within the attempts of `endpoint.backoff`. Raises PlannerError.

    The time that is left bounds every attempt, even if an answer comes a byte at a time.
    """

    def respond(client: genai.Client) -> str:
        """Return the text of one response as it came. The SDK's own parser warns about unknown enum values."""
        response = client.models.generate_content(model=model, contents=list(contents), config=config)
        return (response.sdk_http_response and response.sdk_http_response.body) or ""

    def send(attempt_s: float) -> Attempt[GeminiAnswer]:
        sent: list[bytes] = []
        body, failure = _asked(endpoint, model, respond, attempt_s, sent)
        request = loggable(json.loads(sent[-1]), key=endpoint.api_key) if sent else {"model": model}
        response = loggable(body, key=endpoint.api_key) if body else None
        result = failure or _read(body, detects_injection=_detects_injection(config))
        return Attempt(request, response, result, usage_of(body))

    plain = {**config.model_dump(), "model": model, "contents": [content.model_dump() for content in contents]}
    return ask(send, asked=request_size(purpose, plain), timeout_s=timeout_s, report=report, backoff=endpoint.backoff)


def describe_model(endpoint: Endpoint, model: str, *, timeout_s: float) -> JsonObject:
    """Return the service's description of a model, to check the key and the model's name. One request, free of charge.

    Raises PlannerError, KeyRejected among them.
    """

    def respond(client: genai.Client) -> str:
        return client.models.get(model=model).model_dump_json()

    body, failure = _asked(endpoint, model, respond, timeout_s, [])
    if failure is not None:
        raise failure.error from None
    return body


def _asked(
    endpoint: Endpoint, model: str, respond: Callable[[genai.Client], str], timeout_s: float, sent: list[bytes]
) -> tuple[JsonObject, Failure | None]:
    """Return the response of one request. Errors of the SDK and its HTTP library become a failure, in our words."""
    unsent = False
    try:
        with closing(_client(endpoint, timeout_s, sent)) as client:
            return read_json(Deadline(timeout_s).call(partial(respond, client))), None
    except errors.APIError as exc:
        said = exc.details if isinstance(exc.details, dict) else {"message": exc.details}
        details = loggable(said, key=endpoint.api_key)
        return details, failure_of_error(exc.code, details, model=model)
    except NotJson as exc:
        unavailable = str(exc)
    except DeadlineExceeded:
        unavailable = f"the model's service did not answer within {timeout_s:.1f} s"
    except http_errors() as exc:
        unavailable, unsent = f"the model's service cannot be reached: {exc!r}", isinstance(exc, http_errors(UNSENT))
    except Exception as exc:  # noqa: BLE001  # any error: the frames of its traceback hold the API key
        problem = f"the model's service could not be asked: {exc!r}"
        return {}, Failure(PlannerError(redact_key(problem, key=endpoint.api_key)), unbilled=True)
    return {}, Failure(ModelUnavailable(redact_key(unavailable, key=endpoint.api_key)), again=True, unbilled=unsent)


def _read(body: JsonObject, *, detects_injection: bool) -> GeminiAnswer | Failure:
    """Return the answer if it is usable and can be sent back in the next turn; else a failure."""
    answer = read_answer(body)
    failure = answer_failure(answer, detects_injection=detects_injection)
    if failure is not None:
        return failure
    try:
        _models_words(answer.content)
    except (ValidationError, LookupError, UserWarning) as exc:
        return malformed(str(exc))
    return answer


def _detects_injection(config: types.GenerateContentConfig) -> bool:
    computers = [tool.computer_use for tool in config.tools or () if isinstance(tool, types.Tool)]
    return any(computer is not None and computer.enable_prompt_injection_detection for computer in computers)


def _client(endpoint: Endpoint, timeout_s: float, sent: list[bytes]) -> genai.Client:
    """Return a client for one request, whose bytes it adds to `sent`. A client that is kept leaves its sockets open."""

    def note(request: Any) -> None:
        sent.append(request.content)

    options = types.HttpOptions(
        base_url=endpoint.base_url,
        api_version=API_VERSION,
        timeout=int((timeout_s + CLEAN_UP_S) * 1000),  # milliseconds
        headers={"Connection": "close"},  # a late answer to a closed client leaves no socket open
        client_args={"event_hooks": {"request": [note]}},
    )
    return genai.Client(vertexai=False, api_key=endpoint.api_key, http_options=options)


def base_config(**fields: Any) -> types.GenerateContentConfig:
    """Return a request's settings: `fields`, no function calls by the SDK, and the response as it came.

    Sampling parameters are not set: models from 3.6 on refuse them.
    """
    return types.GenerateContentConfig(
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        should_return_http_response=True,
        **fields,
    )


# --- contents --------------------------------------------------------------------------------------------------------


def start_contents(text: str, png: bytes | None) -> list[types.Content]:
    """Return the first content: the task, or a judge's question, and a screenshot."""
    return [_users_words(text, png)]


def _users_words(text: str, png: bytes | None) -> types.Content:
    parts = [types.Part(text=text)]
    if png is not None:
        parts.append(types.Part(inline_data=types.Blob(data=png, mime_type="image/png")))
    return types.Content(role="user", parts=parts)


def build_function_response(
    call: FunctionCall, step: Step, png: bytes | None, *, with_url: bool = False
) -> types.FunctionResponse:
    """Return the one response to a call: its name and id, its result, and the screen after it if that is still sent.

    The acknowledgement is set only if a confirmation was asked and a person, or a rule of the policy, allowed it.
    """
    response = {"error" if prompts.problem_of(step) else "output": prompts.result_in_words(step)}
    if with_url or step.url:
        response["url"] = step.url
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
    """Return the conversation so far. Only the newest turns have pictures, one a step, `keep_screenshots` or more."""
    turns = [turn for turn in observation.turns if turn.steps]
    in_words = removed_of(len(turns) - keep_screenshots, KEPT_TURNS)
    steps = [step for turn in turns for step in turn.steps]
    seen = [*(step.frame_before for step in steps[1:]), observation.frame]  # the screen of the next request
    pictured = newest_pictured(turns, keep_screenshots)
    shown = {step.number: frame for step, frame in zip(steps, seen, strict=False) if step.number in pictured}

    def png_after(step: Step) -> bytes | None:
        return observation.load_png(shown[step.number]) if step.number in shown else None

    first = observation.first_frame if steps else observation.frame
    with_first = include_initial_screenshot and len(steps) < keep_screenshots
    task = prompts.task_in_words(observation.task, turns[:in_words])
    contents = start_contents(task, observation.load_png(first) if with_first else None)
    for turn in turns[in_words:]:
        contents.extend(_contents_of(turn, png_after, with_url))
    return contents


def _contents_of(turn: Turn, png_after: Callable[[Step], bytes | None], with_url: bool) -> Iterator[types.Content]:
    """Yield the model's words and the responses; or the turn in the user's words, if the service would refuse those."""
    content = turn.decision.provider_details.get("content") or {}
    calls = extract_function_calls(content)
    if len(calls) != len(turn.steps) or any(map(_unacknowledged, turn.steps)):
        yield _users_words(prompts.format_turn(turn), png_after(turn.steps[-1]))
        return
    responses = [
        build_function_response(call, step, png_after(step), with_url=with_url)
        for call, step in zip(calls, turn.steps, strict=True)
    ]
    yield _models_words(content)
    yield types.Content(role="user", parts=[types.Part(function_response=response) for response in responses])


def _unacknowledged(step: Step) -> bool:
    """Return whether a confirmation was refused. The service accepts no history without its acknowledgement."""
    return step.proposal.confirmation is not None and step.ruling.kind != "allow"


def _models_words(content: JsonObject) -> types.Content:
    """Return the content for the SDK, without fields unknown to it. Raises ValidationError if it is no content."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the SDK warns about values newer than itself
            return types.Content.model_validate({**content, "role": "model"})
    except ValidationError as exc:
        unknown = [error["loc"] for error in exc.errors() if error["type"] == "extra_forbidden"]
        if not unknown:
            raise
    return _models_words(without(content, unknown))


# --- the planner -----------------------------------------------------------------------------------------------------


class GeminiComputerUse:
    """A planner that asks Gemini with its Computer Use tool.

    `environment` is desktop, browser or mobile; a model that knows no desktop gets a browser. `excluded_actions` are
    names of predefined functions of either dialect. `detect_prompt_injection` has the service look for orders on the
    screen; by default it does where the model can. `functions` are Python callables with docstrings and type hints;
    the model may call them by name, and the agent carries out the call. `base_url` and `api_key` default to the SDK's
    environment variables. Raises SettingsError, and KeyMissing if no key is set.
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
        detect_prompt_injection: bool | None = None,
        disabled_safety_policies: Sequence[str] = (),
        include_initial_screenshot: bool = True,
        keep_screenshots: int = 3,
        system_instruction: str | None = None,
        max_output_tokens: int = 8192,
        backoff: Backoff | None = None,
    ) -> None:
        check_at_least_one(keep_screenshots=keep_screenshots)
        older, environment = dialects.dialect_of(model, environment)
        self._model, self._endpoint = model, Endpoint(found_key(api_key), found_url(base_url), backoff or Backoff())
        self._excluded = dialects.excluded_names(excluded_actions)
        self._rebuild_contents = partial(
            rebuild_contents,
            keep_screenshots=keep_screenshots,
            include_initial_screenshot=include_initial_screenshot,
            with_url=environment == "browser",
        )
        declarations = declare_all(functions, taken=(*PREDEFINED_FUNCTIONS, DONE.name, GIVE_UP.name))
        self._functions = frozenset(declaration.name for declaration in declarations)
        detect = dialects.can_detect_injection(model) if detect_prompt_injection is None else detect_prompt_injection
        computer = _computer(environment, detect, disabled_safety_policies)
        computer.excluded_predefined_functions = dialects.in_dialect(self._excluded, environment, older=older) or None
        self._offered = (
            *dialects.offered_names(environment, self._excluded, older=older),
            *(d.name for d in declarations),
        )
        tools = types.Tool(computer_use=computer), _declared(DONE, GIVE_UP, *declarations)
        self._config = _config(system_instruction, max_output_tokens, *tools, include_thoughts=include_thoughts)

    @property
    def name(self) -> str:
        """The planner's name with the model."""
        return f"gemini ({self._model})"

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the model's next turn. Raises PlannerError."""
        contents = self._rebuild_contents(observation)
        ask = partial(generate, self._endpoint.within(observation.request_s), self._model, contents, self._config)
        answer = ask(purpose="planner", timeout_s=timeout_s, report=observation.report)
        return self._decision(answer, observation.frame)

    def _decision(self, answer: GeminiAnswer, screen: FrameRef) -> Decision:
        calls = answer.calls
        decided = partial(
            Decision, model=answer.model, usage=answer.usage, provider_details={"content": dict(answer.content)}
        )
        if ending := ending_of(calls, answer.words):
            return decided(*ending)
        known = Known(self._functions, self._excluded, self._offered)
        read = partial(read_proposal, screen=screen, known=known)
        return decided("act", answer.words or answer.thoughts, tuple(read(call) for call in calls))


def _config(
    system: str | None, max_output_tokens: int, *tools: types.Tool, include_thoughts: bool
) -> types.GenerateContentConfig:
    return base_config(
        system_instruction=prompts.OPERATOR if system is None else system,
        max_output_tokens=max_output_tokens,
        thinking_config=types.ThinkingConfig(include_thoughts=True) if include_thoughts else None,
        tools=list(tools),
    )


def _computer(environment: str, detect: bool, policies: Sequence[str]) -> types.ComputerUse:
    """Return the Computer Use tool. A field is sent only if it is set, because older services refuse unknown fields."""
    tool = types.ComputerUse(environment=_member(types.Environment, environment, "ENVIRONMENT_"))
    if detect:
        tool.enable_prompt_injection_detection = True
    if policies:
        if "disabled_safety_policies" not in types.ComputerUse.model_fields:
            raise SettingsError(f"disabled_safety_policies needs a newer google-genai, got {policies!r}")
        tool.disabled_safety_policies = [_member(types.SafetyPolicy, policy) for policy in policies]
    return tool


def _member(kind: type[Member], name: str, prefix: str = "") -> Member:
    """Return a member by its name in either case. The SDK would accept an unknown one, with a warning."""
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
