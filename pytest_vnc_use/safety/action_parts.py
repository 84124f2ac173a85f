"""The parts of an action that a rule compares: its names, and whether a point is within a region."""

from __future__ import annotations

from fnmatch import fnmatchcase

from pytest_vnc_use.types import CallFunction, Click, InvalidAction, Proposal, Region
from pytest_vnc_use.types.action_points import Point

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


def is_within(region: Region, point: Point) -> bool:
    """Return whether the point lies in the region."""
    return region.left <= point[0] < region.right and region.top <= point[1] < region.bottom


def is_like(glob: str | None, *values: str) -> bool:
    """Return whether a glob matches one of the values, whatever their case; None matches all.

    A parametrised test id, `test_it[a]`, also matches itself, though brackets mean a choice in a glob.
    """
    if glob is None:
        return True
    lowered = glob.lower()
    return any(lowered == value or fnmatchcase(value, lowered) for value in map(str.lower, values))
