"""The comparison of two screens: which pixels changed, in which boxes, and a picture that covers them.

It is done here, because a browser lets no script of a page from a file read pixels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from io import BytesIO

import numpy as np
from PIL import Image

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.report.page.model import Box
from pytest_vnc_use.report.page.packed import LONGEST, webp
from pytest_vnc_use.report.page.png_pixels import MOST_PIXELS, Mask, Pixels, any_of_tiles, read_pixels, size_of
from pytest_vnc_use.runs.folder import RunFolder
from pytest_vnc_use.types import FrameRef, Region

THUMB = (192, 120)
_LEVELS = 2
"""The largest difference, of 255 levels, that is ignored, as by a recording's gates."""
_TILE = 16
_NEAR = 2
"""The largest distance of columns at which changed tiles of one row, or of neighbouring rows, belong together."""
_COLOUR, _COVER, _THIN_COVER = (230, 0, 126), 120, 36
_MUCH = 0.05
"""Above this share of the screen, changes are shaded thinly, so that the screen stays readable."""


@dataclass(frozen=True)
class Comparison:
    """The boxes around changed pixels, the largest first, the shading, and a name that equal changes share.

    `kind` is that of the shading: png or webp.
    """

    pixels: int
    boxes: tuple[Box, ...]
    shade: bytes
    kind: str
    name: str


