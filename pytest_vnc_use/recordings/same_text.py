"""Lines of text that are drawn differently and read the same.

Screens are compared pixel by pixel. A browser draws the same page in more than one way,
though, and three kinds of change leave the text the same:

1. A line of text stands one pixel higher or lower, and is otherwise equal to the bit.
2. A line of text starts at another fraction of a pixel: nearly all its edges differ a
   little, and one small move to the side explains all of them.
3. Single pixels of an edge, as of a rounded corner, or two beside each other, are
   blended a little differently, and nothing else on the screen differs.

The unit is always a whole line on a plain background. A glyph of it that differs
otherwise, or does not take part, makes the line a difference.

How a line is found, from the first pixel that differs (x):

    background   the most common colour around x
    ink          all pixels of another colour, on either screen
    line         x, grown over ink and over gaps no wider than a space, up to a border
    crop         the line with a ring of one pixel, which must be background

The limits below are measured: `tests/bench/same_drawing.py --limits` loosens each in
turn, and counts the changed texts that would then pass as equal.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pytest_vnc_use.backends.pixels import box_of
from pytest_vnc_use.recordings.images import (
    Mask,
    Pixels,
    differing,
    levels_of,
    most_common,
)
from pytest_vnc_use.types import Region

Coverage = npt.NDArray[np.float64]
"""Shape (height, width, 3): the distance of each channel from the background; 1 is the
contrast of the line.
"""
Columns = npt.NDArray[np.intp]
"""The first column of each glyph of a line."""

MAX_LINES = 128
"""More lines than that are not looked at: a comparison must stay fast."""
MAX_SHARE = 0.1
"""The largest share of the screen that may differ. With more it is another screen."""
MAX_HEIGHT_PX = 64
"""The greatest height of a line, from its highest to its lowest pixel."""
GAP = 1.5
"""The widest gap between two words of a line, in heights of the line: a space of a
fixed-width font beside a word without tall letters.
"""
LEAST_SPACE_PX = 4
"""The smallest limit of that gap: a line that was only just found is a pixel high."""
DOT_GAP_PX = 4
"""The maximum blank rows between the dots of a line and its letters, where no letter is
as high as the dots.
"""
BORDER_PX = 3
"""How far a border reaches beyond the text beside it."""
AROUND_PX = 8
"""How far around a pixel the most common colour is the background."""

MIN_MOVED_PX = 7
"""The smallest height of a line that may have moved: a lower one may be dots or
dashes.
"""
MIN_MOVED_WIDTH = 1.4
"""Its smallest width, in heights: a single character is narrower."""
MAX_GLYPH = 0.8
"""The largest share of its width that one glyph may have: a wider one is a box around
the others.
"""
MIN_VARIETY_PX = 2
"""How much its characters differ in width or height at least: the dots of a dotted line
do not.
"""
FULL_ROW = 0.85
"""The smallest share of a row that has ink in an underline, or in the side of a box."""
FRINGE = 0.25
"""The share of the contrast up to which ink may be a blended edge, which reaches into
the gap between two glyphs.
"""

MIN_OFFSET_PX = 14
"""The smallest height of a line that may start at another fraction of a pixel. In
smaller text a digit may hide in the noise.
"""
MOVES_PX = np.arange(-6, 7) / 8
"""The moves to the side that are tried."""
MAX_APART_PX = 0.25
"""How far apart the moves of two glyphs may be: each starts at a quarter of a pixel."""
MAX_RESIDUAL = 0.12
"""The largest share of the contrast that a pixel may differ by after the move."""
MAX_COLOUR = 4 / 255
"""The largest change of a glyph's strongest level, which is the colour of the text."""

MAX_BLENDED = 8
"""The number of single pixels that may be blended differently: the corners of two
boxes.
"""
BLENDED_LEVELS = 12
"""How many of 255 levels such a pixel may differ by."""
MIN_EDGE_LEVELS = 64
"""How many levels its neighbours differ by at least: a fainter edge may be faint text."""

BLANK = 0
INK = 1
BORDER = 2
"""What a row or column beside a box is."""


