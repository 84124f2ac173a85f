"""When a screen is settled after an action: the record of its changes per tile of 32 x 32 pixels, and the rules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_vnc_use.types import SettledReason

Tiles = npt.NDArray[np.bool_]

TILE_PX = 32
REST_S = 1.5
"""A tile without a change for this time is stable; a clock that ticks each second is not."""
_BUTTON_PX = (160, 32)
"""The distance from the clicked pixel, across and down, within which a button shows that it was clicked."""
_LINE_TILES = 3
"""The most rows of tiles that a line of text touches, with the caret or a prompt below it."""
_UNLIKE = 4
"""A change of more than this many times the pixels of earlier ones is of another kind: text beside a caret."""
_SIZE_HALVES_S = 3.0


_RHYTHMS = (6, 0.4), (4, 1.0)
"""At least so many changes of one tile over at least so many seconds.

The first is that of spinners and videos; a transition in CSS mostly ends sooner. The second is that of clocks and
carets: a blink takes 500 ms in chromium, 300 and 600 in xterm.
"""


class Activity:
    """The counts and times of changes per tile.

    `last_s` is the moment of each tile's last change. All moments are in seconds on one monotonic clock.

    A tile moves on its own while it changes in a rhythm, `FAST` or `SLOW`, and never rests for `REST_S`. Changes count
    from `restart` on. A tile that moved when `learn` was called stays known until it rests or changes quite
    differently.
    """

    def __init__(self, width: int, height: int) -> None:
        shape = (-(-height // TILE_PX), -(-width // TILE_PX))
        self._count = np.zeros(shape, np.int64)
        self._first_s = np.zeros(shape)
        self.last_s = np.full(shape, -np.inf)
        self._size = np.zeros(shape)
        self.known = np.zeros(shape, np.bool_)
        """The tiles that moved on their own at the last `learn` and have not stopped since."""

    def restart(self) -> None:
        """Count changes from here on; keep the times of the last changes, and the tiles known to move."""
        self._count[:] = 0

    def learn(self, now_s: float) -> None:
        """Note that the tiles that move now do so on their own."""
        self.known = self.moving(now_s)

    def add(self, x: int, y: int, changed: Tiles, now_s: float) -> None:
        """Count the tiles under the pixels `changed`, an array of shape (height, width) with its corner at (x, y)."""
        sizes = _sums(_sums(changed.view(np.uint8), y, axis=0), x, axis=1)
        top, left = y // TILE_PX, x // TILE_PX
        window = np.s_[top : top + sizes.shape[0], left : left + sizes.shape[1]]
        touched = sizes > 0
        self._end_rhythms(window, touched, sizes, now_s)
        self._first_s[window][touched & (self._count[window] == 0)] = now_s
        self.last_s[window][touched] = now_s
        self._count[window] += touched

    def _end_rhythms(self, window: Any, touched: Tiles, sizes: npt.NDArray[np.int64], now_s: float) -> None:
        """End the rhythm of tiles that change after a rest, or by far more than before; keep the sizes of changes."""
        since_s = np.where(touched, now_s - self.last_s[window], 0.0)
        before = self._size[window] * 0.5 ** (since_s / _SIZE_HALVES_S)
        ended = (since_s > REST_S) | (touched & (before > 0) & (sizes > _UNLIKE * before))
        self.known[window][ended] = False
        self._count[window][ended] = 0
        is_first = (self._count[window] == 0) & ~self.known[window]  # it may well be an action's effect
        self._size[window] = np.where(is_first, 0.0, np.maximum(before, sizes))

    def moving(self, now_s: float) -> Tiles:
        """Return the tiles that keep changing on their own."""
        span_s, in_rhythm = self.last_s - self._first_s, self.known
        for updates, least_s in _RHYTHMS:
            in_rhythm = in_rhythm | ((self._count >= updates) & (span_s >= least_s))
        moving: Tiles = in_rhythm & (now_s - self.last_s <= REST_S)
        return moving

    def around(self, point: tuple[int, int] | None) -> Tiles:
        """Return the tiles that a button under a pixel may cover; none if there is no pixel."""
        tiles = np.zeros_like(self.known)
        if point is not None:
            (x, y), (across, down) = point, _BUTTON_PX
            left, right, top, bottom = (max(0, at) // TILE_PX for at in (x - across, x + across, y - down, y + down))
            tiles[top : bottom + 1, left : right + 1] = True
        return tiles

    def line_since(self, moment: float, except_tiles: Tiles) -> Tiles:
        """Return the tiles that changed from `moment` on, if they may all be one line of text; else none."""
        tiles: Tiles = (self.last_s >= moment) & ~except_tiles
        rows = np.flatnonzero(tiles.any(axis=1))
        return tiles if rows.size and np.ptp(rows) < _LINE_TILES else np.zeros_like(tiles)

    def last_change_s(self, except_tiles: Tiles | np.bool_ = np.False_) -> float:
        """Return when a tile outside `except_tiles` last changed; minus infinity if none ever did."""
        return float(np.max(self.last_s, where=~except_tiles, initial=-np.inf))


def _sums(counts: npt.NDArray[Any], offset: int, axis: int) -> npt.NDArray[np.int64]:
    """Return the sums per tile along one axis, whose first element is at `offset`."""
    starts = np.arange(-(offset % TILE_PX), counts.shape[axis], TILE_PX).clip(min=0)
    sums: npt.NDArray[np.int64] = np.add.reduceat(counts, starts, axis=axis, dtype=np.int64)
    return sums


@dataclass(frozen=True)
class SettleRules:
    """The waiting times for a screen, in seconds.

    A first change is awaited until `first_change_s` after the action began. Then the screen must rest for `quiet_s`;
    moving tiles do not count. A button that only shows its press has not answered yet. Nor has a line that only shows
    the typed text. With `any_change` both are enough. `limit_s` limits the whole wait.
    """

    first_change_s: float = 0.5
    quiet_s: float = 0.2
    limit_s: float = 5.0
    any_change: bool = False

    def shortened(self) -> SettleRules:
        """Return shorter rules for a screen that the caller continues to watch.

        Of 150 frames these rules missed the end of 39; the watch missed none.
        """
        return replace(self, first_change_s=0.6 * self.first_change_s, quiet_s=0.5 * self.quiet_s)


@dataclass(frozen=True)
class ActionWindow:
    """The moments when the last action began and ended, on the monotonic clock.

    `clicked` is the pixel that it clicked. `entered` is set if its last key is Enter, which sends a line of text or
    presses a default button.
    """

    began_s: float
    ended_s: float
    clicked: tuple[int, int] | None = None
    entered: bool = False


def decide(activity: Activity, mark: ActionWindow, rules: SettleRules, now_s: float) -> tuple[SettledReason, float]:
    """Return why a screen that changes no more counts as settled, and from when on."""
    moving = activity.moving(now_s)
    last_change_s = activity.last_change_s(except_tiles=moving)
    quiet_s = max(last_change_s, mark.ended_s) + rules.quiet_s
    shows_the_action: Tiles | np.bool_ = np.False_  # such as a pressed button, or typed text
    if mark.entered and not rules.any_change:
        shows_the_action = activity.line_since(mark.began_s, except_tiles=moving)
    elif not rules.any_change:
        shows_the_action = activity.around(mark.clicked)
    if activity.last_change_s(except_tiles=moving | shows_the_action) >= mark.began_s:
        return "animated" if moving.any() else "settled", quiet_s
    awaited_s = max(quiet_s, mark.began_s + rules.first_change_s)
    if last_change_s >= mark.began_s:
        return "animated" if moving.any() else "settled", awaited_s
    return "animated" if (moving & ~activity.known).any() else "nothing_changed", awaited_s
