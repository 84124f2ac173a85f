"""Where and when the screen changed, and what keeps changing by itself, kept per tile of 32 x 32 pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Tiles = npt.NDArray[np.bool_]

TILE_PX = 32
REST_S = 1.5
"""What has not changed for so long has come to rest; a clock that ticks each second has not."""
_BUTTON_PX = (160, 32)
"""So far from the pixel that was clicked a button shows that it was."""
_LINE_TILES = 3
"""So many rows of tiles are touched by a line of text and, below it, the caret or a prompt."""
_UNLIKE = 4
"""A change of so many times the pixels of those before it is not one more of them: text beside a caret."""
_SIZE_HALVES_S = 3.0


@dataclass(frozen=True)
class Rhythm:
    """At least `updates` changes of one tile over at least `span_s`."""

    updates: int
    span_s: float


FAST = Rhythm(6, 0.4)
"""Spinners and videos; a transition in CSS mostly ends sooner."""
SLOW = Rhythm(4, 1.0)
"""Carets (a blink takes 500 ms in chromium, 300 and 600 in xterm) and clocks."""


class Activity:
    """Counts and times of changes per tile; `last_s` is when each changed last, all by one monotonic clock, in seconds.

    A tile moves by itself while it changes in a rhythm, `FAST` or `SLOW`, and never rests for `REST_S`. Counted is from
    `restart` on; what moved before, and is told to `learn`, is known until it rests or changes quite differently.
    """

    def __init__(self, width: int, height: int) -> None:
        shape = (-(-height // TILE_PX), -(-width // TILE_PX))
        self._count = np.zeros(shape, np.int64)
        self._first_s = np.zeros(shape)
        self.last_s = np.full(shape, -np.inf)
        self._size = np.zeros(shape)
        self._known = np.zeros(shape, np.bool_)

    def restart(self) -> None:
        """Count changes from here on; when tiles last changed is kept, and which are known to move by themselves."""
        self._count[:] = 0

    def learn(self, now_s: float) -> None:
        """What moves now does so by itself."""
        self._known = self.moving(now_s)

    def add(self, x: int, y: int, changed: Tiles, now_s: float) -> None:
        """Count the tiles under the pixels `changed`, an array of shape (height, width) whose corner is at (x, y)."""
        sizes = _sums(_sums(changed.view(np.uint8), y, axis=0), x, axis=1)
        top, left = y // TILE_PX, x // TILE_PX
        window = np.s_[top : top + sizes.shape[0], left : left + sizes.shape[1]]
        touched = sizes > 0
        self._end_rhythms(window, touched, sizes, now_s)
        self._first_s[window][touched & (self._count[window] == 0)] = now_s
        self.last_s[window][touched] = now_s
        self._count[window] += touched

    def _end_rhythms(self, window: Any, touched: Tiles, sizes: npt.NDArray[np.int64], now_s: float) -> None:
        """Of the tiles that change anew after a rest, or by far more than before; and keep how much they change."""
        since_s = np.where(touched, now_s - self.last_s[window], 0.0)
        before = self._size[window] * 0.5 ** (since_s / _SIZE_HALVES_S)
        ended = (since_s > REST_S) | (touched & (before > 0) & (sizes > _UNLIKE * before))
        self._known[window][ended] = False
        self._count[window][ended] = 0
        is_first = (self._count[window] == 0) & ~self._known[window]  # it may well be an action's effect
        self._size[window] = np.where(is_first, 0.0, np.maximum(before, sizes))

    def moving(self, now_s: float) -> Tiles:
        """The tiles that keep changing by themselves."""
        in_rhythm = self._known | self._is_in(FAST) | self._is_in(SLOW)
        moving: Tiles = in_rhythm & (now_s - self.last_s <= REST_S)
        return moving

    def around(self, point: tuple[int, int] | None) -> Tiles:
        """The tiles that a button under a pixel may cover; none around no pixel."""
        tiles = np.zeros_like(self._known)
        if point is not None:
            (x, y), (across, down) = point, _BUTTON_PX
            left, right, top, bottom = (max(0, at) // TILE_PX for at in (x - across, x + across, y - down, y + down))
            tiles[top : bottom + 1, left : right + 1] = True
        return tiles

    def line_since(self, moment_s: float, except_tiles: Tiles) -> Tiles:
        """The tiles that changed from a moment on, where one line of text may be all of it; else none."""
        tiles: Tiles = (self.last_s >= moment_s) & ~except_tiles
        rows = np.flatnonzero(tiles.any(axis=1))
        return tiles if rows.size and np.ptp(rows) < _LINE_TILES else np.zeros_like(tiles)

    @property
    def known(self) -> Tiles:
        """The tiles that moved by themselves when it was last learned."""
        return self._known

    def _is_in(self, rhythm: Rhythm) -> Tiles:
        is_in: Tiles = (self._count >= rhythm.updates) & (self.last_s - self._first_s >= rhythm.span_s)
        return is_in

    def last_change_s(self, except_tiles: Tiles | np.bool_ = np.False_) -> float:
        """When a tile outside `except_tiles` last changed; minus infinity where none ever did."""
        return float(np.max(self.last_s, where=~except_tiles, initial=-np.inf))


def _sums(counts: npt.NDArray[Any], offset: int, axis: int) -> npt.NDArray[np.int64]:
    """The sums per tile along one axis, whose first element is at `offset`."""
    starts = np.arange(-(offset % TILE_PX), counts.shape[axis], TILE_PX).clip(min=0)
    sums: npt.NDArray[np.int64] = np.add.reduceat(counts, starts, axis=axis, dtype=np.int64)
    return sums
