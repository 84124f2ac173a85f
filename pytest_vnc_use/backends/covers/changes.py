"""Find what appeared on a screen while text was typed: boxes around it, its ink, and the field around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_vnc_use.backends.pixels import COLOUR_BITS, Pixels
from pytest_vnc_use.types import Region

Mask = npt.NDArray[np.bool_]

_APART_PX = (4, 24)
"""The number of equal rows, and of equal columns, between two changes that makes them two."""
_SAME_DRAWING = 0.95
"""If at least this share of edges is the same before and after, only the colour changed."""
_BESIDE_PX, _CARET_BESIDE_PX = 3, 8
_MARGIN_PX, _FRAMED_PX = 3, 16
"""The free rows of a field above and below the text, if nothing is drawn there: in a terminal the next line is near.

A field with a frame reaches up to its frame, if that is no further than the second number.
"""


@dataclass(frozen=True, eq=False)
class AppearedPart:
    """A part of the screen in which something new is drawn.

    `box` holds the ink, `field` also the plain space around it, up to what is drawn there. `ink` are the pixels of the
    box that are not of the `paper`, the colour of most of it.
    """

    box: Region
    field: Region
    ink: Mask
    paper: int


def differing(one: Pixels, other: Pixels) -> Mask:
    """Mark the pixels that differ in colour."""
    marked: Mask = ((one ^ other) & COLOUR_BITS) != 0
    return marked


def appeared(before: Pixels, after: Pixels, left_out: Mask, moved: Mask) -> Iterator[AppearedPart]:
    """Yield the parts that are drawn in `after` but not in `before`, without the `left_out` pixels.

    Parts that only changed colour or disappeared are left out. The plain space of a field ends at `moved` pixels.
    """
    changed = differing(before, after) & ~left_out
    for box in boxes_of(changed):
        around = box.grown(_BESIDE_PX, *after.shape[::-1])  # there the paper shows also beside a single stroke
        if _is_recoloured(around.part_of(before), around.part_of(after)):
            continue
        paper = most_common(around.part_of(after))
        ink = (box.part_of(after) & COLOUR_BITS) != paper  # also pixels that were as dark before, beneath a block caret
        if ink.any():
            inner = _offset(next(_tight(ink)), box)
            yield AppearedPart(inner, field_around(inner, after, paper, moved), _cut(ink, inner, box), paper)


def _cut(ink: Mask, inner: Region, box: Region) -> Mask:
    cut: Mask = Region(
        inner.left - box.left, inner.top - box.top, inner.right - box.left, inner.bottom - box.top
    ).part_of(ink)
    return cut


def _offset(inner: Region, box: Region) -> Region:
    return Region(inner.left + box.left, inner.top + box.top, inner.right + box.left, inner.bottom + box.top)


def most_common(pixels: Pixels) -> int:
    """Return the colour of most pixels."""
    colours, counts = np.unique(pixels & COLOUR_BITS, return_counts=True)
    return int(colours[counts.argmax()])


# --- boxes -----------------------------------------------------------------------------------------------------------


def boxes_of(marked: Mask) -> Iterator[Region]:
    """Yield a box around each group of marked pixels that is apart from the others."""
    for box in _tight(marked):
        inside = box.part_of(marked)
        for axis, apart_px in enumerate(_APART_PX):
            lines = np.flatnonzero(inside.any(axis=1 - axis))
            if (gaps := np.flatnonzero(np.diff(lines) > apart_px)).size:
                cut = int(lines[gaps[0]]) + 1
                height, width = inside.shape
                halves = (
                    (Region(0, 0, width, cut), Region(0, cut, width, height)),
                    (Region(0, 0, cut, height), Region(cut, 0, width, height)),
                )[axis]
                for half in halves:
                    for each in boxes_of(half.part_of(inside)):
                        yield _offset(_offset(each, half), box)
                return
        yield box


def _tight(marked: Mask) -> Iterator[Region]:
    """Yield the smallest box that holds all marked pixels; nothing if none is marked."""
    rows, columns = np.flatnonzero(marked.any(axis=1)), np.flatnonzero(marked.any(axis=0))
    if rows.size:
        yield Region(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)


# --- the same drawing in another colour ------------------------------------------------------------------------------


def _is_recoloured(before: Pixels, after: Pixels) -> bool:
    now, then = _edges(after), _edges(before)
    if not now.any():
        return not then.any()  # one colour, before as after
    return _is_along(now, then) and _is_along(then, now)  # otherwise a 3 would count as an 8


def _is_along(edges: Mask, others: Mask) -> bool:
    """Return whether edges are where the others are, or a pixel beside them."""
    near = others.copy()
    for axis in (0, 1):
        for step in (-1, 1):
            near |= np.roll(others, step, axis)
    return bool((edges & near).sum() >= _SAME_DRAWING * edges.sum())


def _edges(pixels: Pixels) -> Mask:
    """Mark the pixels that differ from the one to the left or above."""
    edges = np.zeros(pixels.shape, np.bool_)
    edges[:, 1:] |= differing(pixels[:, 1:], pixels[:, :-1])
    edges[1:] |= differing(pixels[1:], pixels[:-1])
    return edges


# --- fields ----------------------------------------------------------------------------------------------------------


def field_around(box: Region, screen: Pixels, paper: int, moved: Mask, margin: int = _MARGIN_PX) -> Region:
    """Return the box with all plain space to its sides, and up to its frame or `margin` rows above and below it.

    Pixels that `moved` by themselves do not count. Right beside the box they are the caret and count as plain space;
    anything further away ends it.
    """
    plain = ((screen & COLOUR_BITS) == paper) & ~moved
    beside = box.grown(_CARET_BESIDE_PX, *moved.shape[::-1])
    beside.part_of(plain)[:] |= beside.part_of(moved)
    columns = plain[box.top : box.bottom].all(axis=0)
    left = box.left - _run(columns[: box.left][::-1])
    right = box.right + _run(columns[box.right :])
    rows = plain[:, left:right].all(axis=1)
    above, below = (_run(side) for side in (rows[: box.top][::-1], rows[box.bottom :]))
    above, below = (free if free <= _FRAMED_PX else margin for free in (above, below))
    return Region(left, box.top - above, right, box.bottom + below)


def _run(marked: Mask) -> int:
    """Return how many elements are marked at the beginning."""
    return int(marked.size if marked.all() else np.argmin(marked))
