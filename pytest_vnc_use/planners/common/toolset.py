"""The common part of the toolsets of tool-calling models: a call becomes proposals or the end of the run."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, Union

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.planners.common.arguments import GRID, Arguments, Unreadable, pixel_of, reason_in, whole_notches
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

GIVE_UP = Declaration(
    "task_failed",
    "Give up: the task cannot be done. Say what you saw on the screen that makes it impossible.",
    {"type": "object", "properties": {"reason": {"type": "string"}}, "required": ["reason"]},
)
"""The function with which the model gives up, beside the predefined ones."""

DONE = Declaration(
    "done",
    "The task is done, as the newest screenshot shows. Say in one sentence what you see.",
    {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]},
)
"""The function that ends a run as done. An answer in words without a call means the same."""


@dataclass(frozen=True)
class FunctionCall:
    """One call as the model made it. `id` is empty if the service gave none."""

    name: str
    args: JsonObject
    id: str = ""


def ending_of(calls: Sequence[FunctionCall], words: str) -> tuple[Literal["finished", "gave_up"], str] | None:
    """Return how these calls end the run, and the model's words; None if they do not.

    Giving up ends the run whatever other calls there are. `done` ends it only if it is the only call.
    """
    gave_up = next((call for call in calls if call.name == GIVE_UP.name), None)
    if gave_up is not None:
        return "gave_up", str(gave_up.args.get("reason") or words)
    if not calls:
        return "finished", words
    return ("finished", str(calls[0].args.get("message") or words)) if [c.name for c in calls] == [DONE.name] else None


Point = tuple[int, int]

POINTS = ("point", "coordinate", "coordinates", "position", "box", "bbox", "bbox_2d", "point_2d")
"""The names under which models give a point, or a box around it, in one argument."""

CORNERS = ("x", "y", "x1", "y1", "x2", "y2")

EndKind = Literal["finished", "gave_up"]


def check_at_least_one(**numbers: int) -> None:
    """Raise SettingsError if one of the numbers, by its name, is smaller than 1."""
    for name, number in numbers.items():
        if number < 1:
            raise SettingsError(f"{name} must be at least 1, got {number!r}")


@dataclass(frozen=True)
class EndOfRun:
    """The model's statement that the run is over, as the kind of a decision."""

    kind: EndKind
    words: str


Reading = Union[tuple[Proposal, ...], EndOfRun]


@dataclass(frozen=True)
class ScreenArguments(Arguments):
    """The arguments of one call, the screen of its coordinates, and the pointer's last place, if it is known.

    `counted` are the screen's width and height in the model's unit, `sent` those of its picture. `listed` are the
    points of the elements that the model has listed last, by their numbers, in its unit.
    """

    counted: tuple[int, int] = (GRID, GRID)
    pointer: Point | None = None
    sent: tuple[int, int] = (GRID, GRID)
    listed: Mapping[int, Point] = field(default_factory=dict)

    def target(self) -> Point:
        """Return the point of the call. Raises Unreadable."""
        return self.place("")

    def place(self, *prefixes: str) -> Point:
        """Return the point whose names have one of these prefixes, such as `from_`. Raises Unreadable."""
        spelled = next((found for found in map(self._spelling, prefixes) if found is not None), None)
        if spelled is None:
            raise Unreadable(f"a point is missing: give {prefixes[0]}x and {prefixes[0]}y")
        return pixel_of(spelled, self.screen, self.counted)

    def has_point(self, prefix: str = "") -> bool:
        """Return whether a point was given under this prefix."""
        return self._spelling(prefix) is not None

    def _spelling(self, prefix: str) -> object:
        for name in (prefix.rstrip("_"), *(prefix + name for name in POINTS)):
            if self.has(name):
                return self.values[name]
        return {name: self.values[prefix + name] for name in CORNERS if self.has(prefix + name)} or None


Spell = Callable[[JsonObject], ScreenArguments]
"""A function that makes the arguments of a call from its JSON, for the screen of the turn."""


class Vocabulary(Protocol):
    """The tools of a model, and the meaning of its calls."""

    @property
    def declarations(self) -> Sequence[Declaration]:
        """The declarations of the tools for the model."""

    @property
    def most_actions(self) -> int:
        """The most actions of one turn."""

    @property
    def rules(self) -> Sequence[str]:
        """The rules for the model beside the tools: the number of calls in a turn, how to end, how to give up."""

    def read(self, call: FunctionCall, spell: Spell) -> Reading:
        """Return the meaning of a call. A call without one becomes an InvalidAction."""


def proposal(call: FunctionCall, action: Action) -> Proposal:
    """Return an action as the call proposed it, with the model's reason if it gave one."""
    intent = str(call.args.get("intent") or "") if isinstance(action, CallFunction) else reason_in(call.args)
    return Proposal(action, intent, {"name": call.name, "args": copy.deepcopy(dict(call.args))})


def refused(call: FunctionCall, problem: str) -> Proposal:
    """Return the proposal for a call that cannot be carried out, with the reason."""
    return proposal(call, InvalidAction(call.name, problem))


def left_at(turns: Sequence[Turn]) -> Point | None:
    """Return where the last action that moved the pointer left it; None if there was none."""
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


_LISTED = re.compile(r"^(?:\(the first .*? characters\) )?(\d+)\. .* at \((-?\d+), (-?\d+)\), \[[\d, -]*\]$")


def listed_in(turns: Sequence[Turn]) -> dict[int, Point]:
    """Return the points of the elements that list_elements named last, by their numbers; {} if it was not called."""
    steps = [step for turn in turns for step in turn.steps]
    outputs = (
        step.output
        for step in reversed(steps)
        if isinstance(step.proposal.action, CallFunction)
        and step.proposal.action.name == "list_elements"
        and step.output
    )
    found = filter(None, map(_LISTED.match, next(outputs, "").splitlines()))
    return {int(each[1]): (int(each[2]), int(each[3])) for each in found}


def notches(count: float) -> int:
    """Return whole notches of the wheel, at least one, for either sign. Raises Unreadable for none or too many."""
    return whole_notches(abs(count))


def check_excluded(excluded: Sequence[str], known: Sequence[str]) -> frozenset[str]:
    """Return the names if all are known. Raises SettingsError."""
    unknown = sorted(set(excluded) - set(known))
    if unknown:
        raise SettingsError(f"excluded_actions must be among {sorted(known)}, got {unknown!r}")
    return frozenset(excluded)
