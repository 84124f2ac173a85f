"""The video of a run: what the client's screen showed, in true time, as WebM.

Each frame is a key frame of VP8, taken out of a lossy WebP that Pillow makes: so every
browser and player can play the file and seek to each frame, and nothing needs to be
installed. An animated WebP cannot be seeked in a browser, frames of another format would
play on our page only, and an encoder such as PyAV is a dependency of 30 MB.

While a test runs, only the tiles that changed are kept, deflated, in memory: 1 ms for a
whole screen. `write` makes the file, 20 ms a frame, once it is known that it stays.
"""

from __future__ import annotations

import io
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from pytest_vnc_use import clock
from pytest_vnc_use.backends.pixels import Pixels, deflated, inflated
from pytest_vnc_use.backends.screen import Framebuffer, PointerShape
from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.runs.directory import write_atomically
from pytest_vnc_use.types import Region

LOOK_S = 0.1
"""The time between two looks: at most 10 frames a second."""
MOVING_S = 1.0
"""The time between two frames where only moving tiles changed, such as a caret or a
spinner.
"""
MAX_FRAMES = 600
MAX_BYTES = 64 << 20
"""The maximum frames of a video, and the maximum memory for what changed in them. Of a
longer run the last frames are kept.
"""
MAX_SIDE = 16_383
"""The largest width and height, in pixels, that a key frame of VP8 can have."""
_QUALITY = 60
_METHOD = 0
"""Pillow's options for WebP: the fastest method, and a quality at which text of 10
pixels is sharp.
"""
_VP8_AT = 12
"""Where a lossy WebP has its chunk: after `RIFF`, a size and `WEBP`."""


class _Look(NamedTuple):
    """What changed on the screen up to a time in seconds since the run started."""

    at_s: float
    size: tuple[int, int]
    parts: Sequence[tuple[Region, bytes]]
    pointer: tuple[PointerShape, int, int] | None

    @property
    def byte_count(self) -> int:
        """The memory that its parts take."""
        return sum(len(content) for _, content in self.parts)


