"""OpenAI's models as planner, with their own computer tool, and as judge: the Responses API, in plain JSON.

Source of the format: developers.openai.com, "Computer use", "Images and vision", and the types of the openai SDK 3.54.
The SDK itself is not used, because its retries and time-outs are not the run's, and fields unknown to its models would
not go back unchanged.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from pytest_vnc_use.errors import AnswerRefused
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
from pytest_vnc_use.planners.common.toolset import GIVE_UP, check_at_least_one, check_excluded
from pytest_vnc_use.planners.common.turns import (
    CallSteps,
    removed_of,
    result_of_call,
    screens_seen,
    skipped,
    steps_by_call,
)
from pytest_vnc_use.planners.openai.actions import ACTIONS, read_computer_call, read_function_call
from pytest_vnc_use.types import CallFunction, FrameRef, JsonObject, Observation, Proposal, Turn, Usage

API_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"
LIMIT = ImageLimit(longest_side=6000, patch=32, patches=10_000)
"""The largest screenshot that `detail: original` uses unscaled: 10.24 million pixels, 6000 a side."""
CALLS = ("computer_call", "function_call")


def openai_service(model: str, api_key: ApiKey, base_url: str | None) -> Service:
    """Return the service of a model. Raises KeyMissing, KeyRejected, SettingsError."""
    key, url = found_key(api_key, (KEY_VARIABLE,)), found_url(base_url, URL_VARIABLE) or API_URL
    return Service(f"{url.rstrip('/')}/responses", model, key, {"Authorization": f"Bearer {key}"}, usage_of, api_key)


class OpenAIComputer(ComputerPlanner[JsonObject]):
    """A planner that asks a model of OpenAI with its computer tool.

    `functions` are Python callables with docstrings and type hints; the model may call them by name, and the agent
    performs the call. `excluded_actions` are names of the tool's actions. `include_thoughts` asks for summaries of
    thoughts. `max_output_tokens` counts reasoning too. `api_key` and `base_url` (with its `/v1`) default to
    OPENAI_API_KEY and OPENAI_BASE_URL. Raises SettingsError, and KeyMissing if no key is set.
    """

    provider, kept_as, _limit = "openai", "output", LIMIT

    def __init__(
        self,
        *,
        model: str = "gpt-5.5",
        api_key: ApiKey = None,
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
        super().__init__(openai_service(model, api_key, base_url), backoff)
        self._excluded = check_excluded(excluded_actions, known=ACTIONS)
        declarations = declare_all(functions, taken=("computer", GIVE_UP.name))
        self._functions = frozenset(declaration.name for declaration in declarations)
        self._keep, self._shows_first = keep_screenshots, include_initial_screenshot
        self._fixed: JsonObject = {
            "model": model,
            "instructions": prompts.OPERATOR if system_instruction is None else system_instruction,
            "tools": [{"type": "computer"}, *map(_declarations, (GIVE_UP, *declarations))],
            "max_output_tokens": max_output_tokens,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            **({"reasoning": {"summary": "auto"}} if include_thoughts else {}),
        }

    def _body(self, observation: Observation) -> JsonObject:
        return {**self._fixed, "input": self._items(observation)}

    def _items(self, observation: Observation) -> list[JsonObject]:
        """Return the items so far. Each turn has one screenshot, the screen after it; the newest is always sent."""
        turns = [turn for turn in observation.turns if turn.steps]
        urls = [partial(_url, screen, observation) for screen in screens_seen(turns, observation.frame)]
        removed = removed_of(len(urls), self._keep)
        in_words = max(0, removed - 1)
        task = prompts.task_in_words(observation.task, turns[:in_words])
        items = [_users(task, urls[0]() if self._shows_first and not removed else None)]
        for turn, url in zip(turns[in_words:], urls[in_words + 1 :], strict=True):
            items.extend(_items_of(turn, url()))
        return items

    def _read(self, body: JsonObject) -> Answer[JsonObject] | Failure:
        return read_answer(body)

    def _reason_to_give_up(self, calls: Sequence[JsonObject]) -> str | None:
        for call in calls:
            if call.get("name") == GIVE_UP.name:
                [proposal] = read_function_call(call, functions=(GIVE_UP.name,))
                action = proposal.action
                return str(action.arguments.get("reason") or "") if isinstance(action, CallFunction) else ""
        return None

    def _proposals(
        self, calls: Sequence[JsonObject], read: Callable[..., Arguments], observation: Observation
    ) -> list[tuple[Proposal, ...]]:
        return [
            read_function_call(call, functions=self._functions)
            if call["type"] == "function_call"
            else read_computer_call(call, read, excluded=self._excluded)
            for call in calls
        ]


class OpenAIJudge(ServiceJudge):
    """A judge that asks a model of OpenAI, without the computer tool, with the answer bound to a schema.

    `max_output_tokens` counts reasoning too. `api_key` and `base_url` (with its `/v1`) default to OPENAI_API_KEY and
    OPENAI_BASE_URL. Raises SettingsError, and KeyMissing if no key is set.
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
        super().__init__(openai_service(model, api_key, base_url), read_answer, backoff=backoff)
        self._fixed: JsonObject = {"model": model, "max_output_tokens": max_output_tokens, "store": False}

    def _grid(self, screen: FrameRef) -> Grid:
        return Grid(*LIMIT.fitted(screen.width, screen.height))

    def _body(self, part: str, asked: Observation) -> JsonObject:
        return {**self._fixed, "instructions": part, "input": [_users(asked.task, _url(asked.frame, asked))]}

    def _binding(self, name: str, schema: JsonObject) -> JsonObject:
        return {"text": {"format": {"type": "json_schema", "name": name, "strict": True, "schema": schema}}}


