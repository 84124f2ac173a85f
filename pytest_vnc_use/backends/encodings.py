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

from pytest_vnc_use.backends.pixels import COLOUR_BITS, Pixels

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
    """Return the pixels with red and blue exchanged.

    >>> f"{swapped(np.array([0x102030], np.uint32))[0]:06x}"
    '302010'
    """
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
    # the fourth byte, which is the next pixel's, is the lowest here
    numbers = _three_bytes(data, start, count, ">u4")
    pixels: npt.NDArray[np.uint32] = numbers >> np.uint32(8)
    return pixels


def _three_bytes(
    data: bytes, start: int, count: int, order: str
) -> npt.NDArray[np.uint32]:
    """Return numbers of four bytes that begin three bytes apart; `order` is numpy's
    type of them. Raises ValueError if there are too few bytes.

        data      r g b r g b …
        numbers   └─────┘            each has its pixel's bytes, and the first of the
                        └─────┘      next pixel, which the caller removes
    """
    end = start + 3 * count
    if end > len(data):
        raise ValueError(
            f"{count} pixels need {3 * count} bytes, got {len(data) - start!r}"
        )
    if end == len(data):
        # the last number needs one byte more than its pixel has
        data = data[start:] + b"\0"
        start = 0
    numbers: npt.NDArray[np.uint32]
    numbers = np.ndarray((count,), order, data, offset=start, strides=(3,))
    return numbers


def _table_of(bits: int) -> npt.NDArray[np.intp]:
    """Return for each byte the indices of `bits` bits each that it holds.

    >>> _table_of(4)[0x2F].tolist()
    [2, 15]
    """
    shifts = np.arange(8 - bits, -1, -bits)
    return np.arange(256)[:, None] >> shifts & (1 << bits) - 1


_UNPACKED = {bits: _table_of(bits) for bits in (1, 2, 4)}


def packed_indices(
    data: bytes, start: int, width: int, height: int, bits: int
) -> npt.NDArray[np.intp]:
    """Return indices of 1, 2 or 4 bits each, of shape (height, width); every row begins
    with a new byte.

    Raises ValueError if there are too few bytes.
    """
    packed = np.frombuffer(data, np.uint8, row_length(width, bits) * height, start)
    rows = _UNPACKED[bits][packed].reshape(height, -1)
    # the last byte of a row may hold more than its pixels
    indices: npt.NDArray[np.intp] = rows[:, :width]
    return indices


