"""The readers of encodings: generators that yield how many bytes they need, get just those, and return the pixels."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import numpy.typing as npt

try:
    from isal import isal_zlib as inflate  # 3 times faster
except ImportError:  # no wheel for this machine, or this Python
    import zlib as inflate  # type: ignore[no-redef]

from pytest_vnc_use.backends.screen.rectangles import Pixels

_CORRUPT: Any = inflate.error  # mypy does not know that ISA-L's is an exception
Reading = Generator[int, bytes, Pixels]
Decode = Callable[[int, int], Reading]
"""A function that reads one rectangle of a width and height, in pixels. Raises ValueError for invalid bytes."""


def raw(width: int, height: int) -> Reading:
    """Read raw encoding (RFC 6143, 7.7.1): four bytes a pixel, blue first."""
    block = yield 4 * width * height
    return np.frombuffer(block, "<u4").reshape(height, width)


def turned(decode: Decode) -> Decode:
    """Return the reader of the same encoding for pixels that are sent red first."""

    def read(width: int, height: int) -> Reading:
        return swapped((yield from decode(width, height)))

    return read


def swapped(pixels: Pixels) -> Pixels:
    """Return the pixels with red and blue exchanged."""
    exchanged: Pixels = pixels.byteswap() >> np.uint32(8)
    return exchanged


class Inflater:
    """One zlib stream over all rectangles of a connection; it never returns more bytes than were asked for."""

    def __init__(self) -> None:
        self._stream: Any = inflate.decompressobj()

    def inflate(self, block: bytes, most: int) -> bytes:
        """Inflate `block` to at most `most` bytes. Raises ValueError if it holds more, or is no zlib data."""
        try:
            data: bytes = self._stream.decompress(block, most + 1)
        except _CORRUPT as exc:
            raise ValueError(f"the compressed pixels are not zlib data: {exc}") from exc
        if len(data) > most or self._stream.unconsumed_tail:
            raise ValueError(f"the compressed pixels must have at most {most} bytes")
        return data

    def inflate_exactly(self, block: bytes, length: int) -> bytes:
        """Inflate `block` to `length` bytes. Raises ValueError if it holds more or fewer, or is no zlib data."""
        data = self.inflate(block, length)
        if len(data) != length:
            raise ValueError(f"the compressed pixels must have {length} bytes, got {len(data)!r}")
        return data


def blue_first(data: bytes, start: int, count: int) -> npt.NDArray[np.uint32]:
    """Return pixels from three bytes each, blue first. Raises ValueError if there are too few bytes."""
    pixels: npt.NDArray[np.uint32] = _three_bytes(data, start, count, "<u4") & np.uint32(0xFFFFFF)
    return pixels


def red_first(data: bytes, start: int, count: int) -> npt.NDArray[np.uint32]:
    """Return pixels from three bytes each, red first. Raises ValueError if there are too few bytes."""
    pixels: npt.NDArray[np.uint32] = _three_bytes(data, start, count, ">u4") >> np.uint32(8)
    return pixels


def _three_bytes(data: bytes, start: int, count: int, order: str) -> npt.NDArray[np.uint32]:
    """Return numbers of four bytes that begin three bytes apart. Raises ValueError if there are too few bytes."""
    end = start + 3 * count
    if end > len(data):
        raise ValueError(f"{count} pixels need {3 * count} bytes, got {len(data) - start!r}")
    # the last number needs one byte more than its pixel has
    block = data if end < len(data) else data[start:] + b"\0"
    numbers: npt.NDArray[np.uint32] = np.ndarray((count,), order, block, start if block is data else 0, (3,))
    return numbers


_UNPACKED = {
    bits: np.array([[byte >> shift & (1 << bits) - 1 for shift in range(8 - bits, -1, -bits)] for byte in range(256)])
    for bits in (1, 2, 4)
}


def packed_indices(data: bytes, start: int, width: int, height: int, bits: int) -> npt.NDArray[np.intp]:
    """Return indices of 1, 2 or 4 bits each, of shape (height, width); every row begins with a new byte.

    Raises ValueError if there are too few bytes.
    """
    row_bytes = row_length(width, bits)
    if start + row_bytes * height > len(data):
        raise ValueError(f"a packed palette needs {row_bytes * height} bytes, got {len(data) - start!r}")
    packed = np.frombuffer(data, np.uint8, row_bytes * height, start)
    indices: npt.NDArray[np.intp] = _UNPACKED[bits][packed].reshape(height, -1)[:, :width]
    return indices


def row_length(width: int, bits: int) -> int:
    """Return the number of bytes in a row of indices."""
    return -(-width * bits // 8)


def colours_at(palette: npt.NDArray[np.uint32], indices: npt.NDArray[Any]) -> Pixels:
    """Return the pixels that indices stand for. Raises ValueError if one is beyond the palette."""
    try:
        pixels: Pixels = palette[indices]
    except IndexError as exc:
        raise ValueError(f"a pixel's index must be below {len(palette)}, the size of its palette") from exc
    return pixels
