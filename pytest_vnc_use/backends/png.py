"""PNG: 8-bit RGB, filter Up, one zlib stream.

ISA-L deflates it; where that has no wheel, the standard library does: other bytes, the same pixels. Level 1 of either
is as small as a screen gets by deflate, within a tenth.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from pytest_vnc_use.backends.rectangles import Pixels

try:
    from isal import isal_zlib as deflate
except ImportError:  # no wheel for this machine, or this Python
    import zlib as deflate  # type: ignore[no-redef]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_FILTER_UP = 2
_LEVEL = 1
_BAND = 32
"""So many rows are deflated while they are in the processor's cache; all at once it takes half as long again."""


def encode_png(pixels: Pixels) -> bytes:
    """PNG of pixels, without their highest bytes."""
    height, width = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    deflater = deflate.compressobj(_LEVEL)
    rows = b"".join([*map(deflater.compress, _filtered(pixels)), deflater.flush()])
    return b"".join([_SIGNATURE, *_chunk(b"IHDR", header), *_chunk(b"IDAT", rows), *_chunk(b"IEND", b"")])


def _filtered(pixels: Pixels) -> Iterator[memoryview]:
    """Rows in bands; each band is overwritten by the next."""
    height, width = pixels.shape
    bgrx = pixels.view(np.uint8).reshape(height, width, 4)
    rgb = np.zeros((_BAND + 1, width, 3), np.uint8)  # the first row is the one above
    rows = rgb.reshape(_BAND + 1, width * 3)
    filtered = np.full((_BAND, width * 3 + 1), _FILTER_UP, np.uint8)
    for top in range(0, height, _BAND):
        count = min(_BAND, height - top)
        for channel in range(3):  # a reversed copy of all three takes five times as long
            rgb[1 : count + 1, :, channel] = bgrx[top : top + count, :, 2 - channel]
        np.subtract(rows[1 : count + 1], rows[:count], out=filtered[:count, 1:])
        yield filtered[:count].data
        rows[0] = rows[count]


def _chunk(kind: bytes, body: bytes) -> tuple[bytes, ...]:
    return struct.pack(">I", len(body)), kind, body, struct.pack(">I", deflate.crc32(body, deflate.crc32(kind)))