def _declarations(declaration: Declaration) -> JsonObject:
    """Return the declaration for the service. It is not strict: a strict schema must require each parameter."""
    return {
        "type": "function",
        "name": declaration.name,
        "description": declaration.description,
        "parameters": dict(declaration.parameters),
        "strict": False,
    }


def read_answer(body: JsonObject) -> Answer[JsonObject] | Failure:
    """Return the answer in a response, or why it cannot be used: refused, or worth asking again at once."""
    details = body.get("incomplete_details")
    reason = str(details.get("reason") or "") if isinstance(details, dict) else ""
    output: Any = body.get("output")
    if reason == "content_filter":
        return Failure(AnswerRefused("the model's service blocked the answer: content_filter"))
    if body.get("status") != "completed":
        return malformed(f"its status is {body.get('status')!r} {reason}")
    try:
        said = [part for item in output if item["type"] == "message" for part in item["content"]]
        if refusal := _join(part.get("refusal") for part in said):
            return Failure(AnswerRefused(f"the model refused to answer: {refusal}"))
        summaries = [part for item in output if item["type"] == "reasoning" for part in item["summary"]]
        answer = Answer(
            items=output,
            words=_join(part.get("text") for part in said),
            thoughts=_join(part.get("text") for part in summaries),
            calls=tuple(item for item in output if item["type"] in CALLS),
            usage=usage_of(body),
            model=str(body.get("model") or ""),
        )
        ids = {str(call["call_id"] or "") for call in answer.calls} - {""}
        is_whole = bool(answer.calls or answer.words) and len(ids) == len(answer.calls)
        is_whole = is_whole and output[-1]["type"] != "reasoning"  # the service takes no such history
    except (AttributeError, KeyError, TypeError):
        is_whole = False
    return answer if is_whole else malformed(f"its output is {output!r}")


def _join(texts: Iterable[Any]) -> str:
    return "\n".join(text for text in texts if isinstance(text, str) and text.strip()).strip()


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
    """Yield the model's items and the outputs; if the service would refuse them, a summary in a user message."""
    output: Sequence[JsonObject] = turn.decision.provider_details.get("output") or ()
    asked = [item for item in output if item["type"] in CALLS]
    calls = steps_by_call(turn)
    if calls is None or len(calls) != len(asked) or not _is_acknowledged(asked, calls):
        yield _users(prompts.format_turn(turn), url)
        return
    yield from output
    yield from (_output_of(item, steps, url) for item, steps in zip(asked, calls, strict=True))
    on_screen = [steps for item, steps in zip(asked, calls, strict=True) if item["type"] == "computer_call"]
    if not on_screen:
        yield _users(prompts.NEWER_SCREEN, url)
    elif any(result_of_call(steps) != "ok" for steps in on_screen):
        yield _users(prompts.format_turn(turn))


def _is_acknowledged(asked: Sequence[JsonObject], calls: Sequence[CallSteps]) -> bool:
    """Return whether every call with safety checks was allowed. The service accepts no history with others."""
    return all(
        not was_skipped and all(step.ruling.kind == "allow" for step in steps)
        for item, steps, was_skipped in zip(asked, calls, skipped(calls), strict=True)
        if item.get("pending_safety_checks")
    )


def _output_of(item: JsonObject, steps: CallSteps, url: str) -> JsonObject:
    """Return the one output of a call. It acknowledges the safety checks, because they were allowed."""
    if item["type"] == "function_call":
        return {"type": "function_call_output", "call_id": item["call_id"], "output": result_of_call(steps)}
    output: dict[str, Any] = {
        "type": "computer_call_output",
        "call_id": item["call_id"],
        "output": {"type": "computer_screenshot", "image_url": url, "detail": "original"},
    }
    checks = item.get("pending_safety_checks")
    return output | ({"acknowledged_safety_checks": checks} if checks else {})


def _users(text: str, url: str | None = None) -> JsonObject:
    image = [{"type": "input_image", "image_url": url, "detail": "original"}] if url else []
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}, *image]}


def _url(screen: FrameRef, observation: Observation) -> str:
    png = LIMIT.fit(observation.load_png(screen))
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
