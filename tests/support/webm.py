"""A reader of WebM, as far as videos of runs use it (RFC 8794, RFC 9559)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from pytest_vnc_use.recordings.images import Pixels, pixels_of

SEGMENT = 0x18538067
CLUSTER = 0x1F43B675
TIME = 0xE7
BLOCK = 0xA3
CUE_POINT = 0xBB
CUE_POSITION = 0xF1
PARENTS = {SEGMENT, CLUSTER, CUE_POINT, 0x1549A966, 0x1C53BB6B, 0xB7}


def elements(content: bytes, offset: int = 0) -> Iterator[tuple[int, bytes, int]]:
    """Yield each element with its content and its offset, parents before children."""
    at = 0
    while at < len(content):
        name, body = number(content, at, keeps_mark=True)
        length, start = number(content, body, keeps_mark=False)
        yield name, content[start : start + length], offset + at
        if name in PARENTS:
            yield from elements(content[start : start + length], offset + start)
        at = start + length


def number(content: bytes, at: int, *, keeps_mark: bool) -> tuple[int, int]:
    """Return a number of variable length, and where it ends."""
    length = 9 - content[at].bit_length()
    end = at + length
    value = int.from_bytes(content[at:end], "big")
    mark = 1 << 7 * length
    return (value if keeps_mark else value & ~mark), end


def frames_of(video: Path) -> list[tuple[float, Pixels]]:
    """Return each frame of a video with its time in seconds."""
    frames = []
    time_ms = 0
    for name, content, _ in elements(video.read_bytes()):
        if name == TIME:
            time_ms = int.from_bytes(content, "big")
        if name == BLOCK:
            frames.append((time_ms / 1000, pixels_of(webp_of(content[4:]))))
    return frames


def webp_of(frame: bytes) -> bytes:
    """Return a key frame of VP8 as a WebP."""
    chunk = struct.pack("<4sI", b"VP8 ", len(frame)) + frame + bytes(len(frame) % 2)
    return struct.pack("<4sI4s", b"RIFF", 4 + len(chunk), b"WEBP") + chunk
