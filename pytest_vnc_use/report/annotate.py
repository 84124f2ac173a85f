"""The picture of a step: the frame that was acted on, with the point, the path or the region drawn over it.

Sizes are for a frame up to 1440 pixels wide, and grow with wider ones. Every line is magenta inside white, so it is
visible on light, dark and coloured backgrounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from math import atan2, cos, pi, sin

from PIL import Image, ImageDraw
from typing_extensions import assert_never

from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Direction,
    Drag,
    InvalidAction,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    OpenAddress,
    Region,
    Scroll,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)

Point = tuple[float, float]
Line = Sequence[Point]

_PASSES = (("#ffffff", 9), ("#e6007e", 5))
"""Colour and width of the lines, drawn in this order."""
_RADIUS = 20
_TICK = (12, 30)
_HEAD = 20
_SCROLL = 64
_GAP = 5
_WAYS: dict[Direction, Point] = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}


def mark_action(png: bytes, action: Action) -> bytes:
    """Return the frame `png` with the action's point or path on it; unchanged if the action has none.

    A point off the frame is drawn at its edge.
    """
    image = Image.open(BytesIO(png))
    lines = _lines(action, image.size, _unit(image))
    return _drawn(image, lines) if lines else png


def action_lines(action: Action, size: tuple[int, int]) -> list[Line]:
    """Return the lines of the action's point or path on a frame of this size; none if the action has no place."""
    return _lines(action, size, max(1.0, size[0] / 1440))


def mark_region(png: bytes, region: Region) -> bytes:
    """Return the frame `png` with a border around `region`."""
    image = Image.open(BytesIO(png))
    left, top = _within(image.size, region.left - _GAP, region.top - _GAP)
    right, bottom = _within(image.size, region.right + _GAP, region.bottom + _GAP)
    return _drawn(image, [[(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]])


def _lines(action: Action, size: tuple[int, int], unit: float) -> list[Line]:
    match action:
        case Click() | MouseDown() | MouseUp() | Move():
            return _target(_within(size, action.x, action.y), unit)
        case TypeText(x=int(x), y=int(y)):
            return _target(_within(size, x, y), unit)
        case Drag():
            start, end = _within(size, action.x, action.y), _within(size, action.to_x, action.to_y)
            return [_ring(start, unit), *_arrow(start, end, unit)]
        case Scroll():
            start, (right, down) = _within(size, action.x, action.y), _WAYS[action.direction]
            end = (start[0] + right * _SCROLL * unit, start[1] + down * _SCROLL * unit)
            return [_ring(start, unit), *_arrow(start, end, unit)]
        case TypeText() | KeyCombo() | KeyDown() | KeyUp():
            return []
        case OpenAddress() | TraverseHistory() | Wait() | TakeScreenshot():
            return []
        case CallFunction() | InvalidAction():
            return []
        case _:
            assert_never(action)


def _within(size: tuple[int, int], x: int, y: int) -> Point:
    return min(max(x, 0), size[0] - 1), min(max(y, 0), size[1] - 1)


def _unit(image: Image.Image) -> float:
    return max(1.0, image.width / 1440)


def _target(at: Point, unit: float) -> list[Line]:
    ticks = [[_polar(at, turn * pi / 2, radius * unit) for radius in _TICK] for turn in range(4)]
    return [_ring(at, unit), *ticks, [at]]


def _ring(at: Point, unit: float) -> Line:
    return [_polar(at, turn * pi / 32, _RADIUS * unit) for turn in range(65)]


def _arrow(start: Point, end: Point, unit: float) -> list[Line]:
    back = atan2(start[1] - end[1], start[0] - end[0])
    return [[start, end], [_polar(end, back - pi / 6, _HEAD * unit), end, _polar(end, back + pi / 6, _HEAD * unit)]]


def _polar(centre: Point, angle: float, radius: float) -> Point:
    return centre[0] + radius * cos(angle), centre[1] + radius * sin(angle)


def _drawn(frame: Image.Image, lines: Sequence[Line]) -> bytes:
    image = frame.convert("RGB")
    draw = ImageDraw.Draw(image)
    for colour, width in _PASSES:
        for line in lines:
            _stroke(draw, line, colour, width * _unit(image))
    png = BytesIO()
    image.save(png, "PNG", compress_level=4)
    return png.getvalue()


def _stroke(draw: ImageDraw.ImageDraw, line: Line, colour: str, width: float) -> None:
    draw.line(list(line), fill=colour, width=round(width), joint="curve")
    for x, y in (line[0], line[-1]):
        draw.ellipse((x - width / 2, y - width / 2, x + width / 2, y + width / 2), fill=colour)
