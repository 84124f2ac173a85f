"""Pixels of a screen: their arrays, the rectangles of an update, their encoding as PNG,
and their decoding.

PNG: 8-bit RGB, filter Up, one zlib stream whose halves are deflated at the same time if
they are large. ISA-L deflates it. Where that has no wheel, the standard library does:
other bytes, the same pixels. Level 1 of either comes within a tenth of the smallest
size that deflate reaches for a screen.
"""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple, Union

import numpy as np
import numpy.typing as npt
from PIL import Image

from pytest_vnc_use.types import Frame, FrameRef, RawFrame, Region

try:
    from isal import isal_zlib as deflate
except ImportError:  # no wheel for this machine, or this Python
    import zlib as deflate  # type: ignore[no-redef]

Pixels = npt.NDArray[np.uint32]
"""An array of shape (height, width). A pixel is 0x00RRGGBB; its highest byte is
ignored.
"""
Mask = npt.NDArray[np.bool_]
APART_PX = 16
"""The number of equal rows or columns between two differences that makes them two."""
COLOUR_BITS = np.uint32(0xFFFFFF)
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_ZLIB_HEADER = b"\x78\x01"
_FILTER_UP = 2
_LEVEL = 1
_RAW = -15
"""The window bits for plain deflate, without zlib's header and checksum."""
_ADLER = 65521
_FOR_TWO_PX = 1 << 21
"""The pixels from which two threads are faster: to start the second takes as long as to
deflate a smaller screen.
"""
_BAND = 32
"""The rows that are deflated while they are in the processor's cache; all at once takes
half as long again.
"""


def box_of(marked: Mask) -> Region:
    """Return the smallest region that holds all marked pixels. At least one must be
    marked.
    """
    rows, columns = (
        np.flatnonzero(marked.any(axis=1)),
        np.flatnonzero(marked.any(axis=0)),
    )
    return Region(
        int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
    )


def boxes_of(
    marked: Mask, apart_px: tuple[int, int] = (APART_PX, APART_PX)
) -> list[Region]:
    """Return a box around each group of marked pixels. More than `apart_px` rows or
    columns separate two groups.
    """
    if not marked.any():
        return []
    box = box_of(marked)
    inside = box.part_of(marked)
    for axis in (0, 1):
        lines = np.flatnonzero(inside.any(axis=1 - axis))
        if (gaps := np.flatnonzero(np.diff(lines) > apart_px[axis])).size:
            cut = int(lines[gaps[0]]) + 1 + (box.top, box.left)[axis]
            first, second = marked.copy(), marked.copy()
            first[(np.s_[cut:], np.s_[:, cut:])[axis]] = False
            second[(np.s_[:cut], np.s_[:, :cut])[axis]] = False
            return [*boxes_of(first, apart_px), *boxes_of(second, apart_px)]
    return [box]


def frame_of(pixels: Pixels) -> Frame:
    """Return a frame that shows the pixels."""
    png = encode_png(np.ascontiguousarray(pixels))
    return Frame(
        FrameRef(hashlib.sha256(png).hexdigest(), pixels.shape[1], pixels.shape[0]), png
    )


def pixels_in(frame: Frame | RawFrame) -> Pixels:
    """Return the pixels of a frame, 0xRRGGBB each. A PNG is decoded only if they are
    not stored.
    """
    if isinstance(frame.pixels, np.ndarray):
        visible: Pixels = frame.pixels & COLOUR_BITS
        return visible
    assert isinstance(frame, Frame)
    return pixels_of(frame.png)


def pixels_of(image: bytes) -> Pixels:
    """Return the pixels of a PNG or WebP, 0xRRGGBB each."""
    decoded = Image.open(io.BytesIO(image)).convert("RGBA")
    pixels = np.frombuffer(decoded.tobytes("raw", "BGRA"), "<u4")
    visible: Pixels = pixels.reshape(decoded.height, decoded.width) & COLOUR_BITS
    return visible


