"""A planner that follows a script and asks no model: for runs without a key, and for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Union, get_args

from pytest_vnc_use.errors import PlannerError, RunFolderError
from pytest_vnc_use.runs.folder import from_json, to_json
from pytest_vnc_use.types import Action, CallFunction, Decision, Observation, Proposal
from pytest_vnc_use.types.json_depth import is_shallow

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
        """Return the script's turn for this observation. Raises PlannerError if it is no decision and no actions."""
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


def decision_of(answer: object, whose: str) -> Decision:
    """Return a decision, an action, or several actions or proposals, as a decision with complete, valid actions.

    Raises PlannerError if it is none of these, or if a field does not fit; `whose` names the answer in the message.
    """
    if isinstance(answer, Decision):
        return replace(answer, proposals=tuple(_proposal(item, whose) for item in answer.proposals))
    if isinstance(answer, (Proposal, *get_args(Action))):
        return Decision("act", proposals=(_proposal(answer, whose),))
    if not isinstance(answer, Sequence) or isinstance(answer, str) or not answer:
        raise PlannerError(f"{whose} must be a Decision, or at least one action, got {answer!r}")
    return Decision("act", proposals=tuple(_proposal(item, whose) for item in answer))


def _proposal(item: Any, whose: str) -> Proposal:
    proposal = item if isinstance(item, Proposal) else Proposal(item)
    if not isinstance(proposal.action, get_args(Action)):
        raise PlannerError(f"{whose} must hold actions or proposals, got {item!r}")
    if isinstance(proposal.action, CallFunction) and not is_shallow(proposal.action.arguments):
        return proposal  # the loop reports it to its planner
    try:
        return replace(proposal, action=from_json(type(proposal.action), to_json(proposal.action)))
    except RunFolderError as exc:
        raise PlannerError(f"{whose} holds an invalid {type(proposal.action).__name__}: {exc}") from exc
