"""The pixels of a PNG. The PNGs of this project are read in a tenth of Pillow's time.

They have 8-bit RGB, one chunk of data, and the filter Up in every row (backends/pixels.py). Any other picture, and
a damaged one, is left to Pillow.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from pytest_vnc_use.errors import RunFolderError

try:
    from isal import isal_zlib as inflate
except ImportError:  # no wheel for this machine, or this Python
    import zlib as inflate  # type: ignore[no-redef]

Mask = npt.NDArray[np.bool_]
Pixels = npt.NDArray[np.uint8]
"""Pixels of shape (height, width, 3): red, green, blue. They lie one after the other."""

MOST_PIXELS = 1 << 24
"""Larger pictures are not opened: a small file may claim a size that fills the memory. Two screens of 4K have less."""
_DAMAGED: Any = inflate.error  # the stub of isal says that it is an instance
_HEADER = b"\x08\x02\x00\x00\x00"
"""The end of the header: 8 bits, RGB, and the only allowed values."""
_DATA = 41
"""The place of the data: after the signature, the header's chunk, and the length and kind of the next chunk."""
_UP = 2


def size_of(png: bytes) -> tuple[int, int]:
    """Return the width and height that a PNG claims. Raises RunFolderError if it is none."""
    if png[:8] != b"\x89PNG\r\n\x1a\n" or png[12:16] != b"IHDR" or len(png) < 24:
        raise RunFolderError("the picture is damaged: it is no PNG")
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


def read_pixels(png: bytes) -> Pixels:
    """Return the pixels of a PNG. Raises RunFolderError if it is damaged."""
    rows = _filtered_rows(png)
    if rows is not None:
        return _unfilter(rows)
    # by way of RGBA, as Pillow warns of other ways for some kinds of pictures
    return np.ascontiguousarray(np.asarray(open_png(png).convert("RGBA"))[..., :3])


def open_png(png: bytes) -> Image.Image:
    """Return a PNG as a picture of Pillow, all of it read. Raises RunFolderError if it is damaged, or a bomb."""
    width, height = size_of(png)
    if width * height > MOST_PIXELS:
        raise RunFolderError(f"the picture has {width}×{height} pixels, too many to open")
    try:
        image = Image.open(BytesIO(png), formats=["PNG"])
        image.load()
    except (OSError, SyntaxError, ValueError) as exc:
        raise RunFolderError(f"the picture is damaged: {exc}") from exc
    return image


def any_of_tiles(differs: Mask, height: int, width: int) -> Mask:
    """Return for each tile of this height and width whether any of it is true; the last ones may be smaller."""
    # `reduceat` over the rows does the same, and takes four times as long
    of_rows = [differs[top : top + height].any(axis=0) for top in range(0, len(differs), height)]
    tiles: Mask = np.logical_or.reduceat(np.array(of_rows), np.arange(0, differs.shape[1], width), axis=1)
    return tiles


def _filtered_rows(png: bytes) -> npt.NDArray[np.uint8] | None:
    """Return the filtered rows, each with its filter first; None if the PNG is not as this project writes it."""
    width, height = size_of(png)
    length = int.from_bytes(png[33:37], "big")
    if png[24:29] != _HEADER or png[37:41] != b"IDAT" or png[_DATA + length + 8 : _DATA + length + 12] != b"IEND":
        return None
    whole = height * (1 + 3 * width)
    try:
        raw = inflate.decompressobj().decompress(png[_DATA : _DATA + length], whole + 1)
    except _DAMAGED:
        return None
    if len(raw) != whole:
        return None
    rows = np.frombuffer(raw, np.uint8).reshape(height, 1 + 3 * width)
    return rows if (rows[:, 0] == _UP).all() else None


def _unfilter(rows: npt.NDArray[np.uint8]) -> Pixels:
    """Return the pixels of rows that hold the difference to the row above."""
    height, width = rows.shape[0], rows.shape[1] // 3
    pixels = np.empty((height, 3 * width), np.uint8)
    pixels[0] = rows[0, 1:]
    for number in range(1, height):
        np.add(pixels[number - 1], rows[number, 1:], out=pixels[number])
    return pixels.reshape(height, width, 3)
