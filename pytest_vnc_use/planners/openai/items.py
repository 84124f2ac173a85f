"""The input items for OpenAI's Responses API, rebuilt from an observation: the model's own as they came, and outputs.

Nothing is stored at the service, so all items go back, encrypted reasoning too. A computer_call needs a picture in its
output. So turns whose picture is not sent any more are summarised in words, in the first message. Several are
summarised at a time: in between, items are only added, and a cached prompt stays useful.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.pixels import PictureLimit
from pytest_vnc_use.planners.common.turn_results import (
    CallSteps,
    removed_of,
    result_of_call,
    screens_seen,
    skipped,
    steps_by_call,
)
from pytest_vnc_use.planners.openai.answers import CALLS
from pytest_vnc_use.types import JsonObject, Observation, Turn


def rebuild_items(
    observation: Observation,
    *,
    limit: PictureLimit,
    keep_screenshots: int = 3,
    include_initial_screenshot: bool = True,
) -> list[JsonObject]:
    """Return the items so far. Each turn has one screenshot, the screen after it; the newest is always sent."""
    turns = [turn for turn in observation.turns if turn.steps]
    seen = screens_seen(turns, observation.frame)
    removed = removed_of(len(seen), keep_screenshots)
    in_words = max(0, removed - 1)

    def url(number: int) -> str:
        """Return the screen of the request of turn `number`, counted from 0."""
        png = limit.fit(observation.load_png(seen[number]))
        return f"data:image/png;base64,{base64.b64encode(png).decode()}"

    first = prompts.task_in_words(observation.task, turns[:in_words])
    items = [_users(first, url(0) if include_initial_screenshot and not removed else None)]
    for number, turn in list(enumerate(turns))[in_words:]:
        items.extend(_items_of(turn, url(number + 1)))
    return items


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
    picture = [{"type": "input_image", "image_url": url, "detail": "original"}] if url else []
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}, *picture]}
