"""The points on the screen where an action takes place."""

from __future__ import annotations

from typing_extensions import assert_never

from pytest_vnc_use.types.actions import (
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
    Scroll,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)

Point = tuple[int, int]


def points(action: Action) -> tuple[Point, ...]:
    """Return the points of an action, in pixels of the screen; for a drag both ends."""
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
