"""The contents of a request to Gemini, rebuilt from an observation.

They repeat the model's own words as they came (`Decision.provider_details`), each followed by one function response a
call. The oldest turns are summarised in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, islice
from typing import Any

from google.genai import types

from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.planners.common.calls import FunctionCall
from pytest_vnc_use.planners.common.turn_results import KEPT_TURNS, newest_pictured, removed_of
from pytest_vnc_use.planners.gemini.actions import NO_PAGE
from pytest_vnc_use.planners.gemini.answers import extract_function_calls
from pytest_vnc_use.planners.gemini.service import models_words
from pytest_vnc_use.types import Observation, Step, Turn


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
    return response_to(call, response, png, acknowledged=acknowledged)


def response_to(
    call: FunctionCall, response: dict[str, Any], png: bytes | None, *, acknowledged: bool
) -> types.FunctionResponse:
    """Return the response to a call, with the screen after it as PNG if it is sent."""
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
    if len(calls) != len(turn.steps) or any(map(_is_unacknowledged, turn.steps)):
        yield _users_words(prompts.format_turn(turn), png_after(turn.steps[-1]))
        return
    responses = [
        build_function_response(call, step, png_after(step), with_url=with_url)
        for call, step in zip(calls, turn.steps, strict=True)
    ]
    yield models_words(content)
    yield types.Content(role="user", parts=[types.Part(function_response=response) for response in responses])


def _is_unacknowledged(step: Step) -> bool:
    """Return whether a confirmation was refused. The service accepts no history without its acknowledgement."""
    return step.proposal.confirmation is not None and step.ruling.kind != "allow"
