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
"""The distances of both ends of a tick from the point."""
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
    width = int.from_bytes(png[16:20], "big")
    height = int.from_bytes(png[20:24], "big")
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
    unit = _unit(image.size)
    for centre in rings:
        angles = [turn * pi / 32 for turn in range(65)]
        lines.append([_polar(centre, angle, _RADIUS * unit) for angle in angles])
    image = image.convert("RGB")
    draw = ImageDraw.Draw(image)
    for colour, width in _PASSES:
        for line in lines:
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
    diameter = _short(2 * radius)
    half = f"a{_short(radius)} {_short(radius)} 0 1 0"
    path = ""
    for x, y in rings:
        path += f"M{_middle((x - radius, y))}{half} {diameter} 0{half} -{diameter} 0"
    for line in lines:
        path += "M" + "L".join(map(_middle, line))
        if len(line) == 1:
            path += "h0"  # else a browser draws no point
    return path


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
            centre = within(x, y)
            lines: list[Line] = []
            for turn in range(4):
                angle = turn * pi / 2
                lines.append([_polar(centre, angle, tick * unit) for tick in _TICK])
            return [*lines, [centre]], [centre]
        case Drag():
            start = within(action.x, action.y)
            end = within(action.to_x, action.to_y)
        case Scroll():
            start = within(action.x, action.y)
            right, down = _DIRECTIONS[action.direction]
            end = (start[0] + right * _SCROLL * unit, start[1] + down * _SCROLL * unit)
        case _:
            return [], []
    back = atan2(start[1] - end[1], start[0] - end[0])
    one_side = _polar(end, back - pi / 6, _HEAD * unit)
    other_side = _polar(end, back + pi / 6, _HEAD * unit)
    return [[start, end], [one_side, end, other_side]], [start]


def _unit(size: tuple[int, int]) -> float:
    return max(1.0, size[0] / 1440)


def _polar(centre: Point, angle: float, radius: float) -> Point:
    return centre[0] + radius * cos(angle), centre[1] + radius * sin(angle)


def _middle(pixel: Point) -> str:
    return f"{_short(pixel[0] + 0.5)} {_short(pixel[1] + 0.5)}"


def _short(number: float) -> str:
    return f"{round(number, 1):g}"
