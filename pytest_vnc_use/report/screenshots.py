"""The screenshots of a run as a report shows them: their addresses, and what differs
between two of them.

They are compared in Python, because a browser lets no script of a page from a file read
pixels. They are checked when opened, because a run directory may be damaged, or come
from any source.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from io import BytesIO
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from PIL import Image, ImageChops

from pytest_vnc_use.backends.pixels import Mask, box_of, boxes_of
from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.report.annotate import action_path, open_png, size_of
from pytest_vnc_use.report.phrases import without_parent_path
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.types import Action, Drift, FrameRef, Region

ADDED = "page"
"""The directory within a run directory for the images that the page adds."""
DIFF_MIME = "application/vnd.allure.image.diff"
Compare = Literal["all", "failed", "deciding"]
"""What is compared: every step, those of tests that failed, or only what decided a test
that failed.
"""
MAX_WEBP_SIDE = 16383
MAX_REGIONS = 6
"""The maximum number of regions of one difference that are enlarged."""
_MAX_PIXELS_BESIDE = 200_000
"""Boxes in an area of at most this many pixels are enlarged together."""
_MAX_BOXES = 100
_LEVELS = 2
"""The largest difference, of 255 levels, that is ignored, as by a recording's gates."""
_TILE = 16
_NEAR = 2
"""The maximum number of tiles without a difference between two that belong together."""
_COLOUR, _ALPHA, _THIN_ALPHA = (230, 0, 126), 120, 36
_MUCH = 0.05
"""Above this share of the screen, changes are shaded thinly, so that the screen stays
readable.
"""


class Box(NamedTuple):
    """A rectangle of a screen in pixels."""

    x: int
    y: int
    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.x} {self.y} {self.width} {self.height}"


@dataclass(frozen=True)
class Shot:
    """A screenshot: its address and its size in pixels, or why there is none. `about`
    is for a screen reader.
    """

    about: str
    address: str = ""
    width: int = 0
    height: int = 0
    problem: str = ""


@dataclass(frozen=True)
class Pair:
    """Two screenshots to compare.

    `shade` covers the changed pixels, `boxes` are around them. `note` states why there
    is no comparison, or that nothing changed. `zooms` are the regions to enlarge, each
    with a difference. `mark` is the action's point or path, as the data of an SVG path;
    `regions` are those that a judge named. Equal differences have the same `name`.
    """

    left: Shot
    right: Shot
    left_name: str
    right_name: str
    shade: Shot | None = None
    boxes: Sequence[Box] = ()
    note: str = ""
    zooms: Sequence[Box] = ()
    mark: str = ""
    regions: Sequence[Box] = ()
    name: str = ""

    @property
    def is_single(self) -> bool:
        """Whether both sides are the same screenshot."""
        return self.left == self.right

    @property
    def whole(self) -> Box:
        """The area of the larger screenshot."""
        return Box(
            0,
            0,
            max(self.left.width, self.right.width, 1),
            max(self.left.height, self.right.height, 1),
        )


@dataclass(frozen=True)
class Comparison:
    """The boxes around changed pixels, the largest change first, the shading as PNG,
    and a name of the difference.
    """

    pixels: int
    boxes: tuple[Box, ...]
    shade: bytes
    name: str


def _compare(
    before: Image.Image,
    after: Image.Image,
    region: Region | None,
    known: Sequence[Region],
) -> Comparison:
    """Return the pixels that differ by more than `_LEVELS`, within the region if there
    is one, and there within the `known` boxes around them if there are any.
    """
    width, height = before.size
    bounds = (0, 0, width, height)
    if region:
        bounds = (
            max(region.left, 0),
            max(region.top, 0),
            min(region.right, width),
            min(region.bottom, height),
        )
    if bounds[0] >= bounds[2] or bounds[1] >= bounds[3]:
        return Comparison(0, (), b"", "")
    old, new = (before.crop(bounds), after.crop(bounds)) if region else (before, after)
    difference = ImageChops.difference(old, new)
    if (inner := difference.getbbox()) is None:
        return Comparison(0, (), b"", "")
    left, top = bounds[0] + inner[0], bounds[1] + inner[1]
    is_far = np.asarray(difference.crop(inner)) > _LEVELS
    # `any` takes five times as long
    differs = is_far[..., 0] | is_far[..., 1] | is_far[..., 2]
    if known:
        inside = np.zeros(before.size[::-1], np.bool_)
        for box in known:
            box.part_of(inside)[:] = True
        differs &= inside[top:, left:][: len(differs), : differs.shape[1]]
        boxes = tuple(map(_box_of, known))
    else:
        boxes = tuple(_boxes(differs, left, top))
    name = ""
    if region and boxes:
        crops = [
            np.asarray(image)[top:, left:][: len(differs), : differs.shape[1]]
            for image in (before, after)
        ]
        pixels = b"".join(crop[differs].tobytes() for crop in crops)
        name = hashlib.sha256("".join(map(str, boxes)).encode() + pixels).hexdigest()
    shade = _shade(differs, (left, top), before.size) if boxes else b""
    return Comparison(int(np.count_nonzero(differs)), boxes, shade, name)


