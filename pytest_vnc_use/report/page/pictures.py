"""The comparison of two screens: which pixels changed, in which boxes, and a picture that covers them.

Pages are opened from files, where a browser lets no script read pixels. So it is done here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO

import numpy as np
from PIL import Image

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.report.page.model import Box
from pytest_vnc_use.report.page.png_pixels import Mask, Pixels, read_pixels, size_of
from pytest_vnc_use.runs.folder import RunFolder
from pytest_vnc_use.types import FrameRef, Region

MOST_PIXELS = 40_000_000
"""Larger pictures are not opened: a small file may claim a size that fills the memory."""
THUMB = (192, 120)
_LEVELS = 2
"""A difference of up to so many of 255 levels is none, as for a recording's gates."""
_TILE = 16
_NEAR = [(down, right) for down in (-1, 0, 1) for right in (-2, -1, 0, 1, 2) if (down, right) != (0, 0)]
_COLOUR, _COVER, _THIN_COVER = (230, 0, 126), 120, 36
_MUCH = 0.05
"""A larger part of the screen that changed is covered thinly: what is there now must stay readable."""


@dataclass(frozen=True)
class Comparison:
    """The boxes around changed pixels, the largest first, the shading as PNG, and a name that equal changes share."""

    pixels: int
    boxes: tuple[Box, ...]
    shade: bytes
    name: str


class Screens:
    """The screens of one run folder, opened with care: the folder may be damaged, or come from anybody."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self.pixels = lru_cache(maxsize=4)(self._decode)
        self.compare = lru_cache(maxsize=8)(self._compare)

    def png(self, ref: FrameRef) -> bytes:
        """Return the picture of a frame. Raises RunFolderError if it is missing, damaged or of another size."""
        png = self._folder.load_png(ref)
        width, height = size_of(png)
        if (width, height) != (ref.width, ref.height):
            raise RunFolderError(f"the picture must be {ref.width}×{ref.height} pixels, got {width}×{height}")
        if width * height == 0:
            raise RunFolderError(f"the picture has no pixels: it is {width}×{height}")
        if width * height > MOST_PIXELS:
            raise RunFolderError(f"the picture has {width}×{height} pixels, too many to open")
        return png

    def _decode(self, ref: FrameRef) -> Pixels:
        return read_pixels(self.png(ref))

    def thumb(self, ref: FrameRef) -> tuple[bytes, int, int]:
        """Return a small picture of a frame as WebP, with its width and height. Raises RunFolderError."""
        pixels = self.pixels(ref)
        step = max(pixels.shape[1] // (2 * THUMB[0]), 1)
        nearer = np.ascontiguousarray(pixels[::step, ::step])
        image = Image.fromarray(nearer.view(np.uint8).reshape(*nearer.shape, 4)[..., :3])
        image.thumbnail(THUMB)
        content = BytesIO()
        image.save(content, "WEBP", quality=80, method=0)
        return content.getvalue(), *image.size

    def _compare(self, left: FrameRef, right: FrameRef, region: Region | None = None) -> Comparison | None:
        """Return what differs, within `region` if one is given; None for screens of different sizes.

        Raises RunFolderError.
        """
        before, after = self.pixels(left), self.pixels(right)
        if before.shape != after.shape:
            return None
        change = _change(before, after, region)
        boxes = change.boxes()
        name = hashlib.sha256(b"".join(change.patches(before, after, boxes))).hexdigest() if region and boxes else ""
        return Comparison(int(np.count_nonzero(change.differs)), boxes, change.shade() if boxes else b"", name)


@dataclass(frozen=True)
class _Change:
    """The pixels that differ, in the part of the screen that begins at `left`, `top`; the screen's height and width."""

    differs: Mask
    left: int
    top: int
    shape: tuple[int, int]

    def boxes(self) -> tuple[Box, ...]:
        """Return boxes around changed pixels that lie near each other, the one with the most changed pixels first."""
        tiles = np.pad(self._tiles(), ((0, 0), (2, 2)))  # so that no neighbour is at the other end of a row
        left, width = set(np.flatnonzero(tiles).tolist()), tiles.shape[1]
        near = [down * width + right for down, right in _NEAR]
        found: list[tuple[int, Box]] = []
        while left:
            group = _group(left, near)
            rows, columns = np.divmod(group, width)
            top, start = int(rows.min()) * _TILE, int(columns.min() - 2) * _TILE
            part = self.differs[top : (rows.max() + 1) * _TILE, start : (columns.max() - 1) * _TILE]
            ys, xs = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
            place = self.left + start + int(xs[0]), self.top + top + int(ys[0])
            size = int(xs[-1] - xs[0]) + 1, int(ys[-1] - ys[0]) + 1
            found.append((int(np.count_nonzero(part)), Box(*place, *size)))
        return tuple(box for _, box in sorted(found, key=lambda each: -each[0]))

    def _tiles(self) -> Mask:
        if not self.differs.size:
            return self.differs
        rows, columns = (np.arange(0, side, _TILE) for side in self.differs.shape)
        counts = np.add.reduceat(self.differs.view(np.uint8), rows, axis=0, dtype=np.uint32)
        tiles: Mask = np.add.reduceat(counts, columns, axis=1) > 0
        return tiles

    def patches(self, before: Pixels, after: Pixels, boxes: tuple[Box, ...]) -> Iterator[bytes]:
        """Yield what a name is made of: the boxes, and the changed pixels in both screens."""
        yield str([*map(str, boxes)]).encode()
        height, width = self.differs.shape
        for pixels in (before, after):
            yield pixels[self.top : self.top + height, self.left : self.left + width][self.differs].tobytes()

    def shade(self) -> bytes:
        """Return a picture of the screen's size, clear but for the changed pixels, as PNG."""
        covered = np.zeros(self.shape, np.uint8)
        height, width = self.differs.shape
        covered[self.top : self.top + height, self.left : self.left + width] = self.differs
        image = Image.frombytes("P", self.shape[::-1], covered.tobytes())
        image.putpalette([0, 0, 0, *_COLOUR])
        cover = _COVER if np.count_nonzero(covered) < _MUCH * covered.size else _THIN_COVER
        png = BytesIO()
        image.save(png, "PNG", bits=1, compress_level=6, transparency=bytes([0, cover]))
        return png.getvalue()


