"""A planner that asks Gemini Computer Use: contents out, function calls in.

Nothing is kept between turns: a request is rebuilt from the observation. It repeats the model's own words as they came
(`Decision.provider_details`), each followed by one function response a call. The oldest turns are summarised in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from itertools import accumulate, islice
from typing import Any, TypeVar

from google.genai import types

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.calls import DONE, GIVE_UP, FunctionCall, ending_of
from pytest_vnc_use.planners.common.endpoint import Endpoint, found_key, found_url
from pytest_vnc_use.planners.common.functions import Declaration, declare_all
from pytest_vnc_use.planners.common.retry import Backoff
from pytest_vnc_use.planners.common.turn_results import KEPT_TURNS, newest_pictured, removed_of
from pytest_vnc_use.planners.common.vocabulary import check_at_least_one
from pytest_vnc_use.planners.gemini import dialects
from pytest_vnc_use.planners.gemini.actions import (
    NO_PAGE,
    PREDEFINED_FUNCTIONS,
    FunctionNames,
    denorm_x,
    denorm_y,
    read_proposal,
)
from pytest_vnc_use.planners.gemini.answers import GeminiAnswer, extract_function_calls
from pytest_vnc_use.planners.gemini.service import base_config, describe_model, generate, models_words
from pytest_vnc_use.types import (
    Decision,
    FrameRef,
    JsonObject,
    Observation,
    Report,
    Step,
    Turn,
    report_to_nobody,
)

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
        response["url"] = step.url or NO_PAGE
    acknowledged = step.proposal.confirmation is not None and step.ruling.kind == "allow"
    return _response(call, response, png, acknowledged=acknowledged)


def _response(
    call: FunctionCall, response: dict[str, Any], png: bytes | None, *, acknowledged: bool
) -> types.FunctionResponse:
    if acknowledged:
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
    """Return the conversation so far. Only the newest turns have pictures, one a step, `keep_screenshots` or more.

    With `with_url` each answer has the address that the browser was at last.
    """
    turns = [turn for turn in observation.turns if turn.steps]
    turns = [*_with_addresses(turns)] if with_url else turns
    in_words = removed_of(len(turns) - keep_screenshots, KEPT_TURNS)
    steps = [step for turn in turns for step in turn.steps]
    seen = [*(step.frame_before for step in steps[1:]), observation.frame]  # the screen of the next request
    pictured = newest_pictured(turns, keep_screenshots)
    frame_after = {step.number: frame for step, frame in zip(steps, seen, strict=False) if step.number in pictured}

    def png_after(step: Step) -> bytes | None:
        return observation.load_png(frame_after[step.number]) if step.number in frame_after else None

    first = observation.first_frame if steps else observation.frame
    with_first = include_initial_screenshot and len(steps) < keep_screenshots
    task = prompts.task_in_words(observation.task, turns[:in_words])
    contents = start_contents(task, observation.load_png(first) if with_first else None)
    for turn in turns[in_words:]:
        contents.extend(_contents_of(turn, png_after, with_url))
    return contents


def _with_addresses(turns: Sequence[Turn]) -> Iterator[Turn]:
    """Yield the turns; a step without an address gets the address of the step before."""
    steps = accumulate(
        (step for turn in turns for step in turn.steps),
        lambda before, now: now if now.url else replace(now, url=before.url),
    )
    for turn in turns:
        yield replace(turn, steps=tuple(islice(steps, len(turn.steps))))


def _contents_of(turn: Turn, png_after: Callable[[Step], bytes | None], with_url: bool) -> Iterator[types.Content]:
    """Yield the model's words and the responses; if the service would refuse them, a summary in a user message."""
    content = turn.decision.provider_details.get("content") or {}
    calls = extract_function_calls(content)
    if len(calls) != len(turn.steps) or any(map(_unacknowledged, turn.steps)):
        yield _users_words(prompts.format_turn(turn), png_after(turn.steps[-1]))
        return
    responses = [
        build_function_response(call, step, png_after(step), with_url=with_url)
        for call, step in zip(calls, turn.steps, strict=True)
    ]
    yield models_words(content)
    yield types.Content(role="user", parts=[types.Part(function_response=response) for response in responses])


def _unacknowledged(step: Step) -> bool:
    """Return whether a confirmation was refused. The service accepts no history without its acknowledgement."""
    return step.proposal.confirmation is not None and step.ruling.kind != "allow"


# --- the planner -----------------------------------------------------------------------------------------------------


class GeminiComputerUse:
    """A planner that asks Gemini with its Computer Use tool.

    `environment` is desktop, browser or mobile; a model that knows no desktop gets a browser. `excluded_actions` are
    names of predefined functions of either dialect. `detect_prompt_injection` has the service look for orders on the
    screen; by default it does where the model can. `functions` are Python callables with docstrings and type hints;
    the model may call them by name, and the agent carries out the call. `search_page` is what the function `search`
    opens; with `opens_windows` the function `open_web_browser` opens a window. `base_url` and `api_key` default to the
    SDK's environment variables. Raises SettingsError, and KeyMissing if no key is set.
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
        search_page: str = "",
        opens_windows: bool = False,
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
        self._search_page, self._opens_windows = search_page, opens_windows
        self._shows_first = include_initial_screenshot
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

    # --- the pieces of a turn, for code that has a loop of its own ---------------------------------------------------

    def start_contents(self, task: str, png: bytes | None = None) -> list[types.Content]:
        """Return the contents of the first request: the task, and the screen if the planner sends it there."""
        return start_contents(task, png if self._shows_first else None)

    def generate(
        self,
        contents: Sequence[types.Content | JsonObject],
        *,
        timeout_s: float = 120.0,
        report: Report = report_to_nobody,
    ) -> GeminiAnswer:
        """Return the model's answer. Append its `content` to the contents as it came. Raises PlannerError."""
        contents_of_sdk = [models_words(each) if isinstance(each, Mapping) else each for each in contents]
        ask = partial(generate, self._endpoint, self._model, contents_of_sdk, self._config, purpose="planner")
        return ask(timeout_s=timeout_s, report=report)

    def extract_function_calls(self, answer: GeminiAnswer | JsonObject) -> tuple[FunctionCall, ...]:
        """Return the function calls of an answer, or of its `content`, in order."""
        return answer.calls if isinstance(answer, GeminiAnswer) else extract_function_calls(answer)

    def build_function_response(
        self,
        call: FunctionCall | str,
        png: bytes | None = None,
        url: str = "",
        *,
        output: str = "ok",
        error: str = "",
        acknowledged: bool = False,
    ) -> types.FunctionResponse:
        """Return the response to one call, or to the only call of its name, with the screen after it as PNG.

        The responses to all calls of an answer go into one content of the user. `acknowledged`: a person has confirmed
        the action that the model wanted confirmed.
        """
        call = FunctionCall(call, {}) if isinstance(call, str) else call
        result = {"error": error} if error else {"output": output}
        return _response(call, {**result, "url": url or NO_PAGE}, png, acknowledged=acknowledged)

    def _decision(self, answer: GeminiAnswer, screen: FrameRef) -> Decision:
        calls = answer.calls
        decided = partial(
            Decision, model=answer.model, usage=answer.usage, provider_details={"content": dict(answer.content)}
        )
        if ending := ending_of(calls, answer.words):
            return decided(*ending)
        known = FunctionNames(self._functions, self._excluded, self._offered, self._search_page, self._opens_windows)
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
