"""Pixels of screens: where two screens differ, and images of the difference between two screens.

Images are lossless WebP: a program's screen takes a third of the bytes that it takes as PNG.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, WebPImagePlugin as WebPImagePlugin  # else Pillow loads all its formats at the first image

from pytest_vnc_use.backends.pixels import (
    COLOUR_BITS,
    Mask as Mask,
    Pixels as Pixels,
    frame_of as frame_of,
    pixels_in as pixels_in,
    pixels_of as pixels_of,
    pixels_with_alpha,
)
from pytest_vnc_use.types import REDACTED_COLOUR

_KEPT = 3
TILE_PX = 8
"""The side of a tile. Changes are found and stored in whole tiles."""
SAME_LEVELS = 2
"""The largest difference in red, green and blue, of 255 levels, that is invisible."""


def same_image(one: bytes, other: bytes) -> bool:
    """Return whether two WebP files have the same visible pixels."""
    shown = [np.where(pixels > COLOUR_BITS, pixels, 0) for pixels in map(pixels_with_alpha, (one, other))]
    return np.array_equal(shown[0], shown[1])


def size_of(image: bytes) -> tuple[int, int]:
    """Return width and height of a WebP, and read nothing else.

    Raises ValueError where it is no WebP, or a decompression bomb.
    """
    try:
        return Image.open(io.BytesIO(image), formats=["WEBP"]).size
    except (OSError, Image.DecompressionBombError) as exc:
        raise ValueError(str(exc)) from exc


def differing(one: Pixels, other: Pixels) -> Mask:
    """Mark the pixels that look different: a channel differs by more than `SAME_LEVELS`, and neither is redacted."""
    marked: Mask = one != other
    places = np.flatnonzero(marked)
    if places.size:
        compared = [screen.ravel()[places].astype("<u4") for screen in (one, other)]
        levels, others = (pixels.view(np.uint8).reshape(-1, 4) for pixels in compared)  # a row for a pixel's channels
        same = (np.maximum(levels, others) - np.minimum(levels, others) <= SAME_LEVELS).all(axis=1)
        for pixels in compared:
            same |= pixels == REDACTED_COLOUR
        marked.ravel()[places[same]] = False
    return marked


def levels_of(pixels: Pixels) -> npt.NDArray[np.int16]:
    """Return red, green and blue of each pixel, along a third axis."""
    return np.stack([pixels >> shift & 0xFF for shift in (16, 8, 0)], axis=-1).astype(np.int16)


def webp_of(pixels: Pixels, visible: Mask | None = None) -> bytes:
    """Return the pixels as WebP. Pixels that are not `visible` are transparent."""
    alpha = np.uint32(~COLOUR_BITS)
    numbers = pixels | alpha if visible is None else np.where(visible, pixels | alpha, np.uint32(0))
    image = Image.frombytes("RGBA", pixels.shape[::-1], numbers.astype("<u4").tobytes(), "raw", "BGRA")
    file = io.BytesIO()
    image.save(file, "WEBP", lossless=True)
    return file.getvalue()


def changed_tiles(before: Pixels, now: Pixels) -> Mask:
    """Mark all pixels of each tile in which at least one differs."""
    height, width = now.shape
    padded = np.pad(before != now, ((0, -height % TILE_PX), (0, -width % TILE_PX)))
    rows, columns = padded.shape[0] // TILE_PX, padded.shape[1] // TILE_PX
    across = np.ascontiguousarray(padded).view(np.uint64).reshape(rows, TILE_PX, columns)  # a tile's row is 8 bytes
    tiles = np.bitwise_or.reduce(across, axis=1) != 0
    whole: Mask = tiles.repeat(TILE_PX, axis=0).repeat(TILE_PX, axis=1)[:height, :width]
    return whole


class Chain:
    """The screens of a recording, each painted over the one before; the first is painted on black.

    `changes` are pairs of an image, empty where nothing differs, and its top left corner. Only the newest `_KEPT`
    screens are kept, so that memory does not grow with their number. Ask for the screens in order: going back further
    starts from the first.
    """

    def __init__(self, size: tuple[int, int], changes: Sequence[tuple[bytes, tuple[int, int]]]) -> None:
        self._size, self._changes = size, changes
        self._screens: dict[int, Pixels] = {}

    def pixels(self, number: int) -> Pixels:
        """Return screen `number`, counted from 0."""
        newest = max((known for known in self._screens if known <= number), default=-1)
        screen = self._screens[newest] if newest >= 0 else np.zeros(self._size[::-1], np.uint32)
        for following in range(newest + 1, number + 1):
            image, (left, top) = self._changes[following]
            if image:
                numbers, screen = pixels_with_alpha(image), screen.copy()
                box = screen[top : top + len(numbers), left : left + len(numbers[0])]
                np.copyto(box, numbers & COLOUR_BITS, where=numbers > COLOUR_BITS)  # above the colour is the alpha
            self._screens[following] = screen
            if len(self._screens) > _KEPT:
                del self._screens[next(iter(self._screens))]
        return screen
