"""Claude as planner, with Anthropic's computer use tools, and as judge: the Messages
API, in plain JSON.

Source of the format: platform.claude.com/docs, "Computer use tool", "Vision",
"Preserved thinking", and the types of the anthropic SDK 2.12. The SDK itself is not
used, because its retries and time-outs are not the run's, and fields unknown to its
models would not go back unchanged.

The actions are the members of `computer_toolset_20260801`; in the older
`computer_20251124` and `computer_20250124` they are values of `action`. A modifier held
around an action is a separate step.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_vnc_use.errors import AnswerRefused, PlannerError, SettingsError
from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.arguments import (
    Arguments,
    Reader,
    Unreadable,
    number_of,
    read_action,
    seconds_to_wait,
    split_keys,
    wheel_clicks,
)
from pytest_vnc_use.planners.common.http import (
    ApiKey,
    Backoff,
    Failure,
    Service,
    count_of,
    malformed,
    resolve_key,
    resolve_url,
)
from pytest_vnc_use.planners.common.judge import Grid, ServiceJudge
from pytest_vnc_use.planners.common.screens import ImageLimit
from pytest_vnc_use.planners.common.service_planner import ComputerPlanner, ModelAnswer
from pytest_vnc_use.planners.common.toolset import GIVE_UP, left_at
from pytest_vnc_use.planners.common.turns import (
    KEPT_TURNS,
    CallSteps,
    pointer_after,
    problem_of_call,
    proposals_of,
    removed_of,
    result_of_call,
    screens_seen,
    skipped,
    steps_by_call,
    while_held,
)
from pytest_vnc_use.types import (
    Action,
    Button,
    CallFunction,
    Click,
    Drag,
    FrameRef,
    JsonObject,
    KeyCombo,
    MouseDown,
    MouseUp,
    Move,
    Observation,
    Proposal,
    Scroll,
    TakeScreenshot,
    Turn,
    TypeText,
    Usage,
    Wait,
)
from pytest_vnc_use.types.actions import Point

API_URL = "https://api.anthropic.com"
API_VERSION = "2023-06-01"
KEY_VARIABLE = "ANTHROPIC_API_KEY"
URL_VARIABLE = "ANTHROPIC_BASE_URL"

TOOLSET = "computer"
"""The `toolset_name` of a member's call, and the name of the older tools."""


@dataclass(frozen=True)
class ToolVersion:
    """One version of the tool: its beta header, if it has one, and the largest image
    that its models use unscaled.

    Sources: "Computer use tool", earlier versions; "Vision", resolution: 28 x 28 pixels
    a visual token, models up to 4.6 at most 1568 tokens and pixels a side, 4.7 and
    later 4784 and 2576.
    """

    beta: str
    limit: ImageLimit


SMALLER = ImageLimit(max_side=1568, patch=28, patches=1568)
LARGER = ImageLimit(max_side=2576, patch=28, patches=4784)

TOOLS = {
    "computer_toolset_20260801": ToolVersion("", LARGER),
    "computer_20251124": ToolVersion("computer-use-2025-11-24", SMALLER),
    "computer_20250124": ToolVersion("computer-use-2025-01-24", SMALLER),
}


MAX_REPEATS = 20
"""The maximum presses of one `key`, each a separate step. The documented limit is 100.
"""

UNAVAILABLE = ("zoom", "cursor_position")
"""Members that no desktop supports. They are not offered; a model that uses one gets an
error.
"""


@dataclass(frozen=True)
class ToolUse:
    """One tool_use block. `is_computer` marks the computer's members, as other tools
    may have the same names.
    """

    name: str
    args: JsonObject
    is_computer: bool


def _read_text(args: Arguments) -> str:
    text = args.first("text")
    if not isinstance(text, str) or not text:
        raise Unreadable(f"'text' must be text, got {text!r}")
    return text


def _click(
    args: Arguments, *, button: Button = "left", count: int = 1
) -> tuple[Action, ...]:
    return while_held(
        args.keys("text"), Click(*args.at_pointer(), button=button, count=count)
    )


def _drag(args: Arguments) -> tuple[Action, ...]:
    return while_held(args.keys("text"), Drag(*args.point("start_"), *args.target()))


def _scroll(args: Arguments) -> tuple[Action, ...]:
    clicks = wheel_clicks(number_of("scroll_amount", args.first("scroll_amount")))
    scroll = Scroll(*args.at_pointer(), args.direction("scroll_direction"), clicks)
    return while_held(args.keys("text"), scroll)


def _key(args: Arguments) -> tuple[Action, ...]:
    value = args.get("repeat")
    repeat = 1 if value is None else number_of("repeat", value)
    if not 1 <= repeat <= MAX_REPEATS or repeat != int(repeat):
        raise Unreadable(
            f"'repeat' must be a whole number, 1 to {MAX_REPEATS}, got {value!r}"
        )
    return (KeyCombo(split_keys(_read_text(args))),) * int(repeat)