def really_differing(
    recorded: Pixels,
    now: Pixels,
    ignored: Mask | None = None,
    only: Mask | None = None,
) -> Mask:
    """Mark the pixels that differ, but none that is only drawn differently.

    What is `ignored` is not compared, and counts as background in a line. With `only`,
    no other pixels are marked, and no other lines are looked at, which takes the most
    time.
    """
    marked = differing(recorded, now)
    if ignored is not None:
        marked &= ~ignored
    is_other_screen = np.count_nonzero(marked) > MAX_SHARE * marked.size
    if only is not None:
        marked &= only
    if is_other_screen:
        return marked

    inks: dict[int, Mask] = {}
    unchecked = marked.copy()
    for _ in range(MAX_LINES):
        if not unchecked.any():
            break
        pixel = _first_marked(unchecked)
        background = _background(pixel, recorded)
        if background not in inks:
            inks[background] = _ink(recorded, now, background, ignored)
        ink = inks[background]
        line = line_around(pixel, ink)
        line.part_of(unchecked)[:] = False
        crops = _crops(line, recorded, now, ink, background)
        if crops and (is_moved_line(*crops) or is_line_at_offset(*crops)):
            line.part_of(marked)[:] = False
            continue

        # The dots of "java" are a line of their own, and letters below them another.
        dotted = line_around(pixel, ink, DOT_GAP_PX)
        crops = _crops(dotted, recorded, now, ink, background)
        if crops and is_moved_line(*crops):
            dotted.part_of(unchecked)[:] = False
            dotted.part_of(marked)[:] = False

    if np.count_nonzero(marked) <= MAX_BLENDED:
        differs = marked.copy()
        for row, column in np.argwhere(differs):
            if _is_blended(row, column, differs, recorded, now):
                marked[row, column] = False
    return marked


def _crops(
    line: Region, recorded: Pixels, now: Pixels, ink: Mask, background: int
) -> tuple[Pixels, Pixels] | None:
    """Return a line of both screens with a ring of its background around it; None if
    something touches the line, so that it is no line of text.
    """
    crop = line.grown(1, ink.shape)
    shown = crop.part_of(ink)
    has_ink_around = np.count_nonzero(shown) > np.count_nonzero(line.part_of(ink))
    if has_ink_around:
        return None
    # what is ignored is no ink, so it becomes background
    one = np.where(shown, crop.part_of(recorded), background)
    other = np.where(shown, crop.part_of(now), background)
    return one, other


def _first_marked(marked: Mask) -> Region:
    """Return the region of the first marked pixel, by rows."""
    _, width = marked.shape
    # `argmax` finds the first one that is marked, counted through all rows
    row, column = divmod(int(marked.argmax()), width)
    return Region(column, row, column + 1, row + 1)


def _background(pixel: Region, screen: Pixels) -> int:
    """Return the most common colour around a pixel."""
    around = pixel.grown(AROUND_PX, screen.shape)
    return most_common(around.part_of(screen))


def _ink(recorded: Pixels, now: Pixels, background: int, ignored: Mask | None) -> Mask:
    """Mark what is drawn on a background, on one of the screens or on both."""
    ink: Mask = (recorded != background) | (now != background)
    if ignored is not None:
        ink &= ~ignored
    # the edge of the screen is a border: a line may go on beyond it
    ink[[0, -1], :] = True
    ink[:, [0, -1]] = True
    return ink


def line_around(box: Region, ink: Mask, gap_px: int = 0) -> Region:
    """Return the line of text that a box belongs to: up and down to a gap of more than
    `gap_px` blank rows, and to the sides to a border, or to a gap wider than a space.

    A wider line may have higher letters, and a higher one a wider space, so both grow
    in turn until neither does:

        │ the new  text x │      x; then as high as x; then all of "text"; then as high
                                 as its t; then, over the wider space, "the new"
    """
    before = None
    while box != before and box.height <= MAX_HEIGHT_PX:
        before = box
        box = grown_along(0, box, ink, gap_px)
        space_px = max(LEAST_SPACE_PX, round(GAP * box.height))
        box = grown_along(1, box, ink, space_px)
    return box


def grown_along(axis: int, box: Region, ink: Mask, gap_px: int) -> Region:
    """Return a box grown over the ink beside it, up and down (axis 0) or to the sides
    (axis 1), across gaps of up to `gap_px` blank lines, up to a border.
    """
    kinds = lines_beside(ink, box, axis)
    if axis == 0:
        top, bottom = grown_ends(kinds, box.top, box.bottom, gap_px)
        return replace(box, top=top, bottom=bottom)
    left, right = grown_ends(kinds, box.left, box.right, gap_px)
    return replace(box, left=left, right=right)


