"""The answer of a planner as the loop takes it: a decision with complete, valid actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

from pytest_vnc_use.errors import AgentFailed, RunDirectoryError
from pytest_vnc_use.runs.directory import from_json, to_json
from pytest_vnc_use.types import Action, CallFunction, Decision, DecisionKind, Proposal
from pytest_vnc_use.types.actions import is_shallow

_KINDS = get_args(DecisionKind)


def decision_of(answer: object, whose: str) -> Decision:
    """Return a decision, an action, or several actions or proposals, as a decision with valid actions.

    Raises AgentFailed if it is none of these, or if a field does not fit; `whose` names the answer in the message.
    """
    if isinstance(answer, Decision):
        if answer.kind not in _KINDS:
            raise AgentFailed(f"{whose} must be of the kind {', '.join(_KINDS)}, got {answer.kind!r}")
        if answer.kind == "act" and not answer.proposals:
            raise AgentFailed(f"{whose} is `act` without any action; it must propose at least one")
        return replace(answer, proposals=tuple(_proposal(item, whose) for item in answer.proposals))
    if isinstance(answer, (Proposal, *get_args(Action))):
        return Decision("act", proposals=(_proposal(answer, whose),))
    if not isinstance(answer, Sequence) or isinstance(answer, str) or not answer:
        raise AgentFailed(
            f"{whose} must be an action, a list of actions, finish(), give_up(reason) or a Decision, got {answer!r}"
        )
    return Decision("act", proposals=tuple(_proposal(item, whose) for item in answer))


def _proposal(item: Any, whose: str) -> Proposal:
    proposal = item if isinstance(item, Proposal) else Proposal(item)
    if not isinstance(proposal.action, get_args(Action)):
        raise AgentFailed(f"{whose} must hold actions or proposals, got {item!r}")
    if isinstance(proposal.action, CallFunction) and not is_shallow(proposal.action.arguments):
        return proposal  # the loop reports it to its planner
    try:
        return replace(proposal, action=from_json(type(proposal.action), to_json(proposal.action)))
    except RunDirectoryError as exc:
        raise AgentFailed(f"{whose} holds an invalid {type(proposal.action).__name__}: {exc}") from exc