class Recorder:
    """A recorder of what a screen shows, on a thread of its own, from the call of
    `start` to that of `stop`.

    Args:
        screen: Returns the live pixels; None while there are none.
        started_at: The time of the monotonic clock that is 0 in the video.
    """

    def __init__(
        self, screen: Callable[[], Framebuffer | None], started_at: float
    ) -> None:
        self._screen = screen
        self._started_at = started_at
        self._stopped_at = started_at
        self._looks: deque[_Look] = deque()
        self._canvas = _Canvas()
        """The screen before the first look that is kept."""
        self._byte_count = 0
        self._seen: Framebuffer | None = None
        self._since = -np.inf
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._record, name="vnc-use video", daemon=True
        )

    @property
    def frame_count(self) -> int:
        """The number of frames so far."""
        return len(self._looks)

    def start(self) -> None:
        """Start to record."""
        self._thread.start()

    def stop(self) -> None:
        """Look once more, and stop; a second call does nothing."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()

    def _record(self) -> None:
        while not self._stop.wait(LOOK_S):
            self._look()
        self._look()
        self._stopped_at = clock.monotonic()

    def _look(self) -> None:
        screen = self._screen()
        if screen is None or not screen.is_complete:
            return
        if max(screen.size) > MAX_SIDE:
            return
        look = self._changes_of(screen)
        if look:
            self._keep(look)

    def _changes_of(self, screen: Framebuffer) -> _Look | None:
        """Return what changed since the last look; None if that was nothing."""
        size = screen.size
        last = self._looks[-1] if self._looks else None
        if screen is not self._seen or (last and last.size != size):
            # another connection, or another size: all of it is new
            self._seen = screen
            self._since = -np.inf
        pointer = screen.pointer
        if last and last.pointer == pointer and self._is_as_before(screen, last):
            return None
        since, regions = screen.regions_since(self._since)
        if screen.size != size:
            return None
        self._since = since
        parts = [(region, deflated(pixels)) for region, pixels in regions]
        return _Look(since - self._started_at, size, parts, pointer)

    def _is_as_before(self, screen: Framebuffer, last: _Look) -> bool:
        if screen.changed_at <= self._since:
            return True
        try:
            if screen.changed_since(self._since):
                return False
        except DesktopError:
            # the last that a desktop showed may be why the test fails
            return False
        age_s = clock.monotonic() - self._started_at - last.at_s
        return age_s < MOVING_S

    def _keep(self, look: _Look) -> None:
        self._looks.append(look)
        self._byte_count += look.byte_count
        while self._is_too_long:
            oldest = self._looks.popleft()
            self._canvas.draw(oldest)
            self._byte_count -= oldest.byte_count

    @property
    def _is_too_long(self) -> bool:
        count = len(self._looks)
        return count > MAX_FRAMES or (count > 1 and self._byte_count > MAX_BYTES)

    def write(self, target: Path) -> bool:
        """Write the video, once it has stopped; return whether it has a frame. Raises
        RunDirectoryUnwritable.
        """
        if not self._looks:
            return False
        frames = [*self._frames()]
        end_ms = _milliseconds(self._stopped_at - self._started_at)
        # a player shows the first frame until the second, and the last to the end
        frames[0] = (0, frames[0][1])
        frames.append((max(end_ms, frames[-1][0] + 1), frames[-1][1]))
        write_atomically(target, webm(frames, self._looks[-1].size))
        return True

    def _frames(self) -> Iterator[tuple[int, bytes]]:
        """Yield each frame with its time in milliseconds."""
        for look in self._looks:
            self._canvas.draw(look)
            yield _milliseconds(look.at_s), self._canvas.encoded(look.pointer)


def _milliseconds(seconds: float) -> int:
    return max(round(seconds * 1000), 0)


class _Canvas:
    """The screen at one time of a video."""

    def __init__(self) -> None:
        self._pixels: Pixels = np.zeros((0, 0), np.uint32)

    def draw(self, look: _Look) -> None:
        """Draw what changed."""
        width, height = look.size
        if self._pixels.shape != (height, width):
            self._pixels = np.zeros((height, width), np.uint32)
        for region, content in look.parts:
            target = region.part_of(self._pixels)
            target[:] = inflated(content, target.shape)

    def encoded(self, pointer: tuple[PointerShape, int, int] | None) -> bytes:
        """Return the screen with the pointer as a key frame of VP8."""
        pixels = self._pixels
        if pointer:
            shape, x, y = pointer
            pixels = shape.drawn_on(pixels, x, y)
        size = pixels.shape[::-1]
        image = Image.frombuffer("RGB", size, pixels.tobytes(), "raw", "BGRX", 0, 1)
        return vp8_of(image)


def vp8_of(image: Image.Image) -> bytes:
    """Return an image as a key frame of VP8, out of a WebP."""
    content = io.BytesIO()
    image.save(content, "WEBP", quality=_QUALITY, method=_METHOD)
    webp = content.getvalue()
    kind, length = struct.unpack_from("<4sI", webp, _VP8_AT)
    assert kind == b"VP8 "
    start = _VP8_AT + 8
    return webp[start : start + length]


# The elements of WebM that are written: https://www.webmproject.org/docs/container/
_EBML = 0x1A45DFA3
_READ_VERSION = 0x42F7
_DOC_TYPE = 0x4282
_DOC_TYPE_VERSION = 0x4287
_DOC_TYPE_READ_VERSION = 0x4285
_SEGMENT = 0x18538067
_INFO = 0x1549A966
_TIMESTAMP_SCALE = 0x2AD7B1
_DURATION = 0x4489
_MUXING_APP = 0x4D80
_WRITING_APP = 0x5741
_TRACKS = 0x1654AE6B
_TRACK_ENTRY = 0xAE
_TRACK_NUMBER = 0xD7
_TRACK_UID = 0x73C5
_TRACK_TYPE = 0x83
_IS_VIDEO = 1
_CODEC_ID = 0x86
_VIDEO = 0xE0
_PIXEL_WIDTH = 0xB0
_PIXEL_HEIGHT = 0xBA
_COLOUR = 0x55B0
_MATRIX = 0x55B1
_RANGE = 0x55B9
_TRANSFER = 0x55BA
_PRIMARIES = 0x55BB
_CUES = 0x1C53BB6B
_CUE_POINT = 0xBB
_CUE_TIME = 0xB3
_CUE_TRACK_POSITIONS = 0xB7
_CUE_TRACK = 0xF7
_CUE_CLUSTER_POSITION = 0xF1
_CLUSTER = 0x1F43B675
_TIMESTAMP = 0xE7
_SIMPLE_BLOCK = 0xA3
_BLOCK_HEADER = b"\x81\x00\x00\x80"
"""Track 1, no time after the cluster's, a key frame."""
_NAME = b"pytest-vnc-use"
_NANOSECONDS = 1_000_000


