"""Other spellings of a scroll: pixels in place of notches, and no point."""

from __future__ import annotations

from pytest_vnc_use.errors import ActionError
from pytest_vnc_use.types import PIXELS_A_NOTCH, Direction, Scroll, ScrollMeans

MAGNITUDE = 800
"""The pixels of a scroll that says only where it goes."""
_DIRECTIONS = ("up", "down", "left", "right")


def scroll_of(
    x: int | Direction | None,
    y: int | None,
    direction: Direction | None,
    clicks: int,
    by: ScrollMeans,
    magnitude: int | None,
    size: tuple[int, int],
) -> Scroll:
    """Return the scroll; without a point it is in the middle of a screen of this `size`, and goes by pixels.

    Raises ActionError.
    """
    if not isinstance(x, int):  # as in scroll("down", magnitude=800)
        direction, pixels = x or direction, magnitude if y is None else y
        x, y, magnitude = size[0] // 2, size[1] // 2, MAGNITUDE if pixels is None else pixels
    if direction not in _DIRECTIONS or y is None:
        raise ActionError(f"a scroll must have a direction, up, down, left or right, got {direction!r}")
    if magnitude is not None and magnitude < 1:
        raise ActionError(f"the magnitude of a scroll must be at least 1 pixel, got {magnitude!r}")
    notches = clicks if magnitude is None else max(1, round(magnitude / PIXELS_A_NOTCH))
    if notches < 1:
        raise ActionError(f"a scroll must be at least 1 click of the wheel, got {clicks!r}")
    return Scroll(x, y, direction, notches, by)
