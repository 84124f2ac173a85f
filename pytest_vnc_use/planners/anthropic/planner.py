"""Claude as planner, with Anthropic's own computer use tools, and as judge: the Messages API, in plain JSON.

Source of the format: platform.claude.com/docs, "Computer use tool", "Vision", "Preserved thinking", and the types of
the anthropic SDK 2.12. The SDK itself is not used, because its retries and time-outs are not the run's, and fields
unknown to its models would not go back unchanged.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_vnc_use.errors import AnswerRefused, PlannerError, SettingsError
from pytest_vnc_use.planners.anthropic.actions import MEMBERS, UNAVAILABLE, Call, read_calls
from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.arguments import Arguments
from pytest_vnc_use.planners.common.functions import Declaration, declare_all
from pytest_vnc_use.planners.common.http import (
    ApiKey,
    Backoff,
    Failure,
    Service,
    count_of,
    found_key,
    found_url,
    malformed,
)
from pytest_vnc_use.planners.common.judge import Grid, ServiceJudge
from pytest_vnc_use.planners.common.planner import Answer, ComputerPlanner
from pytest_vnc_use.planners.common.screens import ImageLimit
from pytest_vnc_use.planners.common.toolset import GIVE_UP, check_at_least_one, check_excluded, left_at
from pytest_vnc_use.planners.common.turns import (
    KEPT_TURNS,
    CallSteps,
    problem_of_call,
    removed_of,
    result_of_call,
    screens_seen,
    skipped,
    steps_by_call,
)
from pytest_vnc_use.types import FrameRef, JsonObject, Observation, Proposal, Turn, Usage

API_URL = "https://api.anthropic.com"
API_VERSION = "2023-06-01"
KEY_VARIABLE = "ANTHROPIC_API_KEY"
URL_VARIABLE = "ANTHROPIC_BASE_URL"

TOOLSET = "computer"
"""The `toolset_name` of a member's call, and the name of the older tools."""


@dataclass(frozen=True)
class Tool:
    """One version of the tool: its beta header, if it has one, and the largest image that its models use unscaled.

    Sources: "Computer use tool", earlier versions; "Vision", resolution: 28 x 28 pixels a visual token, models up to
    4.6 at most 1568 tokens and pixels a side, 4.7 and later 4784 and 2576.
    """

    beta: str
    limit: ImageLimit


SMALLER = ImageLimit(longest_side=1568, patch=28, patches=1568)
LARGER = ImageLimit(longest_side=2576, patch=28, patches=4784)

TOOLS = {
    "computer_toolset_20260801": Tool("", LARGER),
    "computer_20251124": Tool("computer-use-2025-11-24", SMALLER),
    "computer_20250124": Tool("computer-use-2025-01-24", SMALLER),
}


def anthropic_service(model: str, api_key: ApiKey, base_url: str | None, beta: str = "") -> Service:
    """Return the service of a model. Raises KeyMissing, KeyRejected, SettingsError."""
    key, url = found_key(api_key, (KEY_VARIABLE,)), found_url(base_url, URL_VARIABLE) or API_URL
    headers = {"x-api-key": key, "anthropic-version": API_VERSION, **({"anthropic-beta": beta} if beta else {})}
    return Service(f"{url.rstrip('/')}/v1/messages", model, key, headers, usage_of, api_key)


