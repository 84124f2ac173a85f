"""Lines of text that are drawn differently and read the same.

Screens are compared pixel by pixel. But a browser may draw the same page differently,
and three kinds of change leave the text the same:

1. A line of text is one pixel higher or lower, and otherwise identical.
2. A line of text starts at another fraction of a pixel: nearly all its edges differ a
   little, and one small move to the side explains all of them.
3. A few single pixels of edges, such as rounded corners, are blended a little
   differently.

Lines of text are compared whole, on a plain background. If one glyph changes otherwise,
or does not change with the others, the line is a difference.

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

from pytest_vnc_use.backends.pixels import box_of, boxes_of
from pytest_vnc_use.recordings.images import (
    Mask,
    Pixels,
    differing,
    levels_of,
    most_common,
)
from pytest_vnc_use.types import Region

# How a line is found.

MAX_LINES = 128
"""The maximum number of lines that are examined, so that a comparison stays fast."""
MAX_SHARE = 0.1
"""The largest share of the screen that may differ. With more it is another screen."""
BACKGROUND_PX = 8
"""How far around a pixel its background is searched for."""
MAX_HEIGHT_PX = 64
"""The maximum height of a line, from its highest to its lowest pixel."""
MAX_SPACE = 1.5
"""The widest gap between two words, in heights of the line: a space of a fixed-width
font beside a word without tall letters.
"""
MIN_SPACE_PX = 4
"""The gap that is always crossed: at first, only one row of the line is known."""
DOT_GAP_PX = 4
"""The maximum number of blank rows between the dots of a line and its letters, where no
letter is as high as the dots.
"""
BORDER_PX = 3
"""How far a border extends beyond the text beside it."""

BLANK = 0
INK = 1
BORDER = 2
Kinds = npt.NDArray[np.intp]
"""For each row of a screen, or each column: `BLANK`, `INK` or `BORDER`."""

# A line that is one pixel higher or lower.

MIN_MOVED_HEIGHT_PX = 7
"""The minimum height of the line: a lower one may be dots or dashes."""
MIN_MOVED_WIDTH = 1.4
"""The minimum width of the line, in heights: a single character is narrower."""
MAX_GLYPH_WIDTH = 0.8
"""The maximum width of a glyph, as a share of the line: a wider one is a box around the
others.
"""
MIN_VARIETY_PX = 2
"""The minimum difference between glyphs in width or height: the dots of a dotted line
are all alike.
"""
FULL_ROW = 0.85
"""The share of a row that an underline, or the side of a box, covers at least."""
FRINGE = 0.25
"""The share of the contrast up to which ink may be a blended edge, which reaches into
the gap between two glyphs.
"""

# A line that starts at another fraction of a pixel.

MIN_OFFSET_HEIGHT_PX = 14
"""The minimum height of the line: in smaller text, a changed digit may differ as
little.
"""
MOVES_PX = np.arange(-6, 7) / 8
"""The moves to the side that are tested."""
MAX_APART_PX = 0.25
"""The maximum difference between the moves of two glyphs: each glyph starts at a
quarter of a pixel.
"""
MAX_RESIDUAL = 0.12
"""The share of the contrast that a pixel may still differ by after the move."""
MAX_COLOUR_CHANGE = 4 / 255
"""The maximum change of a glyph's strongest level, which is the colour of the text."""

Coverage = npt.NDArray[np.float64]
"""How far each channel of each pixel is from the background, where 1 is the contrast of
the line. Its shape is (height, width, 3).
"""
Columns = npt.NDArray[np.intp]
"""The first column of each glyph of a line."""

# Single pixels that are blended differently.

MAX_BLENDED = 8
"""The maximum number of such pixels: those of the corners of two boxes."""
MAX_BLENDED_LEVELS = 12
"""The number of levels, of 255, that such a pixel may differ by."""
MAX_BLENDED_BESIDE = 2
"""The maximum number of such pixels beside each other."""
MIN_EDGE_LEVELS = 64
"""The minimum number of levels between its neighbours: a fainter edge may be faint
text.
"""
MAX_FAINT_LEVELS = 6
"""The number of levels that such a pixel of a fainter edge may differ by: it cannot be
seen.
"""


