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
    places = np.flatnonzero(marked)
    if places.size:
        compared = [screen.ravel()[places].astype("<u4") for screen in (one, other)]
        # a row for a pixel's channels
        levels, others = (pixels.view(np.uint8).reshape(-1, 4) for pixels in compared)
        same = (
            np.maximum(levels, others) - np.minimum(levels, others) <= SAME_LEVELS
        ).all(axis=1)
        for pixels in compared:
            same |= pixels == REDACTED_COLOUR
        marked.ravel()[places[same]] = False
    return marked


def levels_of(pixels: Pixels) -> npt.NDArray[np.int16]:
    """Return red, green and blue of each pixel, along a third axis."""
    return np.stack([pixels >> shift & 0xFF for shift in (16, 8, 0)], axis=-1).astype(
        np.int16
    )


def webp_of(pixels: Pixels) -> bytes:
    """Return the pixels as WebP."""
    image = Image.frombytes(
        "RGB", pixels.shape[::-1], pixels.astype("<u4").tobytes(), "raw", "BGRX"
    )
    file = io.BytesIO()
    image.save(file, "WEBP", lossless=True, quality=_EFFORT)
    return file.getvalue()


def changed_tiles(before: Pixels, now: Pixels) -> Mask:
    """Mark all pixels of each tile in which at least one differs."""
    height, width = now.shape
    padded = np.pad(before != now, ((0, -height % TILE_PX), (0, -width % TILE_PX)))
    rows, columns = padded.shape[0] // TILE_PX, padded.shape[1] // TILE_PX
    # a tile's row is 8 bytes
    across = (
        np.ascontiguousarray(padded).view(np.uint64).reshape(rows, TILE_PX, columns)
    )
    tiles = np.bitwise_or.reduce(across, axis=1) != 0
    whole: Mask = tiles.repeat(TILE_PX, axis=0).repeat(TILE_PX, axis=1)[:height, :width]
    return whole
