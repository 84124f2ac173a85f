"""The conversation with Claude, rebuilt from an observation: its own words as they came, and the results of its calls.

Newer models check that nothing before a thinking block has changed since they wrote it (platform.claude.com/docs,
"Preserved thinking"). A cached prompt, too, is useful only as long as it does not change. So several old screenshots
are removed at a time; in between, messages are only added. Thinking from before the last removal is left out. The
oldest turns are summarised in the first message, and more of them only when screenshots are removed: no request grows
with the run.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pytest_vnc_use.planners.anthropic.answers import TOOLSET
from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.pixels import PictureLimit
from pytest_vnc_use.planners.common.turn_results import (
    KEPT_TURNS,
    CallSteps,
    problem_of_call,
    removed_of,
    result_of_call,
    screens_seen,
    skipped,
    steps_by_call,
)
from pytest_vnc_use.types import FrameRef, JsonObject, Observation, Turn

NOT_EXECUTED = "Not executed: an earlier computer action in this turn failed."
"""The service's own words (platform.claude.com/docs, "Computer use tool"), which models were trained on."""

THINKING = ("thinking", "redacted_thinking")


def rebuild_messages(
    observation: Observation,
    *,
    limit: PictureLimit,
    keep_screenshots: int = 3,
    include_initial_screenshot: bool = True,
) -> list[JsonObject]:
    """Return the messages so far. Each turn has one screenshot, the screen after it; the newest is always sent."""
    turns = [turn for turn in observation.turns if turn.steps]
    seen = screens_seen(turns, observation.frame)
    removed = removed_of(len(seen), keep_screenshots)
    in_words = max(0, removed - KEPT_TURNS)

    def picture(number: int) -> JsonObject:
        """Return the screen of the request of turn `number`, counted from 0, as a content block."""
        return _image(seen[number], limit, observation.load_png) if number >= removed else _text(prompts.OLDER_SCREEN)

    task = prompts.task_in_words(observation.task, turns[:in_words])
    first = [*([picture(0)] if include_initial_screenshot else []), _text(task)]
    messages: list[JsonObject] = [{"role": "user", "content": first}]
    for number, turn in list(enumerate(turns))[in_words:]:
        changed = removed_of(number + 1, keep_screenshots) != removed
        messages.extend(_messages_of(turn, picture(number + 1), without_thinking=changed))
    return messages


def _messages_of(turn: Turn, picture: JsonObject, *, without_thinking: bool) -> Iterator[JsonObject]:
    """Yield Claude's words and the results; if they are missing or incomplete, a summary in a user message."""
    calls = steps_by_call(turn)
    content: Sequence[JsonObject] = turn.decision.provider_details.get("content") or ()
    blocks = [block for block in content if block["type"] == "tool_use"]
    if calls is None or len(calls) != len(blocks):
        yield {"role": "user", "content": [_text(prompts.format_turn(turn)), picture]}
        return
    results = [_result(*each) for each in zip(blocks, calls, skipped(calls), strict=True)]
    results[-1]["content"].append(picture)
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


def _image(screen: FrameRef, limit: PictureLimit, load_png: Callable[[FrameRef], bytes]) -> JsonObject:
    png = limit.fit(load_png(screen))
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(png).decode()},
    }
