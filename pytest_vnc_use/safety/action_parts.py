"""The parts of an action that a rule looks at: its names, and its points on the screen."""

from __future__ import annotations

from fnmatch import fnmatchcase

from typing_extensions import assert_never

from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Drag,
    InvalidAction,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    OpenAddress,
    Proposal,
    Region,
    Scroll,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)

Point = tuple[int, int]
_CLICKS = {1: "click", 2: "double_click", 3: "triple_click"}


def names_of(proposal: Proposal) -> set[str]:
    """Return the names that a rule may call an action by."""
    names = {proposal.action.kind, str(proposal.as_proposed.get("name", ""))}
    match proposal.action:
        case CallFunction(name=name) | InvalidAction(name=name):
            names.add(name)
        case Click(button=button, count=count):
            names.add(f"{button}_click" if button != "left" else _CLICKS[count])
        case _:
            pass
    return names


def points(action: Action) -> tuple[Point, ...]:
    """Return the points on the screen where an action takes place, in pixels; of a drag both ends."""
    match action:
        case Click() | MouseDown() | MouseUp() | Move() | Scroll():
            return ((action.x, action.y),)
        case Drag():
            return ((action.x, action.y), (action.to_x, action.to_y))
        case TypeText(x=int(x), y=int(y)):
            return ((x, y),)
        case TypeText() | KeyCombo() | KeyDown() | KeyUp():
            return ()
        case OpenAddress() | TraverseHistory() | Wait() | TakeScreenshot():
            return ()
        case CallFunction() | InvalidAction():
            return ()
        case _:
            assert_never(action)


def is_within(region: Region, point: Point) -> bool:
    """Return whether the point lies in the region."""
    return region.left <= point[0] < region.right and region.top <= point[1] < region.bottom


def is_like(glob: str | None, *values: str) -> bool:
    """Return whether a glob matches one of the values, whatever their case; None matches all.

    A parametrised test id, `test_it[a]`, also matches itself, though brackets mean a choice in a glob.
    """
    if glob is None:
        return True
    wanted = glob.lower()
    return any(wanted == value or fnmatchcase(value, wanted) for value in map(str.lower, values))