class Screens:
    """The screens of one run folder, opened with care, because the folder may be damaged or come from anybody.

    Shadings are PNG, which is made sooner, or, with `pack`, lossless WebP, which is smaller and has no very long side.
    """

    def __init__(self, folder: RunFolder, *, pack: bool = False) -> None:
        # no caches of methods: they would refer to this object, and keep its pictures until the garbage collector runs
        self.png = lru_cache(maxsize=4)(partial(_png, folder))
        self.pixels = lru_cache(maxsize=4)(partial(_pixels, self.png))
        self.compare = lru_cache(maxsize=8)(partial(_compare, self.pixels, pack))

    def thumb(self, ref: FrameRef) -> tuple[bytes, int, int]:
        """Return a small picture of a frame as WebP, with its width and height. Raises RunFolderError."""
        pixels = self.pixels(ref)
        step = max(pixels.shape[1] // (2 * THUMB[0]), 1)
        image = Image.fromarray(pixels[::step].take(np.arange(0, pixels.shape[1], step), axis=1))
        image.thumbnail(THUMB, Image.Resampling.BILINEAR)
        content = BytesIO()
        image.save(content, "WEBP", quality=80, method=2)
        return content.getvalue(), *image.size


def _png(folder: RunFolder, ref: FrameRef) -> bytes:
    """Return the picture of a frame. Raises RunFolderError if it is missing, damaged or of another size."""
    png = folder.load_png(ref)
    width, height = size_of(png)
    if (width, height) != (ref.width, ref.height):
        raise RunFolderError(f"the picture must be {ref.width}×{ref.height} pixels, got {width}×{height}")
    if width * height == 0:
        raise RunFolderError(f"the picture has no pixels: it is {width}×{height}")
    if width * height > MOST_PIXELS:
        raise RunFolderError(f"the picture has {width}×{height} pixels, too many to open")
    return png


def _pixels(png: Callable[[FrameRef], bytes], ref: FrameRef) -> Pixels:
    return read_pixels(png(ref))


def _compare(
    pixels: Callable[[FrameRef], Pixels], pack: bool, left: FrameRef, right: FrameRef, region: Region | None = None
) -> Comparison | None:
    """Return what differs, within `region` if one is given; None for screens of different sizes.

    Raises RunFolderError.
    """
    before, after = pixels(left), pixels(right)
    if before.shape != after.shape:
        return None
    change = _change(before, after, region)
    boxes = change.boxes()
    name = hashlib.sha256(b"".join(change.patches(before, after, boxes))).hexdigest() if region and boxes else ""
    kind = "webp" if pack and max(before.shape) <= LONGEST else "png"
    draw = change.shade_as_webp if kind == "webp" else change.shade_as_png
    return Comparison(int(np.count_nonzero(change.differs)), boxes, draw() if boxes else b"", kind, name)


@dataclass(frozen=True)
class _Change:
    """The pixels that differ, in the part of the screen that begins at `left`, `top`; the screen's height and width."""

    differs: Mask
    left: int
    top: int
    shape: tuple[int, int]

    def boxes(self) -> tuple[Box, ...]:
        """Return boxes around changed pixels that lie near each other, the one with the most changed pixels first."""
        found: list[tuple[int, Box]] = []
        for top, bottom, left, right in _groups(self._tiles()):
            part = self.differs[top * _TILE : (bottom + 1) * _TILE, left * _TILE : (right + 1) * _TILE]
            ys, xs = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
            place = self.left + left * _TILE + int(xs[0]), self.top + top * _TILE + int(ys[0])
            size = int(xs[-1] - xs[0]) + 1, int(ys[-1] - ys[0]) + 1
            found.append((int(np.count_nonzero(part)), Box(*place, *size)))
        return tuple(box for _, box in sorted(found, key=lambda each: -each[0]))

    def _tiles(self) -> Mask:
        if not self.differs.size:
            return self.differs
        return any_of_tiles(self.differs, _TILE, _TILE)

    def patches(self, before: Pixels, after: Pixels, boxes: tuple[Box, ...]) -> Iterator[bytes]:
        """Yield the parts of a difference's name: the boxes, and the changed pixels in both screens."""
        yield str([*map(str, boxes)]).encode()
        height, width = self.differs.shape
        for pixels in (before, after):
            yield pixels[self.top : self.top + height, self.left : self.left + width][self.differs].tobytes()

    def shade_as_png(self) -> bytes:
        """Return a picture of the screen's size, clear but for the changed pixels."""
        height, width = self.differs.shape
        covered = np.zeros(self.shape, np.uint8)
        covered[self.top : self.top + height, self.left : self.left + width] = self.differs
        image = Image.frombytes("P", self.shape[::-1], covered.tobytes())
        image.putpalette([0, 0, 0, *_COLOUR])
        png = BytesIO()
        image.save(png, "PNG", bits=1, compress_level=1, transparency=bytes([0, self._cover()]))
        return png.getvalue()

    def shade_as_webp(self) -> bytes:
        """Return the same as lossless WebP."""
        picture = Image.new("RGBA", self.shape[::-1])
        picture.paste((*_COLOUR, self._cover()), (self.left, self.top), Image.fromarray(self.differs))
        return webp(picture, method=1)

    def _cover(self) -> int:
        is_much = np.count_nonzero(self.differs) >= _MUCH * self.shape[0] * self.shape[1]
        return _THIN_COVER if is_much else _COVER


def _change(before: Pixels, after: Pixels, region: Region | None) -> _Change:
    """Return the pixels that differ by more than `_LEVELS`, within the region if one is given."""
    height, width = before.shape[:2]
    limits = (0, height, 0, width) if region is None else (region.top, region.bottom, region.left, region.right)
    top, bottom, left, right = (max(each, 0) for each in limits)
    differs = before[top:bottom, left:right] != after[top:bottom, left:right]
    ys = np.flatnonzero(differs.reshape(len(differs), -1).any(axis=1)) if differs.size else np.zeros(0, np.intp)
    if not ys.size:
        return _Change(np.zeros((0, 0), np.bool_), 0, 0, (height, width))
    xs = np.flatnonzero(differs[ys[0] : ys[-1] + 1].any(axis=0).any(axis=1))
    # only what differs at all is looked at closely: on most steps that is a small part of the screen
    part = np.s_[top + int(ys[0]) : top + int(ys[-1]) + 1, left + int(xs[0]) : left + int(xs[-1]) + 1]
    one, other = before[part], after[part]
    far = (np.maximum(one, other) - np.minimum(one, other)) > _LEVELS
    return _Change(far[..., 0] | far[..., 1] | far[..., 2], left + int(xs[0]), top + int(ys[0]), (height, width))


def _groups(tiles: Mask) -> list[tuple[int, int, int, int]]:
    """Return the top, bottom, left and right of each group of tiles that are near each other."""
    runs = [(row, *run) for row in range(len(tiles)) for run in _runs(tiles[row])]
    parents = list(range(len(runs)))

    def root(number: int) -> int:
        while parents[number] != number:
            parents[number] = number = parents[parents[number]]
        return number

    for number, (row, left, right) in enumerate(runs):
        for other in range(number - 1, -1, -1):
            above, first, last = runs[other]
            if above < row - 1:
                break
            if above < row and first - _NEAR <= right and left - _NEAR <= last:
                parents[root(other)] = root(number)
    groups: dict[int, list[tuple[int, int, int]]] = {}
    for number, run in enumerate(runs):
        groups.setdefault(root(number), []).append(run)
    return [
        (each[0][0], each[-1][0], min(left for _, left, _ in each), max(right for _, _, right in each))
        for each in groups.values()
    ]


def _runs(row: Mask) -> list[tuple[int, int]]:
    """Return the first and the last column of each run of tiles that are near each other."""
    columns = np.flatnonzero(row)
    ends = np.flatnonzero(np.diff(columns) > _NEAR)
    return (
        [*zip(columns[[0, *(ends + 1)]].tolist(), columns[[*ends, -1]].tolist(), strict=True)] if columns.size else []
    )


def around(boxes: tuple[Box, ...], size: tuple[int, int], least: tuple[int, int] = (360, 200)) -> Box:
    """Return the part of a screen to look at, with some room around the boxes, and `least` as far as the screen goes.

    There must be a box.
    """
    left, top = min(box.x for box in boxes), min(box.y for box in boxes)
    right, bottom = max(box.x + box.width for box in boxes), max(box.y + box.height for box in boxes)
    width, height = (
        min(max(length + 60, short), long)
        for length, short, long in zip((right - left, bottom - top), least, size, strict=True)
    )
    x = min(max((left + right - width) // 2, 0), size[0] - width)
    y = min(max((top + bottom - height) // 2, 0), size[1] - height)
    return Box(x, y, width, height)