class Area(NamedTuple):
    """A region of the screen, in pixels; it is empty if its width or height is 0."""

    x: int
    y: int
    width: int
    height: int

    @property
    def slices(self) -> tuple[slice, slice]:
        """Its rows and columns in an array of pixels."""
        return slice(self.y, self.y + self.height), slice(self.x, self.x + self.width)


class Rectangle(NamedTuple):
    """A rectangle of an update: an area, and its new pixels or the area of the same
    size that they are copied from.
    """

    area: Area
    source: Union[Pixels, Area]

    def pixels(self, screen: Pixels) -> Pixels:
        """Return the new pixels of the area on this screen."""
        return (
            screen[self.source.slices].copy()
            if isinstance(self.source, Area)
            else self.source
        )


def encode_png(pixels: Pixels) -> bytes:
    """Encode pixels as PNG, without their highest bytes."""
    height, width = pixels.shape
    half = height // 2
    with (
        ThreadPoolExecutor(1) if pixels.size >= _FOR_TWO_PX else nullcontext()
    ) as executor:
        upper = pixels, 0, half, deflate.Z_FULL_FLUSH
        first = (
            executor.submit(_deflate, *upper).result
            if executor
            else partial(_deflate, *upper)
        )
        below, checksum_below = _deflate(pixels, half, height, deflate.Z_FINISH)
        above, checksum_above = first()
    # the Adler-32 (RFC 1950) of both halves together
    low_above, high_above = (checksum_above & 0xFFFF) - 1, checksum_above >> 16
    low = (low_above + (checksum_below & 0xFFFF)) % _ADLER
    high = (
        high_above
        + (checksum_below >> 16)
        + low_above * (height - half) * (width * 3 + 1)
    ) % _ADLER
    rows = b"".join([_ZLIB_HEADER, above, below, struct.pack(">I", high << 16 | low)])
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"".join(
        [
            _SIGNATURE,
            *_chunk(b"IHDR", header),
            *_chunk(b"IDAT", rows),
            *_chunk(b"IEND", b""),
        ]
    )


def _deflate(pixels: Pixels, top: int, bottom: int, end: int) -> tuple[bytes, int]:
    """Return some rows, deflated, and their Adler-32."""
    deflater, checksum, pieces = (
        deflate.compressobj(_LEVEL, deflate.DEFLATED, _RAW),
        1,
        [],
    )
    for band in _filter(pixels, top, bottom):
        pieces.append(deflater.compress(band))
        checksum = deflate.adler32(band, checksum)
    return b"".join([*pieces, deflater.flush(end)]), checksum


def _filter(pixels: Pixels, top: int, bottom: int) -> Iterator[memoryview]:
    """Yield rows in bands; each band is overwritten by the next."""
    height, width = pixels.shape
    bgrx = pixels.view(np.uint8).reshape(height, width, 4)
    rgb = np.zeros((_BAND + 1, width, 3), np.uint8)  # the first row is the one above
    if top:
        rgb[0] = bgrx[top - 1, :, 2::-1]
    rows = rgb.reshape(_BAND + 1, width * 3)
    filtered = np.full((_BAND, width * 3 + 1), _FILTER_UP, np.uint8)
    for first in range(top, bottom, _BAND):
        count = min(_BAND, bottom - first)
        # a reversed copy of all three takes five times as long
        for channel in range(3):
            rgb[1 : count + 1, :, channel] = bgrx[first : first + count, :, 2 - channel]
        np.subtract(rows[1 : count + 1], rows[:count], out=filtered[:count, 1:])
        yield filtered[:count].data
        rows[0] = rows[count]


def _chunk(kind: bytes, body: bytes) -> tuple[bytes, ...]:
    return (
        struct.pack(">I", len(body)),
        kind,
        body,
        struct.pack(">I", deflate.crc32(body, deflate.crc32(kind))),
    )
