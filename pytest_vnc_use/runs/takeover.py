"""The planner that goes on where a recording drifts: its name, and what it sees of the run.

The mark of a replayed turn is in the run folder too, so a run that is resumed shows its planner the same.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

from pytest_vnc_use.runs.transcript import step_line
from pytest_vnc_use.types import Observation

REPLAYED = "pytest_vnc_use.replayed"
"""Provider details of a turn that was read from a recording. No planner has a word like it."""
ONLY_REPLAYED = "recording"
"""The name of a replay without a live planner."""
_UNTIL_IT_DRIFTS = "recording, or where that drifts "


def replaying_name(live: str) -> str:
    """Return the name of a replay with a live planner of this name."""
    return f"{_UNTIL_IT_DRIFTS}{live}"


def live_name(name: str) -> str:
    """Return the name of the live planner of a replay; any other planner keeps its name."""
    return name.removeprefix(_UNTIL_IT_DRIFTS)


def seen_by_live(observation: Observation) -> Observation:
    """Return the live planner's observation: its own turns, and the replayed steps as text in the task.

    The text has no names of elements, because those of a recording are only for readers.
    """
    before = list(takewhile(lambda turn: REPLAYED in turn.decision.provider_details, observation.turns))
    if not before:
        return observation
    own = observation.turns[len(before) :]
    done = [step_line(replace(step, elements=())) for turn in before for step in turn.steps]
    first = own[0].steps[0].frame_before if own and own[0].steps else observation.frame
    return replace(observation, task=_with_done(observation.task, done), first_frame=first, turns=own)


def _with_done(task: str, done: list[str]) -> str:
    if not done:
        return task
    steps = "\n".join(done)
    return f"{task}\n\nThese steps of it have been carried out already; go on from what the screen shows:\n{steps}"
