"""Text that is only rasterised differently: the one difference between two screens that is none.

Screens are compared pixel by pixel, except in a line of text that a browser draws with hinting after one start and
without it after another, or at another subpixel offset. Then nearly all edges of the whole line differ a little. Such a
line is no difference if one small move of each glyph explains it: up or down, where the rows of a glyph may move apart
as hinting moves them, or to the side. A glyph that is equal to the bit, one that keeps a residual, one with more or
less ink, or another colour makes the line a difference.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pytest_vnc_use.recordings.images import SAME_LEVELS, Mask, Pixels, differing, levels_of
from pytest_vnc_use.types import Region

Coverage = npt.NDArray[np.float32]
"""Shape (height, width, 3): the distance of each channel from the background; 1 is the contrast of the line."""

MIN_PX, MAX_PX = 14, 64
"""The height of a line, from its highest to its lowest pixel. In smaller text a digit may hide in the noise."""
MIN_HINTED_PX = 17
"""The smallest height of a line that may be hinted another way."""
MAX_LINES = 128
"""More lines than that are not fitted: it is another screen, and a comparison must stay fast."""
MAX_SHARE = 0.1
"""The largest share of the screen that may be text that is rasterised another way."""
_MIN_CONTRAST = 64
"""The smallest contrast of a line, in levels."""
_TILE_PX, _REACH = 8, 2
"""Differences within so many tiles of so many pixels may belong to one line."""
_GAP = 0.6
"""The widest gap between two glyphs of a line, a space for example, in heights of the line."""
_MOVES = np.arange(-10, 11) / 8
"""The moves that are tried, in pixels; to the side, up to `_MAX_ASIDE`."""
_SLOPE = 2
"""How many of these moves two neighbouring rows of a glyph may be apart."""
_STEP_COST = 0.002
"""What it costs to change the move from one row to the next, so that plain rows do not."""
_MAX_HINTED, _MAX_OFFSET = 0.22, 0.12
"""The largest share of the contrast that may remain in a blurred pixel after the move."""
_MAX_CHANNEL = 0.3
"""The same for one channel of LCD text that is hinted another way."""
_MAX_ASIDE, _MAX_APART = 0.75, 0.25
"""How far a glyph may move to the side, and two glyphs apart: each starts at a quarter of a pixel."""
_FRINGE = 0.1
"""A column with less, of the contrast, parts two glyphs: that much of LCD text reaches into the gaps."""
_FLIP, _MAX_FLIPS = 0.9, 0.2
"""The share of differing pixels that may differ by nearly the whole contrast: in text, nearly all differ a little."""
_FAINT = 0.03
"""The smallest share of the contrast that connects two pixels to one part."""
_MAX_INK = 0.2
"""The largest change of the ink of a connected part: the logarithm of the ratio."""
_MAX_COLOUR = 4 / 255
"""The largest change of a glyph's strongest level, which is the colour of the text."""


def really_differing(recorded: Pixels, now: Pixels) -> Mask:
    """Mark the pixels that differ, but none in a line of text that is only rasterised differently."""
    marked = differing(recorded, now)
    count = np.count_nonzero(marked)
    if not count or count > MAX_SHARE * marked.size:
        return marked
    same = [line for line in _lines(marked, recorded, now) if is_same_text(*map(line.part_of, (recorded, now)))]
    for line in same:
        line.part_of(marked)[:] = False
    return marked


def _lines(marked: Mask, one: Pixels, other: Pixels) -> Iterator[Region]:
    """Yield the regions of what may be lines of text, each with a ring of background; `MAX_LINES` at most."""
    left = MAX_LINES
    for group in _groups(marked):
        for piece in _pieces(group, marked, one, other):
            line = _whole_line(piece, marked, one, other)
            if line and left:
                left -= 1
                yield line