def lines_beside(ink: Mask, box: Region, axis: int) -> npt.NDArray[np.intp]:
    """Return for each row (axis 0) or column (axis 1) beside a box whether it is blank,
    has ink, or is a border, which has ink along all of the box and beyond its corners.

    >>> ink = np.zeros((6, 9), np.bool_)
    >>> ink[1, 4] = ink[5] = True
    >>> lines_beside(ink, Region(4, 3, 6, 4), axis=0)
    array([0, 1, 0, 0, 0, 2])
    """
    wider = box.grown(BORDER_PX, ink.shape)
    if axis == 0:
        inside = ink[:, box.left : box.right]
        beyond = ink[:, wider.left : wider.right]
    else:
        inside = ink[box.top : box.bottom].T
        beyond = ink[wider.top : wider.bottom].T
    has_ink = np.where(inside.any(axis=1), INK, BLANK)
    return np.where(beyond.all(axis=1), BORDER, has_ink)


def grown_ends(
    kinds: npt.NDArray[np.intp], start: int, stop: int, gap_px: int
) -> tuple[int, int]:
    """Return the ends of the ink around a stretch, across gaps of up to `gap_px` blank
    lines, up to a border.

    >>> kinds = np.array([INK, BLANK, BLANK, INK, BLANK, INK, INK, BORDER])
    >>> grown_ends(kinds, 5, 6, gap_px=1)
    (3, 7)
    """
    above = kinds[:start][::-1]
    below = kinds[stop:]
    return start - _reach(above, gap_px), stop + _reach(below, gap_px)


def _reach(outward: npt.NDArray[np.intp], gap_px: int) -> int:
    """Return how many lines the ink reaches outward, across gaps of `gap_px` lines."""
    reached = 0
    blank = 0
    for number, kind in enumerate(outward, 1):
        if kind == BORDER:
            break
        if kind == INK:
            reached = number
            blank = 0
            continue
        blank += 1
        if blank > gap_px:
            break
    return reached


def is_moved_line(one: Pixels, other: Pixels) -> bool:
    """Return whether two crops show the same line of text, one pixel higher or lower.

    The line has a ring of background around it in both, so that nothing is lost where
    `np.roll` turns the last row to the first place.
    """
    is_lower = (np.roll(one, 1, axis=0) == other).all()
    is_higher = (np.roll(one, -1, axis=0) == other).all()
    return bool(is_lower or is_higher) and _is_text(one)