def _boxes(differs: Mask, left: int, top: int) -> list[Box]:
    """Return boxes around changed pixels that are near each other, the one with the
    most changed pixels first.
    """
    rows = [
        differs[row : row + _TILE].any(axis=0) for row in range(0, len(differs), _TILE)
    ]
    tiles: Mask = np.logical_or.reduceat(
        np.array(rows), np.arange(0, differs.shape[1], _TILE), axis=1
    )
    counted_boxes = []
    for group in boxes_of(tiles, (_NEAR, _NEAR)):
        across, down = group.left * _TILE, group.top * _TILE
        changed = differs[down : group.bottom * _TILE, across : group.right * _TILE]
        box = box_of(changed)
        at = left + across + box.left, top + down + box.top
        counted_boxes.append(
            (
                int(np.count_nonzero(changed)),
                Box(*at, box.width, box.height),
            )
        )
    return [box for _, box in sorted(counted_boxes, key=lambda counted: -counted[0])]


def _box_of(region: Region) -> Box:
    left, top = region.left, region.top
    return Box(left, top, region.right - left, region.bottom - top)


def _shade(differs: Mask, at: tuple[int, int], size: tuple[int, int]) -> bytes:
    """Return a PNG of the screen's size, clear but for the changed pixels."""
    is_much = np.count_nonzero(differs) >= _MUCH * size[0] * size[1]
    image = Image.new("P", size)
    image.paste(1, at, Image.fromarray(differs))
    image.putpalette([0, 0, 0, *_COLOUR])
    png = BytesIO()
    image.save(
        png,
        "PNG",
        bits=1,
        compress_level=4,
        transparency=bytes([0, _THIN_ALPHA if is_much else _ALPHA]),
    )
    return png.getvalue()


