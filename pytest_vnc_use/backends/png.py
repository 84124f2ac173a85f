"""Frames as PNG: 8-bit RGB, filter Up, one zlib stream; the same pixels give the same bytes."""

from __future__ import annotations

import hashlib
import struct
import zlib

import numpy as np
import numpy.typing as npt

from pytest_vnc_use.types import Frame, FrameRef

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_FILTER_UP = 2
_LEVEL = 3


def encode_png(rgb: npt.NDArray[np.uint8]) -> bytes:
    """PNG of an array of shape (height, width, 3)."""
    height, width, _ = rgb.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(_filtered(rgb.reshape(height, width * 3)), _LEVEL)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", rows) + _chunk(b"IEND", b"")


def encode_frame(rgb: npt.NDArray[np.uint8]) -> Frame:
    """The frame of an array of shape (height, width, 3), with its digest and size."""
    png = encode_png(rgb)
    height, width, _ = rgb.shape
    return Frame(FrameRef(hashlib.sha256(png).hexdigest(), width, height), png)


def _filtered(rows: npt.NDArray[np.uint8]) -> bytes:
    height, row_bytes = rows.shape
    filtered = np.empty((height, row_bytes + 1), np.uint8)
    filtered[:, 0] = _FILTER_UP
    filtered[0, 1:] = rows[0]
    np.subtract(rows[1:], rows[:-1], out=filtered[1:, 1:])
    return filtered.tobytes()


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(body, zlib.crc32(kind)))
