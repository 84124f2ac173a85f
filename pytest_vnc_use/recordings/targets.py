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
from pytest_vnc_use.recordings.images import Pixels, differing, most_common
from pytest_vnc_use.recordings.same_text import BORDER, Kinds, kinds_beside
from pytest_vnc_use.types import Region
from pytest_vnc_use.types.actions import Point

_CROPS_PX = ((48, 24), (24, 16))
"""Width and height of the crops around a click that are looked for elsewhere. The
larger one holds a whole icon. In a row of small buttons it holds the neighbours too,
and these may be others at the new place: hence the smaller one.
"""
_OWN_PX = (12, 12)
"""The crop that holds nothing but what is clicked. Text or an icon leaves ink in it."""
_STILL_CLICKED_PX = 4
"""A drawing that has moved by less than the crop's third is still clicked, as a button in
a theme with other borders.
"""
_MAX_PLACES = 4_000
"""The maximum places at which a crop is looked for."""


def why_moved(point: Point, recorded: Pixels, seen: Pixels) -> str:
    """Return what shows that the target of a click at `point` has moved, as in "is at
    (240, 224) now"; "" if nothing does.
    """
    crops = [_crop(point, size, recorded) for size in _CROPS_PX]
    largest = crops[0]
    for crop in crops:
        was = crop.part_of(recorded)
        differs = differing(was, crop.part_of(seen))
        # where only the smaller crop is the same, it must be more than background
        is_telling = crop is largest or _is_drawing(was)
        if is_telling and not differs.any():
            return ""

    control = _control_around(point, recorded)
    control_now = _control_around(point, seen)
    for crop in crops:  # 1: it is elsewhere
        for place in _places(crop, recorded, seen):
            if not _is_still_clicked(place, point, control_now):
                return f"is at {place} now"

    own = _crop(point, _OWN_PX, recorded)
    if _is_blank(own.part_of(seen)):  # 2: nothing is left
        had_ink = not _is_blank(own.part_of(recorded))
        lost_borders = control is not None and control_now is None
        if had_ink or lost_borders:
            return "is not there now"

    for crop in crops:  # 3: something else has taken its place
        for place in _places(crop, seen, recorded):
            if not _is_still_clicked(place, point, control):
                return f"has what was at {place} in its place"
    return ""


def _crop(point: Point, size: tuple[int, int], screen: Pixels) -> Region:
    """Return the region of this size around a point, cut at the edges of the screen."""
    x, y = point
    width, height = size
    screen_height, screen_width = screen.shape
    return Region(
        max(0, x - width // 2),
        max(0, y - height // 2),
        min(screen_width, x + width // 2),
        min(screen_height, y + height // 2),
    )


def _is_blank(crop: Pixels) -> bool:
    return bool((crop == crop[0, 0]).all())


def _is_drawing(crop: Pixels) -> bool:
    """Return whether a crop can be recognised elsewhere: a straight line cannot, as all
    its rows or all its columns are equal.
    """
    first_row = crop[:1]
    first_column = crop[:, :1]
    return bool((crop != first_row).any() and (crop != first_column).any())


def _places(crop: Region, one: Pixels, other: Pixels) -> Iterator[Point]:
    """Yield where the middle of a crop of one screen is on the other one, if the one
    screen does not have it there too.
    """
    drawing = crop.part_of(one)
    if not _is_drawing(drawing):
        return
    # Only where a pixel of the rarest colour is can the whole crop be: its first one in
    # the crop, and each on the other screen, give a corner to look at.
    colours, counts = np.unique(drawing, return_counts=True)
    rarest = colours[counts.argmin()]
    inside = np.argwhere(drawing == rarest)[0]
    corners = np.argwhere(other == rarest) - inside
    for top, left in corners[:_MAX_PLACES].tolist():
        if top < 0 or left < 0:
            continue
        place = Region(left, top, left + crop.width, top + crop.height)
        is_there = np.array_equal(place.part_of(other), drawing)
        if is_there and differing(place.part_of(one), drawing).any():
            yield left + crop.width // 2, top + crop.height // 2


def _is_still_clicked(place: Point, point: Point, control: Region | None) -> bool:
    """Return whether a drawing that has moved still covers the click: it is almost
    where it was, or was moved aside within the control that is clicked, whose label
    became longer or shorter.
    """
    x, y = point
    place_x, place_y = place
    across = abs(place_x - x)
    down = abs(place_y - y)
    if max(across, down) <= _STILL_CLICKED_PX:
        return True
    if control is None or not control.holds(place):
        return False
    width, height = _CROPS_PX[0]
    return across < width // 2 and down < height // 2


def _control_around(point: Point, screen: Pixels) -> Region | None:
    """Return the inside of the borders around a point; None where there are none as
    near as a button's.

           ─────────────
          │   [ own ]   │     a border is a row or column of pixels without background
           ─────────────      all along `own`
    """
    own = _crop(point, _OWN_PX, screen)
    ink = screen != most_common(own.part_of(screen))
    rows = _borders_beside(kinds_beside(own, ink, axis=0), own.top, own.bottom)
    columns = _borders_beside(kinds_beside(own, ink, axis=1), own.left, own.right)
    if rows is None or columns is None:
        return None
    top, bottom = rows
    left, right = columns
    control = Region(left, top, right, bottom)
    across, down = AROUND_PX
    return control if control.is_within((2 * across, 2 * down)) else None


def _borders_beside(kinds: Kinds, start: int, stop: int) -> tuple[int, int] | None:
    """Return the ends of what the nearest borders on both sides of a stretch enclose;
    None where there is none on one of them.
    """
    before = np.flatnonzero(kinds[:start] == BORDER)
    after = np.flatnonzero(kinds[stop:] == BORDER)
    if not before.size or not after.size:
        return None
    return int(before[-1]) + 1, stop + int(after[0])
