"""The encodings in which pixels travel, decoded by numpy: no loop in Python runs over
pixels.

A reader is a generator: it yields how many bytes it needs, gets just those, and returns
the pixels. Sources: RFC 6143, 7.7.1 (raw) and 7.7.6 (ZRLE); rfbproto, "Tight Encoding",
without its JPEG, which loses pixels and is never asked for. In the pixel format that
this package asks for, a pixel of ZRLE is three bytes, blue first, and one of Tight red
first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import numpy.typing as npt

try:
    from isal import isal_zlib as inflate  # 3 times faster
except ImportError:  # no wheel for this machine, or this Python
    import zlib as inflate  # type: ignore[no-redef]

from pytest_vnc_use.backends.pixels import Pixels

_CORRUPT: Any = inflate.error  # mypy does not know that ISA-L's is an exception
Reading = Generator[int, bytes, Pixels]
Decode = Callable[[int, int], Reading]
"""A function that reads one rectangle of a width and height, in pixels. Raises
ValueError for invalid bytes.
"""


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
    """One zlib stream over all rectangles of a connection; it never returns more bytes
    than were asked for.
    """

    def __init__(self) -> None:
        self._stream: Any = inflate.decompressobj()

    def inflate(self, block: bytes, max_bytes: int) -> bytes:
        """Inflate `block` to at most `max_bytes` bytes. Raises ValueError if it holds
        more, or is no zlib data.
        """
        try:
            data: bytes = self._stream.decompress(block, max_bytes + 1)
        except _CORRUPT as exc:
            raise ValueError(f"the compressed pixels are not zlib data: {exc}") from exc
        if len(data) > max_bytes or self._stream.unconsumed_tail:
            raise ValueError(
                f"the compressed pixels must have at most {max_bytes} bytes"
            )
        return data


def red_first(data: bytes, start: int, count: int) -> npt.NDArray[np.uint32]:
    """Return pixels from three bytes each, red first. Raises ValueError if there are
    too few bytes.
    """
    pixels: npt.NDArray[np.uint32] = _three_bytes(
        data, start, count, ">u4"
    ) >> np.uint32(8)
    return pixels


def _three_bytes(
    data: bytes, start: int, count: int, order: str
) -> npt.NDArray[np.uint32]:
    """Return numbers of four bytes that begin three bytes apart. Raises ValueError if
    there are too few bytes.
    """
    end = start + 3 * count
    if end > len(data):
        raise ValueError(
            f"{count} pixels need {3 * count} bytes, got {len(data) - start!r}"
        )
    # the last number needs one byte more than its pixel has
    block = data if end < len(data) else data[start:] + b"\0"
    numbers: npt.NDArray[np.uint32] = np.ndarray(
        (count,), order, block, start if block is data else 0, (3,)
    )
    return numbers


_UNPACKED = {
    bits: np.array(
        [
            [byte >> shift & (1 << bits) - 1 for shift in range(8 - bits, -1, -bits)]
            for byte in range(256)
        ]
    )
    for bits in (1, 2, 4)
}


def packed_indices(
    data: bytes, start: int, width: int, height: int, bits: int
) -> npt.NDArray[np.intp]:
    """Return indices of 1, 2 or 4 bits each, of shape (height, width); every row begins
    with a new byte.

    Raises ValueError if there are too few bytes.
    """
    packed = np.frombuffer(data, np.uint8, row_length(width, bits) * height, start)
    indices: npt.NDArray[np.intp] = _UNPACKED[bits][packed].reshape(height, -1)[
        :, :width
    ]
    return indices


def row_length(width: int, bits: int) -> int:
    """Return the number of bytes in a row of indices."""
    return -(-width * bits // 8)


_FILL, _JPEG = 8, 9
_HAS_FILTER = 4
_COPY, _PALETTE, _GRADIENT = range(3)
_UNCOMPRESSED_BELOW = 12


class Tight:
    """A decoder for the rectangles of one connection; it keeps the connection's four
    zlib streams.
    """

    def __init__(self) -> None:
        self._streams = [Inflater() for _ in range(4)]

    def decode(self, width: int, height: int) -> Reading:
        """Read one rectangle. Raises ValueError or IndexError if its bytes are invalid,
        or hold JPEG.
        """
        (control,) = yield 1
        for number in range(4):
            if control >> number & 1:
                self._streams[number] = Inflater()
        kind = control >> 4
        if kind == _FILL:
            return np.broadcast_to(red_first((yield 3), 0, 1), (height, width))
        if kind >= _FILL:
            raise ValueError(
                "JPEG, which was not asked for"
                if kind == _JPEG
                else f"Tight compression {kind!r}"
            )
        (choice,) = (yield 1) if kind & _HAS_FILTER else (_COPY,)
        if choice not in (_COPY, _PALETTE, _GRADIENT):
            raise ValueError(f"unknown Tight filter {choice!r}")
        stream = self._streams[kind & 3]
        if choice == _PALETTE:
            colours = (yield 1)[0] + 1
            palette = red_first((yield 3 * colours), 0, colours)
            bits = 1 if colours <= 2 else 8
            data = yield from _data(stream, row_length(width, bits) * height)
            if bits == 1:
                return palette[packed_indices(data, 0, width, height, bits)]
            return palette[np.frombuffer(data, np.uint8).reshape(height, width)]
        data = yield from _data(stream, 3 * width * height)
        if choice == _GRADIENT:
            return undo_gradient(
                np.frombuffer(data, np.uint8).reshape(height, width, 3)
            )
        return red_first(data, 0, width * height).reshape(height, width)


def _data(stream: Inflater, length: int) -> Generator[int, bytes, bytes]:
    """Read data that are compressed unless they are short.

    Their compressed length, of up to 22 bits, precedes them: seven in each byte but the
    third, the lowest first.
    """
    if length < _UNCOMPRESSED_BELOW:
        return (yield length)
    compressed = 0
    for shift in (0, 7, 14):
        (byte,) = yield 1
        compressed |= (byte if shift == 14 else byte & 0x7F) << shift
        if byte < 0x80:
            break
    return stream.inflate((yield compressed), length)


def undo_gradient(differences: npt.NDArray[np.uint8]) -> Pixels:
    """Return the pixels from their differences to a prediction, both of shape (height,
    width, 3).

    The left, upper and upper left neighbours predict a pixel. A pixel needs its
    neighbours, so one diagonal is done after the other.
    """
    height, width, _ = differences.shape
    done = np.zeros((height + 1, width + 1, 3), np.int16)
    for diagonal in range(height + width - 1):
        y = np.arange(max(0, diagonal - width + 1), min(height, diagonal + 1))
        x = diagonal - y
        predicted = np.clip(done[y + 1, x] + done[y, x + 1] - done[y, x], 0, 255)
        done[y + 1, x + 1] = (differences[y, x] + predicted) & 255
    rgb = done[1:, 1:].astype(np.uint8).tobytes()
    return red_first(rgb, 0, width * height).reshape(height, width)


_TILE = 64
_RAW, _SOLID, _MAX_PACKED, _RUNS = 0, 1, 16, 128
_TILE_OVERHEAD = 1 + 3 * 127
"""The maximum number of bytes of a tile beside its pixels: its type and palette."""
_MAX_PIXEL_BYTES = 4
"""The maximum number of bytes of a pixel: a run of one pixel."""


class Zrle:
    """A decoder for the rectangles of one connection; it keeps the connection's zlib
    stream.
    """

    def __init__(self) -> None:
        self._stream = Inflater()

    def decode(self, width: int, height: int) -> Reading:
        """Read one rectangle. Raises ValueError or IndexError if its bytes are
        invalid.
        """
        length = int.from_bytes((yield 4), "big")
        tiles = -(-width // _TILE) * -(-height // _TILE)
        max_bytes = tiles * _TILE_OVERHEAD + _MAX_PIXEL_BYTES * width * height
        # zlib makes nothing longer than that
        if length > max_bytes + max_bytes // 64 + 1024:
            raise ValueError(
                f"{length!r} compressed bytes are too many for {width} x {height}"
                " pixels"
            )
        data = _Tiles(self._stream.inflate((yield length), max_bytes))
        pixels = np.empty((height, width), np.uint32)
        for y in range(0, height, _TILE):
            for x in range(0, width, _TILE):
                target = pixels[y : y + _TILE, x : x + _TILE]
                target[:] = data.read_tile(*target.shape)
        return pixels


class _Tiles:
    """The inflated bytes of a rectangle, and the offset up to which they are read."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read_tile(self, height: int, width: int) -> npt.NDArray[np.uint32]:
        """Return the pixels of the next tile, or its one colour."""
        tile_type = self._byte()
        if tile_type == _RAW:
            return self._colours(width * height).reshape(height, width)
        if tile_type == _SOLID:
            return self._colours(1)
        if tile_type <= _MAX_PACKED:
            palette = self._colours(tile_type)
            bits = 1 if tile_type == 2 else 2 if tile_type <= 4 else 4
            indices = packed_indices(self._data, self._at, width, height, bits)
            self._at += row_length(width, bits) * height
            return palette[indices]
        if tile_type == _RUNS:
            return self._runs(width * height).reshape(height, width)
        if tile_type > _RUNS + 1:
            return self._palette_runs(tile_type - _RUNS, width * height).reshape(
                height, width
            )
        raise ValueError(f"unknown ZRLE tile type {tile_type!r}")

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _colours(self, count: int) -> npt.NDArray[np.uint32]:
        pixels: npt.NDArray[np.uint32] = _three_bytes(
            self._data, self._at, count, "<u4"
        ) & np.uint32(0xFFFFFF)
        self._at += 3 * count
        return pixels

    def _runs(self, count: int) -> npt.NDArray[np.uint32]:
        """Read runs of one colour each.

        A run up to 255 pixels takes four bytes; the few longer ones are read one by
        one.
        """
        pixels = np.empty(count, np.uint32)
        done = 0
        while done < count:
            done += self._short_runs(pixels[done:])
            if done < count:
                colour, length = self._colours(1), 1
                while (byte := self._byte()) == 255:
                    length += byte
                pixels[done : done + length + byte] = colour
                done += length + byte
        if done > count:
            raise ValueError(f"the runs must have {count} pixels, got {done!r}")
        return pixels

    def _short_runs(self, pixels: npt.NDArray[np.uint32]) -> int:
        """Fill `pixels` from the left with runs of up to 255; return how many pixels
        were filled.
        """
        max_runs = min(len(pixels), (len(self._data) - self._at) // 4)
        lengths = np.frombuffer(self._data, np.uint8, 4 * max_runs, self._at)[3::4]
        ends = np.cumsum(
            np.where(lengths == 255, len(pixels) + 1, lengths + np.int64(1))
        )
        runs = int(np.searchsorted(ends, len(pixels), side="right"))
        if not runs:
            return 0
        filled = int(ends[runs - 1])
        colours = np.ndarray((runs,), "<u4", self._data, self._at, (4,)) & np.uint32(
            0xFFFFFF
        )
        pixels[:filled] = np.repeat(colours, lengths[:runs] + np.int64(1))
        self._at += 4 * runs
        return filled

    def _palette_runs(self, colours: int, count: int) -> npt.NDArray[np.uint32]:
        """Read runs of a palette's colours.

        An index alone is one pixel; an index above 127 is followed by the length of its
        run.
        """
        palette, window, ends = self._colours(colours), 64, np.zeros(1, np.int64)
        while not len(ends) or ends[-1] < count:
            window *= 4
            block = np.frombuffer(self._data[self._at : self._at + window], np.uint8)
            bounds, lengths = split_runs(block)
            ends = np.cumsum(lengths)
            if len(block) < window:
                break
        runs = int(np.searchsorted(ends, count)) + 1
        if runs > len(ends) or ends[runs - 1] != count:
            raise ValueError(f"the runs must have {count} pixels")
        self._at += int(bounds[runs])
        return palette[np.repeat(block[bounds[:runs]] & 127, lengths[:runs])]


def split_runs(
    block: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the bounds of the whole runs at the start of `block`, and the pixels of
    each run.

    There is one more bound than there are runs. A byte starts a run, or belongs to a
    length. After a byte below 128 a run starts; after 255 a length continues; any other
    byte turns one into the other. So the last byte of the first two kinds, and the
    number of other bytes after it, decide whether a run starts next.
    """
    positions = np.arange(len(block))
    last_decisive = np.maximum.accumulate(
        np.where((block < 128) | (block == 255), positions, -1)
    )
    starts_next = np.where(last_decisive < 0, True, block[last_decisive] < 128) ^ (
        (positions - last_decisive) & 1 == 1
    )
    starts = np.append(True, starts_next)
    bounds = np.flatnonzero(starts)
    pixels = np.where(starts[:-1], 1, block.astype(np.int64))
    return bounds, np.diff(np.append(0, np.cumsum(pixels))[bounds])
