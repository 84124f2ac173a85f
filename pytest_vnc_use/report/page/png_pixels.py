"""The pixels of a PNG: those that this project writes are read in half the time that Pillow takes.

They have 8-bit RGB, one chunk of data, and the filter Up in every row (backends/screen/png.py). Any other picture, and
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
Pixels = npt.NDArray[np.uint32]
"""Pixels of shape (height, width): red, green, blue, and a byte that is 255."""

_DAMAGED: Any = inflate.error  # the stub of isal says that it is an instance
_HEADER = b"\x08\x02\x00\x00\x00"
"""8 bits, RGB, and no choice in the rest."""
_DATA = 41
"""Where the data begins: after the signature, the header's chunk, and the length and kind of the next."""
_UP = 2
_BAND = 16
"""The rows that are worked on while they are in the processor's cache."""


def size_of(png: bytes) -> tuple[int, int]:
    """Return the width and height that a PNG claims. Raises RunFolderError if it is none."""
    if png[:8] != b"\x89PNG\r\n\x1a\n" or png[12:16] != b"IHDR" or len(png) < 24:
        raise RunFolderError("the picture is damaged: it is no PNG")
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


def read_pixels(png: bytes) -> Pixels:
    """Return the pixels of a PNG. Raises RunFolderError if it is damaged."""
    rows = _filtered_rows(png)
    return _with_pillow(png) if rows is None else _unfiltered(rows)


def _with_pillow(png: bytes) -> Pixels:
    try:
        with Image.open(BytesIO(png), formats=["PNG"]) as image:
            return np.asarray(image.convert("RGBX")).view(np.uint32)[..., 0]
    except (OSError, SyntaxError, ValueError) as exc:
        raise RunFolderError(f"the picture is damaged: {exc}") from exc


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


def _unfiltered(rows: npt.NDArray[np.uint8]) -> Pixels:
    """Return the pixels of rows that hold the difference to the row above."""
    height, width = rows.shape[0], rows.shape[1] // 3
    pixels = np.empty((height, width, 4), np.uint8)
    band = np.zeros((_BAND + 1, 3 * width), np.uint8)  # the first row is the one above
    for first in range(0, height, _BAND):
        count = min(_BAND, height - first)
        for number in range(count):
            np.add(band[number], rows[first + number, 1:], out=band[number + 1])
        rgb = band[1 : count + 1].reshape(count, width, 3)
        for channel in range(3):  # a copy of all three at once takes several times as long
            pixels[first : first + count, :, channel] = rgb[..., channel]
        pixels[first : first + count, :, 3] = 255  # as Pillow writes it
        band[0] = band[count]
    return pixels.view(np.uint32)[..., 0]
