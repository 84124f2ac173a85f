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
"""The largest prime below 2**16: the sums of an Adler-32 are remainders of it."""
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
    rows = np.flatnonzero(marked.any(axis=1))
    columns = np.flatnonzero(marked.any(axis=0))
    right = int(columns[-1]) + 1
    bottom = int(rows[-1]) + 1
    return Region(int(columns[0]), int(rows[0]), right, bottom)


def boxes_of(
    marked: Mask, apart_px: tuple[int, int] = (APART_PX, APART_PX)
) -> list[Region]:
    """Return a box around each group of marked pixels. Groups are separated by rows
    without a marked pixel, or by columns: at least as many as `apart_px` has for each.

    The marked pixels are cut in two at the first such gap, and either half again:

        x x     │     x      No gap between rows is as wide as the whole, so it is cut
                │     x      between columns, and the left half then between rows.
        ────────┤     x
         x      │     x

    >>> marked = np.array([[1, 0, 0, 0, 1], [1, 0, 0, 0, 0]], np.bool_)
    >>> boxes_of(marked, apart_px=(3, 3))
    [Region(left=0, top=0, right=1, bottom=2), Region(left=4, top=0, right=5, bottom=1)]
    """
    if not marked.any():
        return []
    box = box_of(marked)
    inside = box.part_of(marked)
    row = _first_gap(inside.any(axis=1), apart_px[0])
    column = 0 if row else _first_gap(inside.any(axis=0), apart_px[1])
    if not row and not column:
        return [box]
    if row:
        parts = [(inside[:row], 0, 0), (inside[row:], 0, row)]
    else:
        parts = [(inside[:, :column], 0, 0), (inside[:, column:], column, 0)]
    boxes = []
    for part, left, top in parts:
        for found in boxes_of(part, apart_px):
            boxes.append(found.moved(box.left + left, box.top + top))
    return boxes


def _first_gap(is_marked: Mask, apart_px: int) -> int:
    """Return the number of the row, or column, at which the first gap of at least
    `apart_px` begins; 0 for none.

    >>> _first_gap(np.array([True, False, True, False, False, True]), apart_px=2)
    3
    """
    lines = np.flatnonzero(is_marked)
    gaps = np.flatnonzero(np.diff(lines) > apart_px)
    return int(lines[gaps[0]]) + 1 if gaps.size else 0


def most_common(pixels: Pixels) -> int:
    """Return the most common colour of some pixels: of text, its background."""
    colours, counts = np.unique(pixels, return_counts=True)
    return int(colours[counts.argmax()])


def frame_of(pixels: Pixels) -> Frame:
    """Return a frame that shows the pixels."""
    height, width = pixels.shape
    png = encode_png(np.ascontiguousarray(pixels))
    return Frame(FrameRef(hashlib.sha256(png).hexdigest(), width, height), png)


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
        if not isinstance(self.source, Area):
            return self.source
        copied: Pixels = screen[self.source.slices].copy()
        return copied


def deflated(pixels: Pixels) -> bytes:
    """Return pixels as bytes, fast rather than small."""
    return bytes(deflate.compress(pixels, _LEVEL))


def inflated(content: bytes, shape: tuple[int, int]) -> Pixels:
    """Return the pixels that `deflated` made into these bytes."""
    return np.frombuffer(deflate.decompress(content), np.uint32).reshape(shape)


def encode_png(pixels: Pixels) -> bytes:
    """Encode pixels as PNG, without their highest bytes."""
    height, width = pixels.shape
    half = height // 2
    if pixels.size < _FOR_TWO_PX:
        above = _deflate(pixels, 0, half, deflate.Z_FULL_FLUSH)
        below = _deflate(pixels, half, height, deflate.Z_FINISH)
    else:
        with ThreadPoolExecutor(1) as executor:
            upper = executor.submit(_deflate, pixels, 0, half, deflate.Z_FULL_FLUSH)
            below = _deflate(pixels, half, height, deflate.Z_FINISH)
            above = upper.result()
    # a row of the stream is its filter's number, and three bytes a pixel
    below_bytes = (height - half) * (width * 3 + 1)
    checksum = _adler_of_both(above.checksum, below.checksum, below_bytes)
    rows = b"".join(
        [_ZLIB_HEADER, above.deflated, below.deflated, struct.pack(">I", checksum)]
    )
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"".join(
        [
            _SIGNATURE,
            *_chunk(b"IHDR", header),
            *_chunk(b"IDAT", rows),
            *_chunk(b"IEND", b""),
        ]
    )


class _Deflated(NamedTuple):
    """Rows of a PNG as deflate has them, and their Adler-32 before that."""

    deflated: bytes
    checksum: int


def _deflate(pixels: Pixels, top: int, bottom: int, end: int) -> _Deflated:
    """Return some rows, deflated; `end` says how zlib ends them."""
    deflater = deflate.compressobj(_LEVEL, deflate.DEFLATED, _RAW)
    checksum = 1
    pieces = []
    for band in _filter(pixels, top, bottom):
        pieces.append(deflater.compress(band))
        checksum = deflate.adler32(band, checksum)
    pieces.append(deflater.flush(end))
    return _Deflated(b"".join(pieces), checksum)


def _adler_of_both(first: int, second: int, second_bytes: int) -> int:
    """Return the Adler-32 (RFC 1950) of two pieces of data, from that of each and the
    length of the second.

    It has two sums of 16 bits. The lower one is 1 and the sum of all bytes, the upper
    one the sum of the lower ones after each byte. So in the upper sum of the second
    piece each byte's lower sum lacks what the first piece had added to it.

    >>> import zlib
    >>> one, other = zlib.adler32(b"one"), zlib.adler32(b"other")
    >>> _adler_of_both(one, other, len(b"other")) == zlib.adler32(b"oneother")
    True
    """
    added = (first & 0xFFFF) - 1
    low = (added + (second & 0xFFFF)) % _ADLER
    high = ((first >> 16) + (second >> 16) + added * second_bytes) % _ADLER
    return high << 16 | low


def _filter(pixels: Pixels, top: int, bottom: int) -> Iterator[memoryview]:
    """Yield rows in bands, each row as its difference to the one above (filter Up);
    each band is overwritten by the next.
    """
    height, width = pixels.shape
    bgrx = pixels.view(np.uint8).reshape(height, width, 4)
    # the first row is the one above the band
    rgb = np.zeros((_BAND + 1, width, 3), np.uint8)
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
    """Return the pieces of one chunk of a PNG."""
    length = struct.pack(">I", len(body))
    checksum = struct.pack(">I", deflate.crc32(body, deflate.crc32(kind)))
    return length, kind, body, checksum
