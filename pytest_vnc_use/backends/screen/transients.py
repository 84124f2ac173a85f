"""Transient frames: screens that showed for a while between two looks, such as a toast, a splash, "loading …".

A screen is kept if one of its tiles has shown the same for `SHOWN_S` and is now drawn over. So spinners, videos and
transitions are not kept, however long they last. Carets and clocks are kept a few times, because each tile counts only
`MOST_A_TILE` times. Only the part of the screen that changed since the last look is copied, and only then.
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
"""The shortest time that counts; text to be read is shown longer."""
MOST_A_TILE = 3
MOST_FRAMES = 8
MOST_BYTES = 128 << 20

Times = npt.NDArray[np.float64]
"""The moment when each tile last changed, on the monotonic clock."""


@dataclass(frozen=True, eq=False)
class _Moment:
    """The screen at a moment: `base` with `part` at `place`; `part` is empty if no look came before."""

    base: Pixels
    place: tuple[slice, slice]
    part: Pixels
    taken_at: float
    changed: Tiles
    moving: Tiles

    def capture(self) -> Capture:
        """Return the whole screen."""
        pixels = self.base.copy()
        pixels[self.place] = self.part
        return Capture(pixels, self.taken_at, self.changed, self.moving)

    def is_a_caret(self) -> bool:
        """Return whether only a caret differs from the look before."""
        differs = ((self.base[self.place] ^ self.part) & COLOUR_BITS) != 0
        return bool(self.part.size) and within_caret(differs)


class TransientFrames:
    """The newest transient frames, limited in number and bytes. For one thread at a time."""

    def __init__(self) -> None:
        self._base: Pixels | None = None
        self._base_s = self._known_s = np.inf
        self._ended = np.zeros((0, 0), np.int64)
        self._kept: list[_Moment] = []

    def look(self, seen: Capture) -> None:
        """Note a look at the screen; later changes may be transient."""
        self._base = seen.pixels
        self._base_s = self._known_s = seen.taken_at
        self._ended = np.zeros(seen.changed.shape, np.int64)

    def resize(self, tiles: Tiles) -> None:
        """Note that the screen has other tiles; frames that were kept of the old ones stay."""
        self._base = None
        self._ended = np.zeros(tiles.shape, np.int64)

    def draw_over(self, drawn: Tiles, pixels: Pixels, last_s: Times, moving: Tiles, now_s: float) -> None:
        """Keep `pixels` as a transient frame if one of the tiles `drawn` has shown the same for `SHOWN_S`.

        These tiles are now drawn over.
        """
        passing = drawn & (last_s >= self._known_s) & (last_s <= now_s - SHOWN_S) & ~moving
        passing &= self._ended < MOST_A_TILE
        if passing.any():
            self._ended += passing
            self._known_s = now_s
            self._keep(pixels, last_s, moving, now_s)

    def take(self) -> Iterator[Capture]:
        """Return the transient frames since the last call, oldest first.

        Each is a whole screen, which is made when it is asked for.
        """
        kept, self._kept = self._kept, []
        return (moment.capture() for moment in kept if not moment.is_a_caret())

    def _keep(self, pixels: Pixels, last_s: Times, moving: Tiles, now_s: float) -> None:
        if self._base is None:
            self._base, self._base_s = pixels.copy(), now_s
        changed = last_s >= self._base_s
        rows, columns = np.nonzero(changed)
        place = _span(rows), _span(columns)  # the smallest box around the changed tiles; empty if there are none
        self._kept.append(_Moment(self._base, place, pixels[place].copy(), now_s, changed, moving))
        while len(self._kept) > MOST_FRAMES or self._bytes > MOST_BYTES:
            del self._kept[0]

    @property
    def _bytes(self) -> int:
        bases = {id(moment.base): moment.base.nbytes for moment in self._kept}
        return sum(bases.values()) + sum(moment.part.nbytes for moment in self._kept)


def _span(found: npt.NDArray[np.intp]) -> slice:
    return slice(found.min() * TILE_PX, (found.max() + 1) * TILE_PX) if found.size else slice(0, 0)
