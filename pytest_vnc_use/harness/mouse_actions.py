"""The arguments of a harness agent's mouse actions, and the actions that a controller
performs for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pytest_vnc_use.errors import ActionError
from pytest_vnc_use.types import (
    CLICKS,
    Click,
    DesktopAction,
    Drag,
    MouseDown,
    MouseUp,
    Move,
    Scroll,
)


class MouseButton(str, Enum):
    """A button of the mouse."""

    LEFT = "left"
    MIDDLE = "middle"
    RIGHT = "right"


class MouseClickType(str, Enum):
    """How often a button is clicked."""

    SINGLE = "single"
    DOUBLE = "double"
    TRIPLE = "triple"


class ScrollDirection(str, Enum):
    """The direction in which the wheel is turned."""

    UP = "up"
    DOWN = "down"
    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True)
class Position:
    """A point of the screen in pixels, from its upper left corner; fractions, as models
    send them, are rounded.
    """

    x: int
    y: int

    def __post_init__(self) -> None:
        """Round to whole pixels. Raises TypeError if a coordinate is no number."""
        object.__setattr__(self, "x", round(self.x))
        object.__setattr__(self, "y", round(self.y))


def _check_positions(action: object, **positions: object) -> None:
    """Raise TypeError for a value that is no Position, such as a tuple."""
    for name, value in positions.items():
        if not isinstance(value, Position):
            raise TypeError(
                f"{type(action).__name__} needs a Position as `{name}`, got {value!r}."
            )


@dataclass(frozen=True)
class MouseClickAction:
    """A click; without a `position`, where the last action left the pointer."""

    button: MouseButton = MouseButton.LEFT
    position: Position | None = None
    click_type: MouseClickType = MouseClickType.SINGLE

    def __post_init__(self) -> None:
        """Raise TypeError for another position."""
        if self.position is not None:
            _check_positions(self, position=self.position)

    def at(self, pointer: Position | None) -> Click:
        """Return the click as a controller's action. Raises ActionError if there is no
        position.
        """
        point = self.position or pointer
        if point is None:
            raise ActionError(
                "The click has no position, and no earlier action moved the pointer."
                " Give it a position."
            )
        button = MouseButton(self.button)
        click_type = MouseClickType(self.click_type)
        return Click(point.x, point.y, button.value, CLICKS[click_type.value])


@dataclass(frozen=True)
class MouseDragAction:
    """A drag from `start` to `end`."""

    button: MouseButton
    start: Position
    end: Position

    def __post_init__(self) -> None:
        """Raise TypeError for another position."""
        _check_positions(self, start=self.start, end=self.end)

    def steps(self) -> list[DesktopAction]:
        """Return the drag as a controller's actions. A Drag always uses the left
        button.
        """
        button = MouseButton(self.button)
        start = self.start
        end = self.end
        if button is MouseButton.LEFT:
            return [Drag(start.x, start.y, end.x, end.y)]
        return [
            MouseDown(start.x, start.y, button.value),
            Move(end.x, end.y),
            MouseUp(end.x, end.y, button.value),
        ]


@dataclass(frozen=True)
class ScrollAction:
    """A turn of the wheel at a point, by `repeat` clicks."""

    position: Position
    direction: ScrollDirection
    repeat: int = 1

    def __post_init__(self) -> None:
        """Raise TypeError for another position."""
        _check_positions(self, position=self.position)

    def turn(self) -> Scroll:
        """Return the scroll as a controller's action."""
        return Scroll(
            self.position.x,
            self.position.y,
            ScrollDirection(self.direction).value,
            self.repeat,
        )
