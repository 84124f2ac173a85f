"""The screenshot of a step: the frame that was acted on, with the point or the path drawn over it.

Sizes are for a frame up to 1440 pixels wide, and grow with wider ones. Every line is magenta inside white, so it is
visible on light, dark and coloured backgrounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from math import atan2, cos, pi, sin

from PIL import Image, ImageDraw

from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.types import Action, Click, Direction, Drag, MouseDown, MouseUp, Move, Scroll, TypeText

Point = tuple[float, float]
Line = Sequence[Point]

_PASSES = (("#ffffff", 9), ("#e6007e", 5))
"""Colour and width of the lines, drawn in this order."""
_RADIUS = 20
_TICK = (12, 30)
_HEAD = 20
_SCROLL = 64
_WAYS: dict[Direction, Point] = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
MAX_PIXELS = 1 << 24
"""Larger images are not opened: a small file may claim a size that fills the memory. Two screens of 4K have less."""


def size_of(png: bytes) -> tuple[int, int]:
    """Return the width and height that a PNG claims. Raises RunDirectoryError if it is none."""
    if png[:8] != b"\x89PNG\r\n\x1a\n" or png[12:16] != b"IHDR" or len(png) < 24:
        raise RunDirectoryError("the screenshot is damaged: it is no PNG")
    width, height = int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")
    if width * height > MAX_PIXELS:
        raise RunDirectoryError(f"the screenshot has {width}×{height} pixels, too many to open")
    return width, height


def open_png(png: bytes) -> Image.Image:
    """Return a PNG with all its pixels read. Raises RunDirectoryError if it is damaged, or a bomb."""
    size_of(png)
    try:
        image = Image.open(BytesIO(png), formats=["PNG"])
        image.load()
    except (OSError, SyntaxError, ValueError) as exc:
        raise RunDirectoryError(f"the screenshot is damaged: {exc}") from exc
    return image


def mark_action(png: bytes, action: Action) -> bytes:
    """Return the frame `png` with the action's point or path on it; unchanged if the action has none.

    A point off the frame is drawn at its edge. Raises RunDirectoryError if the image is damaged.
    """
    image = open_png(png)
    mark = _mark(action, image.size)
    return _draw(image, mark) if mark else png


def action_path(action: Action, size: tuple[int, int]) -> str:
    """Return the action's point or path on a frame of this size as the data of an SVG path; "" if it has no place.

    Pixels of the frame are the unit. A point is in the middle of its pixel.
    """
    mark = _mark(action, size)
    return _svg(mark) if mark else ""


@dataclass(frozen=True)
class _Mark:
    """The drawing of a place: lines, and rings of `radius` around points."""

    lines: Sequence[Line]
    rings: Sequence[Point] = ()
    radius: float = _RADIUS


def _mark(action: Action, size: tuple[int, int]) -> _Mark | None:
    unit = _unit(size)
    match action:
        case Click() | MouseDown() | MouseUp() | Move():
            return _target(_within(size, action.x, action.y), unit)
        case TypeText(x=int(x), y=int(y)):
            return _target(_within(size, x, y), unit)
        case Drag():
            start, end = _within(size, action.x, action.y), _within(size, action.to_x, action.to_y)
            return _Mark(_arrow(start, end, unit), [start], _RADIUS * unit)
        case Scroll():
            start, (right, down) = _within(size, action.x, action.y), _WAYS[action.direction]
            end = (start[0] + right * _SCROLL * unit, start[1] + down * _SCROLL * unit)
            return _Mark(_arrow(start, end, unit), [start], _RADIUS * unit)
        case _:  # it has no place on the screen
            return None


def _within(size: tuple[int, int], x: int, y: int) -> Point:
    return min(max(x, 0), size[0] - 1), min(max(y, 0), size[1] - 1)


def _unit(size: tuple[int, int]) -> float:
    return max(1.0, size[0] / 1440)


def _target(at: Point, unit: float) -> _Mark:
    ticks = [[_polar(at, turn * pi / 2, radius * unit) for radius in _TICK] for turn in range(4)]
    return _Mark([*ticks, [at]], [at], _RADIUS * unit)


def _arrow(start: Point, end: Point, unit: float) -> list[Line]:
    back = atan2(start[1] - end[1], start[0] - end[0])
    return [[start, end], [_polar(end, back - pi / 6, _HEAD * unit), end, _polar(end, back + pi / 6, _HEAD * unit)]]


def _polar(centre: Point, angle: float, radius: float) -> Point:
    return centre[0] + radius * cos(angle), centre[1] + radius * sin(angle)


def _svg(mark: _Mark) -> str:
    radius, across = _short(mark.radius), _short(2 * mark.radius)
    half = f"a{radius} {radius} 0 1 0"
    rings = [f"M{_middle((x - mark.radius, y))}{half} {across} 0{half} -{across} 0" for x, y in mark.rings]
    lines = [f"M{'L'.join(map(_middle, line))}{'h0' if len(line) == 1 else ''}" for line in mark.lines]
    return "".join([*rings, *lines])


def _middle(pixel: Point) -> str:
    return f"{_short(pixel[0] + 0.5)} {_short(pixel[1] + 0.5)}"


def _short(number: float) -> str:
    return f"{round(number, 1):g}"


def _draw(frame: Image.Image, mark: _Mark) -> bytes:
    image = frame.convert("RGB")
    draw = ImageDraw.Draw(image)
    rings = [[_polar(at, turn * pi / 32, mark.radius) for turn in range(65)] for at in mark.rings]
    for colour, width in _PASSES:
        for line in (*rings, *mark.lines):
            _stroke(draw, line, colour, width * _unit(image.size))
    png = BytesIO()
    image.save(png, "PNG", compress_level=4)
    return png.getvalue()


def _stroke(draw: ImageDraw.ImageDraw, line: Line, colour: str, width: float) -> None:
    draw.line(list(line), fill=colour, width=round(width), joint="curve")
    for x, y in (line[0], line[-1]):
        draw.ellipse((x - width / 2, y - width / 2, x + width / 2, y + width / 2), fill=colour)