def _wait(args: Arguments) -> Action:
    return Wait(seconds_to_wait(number_of("duration", args.first("duration"))))


def _zoom(_: Arguments) -> tuple[Action, ...]:
    raise Unreadable(
        "'zoom' is not supported; look at the newest screenshot, it shows the whole"
        " screen"
    )


def _cursor_position(args: Arguments) -> tuple[Action, ...]:
    where = "it was not moved yet"
    if args.pointer:
        where = f"you last moved it to pixel {args.pointer} of the screen"
    raise Unreadable(f"'cursor_position' is not supported; {where}")


READERS: Mapping[str, Reader] = {
    "screenshot": lambda _: TakeScreenshot(),
    "left_click": _click,
    "right_click": partial(_click, button="right"),
    "middle_click": partial(_click, button="middle"),
    "double_click": partial(_click, count=2),
    "triple_click": partial(_click, count=3),
    "left_click_drag": _drag,
    "mouse_move": lambda args: Move(*args.target()),
    "left_mouse_down": lambda args: MouseDown(*args.at_pointer()),
    "left_mouse_up": lambda args: MouseUp(*args.at_pointer()),
    "scroll": _scroll,
    "type": lambda args: TypeText(_read_text(args)),
    "key": _key,
    "hold_key": lambda args: while_held(split_keys(_read_text(args)), _wait(args)),
    "wait": _wait,
    "zoom": _zoom,
    "cursor_position": _cursor_position,
}
MEMBERS = tuple(READERS)


def read_calls(
    calls: Sequence[ToolUse],
    read: Callable[..., Arguments],
    *,
    pointer: Point | None,
    functions: Collection[str] = (),
    excluded: Collection[str] = (),
) -> list[tuple[Proposal, ...]]:
    """Return the proposals of each call, in order, at least one a call. `functions` are
    the user's names.

    `read` makes the arguments of a call, for the turn's screen and the pointer position
    before the call. `pointer` is the position before the first call.
    """
    offered = [
        name for name in MEMBERS if name not in (*excluded, *UNAVAILABLE)
    ] + sorted(functions)
    proposals: list[tuple[Proposal, ...]] = []
    for call in calls:
        if not call.is_computer and call.name in functions:
            actions: tuple[Action, ...] = (CallFunction(call.name, call.args),)
        else:
            readers = READERS if call.is_computer else {}
            args = read(call.args, pointer=pointer)
            actions = read_action(
                call.name,
                args,
                readers,
                offered=offered,
                excluded=excluded,
                noun="tool",
            )
        pointer = pointer_after(actions, pointer)
        proposals.append(proposals_of(call.name, call.args, actions))
    return proposals


def anthropic_service(
    model: str, api_key: ApiKey, base_url: str | None, beta: str = ""
) -> Service:
    """Return the service of a model. Raises KeyMissing, KeyRejected, SettingsError."""
    key = resolve_key(api_key, (KEY_VARIABLE,))
    url = resolve_url(base_url, URL_VARIABLE) or API_URL
    headers = {
        "x-api-key": key,
        "anthropic-version": API_VERSION,
        **({"anthropic-beta": beta} if beta else {}),
    }
    return Service(
        f"{url.rstrip('/')}/v1/messages",
        model,
        key,
        headers,
        usage_of,
        api_key,
        answer_fields=("content",),
        url_help=(
            f"{URL_VARIABLE} must be the URL that has /v1/messages below it, such as"
            f" {API_URL}"
        ),
    )


