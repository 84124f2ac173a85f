"""A line of typed text as pixels, and the search for the same pixels elsewhere on a screen.

It does not read text: it finds the same pixels as appeared while the text was typed, or a piece of them. It compares
only ink with paper, so that other colours do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pytest_vnc_use.backends.covers.changes import AppearedPart, Mask
from pytest_vnc_use.backends.pixels import COLOUR_BITS, Pixels
from pytest_vnc_use.types import CARET_PX, Region

LEAST_CHARACTERS = 4
"""The fewest characters of a longer secret that count as found; fewer would be in many words by chance."""
_CHARACTER_WIDTH = 0.35, 0.8
"""The least and the largest width of a character, as a share of its line's height."""
_SAMPLE_PX = 4
"""The distance of the sampled pixels, across and down, that show the colours of a screen."""
_MOST_PAPERS, _FEWEST_SAMPLES = 24, 12
"""The most colours of a screen on which text is searched, and the fewest samples of one."""
_MAY_DIFFER = 0.1
"""The share of a column's pixels that may differ: on some colours the faint edge of a letter looks like paper."""
_ENOUGH = 0.5
"""The share of a piece's columns that must be equal."""
_LEAST_INK = (0.3, 0.6)
"""The share of the least width that must have ink, because a piece may have a gap.

The second value is for a line beside a rule.
"""
_LEAST_HEIGHT = 5
"""The fewest rows of a line of text among others."""
_DOTS_MAY_DIFFER = 0.04
"""The share of its darkest row by which a row of a dot may differ from another dot's."""
_BASE = 0x9E3779B97F4A7C15
_BITS = 64
_TABLE_BITS = 18

Numbers = npt.NDArray[np.uint64]


class Drawing:
    """The drawing on paper of one colour: marks, and their columns as numbers."""

    def __init__(self, marks: Mask) -> None:
        self.marks = marks

    def row(self, number: int, first: int, last: int) -> Mask:
        """Return the marks in a part of a row; none are beyond the edge."""
        is_there = 0 <= number < self.marks.shape[0]
        return self.marks[number, first:last] if is_there else np.zeros(last - first, np.bool_)

    @cached_property
    def _sums(self) -> Numbers:
        """The number of each column from the top down to each row."""
        height, width = self.marks.shape
        sums = np.zeros((height + 1, width), np.uint64)
        for row in range(height):
            np.multiply(sums[row], np.uint64(_BASE), out=sums[row + 1])
            sums[row + 1] += self.marks[row]
        return sums

    def numbers(self, rows: int) -> Numbers:
        """Return the number of the `rows` marks below each pixel."""
        power = np.uint64(pow(_BASE, rows, 1 << _BITS))
        numbers: Numbers = self._sums[rows:] - self._sums[:-rows] * power
        return numbers


def drawings_on(screen: Pixels) -> Iterator[tuple[tuple[int, int], Drawing]]:
    """Yield what is drawn on each common colour of a screen, and the top left corner of the part that has the colour.

    So text is found in any colour, on paper of any other.
    """
    sample = screen[::_SAMPLE_PX, ::_SAMPLE_PX]
    colours, counts = np.unique(sample, return_counts=True)
    common = counts.argsort()[::-1][:_MOST_PAPERS]
    for paper in colours[common[counts[common] >= _FEWEST_SAMPLES]]:
        rows, columns = (np.flatnonzero((sample == paper).any(axis=axis)) for axis in (1, 0))
        top, left = (max(0, (int(found[0]) - 1) * _SAMPLE_PX) for found in (rows, columns))
        bottom, right = ((int(found[-1]) + 2) * _SAMPLE_PX for found in (rows, columns))
        yield (left, top), Drawing(screen[top:bottom, left:right] != paper)


