"""A server's side of RFB (RFC 6143), in bytes: a greeting, updates, pixels in each
encoding, and a server for them.

Pixels are arrays of shape (height, width) that hold 0x00RRGGBB.
"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from support.wire import serving

Pixels = npt.NDArray[np.uint32]
RAW = 0
COPY = 1
TIGHT = 7
ZRLE = 16
CURSOR = -239
DESKTOP_SIZE = -223
BGRX = struct.pack(">BBBBHHHBBBxxx", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
HELLO = b"RFB 003.008\n" + b"\x01\x01" + bytes(4)
TILE = 64


def greeting(
    width: int, height: int, pixel_format: bytes = BGRX, name: bytes = b"scripted"
) -> bytes:
    """Return all that a server says until it waits for requests, without a password."""
    return HELLO + struct.pack(">HH16sI", width, height, pixel_format, len(name)) + name


def update(*rectangles: bytes) -> bytes:
    return struct.pack(">BxH", 0, len(rectangles)) + b"".join(rectangles)


def rectangle(
    x: int, y: int, width: int, height: int, encoding: int, data: bytes = b""
) -> bytes:
    return struct.pack(">HHHHi", x, y, width, height, encoding) + data


def drawn(pixels: Pixels, encoding: int, data: bytes, x: int = 0, y: int = 0) -> bytes:
    return rectangle(x, y, pixels.shape[1], pixels.shape[0], encoding, data)


def compact_length(length: int) -> bytes:
    """Return a length of up to 22 bits as Tight has it, with 7 bits in a byte."""
    low = length & 127
    if length < 1 << 7:
        return bytes([low])
    if length < 1 << 14:
        return bytes([low | 128, length >> 7])
    return bytes([low | 128, length >> 7 & 127 | 128, length >> 14])


def image(width: int, height: int, colours: int, seed: int) -> Pixels:
    chance = np.random.default_rng(seed)
    palette = chance.integers(0, 1 << 24, colours, np.uint32)
    lengths = chance.choice([1, 1, 2, 7, 300], width * height)
    indices = np.repeat(chance.integers(0, colours, width * height), lengths)
    return palette[indices[: width * height]].reshape(height, width)


def blue_first(pixels: Pixels) -> bytes:
    four_bytes = pixels.astype("<u4")[..., None].view(np.uint8)
    return four_bytes[..., :3].tobytes()


def red_first(pixels: Pixels) -> bytes:
    four_bytes = pixels.astype(">u4")[..., None].view(np.uint8)
    return four_bytes[..., 1:].tobytes()


def channels(pixels: Pixels) -> npt.NDArray[np.uint8]:
    """Return the channels red, green, blue, of shape (height, width, 3)."""
    return np.frombuffer(red_first(pixels), np.uint8).reshape(*pixels.shape, 3)


def _indexed(pixels: Pixels) -> tuple[Pixels, npt.NDArray[np.uint8]]:
    palette, indices = np.unique(pixels, return_inverse=True)
    return palette, indices.reshape(pixels.shape).astype(np.uint8)


def _packed(indices: npt.NDArray[np.uint8], bits: int) -> bytes:
    """Return rows of indices of so many bits, each row in whole bytes."""
    singly = np.unpackbits(indices[..., None], axis=2)[..., 8 - bits :]
    return np.packbits(singly.reshape(len(indices), -1), axis=1).tobytes()


class ZrleStream:
    """An encoder of rectangles in the ways of ZRLE: raw, solid, packed, runs,
    palette_runs.
    """

    def __init__(self) -> None:
        self._stream = zlib.compressobj()

    def encode(self, pixels: Pixels, way: str) -> bytes:
        height, width = pixels.shape
        tiles = b""
        for y, x in product(range(0, height, TILE), range(0, width, TILE)):
            tiles += zrle_tile(pixels[y : y + TILE, x : x + TILE], way)
        return self.wrap(tiles)

    def wrap(self, tiles: bytes) -> bytes:
        block = self._stream.compress(tiles) + self._stream.flush(zlib.Z_SYNC_FLUSH)
        return struct.pack(">I", len(block)) + block


def zrle_tile(pixels: Pixels, way: str) -> bytes:
    palette, indices = _indexed(pixels)
    match way:
        case "raw":
            return b"\0" + blue_first(pixels)
        case "solid":
            return b"\1" + blue_first(palette)
        case "packed":
            colours = max(len(palette), 2)
            palette = np.resize(palette, colours)
            bits = 4
            if colours <= 4:
                bits = 2
            if colours == 2:
                bits = 1
            return bytes([colours]) + blue_first(palette) + _packed(indices, bits)
        case "runs":
            tile = b"\x80"
            for colour, count in _runs(pixels):
                tile += blue_first(colour[None]) + _length(count)
            return tile
        case "palette_runs":
            colours = max(len(palette), 2)
            tile = bytes([128 + colours]) + blue_first(np.resize(palette, colours))
            for index, count in _runs(indices):
                if count == 1:
                    tile += bytes([index])
                else:
                    tile += bytes([index | 128]) + _length(count)
            return tile
    raise ValueError(way)


def _runs(values: npt.NDArray[Any]) -> Iterator[tuple[Any, int]]:
    flat = values.ravel()
    starts = np.flatnonzero(np.append(True, flat[1:] != flat[:-1]))
    return zip(flat[starts], np.diff(np.append(starts, len(flat))), strict=True)


def _length(count: int) -> bytes:
    full, rest = divmod(int(count) - 1, 255)
    return b"\xff" * full + bytes([rest])


class TightStream:
    """An encoder of rectangles in the ways of Tight: fill, copy, palette, gradient."""

    def __init__(self) -> None:
        self._streams = [zlib.compressobj() for _ in range(4)]

    def encode(
        self, pixels: Pixels, way: str, stream: int = 0, *, reset: bool = False
    ) -> bytes:
        if reset:
            self._streams[stream] = zlib.compressobj()
        resets = 1 << stream if reset else 0
        control = stream << 4 | resets
        match way:
            case "fill":
                return bytes([0x80 | resets]) + red_first(pixels[:1, :1])
            case "copy":
                return bytes([control]) + self.wrap(stream, red_first(pixels))
            case "palette":
                palette, indices = _indexed(pixels)
                rows = _packed(indices, 1) if len(palette) <= 2 else indices.tobytes()
                head = bytes([control | 64, 1, len(palette) - 1]) + red_first(palette)
                return head + self.wrap(stream, rows)
            case "gradient":
                rgb = channels(pixels).astype(np.int16)
                padded = np.pad(rgb, ((1, 0), (1, 0), (0, 0)))
                left = padded[1:, :-1]
                above = padded[:-1, 1:]
                above_left = padded[:-1, :-1]
                predicted = np.clip(left + above - above_left, 0, 255)
                rows = ((rgb - predicted) & 255).astype(np.uint8).tobytes()
                return bytes([control | 64, 2]) + self.wrap(stream, rows)
        raise ValueError(way)

    def wrap(self, stream: int, data: bytes) -> bytes:
        if len(data) < 12:
            return data
        compressor = self._streams[stream]
        block = compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)
        return compact_length(len(block)) + block


@contextmanager
def playing(
    *sessions: bytes, then_silent: bool = False, again: bytes = b""
) -> Iterator[str]:
    """Yield the address of a server that says each session to one client, then `again`
    for ever, then hangs up.

    With `then_silent` it does not hang up.
    """
    left = iter(sessions)

    class Player(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            drain = threading.Thread(target=self._drain, daemon=True)
            drain.start()
            with suppress(OSError):
                self.request.sendall(next(left))
                while again:
                    self.request.sendall(again)
                if not then_silent:
                    self.request.shutdown(socket.SHUT_WR)
            drain.join()

        def _drain(self) -> None:
            with suppress(OSError):
                while self.request.recv(1 << 16):
                    pass

    with serving(Player) as address:
        yield address
