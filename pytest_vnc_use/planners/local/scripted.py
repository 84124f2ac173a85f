"""A planner that follows a script and asks no model: for runs without a key, and for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Union

from pytest_vnc_use.planners.common.decisions import decision_of
from pytest_vnc_use.types import Action, Decision, Observation, Proposal

ScriptedTurn = Union[Decision, Sequence[Union[Action, Proposal]]]
"""One turn: a whole decision, or just the actions."""

Script = Union[Iterable[ScriptedTurn], Callable[[Observation], ScriptedTurn]]

AT_ITS_END = Decision("finished", "the script is at its end")


class ScriptedPlanner:
    """A planner that answers turn n with turn n of the script, and with finished after the last.

    `script` is a list or a generator of turns, or a function that gets the observation of each turn. `name` is for the
    report. The planner's name begins with `scripted`, so that nobody takes the run for a model's.
    """

    def __init__(self, script: Script, *, name: str = "") -> None:
        self._script = script if callable(script) else _follow(script)
        self._name = f"scripted ({name})" if name else "scripted"

    @property
    def name(self) -> str:
        """The planner's name, which begins with `scripted`."""
        return self._name

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the script's turn for this observation. Raises AgentFailed if it is none."""
        return decision_of(self._script(observation), "a scripted turn")


def _follow(turns: Iterable[ScriptedTurn]) -> Callable[[Observation], ScriptedTurn]:
    """Return a function that gives turns by the number of turns so far, so that a resumed run continues."""
    source = iter(turns)
    drawn: list[ScriptedTurn] = []

    def turn_of(observation: Observation) -> ScriptedTurn:
        number = len(observation.turns)
        while len(drawn) <= number:
            drawn.append(next(source, AT_ITS_END))
        return drawn[number]

    return turn_of
