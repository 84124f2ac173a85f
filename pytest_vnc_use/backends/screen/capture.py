"""The pixels of the screen at one moment, and the frame that is made of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pytest_vnc_use.backends.screen.activity import TILE_PX, Tiles
from pytest_vnc_use.backends.screen.png import encode_png
from pytest_vnc_use.backends.screen.pointer_shape import PlacedPointer
from pytest_vnc_use.backends.screen.rectangles import Pixels
from pytest_vnc_use.types import Frame, FrameRef, Region


@dataclass(frozen=True, eq=False)
class Capture:
    """Pixels that nobody writes to any more, with the facts that a Frame holds about them."""

    pixels: Pixels
    taken_at: float
    changed: Tiles
    moving: Tiles
    pointer: PlacedPointer | None = None

    def frame(self, *, pointer: bool = False) -> Frame:
        """Encode these pixels as a frame, here and now; with `pointer`, draw the pointer on it if it is known."""
        pixels = self.pointer.drawn_on(self.pixels) if pointer and self.pointer else self.pixels
        png = encode_png(pixels)
        height, width = self.pixels.shape
        changed, moving = (tuple(regions(tiles, width, height)) for tiles in (self.changed, self.moving))
        digest = hashlib.sha256(png).hexdigest()
        return Frame(FrameRef(digest, width, height), png, self.taken_at, changed, moving, pixels)


def regions(tiles: Tiles, width: int, height: int) -> Iterator[Region]:
    """Yield rectangles, within a screen of this size, that cover the marked tiles and no others."""
    begun: dict[tuple[int, int], int] = {}
    for number, row in enumerate(np.pad(tiles, ((0, 1), (1, 1)))):
        edges = np.flatnonzero(row[1:] != row[:-1]).tolist()
        runs = set(zip(edges[::2], edges[1::2], strict=True))
        for left, right in sorted(begun.keys() - runs):
            top = begun.pop((left, right))
            yield Region(left * TILE_PX, top * TILE_PX, min(right * TILE_PX, width), min(number * TILE_PX, height))
        begun |= dict.fromkeys(runs - begun.keys(), number)
