"""Points and boxes in any spelling that models use, read as one pixel of the screen."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Literal

from pytest_vnc_use.planners.common.arguments import Unreadable
from pytest_vnc_use.types import FrameRef

Coordinates = Literal["1000", "pixels"]
"""The unit of a model's coordinates: thousandths of the screen, whatever its shape, or pixels of the screenshot."""

GRID = 1000
LONGEST_SPELLING = 200
CORNERS = (("x1", "y1", "x2", "y2"), ("left", "top", "right", "bottom"), ("x", "y"))

_TAG = re.compile(r"<[^<>]*>")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)")
_LETTER = re.compile(r"[^\W\d_]")


def pixel_of(value: Any, screen: FrameRef, counted: tuple[int, int] = (GRID, GRID)) -> tuple[int, int]:
    """Return the point, or the centre of the box, as a pixel inside the screen. Raises Unreadable.

    `counted` are the width and the height of the screen in the model's unit. `value` is `[x, y]`, `[x1, y1, x2, y2]`,
    `[[x1, y1], [x2, y2]]`, the same as text, or an object with these names; numbers may be text. A point outside is
    moved to the edge. The corners of a box may be in either order.
    """
    numbers = _numbers(value)
    if len(numbers) not in (2, 4) or not all(map(math.isfinite, numbers)):
        spelled = repr(value)[:LONGEST_SPELLING]
        raise Unreadable(f"a point must be [x, y], or a box [x1, y1, x2, y2], in numbers, got {spelled}")
    return _pixel(numbers[::2], screen.width, counted[0]), _pixel(numbers[1::2], screen.height, counted[1])


def _pixel(sides: list[float], size: int, counted: int) -> int:
    """Return the middle of two sides of a box, or the one coordinate of a point, in pixels."""
    pixels = [side * size / counted for side in sides]
    inside = [min(max(pixel, 0.0), size - 1.0) for pixel in pixels]
    return int(sum(inside) / len(inside))


def _numbers(value: Any) -> list[float]:
    """Return all numbers of a spelling, in order. Anything else in it becomes NaN."""
    match value:
        case str():
            return _numbers_of_text(value)
        case Mapping():
            return _numbers(_corners(value))
        case list() | tuple():
            return [number for item in value for number in _numbers(item)]
        case int() | float() if not isinstance(value, bool):
            return [_as_float(value)]
        case _:
            return [math.nan]


def _corners(value: Mapping[str, Any]) -> Any:
    """Return the coordinates of an object that is a point or a box, in order; or the content of one around it."""
    named = next((names for names in CORNERS if all(name in value for name in names)), None)
    if named is not None:
        return [value[name] for name in named]
    return next(iter(value.values())) if len(value) == 1 else None


def _numbers_of_text(text: str) -> list[float]:
    """Return the numbers of `(500, 250)`, `500 250` or `<point>500 250</point>`; NaN for a sentence with numbers."""
    if len(text) > LONGEST_SPELLING:
        return [math.nan]
    bare = _TAG.sub(" ", text)
    return [math.nan] if _LETTER.search(bare) else [float(number) for number in _NUMBER.findall(bare)]


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf
