"""Tight encoding without its JPEG, which loses pixels; the client never asks for it.

Source: rfbproto, "Tight Encoding". In the pixel format that this package asks for, a pixel is three bytes, red first.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import numpy.typing as npt

from pytest_vnc_use.backends.rfb.encodings.reading import (
    Inflater,
    Reading,
    colours_at,
    packed_indices,
    red_first,
    row_length,
)
from pytest_vnc_use.backends.screen.rectangles import Pixels

_FILL, _JPEG = 8, 9
_HAS_FILTER = 4
_COPY, _PALETTE, _GRADIENT = range(3)
_UNCOMPRESSED_BELOW = 12


class Tight:
    """A decoder for the rectangles of one connection; it keeps the connection's four zlib streams."""

    def __init__(self) -> None:
        self._streams = [Inflater() for _ in range(4)]

    def decode(self, width: int, height: int) -> Reading:
        """Read one rectangle. Raises ValueError if its bytes are invalid, or hold JPEG."""
        (control,) = yield 1
        for number in range(4):
            if control >> number & 1:
                self._streams[number] = Inflater()
        kind = control >> 4
        if kind == _FILL:
            return np.broadcast_to(red_first((yield 3), 0, 1), (height, width))
        if kind >= _FILL:
            raise ValueError("JPEG, which was not asked for" if kind == _JPEG else f"Tight compression {kind!r}")
        (choice,) = (yield 1) if kind & _HAS_FILTER else (_COPY,)
        return (yield from self._filtered(choice, self._streams[kind & 3], width, height))

    def _filtered(self, choice: int, stream: Inflater, width: int, height: int) -> Reading:
        if choice == _PALETTE:
            return (yield from self._palette(stream, width, height))
        data = yield from _data(stream, 3 * width * height)
        if choice == _COPY:
            return red_first(data, 0, width * height).reshape(height, width)
        if choice == _GRADIENT:
            return undo_gradient(np.frombuffer(data, np.uint8).reshape(height, width, 3))
        raise ValueError(f"unknown Tight filter {choice!r}")

    def _palette(self, stream: Inflater, width: int, height: int) -> Reading:
        colours = (yield 1)[0] + 1
        palette = red_first((yield 3 * colours), 0, colours)
        bits = 1 if colours <= 2 else 8
        data = yield from _data(stream, row_length(width, bits) * height)
        if bits == 1:
            return colours_at(palette, packed_indices(data, 0, width, height, bits))
        return colours_at(palette, np.frombuffer(data, np.uint8).reshape(height, width))


def _data(stream: Inflater, length: int) -> Generator[int, bytes, bytes]:
    if length < _UNCOMPRESSED_BELOW:
        return (yield length)
    compressed = yield from _compact_length()
    return stream.inflate_exactly((yield compressed), length)


def _compact_length() -> Generator[int, bytes, int]:
    """Read a number of up to 22 bits: seven in each byte except the third, the lowest first."""
    length = 0
    for shift in (0, 7, 14):
        (byte,) = yield 1
        length |= (byte if shift == 14 else byte & 0x7F) << shift
        if byte < 0x80:
            break
    return length


def undo_gradient(differences: npt.NDArray[np.uint8]) -> Pixels:
    """Return the pixels from their differences to a prediction, both of shape (height, width, 3).

    The left, upper and upper left neighbours predict a pixel. A pixel needs its neighbours, so one diagonal is done
    after the other.
    """
    height, width, _ = differences.shape
    done = np.zeros((height + 1, width + 1, 3), np.int16)
    for diagonal in range(height + width - 1):
        y = np.arange(max(0, diagonal - width + 1), min(height, diagonal + 1))
        x = diagonal - y
        foretold = np.clip(done[y + 1, x] + done[y, x + 1] - done[y, x], 0, 255)
        done[y + 1, x + 1] = (differences[y, x] + foretold) & 255
    rgb = done[1:, 1:].astype(np.uint8).tobytes()
    return red_first(rgb, 0, width * height).reshape(height, width)