def really_differing(
    recorded: Pixels,
    now: Pixels,
    ignored: Mask | None = None,
    only: Mask | None = None,
) -> Mask:
    """Mark the pixels that differ, except where the same text is drawn differently.

    Ignored pixels are not compared, and count as background in a line. With `only`, no
    other pixels are marked and no other lines examined, which saves most of the time.
    """
    marked = differing(recorded, now)
    if ignored is not None:
        marked &= ~ignored
    # counted on the whole screen, so that `only` does not change what counts as equal
    is_other_screen = np.count_nonzero(marked) > MAX_SHARE * marked.size
    if only is not None:
        marked &= only
    if is_other_screen:
        return marked

    _unmark_lines(marked, recorded, now, ignored)
    _unmark_blended(marked, recorded, now)
    return marked


def _unmark_lines(
    marked: Mask, recorded: Pixels, now: Pixels, ignored: Mask | None
) -> None:
    """Unmark the lines of text that only moved."""
    inks: dict[int, Mask] = {}
    unchecked = marked.copy()
    for _ in range(MAX_LINES):
        if not unchecked.any():
            return
        pixel = _first_marked(unchecked)
        background = _background(pixel, recorded)
        if background not in inks:
            inks[background] = _ink(recorded, now, background, ignored)
        ink = inks[background]
        line = _line_around(pixel, ink)
        line.part_of(unchecked)[:] = False
        crops = _crops(line, recorded, now, ink, background)
        if crops and (_is_moved_line(*crops) or _is_line_at_offset(*crops)):
            line.part_of(marked)[:] = False
            continue

        # No letter of "java" is as high as its dot, so a blank row parts the two.
        dotted = _line_around(pixel, ink, DOT_GAP_PX)
        crops = _crops(dotted, recorded, now, ink, background)
        if crops and _is_moved_line(*crops):
            dotted.part_of(unchecked)[:] = False
            dotted.part_of(marked)[:] = False


def _first_marked(marked: Mask) -> Region:
    """Return the first marked pixel, row by row."""
    _, width = marked.shape
    row, column = divmod(int(marked.argmax()), width)
    return Region(column, row, column + 1, row + 1)


def _background(pixel: Region, screen: Pixels) -> int:
    """Return the most common colour around a pixel."""
    around = pixel.grown(BACKGROUND_PX, screen.shape)
    return most_common(around.part_of(screen))


def _ink(recorded: Pixels, now: Pixels, background: int, ignored: Mask | None) -> Mask:
    """Mark what is drawn on a background, on one of the screens or on both."""
    ink: Mask = (recorded != background) | (now != background)
    if ignored is not None:
        ink &= ~ignored
    # the edge of the screen is a border: a line may continue beyond it
    ink[[0, -1], :] = True
    ink[:, [0, -1]] = True
    return ink


def _line_around(box: Region, ink: Mask, gap_px: int = 0) -> Region:
    """Return the line of text that a box belongs to. It ends above and below at a gap of
    more than `gap_px` blank rows, and to the sides at a border, or at a gap wider than
    a space.

    A wider line may have higher letters, and a higher one a wider space, so both grow
    in turn until neither does:

        │ the new  text x │      x; then as high as x; then all of "text"; then as high
                                 as its t; then, over the wider space, "the new"
    """
    before = None
    while box != before and box.height <= MAX_HEIGHT_PX:
        before = box
        box = grown_vertically(box, ink, gap_px)
        space_px = max(MIN_SPACE_PX, round(MAX_SPACE * box.height))
        box = grown_sideways(box, ink, space_px)
    return box


def grown_vertically(box: Region, ink: Mask, gap_px: int) -> Region:
    """Return a box grown over the ink above and below it, across gaps of up to `gap_px`
    blank rows, up to a border.
    """
    rows = kinds_beside(box, ink, axis=0)
    top, bottom = grown_ends(rows, box.top, box.bottom, gap_px)
    return replace(box, top=top, bottom=bottom)


def grown_sideways(box: Region, ink: Mask, gap_px: int) -> Region:
    """Return a box grown over the ink to its sides, across gaps of up to `gap_px` blank
    columns, up to a border.
    """
    columns = kinds_beside(box, ink, axis=1)
    left, right = grown_ends(columns, box.left, box.right, gap_px)
    return replace(box, left=left, right=right)


