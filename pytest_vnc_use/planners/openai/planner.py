"""A planner that asks OpenAI's models with their own computer tool: the Responses API, in plain JSON.

Nothing is kept between turns, neither here nor at the service: each request is rebuilt from the observation. Source of
the format: developers.openai.com, "Computer use", "Images and vision", and the types of the openai SDK 3.54. The SDK
itself is not used, because its retries and time-outs are not the run's, and fields unknown to its models would not go
back unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.calls import GIVE_UP
from pytest_vnc_use.planners.common.endpoint import found_key, found_url
from pytest_vnc_use.planners.common.functions import Declaration, declare_all
from pytest_vnc_use.planners.common.http_json import Service, post_json
from pytest_vnc_use.planners.common.pixels import PictureLimit, SentScreen
from pytest_vnc_use.planners.common.retry import Backoff, ask, request_size
from pytest_vnc_use.planners.common.turn_results import screen_in_details
from pytest_vnc_use.planners.common.vocabulary import check_at_least_one, check_excluded
from pytest_vnc_use.planners.openai.actions import (
    ACTIONS,
    read_computer_call,
    read_function_call,
)
from pytest_vnc_use.planners.openai.answers import OpenAIAnswer, read_answer, usage_of
from pytest_vnc_use.planners.openai.items import rebuild_items
from pytest_vnc_use.types import CallFunction, Decision, JsonObject, Observation, Proposal

API_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"

LIMIT = PictureLimit(longest_side=6000, patch=32, patches=10_000)
_FIXED: dict[str, object] = {"store": False, "include": ["reasoning.encrypted_content"]}
_SUMMARIES: dict[str, object] = {"reasoning": {"summary": "auto"}}
"""The largest picture that `detail: original` uses unscaled: 10.24 million pixels, 6000 a side."""


def _service(model: str, key: str, base_url: str | None) -> Service:
    url = f"{(base_url or API_URL).rstrip('/')}/responses"
    return Service(url, model, key, {"Authorization": f"Bearer {key}"}, usage_of)


class OpenAIComputer:
    """A planner that asks a model of OpenAI with its computer tool.

    `functions` are Python callables with docstrings and type hints; the model may call them by name, and the agent
    carries out the call. `excluded_actions` are names of the tool's actions. `include_thoughts` asks for summaries of
    thoughts. `max_output_tokens` counts reasoning too. `api_key` and `base_url` (with its `/v1`) default to
    OPENAI_API_KEY and OPENAI_BASE_URL. Raises SettingsError, and KeyMissing if no key is set.
    """

    def __init__(
        self,
        *,
        model: str = "gpt-5.5",
        api_key: str | None = None,
        base_url: str | None = None,
        excluded_actions: Sequence[str] = (),
        functions: Sequence[Callable[..., object]] = (),
        include_thoughts: bool = False,
        include_initial_screenshot: bool = True,
        keep_screenshots: int = 3,
        system_instruction: str | None = None,
        max_output_tokens: int = 16_000,
        backoff: Backoff | None = None,
    ) -> None:
        check_at_least_one(keep_screenshots=keep_screenshots)
        self._model = model
        self._service = _service(model, found_key(api_key, (KEY_VARIABLE,)), found_url(base_url, URL_VARIABLE))
        self._backoff = backoff or Backoff()
        self._excluded = check_excluded(excluded_actions, known=ACTIONS)
        declarations = declare_all(functions, taken=("computer", GIVE_UP.name))
        self._functions = frozenset(declaration.name for declaration in declarations)
        self._rebuild_items = partial(
            rebuild_items,
            limit=LIMIT,
            keep_screenshots=keep_screenshots,
            include_initial_screenshot=include_initial_screenshot,
        )
        self._fixed: JsonObject = {
            "model": model,
            "instructions": prompts.OPERATOR if system_instruction is None else system_instruction,
            "tools": [{"type": "computer"}, *map(_declared, (GIVE_UP, *declarations))],
            "max_output_tokens": max_output_tokens,
            **(_FIXED | _SUMMARIES if include_thoughts else _FIXED),
        }

    @property
    def name(self) -> str:
        """The planner's name with the model."""
        return f"openai ({self._model})"

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the model's next turn. Raises PlannerError."""
        body = {**self._fixed, "input": self._rebuild_items(observation)}
        answer = ask(
            lambda attempt_s: post_json(self._service, body, timeout_s=attempt_s, read=read_answer),
            timeout_s=timeout_s,
            asked=request_size("planner", body),
            report=observation.report,
            backoff=self._backoff.within(observation.request_s),
        )
        return self._decision(answer, observation)

    def _decision(self, answer: OpenAIAnswer, observation: Observation) -> Decision:
        decided = partial(Decision, model=answer.model, usage=answer.usage, stop_at_error=True)
        gave_up = next((call for call in answer.calls if call.get("name") == GIVE_UP.name), None)
        if gave_up is not None:
            return decided("gave_up", _reason(gave_up) or answer.words)
        if not answer.calls:
            return decided("finished", answer.words)
        sent = SentScreen.of_picture(observation.load_png(observation.frame), LIMIT, observation.frame)
        proposals = [self._read(call, sent) for call in answer.calls]
        details: dict[str, Any] = {
            "output": answer.output,
            "counts": [len(of_call) for of_call in proposals],
            "screen": screen_in_details(observation.frame),
        }
        flat = tuple(proposal for of_call in proposals for proposal in of_call)
        return decided("act", answer.words or answer.thoughts, flat, provider_details=details)

    def _read(self, call: JsonObject, sent: SentScreen) -> tuple[Proposal, ...]:
        if call["type"] == "function_call":
            return read_function_call(call, functions=self._functions)
        return read_computer_call(call, sent, excluded=self._excluded)


def _reason(call: JsonObject) -> str:
    """Return why the model gives up; "" if its arguments cannot be read."""
    [proposal] = read_function_call(call, functions=(GIVE_UP.name,))
    action = proposal.action
    return str(action.arguments.get("reason") or "") if isinstance(action, CallFunction) else ""


def _declared(declaration: Declaration) -> JsonObject:
    """Return the declaration for the service. It is not strict: a strict schema must require each parameter."""
    return {
        "type": "function",
        "name": declaration.name,
        "description": declaration.description,
        "parameters": dict(declaration.parameters),
        "strict": False,
    }