def _groups(marked: Mask) -> Iterator[Region]:
    """Yield a region around each group of marked pixels that are within a few tiles of each other."""
    height, width = marked.shape
    padded = np.pad(marked, ((0, -height % _TILE_PX), (0, -width % _TILE_PX)))
    tiles = padded.reshape(padded.shape[0] // _TILE_PX, _TILE_PX, -1, _TILE_PX).any(axis=(1, 3))
    left = {(int(row), int(column)) for row, column in np.argwhere(tiles)}
    near = [(down, across) for down in range(-_REACH, _REACH + 1) for across in range(-_REACH, _REACH + 1)]
    while left:
        group = [left.pop()]
        for row, column in group:  # the list grows meanwhile
            neighbours = {(row + down, column + across) for down, across in near} & left
            left -= neighbours
            group.extend(neighbours)
        tops, lefts = ([tile[axis] * _TILE_PX for tile in group] for axis in (0, 1))
        yield Region(min(lefts), min(tops), min(max(lefts) + _TILE_PX, width), min(max(tops) + _TILE_PX, height))


def _pieces(region: Region, marked: Mask, one: Pixels, other: Pixels) -> Iterator[Region]:
    """Yield the pieces of a region with marked pixels: cut at rows of one colour, and at gaps wider than a space."""
    inside = region.part_of(marked)
    rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
    top, left = region.top + int(rows[0]), region.left + int(columns[0])
    region = Region(left, top, left + int(np.ptp(columns)) + 1, top + int(np.ptp(rows)) + 1)
    before, now = region.part_of(one), region.part_of(other)
    plain = ((before == before[:, :1]) & (now == before[:, :1])).all(axis=1)
    runs = [*_runs(~plain, 0)]
    pieces = [Region(left, top + begin, region.right, top + end) for begin, end in runs]
    if len(runs) <= 1:
        plain = ((before == before[:1]) & (now == before[:1])).all(axis=0)
        runs = [*_runs(~plain, _gap(region.bottom - top))]
        pieces = [Region(left + begin, top, left + end, region.bottom) for begin, end in runs]
    if len(runs) <= 1:
        yield region
        return
    for piece in pieces:
        if piece.part_of(marked).any():
            yield from _pieces(piece, marked, one, other)


def _gap(height: int) -> int:
    return max(4, round(_GAP * height))


def _runs(drawn: npt.NDArray[np.bool_], gap: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each run of True. A run continues after a gap of so many at most."""
    places = np.flatnonzero(drawn)
    cuts = np.flatnonzero(np.diff(places) > gap + 1)
    for begin, end in zip((0, *(cuts + 1)), (*cuts, len(places) - 1), strict=True):
        yield int(places[begin]), int(places[end]) + 1


def _whole_line(piece: Region, marked: Mask, one: Pixels, other: Pixels) -> Region | None:
    """Return the region of the line that a piece belongs to, with one pixel of background around it.

    None where it is no such line: too high or low, at the edge of the screen, or beside a glyph that did not change.
    """
    height, width = marked.shape
    area = Region(
        max(0, piece.left - MAX_PX), max(0, piece.top - MAX_PX),
        min(width, piece.right + MAX_PX), min(height, piece.bottom + MAX_PX),
    )  # fmt: skip
    colours, counts = np.unique(piece.part_of(one), return_counts=True)
    background = colours[counts.argmax()]
    drawn = (area.part_of(one) != background) | (area.part_of(other) != background)
    differs = area.part_of(marked)
    top, bottom, left, right = (
        piece.top - area.top,
        piece.bottom - area.top,
        piece.left - area.left,
        piece.right - area.left,
    )
    grown = True
    while grown:
        before = top, bottom, left, right
        while top and drawn[top - 1, left:right].any():
            top -= 1
        while bottom < len(drawn) and drawn[bottom, left:right].any():
            bottom += 1
        while left and drawn[top:bottom, left - 1].any():
            left -= 1
        while right < drawn.shape[1] and drawn[top:bottom, right].any():
            right += 1
        if bottom - top > MAX_PX:
            return None
        gap, half = _gap(bottom - top), (bottom - top) // 2
        for side, nearest in ((slice(max(0, left - gap), left), -1), (slice(right, right + gap), 0)):
            columns = side.start + np.flatnonzero(drawn[top:bottom, side].any(axis=0))
            if not columns.size:
                continue
            if differs[top:bottom, side].any():
                left, right = min(left, int(columns[0])), max(right, int(columns[-1]) + 1)
            elif not drawn[max(0, top - half) : bottom + half, columns[nearest]].all():
                return None  # a glyph that did not change; what is higher is a border beside the line
        grown = before != (top, bottom, left, right)
    is_inside = min(top, left) > 0 and bottom < drawn.shape[0] and right < drawn.shape[1]
    if not is_inside or bottom - top < MIN_PX:
        return None
    return Region(area.left + left - 1, area.top + top - 1, area.left + right + 1, area.top + bottom + 1)


def is_same_text(one: Pixels, other: Pixels) -> bool:
    """Return whether two crops of a line show the same text, rasterised differently.

    The line has one pixel of background around it.
    """
    background = levels_of(one[:1, len(one[0]) // 2 : len(one[0]) // 2 + 1])
    before, now = (levels_of(pixels) - background for pixels in (one, other))
    apart = np.abs(before - now).max(axis=2) > SAME_LEVELS
    contrast = max(np.abs(before).max(), np.abs(now).max())
    if all((levels == levels[..., :1]).all() for levels in (before, now)):
        before, now = before[..., :1], now[..., :1]
    before, now = (np.pad(levels, ((2, 2), (2, 2), (0, 0))) / np.float32(contrast) for levels in (before, now))
    inked = np.maximum(np.abs(before), np.abs(now)).max(axis=(0, 2)) > _FRINGE
    # the first column of each glyph, or of glyphs that touch; the gap after a glyph belongs to it
    starts = np.flatnonzero(inked & ~np.roll(inked, 1))
    starts[:1] = 0
    if len(starts) < 2 or contrast < _MIN_CONTRAST:
        return False
    if not np.logical_or.reduceat(np.pad(apart.any(axis=0), 2), starts).all():
        return False
    if (np.abs(before - now).max(axis=2) > _FLIP).sum() > _MAX_FLIPS * apart.sum():
        return False
    strongest = [np.maximum.reduceat(np.abs(levels).max(axis=0), starts) for levels in (before, now)]
    if np.abs(strongest[0] - strongest[1]).max() > _MAX_COLOUR:
        return False
    moves = ((down, across) for down in (-1, 0, 1) for across in (-1, 0, 1))
    if any(not differing(np.roll(one, move, (0, 1)), other).any() for move in moves):
        return False  # the same drawing, at another place
    methods = (_fits_hinted, _fits_offset) if len(one) - 2 >= MIN_HINTED_PX else (_fits_offset,)
    fitting = (fits(before, now, starts) and fits(now, before, starts) for fits in methods)
    return any(fitting) and _keeps_ink(before, now)


def _fits_hinted(before: Coverage, now: Coverage, starts: npt.NDArray[np.intp]) -> bool:
    """Return whether moves up and down turn one line into the other.

    All pixels in a row of a glyph make the same move. The moves of two neighbouring rows are at most `_SLOPE` apart:
    the best sequence of moves is found row by row, from the top.
    """
    before, now = _blurred(before, 0), _blurred(now, 0)
    moved = np.stack([_moved(before, move, 0) for move in _MOVES])
    costs = np.add.reduceat(((moved - now) ** 2).sum(axis=3), starts, axis=2)  # a move, a row, a glyph
    spent, came_from = costs[:, 0], []
    for row in range(1, costs.shape[1]):
        padded = np.pad(spent, ((_SLOPE, _SLOPE), (0, 0)), constant_values=np.inf)
        steps = np.stack([padded[step : step + len(_MOVES)] for step in range(2 * _SLOPE + 1)])
        steps += _STEP_COST * np.abs(np.arange(-_SLOPE, _SLOPE + 1))[:, None, None]
        came_from.append(steps.argmin(axis=0) - _SLOPE)
        spent = steps.min(axis=0) + costs[:, row]
    best = [spent.argmin(axis=0)]
    for back in reversed(came_from):
        best.append(best[-1] + np.take_along_axis(back, best[-1][None], axis=0)[0])
    chosen = _of_columns(np.stack(best[::-1]), starts, now.shape[1])
    left = np.take_along_axis(moved, chosen[None, :, :, None], axis=0)[0] - now
    return bool(np.abs(left.mean(axis=2)).max() <= _MAX_HINTED and np.abs(left).max() <= _MAX_CHANNEL)


def _fits_offset(before: Coverage, now: Coverage, starts: npt.NDArray[np.intp]) -> bool:
    """Return whether one move to the side for each glyph, nearly the same for all, turns one line into the other."""
    before, now = (_blurred(_blurred(coverage, 1), 1) for coverage in (before, now))
    moves = _MOVES[np.abs(_MOVES) <= _MAX_ASIDE]
    moved = np.stack([_moved(before, move, 1) for move in moves])
    best = np.add.reduceat(((moved - now) ** 2).sum(axis=(1, 3)), starts, axis=1).argmin(axis=0)
    left = np.take_along_axis(moved, _of_columns(best[None], starts, now.shape[1])[None, :, :, None], axis=0)[0] - now
    return bool(np.abs(left).max() <= _MAX_OFFSET and np.ptp(moves[best]) <= _MAX_APART)


def _blurred(coverage: Coverage, axis: int) -> Coverage:
    """Return it blurred along an axis, so that what the rasteriser rounded within a pixel does not count."""
    blurred: Coverage = (np.roll(coverage, 1, axis) + 2 * coverage + np.roll(coverage, -1, axis)) / np.float32(4)
    return blurred


def _moved(coverage: Coverage, move: float, axis: int) -> Coverage:
    whole = int(np.floor(move))
    part = np.float32(move - whole)
    moved: Coverage = (1 - part) * np.roll(coverage, whole, axis) + part * np.roll(coverage, whole + 1, axis)
    return moved


def _of_columns(of_glyphs: npt.NDArray[np.intp], starts: npt.NDArray[np.intp], width: int) -> npt.NDArray[np.intp]:
    """Repeat the value of each glyph for each of its columns."""
    return np.repeat(of_glyphs, np.diff(np.append(starts, width)), axis=-1)


def _keeps_ink(before: Coverage, now: Coverage) -> bool:
    """Return whether each connected part, such as a stem, a dot or a comma, has about as much ink in both images."""
    inks = [np.abs(coverage).mean(axis=2) for coverage in (before, now)]
    inked = np.maximum(*inks) > _FAINT
    parts = np.where(inked, np.arange(1, inked.size + 1).reshape(inked.shape), 0)
    spread = np.zeros_like(parts)
    while (spread != parts).any():  # the largest number of each part spreads through it
        spread, padded = parts, np.pad(parts, 1)
        rows = np.maximum(np.maximum(padded[:-2], padded[1:-1]), padded[2:])
        parts = np.maximum(np.maximum(rows[:, :-2], rows[:, 1:-1]), rows[:, 2:]) * inked
    numbers = np.unique(parts, return_inverse=True)[1].ravel()
    of_parts = [np.maximum(np.bincount(numbers, ink.ravel())[1:], _FAINT) for ink in inks]
    return bool(np.abs(np.log(of_parts[0] / of_parts[1])).max() <= _MAX_INK)
