"""Custom planners: a function, an object or a class that gets an observation and
returns what to do.

def plan(observation):
    return [Click(120, 80), key("Ctrl+Shift+P")] if not observation.turns else
    finish({"order": 7})
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Union, cast, get_args

from pytest_vnc_use.errors import AgentFailed, RunDirectoryError, SettingsError
from pytest_vnc_use.errors.causes import lines_in
from pytest_vnc_use.plain_text import plain
from pytest_vnc_use.runs.directory import from_json, to_json
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Decision,
    DecisionKind,
    KeyCombo,
    Observation,
    Proposal,
    Scroll,
)
from pytest_vnc_use.types.actions import TOO_DEEP, is_shallow
from pytest_vnc_use.types.protocols import Planner

Answer = Union[Decision, Action, Proposal, Sequence[Union[Action, Proposal]]]
"""The answer of a plan: one action, several, or a whole decision, such as `finish()`.
"""

Act = Callable[[Observation], Answer]

_NOT_THE_USERS = {__file__, pkgutil.__file__, importlib.__file__}


class ActingPlanner(ABC):
    """The base of a planner with one method, `act`. Its exceptions are not caught."""

    @property
    def name(self) -> str:
        """The planner's name with the class's import path."""
        return f"callable ({import_path_of(type(self))})"

    @abstractmethod
    def act(self, observation: Observation) -> Answer:
        """Return what to do next."""

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the answer of `act` as a decision. Raises AgentFailed if it is none.

        `act` does not get `timeout_s`: the loop abandons it if it takes longer.
        """
        return decision_of(self.act(observation), f"an answer of {self.name}")


class CallablePlanner(ActingPlanner):
    """A planner that calls any callable."""

    def __init__(self, act: Act) -> None:
        self._act = act

    @property
    def name(self) -> str:
        """The planner's name with the callable's import path."""
        return f"callable ({import_path_of(self._act)})"

    def act(self, observation: Observation) -> Answer:
        """Return the callable's answer."""
        return self._act(observation)


def as_planner(value: object) -> Planner:
    """Return `value` as a planner: a planner, a class of planners, an object with
    `act`, or any callable.

    Raises SettingsError if it is none of these.
    """
    if isinstance(value, type):
        return as_planner(
            value.as_planner() if hasattr(value, "as_planner") else _make(value)
        )
    if callable(getattr(value, "decide", None)):
        if not hasattr(value, "name"):
            raise SettingsError(
                "a planner with `decide` must have a `name` for the report too, got"
                f" {value!r}"
            )
        return cast(Planner, value)
    act = getattr(value, "act", value)
    if not callable(act) or inspect.iscoroutinefunction(act):
        raise SettingsError(
            "a planner must have `decide`, have `act`, or be a function that takes an"
            f" observation (no `async def`), got {value!r}"
        )
    return CallablePlanner(act)


def named_planner(import_path: str) -> Planner:
    """Return the planner that `package.module:name` names, such as a function. Raises
    SettingsError.
    """
    if not all(import_path.partition(":")):
        raise SettingsError(
            "a custom planner must be named as package.module:name, got"
            f" {import_path!r}"
        )
    try:
        value = pkgutil.resolve_name(import_path)
    except Exception as exc:  # A user's module may raise anything.
        raise SettingsError(
            f"the planner {import_path!r} must be importable (see PYTHONPATH):"
            f" {_format_error(exc)}"
        ) from exc
    return as_planner(value)


def _make(planner: type) -> object:
    try:
        return planner()
    except Exception as exc:  # A user's class may raise anything.
        raise SettingsError(
            f"the planner {import_path_of(planner)!r} must be made without arguments:"
            f" {_format_error(exc)}"
        ) from exc


def import_path_of(value: Any) -> str:
    """Return the import path as `package.module:name`."""
    value = value.func if isinstance(value, partial) else value
    owner = value if hasattr(value, "__qualname__") else type(value)
    return f"{owner.__module__}:{owner.__qualname__}"