def row_length(width: int, bits: int) -> int:
    """Return the number of bytes in a row of indices, rounded up."""
    return -(-width * bits // 8)


_FILL = 8
_JPEG = 9
"""The upper half of Tight's control byte for these two kinds. One below is a kind of its
own: two bits have the number of the stream, and `_HAS_FILTER` says that a filter is
named.
"""
_HAS_FILTER = 4
_COPY = 0
_PALETTE = 1
_GRADIENT = 2
"""The filters."""
_UNCOMPRESSED_BELOW = 12
"""Data of fewer bytes are not compressed."""


class Tight:
    """A decoder for the rectangles of one connection; it keeps the connection's four
    zlib streams.

        control byte    7 6 5 4 │ 3 2 1 0
                        kind    │ the streams to restart
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
            colour = red_first((yield 3), 0, 1)
            return np.broadcast_to(colour, (height, width))
        if kind == _JPEG:
            raise ValueError("JPEG, which was not asked for")
        if kind > _JPEG:
            raise ValueError(f"Tight compression {kind!r}")
        stream = self._streams[kind & 3]
        choice = _COPY
        if kind & _HAS_FILTER:
            (choice,) = yield 1
        if choice == _COPY:
            data = yield from _data(stream, 3 * width * height)
            return red_first(data, 0, width * height).reshape(height, width)
        if choice == _PALETTE:
            return (yield from _palette_pixels(stream, width, height))
        if choice == _GRADIENT:
            data = yield from _data(stream, 3 * width * height)
            differences = np.frombuffer(data, np.uint8).reshape(height, width, 3)
            return undo_gradient(differences)
        raise ValueError(f"unknown Tight filter {choice!r}")


def _palette_pixels(stream: Inflater, width: int, height: int) -> Reading:
    """Read a palette, and an index into it for each pixel: of a bit for two colours,
    else of a byte.
    """
    (last,) = yield 1
    colours = last + 1
    palette = red_first((yield 3 * colours), 0, colours)
    bits = 1 if colours <= 2 else 8
    data = yield from _data(stream, row_length(width, bits) * height)
    if bits == 1:
        return palette[packed_indices(data, 0, width, height, bits)]
    return palette[np.frombuffer(data, np.uint8).reshape(height, width)]


def _data(stream: Inflater, length: int) -> Generator[int, bytes, bytes]:
    """Read data that are compressed unless they are short.

    Their compressed length, of up to 22 bits, precedes them, the lowest bits first:
    seven in each byte, whose highest bit says that another follows, and eight in the
    third.
    """
    if length < _UNCOMPRESSED_BELOW:
        return (yield length)
    compressed = 0
    for shift in (0, 7):
        (byte,) = yield 1
        compressed |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    else:
        (byte,) = yield 1
        compressed |= byte << 14
    return stream.inflate((yield compressed), length)


def undo_gradient(differences: npt.NDArray[np.uint8]) -> Pixels:
    """Return the pixels from their differences to a prediction, both of shape (height,
    width, 3).

    The left, upper and upper left neighbours predict a pixel. A pixel needs its
    neighbours, so one diagonal is done after the other:

        0 1 2 3      the number of its diagonal, which is x + y
        1 2 3 4
    """
    height, width, _ = differences.shape
    # with a row of black above and a column to the left, so that each has neighbours
    done = np.zeros((height + 1, width + 1, 3), np.int16)
    for diagonal in range(height + width - 1):
        y = np.arange(max(0, diagonal - width + 1), min(height, diagonal + 1))
        x = diagonal - y
        left = done[y + 1, x]
        above = done[y, x + 1]
        above_left = done[y, x]
        predicted = np.clip(left + above - above_left, 0, 255)
        done[y + 1, x + 1] = (differences[y, x] + predicted) & 255
    rgb = done[1:, 1:].astype(np.uint8).tobytes()
    return red_first(rgb, 0, width * height).reshape(height, width)


_TILE = 64
"""The side of a ZRLE tile, in pixels."""
_RAW = 0
_SOLID = 1
_MAX_PACKED = 16
_RUNS = 128
"""The types of a tile: all pixels; one colour; up to 16, the number of colours in a
palette, and an index for each pixel; runs of colours; above that, 128 more than the
number of colours in a palette, and runs of them.
"""
_LONG_RUN = 255
"""A byte of a run's length after which it continues."""
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
        # rounded up
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
            return self._packed(tile_type, height, width)
        if tile_type == _RUNS:
            return self._runs(width * height).reshape(height, width)
        if tile_type > _RUNS + 1:
            pixels = self._palette_runs(tile_type - _RUNS, width * height)
            return pixels.reshape(height, width)
        raise ValueError(f"unknown ZRLE tile type {tile_type!r}")

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _colours(self, count: int) -> npt.NDArray[np.uint32]:
        """Return the next pixels, of three bytes each, blue first."""
        # the fourth byte, which is the next pixel's, is the highest here
        numbers = _three_bytes(self._data, self._at, count, "<u4")
        self._at += 3 * count
        pixels: npt.NDArray[np.uint32] = numbers & COLOUR_BITS
        return pixels

    def _packed(self, colours: int, height: int, width: int) -> npt.NDArray[np.uint32]:
        """Read a palette, and an index into it for each pixel: of as few bits as the
        number of colours needs.
        """
        palette = self._colours(colours)
        bits = 4
        if colours <= 4:
            bits = 2
        if colours == 2:
            bits = 1
        indices = packed_indices(self._data, self._at, width, height, bits)
        self._at += row_length(width, bits) * height
        return palette[indices]

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
                colour = self._colours(1)
                end = done + self._run_length()
                pixels[done:end] = colour
                done = end
        if done > count:
            raise ValueError(f"the runs must have {count} pixels, got {done!r}")
        return pixels

    def _run_length(self) -> int:
        """Read the length of a run: 1 and the sum of its bytes, of which only the last
        is not 255.
        """
        length = 1
        byte = _LONG_RUN
        while byte == _LONG_RUN:
            byte = self._byte()
            length += byte
        return length

    def _short_runs(self, pixels: npt.NDArray[np.uint32]) -> int:
        """Fill `pixels` from the left with runs of up to 255; return how many pixels
        were filled.

            bytes   b g r 2   b g r 0   b g r 255 …     the fourth byte of each is its
            runs      3         1         stop          length less 1
        """
        left = len(pixels)
        max_runs = min(left, (len(self._data) - self._at) // 4)
        fourth = np.frombuffer(self._data, np.uint8, 4 * max_runs, self._at)[3::4]
        lengths = fourth + np.int64(1)
        # a long run counts as too many, so that it and all after it are left
        ends = np.cumsum(np.where(fourth == _LONG_RUN, left + 1, lengths))
        runs = int(np.searchsorted(ends, left, side="right"))
        if not runs:
            return 0
        numbers = np.ndarray((runs,), "<u4", self._data, offset=self._at)
        filled = int(ends[runs - 1])
        pixels[:filled] = np.repeat(numbers & COLOUR_BITS, lengths[:runs])
        self._at += 4 * runs
        return filled

    def _palette_runs(self, colours: int, count: int) -> npt.NDArray[np.uint32]:
        """Read runs of a palette's colours.

        An index alone is one pixel; an index above 127 is followed by the length of its
        run. How many bytes there are is not known before, so more and more are looked
        at, until their runs have enough pixels.
        """
        palette = self._colours(colours)
        window = 64
        while True:
            window *= 4
            block = np.frombuffer(self._data[self._at : self._at + window], np.uint8)
            bounds, lengths = split_runs(block)
            ends = np.cumsum(lengths)
            is_enough = bool(len(ends)) and ends[-1] >= count
            if is_enough or len(block) < window:
                break
        runs = int(np.searchsorted(ends, count)) + 1
        if runs > len(ends) or ends[runs - 1] != count:
            raise ValueError(f"the runs must have {count} pixels")
        self._at += int(bounds[runs])
        indices = block[bounds[:runs]] & 127
        return palette[np.repeat(indices, lengths[:runs])]


def split_runs(
    block: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the bounds of the whole runs at the start of `block`, and the pixels of
    each run.

    There is one more bound than there are runs. A byte starts a run, or belongs to a
    length. After a byte below 128 a run starts; after 255 a length continues; any other
    byte turns one into the other. So the last byte of the first two kinds, and the
    number of other bytes after it, decide whether a run starts next.

        byte     5      200     9      130     255     1      7
        is       run    run     length run     length  length run
        pixels   1      1 + 9          1 + 255 + 1            1

    >>> bounds, lengths = split_runs(np.array([5, 200, 9, 130, 255, 1, 7], np.uint8))
    >>> bounds.tolist(), lengths.tolist()
    ([0, 1, 3, 6, 7], [1, 10, 257, 1])
    """
    positions = np.arange(len(block))
    is_decisive = (block < 128) | (block == _LONG_RUN)
    # the position of the last decisive byte up to each byte; -1 before the first
    decisive = np.maximum.accumulate(np.where(is_decisive, positions, -1))
    # before the first byte a run starts, as after one below 128
    starts_after = np.where(decisive < 0, True, block[decisive] < 128)
    turns = positions - decisive
    starts_next = starts_after ^ (turns & 1 == 1)
    starts = np.append(True, starts_next)
    bounds = np.flatnonzero(starts)
    # the first byte of a run is one pixel, each of its length as many as it says
    pixels = np.where(starts[:-1], 1, block.astype(np.int64))
    pixels_before = np.append(0, np.cumsum(pixels))
    return bounds, np.diff(pixels_before[bounds])
