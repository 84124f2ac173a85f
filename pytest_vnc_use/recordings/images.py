"""Pixels of screens: where two screens differ, and their images.

Images are lossless WebP: a program's screen takes a third of the bytes that it takes as
PNG.
"""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt

# else Pillow loads all its formats at the first image
from PIL import Image, WebPImagePlugin as WebPImagePlugin

from pytest_vnc_use.backends.pixels import (
    Mask as Mask,
    Pixels as Pixels,
    frame_of as frame_of,
    most_common as most_common,
    pixels_in as pixels_in,
    pixels_of as pixels_of,
)
from pytest_vnc_use.types import REDACTED_COLOUR

TILE_PX = 8
"""The side of a tile. Changes are found in whole tiles."""
_EFFORT = 100
"""libwebp's effort of 0 to 100. The default, 80, is a sixth faster, and 3 % larger."""
SAME_LEVELS = 2
"""The largest difference in red, green and blue, of 255 levels, that is invisible."""


def shows(image: bytes, pixels: Pixels) -> bool:
    """Return whether an image shows these pixels, but for differences that are
    invisible, and is redacted where they are.
    """
    try:
        shown = pixels_of(image)
    except (OSError, Image.DecompressionBombError):  # it is damaged
        return False
    if shown.shape != pixels.shape or differing(shown, pixels).any():
        return False
    is_redacted = shown == REDACTED_COLOUR
    return np.array_equal(is_redacted, pixels == REDACTED_COLOUR)


def size_of(image: bytes) -> tuple[int, int]:
    """Return width and height of a WebP, and read nothing else.

    Raises ValueError where it is no WebP, or a decompression bomb.
    """
    try:
        return Image.open(io.BytesIO(image), formats=["WEBP"]).size
    except (OSError, Image.DecompressionBombError) as exc:
        raise ValueError(str(exc)) from exc


def differing(one: Pixels, other: Pixels) -> Mask:
    """Mark the pixels that look different: a channel differs by more than
    `SAME_LEVELS`, and neither is redacted.
    """
    marked: Mask = one != other
    # Channels are compared only where pixels differ: that is nowhere on most screens.
    places = np.flatnonzero(marked)
    if not places.size:
        return marked
    colours = one.ravel()[places].astype("<u4")
    others = other.ravel()[places].astype("<u4")
    levels = _channels(colours)
    other_levels = _channels(others)
    # the levels are unsigned, so the smaller one is taken from the larger one
    distance = np.maximum(levels, other_levels) - np.minimum(levels, other_levels)
    is_same = (distance <= SAME_LEVELS).all(axis=1)
    is_same |= colours == REDACTED_COLOUR
    is_same |= others == REDACTED_COLOUR
    marked.ravel()[places[is_same]] = False
    return marked


def _channels(pixels: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
    """Return a row of four bytes for each of some pixels, whose lowest byte comes first:
    blue, green, red, and one that is 0.

    >>> _channels(np.array([0x102030], "<u4")).tolist()
    [[48, 32, 16, 0]]
    """
    return pixels.view(np.uint8).reshape(-1, 4)


def levels_of(pixels: Pixels) -> npt.NDArray[np.int16]:
    """Return red, green and blue of each pixel, along a third axis."""
    levels = [pixels >> shift & 0xFF for shift in (16, 8, 0)]
    return np.stack(levels, axis=-1).astype(np.int16)


def webp_of(pixels: Pixels) -> bytes:
    """Return the pixels as WebP."""
    height, width = pixels.shape
    little_endian = pixels.astype("<u4").tobytes()
    image = Image.frombytes("RGB", (width, height), little_endian, "raw", "BGRX")
    file = io.BytesIO()
    image.save(file, "WEBP", lossless=True, quality=_EFFORT)
    return file.getvalue()


def changed_tiles(before: Pixels, now: Pixels) -> Mask:
    """Mark all pixels of each tile in which at least one differs.

    >>> before = np.zeros((9, 10), np.uint32)
    >>> now = before.copy()
    >>> now[8, 3] = 1
    >>> np.argwhere(changed_tiles(before, now))[[0, -1]].tolist()
    [[8, 0], [8, 7]]
    """
    height, width = now.shape
    below = -height % TILE_PX
    beside = -width % TILE_PX
    padded = np.pad(before != now, ((0, below), (0, beside)))
    # a row of a tile is 8 bytes, which are read as one number
    tile_rows = np.ascontiguousarray(padded).view(np.uint64)
    columns = tile_rows.shape[1]
    by_tile = tile_rows.reshape(-1, TILE_PX, columns)
    tiles = np.bitwise_or.reduce(by_tile, axis=1) != 0
    whole: Mask = tiles.repeat(TILE_PX, axis=0).repeat(TILE_PX, axis=1)
    return whole[:height, :width]