def _change(before: Pixels, after: Pixels, region: Region | None) -> _Change:
    """Return the pixels that differ by more than `_LEVELS`, within the region if one is given."""
    height, width = before.shape
    limits = (0, height, 0, width) if region is None else (region.top, region.bottom, region.left, region.right)
    top, bottom, left, right = (max(each, 0) for each in limits)
    differs = before[top:bottom, left:right] != after[top:bottom, left:right]
    ys, xs = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
    if not ys.size:
        return _Change(np.zeros((0, 0), np.bool_), 0, 0, (height, width))
    differs = np.ascontiguousarray(differs[ys[0] : ys[-1] + 1, xs[0] : xs[-1] + 1])
    top, left = top + int(ys[0]), left + int(xs[0])
    within = np.s_[top : top + differs.shape[0], left : left + differs.shape[1]]
    # only what differs at all is looked at closely: on most steps that is a small part of the screen
    one, other = (pixels[within][differs].view(np.uint8) for pixels in (before, after))
    levels = np.maximum(one, other) - np.minimum(one, other)
    differs[differs] = (levels > _LEVELS).view(np.uint32) != 0
    return _Change(differs, left, top, (height, width))


def _group(left: set[int], near: Sequence[int]) -> list[int]:
    """Take a tile and all that are near it, or near one of these, out of `left`."""
    group = [left.pop()]
    for tile in group:  # it grows as it is read
        found = left.intersection([tile + each for each in near])
        left -= found
        group += found
    return group


def around(boxes: tuple[Box, ...], size: tuple[int, int]) -> Box | None:
    """Return the part of a screen to look at, with some room around the boxes; None if there are none."""
    if not boxes:
        return None
    left, top = min(box.x for box in boxes), min(box.y for box in boxes)
    right, bottom = max(box.x + box.width for box in boxes), max(box.y + box.height for box in boxes)
    width, height = min(max(right - left + 60, 360), size[0]), min(max(bottom - top + 60, 200), size[1])
    x = min(max((left + right - width) // 2, 0), size[0] - width)
    y = min(max((top + bottom - height) // 2, 0), size[1] - height)
    return Box(x, y, width, height)