class AnthropicComputer(ComputerPlanner[ToolUse]):
    """A planner that asks Claude with one of Anthropic's computer use tools.

    `tool` is the version that the model takes; the newest models take only the toolset.
    `functions` are Python callables with docstrings and type hints; the model may call
    them by name, and the agent performs the call. `excluded_actions` are names of the
    tool's actions. `include_thoughts` requests reasoning summaries, which models before
    4.6 reject. `max_tokens` counts thinking too. `api_key` and `base_url` default to
    ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL. Raises SettingsError, and KeyMissing if no
    key is set.
    """

    provider = "anthropic"
    items_key = "content"
    actions = MEMBERS

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
        keep_screenshots: int = 3,
        system_instruction: str | None = None,
        max_tokens: int = 16_000,
        backoff: Backoff | None = None,
    ) -> None:
        if tool not in TOOLS:
            raise SettingsError(f"tool must be one of {sorted(TOOLS)}, got {tool!r}")
        self._tool = tool
        self._limit = TOOLS[tool].limit
        super().__init__(
            anthropic_service(model, api_key, base_url, TOOLS[tool].beta),
            read_answer,
            backoff,
            excluded_actions=excluded_actions,
            functions=functions,
            reserved=(*MEMBERS, TOOLSET),
            keep_screenshots=keep_screenshots,
        )
        system = prompts.OPERATOR if system_instruction is None else system_instruction
        self._fixed: dict[str, Any] = {
            "model": model,
            "max_tokens": max_tokens,
            "system": system,
            "cache_control": {"type": "ephemeral"},
        }
        if include_thoughts:
            self._fixed["thinking"] = {"type": "adaptive", "display": "summarized"}

    def _body(self, observation: Observation) -> JsonObject:
        # Only the toolset can exclude actions, and it has no screen size.
        if not TOOLS[self._tool].beta:
            disabled = {
                name: {"enabled": False}
                for name in (*UNAVAILABLE, *sorted(self._excluded))
            }
            computer: JsonObject = {"type": self._tool, "configs": disabled}
        else:
            width, height = self._sent(observation)
            size = {"display_width_px": width, "display_height_px": height}
            computer = {"type": self._tool, "name": TOOLSET, **size}
        declared = [
            {
                "name": declaration.name,
                "description": declaration.description,
                "input_schema": dict(declaration.parameters),
            }
            for declaration in self._declarations
        ]
        return {
            **self._fixed,
            "tools": [computer, *declared],
            "messages": self._messages(observation),
        }

    def _messages(self, observation: Observation) -> list[JsonObject]:
        """Return the messages so far. Each turn has one screenshot, the screen after
        it; the newest is always sent.
        """
        turns = [turn for turn in observation.turns if turn.steps]
        seen = screens_seen(turns, observation.frame)
        removed = removed_of(len(seen), self._keep)
        summarized = max(0, removed - KEPT_TURNS)

        def image(number: int) -> JsonObject:
            """Return the screen of the request of turn `number`, counted from 0, as a
            content block.
            """
            if number < removed:
                return _text(prompts.OLDER_SCREEN)
            return _image(self._limit.fit(observation.load_png(seen[number])))

        task = prompts.format_task(observation.task, turns[:summarized])
        messages: list[JsonObject] = [
            {"role": "user", "content": [image(0), _text(task)]}
        ]
        for number, turn in list(enumerate(turns))[summarized:]:
            changed = removed_of(number + 1, self._keep) != removed
            messages.extend(
                _messages_of(turn, image(number + 1), without_thinking=changed)
            )
        return messages

    def _reason_to_give_up(self, calls: Sequence[ToolUse]) -> str | None:
        return next(
            (
                str(call.args.get("reason") or "")
                for call in calls
                if call.name == GIVE_UP.name
            ),
            None,
        )

    def _proposals(
        self,
        calls: Sequence[ToolUse],
        read: Callable[..., Arguments],
        observation: Observation,
    ) -> list[tuple[Proposal, ...]]:
        pointer = left_at(observation.turns)
        return read_calls(
            calls,
            read,
            pointer=pointer,
            functions=self._functions,
            excluded=self._excluded,
        )