def _is_text(crop: Pixels) -> bool:
    """Return whether a line has enough glyphs to be text, and no box around them."""
    background = levels_of(crop[:1, :1])
    # of each pixel, how far its farthest channel is from the background
    strength = np.abs(levels_of(crop) - background).max(axis=2)
    strength = box_of(strength > 0).part_of(strength)
    height, width = strength.shape
    if height < MIN_MOVED_PX or width < MIN_MOVED_WIDTH * height:
        return False

    is_full = (strength > 0).mean(axis=1) >= FULL_ROW
    if is_full[: height // 2].any():
        return False  # the upper side of a box; below the letters it is an underline
    is_letter = strength > FRINGE * strength.max()
    letters = is_letter[~is_full]
    starts = _first_columns(letters)
    sizes = []
    for glyph in np.split(letters, starts[1:], axis=1):
        box = box_of(glyph)
        if box.width > MAX_GLYPH * width:
            return False
        is_bar = np.count_nonzero(glyph) == box.area
        is_low = box.height < height / 2
        if not is_bar and not is_low:
            sizes.append((box.height, box.width))
    if len(sizes) < 2:
        return False
    # the largest less the smallest, of the heights and of the widths
    variety_px = np.ptp(sizes, axis=0)
    return bool(variety_px.max() >= MIN_VARIETY_PX)


def _first_columns(ink: Mask) -> Columns:
    """Return the first column of each glyph: it has ink, and the one before has none.

    >>> _first_columns(np.array([[True, True, False, True]]))
    array([0, 3])
    """
    has_ink = ink.any(axis=0).astype(np.int8)
    steps = np.diff(has_ink, prepend=0)
    return np.flatnonzero(steps == 1)


def is_line_at_offset(one: Pixels, other: Pixels) -> bool:
    """Return whether two crops show the same line of text, drawn at another fraction of
    a pixel.

    The line has a ring of background around it in both.
    """
    height = len(one) - 2  # without the ring
    if height < MIN_OFFSET_PX:
        return False
    for across in (1, -1):
        moved = np.roll(one, across, axis=1)
        if not differing(moved, other).any():
            return False  # moved by a whole pixel

    ink = one != one[0, 0]
    ink_now = other != one[0, 0]
    if not (_is_near(ink, ink_now) and _is_near(ink_now, ink)):
        return False  # something faint came or went

    background = levels_of(one[:1, :1])
    before = levels_of(one) - background
    now = levels_of(other) - background
    # from here on 1 is the contrast of the line, whatever its colours
    contrast = max(np.abs(before).max(), np.abs(now).max())
    before = before / contrast
    now = now / contrast
    starts = _first_columns(ink | ink_now)
    if len(starts) < 2:
        return False
    # the gap after a glyph belongs to it, and the one before the first
    starts[0] = 0

    # `reduceat` gives one value for each glyph, from all of its columns
    differs = (before != now).any(axis=(0, 2))
    if not np.logical_or.reduceat(differs, starts).all():
        return False
    strongest = _strongest(before, starts)
    strongest_now = _strongest(now, starts)
    if np.abs(strongest - strongest_now).max() > MAX_COLOUR:
        return False
    return _fits_offset(before, now, starts) and _fits_offset(now, before, starts)


def _strongest(coverage: Coverage, starts: Columns) -> Coverage:
    """Return the strongest level of each glyph, of shape (glyph, channel)."""
    columns = np.abs(coverage).max(axis=0)
    strongest: Coverage = np.maximum.reduceat(columns, starts)
    return strongest


def _is_near(ink: Mask, other: Mask) -> bool:
    """Return whether all ink has other ink within a pixel to the side."""
    left = np.roll(other, -1, axis=1)
    right = np.roll(other, 1, axis=1)
    near = other | left | right
    return not (ink & ~near).any()


def _fits_offset(before: Coverage, now: Coverage, starts: Columns) -> bool:
    """Return whether one move to the side for each glyph, nearly the same for all,
    turns one line into the other.

        glyphs    g   l y p h      each is moved by each of `MOVES_PX`, and its best move
        best     ¼   ¼ ⅛ ¼ ¼       leaves the least difference from the other line
    """
    before = _blurred(before)
    now = _blurred(now)
    _, width, _ = now.shape
    # axes: move, row, column, channel
    moved = np.stack([_moved_aside(before, move) for move in MOVES_PX])
    # axes: move, column; then move, glyph
    column_costs = ((moved - now) ** 2).sum(axis=(1, 3))
    costs = np.add.reduceat(column_costs, starts, axis=1)
    best = costs.argmin(axis=0)
    if np.ptp(MOVES_PX[best]) > MAX_APART_PX:
        return False
    widths = np.diff(starts, append=width)
    # each column by its glyph's best move; the index arrays put columns first
    best_of_column = np.repeat(best, widths)
    fitted = moved[best_of_column, :, np.arange(width)].swapaxes(0, 1)
    return bool(np.abs(fitted - now).max() <= MAX_RESIDUAL)


def _blurred(coverage: Coverage) -> Coverage:
    """Return it blurred to the sides, so that what the rasteriser rounded within a pixel
    does not count.
    """
    for _ in range(2):
        left = np.roll(coverage, -1, axis=1)
        right = np.roll(coverage, 1, axis=1)
        coverage = (left + right + 2 * coverage) / 4
    return coverage


def _moved_aside(coverage: Coverage, move_px: float) -> Coverage:
    """Return it moved to the right by a fraction of a pixel: each pixel becomes a blend
    of the two that come to lie on it.

    >>> line = np.array([[[0.0], [1.0], [0.0], [0.0]]])
    >>> _moved_aside(line, 0.25)[0, :, 0]
    array([0.  , 0.75, 0.25, 0.  ])
    """
    whole_px = int(np.floor(move_px))
    fraction = move_px - whole_px
    near = np.roll(coverage, whole_px, axis=1)
    far = np.roll(coverage, whole_px + 1, axis=1)
    moved: Coverage = (1 - fraction) * near + fraction * far
    return moved


def _is_blended(
    row: int, column: int, marked: Mask, recorded: Pixels, now: Pixels
) -> bool:
    """Return whether a differing pixel is only blended differently: in both images its
    levels lie between those of its neighbours, of which at most one differs too.
    """
    pixel = Region(column, row, column + 1, row + 1)
    around = pixel.grown(1, marked.shape)
    differs = around.part_of(marked)
    if np.count_nonzero(differs) > 2:
        return False
    # of shape (pixel, channel), as the two levels below it
    neighbours = levels_of(around.part_of(recorded))[~differs]
    levels = levels_of(np.array([recorded[row, column], now[row, column]]))
    is_above = (levels >= neighbours.min(axis=0)).all()
    is_below = (levels <= neighbours.max(axis=0)).all()
    is_near = np.ptp(levels, axis=0).max() <= BLENDED_LEVELS
    is_edge = np.ptp(neighbours, axis=0).max() >= MIN_EDGE_LEVELS
    return bool(is_above and is_below and is_near and is_edge)
