"""A planner that asks Claude with Anthropic's own computer use tools: the Messages API, in plain JSON.

Nothing is kept between turns: each request is rebuilt from the observation. Source of the format:
platform.claude.com/docs, "Computer use tool", "Vision", "Preserved thinking", and the types of the anthropic SDK 2.12.
The SDK itself is not used, because its retries and time-outs are not the run's, and fields unknown to its models would
not go back unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.anthropic.actions import MEMBERS, UNAVAILABLE, read_calls
from pytest_vnc_use.planners.anthropic.answers import TOOLSET, ClaudeAnswer, read_answer, usage_of
from pytest_vnc_use.planners.anthropic.messages import rebuild_messages
from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.calls import GIVE_UP
from pytest_vnc_use.planners.common.endpoint import found_key, found_url
from pytest_vnc_use.planners.common.functions import Declaration, declare_all
from pytest_vnc_use.planners.common.http_json import Service, post_json
from pytest_vnc_use.planners.common.pixels import PictureLimit, SentScreen
from pytest_vnc_use.planners.common.retry import Backoff, ask, request_size
from pytest_vnc_use.planners.common.turn_results import screen_in_details
from pytest_vnc_use.planners.common.vocabulary import check_at_least_one, check_excluded, left_at
from pytest_vnc_use.types import Decision, JsonObject, Observation

API_URL = "https://api.anthropic.com"
API_VERSION = "2023-06-01"
KEY_VARIABLE = "ANTHROPIC_API_KEY"
URL_VARIABLE = "ANTHROPIC_BASE_URL"


@dataclass(frozen=True)
class Tool:
    """One version of the tool: its beta header, if it has one, and the largest picture that its models use unscaled.

    Sources: "Computer use tool", earlier versions; "Vision", resolution: 28 x 28 pixels a visual token, models up to
    4.6 at most 1568 tokens and pixels a side, 4.7 and later 4784 and 2576.
    """

    beta: str
    limit: PictureLimit


SMALLER = PictureLimit(longest_side=1568, patch=28, patches=1568)
LARGER = PictureLimit(longest_side=2576, patch=28, patches=4784)

TOOLS = {
    "computer_toolset_20260801": Tool("", LARGER),
    "computer_20251124": Tool("computer-use-2025-11-24", SMALLER),
    "computer_20250124": Tool("computer-use-2025-01-24", SMALLER),
}


def _fixed_fields(model: str, max_tokens: int, system: str, *, include_thoughts: bool) -> JsonObject:
    """Return the fields that are the same in each request."""
    return {
        "model": model,
        "max_tokens": max_tokens,
        "system": system,
        "cache_control": {"type": "ephemeral"},
        **({"thinking": {"type": "adaptive", "display": "summarized"}} if include_thoughts else {}),
    }


class AnthropicComputer:
    """A planner that asks Claude with one of Anthropic's computer use tools.

    `tool` is the version that the model takes; the newest models take only the toolset. `functions` are Python
    callables with docstrings and type hints; the model may call them by name, and the agent carries out the call.
    `excluded_actions` are names of the tool's actions. `include_thoughts` asks for summaries of thoughts, which models
    before 4.6 refuse. `max_tokens` counts thinking too. `api_key` and `base_url` default to ANTHROPIC_API_KEY and
    ANTHROPIC_BASE_URL. Raises SettingsError, and KeyMissing if no key is set.
    """

    def __init__(
        self,
        *,
        model: str = "claude-sonnet-5",
        tool: str = "computer_toolset_20260801",
        api_key: str | None = None,
        base_url: str | None = None,
        excluded_actions: Sequence[str] = (),
        functions: Sequence[Callable[..., object]] = (),
        include_thoughts: bool = False,
        include_initial_screenshot: bool = True,
        keep_screenshots: int = 3,
        system_instruction: str | None = None,
        max_tokens: int = 16_000,
        backoff: Backoff | None = None,
    ) -> None:
        check_at_least_one(keep_screenshots=keep_screenshots)
        if tool not in TOOLS:
            raise SettingsError(f"tool must be one of {sorted(TOOLS)}, got {tool!r}")
        self._model, self._tool, self._limit = model, tool, TOOLS[tool].limit
        self._service = _service(model, tool, found_key(api_key, (KEY_VARIABLE,)), found_url(base_url, URL_VARIABLE))
        self._backoff = backoff or Backoff()
        self._excluded = check_excluded(excluded_actions, known=MEMBERS)
        self._declarations = (GIVE_UP, *declare_all(functions, taken=(*MEMBERS, TOOLSET, GIVE_UP.name)))
        self._rebuild_messages = partial(
            rebuild_messages,
            limit=self._limit,
            keep_screenshots=keep_screenshots,
            include_initial_screenshot=include_initial_screenshot,
        )
        system = prompts.OPERATOR if system_instruction is None else system_instruction
        self._fixed = _fixed_fields(model, max_tokens, system, include_thoughts=include_thoughts)

    @property
    def name(self) -> str:
        """The planner's name with the model."""
        return f"anthropic ({self._model})"

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the model's next turn. Raises PlannerError."""
        sent = SentScreen.of_picture(observation.load_png(observation.frame), self._limit, observation.frame)
        tools = [self._computer(sent), *map(_declared, self._declarations)]
        body = {**self._fixed, "tools": tools, "messages": self._rebuild_messages(observation)}

        answer = ask(
            lambda attempt_s: post_json(self._service, body, timeout_s=attempt_s, read=read_answer),
            timeout_s=timeout_s,
            asked=request_size("planner", body),
            report=observation.report,
            backoff=self._backoff.within(observation.request_s),
        )
        return self._decision(answer, observation, sent)

    def _computer(self, sent: SentScreen) -> JsonObject:
        """Return the tool's declaration. Only the toolset can leave out excluded actions, and it has no screen size."""
        if not TOOLS[self._tool].beta:
            disabled = {name: {"enabled": False} for name in (*UNAVAILABLE, *sorted(self._excluded))}
            return {"type": self._tool, "configs": disabled}
        return {
            "type": self._tool,
            "name": TOOLSET,
            "display_width_px": sent.width,
            "display_height_px": sent.height,
        }

    def _decision(self, answer: ClaudeAnswer, observation: Observation, sent: SentScreen) -> Decision:
        decided = partial(Decision, model=answer.model, usage=answer.usage, stop_at_error=True)
        gave_up = next((call for call in answer.calls if call.name == GIVE_UP.name), None)
        if gave_up is not None:
            return decided("gave_up", str(gave_up.input.get("reason") or answer.words))
        if not answer.calls:
            return decided("finished", answer.words)
        proposals = read_calls(
            answer.calls,
            sent,
            pointer=left_at(observation.turns),
            functions=[declaration.name for declaration in self._declarations],
            excluded=self._excluded,
        )
        details: dict[str, Any] = {
            "content": answer.content,
            "counts": [len(of_call) for of_call in proposals],
            "screen": screen_in_details(observation.frame),
        }
        flat = tuple(proposal for of_call in proposals for proposal in of_call)
        return decided("act", answer.words or answer.thoughts, flat, provider_details=details)


def _service(model: str, tool: str, key: str, base_url: str | None) -> Service:
    beta = TOOLS[tool].beta
    headers = {"x-api-key": key, "anthropic-version": API_VERSION, **({"anthropic-beta": beta} if beta else {})}
    return Service(f"{(base_url or API_URL).rstrip('/')}/v1/messages", model, key, headers, usage_of)


def _declared(declaration: Declaration) -> JsonObject:
    return {
        "name": declaration.name,
        "description": declaration.description,
        "input_schema": dict(declaration.parameters),
    }
