"""What the vocabularies of tool-calling models have in common: a call in, proposals or the end of the run out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Union

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.common.arguments import Arguments as PlainArguments, Unreadable, reason_in, whole_notches
from pytest_vnc_use.planners.common.boxes import GRID, pixel_of
from pytest_vnc_use.planners.common.calls import FunctionCall
from pytest_vnc_use.planners.common.functions import Declaration
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Drag,
    InvalidAction,
    JsonObject,
    MouseDown,
    MouseUp,
    Move,
    Proposal,
    Scroll,
    Turn,
    TypeText,
)

Point = tuple[int, int]

POINTS = ("point", "coordinate", "coordinates", "position", "box", "bbox", "bbox_2d", "point_2d")
"""Names under which models give a point, or a box around it, in one argument."""

CORNERS = ("x", "y", "x1", "y1", "x2", "y2")

EndKind = Literal["finished", "gave_up"]


@dataclass(frozen=True)
class Ended:
    """The model's word that the run is over, as the kind of a decision."""

    kind: EndKind
    words: str


Reading = Union[tuple[Proposal, ...], Ended]


@dataclass(frozen=True)
class Arguments(PlainArguments):
    """The arguments of one call, the screen they are meant for, and where the pointer was left, if that is known.

    `counted` are the screen's width and height in what the model counts in.
    """

    counted: tuple[int, int] = (GRID, GRID)
    pointer: Point | None = None

    def target(self) -> Point:
        """The point of the call. Raises Unreadable."""
        return self.place("")

    def place(self, *prefixes: str) -> Point:
        """The point whose names have one of these prefixes, such as `from_`. Raises Unreadable."""
        spelled = next((found for found in map(self._spelled, prefixes) if found is not None), None)
        if spelled is None:
            raise Unreadable(f"a point is missing: give {prefixes[0]}x and {prefixes[0]}y")
        return pixel_of(spelled, self.screen, self.counted)

    def has_point(self, prefix: str = "") -> bool:
        return self._spelled(prefix) is not None

    def _spelled(self, prefix: str) -> object:
        for name in (prefix.rstrip("_"), *(prefix + name for name in POINTS)):
            if self.has(name):
                return self.values[name]
        return {name: self.values[prefix + name] for name in CORNERS if self.has(prefix + name)} or None


Spell = Callable[[JsonObject], Arguments]
"""Makes the arguments of a call from its JSON, for the screen of the turn."""


class Vocabulary(Protocol):
    """The tools that a model is offered, and what its calls of them mean."""

    @property
    def declarations(self) -> Sequence[Declaration]:
        """The tools, as the model is told of them."""

    @property
    def most_actions(self) -> int:
        """How many actions one turn may hold."""

    @property
    def rules(self) -> Sequence[str]:
        """What the model is told of them beside: how many a turn, how to end well, how to give up."""

    def read(self, call: FunctionCall, spell: Spell) -> Reading:
        """What a call means; what it cannot mean becomes an InvalidAction."""


def proposal(call: FunctionCall, action: Action) -> Proposal:
    """An action as the call proposed it, with the model's reason where it gave one."""
    intent = str(call.args.get("intent") or "") if isinstance(action, CallFunction) else reason_in(call.args)
    return Proposal(action, intent, {"name": call.name, "args": copy.deepcopy(dict(call.args))})


def refused(call: FunctionCall, problem: str) -> Proposal:
    """A call that no hand can carry out, and why."""
    return proposal(call, InvalidAction(call.name, problem))


def left_at(turns: Sequence[Turn]) -> Point | None:
    """Where the last action that moved the pointer has left it; None where there was none."""
    steps = [step for turn in turns for step in turn.steps if not step.error and step.ruling.kind == "allow"]
    points = (_end_of(step.proposal.action) for step in reversed(steps))
    return next((point for point in points if point is not None), None)


def _end_of(action: Action) -> Point | None:
    match action:
        case Drag():
            return action.to_x, action.to_y
        case Click() | MouseDown() | MouseUp() | Move() | Scroll():
            return action.x, action.y
        case TypeText(x=int(x), y=int(y)):
            return x, y
        case _:
            return None


def notches(count: float) -> int:
    """So many notches of the wheel, at least one, whichever way. Raises Unreadable where they are none, or too many."""
    return whole_notches(abs(count))


def check_excluded(excluded: Sequence[str], known: Sequence[str]) -> frozenset[str]:
    """The names, each known. Raises SettingsError."""
    unknown = sorted(set(excluded) - set(known))
    if unknown:
        raise SettingsError(f"excluded_actions must be among {sorted(known)}, got {unknown!r}")
    return frozenset(excluded)
