"""What the screen showed for a while between two looks at it, and then no more: a toast, a splash, "loading …".

A tile that shows one thing for `SHOWN_S` and is about to be drawn over makes its moment worth keeping. So spinners,
videos and transitions are not kept, however long; carets and clocks a few times, as each tile counts but so often.
Only the part of the screen that changed since the last look is copied, and only then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_vnc_use.backends.screen.activity import TILE_PX, Tiles
from pytest_vnc_use.backends.screen.capture import Capture
from pytest_vnc_use.backends.screen.rectangles import COLOUR_BITS, Pixels
from pytest_vnc_use.same_screen import within_caret

SHOWN_S = 0.2
"""The shortest time that counts; what is to be read is shown longer."""
MOST_A_TILE = 3
MOST_FRAMES = 8
MOST_BYTES = 128 << 20

Times = npt.NDArray[np.float64]
"""When each tile last changed, on the monotonic clock."""


@dataclass(frozen=True, eq=False)
class _Passed:
    """The screen at a moment: `base`, but for the `part` at `place`, if anything was known before."""

    base: Pixels
    place: tuple[slice, slice]
    part: Pixels
    taken_s: float
    changed: Tiles
    moving: Tiles

    def capture(self) -> Capture:
        pixels = self.base.copy()
        pixels[self.place] = self.part
        return Capture(pixels, self.taken_s, self.changed, self.moving)

    def is_a_caret(self) -> bool:
        """Whether no more than a caret differs from what was seen before."""
        differs = ((self.base[self.place] ^ self.part) & COLOUR_BITS) != 0
        return bool(self.part.size) and within_caret(differs)


class TransientFrames:
    """Keeps what passes, the newest of it, bounded in number and bytes. For one thread at a time."""

    def __init__(self) -> None:
        self._base: Pixels | None = None
        self._base_s = self._known_s = np.inf
        self._ended = np.zeros((0, 0), np.int64)
        self._kept: list[_Passed] = []

    def look(self, seen: Capture) -> None:
        """The screen was seen so; what changes from there on may pass."""
        self._base = seen.pixels
        self._base_s = self._known_s = seen.taken_s
        self._ended = np.zeros(seen.changed.shape, np.int64)

    def resize(self, tiles: Tiles) -> None:
        """The screen has other tiles; what was kept of the old ones stays."""
        self._base = None
        self._ended = np.zeros(tiles.shape, np.int64)

    def draw_over(self, drawn: Tiles, pixels: Pixels, last_s: Times, moving: Tiles, now_s: float) -> None:
        """Keep `pixels` if something in them passes, now that the tiles `drawn` are drawn over."""
        passing = drawn & (last_s >= self._known_s) & (last_s <= now_s - SHOWN_S) & ~moving
        passing &= self._ended < MOST_A_TILE
        if passing.any():
            self._ended += passing
            self._known_s = now_s
            self._keep(pixels, last_s, moving, now_s)

    def take(self) -> Iterator[Capture]:
        """What has passed since the last call, oldest first; a whole screen each, made when it is asked for."""
        kept, self._kept = self._kept, []
        return (passed.capture() for passed in kept if not passed.is_a_caret())

    def _keep(self, pixels: Pixels, last_s: Times, moving: Tiles, now_s: float) -> None:
        if self._base is None:
            self._base, self._base_s = pixels.copy(), now_s
        changed = last_s >= self._base_s
        place = _place(changed)
        self._kept.append(_Passed(self._base, place, pixels[place].copy(), now_s, changed, moving))
        while len(self._kept) > MOST_FRAMES or self._bytes > MOST_BYTES:
            del self._kept[0]

    @property
    def _bytes(self) -> int:
        bases = {id(passed.base): passed.base.nbytes for passed in self._kept}
        return sum(bases.values()) + sum(passed.part.nbytes for passed in self._kept)


def _place(tiles: Tiles) -> tuple[slice, slice]:
    """The pixels of the smallest box around the marked tiles; of nothing where none is."""
    rows, columns = np.nonzero(tiles)
    return _span(rows), _span(columns)


def _span(found: npt.NDArray[np.intp]) -> slice:
    return slice(found.min() * TILE_PX, (found.max() + 1) * TILE_PX) if found.size else slice(0, 0)