def webm(frames: Sequence[tuple[int, bytes]], size: tuple[int, int]) -> bytes:
    """Return a WebM of key frames of VP8, each with its time in milliseconds.

    Each frame is a cluster that the index names, so a player can seek to it.
    """
    header = _element(
        _EBML,
        _number(_READ_VERSION, 1),
        _element(_DOC_TYPE, b"webm"),
        _number(_DOC_TYPE_VERSION, 2),
        _number(_DOC_TYPE_READ_VERSION, 2),
    )
    info = _element(
        _INFO,
        _number(_TIMESTAMP_SCALE, _NANOSECONDS),
        _element(_DURATION, struct.pack(">d", frames[-1][0])),
        _element(_MUXING_APP, _NAME),
        _element(_WRITING_APP, _NAME),
    )
    # WebP's colours, which a player would otherwise guess from the size: those of
    # BT.601 in the limited range, made of sRGB
    colour = _element(
        _COLOUR,
        _number(_MATRIX, 6),
        _number(_RANGE, 1),
        _number(_TRANSFER, 13),
        _number(_PRIMARIES, 1),
    )
    video = _element(
        _VIDEO,
        _number(_PIXEL_WIDTH, size[0]),
        _number(_PIXEL_HEIGHT, size[1]),
        colour,
    )
    track = _element(
        _TRACK_ENTRY,
        _number(_TRACK_NUMBER, 1),
        _number(_TRACK_UID, 1),
        _number(_TRACK_TYPE, _IS_VIDEO),
        _element(_CODEC_ID, b"V_VP8"),
        video,
    )
    start = info + _element(_TRACKS, track)
    clusters = [
        _element(
            _CLUSTER,
            _number(_TIMESTAMP, at_ms),
            _element(_SIMPLE_BLOCK, _BLOCK_HEADER, frame),
        )
        for at_ms, frame in frames
    ]
    # numbers are always 8 bytes long, so the index's length is known before it is
    position = len(start) + len(_cues([0] * len(frames), frames))
    positions = []
    for cluster in clusters:
        positions.append(position)
        position += len(cluster)
    index = _cues(positions, frames)
    return header + _element(_SEGMENT, start, index, *clusters)


def _cues(positions: Sequence[int], frames: Sequence[tuple[int, bytes]]) -> bytes:
    """Return the index: where in the segment the cluster of each frame begins."""
    points = []
    for position, (at_ms, _) in zip(positions, frames, strict=True):
        where = _element(
            _CUE_TRACK_POSITIONS,
            _number(_CUE_TRACK, 1),
            _number(_CUE_CLUSTER_POSITION, position),
        )
        points.append(_element(_CUE_POINT, _number(_CUE_TIME, at_ms), where))
    return _element(_CUES, *points)


def _number(name: int, value: int) -> bytes:
    return _element(name, struct.pack(">Q", value))


def _element(name: int, *pieces: bytes) -> bytes:
    """Return an element of EBML: its name, its length in 8 bytes, and its content."""
    length = sum(map(len, pieces))
    name_bytes = name.to_bytes((name.bit_length() + 7) // 8, "big")
    return b"".join([name_bytes, struct.pack(">Q", 1 << 56 | length), *pieces])
