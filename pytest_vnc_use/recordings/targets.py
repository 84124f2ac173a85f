"""Whether the target of a recorded action is still where it was, as far as pixels tell.

A reviewer may accept a button with another label, but not a click on the empty place
beside a button that has moved. Three findings show that a target has moved:

1. What was around the click is elsewhere now, where it was not before.
2. The place of the click is blank now, and was not before.
3. What is around the click now was elsewhere before, as after a row was removed.

    recorded  [Open] [Save]        [Exit]      the click is in the middle of [Save]
    now       [Open]   x  [Exit][Save]         1: [Save] is elsewhere
              [Open]   x  [Exit]               2: x is blank
              [Open] [Exit]                    3: [Exit] was elsewhere
              [Open] [Keep]        [Exit]      none: the button has another label
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pytest_vnc_use.recordings.gates import AROUND_PX
from pytest_vnc_use.recordings.images import Pixels, differing
from pytest_vnc_use.recordings.same_text import BORDER, lines_beside
from pytest_vnc_use.types import Region
from pytest_vnc_use.types.actions import Point

_CROPS_PX = (48, 24), (24, 16)
"""Width and height of the crops around a click that are looked for elsewhere. The
larger one holds a whole icon. In a row of small buttons it holds the neighbours too,
and these may be others at the new place: hence the smaller one.
"""
_OWN_PX = (12, 12)
"""The crop that holds nothing but what is clicked. Text or an icon leaves ink in it."""
_MAX_PLACES = 4_000
"""The most places at which a crop is looked for."""


def why_moved(point: Point, recorded: Pixels, seen: Pixels) -> str:
    """Return what shows that the target of a click at `point` has moved, as in "is at
    (240, 224) now"; "" if nothing does.
    """
    crops = [_crop(point, size, recorded) for size in _CROPS_PX]
    for crop in crops:
        was = crop.part_of(recorded)
        is_same = not differing(was, crop.part_of(seen)).any()
        if is_same and (crop is crops[0] or _is_drawing(was)):
            return ""

    control = _control_around(point, recorded)
    control_now = _control_around(point, seen)
    for crop in crops:
        for place in _places(crop, recorded, seen):
            if not _is_within_control(place, point, control_now):
                return f"is at {place} now"

    own = _crop(point, _OWN_PX, recorded)
    if _is_blank(own.part_of(seen)):
        had_ink = not _is_blank(own.part_of(recorded))
        lost_borders = control is not None and control_now is None
        if had_ink or lost_borders:
            return "is not there now"

    for crop in crops:
        for place in _places(crop, seen, recorded):
            if not _is_within_control(place, point, control):
                return f"has what was at {place} in its place"
    return ""


def _crop(point: Point, size: tuple[int, int], screen: Pixels) -> Region:
    """Return the region of this size around a point, cut at the edges of the screen."""
    x, y = point
    width, height = size
    return Region(
        max(0, x - width // 2),
        max(0, y - height // 2),
        min(screen.shape[1], x + width // 2),
        min(screen.shape[0], y + height // 2),
    )


def _is_blank(crop: Pixels) -> bool:
    return bool((crop == crop[0, 0]).all())


def _is_drawing(crop: Pixels) -> bool:
    """Return whether a crop can be recognised elsewhere: a straight line cannot, as all
    its rows or all its columns are equal.
    """
    return bool((crop != crop[:1]).any() and (crop != crop[:, :1]).any())


def _places(crop: Region, one: Pixels, other: Pixels) -> Iterator[Point]:
    """Yield where the middle of a crop of one screen is on the other one, if the one
    screen does not have it there too.
    """
    drawing = crop.part_of(one)
    if not _is_drawing(drawing):
        return
    # Only where a pixel of the rarest colour is can the whole crop be.
    colours, counts = np.unique(drawing, return_counts=True)
    rarest = colours[counts.argmin()]
    down, across = np.argwhere(drawing == rarest)[0]
    corners = np.argwhere(other == rarest) - [down, across]
    height, width = drawing.shape
    for top, left in corners[:_MAX_PLACES].tolist():
        if top < 0 or left < 0:
            continue
        place = Region(left, top, left + width, top + height)
        is_there = np.array_equal(place.part_of(other), drawing)
        if is_there and differing(place.part_of(one), drawing).any():
            yield left + width // 2, top + height // 2


def _is_within_control(place: Point, point: Point, control: Region | None) -> bool:
    """Return whether a drawing was only moved aside within the control that is clicked,
    and still covers the click: its label became longer or shorter.
    """
    across, down = abs(place[0] - point[0]), abs(place[1] - point[1])
    width, height = _CROPS_PX[0]
    is_covered = across < width // 2 and down < height // 2
    return is_covered and control is not None and control.holds(place)


def _control_around(point: Point, screen: Pixels) -> Region | None:
    """Return the inside of the borders around a point; None where there are none as
    near as a button's.

           ─────────────
          │   [ own ]   │     a border is a row or column of pixels without background
           ─────────────      all along `own`
    """
    own = _crop(point, _OWN_PX, screen)
    colours, counts = np.unique(own.part_of(screen), return_counts=True)
    ink = screen != colours[counts.argmax()]
    ends: list[int] = []
    for axis, (start, stop) in enumerate(
        [(own.top, own.bottom), (own.left, own.right)]
    ):
        is_border = lines_beside(ink, own, axis) == BORDER
        before = np.flatnonzero(is_border[:start])
        after = np.flatnonzero(is_border[stop:])
        if not before.size or not after.size:
            return None
        ends += [int(before[-1]) + 1, stop + int(after[0])]
    top, bottom, left, right = ends
    across, down = AROUND_PX
    is_near = right - left <= 2 * across and bottom - top <= 2 * down
    return Region(left, top, right, bottom) if is_near else None
