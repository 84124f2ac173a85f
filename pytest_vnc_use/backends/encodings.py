"""The encodings in which pixels travel, decoded by numpy: no loop in Python runs over pixels.

A reader is a generator: it yields how many bytes it needs, gets just those, and returns the pixels. Sources: RFC 6143,
7.7.1 (raw) and 7.7.6 (ZRLE); rfbproto, "Tight Encoding", without its JPEG, which loses pixels and is never asked for.
In the pixel format that this package asks for, a pixel of ZRLE is three bytes, blue first, and one of Tight red first.
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