class Line:
    """A line of text as it was drawn. `characters` may be on it, or fewer.

    The rows above and below it are free, or all of one colour: a rule below it, or the end of its paper.
    """

    def __init__(self, marks: Mask, characters: int) -> None:
        self.marks = marks
        height, width = marks.shape
        self._drawn = np.asarray(marks.any(axis=0))
        telling = self._drawn & ~marks.all(axis=0)  # any solid area shows a stem of full height
        self._telling = telling if telling.any() else self._drawn
        narrow, wide = (share * height for share in _CHARACTER_WIDTH)
        a_character = min(max(width / (characters + 1), narrow), wide)  # a caret may be in the line
        self._least = max(1, int(min(width * characters / (characters + 1), LEAST_CHARACTERS * a_character)))
        self._numbers = Drawing(marks).numbers(height)[0]

    @classmethod
    def of(cls, seen: AppearedPart, screen: Pixels, characters: int) -> Line:
        """Return the line that appeared on a screen."""
        return cls((seen.box.part_of(screen) & COLOUR_BITS) != seen.paper, characters)

    @classmethod
    def all_of(cls, seen: AppearedPart, screen: Pixels, characters: int) -> list[Line]:
        """Return each line that appeared on a screen, by itself and without a frame around it; last all in one."""
        whole = cls.of(seen, screen, characters)
        inside = _without_frame(whole.marks)
        rows = [*_runs(np.asarray(inside.any(axis=1)), _LEAST_HEIGHT)]
        if len(rows) < 2 and inside is whole.marks:
            return [whole]
        lines = []
        for top, bottom in rows:
            drawn = np.flatnonzero(inside[top:bottom].any(axis=0))
            lines.append(cls(inside[top:bottom, drawn[0] : drawn[-1] + 1], characters))
        return [*lines, whole]

    def is_in(self, other: Line) -> bool:
        """Return whether another line shows all of this one."""
        return next(self.places(Drawing(other.marks), self.marks.shape[1]), None) is not None

    def places(self, drawing: Drawing, least: int | None = None) -> Iterator[Region]:
        """Yield where a drawing shows the line, or a piece of it of at least four characters."""
        least = least or self._least
        height, width = self.marks.shape
        if height > drawing.marks.shape[0]:
            return
        for top, left in self._candidates(drawing.numbers(height), least):
            first, last = max(0, left), min(left + width, drawing.marks.shape[1])
            other = drawing.marks[top : top + height, first:last] != self.marks[:, first - left : last - left]
            beside = [drawing.row(row, first, last) for row in (top - 1, top + height)]
            differ = other.sum(axis=0) + sum(row ^ _is_most(row) for row in beside)
            fewest = max(_fewest(self._drawn, least), int(_LEAST_INK[any(map(_is_most, beside))] * least))
            for start, end in _runs(differ <= _MAY_DIFFER * (height + 2), least):
                if self._drawn[first - left + start : first - left + end].sum() >= fewest:
                    rows = max(0, top - 1), min(top + height + 1, drawing.marks.shape[0])
                    yield Region(first + start, rows[0], first + end, rows[1])

    def _candidates(self, numbers: Numbers, least: int) -> Iterator[tuple[int, int]]:
        """Yield the possible top left corners of the line: those with enough of its columns at their places."""
        drawn = np.flatnonzero(self._telling)
        needed = self._numbers[drawn]
        table = np.zeros(1 << _TABLE_BITS, np.bool_)
        table[needed >> np.uint64(_BITS - _TABLE_BITS)] = True
        found = np.flatnonzero(table[numbers >> np.uint64(_BITS - _TABLE_BITS)])
        values, width = numbers.ravel()[found], numbers.shape[1]
        tops, lefts = np.divmod(found, width)
        stride = width + self.marks.shape[1]
        corners = []
        for column, number in zip(drawn, needed, strict=True):
            same = values == number
            corners.append(tops[same] * stride + lefts[same] - column + self.marks.shape[1])
        places, counts = np.unique(np.concatenate(corners), return_counts=True)
        for place in places[counts >= max(2, _ENOUGH * _fewest(self._telling, least))]:
            yield int(place) // stride, int(place) % stride - self.marks.shape[1]