def _format_error(error: Exception) -> str:
    """Return the error on one line, with the innermost line of the user's first file in
    its traceback.
    """
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    users = [
        file
        for file in files
        if file not in _NOT_THE_USERS and not file.startswith("<")
    ]
    return " ".join(
        [
            f"{type(error).__name__}: {plain(str(error))}",
            *lines_in(Path((users or [""])[0]), error),
        ]
    )


def key(combination: str) -> KeyCombo:
    """Return a press of keys together: `Enter`, `Ctrl+Shift+P`, `Digit_1`."""
    return KeyCombo((combination,))


def scroll(x: int, y: int, *, dx: int = 0, dy: int = 0) -> Scroll:
    """Return a scroll at a point by `dy` wheel clicks down, or `dx` to the right.
    Negative ones go up, or to the left.

    Raises ValueError if neither or both are given.
    """
    match dx, dy:
        case 0, int() if dy:
            return Scroll(x, y, "down" if dy > 0 else "up", abs(dy))
        case int(), 0 if dx:
            return Scroll(x, y, "right" if dx > 0 else "left", abs(dx))
        case _:
            raise ValueError(
                "scroll goes by dx or by dy, a whole number that is not 0, got"
                f" dx={dx!r}, dy={dy!r}"
            )


def finish(params: Mapping[str, Any] | None = None, *, message: str = "") -> Decision:
    """Return the decision that the task is done.

    `params` become the run's `params`. Without a `message`, they are its message too,
    as JSON.
    """
    if not is_shallow(params or {}):
        raise ValueError(f"the params of a planner that is finished {TOO_DEEP}")
    as_json = to_json(dict(params or {}))
    return Decision(
        "finished", message or json.dumps(as_json, ensure_ascii=False), params=as_json
    )


def give_up(reason: str) -> Decision:
    """Return the decision that the task cannot be done."""
    return Decision("gave_up", reason)


_KINDS = get_args(DecisionKind)


def decision_of(answer: object, whose: str) -> Decision:
    """Return a decision, an action, or several actions or proposals, as a decision with
    valid actions.

    Raises AgentFailed if it is none of these, or if a field does not fit; `whose` names
    the answer in the message.
    """
    if isinstance(answer, Decision):
        if answer.kind not in _KINDS:
            raise AgentFailed(
                f"{whose} must be of the kind {', '.join(_KINDS)}, got {answer.kind!r}"
            )
        if answer.kind == "act" and not answer.proposals:
            raise AgentFailed(
                f"{whose} is `act` without any action; it must propose at least one"
            )
        return replace(
            answer, proposals=tuple(_proposal(item, whose) for item in answer.proposals)
        )
    if isinstance(answer, (Proposal, *get_args(Action))):
        return Decision("act", proposals=(_proposal(answer, whose),))
    if not isinstance(answer, Sequence) or isinstance(answer, str) or not answer:
        raise AgentFailed(
            f"{whose} must be an action, a list of actions, finish(), give_up(reason)"
            f" or a Decision, got {answer!r}"
        )
    return Decision("act", proposals=tuple(_proposal(item, whose) for item in answer))


def _proposal(item: Any, whose: str) -> Proposal:
    proposal = item if isinstance(item, Proposal) else Proposal(item)
    if not isinstance(proposal.action, get_args(Action)):
        raise AgentFailed(f"{whose} must hold actions or proposals, got {item!r}")
    if isinstance(proposal.action, CallFunction) and not is_shallow(
        proposal.action.arguments
    ):
        return proposal  # the loop reports it to its planner
    try:
        return replace(
            proposal, action=from_json(type(proposal.action), to_json(proposal.action))
        )
    except RunDirectoryError as exc:
        raise AgentFailed(
            f"{whose} holds an invalid {type(proposal.action).__name__}: {exc}"
        ) from exc
