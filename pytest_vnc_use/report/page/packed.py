"""The screens of a run as lossless WebP: key pictures are whole, other screens are a patch over a key picture.

A patch has the size of the screen and is clear where nothing changed, so pages show it without knowing where it is.
Both together take about an eighth of the room of the PNG.
"""

from __future__ import annotations

from io import BytesIO

import numpy as np
from PIL import Image

from pytest_vnc_use.report.page.model import Shot
from pytest_vnc_use.report.page.png_pixels import Mask, Pixels, any_of_tiles
from pytest_vnc_use.types import FrameRef

LONGEST = 16383
"""The longest side of a WebP."""
_KEYS = 5
"""A patch may refer to one of this many newest key pictures, because tests often return to a page."""
_MOST = 0.15
"""The largest share of a screen that a patch may cover. A screen that differs more becomes a key picture."""
_TILE = 16
"""The side of the squares of a patch. It includes one more square around each changed one, so that its edge stays
invisible when the page scales it."""


class PackedScreens:
    """The packed screens of one run: `made` has the pictures by address."""

    def __init__(self, made: dict[str, bytes]) -> None:
        self._made = made
        self._keys: list[tuple[str, Pixels]] = []

    def add(self, ref: FrameRef, pixels: Pixels) -> Shot:
        """Pack a screen, and return how it is shown."""
        height, width = pixels.shape[:2]
        address = f"screens/{ref.digest[:20]}.webp"
        found = [(key, _changed_tiles(whole, pixels)) for key, whole in self._keys if whole.shape == pixels.shape]
        if not found or min(tiles.mean() for _, tiles in found) > _MOST:
            self._made[address] = webp(Image.fromarray(pixels), quality=100)
            self._keys = [*self._keys[1 - _KEYS :], (address, pixels)]
            return Shot("", address, width, height)
        key, tiles = min(found, key=lambda each: float(each[1].mean()))
        if not tiles.any():
            return Shot("", key, width, height)
        self._made[address] = _patch(pixels, _grown(tiles))
        return Shot("", key, width, height, patch=address)


def _changed_tiles(key: Pixels, pixels: Pixels) -> Mask:
    height, width = key.shape[:2]
    return any_of_tiles((key != pixels).reshape(height, 3 * width), _TILE, 3 * _TILE)


def _grown(tiles: Mask) -> Mask:
    """Return the tiles and all around them."""
    padded = np.pad(tiles, 1)
    height, width = tiles.shape
    moved = [padded[down : down + height, right : right + width] for down in range(3) for right in range(3)]
    return np.asarray(np.logical_or.reduce(moved))


def _patch(pixels: Pixels, tiles: Mask) -> bytes:
    """Return these tiles of the picture; the rest is clear."""
    height, width = pixels.shape[:2]
    covered = tiles.repeat(_TILE, axis=0).repeat(_TILE, axis=1)[:height, :width]
    picture = Image.new("RGBA", (width, height))
    picture.paste(Image.fromarray(pixels), mask=Image.fromarray(covered))
    return webp(picture, method=1)


def webp(picture: Image.Image, method: int = 4, quality: int = 75) -> bytes:
    """Return the picture as lossless WebP. A higher `method` and `quality` make it smaller, and take longer."""
    content = BytesIO()
    picture.save(content, "WEBP", lossless=True, method=method, quality=quality)
    return content.getvalue()
