"""A model's calls and their results. One call may be several steps, such as keys held
down around a click.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Any

from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.types import (
    Action,
    Confirmation,
    FrameRef,
    JsonObject,
    KeyDown,
    KeyUp,
    Proposal,
    Step,
    Turn,
)
from pytest_vnc_use.types.actions import Point, points

KEPT_TURNS = 20
"""The maximum turns without images that go back as the model's messages."""

CallSteps = tuple[Step, ...]
"""The steps of one call, in order."""


def steps_of(turns: Iterable[Turn]) -> list[Step]:
    """Return the steps of all these turns, in order."""
    return list(chain.from_iterable(turn.steps for turn in turns))


def while_held(keys: Sequence[str], *actions: Action) -> tuple[Action, ...]:
    """Return the actions between presses of the keys, in order, and releases, in
    reverse order.
    """
    return (*map(KeyDown, keys), *actions, *map(KeyUp, reversed(keys)))


def pointer_after(
    actions: Iterable[Action], pointer: Point | None = None
) -> Point | None:
    """Return the pointer position after the actions, if they determine it; before them
    it was `pointer`.
    """
    for action in actions:
        pointer = (points(action) or (pointer,))[-1]
    return pointer


def proposals_of(
    name: str,
    args: JsonObject,
    actions: Sequence[Action],
    confirmation: Confirmation | None = None,
) -> tuple[Proposal, ...]:
    """Return the actions of one call as proposals under the call's name, so that a rule
    about that name holds for each.

    Several proposals have their own arguments, so that no summary repeats an action.
    """
    proposals = []
    for action in actions:
        if len(actions) == 1:
            input_ = copy.deepcopy(dict(args))
        else:
            fields = dict(vars(action))
            fields.pop("kind", None)
            input_ = {action.kind: fields}
        proposed = {"name": name, "args": input_}
        proposals.append(
            Proposal(action, as_proposed=proposed, confirmation=confirmation)
        )
    return tuple(proposals)


def steps_by_call(turn: Turn) -> list[CallSteps] | None:
    """Return the steps of each call, by the `counts` in the turn's provider_details.

    Return None if the turn is not complete, or came from another provider: then its
    calls cannot be answered.
    """
    counts: Sequence[int] = turn.decision.provider_details.get("counts") or ()
    if not counts or sum(counts) != len(turn.steps):
        return None
    ends = list(accumulate(counts))
    return [
        turn.steps[end - count : end] for count, end in zip(counts, ends, strict=True)
    ]


def skipped(calls: Sequence[CallSteps]) -> list[bool]:
    """Return for each call whether it was skipped after an earlier one failed, as
    `Decision.stop_at_error` asks.
    """
    has_failed = False
    skips = []
    for steps in calls:
        skips.append(has_failed)
        has_failed = has_failed or bool(problem_of_call(steps))
    return skips


def problem_of_call(steps: CallSteps) -> str:
    """Return why the call was not performed completely; "" if it was."""
    return next(filter(None, map(prompts.problem_of, steps)), "")


def result_of_call(steps: CallSteps) -> str:
    """Return the result of the call as text for the model: its problem or its
    functions' output, and all notes.
    """
    outputs = "\n".join(step.output for step in steps if step.output)
    result = problem_of_call(steps) or outputs or "ok"
    notes = [step.note for step in steps if step.note]
    return "\n".join([result, *notes])


def screens_seen(turns: Sequence[Turn], now: FrameRef) -> list[FrameRef]:
    """Return the screen of each turn's request, and `now`, the screen of the next
    request.

    They stay the same in every later request, so that the prefix sent before does not
    change. A screen that is not noted in a decision is the one before the turn's first
    step.
    """
    screens: list[FrameRef] = []
    for turn in turns:
        noted: Any = turn.decision.provider_details.get("screen")
        before = turn.steps[0].frame_before
        screens.append(FrameRef(**noted) if noted else before)
    return [*screens, now]


def removed_of(count: int, keep: int) -> int:
    """Return how many of the oldest of `count` images or turns are not sent.

    At most `keep` are sent, and at least half as many. Several are removed at a time, so
    that the prefix sent before does not change in between.
    """
    at_once = keep // 2 + 1
    return max(0, -(-(count - keep) // at_once) * at_once)
