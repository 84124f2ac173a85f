"""A line of typed text as pixels, and the search for the same pixels elsewhere on a screen.

This reads no text: what is found is, pixel by pixel, what appeared while the text was typed, or a piece of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pytest_vnc_use.backends.covers.changes import Appeared, Mask
from pytest_vnc_use.backends.screen.rectangles import COLOUR_BITS, Pixels
from pytest_vnc_use.same_screen import CARET_PX
from pytest_vnc_use.types import Region

LEAST_CHARACTERS = 4
"""The fewest characters of a longer secret that are found; fewer would be in many words by chance."""
_CHARACTER_WIDTH = 0.35, 0.8
"""The least and the largest width of a character, as a share of its line's height."""
_BASE = 0x9E3779B97F4A7C15
_BITS = 64
_TABLE_BITS = 18

Numbers = npt.NDArray[np.uint64]


class Columns:
    """The columns of a screen as numbers: each of a few rows, one below the other, is one number."""

    def __init__(self, screen: Pixels) -> None:
        self.screen = screen & COLOUR_BITS

    @cached_property
    def _sums(self) -> Numbers:
        """The number of each column from the top of the screen down to each row."""
        height, width = self.screen.shape
        sums = np.zeros((height + 1, width), np.uint64)
        for row in range(height):
            np.multiply(sums[row], np.uint64(_BASE), out=sums[row + 1])
            sums[row + 1] += self.screen[row]
        return sums

    def numbers(self, rows: int) -> Numbers:
        """Return the number of the `rows` pixels below each pixel."""
        power = np.uint64(pow(_BASE, rows, 1 << _BITS))
        numbers: Numbers = self._sums[rows:] - self._sums[:-rows] * power
        return numbers


class Line:
    """A line of text as it was typed, with a row of paper above and below it. `characters` may be on it, or fewer."""

    def __init__(self, pixels: Pixels, paper: int, characters: int) -> None:
        self.pixels = pixels & COLOUR_BITS
        height, width = pixels.shape
        self._blank: Mask = (self.pixels == paper).all(axis=0)
        narrow, wide = (share * height for share in _CHARACTER_WIDTH)
        a_character = min(max(width / characters, narrow), wide)
        self._least = min(width, int(LEAST_CHARACTERS * a_character))
        self._numbers = Columns(self.pixels).numbers(height)[0]

    @classmethod
    def of(cls, seen: Appeared, screen: Pixels, characters: int) -> Line | None:
        """Return the line that appeared on a screen; None where it touches the screen's upper or lower edge."""
        box = seen.box
        if box.top == 0 or box.bottom == screen.shape[0]:
            return None
        rows = Region(box.left, box.top - 1, box.right, box.bottom + 1).part_of(screen) & COLOUR_BITS
        rows[[0, -1]] = seen.paper
        return cls(rows, seen.paper, characters)

    def is_in(self, other: Line) -> bool:
        """Return whether another line shows all of this one."""
        return next(self.places(Columns(other.pixels), self.pixels.shape[1]), None) is not None

    def places(self, columns: Columns, least: int | None = None) -> Iterator[Region]:
        """Yield where a screen shows the line, or a piece of it of at least four characters."""
        least = least or self._least
        height, width = self.pixels.shape
        screen = columns.screen
        if height > screen.shape[0]:
            return
        for top, left in self._candidates(columns.numbers(height), least):
            first, last = max(0, left), min(left + width, screen.shape[1])
            there = screen[top : top + height, first:last] == self.pixels[:, first - left : last - left]
            for start, end in _runs(there.all(axis=0), least):
                if not self._blank[first - left + start : first - left + end].all():
                    yield Region(first + start, top, first + end, top + height)

    def _candidates(self, numbers: Numbers, least: int) -> Iterator[tuple[int, int]]:
        """Yield the top left corners that the line may have: there enough of its columns are at their places."""
        drawn = np.flatnonzero(~self._blank)
        wanted = self._numbers[drawn]
        table = np.zeros(1 << _TABLE_BITS, np.bool_)
        table[wanted >> np.uint64(_BITS - _TABLE_BITS)] = True
        found = np.flatnonzero(table[numbers >> np.uint64(_BITS - _TABLE_BITS)])
        values, width = numbers.ravel()[found], numbers.shape[1]
        tops, lefts = np.divmod(found, width)
        corners = []
        for column, number in zip(drawn, wanted, strict=True):
            same = values == number
            corners.append(tops[same] * 2 * width + lefts[same] - column + width)
        places, counts = np.unique(np.concatenate(corners), return_counts=True)
        for place in places[counts >= self._fewest_drawn(least)]:
            yield int(place) // (2 * width), int(place) % (2 * width) - width

    def _fewest_drawn(self, least: int) -> int:
        """Return the fewest columns with ink that a piece of the least width has."""
        drawn = np.concatenate([[0], np.cumsum(~self._blank)])
        return max(1, int((drawn[least:] - drawn[:-least]).min()))


def glyphs_in(pixels: Pixels, paper: int) -> list[Pixels]:
    """Return what is drawn on the paper as pieces, left to right, each apart from the next by a column of paper."""
    pixels = pixels & COLOUR_BITS
    return [pixels[:, start:end] for start, end in _runs((pixels != paper).any(axis=0), 1)]


def dot_of(pixels: Pixels, paper: int, text: str) -> Pixels | None:
    """Return the dot that stands for each character of a text that a field hides; None where it may be readable.

    There are as many dots as characters, and perhaps a caret. A text of one character only is never known as hidden.
    """
    glyphs = glyphs_in(pixels, paper)
    if len(glyphs) == len(text) + 1:
        carets = [number for number, glyph in enumerate(glyphs) if _is_caret(glyph, paper)]
        glyphs = [glyph for number, glyph in enumerate(glyphs) if number not in carets[-1:]]
    alike = all(np.array_equal(glyphs[0], other) for other in glyphs[1:])
    return glyphs[0] if alike and len(glyphs) == len(text) and len(set(text)) > 1 else None


def _is_caret(glyph: Pixels, paper: int) -> bool:
    """Return whether a piece may be a caret: no larger than one, and of one colour."""
    drawn = _without_paper(glyph, paper)
    return drawn.shape[1] <= CARET_PX[0] and drawn.shape[0] <= CARET_PX[1] and bool((drawn == drawn[0, 0]).all())


def is_dot(glyph: Pixels, dot: Pixels, paper: int) -> bool:
    """Return whether a piece is a dot, wherever it is from top to bottom."""
    return np.array_equal(_without_paper(glyph, paper), _without_paper(dot, paper))


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