def kinds_beside(box: Region, ink: Mask, axis: int) -> Kinds:
    """Return the kind of each row (axis 0) between the left and right of a box, or of
    each column (axis 1) between its top and bottom.

    A border has ink along all of the box and beyond its corners.

    >>> ink = np.zeros((6, 9), np.bool_)
    >>> ink[1, 4] = ink[5] = True
    >>> kinds_beside(Region(4, 3, 6, 4), ink, axis=0)
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


def grown_ends(kinds: Kinds, start: int, stop: int, gap_px: int) -> tuple[int, int]:
    """Return a start and a stop moved outward over ink, across gaps of up to `gap_px`,
    up to a border.

    >>> kinds = np.array([INK, BLANK, BLANK, INK, BLANK, INK, INK, BORDER])
    >>> grown_ends(kinds, 5, 6, gap_px=1)
    (3, 7)
    """
    before = kinds[:start][::-1]
    after = kinds[stop:]
    return start - _reach(before, gap_px), stop + _reach(after, gap_px)


def _reach(outward: Kinds, gap_px: int) -> int:
    """Return how far the ink reaches outward, across gaps of up to `gap_px`."""
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


def _crops(
    line: Region, recorded: Pixels, now: Pixels, ink: Mask, background: int
) -> tuple[Pixels, Pixels] | None:
    """Crop a line out of both screens, with a ring of its background around it. Return
    None if something touches the line: then it is not a line of text.
    """
    crop = line.grown(1, ink.shape)
    shown = crop.part_of(ink)
    has_ink_around = np.count_nonzero(shown) > np.count_nonzero(line.part_of(ink))
    if has_ink_around:
        return None
    # ignored pixels have no ink, so they become background
    before = np.where(shown, crop.part_of(recorded), background)
    after = np.where(shown, crop.part_of(now), background)
    return before, after


def _is_moved_line(before: Pixels, now: Pixels) -> bool:
    """Return whether two crops show the same line of text, one pixel higher or lower."""
    # The ring of background is all that `np.roll` wraps around.
    is_lower = (np.roll(before, 1, axis=0) == now).all()
    is_higher = (np.roll(before, -1, axis=0) == now).all()
    return bool(is_lower or is_higher) and _is_text(before)


def _is_text(crop: Pixels) -> bool:
    """Return whether a line has enough glyphs to be text, and no box around them."""
    background = levels_of(crop[:1, :1])
    # the distance of each pixel's farthest channel from the background
    strength = np.abs(levels_of(crop) - background).max(axis=2)
    strength = box_of(strength > 0).part_of(strength)
    height, width = strength.shape
    if height < MIN_MOVED_HEIGHT_PX or width < MIN_MOVED_WIDTH * height:
        return False

    is_full = (strength > 0).mean(axis=1) >= FULL_ROW
    if is_full[: height // 2].any():
        return False  # the upper side of a box; an underline is in the lower half
    is_letter = strength > FRINGE * strength.max()
    letters = is_letter[~is_full]
    starts = _first_columns(letters)
    sizes = []
    for glyph in np.split(letters, starts[1:], axis=1):
        box = box_of(glyph)
        if box.width > MAX_GLYPH_WIDTH * width:
            return False
        is_bar = np.count_nonzero(glyph) == box.area
        is_low = box.height < height / 2
        if not is_bar and not is_low:
            sizes.append((box.height, box.width))
    if len(sizes) < 2:
        return False
    # the range of the heights, and that of the widths
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


def _is_line_at_offset(before: Pixels, now: Pixels) -> bool:
    """Return whether two crops show the same line of text, drawn at another fraction of
    a pixel.
    """
    height = len(before) - 2  # without the ring
    if height < MIN_OFFSET_HEIGHT_PX:
        return False
    for across in (1, -1):
        moved = np.roll(before, across, axis=1)
        if not differing(moved, now).any():
            return False  # moved by a whole pixel

    background = before[0, 0]
    ink = before != background
    ink_now = now != background
    if not (_is_near(ink, ink_now) and _is_near(ink_now, ink)):
        return False  # something faint came or went

    coverage, coverage_now = _coverages(before, now)
    starts = _first_columns(ink | ink_now)
    if len(starts) < 2:
        return False
    # A gap belongs to the glyph before it; the first gap, to the first glyph.
    starts[0] = 0

    # `reduceat` returns one value for each glyph, from all of its columns
    differs = (coverage != coverage_now).any(axis=(0, 2))
    if not np.logical_or.reduceat(differs, starts).all():
        return False
    strongest = _strongest(coverage, starts)
    strongest_now = _strongest(coverage_now, starts)
    if np.abs(strongest - strongest_now).max() > MAX_COLOUR_CHANGE:
        return False
    return _fits_offset(coverage, coverage_now, starts) and _fits_offset(
        coverage_now, coverage, starts
    )


def _is_near(ink: Mask, other: Mask) -> bool:
    """Return whether all ink has other ink within a pixel to the side."""
    left = np.roll(other, -1, axis=1)
    right = np.roll(other, 1, axis=1)
    near = other | left | right
    return not (ink & ~near).any()


def _coverages(before: Pixels, now: Pixels) -> tuple[Coverage, Coverage]:
    """Return the coverage of both crops of a line, as shares of its contrast."""
    background = levels_of(before[:1, :1])
    distance = levels_of(before) - background
    distance_now = levels_of(now) - background
    contrast = max(np.abs(distance).max(), np.abs(distance_now).max())
    return distance / contrast, distance_now / contrast


def _strongest(coverage: Coverage, starts: Columns) -> Coverage:
    """Return the strongest level of each glyph, of shape (glyph, channel)."""
    columns = np.abs(coverage).max(axis=0)
    strongest: Coverage = np.maximum.reduceat(columns, starts)
    return strongest


def _fits_offset(before: Coverage, now: Coverage, starts: Columns) -> bool:
    """Return whether the first line becomes the second if each glyph is moved to the
    side, all by nearly the same fraction of a pixel.

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
    """Blur a line to the sides, so that it does not matter how the rasteriser rounded
    within a pixel.
    """
    for _ in range(2):
        left = np.roll(coverage, -1, axis=1)
        right = np.roll(coverage, 1, axis=1)
        coverage = (left + right + 2 * coverage) / 4
    return coverage


