"""OpenAI's models as planner, with their computer tool, and as judge: the Responses
API, in plain JSON.

Source of the format: developers.openai.com, "Computer use", "Images and vision", and
the types of the openai SDK 3.54. The SDK itself is not used, because its retries and
time-outs are not the run's, and fields unknown to its models would not go back
unchanged.

A modifier held around an action is a separate step, and so is each direction of a
diagonal scroll.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pytest_vnc_use.errors import AnswerRefused
from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.arguments import (
    PIXELS_PER_WHEEL_CLICK,
    Arguments,
    Reader,
    Unreadable,
    pixel_of,
    read_action,
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
from pytest_vnc_use.planners.common.toolset import GIVE_UP, MAX_ACTIONS
from pytest_vnc_use.planners.common.turns import (
    CallSteps,
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
    Confirmation,
    Direction,
    Drag,
    FrameRef,
    InvalidAction,
    JsonObject,
    KeyCombo,
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
from pytest_vnc_use.types.actions import TOO_DEEP, is_shallow

API_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"
LIMIT = ImageLimit(max_side=6000, patch=32, patches=10_000)
"""The largest screenshot that `detail: original` uses unscaled: 10.24 million pixels,
6000 a side.
"""
CALLS = ("computer_call", "function_call")
WAIT_S = 2.0
"""The length of a wait, which the call does not give. The guide's examples take two
seconds.
"""

BUTTONS: Mapping[str, Button] = {
    "left": "left",
    "right": "right",
    "wheel": "middle",
}
MODIFIERS = frozenset(
    {
        "ctrl",
        "control",
        "shift",
        "alt",
        "option",
        "meta",
        "cmd",
        "command",
        "super",
        "win",
    }
)


def _click(args: Arguments) -> tuple[Action, ...]:
    name = args.get("button") or "left"
    button = BUTTONS.get(str(name))
    if button is None:
        raise Unreadable(
            f"'button' must be left, right or wheel, got {name!r}; press alt+left to go"
            " back"
        )
    return while_held(args.keys("keys"), Click(*args.target(), button=button))


def _drag(args: Arguments) -> tuple[Action, ...]:
    path = args.first("path")
    if not isinstance(path, list) or len(path) < 2:
        raise Unreadable(
            f"'path' must be a list of at least two points, got {path!r:.200}"
        )
    start = pixel_of(path[0], args.screen, args.sent)
    end = pixel_of(path[-1], args.screen, args.sent)
    return while_held(args.keys("keys"), Drag(*start, *end))


def _scroll(args: Arguments) -> tuple[Action, ...]:
    """Return the scrolls. Distances are pixels, down and to the right if positive."""
    right = args.number("scroll_x", default=0.0)
    down = args.number("scroll_y", default=0.0)
    vertical: Direction = "down" if down > 0 else "up"
    horizontal: Direction = "right" if right > 0 else "left"
    point = args.target()
    distances = ((down, vertical), (right, horizontal))
    scrolls = [
        Scroll(*point, direction, wheel_clicks(px / PIXELS_PER_WHEEL_CLICK))
        for px, direction in distances
        if px
    ]
    if not scrolls:
        raise Unreadable(
            "'scroll_x' or 'scroll_y' must be a number of pixels other than 0"
        )
    return while_held(args.keys("keys"), *scrolls)


def _keypress(args: Arguments) -> tuple[Action, ...]:
    """Return one combination if there is a modifier; else one press after the other."""
    keys = split_keys(args.first("keys"))
    if MODIFIERS.isdisjoint(key.lower() for key in keys):
        return tuple(KeyCombo((key,)) for key in keys)
    return (KeyCombo(keys),)


def _type(args: Arguments) -> Action:
    text = args.first("text")
    if not isinstance(text, str):
        raise Unreadable(f"'text' must be text, got {text!r}")
    return TypeText(text)


READERS: Mapping[str, Reader] = {
    "click": _click,
    "double_click": lambda args: while_held(
        args.keys("keys"), Click(*args.target(), count=2)
    ),
    "drag": _drag,
    "keypress": _keypress,
    "move": lambda args: while_held(args.keys("keys"), Move(*args.target())),
    "screenshot": lambda _: TakeScreenshot(),
    "scroll": _scroll,
    "type": _type,
    "wait": lambda _: Wait(WAIT_S),
}
ACTIONS = tuple(READERS)


def openai_service(model: str, api_key: ApiKey, base_url: str | None) -> Service:
    """Return the service of a model. Raises KeyMissing, KeyRejected, SettingsError."""
    key = resolve_key(api_key, (KEY_VARIABLE,))
    url = resolve_url(base_url, URL_VARIABLE) or API_URL
    return Service(
        url=f"{url.rstrip('/')}/responses",
        model=model,
        key=key,
        headers={"Authorization": f"Bearer {key}"},
        usage_of=usage_of,
        api_key=api_key,
        answer_fields=("output",),
        url_help=(
            f"{URL_VARIABLE} must be the URL that has /responses below it, such as"
            f" {API_URL}"
        ),
    )


class OpenAIComputer(ComputerPlanner[JsonObject]):
    """A planner that asks a model of OpenAI with its computer tool.

    `functions` are Python callables with docstrings and type hints; the model may call
    them by name, and the agent performs the call. `excluded_actions` are names of the
    tool's actions. `include_thoughts` requests reasoning summaries. `max_output_tokens`
    counts reasoning too. `api_key` and `base_url` (with its `/v1`) default to
    OPENAI_API_KEY and OPENAI_BASE_URL. Raises SettingsError, and KeyMissing if no key
    is set.
    """

    provider = "openai"
    items_key = "output"
    actions = ACTIONS
    _limit = LIMIT

    def __init__(
        self,
        *,
        model: str = "gpt-5.5",
        api_key: ApiKey = None,
        base_url: str | None = None,
        excluded_actions: Sequence[str] = (),
        functions: Sequence[Callable[..., object]] = (),
        include_thoughts: bool = False,
        keep_screenshots: int = 3,
        system_instruction: str | None = None,
        max_output_tokens: int = 16_000,
        backoff: Backoff | None = None,
    ) -> None:
        super().__init__(
            openai_service(model, api_key, base_url),
            read_answer,
            backoff,
            excluded_actions=excluded_actions,
            functions=functions,
            reserved=("computer",),
            keep_screenshots=keep_screenshots,
        )
        declared = [  # A strict schema must require every parameter.
            {
                "type": "function",
                "name": declaration.name,
                "description": declaration.description,
                "parameters": dict(declaration.parameters),
                "strict": False,
            }
            for declaration in self._declarations
        ]
        system = prompts.OPERATOR if system_instruction is None else system_instruction
        self._fixed: dict[str, Any] = {
            "model": model,
            "instructions": system,
            "tools": [{"type": "computer"}, *declared],
            "max_output_tokens": max_output_tokens,
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        if include_thoughts:
            self._fixed["reasoning"] = {"summary": "auto"}

    def _body(self, observation: Observation) -> JsonObject:
        return {**self._fixed, "input": self._items(observation)}

    def _items(self, observation: Observation) -> list[JsonObject]:
        """Return the items so far. Each turn has one screenshot, the screen after it;
        the newest is always sent.
        """
        turns = [turn for turn in observation.turns if turn.steps]
        first_screen, *later_screens = screens_seen(turns, observation.frame)
        removed = removed_of(1 + len(later_screens), self._keep)
        summarized = max(0, removed - 1)
        task = prompts.format_task(observation.task, turns[:summarized])
        first_url = None if removed else _url(first_screen, observation)
        items = [_user_message(task, first_url)]
        sent = list(zip(turns, later_screens, strict=True))[summarized:]
        for turn, screen_after in sent:
            items.extend(_items_of(turn, _url(screen_after, observation)))
        return items

    def _reason_to_give_up(self, calls: Sequence[JsonObject]) -> str | None:
        for call in calls:
            if call.get("name") == GIVE_UP.name:
                [proposal] = read_function_call(call, functions=(GIVE_UP.name,))
                action = proposal.action
                if isinstance(action, CallFunction):
                    return str(action.arguments.get("reason") or "")
                return ""
        return None

    def _proposals(
        self,
        calls: Sequence[JsonObject],
        read: Callable[..., Arguments],
        observation: Observation,
    ) -> list[tuple[Proposal, ...]]:
        proposals = []
        for call in calls:
            if call["type"] == "function_call":
                proposals.append(read_function_call(call, functions=self._functions))
            else:
                proposals.append(
                    read_computer_call(call, read, excluded=self._excluded)
                )
        return proposals


class OpenAIJudge(ServiceJudge):
    """A judge that asks a model of OpenAI, without the computer tool, with the answer
    bound to a schema.

    `max_output_tokens` counts reasoning too. `api_key` and `base_url` (with its `/v1`)
    default to OPENAI_API_KEY and OPENAI_BASE_URL. Raises SettingsError, and KeyMissing
    if no key is set.
    """

    def __init__(
        self,
        *,
        model: str = "gpt-5.5",
        api_key: ApiKey = None,
        base_url: str | None = None,
        max_output_tokens: int = 16_000,
        backoff: Backoff | None = None,
    ) -> None:
        super().__init__(
            openai_service(model, api_key, base_url), read_answer, backoff=backoff
        )
        self._fixed: JsonObject = {
            "model": model,
            "max_output_tokens": max_output_tokens,
            "store": False,
        }

    def _grid(self, screen: FrameRef) -> Grid:
        return Grid(*LIMIT.fitted(screen.width, screen.height))

    def _body(self, rules: str, observation: Observation) -> JsonObject:
        url = _url(observation.frame, observation)
        return {
            **self._fixed,
            "instructions": rules,
            "input": [_user_message(observation.task, url)],
        }

    def _binding(self, name: str, schema: JsonObject) -> JsonObject:
        return {
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": name,
                    "strict": True,
                    "schema": schema,
                }
            }
        }


def read_computer_call(
    item: JsonObject,
    read: Callable[[JsonObject], Arguments],
    *,
    excluded: Collection[str] = (),
) -> tuple[Proposal, ...]:
    """Return the proposals of a computer_call, at least one. Each of them carries the
    call's safety checks.

    `read` makes the arguments of an action, for the screen of the turn.
    """
    confirmation = read_confirmation(item.get("pending_safety_checks"))
    actions = item.get("actions") or [item.get("action")]
    if not isinstance(actions, list) or len(actions) > MAX_ACTIONS:
        problem = (
            f"'actions' must be a list of 1 to {MAX_ACTIONS} actions; nothing was done"
        )
        return proposals_of(
            "computer", {}, [InvalidAction("computer", problem)], confirmation
        )
    proposals: list[Proposal] = []
    offered = sorted(set(READERS) - set(excluded))
    for action in actions:
        fields = dict(action) if isinstance(action, dict) else {}
        name = str(fields.pop("type", "computer"))
        performed = read_action(
            name, read(fields), READERS, offered=offered, excluded=excluded
        )
        proposals += proposals_of(name, fields, performed, confirmation)
    return tuple(proposals)


def read_function_call(
    item: JsonObject, *, functions: Collection[str]
) -> tuple[Proposal, ...]:
    """Return the proposal for a call of a user's function, whose arguments are JSON in
    a string.
    """
    name = str(item.get("name"))
    try:
        if name not in functions:
            raise Unreadable(
                f"there is no function {name!r}; use one of those that you were given"
            )
        arguments = _arguments_of(item, name)
    except Unreadable as exc:
        return proposals_of(name, {}, [InvalidAction(name, str(exc))])
    return proposals_of(name, arguments, [CallFunction(name, arguments)])


def _arguments_of(item: JsonObject, name: str) -> JsonObject:
    try:
        arguments = json.loads(item.get("arguments") or "{}")
    except (TypeError, ValueError, RecursionError) as exc:
        raise Unreadable(f"the arguments of {name!r} must be JSON: {exc}") from exc
    if not isinstance(arguments, dict):
        raise Unreadable(f"the arguments of {name!r} must be a JSON object")
    if not is_shallow(arguments):
        raise Unreadable(f"the arguments of {name!r} {TOO_DEEP}")
    return arguments


def read_confirmation(checks: Any) -> Confirmation | None:
    """Return pending safety checks, each `{"id", "code", "message"}`, as a request for
    the user's confirmation.
    """
    if not isinstance(checks, list):
        return None
    checks = [check for check in checks if isinstance(check, dict)]
    if not checks:
        return None
    messages = [
        str(check.get("message") or check.get("code") or check.get("id"))
        for check in checks
    ]
    return Confirmation(
        "; ".join(messages),
        ", ".join(str(check["code"]) for check in checks if check.get("code")),
    )


def read_answer(body: JsonObject) -> ModelAnswer[JsonObject] | Failure:
    """Return the answer in a response, or why it cannot be used: refused, or worth
    asking again at once.
    """
    details = body.get("incomplete_details")
    reason = str(details.get("reason") or "") if isinstance(details, dict) else ""
    output: Any = body.get("output")
    if reason == "content_filter":
        return Failure(
            AnswerRefused("the model's service blocked the answer: content_filter")
        )
    if body.get("status") != "completed":
        return malformed(f"its status is {body.get('status')!r} {reason}")
    with suppress(AttributeError, LookupError, TypeError):
        content = _parts_of(output, "message", "content")
        if refusal := _join(part.get("refusal") for part in content):
            return Failure(AnswerRefused(f"the model refused to answer: {refusal}"))
        thoughts = _parts_of(output, "reasoning", "summary")
        answer = ModelAnswer(
            items=output,
            text=_join(part.get("text") for part in content),
            reasoning=_join(part.get("text") for part in thoughts),
            calls=tuple(item for item in output if item["type"] in CALLS),
            usage=usage_of(body),
            model=str(body.get("model") or ""),
        )
        ids = {str(call["call_id"] or "") for call in answer.calls} - {""}
        has_all_ids = len(ids) == len(answer.calls)
        # the service rejects a history that ends in reasoning
        ends_whole = output[-1]["type"] != "reasoning"
        if (answer.calls or answer.text) and has_all_ids and ends_whole:
            return answer
    return malformed(f"its output is {output!r}")


def _parts_of(output: Any, item_type: str, field: str) -> list[JsonObject]:
    """Return the parts in a field of all items of a type."""
    parts: list[JsonObject] = []
    for item in output:
        if item["type"] == item_type:
            parts += item[field]
    return parts


def _join(texts: Iterable[Any]) -> str:
    return "\n".join(
        text for text in texts if isinstance(text, str) and text.strip()
    ).strip()


def usage_of(body: JsonObject) -> Usage:
    """Return the tokens of a response.

    `input_tokens` include the cached ones; `output_tokens` include reasoning.
    """
    counts = body.get("usage")
    thinking = count_of(counts, "output_tokens_details", "reasoning_tokens")
    return Usage(
        input=count_of(counts, "input_tokens"),
        cached=count_of(counts, "input_tokens_details", "cached_tokens"),
        output=max(0, count_of(counts, "output_tokens") - thinking),
        thinking=thinking,
    )


def _items_of(turn: Turn, url: str) -> Iterator[JsonObject]:
    """Yield the model's items and the outputs; if the service would reject them, a
    summary in a user message.
    """
    output: Sequence[JsonObject] = turn.decision.provider_details.get("output") or ()
    calls = [item for item in output if item["type"] in CALLS]
    steps_of_calls = steps_by_call(turn)
    if (
        steps_of_calls is None
        or len(steps_of_calls) != len(calls)
        or not _is_acknowledged(calls, steps_of_calls)
    ):
        yield _user_message(prompts.format_turn(turn), url)
        return
    yield from output
    on_screen: list[CallSteps] = []
    for call, steps in zip(calls, steps_of_calls, strict=True):
        yield _output_of(call, steps, url)
        if call["type"] == "computer_call":
            on_screen.append(steps)
    if not on_screen:
        yield _user_message(prompts.NEWER_SCREEN, url)
    elif any(result_of_call(steps) != "ok" for steps in on_screen):
        yield _user_message(prompts.format_turn(turn))


def _is_acknowledged(
    calls: Sequence[JsonObject], steps_of_calls: Sequence[CallSteps]
) -> bool:
    """Return whether every call with safety checks was allowed. The service accepts no
    history with others.
    """
    are_skipped = skipped(steps_of_calls)
    for call, steps, is_skipped in zip(calls, steps_of_calls, are_skipped, strict=True):
        is_allowed = all(step.ruling.kind == "allow" for step in steps)
        if call.get("pending_safety_checks") and (is_skipped or not is_allowed):
            return False
    return True


def _output_of(item: JsonObject, steps: CallSteps, url: str) -> JsonObject:
    """Return the one output of a call. It acknowledges the safety checks, because they
    were allowed.
    """
    if item["type"] == "function_call":
        return {
            "type": "function_call_output",
            "call_id": item["call_id"],
            "output": result_of_call(steps),
        }
    output: dict[str, Any] = {
        "type": "computer_call_output",
        "call_id": item["call_id"],
        "output": {
            "type": "computer_screenshot",
            "image_url": url,
            "detail": "original",
        },
    }
    if checks := item.get("pending_safety_checks"):
        output["acknowledged_safety_checks"] = checks
    return output


def _user_message(text: str, url: str | None = None) -> JsonObject:
    content = [{"type": "input_text", "text": text}]
    if url:
        content.append({"type": "input_image", "image_url": url, "detail": "original"})
    return {"type": "message", "role": "user", "content": content}


def _url(screen: FrameRef, observation: Observation) -> str:
    png = LIMIT.fit(observation.load_png(screen))
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