class AnthropicComputer(ComputerPlanner[Call]):
    """A planner that asks Claude with one of Anthropic's computer use tools.

    `tool` is the version that the model takes; the newest models take only the toolset. `functions` are Python
    callables with docstrings and type hints; the model may call them by name, and the agent performs the call.
    `excluded_actions` are names of the tool's actions. `include_thoughts` asks for summaries of thoughts, which models
    before 4.6 refuse. `max_tokens` counts thinking too. `api_key` and `base_url` default to ANTHROPIC_API_KEY and
    ANTHROPIC_BASE_URL. Raises SettingsError, and KeyMissing if no key is set.
    """

    provider, kept_as = "anthropic", "content"

    def __init__(
        self,
        *,
        model: str = "claude-sonnet-5",
        tool: str = "computer_toolset_20260801",
        api_key: ApiKey = None,
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
        self._tool, self._limit = tool, TOOLS[tool].limit
        super().__init__(anthropic_service(model, api_key, base_url, TOOLS[tool].beta), backoff)
        self._excluded = check_excluded(excluded_actions, known=MEMBERS)
        self._declarations = (GIVE_UP, *declare_all(functions, taken=(*MEMBERS, TOOLSET, GIVE_UP.name)))
        self._keep, self._shows_first = keep_screenshots, include_initial_screenshot
        self._fixed: JsonObject = {
            "model": model,
            "max_tokens": max_tokens,
            "system": prompts.OPERATOR if system_instruction is None else system_instruction,
            "cache_control": {"type": "ephemeral"},
            **({"thinking": {"type": "adaptive", "display": "summarized"}} if include_thoughts else {}),
        }

    def _body(self, observation: Observation) -> JsonObject:
        # only the toolset can leave out excluded actions, and it has no screen size
        if not TOOLS[self._tool].beta:
            disabled = {name: {"enabled": False} for name in (*UNAVAILABLE, *sorted(self._excluded))}
            computer: JsonObject = {"type": self._tool, "configs": disabled}
        else:
            width, height = self._sent(observation)
            size = {"display_width_px": width, "display_height_px": height}
            computer = {"type": self._tool, "name": TOOLSET, **size}
        tools = [computer, *map(_declared, self._declarations)]
        return {**self._fixed, "tools": tools, "messages": self._messages(observation)}

    def _messages(self, observation: Observation) -> list[JsonObject]:
        """Return the messages so far. Each turn has one screenshot, the screen after it; the newest is always sent."""
        turns = [turn for turn in observation.turns if turn.steps]
        seen = screens_seen(turns, observation.frame)
        removed = removed_of(len(seen), self._keep)
        in_words = max(0, removed - KEPT_TURNS)

        def image(number: int) -> JsonObject:
            """Return the screen of the request of turn `number`, counted from 0, as a content block."""
            if number < removed:
                return _text(prompts.OLDER_SCREEN)
            return _image(self._limit.fit(observation.load_png(seen[number])))

        task = prompts.task_in_words(observation.task, turns[:in_words])
        first = [*([image(0)] if self._shows_first else []), _text(task)]
        messages: list[JsonObject] = [{"role": "user", "content": first}]
        for number, turn in list(enumerate(turns))[in_words:]:
            changed = removed_of(number + 1, self._keep) != removed
            messages.extend(_messages_of(turn, image(number + 1), without_thinking=changed))
        return messages

    def _read(self, body: JsonObject) -> Answer[Call] | Failure:
        return read_answer(body)

    def _reason_to_give_up(self, calls: Sequence[Call]) -> str | None:
        return next((str(call.args.get("reason") or "") for call in calls if call.name == GIVE_UP.name), None)

    def _proposals(
        self, calls: Sequence[Call], read: Callable[..., Arguments], observation: Observation
    ) -> list[tuple[Proposal, ...]]:
        return read_calls(
            calls,
            read,
            pointer=left_at(observation.turns),
            functions=[declaration.name for declaration in self._declarations],
            excluded=self._excluded,
        )


class AnthropicJudge(ServiceJudge):
    """A judge that asks Claude, without the computer use tool, with the answer bound to a schema.

    Source: platform.claude.com/docs, "Structured outputs", with the keywords that its schemas may not have. Models
    without structured outputs are asked in words. `limit` is the largest screenshot that the model uses unscaled.
    `max_tokens` counts thinking too. `api_key` and `base_url` default to ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL.
    Raises SettingsError, and KeyMissing if no key is set.
    """

    def __init__(
        self,
        *,
        model: str = "claude-sonnet-5",
        api_key: ApiKey = None,
        base_url: str | None = None,
        limit: ImageLimit = LARGER,
        max_tokens: int = 16_000,
        backoff: Backoff | None = None,
    ) -> None:
        super().__init__(anthropic_service(model, api_key, base_url), read_answer, backoff=backoff)
        self._limit = limit
        self._fixed: JsonObject = {"model": model, "max_tokens": max_tokens}

    def _grid(self, screen: FrameRef) -> Grid:
        return Grid(*self._limit.fitted(screen.width, screen.height))

    def _body(self, part: str, asked: Observation) -> JsonObject:
        question = [_image(self._limit.fit(asked.load_png(asked.frame))), _text(asked.task)]
        return {**self._fixed, "system": part, "messages": [{"role": "user", "content": question}]}

    def _binding(self, name: str, schema: JsonObject) -> JsonObject:
        return {"output_config": {"format": {"type": "json_schema", "schema": _drop_lengths(schema)}}}


def _drop_lengths(schema: Any) -> Any:
    """Return the schema without the lengths of its arrays, which are not supported."""
    if isinstance(schema, dict):
        return {key: _drop_lengths(inner) for key, inner in schema.items() if key not in ("minItems", "maxItems")}
    return [_drop_lengths(inner) for inner in schema] if isinstance(schema, list) else schema


def _declared(declaration: Declaration) -> JsonObject:
    return {
        "name": declaration.name,
        "description": declaration.description,
        "input_schema": dict(declaration.parameters),
    }


WHOLE = frozenset({"end_turn", "tool_use", "stop_sequence"})
"""Stop reasons of an answer that was not cut off."""


def read_answer(body: JsonObject) -> Answer[Call] | Failure:
    """Return the answer in a response, or why it cannot be used: refused, or worth asking again at once."""
    reason = str(body.get("stop_reason") or "no stop reason")
    content: Any = body.get("content")
    if reason == "refusal":
        details = body.get("stop_details")
        details = details if isinstance(details, dict) else {}
        reasons = [str(details[name]) for name in ("category", "explanation") if details.get(name)]
        why = ": ".join(reasons) or "no reason given"
        return Failure(AnswerRefused(f"the model refused to answer: {why}"))
    if reason == "model_context_window_exceeded":
        return Failure(PlannerError("the conversation is longer than the model's context window"))
    if reason not in WHOLE:
        return malformed(f"its stop reason is {reason!r}")
    try:
        uses = [block for block in content if block["type"] == "tool_use"]
        answer = Answer(
            items=content,
            words=_join(content, "text"),
            thoughts=_join(content, "thinking"),
            calls=tuple(map(_call, uses)),
            usage=usage_of(body),
            model=str(body.get("model") or ""),
        )
        is_whole = len({block["id"] for block in uses}) == len(uses) and bool(answer.calls or answer.words)
    except (AttributeError, KeyError, TypeError, ValueError):
        is_whole = False
    return answer if is_whole else malformed(f"its content is {content!r}")


def _call(block: JsonObject) -> Call:
    """Return a call. For the older tools, its name is the name of the action."""
    name, args = str(block["name"]), dict(block["input"])
    if block.get("toolset_name") == TOOLSET:
        return Call(name, args, is_computer=True)
    if name == TOOLSET:
        return Call(str(args.pop("action", name)), args, is_computer=True)
    return Call(name, args, is_computer=False)


def _join(content: Sequence[JsonObject], kind: str) -> str:
    return "\n".join(block[kind] for block in content if block["type"] == kind and block[kind].strip()).strip()


def usage_of(body: JsonObject) -> Usage:
    """Return the tokens of a response.

    `input_tokens` exclude tokens read from the cache or written to it. `output_tokens` include thinking.
    """
    counts = body.get("usage")
    thinking = count_of(counts, "output_tokens_details", "thinking_tokens")
    read, written = count_of(counts, "cache_read_input_tokens"), count_of(counts, "cache_creation_input_tokens")
    return Usage(
        input=count_of(counts, "input_tokens") + read + written,
        cached=read,
        output=max(0, count_of(counts, "output_tokens") - thinking),
        thinking=thinking,
    )


NOT_EXECUTED = "Not executed: an earlier computer action in this turn failed."
"""The service's own words (platform.claude.com/docs, "Computer use tool"), which models were trained on."""

THINKING = ("thinking", "redacted_thinking")


def _messages_of(turn: Turn, image: JsonObject, *, without_thinking: bool) -> Iterator[JsonObject]:
    """Yield Claude's words and the results; if they are missing or incomplete, a summary in a user message."""
    calls = steps_by_call(turn)
    content: Sequence[JsonObject] = turn.decision.provider_details.get("content") or ()
    blocks = [block for block in content if block["type"] == "tool_use"]
    if calls is None or len(calls) != len(blocks):
        yield {"role": "user", "content": [_text(prompts.format_turn(turn)), image]}
        return
    results = [_result(*each) for each in zip(blocks, calls, skipped(calls), strict=True)]
    results[-1]["content"].append(image)
    yield {"role": "assistant", "content": [block for block in content if _goes_back(block, without_thinking)]}
    yield {"role": "user", "content": results}


def _goes_back(block: JsonObject, without_thinking: bool) -> bool:
    """Return whether the block is sent back. The service refuses text without a letter, although it may send it."""
    if block["type"] == "text":
        return bool(block["text"].strip())
    return not (without_thinking and block["type"] in THINKING)


def _result(block: JsonObject, steps: CallSteps, was_skipped: bool) -> dict[str, Any]:
    """Return the one tool_result of a call. For a member of a toolset it names the toolset too."""
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": block["id"]}
    if block.get("toolset_name") == TOOLSET:
        result["toolset_name"] = TOOLSET
    if problem_of_call(steps):
        result["is_error"] = True
    return result | {"content": [_text(NOT_EXECUTED if was_skipped else result_of_call(steps))]}


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _image(png: bytes) -> JsonObject:
    data = base64.b64encode(png).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