def _moved_aside(coverage: Coverage, move_px: float) -> Coverage:
    """Move a line to the right by a fraction of a pixel: each pixel becomes a blend of
    the two that then overlap it.

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


def _unmark_blended(marked: Mask, recorded: Pixels, now: Pixels) -> None:
    """Unmark single pixels that are only blended differently, if they are few."""
    differs = marked.copy()
    single = []
    for box in boxes_of(differs):
        group = box.part_of(differs)
        pieces = [piece.part_of(group) for piece in boxes_of(group, (1, 1))]
        if all(np.count_nonzero(piece) <= MAX_BLENDED_BESIDE for piece in pieces):
            single += [(box.top + y, box.left + x) for y, x in np.argwhere(group)]
    if len(single) > MAX_BLENDED:
        return
    for row, column in single:
        if _is_blended(row, column, differs, recorded, now):
            marked[row, column] = False


def _is_blended(
    row: int, column: int, marked: Mask, recorded: Pixels, now: Pixels
) -> bool:
    """Return whether a differing pixel is only blended differently: on both screens
    its levels are between those of its neighbours that do not differ.
    """
    pixel = Region(column, row, column + 1, row + 1)
    around = pixel.grown(1, marked.shape)
    differs = around.part_of(marked)
    # axes: pixel, channel; the same for `levels`, of the pixel on both screens
    neighbours = levels_of(around.part_of(recorded))[~differs]
    levels = levels_of(np.array([recorded[row, column], now[row, column]]))
    is_above = (levels >= neighbours.min(axis=0)).all()
    is_below = (levels <= neighbours.max(axis=0)).all()
    is_edge = np.ptp(neighbours, axis=0).max() >= MIN_EDGE_LEVELS
    limit = MAX_BLENDED_LEVELS if is_edge else MAX_FAINT_LEVELS
    is_near = np.ptp(levels, axis=0).max() <= limit
    return bool(is_above and is_below and is_near)