def _fewest(columns: Mask, least: int) -> int:
    """Return the fewest marked columns that a piece of the least width has."""
    marked = np.concatenate([[0], np.cumsum(columns)])
    return max(1, int((marked[least:] - marked[:-least]).min()))


def _is_most(marks: Mask) -> bool:
    return bool(2 * marks.sum() > marks.size)


def _without_frame(marks: Mask) -> Mask:
    """Return marks without what is drawn in one piece around them, from edge to edge; or the same ones."""
    frame = np.zeros(marks.shape, np.bool_)
    frame[0] = marks[0]
    while True:
        near = np.pad(frame, 1)
        grown = near[1:-1, 1:-1] | near[:-2, 1:-1] | near[2:, 1:-1] | near[1:-1, :-2] | near[1:-1, 2:]
        grown &= marks
        if np.array_equal(grown, frame):
            break
        frame = grown
    return marks & ~frame if frame[-1].any() and frame[:, 0].any() and frame[:, -1].any() else marks


def glyphs_in(pixels: Pixels, paper: int) -> list[Pixels]:
    """Return what is drawn on the paper as pieces, left to right, each apart from the next by a column of paper."""
    pixels = pixels & COLOUR_BITS
    return [pixels[:, start:end] for start, end in _runs((pixels != paper).any(axis=0), 1)]


def dot_of(pixels: Pixels, paper: int, text: str) -> Pixels | None:
    """Return the dot that stands for each character of a text that a field hides; None if it may be readable.

    There are as many dots as characters, and perhaps a caret. A text of one character only is never known as hidden.
    """
    glyphs = glyphs_in(pixels, paper)
    if len(set(text)) < 2 or not glyphs:
        return None
    carets = [number for number, glyph in enumerate(glyphs) if is_caret(glyph, paper)]
    without = [glyph for number, glyph in enumerate(glyphs) if number not in carets[-1:]]
    for each in (glyphs, without):
        dot = min(each, key=lambda glyph: _darkness(glyph, paper).sum(), default=glyphs[0])
        dots = [dots_in(glyph, dot, paper) for glyph in each]
        if all(dots) and sum(dots) == len(text) and dot.shape[1] >= _without_paper(dot, paper).shape[0] / 2:
            return dot
    return None


def is_caret(glyph: Pixels, paper: int) -> bool:
    """Return whether a piece may be a caret: no larger than one, and of one colour."""
    drawn = _without_paper(glyph, paper)
    return drawn.shape[1] <= CARET_PX[0] and drawn.shape[0] <= CARET_PX[1] and bool((drawn == drawn[0, 0]).all())


def dots_in(glyph: Pixels, dot: Pixels, paper: int) -> int:
    """Return how many dots a piece is, at any height; 0 if it is something else.

    Dots may touch, or lie between two pixels: so their rows are compared by how dark they are.
    """
    rows, rows_of_dot = (_darkness(_without_paper(each, paper), paper) for each in (glyph, dot))
    if rows.size != rows_of_dot.size:
        return 0
    count = round(float(rows.sum() / rows_of_dot.sum()))
    is_so_many = np.abs(rows - count * rows_of_dot).max() <= _DOTS_MAY_DIFFER * count * rows_of_dot.max()
    return count if is_so_many else 0


def _darkness(glyph: Pixels, paper: int) -> npt.NDArray[np.int64]:
    """Return how much each row of a piece differs from the paper."""
    levels = [np.abs((glyph >> shift & 0xFF).astype(np.int64) - (paper >> shift & 0xFF)) for shift in (0, 8, 16)]
    return np.asarray(np.sum(levels, axis=(0, 2)))


def _without_paper(glyph: Pixels, paper: int) -> Pixels:
    """Return a piece without the rows of paper above and below it."""
    rows = np.flatnonzero((glyph != paper).any(axis=1))
    return glyph[rows[0] : rows[-1] + 1]


def _runs(marked: Mask, least: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each run of at least `least` marked elements."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]]).astype(np.int8)))
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if end - start >= least:
            yield start, end
