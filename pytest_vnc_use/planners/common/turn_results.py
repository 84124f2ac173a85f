"""A model's calls and what became of them, where one call may be several steps: keys held down around a click."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from pytest_vnc_use.planners.common import prompts
from pytest_vnc_use.types import Action, Confirmation, FrameRef, JsonObject, Proposal, Step, Turn

KEPT_TURNS = 20
"""How many turns at most, of those whose pictures are not sent any more, go back in the model's own words."""

CallSteps = tuple[Step, ...]
"""The steps of one call, in order."""


def proposals_of(
    name: str, args: JsonObject, actions: Sequence[Action], confirmation: Confirmation | None = None
) -> tuple[Proposal, ...]:
    """The actions of one call as proposals, under the call's name: a rule about that holds for each of them.

    Where there are several, each tells what it is a part of the call, so that in words nothing was done twice.
    """
    shown = [copy.deepcopy(dict(args))] if len(actions) == 1 else [_part(action) for action in actions]
    return tuple(
        Proposal(action, as_proposed={"name": name, "args": each}, confirmation=confirmation)
        for action, each in zip(actions, shown, strict=True)
    )


def _part(action: Action) -> JsonObject:
    return {action.kind: {name: value for name, value in vars(action).items() if name != "kind"}}


def steps_by_call(turn: Turn) -> list[CallSteps] | None:
    """The steps of each call, as `counts` in the turn's provider_details has them.

    None where the turn is not whole, or was another provider's: then its calls cannot be answered.
    """
    counts: Sequence[int] = turn.decision.provider_details.get("counts") or ()
    if not counts or sum(counts) != len(turn.steps):
        return None
    ends = list(accumulate(counts))
    return [turn.steps[end - count : end] for count, end in zip(counts, ends, strict=True)]


def skipped(calls: Sequence[CallSteps]) -> list[bool]:
    """For each call whether it was skipped because of an earlier one, as `Decision.stop_at_error` asks."""
    failed = accumulate((bool(problem_of_call(steps)) for steps in calls), func=bool.__or__, initial=False)
    return list(failed)[: len(calls)]


def problem_of_call(steps: CallSteps) -> str:
    """Why the call was not carried out to its end, or nothing where it was."""
    return next(filter(None, map(prompts.problem_of, steps)), "")


def result_of_call(steps: CallSteps) -> str:
    """What came of the call, as text for the model: its problem, or what its functions returned, and all notes."""
    said = problem_of_call(steps) or "\n".join(step.output for step in steps if step.output) or "ok"
    return "\n".join([said, *(step.note for step in steps if step.note)])


# --- the screens that a model has seen -------------------------------------------------------------------------------


def screen_in_details(screen: FrameRef) -> JsonObject:
    """The screen a model was asked about, for its decision's provider_details."""
    return {"digest": screen.digest, "width": screen.width, "height": screen.height}


def screen_asked_about(turn: Turn) -> FrameRef:
    """The screen that the turn's model was asked about; where it did not say, the one before the turn's first step."""
    told: Any = turn.decision.provider_details.get("screen")
    return FrameRef(**told) if told else turn.steps[0].frame_before


def screens_seen(turns: Sequence[Turn], now: FrameRef) -> list[FrameRef]:
    """The screen that each turn was asked about, and `now`, the one that the next is asked about.

    The same for every later request, so that what was sent before stays as it was sent.
    """
    return [*map(screen_asked_about, turns), now]


def newest_pictured(turns: Sequence[Turn], keep: int) -> set[int]:
    """The numbers of the steps whose pictures are sent: those of whole turns, the newest, until they are `keep`."""
    numbers: set[int] = set()
    for turn in reversed(turns):
        if len(numbers) >= keep:
            break
        numbers.update(step.number for step in turn.steps)
    return numbers


def removed_of(count: int, keep: int) -> int:
    """How many of the oldest of so many pictures, or turns, are not sent: at most `keep` are, and at least half of it.

    They go several at a time, so that in between nothing that was sent before changes.
    """
    at_once = keep // 2 + 1
    return max(0, -(-(count - keep) // at_once) * at_once)
