"""The screenshot of a step: the frame that was acted on, with the point or the path
drawn over it.

Sizes are for a frame up to 1440 pixels wide, and grow with wider ones. Every line is
magenta inside white, so it is visible on light, dark and coloured backgrounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from math import atan2, cos, pi, sin

from PIL import Image, ImageDraw

from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.types import (
    Action,
    Click,
    Direction,
    Drag,
    MouseDown,
    MouseUp,
    Move,
    Scroll,
    TypeText,
)

Point = tuple[float, float]
Line = Sequence[Point]

_PASSES = (("#ffffff", 9), ("#e6007e", 5))
"""Colour and width of the lines, drawn in this order."""
_RADIUS = 20
_TICK = (12, 30)
_HEAD = 20
_SCROLL = 64
_DIRECTIONS: dict[Direction, Point] = {
    "up": (0, -1),
    "down": (0, 1),
    "left": (-1, 0),
    "right": (1, 0),
}
MAX_PIXELS = 1 << 24
"""Larger images are not opened: a small file may claim a size that fills the memory.
Two screens of 4K have less.
"""


def size_of(png: bytes) -> tuple[int, int]:
    """Return the width and height that a PNG claims. Raises RunDirectoryError if it is
    not a PNG.
    """
    if png[:8] != b"\x89PNG\r\n\x1a\n" or png[12:16] != b"IHDR" or len(png) < 24:
        raise RunDirectoryError("the screenshot is damaged: it is not a PNG")
    width, height = int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")
    if width * height > MAX_PIXELS:
        raise RunDirectoryError(
            f"the screenshot has {width}×{height} pixels, too many to open"
        )
    return width, height


def open_png(png: bytes) -> Image.Image:
    """Return a PNG with all its pixels read. Raises RunDirectoryError if it is damaged
    or too large.
    """
    size_of(png)
    try:
        image = Image.open(BytesIO(png), formats=["PNG"])
        image.load()
    except (OSError, SyntaxError, ValueError) as exc:
        raise RunDirectoryError(f"the screenshot is damaged: {exc}") from exc
    return image


def mark_action(png: bytes, action: Action) -> bytes:
    """Return the frame `png` with the action's point or path on it; unchanged if the
    action has none.

    A point off the frame is drawn at its edge. Raises RunDirectoryError if the image is
    damaged.
    """
    image = open_png(png)
    lines, rings = _mark(action, image.size)
    if not lines:
        return png
    unit, image = _unit(image.size), image.convert("RGB")
    draw = ImageDraw.Draw(image)
    circles = [
        [_polar(at, turn * pi / 32, _RADIUS * unit) for turn in range(65)]
        for at in rings
    ]
    for colour, width in _PASSES:
        for line in (*circles, *lines):
            draw.line(list(line), fill=colour, width=round(width * unit), joint="curve")
            for x, y in (line[0], line[-1]):
                half = width * unit / 2
                draw.ellipse((x - half, y - half, x + half, y + half), fill=colour)
    content = BytesIO()
    image.save(content, "PNG", compress_level=4)
    return content.getvalue()


def action_path(action: Action, size: tuple[int, int]) -> str:
    """Return the action's point or path on a frame of this size as the data of an SVG
    path; "" if it has no point.

    Pixels of the frame are the unit. A point is in the middle of its pixel.
    """
    lines, rings = _mark(action, size)
    radius = _RADIUS * _unit(size)
    half = f"a{_short(radius)} {_short(radius)} 0 1 0"
    circles = [
        f"M{_middle((x - radius, y))}{half} {_short(2 * radius)} 0{half}"
        f" -{_short(2 * radius)} 0"
        for x, y in rings
    ]
    return "".join(
        [
            *circles,
            *(
                f"M{'L'.join(map(_middle, line))}{'h0' if len(line) == 1 else ''}"
                for line in lines
            ),
        ]
    )


def _mark(action: Action, size: tuple[int, int]) -> tuple[list[Line], list[Point]]:
    """Return the drawing of an action's point: lines, and the middles of rings; none of
    an action without a point.
    """
    unit = _unit(size)

    def within(x: int, y: int) -> Point:
        return min(max(x, 0), size[0] - 1), min(max(y, 0), size[1] - 1)

    match action:
        case (
            Click(x=x, y=y)
            | MouseDown(x=x, y=y)
            | MouseUp(x=x, y=y)
            | Move(x=x, y=y)
            | TypeText(x=int(x), y=int(y))
        ):
            at = within(x, y)
            ticks = [
                [_polar(at, turn * pi / 2, radius * unit) for radius in _TICK]
                for turn in range(4)
            ]
            return [*ticks, [at]], [at]
        case Drag():
            start, end = within(action.x, action.y), within(action.to_x, action.to_y)
        case Scroll():
            start, (right, down) = (
                within(action.x, action.y),
                _DIRECTIONS[action.direction],
            )
            end = (start[0] + right * _SCROLL * unit, start[1] + down * _SCROLL * unit)
        case _:
            return [], []
    back = atan2(start[1] - end[1], start[0] - end[0])
    head = [
        _polar(end, back - pi / 6, _HEAD * unit),
        end,
        _polar(end, back + pi / 6, _HEAD * unit),
    ]
    return [[start, end], head], [start]


def _unit(size: tuple[int, int]) -> float:
    return max(1.0, size[0] / 1440)


def _polar(centre: Point, angle: float, radius: float) -> Point:
    return centre[0] + radius * cos(angle), centre[1] + radius * sin(angle)


def _middle(pixel: Point) -> str:
    return f"{_short(pixel[0] + 0.5)} {_short(pixel[1] + 0.5)}"


def _short(number: float) -> str:
    return f"{round(number, 1):g}"
