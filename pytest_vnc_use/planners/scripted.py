"""A planner that follows a script instead of asking a model: for runs without a key, and for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Union, get_args

from pytest_vnc_use.errors import PlannerError
from pytest_vnc_use.types import Action, Decision, Observation, Proposal

ScriptedTurn = Union[Decision, Sequence[Union[Action, Proposal]]]
"""One turn: a whole decision, or just what to do."""

Script = Union[Iterable[ScriptedTurn], Callable[[Observation], ScriptedTurn]]

AT_ITS_END = Decision("finished", "the script is at its end")


class ScriptedPlanner:
    """Answers turn n with turn n of the script, and with finished after its last.

    `script` is a list, or a generator, of turns, or a function that is asked for each turn with the observation. `name`
    stands in the report; it begins with `scripted`, so that nobody takes the run for a model's.
    """

    def __init__(self, script: Script, *, name: str = "") -> None:
        self._script = script if callable(script) else _follow(script)
        self._name = f"scripted ({name})" if name else "scripted"

    @property
    def name(self) -> str:
        return self._name

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """The script's turn for this observation. Raises PlannerError where it is neither a decision nor actions."""
        turn = self._script(observation)
        return turn if isinstance(turn, Decision) else _acting(turn)


def _follow(turns: Iterable[ScriptedTurn]) -> Callable[[Observation], ScriptedTurn]:
    """By the number of turns that are behind, so that a resumed run goes on where it was."""
    source = iter(turns)
    drawn: list[ScriptedTurn] = []

    def turn_of(observation: Observation) -> ScriptedTurn:
        number = len(observation.turns)
        while len(drawn) <= number:
            drawn.append(next(source, AT_ITS_END))
        return drawn[number]

    return turn_of


def _acting(turn: Sequence[Action | Proposal]) -> Decision:
    if not isinstance(turn, Sequence) or not turn:
        raise PlannerError(f"a scripted turn must be a Decision, or a list of at least one action, got {turn!r}")
    return Decision("act", proposals=tuple(_proposal(item) for item in turn))


def _proposal(item: Action | Proposal) -> Proposal:
    if isinstance(item, Proposal):
        return item
    if not isinstance(item, get_args(Action)):
        raise PlannerError(f"a scripted turn must hold actions or proposals, got {item!r}")
    return Proposal(item)