class AnthropicJudge(ServiceJudge):
    """A judge that asks Claude, without the computer use tool, with the answer bound to
    a schema.

    Source: platform.claude.com/docs, "Structured outputs", with the keywords that its
    schemas may not have. Models without structured outputs are asked in text. `limit`
    is the largest screenshot that the model uses unscaled. `max_tokens` counts thinking
    too. `api_key` and `base_url` default to ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL.
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
        super().__init__(
            anthropic_service(model, api_key, base_url), read_answer, backoff=backoff
        )
        self._limit = limit
        self._fixed: JsonObject = {"model": model, "max_tokens": max_tokens}

    def _grid(self, screen: FrameRef) -> Grid:
        return Grid(*self._limit.fitted(screen.width, screen.height))

    def _body(self, rules: str, observation: Observation) -> JsonObject:
        question = [
            _image(self._limit.fit(observation.load_png(observation.frame))),
            _text(observation.task),
        ]
        return {
            **self._fixed,
            "system": rules,
            "messages": [{"role": "user", "content": question}],
        }

    def _binding(self, name: str, schema: JsonObject) -> JsonObject:
        return {
            "output_config": {
                "format": {"type": "json_schema", "schema": _drop_lengths(schema)}
            }
        }


def _drop_lengths(schema: Any) -> Any:
    """Return the schema without the lengths of its arrays, which are not supported."""
    if isinstance(schema, dict):
        return {
            key: _drop_lengths(inner)
            for key, inner in schema.items()
            if key not in ("minItems", "maxItems")
        }
    if isinstance(schema, list):
        return [_drop_lengths(inner) for inner in schema]
    return schema


WHOLE = frozenset({"end_turn", "tool_use", "stop_sequence"})
"""Stop reasons of an answer that was not cut off."""


def read_answer(body: JsonObject) -> ModelAnswer[ToolUse] | Failure:
    """Return the answer in a response, or why it cannot be used: refused, or worth
    asking again at once.
    """
    reason = str(body.get("stop_reason") or "no stop reason")
    content: Any = body.get("content")
    if reason == "refusal":
        details = body.get("stop_details")
        if not isinstance(details, dict):
            details = {}
        reasons = (details.get("category"), details.get("explanation"))
        why = ": ".join(str(reason) for reason in reasons if reason)
        why = why or "no reason given"
        return Failure(AnswerRefused(f"the model refused to answer: {why}"))
    if reason == "model_context_window_exceeded":
        return Failure(
            PlannerError("the conversation is longer than the model's context window")
        )
    if reason not in WHOLE:
        return malformed(f"its stop reason is {reason!r}")
    try:
        uses = [block for block in content if block["type"] == "tool_use"]
        answer = ModelAnswer(
            items=content,
            text=_join(content, "text"),
            reasoning=_join(content, "thinking"),
            calls=tuple(map(_tool_use, uses)),
            usage=usage_of(body),
            model=str(body.get("model") or ""),
        )
        is_whole = len({block["id"] for block in uses}) == len(uses) and bool(
            answer.calls or answer.text
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        is_whole = False
    return answer if is_whole else malformed(f"its content is {content!r}")


def _tool_use(block: JsonObject) -> ToolUse:
    """Return a call. For the older tools, its name is the name of the action."""
    name = str(block["name"])
    args = dict(block["input"])
    if block.get("toolset_name") == TOOLSET:
        return ToolUse(name, args, is_computer=True)
    if name == TOOLSET:
        return ToolUse(str(args.pop("action", name)), args, is_computer=True)
    return ToolUse(name, args, is_computer=False)


def _join(content: Sequence[JsonObject], kind: str) -> str:
    return "\n".join(
        block[kind]
        for block in content
        if block["type"] == kind and block[kind].strip()
    ).strip()


def usage_of(body: JsonObject) -> Usage:
    """Return the tokens of a response.

    `input_tokens` exclude tokens read from the cache or written to it. `output_tokens`
    include thinking.
    """
    counts = body.get("usage")
    thinking = count_of(counts, "output_tokens_details", "thinking_tokens")
    read = count_of(counts, "cache_read_input_tokens")
    written = count_of(counts, "cache_creation_input_tokens")
    return Usage(
        input=count_of(counts, "input_tokens") + read + written,
        cached=read,
        output=max(0, count_of(counts, "output_tokens") - thinking),
        thinking=thinking,
    )


NOT_EXECUTED = "Not executed: an earlier computer action in this turn failed."
"""The service's text (platform.claude.com/docs, "Computer use tool"), which models were
trained on.
"""

THINKING = ("thinking", "redacted_thinking")


def _messages_of(
    turn: Turn, image: JsonObject, *, without_thinking: bool
) -> Iterator[JsonObject]:
    """Yield Claude's content and the results; if they are missing or incomplete, a
    summary in a user message.
    """
    calls = steps_by_call(turn)
    content: Sequence[JsonObject] = turn.decision.provider_details.get("content") or ()
    blocks = [block for block in content if block["type"] == "tool_use"]
    if calls is None or len(calls) != len(blocks):
        yield {"role": "user", "content": [_text(prompts.format_turn(turn)), image]}
        return
    results = [
        _result(*call) for call in zip(blocks, calls, skipped(calls), strict=True)
    ]
    results[-1]["content"].append(image)
    yield {
        "role": "assistant",
        "content": [block for block in content if _goes_back(block, without_thinking)],
    }
    yield {"role": "user", "content": results}


def _goes_back(block: JsonObject, without_thinking: bool) -> bool:
    """Return whether the block is sent back. The service rejects blank text, although
    it may send it.
    """
    if block["type"] == "text":
        return bool(block["text"].strip())
    return not (without_thinking and block["type"] in THINKING)


def _result(block: JsonObject, steps: CallSteps, was_skipped: bool) -> dict[str, Any]:
    """Return the one tool_result of a call. For a member of a toolset it names the
    toolset too.
    """
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": block["id"]}
    if block.get("toolset_name") == TOOLSET:
        result["toolset_name"] = TOOLSET
    if problem_of_call(steps):
        result["is_error"] = True
    return result | {
        "content": [_text(NOT_EXECUTED if was_skipped else result_of_call(steps))]
    }


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _image(png: bytes) -> JsonObject:
    data = base64.b64encode(png).decode()
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": data},
    }