def around(
    boxes: Sequence[Box], size: tuple[int, int], min_size: tuple[int, int] = (360, 200)
) -> Box:
    """Return the region of a screen around these boxes, at least one, with some room,
    and of at least this size.
    """
    left, top = min(box.x for box in boxes), min(box.y for box in boxes)
    right, bottom = (
        max(box.x + box.width for box in boxes),
        max(box.y + box.height for box in boxes),
    )
    width, height = (
        min(max(length + 60, short), long)
        for length, short, long in zip(
            (right - left, bottom - top), min_size, size, strict=True
        )
    )
    x = min(max((left + right - width) // 2, 0), size[0] - width)
    y = min(max((top + bottom - height) // 2, 0), size[1] - height)
    return Box(x, y, width, height)


def regions_to_enlarge(boxes: Sequence[Box], size: tuple[int, int]) -> list[Box]:
    """Return the regions of a screen to show: one for all boxes, or, where they are far
    apart, one for each group.
    """
    view = around(boxes, size)
    filled = sum(box.width * box.height for box in boxes)
    if (
        filled * 12 > view.width * view.height
        or view.width * view.height < _MAX_PIXELS_BESIDE
    ):
        return [view]
    views: list[Box] = []
    for box in boxes:
        if not any(
            view.x <= box.x
            and box.x + box.width <= view.x + view.width
            and view.y <= box.y
            and box.y + box.height <= view.y + view.height
            for view in views
        ):
            views.append(around((box,), size))
    return views[:MAX_REGIONS]


class Shots:
    """The screenshots that a report shows of one run, the latest of them in memory.

    `added` are the images that it adds, by address. `missing` is the reason that a run
    directory gives for having no screenshots. With `copy` the frames are added too, as
    WebP; else the report links to them. `is_lossy` is for these.
    """

    def __init__(
        self,
        run: Path,
        missing: str = "",
        *,
        compares: bool = True,
        copy: bool = False,
        is_lossy: bool = False,
    ) -> None:
        self._run, self._missing, self._compares = run, missing, compares
        self._copy, self._is_lossy = copy, is_lossy
        # no caches of methods: they would refer to this object, and keep its images
        # until the garbage collector runs
        self.png = lru_cache(maxsize=4)(partial(_load_png, RunDirectory(run)))
        self.image = lru_cache(maxsize=4)(partial(_image, self.png))
        self._shots: dict[FrameRef, Shot] = {}
        self.added: dict[str, bytes] = {}

    def compare(
        self,
        left: FrameRef,
        right: FrameRef,
        region: Region | None = None,
        boxes: Sequence[Region] = (),
    ) -> Comparison | None:
        """Return what differs, within `region` if one is given, and there in the
        `boxes` if they are known; None for screens of different sizes.

        Raises RunDirectoryError.
        """
        before, after = self.image(left), self.image(right)
        if before.size != after.size:
            return None
        return _compare(before, after, region, boxes)

    def shot(self, ref: FrameRef, about: str) -> Shot:
        """Return a frame, or why there is none."""
        if ref not in self._shots:
            try:
                self._shots[ref] = Shot("", self._address(ref), ref.width, ref.height)
            except RunDirectoryError as exc:
                problem = (
                    self._missing
                    or f"no screenshot: {without_parent_path(exc, self._run)}"
                )
                self._shots[ref] = Shot("", problem=problem)
        return replace(self._shots[ref], about=about)

    def _address(self, ref: FrameRef) -> str:
        """Return the address of a frame, and add it where it is copied. A lossy copy is
        readable.
        """
        png = self.png(ref)
        if not self._copy:
            return f"screens/{ref.digest}.png"
        if max(ref.width, ref.height) > MAX_WEBP_SIDE:
            self.added[address := f"screens/{ref.digest}.png"] = png
            return address
        content = BytesIO()
        options = (
            {"quality": 20, "method": 2}
            if self._is_lossy
            else {"lossless": True, "method": 4}
        )
        self.image(ref).save(content, "WEBP", **options)
        self.added[address := f"screens/{ref.digest[:20]}.webp"] = content.getvalue()
        return address

    def pair(
        self,
        names: tuple[str, str],
        refs: tuple[FrameRef, FrameRef],
        *,
        region: Region | None = None,
        boxes: Sequence[Region] = (),
        judged: Region | None = None,
        action: Action | None = None,
        compares: bool | None = None,
    ) -> Pair:
        """Return two frames and what differs between them, within `region` if one is
        given, and there in the `boxes` if they are known.

        `judged` is the region of the right frame that a judge named: then nothing is
        compared, because that matters. `action` is drawn on the left one.
        """
        left, right = (
            self.shot(ref, f"the screen {name}")
            for ref, name in zip(refs, names, strict=True)
        )
        pair, size = Pair(left, right, *names), (right.width, right.height)
        if action is not None and not left.problem:
            pair = replace(pair, mark=action_path(action, (left.width, left.height)))
        if judged is not None and not right.problem:
            x, x_end = (
                min(max(side, 0), size[0]) for side in (judged.left, judged.right)
            )
            y, y_end = (
                min(max(side, 0), size[1]) for side in (judged.top, judged.bottom)
            )
            named = Box(x, y, max(x_end - x, 1), max(y_end - y, 1))
            return replace(pair, regions=[named], zooms=[around((named,), size)])
        if (
            left.problem
            or right.problem
            or (names[0] == names[1] and refs[0] == refs[1])
        ):
            return pair
        if not (self._compares if compares is None else compares):
            return pair
        try:
            comparison = self.compare(*refs, region, boxes)
        except RunDirectoryError as exc:
            return replace(pair, note=f"not compared: {exc}")
        if comparison is None:
            sizes = f"{left.width}×{left.height} and {right.width}×{right.height}"
            return replace(
                pair, note=f"not compared: the screens have different sizes, {sizes}"
            )
        if not comparison.boxes:
            return replace(pair, note="" if region else "no pixel changed")
        address = f"{ADDED}/{hashlib.sha256(comparison.shade).hexdigest()[:20]}.png"
        self.added[address] = comparison.shade
        count, zooms = len(comparison.boxes), regions_to_enlarge(comparison.boxes, size)
        note = (
            f"{comparison.pixels:,} pixels differ, in"
            f" {'one region' if count == 1 else f'{count} regions'}"
        )
        if len(zooms) == MAX_REGIONS:
            note += "; not all of them may be enlarged"
        return replace(
            pair,
            shade=Shot("", address, *size),
            boxes=comparison.boxes[:_MAX_BOXES],
            note=note,
            zooms=zooms,
            name=comparison.name,
        )


def _load_png(directory: RunDirectory, ref: FrameRef) -> bytes:
    """Return the PNG of a frame. Raises RunDirectoryError if it is missing, damaged or
    of another size.
    """
    png = directory.load_png(ref)
    width, height = size_of(png)
    if (width, height) != (ref.width, ref.height):
        raise RunDirectoryError(
            f"the screenshot must be {ref.width}×{ref.height} pixels, got"
            f" {width}×{height}"
        )
    if width * height == 0:
        raise RunDirectoryError(f"the screenshot has no pixels: it is {width}×{height}")
    return png


def _image(load: Callable[[FrameRef], bytes], ref: FrameRef) -> Image.Image:
    image = open_png(load(ref))
    # through RGBA, as Pillow warns of other conversions for some kinds of images
    return image if image.mode == "RGB" else image.convert("RGBA").convert("RGB")


def data_uri(content: bytes, kind: str = "image/png") -> str:
    """Return a file as a data URL, for a report in one file."""
    return f"data:{kind};base64,{b64encode(content).decode('ascii')}"


def image_diff(run: Path, drift: Drift) -> str:
    """Return a drift as Allure's JSON of three images: recorded, seen, and the
    difference. Raises RunDirectoryError.
    """
    shots = Shots(run)
    images = {"expected": shots.png(drift.recorded), "actual": shots.png(drift.seen)}
    comparison = shots.compare(drift.recorded, drift.seen, drift.region, drift.boxes)
    if comparison and comparison.shade:
        content = BytesIO()
        screen, shade = (
            shots.image(drift.seen).convert("RGBA"),
            Image.open(BytesIO(comparison.shade)).convert("RGBA"),
        )
        Image.alpha_composite(screen, shade).convert("RGB").save(content, "PNG")
        images["diff"] = content.getvalue()
    return json.dumps({name: data_uri(png) for name, png in images.items()})
