"""The messages of a chat completion, rebuilt from an observation. Their size has a limit, however long the run is.

A tool answers in text only, because most servers refuse pictures there; the screen follows in a user message. The
newest turns are in the model's own words. The turns before them are summarised in one line a step, and the oldest of
these are left out.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pytest_vnc_use.planners.chat.answers import ChatAnswer, ToolCall
from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.turn_results import screens_seen
from pytest_vnc_use.types import JsonObject, Observation, Step, Turn

KEPT_TURNS = 10
LONGEST_TEXT = 2000
"""The most characters of a result, or of the model's own words, that are sent again."""

Message = dict[str, Any]


def rebuild_messages(
    observation: Observation,
    *,
    system: str,
    keep_screenshots: int,
    include_initial_screenshot: bool = True,
    keep_thoughts: int = 0,
    result_of: Callable[[Step], str] = prompts.result_in_words,
) -> list[Message]:
    """Return the conversation so far with the newest `keep_screenshots` pictures. A line replaces each older one.

    The newest `keep_thoughts` turns are sent with the model's thoughts. `result_of` writes the result of a step.
    """
    turns = [turn for turn in observation.turns if turn.steps]
    recent, older = turns[-KEPT_TURNS:], turns[:-KEPT_TURNS]
    task = prompts.task_in_words(observation.task, older)
    first = observation.first_frame if turns else observation.frame
    with_first = include_initial_screenshot and not older and len(recent) < keep_screenshots
    first_png = observation.load_png(first) if with_first else None
    messages = [{"role": "system", "content": system}, user_message(task, first_png)]
    seen = screens_seen(recent, observation.frame)[1:]
    for age, turn, frame in zip(reversed(range(len(recent))), recent, seen, strict=True):
        png = observation.load_png(frame) if age < keep_screenshots else None
        messages += _messages_of(turn, png, result_of, with_thoughts=age < keep_thoughts)
    return messages


def _messages_of(
    turn: Turn, png: bytes | None, result_of: Callable[[Step], str], *, with_thoughts: bool
) -> Iterator[Message]:
    """Yield the model's words, a result for each of its calls, and the screen; or a summary in a user message."""
    details = turn.decision.provider_details.get("chat") or {"message": {}, "actions": []}
    screen = prompts.NEWER_SCREEN if png is not None else prompts.OLDER_SCREEN
    if not details["actions"] or sum(details["actions"]) != len(turn.steps):
        yield user_message(f"{_cut(prompts.format_turn(turn))}\n{screen}", png)
        return
    thoughts = details.get("thoughts", "") if with_thoughts else ""
    words = details["message"]["content"]
    yield {**details["message"], "content": f"<think>\n{thoughts}\n</think>\n\n{words}" if thoughts else words}
    steps = iter(turn.steps)
    for call, count in zip(details["message"]["tool_calls"], details["actions"], strict=True):
        result = _result([next(steps) for _ in range(count)], result_of)
        yield {"role": "tool", "tool_call_id": call["id"], "content": result}
    yield user_message(screen, png)


def _result(steps: Sequence[Step], result_of: Callable[[Step], str]) -> str:
    """Return the result of one call, or the results of each action of a batch."""
    if len(steps) == 1:
        return _cut(result_of(steps[0]))
    results = [f"{step.proposal.as_proposed['name']}: {result_of(step)}" for step in steps]
    return _cut("\n".join(f"{number}. {line}" for number, line in enumerate(results, start=1)))


def user_message(text: str, png: bytes | None = None) -> Message:
    """Return a message of the user, with the picture after the text."""
    if png is None:
        return {"role": "user", "content": text}
    url = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return {
        "role": "user",
        "content": [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}],
    }


def details_of(answer: ChatAnswer, actions: Sequence[int], number: int) -> JsonObject:
    """Return the data of an answer to send back: its calls, each with an id, and the number of actions of each.

    Its thoughts are kept apart. The arguments are written as JSON again, because servers fail on a history with other
    arguments. `number` is the turn's.
    """
    ids = [call.call.id for call in answer.calls]
    if not all(ids) or len(set(ids)) < len(ids):
        ids = [f"call_{number}_{place}" for place in range(len(ids))]
    calls = [_sent_back(call, call_id) for call, call_id in zip(answer.calls, ids, strict=True)]
    message = {"role": "assistant", "content": _cut(answer.words), "tool_calls": calls}
    thoughts = {"thoughts": _cut(answer.thoughts)} if answer.thoughts else {}
    return {"chat": {"message": message, "actions": list(actions), **thoughts}}


def _sent_back(call: ToolCall, call_id: str) -> JsonObject:
    function = {"name": call.call.name or "unknown", "arguments": json.dumps(dict(call.call.args))}
    return {"id": call_id, "type": "function", "function": function, **call.extra}


def refusal_messages(answer: ChatAnswer, line: str) -> list[Message]:
    """Return an answer that is not carried out, and the line that says why."""
    calls = ", ".join(call.call.name for call in answer.calls[:20])
    words = answer.words or (f"(calls of {calls})" if calls else "(nothing)")
    return [{"role": "assistant", "content": _cut(words)}, user_message(prompts.not_carried_out(line))]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} … (cut, of {len(text)} characters)"
