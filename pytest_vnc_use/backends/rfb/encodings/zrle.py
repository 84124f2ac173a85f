"""ZRLE encoding (RFC 6143, 7.7.6): tiles of 64 x 64 pixels in one zlib stream, each in the shortest of several ways.

In the pixel format that this package asks for, a pixel is three bytes, blue first.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pytest_vnc_use.backends.rfb.encodings.reading import (
    Inflater,
    Reading,
    blue_first,
    colours_at,
    packed_indices,
    row_length,
)
from pytest_vnc_use.backends.screen.rectangles import Pixels

_TILE = 64
_RAW, _SOLID, _MOST_PACKED, _RUNS = 0, 1, 16, 128
_TILE_OVERHEAD = 1 + 3 * 127
"""The most bytes of a tile beside its pixels: the way in which it is sent, and its palette."""
_LONGEST_PIXEL = 4
"""The most bytes of a pixel: a run of one pixel."""
_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]


class Zrle:
    """A decoder for the rectangles of one connection; it keeps the connection's zlib stream."""

    def __init__(self) -> None:
        self._stream = Inflater()

    def decode(self, width: int, height: int) -> Reading:
        """Read one rectangle. Raises ValueError if its bytes are invalid."""
        length = int.from_bytes((yield 4), "big")
        tiles = -(-width // _TILE) * -(-height // _TILE)
        most = tiles * _TILE_OVERHEAD + _LONGEST_PIXEL * width * height
        if length > most + most // 64 + 1024:  # zlib makes nothing longer than that
            raise ValueError(f"{length!r} compressed bytes are too many for {width} x {height} pixels")
        return _Tiles(self._stream.inflate((yield length), most)).screen(width, height)


class _Tiles:
    """The inflated bytes of a rectangle, and the place up to which they are read."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def screen(self, width: int, height: int) -> Pixels:
        """Return the pixels of all tiles. Raises ValueError if there are too few or too many bytes."""
        pixels = np.empty((height, width), np.uint32)
        for y in range(0, height, _TILE):
            for x in range(0, width, _TILE):
                target = pixels[y : y + _TILE, x : x + _TILE]
                target[:] = self._tile(target.shape[1], target.shape[0])
        if self._at != len(self._data):
            raise ValueError(
                f"the rectangle must have no bytes after its last tile, got {len(self._data) - self._at!r}"
            )
        return pixels

    def _tile(self, width: int, height: int) -> Pixels | npt.NDArray[np.uint32]:
        way = self._byte()
        if way == _RAW:
            return self._colours(width * height).reshape(height, width)
        if way == _SOLID:
            return self._colours(1)
        if way <= _MOST_PACKED:
            return self._packed(way, width, height)
        if way == _RUNS:
            return self._runs(width * height).reshape(height, width)
        if way > _RUNS + 1:
            return self._palette_runs(way - _RUNS, width * height).reshape(height, width)
        raise ValueError(f"unknown ZRLE tile type {way!r}")

    def _byte(self) -> int:
        if self._at == len(self._data):
            raise ValueError("the rectangle has fewer tiles than its size needs")
        self._at += 1
        return self._data[self._at - 1]

    def _colours(self, count: int) -> npt.NDArray[np.uint32]:
        pixels = blue_first(self._data, self._at, count)
        self._at += 3 * count
        return pixels

    def _packed(self, colours: int, width: int, height: int) -> Pixels:
        palette = self._colours(colours)
        bits = 1 if colours == 2 else 2 if colours <= 4 else 4
        indices = packed_indices(self._data, self._at, width, height, bits)
        self._at += row_length(width, bits) * height
        return colours_at(palette, indices)

    def _runs(self, count: int) -> npt.NDArray[np.uint32]:
        """Read runs of one colour each.

        A run up to 255 pixels takes four bytes; the few longer ones are read one by one.
        """
        pixels = np.empty(count, np.uint32)
        done = 0
        while done < count:
            done += self._short_runs(pixels[done:])
            if done < count:
                done += self._long_run(pixels[done:])
        return pixels

    def _short_runs(self, pixels: npt.NDArray[np.uint32]) -> int:
        """Fill `pixels` from the left with runs of up to 255; return how many pixels were filled."""
        most = min(len(pixels), (len(self._data) - self._at) // 4)
        lengths = np.frombuffer(self._data, np.uint8, 4 * most, self._at)[3::4]
        ends = np.cumsum(np.where(lengths == 255, len(pixels) + 1, lengths + np.int64(1)))
        runs = int(np.searchsorted(ends, len(pixels), side="right"))
        if not runs:
            return 0
        filled = int(ends[runs - 1])
        colours = np.ndarray((runs,), "<u4", self._data, self._at, (4,)) & np.uint32(0xFFFFFF)
        pixels[:filled] = np.repeat(colours, lengths[:runs] + np.int64(1))
        self._at += 4 * runs
        return filled

    def _long_run(self, pixels: npt.NDArray[np.uint32]) -> int:
        colour = self._colours(1)
        length = 1
        while (byte := self._byte()) == 255:
            length += byte
        length += byte
        if length > len(pixels):
            raise ValueError(f"a run must have at most {len(pixels)} pixels, got {length!r}")
        pixels[:length] = colour
        return length

    def _palette_runs(self, colours: int, count: int) -> npt.NDArray[np.uint32]:
        """Read runs of a palette's colours.

        An index alone is one pixel; an index above 127 is followed by the length of its run.
        """
        palette = self._colours(colours)
        block, bounds, ends = self._indexed_runs(count)
        runs = int(np.searchsorted(ends, count)) + 1
        if ends[runs - 1] != count:
            raise ValueError(f"the runs must have {count} pixels, got {int(ends[runs - 1])!r}")
        self._at += int(bounds[runs])
        lengths = np.diff(ends[:runs], prepend=0)
        return colours_at(palette, np.repeat(block[bounds[:runs]] & 127, lengths))

    def _indexed_runs(self, count: int) -> tuple[_Bytes, _Numbers, _Numbers]:
        """Return bytes with runs of at least `count` pixels, the bounds of the runs, and the pixels up to each end."""
        window = 256
        while True:
            block = np.frombuffer(self._data[self._at : self._at + window], np.uint8)
            bounds, lengths = split_runs(block)
            ends = np.cumsum(lengths)
            if len(ends) and ends[-1] >= count:
                return block, bounds, ends
            if len(block) < window:
                raise ValueError(f"the runs must have {count} pixels, got fewer")
            window *= 4


def split_runs(block: _Bytes) -> tuple[_Numbers, _Numbers]:
    """Return the bounds of the whole runs at the start of `block`, and the pixels of each run.

    There is one more bound than there are runs. A byte starts a run, or belongs to a length. After a byte below 128 a
    run starts; after 255 a length continues; any other byte turns one into the other. So the last byte of the first two
    kinds, and the number of other bytes after it, decide whether a run starts next.
    """
    places = np.arange(len(block))
    telling = np.maximum.accumulate(np.where((block < 128) | (block == 255), places, -1))
    starts_next = np.where(telling < 0, True, block[telling] < 128) ^ ((places - telling) & 1 == 1)
    starts = np.append(True, starts_next)
    bounds = np.flatnonzero(starts)
    pixels = np.where(starts[:-1], 1, block.astype(np.int64))
    return bounds, np.diff(np.append(0, np.cumsum(pixels))[bounds])
