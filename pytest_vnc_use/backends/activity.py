"""Where and when the screen changed since the last action, kept per tile of 32 x 32 pixels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

TILE_PX = 32


class Activity:
    """Counts and times of changes per tile. All times are readings of one monotonic clock, in seconds."""

    def __init__(self, width: int, height: int) -> None:
        shape = (-(-height // TILE_PX), -(-width // TILE_PX))
        self._count = np.zeros(shape, np.int64)
        self._first_s = np.zeros(shape)
        self._last_s = np.full(shape, -np.inf)

    def restart(self) -> None:
        """Forget how often tiles changed; when they last changed is kept."""
        self._count[:] = 0

    def add(self, x: int, y: int, changed: npt.NDArray[np.bool_], now_s: float) -> None:
        """Count the tiles under the pixels `changed`, an array of shape (height, width) whose corner is at (x, y)."""
        top, left = y // TILE_PX, x // TILE_PX
        touched = _any_per_tile(_any_per_tile(changed, y, axis=0), x, axis=1)
        window = np.s_[top : top + touched.shape[0], left : left + touched.shape[1]]
        self._first_s[window][touched & (self._count[window] == 0)] = now_s
        self._last_s[window][touched] = now_s
        self._count[window] += touched

    def animated(self, updates: int, span_s: float) -> npt.NDArray[np.bool_]:
        """The tiles that changed at least `updates` times over at least `span_s` since the last restart."""
        return (self._count >= updates) & (self._last_s - self._first_s >= span_s)

    def last_change_s(self, except_tiles: npt.NDArray[np.bool_]) -> float:
        """When a tile outside `except_tiles` last changed; minus infinity where none ever did."""
        return float(np.max(self._last_s, where=~except_tiles, initial=-np.inf))


def _any_per_tile(changed: npt.NDArray[np.bool_], offset: int, axis: int) -> npt.NDArray[np.bool_]:
    length = changed.shape[axis]
    starts = np.arange(-(offset % TILE_PX), length, TILE_PX).clip(min=0)
    reduced: npt.NDArray[np.bool_] = np.logical_or.reduceat(changed, starts, axis=axis)
    return reduced
