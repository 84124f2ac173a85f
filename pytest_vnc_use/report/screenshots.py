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
from functools import lru_cache, partial, reduce
from io import BytesIO
from pathlib import Path
from typing import Literal

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
_MIN_VIEW = (360, 200)
"""The smallest width and height of a region that is enlarged."""
_ROOM_PX = 60
"""How much wider and higher such a region is than what it shows."""
_COLOUR = (230, 0, 126)
_ALPHA = 120
_THIN_ALPHA = 36
_MUCH = 0.05
"""Above this share of the screen, changes are shaded thinly, so that the screen stays
readable.
"""


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
    boxes: Sequence[Region] = ()
    note: str = ""
    zooms: Sequence[Region] = ()
    mark: str = ""
    regions: Sequence[Region] = ()
    name: str = ""

    @property
    def is_single(self) -> bool:
        """Whether both sides are the same screenshot."""
        return self.left == self.right

    @property
    def whole(self) -> Region:
        """The area of the larger screenshot."""
        width = max(self.left.width, self.right.width, 1)
        height = max(self.left.height, self.right.height, 1)
        return Region(0, 0, width, height)


@dataclass(frozen=True)
class Comparison:
    """The boxes around changed pixels, the largest change first, the shading as PNG,
    and a name of the difference.
    """

    pixels: int
    boxes: tuple[Region, ...]
    shade: bytes
    name: str


_NO_DIFFERENCE = Comparison(0, (), b"", "")


def _compare(
    before: Image.Image,
    after: Image.Image,
    region: Region | None,
    known: Sequence[Region],
) -> Comparison:
    """Return the pixels that differ by more than `_LEVELS`, within the region if there
    is one, and there within the `known` boxes around them if there are any.
    """
    if region:
        compared = _within(region, before.size)
        if not compared.area:
            return _NO_DIFFERENCE
        corners = (compared.left, compared.top, compared.right, compared.bottom)
        difference = ImageChops.difference(before.crop(corners), after.crop(corners))
    else:
        compared = Region(0, 0, *before.size)
        difference = ImageChops.difference(before, after)
    inner = difference.getbbox()
    if inner is None:
        return _NO_DIFFERENCE
    is_far = np.asarray(difference.crop(inner)) > _LEVELS
    # `any` takes five times as long
    differs = is_far[..., 0] | is_far[..., 1] | is_far[..., 2]
    # where on the screen the array `differs` is
    area = Region(*inner).moved(compared.left, compared.top)
    if known:
        inside = np.zeros(before.size[::-1], np.bool_)
        for box in known:
            box.part_of(inside)[:] = True
        differs &= area.part_of(inside)
        boxes = tuple(known)
    else:
        boxes = tuple(box.moved(area.left, area.top) for box in _boxes(differs))
    if not boxes:
        return _NO_DIFFERENCE
    name = ""
    if region:
        digest = hashlib.sha256("".join(map(str, boxes)).encode())
        for image in (before, after):
            digest.update(area.part_of(np.asarray(image))[differs].tobytes())
        name = digest.hexdigest()
    shade = _shade(differs, area, before.size)
    return Comparison(int(np.count_nonzero(differs)), boxes, shade, name)


def _boxes(differs: Mask) -> list[Region]:
    """Return boxes around changed pixels that are near each other, the one with the
    most changed pixels first.
    """
    rows = [
        differs[row : row + _TILE].any(axis=0) for row in range(0, len(differs), _TILE)
    ]
    tiles: Mask = np.logical_or.reduceat(
        np.array(rows), np.arange(0, differs.shape[1], _TILE), axis=1
    )
    boxes: list[Region] = []
    for group in boxes_of(tiles, (_NEAR, _NEAR)):
        left = group.left * _TILE
        top = group.top * _TILE
        changed = differs[top : group.bottom * _TILE, left : group.right * _TILE]
        boxes.append(box_of(changed).moved(left, top))
    boxes.sort(key=lambda box: np.count_nonzero(box.part_of(differs)), reverse=True)
    return boxes


def _within(region: Region, size: tuple[int, int]) -> Region:
    """Return the part of a region that is on a screen of this size; it may be empty."""
    left = min(max(region.left, 0), size[0])
    top = min(max(region.top, 0), size[1])
    right = min(max(region.right, left), size[0])
    bottom = min(max(region.bottom, top), size[1])
    return Region(left, top, right, bottom)


def _at_least_a_pixel(region: Region) -> Region:
    right = max(region.right, region.left + 1)
    bottom = max(region.bottom, region.top + 1)
    return Region(region.left, region.top, right, bottom)


def _shade(differs: Mask, area: Region, size: tuple[int, int]) -> bytes:
    """Return a PNG of the screen's size, clear but for the changed pixels in an
    area.
    """
    is_much = np.count_nonzero(differs) >= _MUCH * size[0] * size[1]
    alpha = bytes([0, _THIN_ALPHA if is_much else _ALPHA])
    image = Image.new("P", size)
    image.paste(1, (area.left, area.top), Image.fromarray(differs))
    image.putpalette([0, 0, 0, *_COLOUR])
    png = BytesIO()
    image.save(png, "PNG", bits=1, compress_level=4, transparency=alpha)
    return png.getvalue()


def _view_of(box: Region, size: tuple[int, int]) -> Region:
    """Return the region of a screen to show around a box, with some room."""
    width = min(max(box.width + _ROOM_PX, _MIN_VIEW[0]), size[0])
    height = min(max(box.height + _ROOM_PX, _MIN_VIEW[1]), size[1])
    left = min(max((box.left + box.right - width) // 2, 0), size[0] - width)
    top = min(max((box.top + box.bottom - height) // 2, 0), size[1] - height)
    return Region(left, top, left + width, top + height)


def _views_of(boxes: Sequence[Region], size: tuple[int, int]) -> list[Region]:
    """Return the regions of a screen to show: one for all boxes, or, where they are far
    apart, one for each group.
    """
    view = _view_of(reduce(Region.joined, boxes), size)
    filled = sum(box.area for box in boxes)
    if filled * 12 > view.area or view.area < _MAX_PIXELS_BESIDE:
        return [view]
    views: list[Region] = []
    for box in boxes:
        if not box.is_part_of_any(views):
            views.append(_view_of(box, size))
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
        self._run = run
        self._missing = missing
        self._compares = compares
        self._copy = copy
        self._is_lossy = is_lossy
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
        before = self.image(left)
        after = self.image(right)
        if before.size != after.size:
            return None
        return _compare(before, after, region, boxes)

    def shot(self, ref: FrameRef, about: str) -> Shot:
        """Return a frame, or why there is none."""
        if ref not in self._shots:
            try:
                self._shots[ref] = Shot("", self._address(ref), ref.width, ref.height)
            except RunDirectoryError as exc:
                reason = f"no screenshot: {without_parent_path(exc, self._run)}"
                self._shots[ref] = Shot("", problem=self._missing or reason)
        return replace(self._shots[ref], about=about)

    def _address(self, ref: FrameRef) -> str:
        """Return the address of a frame, and add it where it is copied. A lossy copy is
        readable.
        """
        png = self.png(ref)
        address = f"screens/{ref.digest}.png"
        if not self._copy:
            return address
        if max(ref.width, ref.height) > MAX_WEBP_SIDE:
            self.added[address] = png
            return address
        content = BytesIO()
        image = self.image(ref)
        if self._is_lossy:
            image.save(content, "WEBP", quality=20, method=2)
        else:
            image.save(content, "WEBP", lossless=True, method=4)
        address = f"screens/{ref.digest[:20]}.webp"
        self.added[address] = content.getvalue()
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
        left = self.shot(refs[0], f"the screen {names[0]}")
        right = self.shot(refs[1], f"the screen {names[1]}")
        size = (right.width, right.height)
        pair = Pair(left, right, *names)
        if action is not None and not left.problem:
            pair = replace(pair, mark=action_path(action, (left.width, left.height)))
        if judged is not None and not right.problem:
            named = _at_least_a_pixel(_within(judged, size))
            return replace(pair, regions=[named], zooms=[_view_of(named, size)])
        is_same = names[0] == names[1] and refs[0] == refs[1]
        if compares is None:
            compares = self._compares
        if left.problem or right.problem or is_same or not compares:
            return pair
        try:
            comparison = self.compare(*refs, region, boxes)
        except RunDirectoryError as exc:
            return replace(pair, note=f"not compared: {exc}")
        if comparison is None:
            note = "not compared: the screens have different sizes, "
            note += f"{left.width}×{left.height} and {right.width}×{right.height}"
            return replace(pair, note=note)
        if not comparison.boxes:
            return replace(pair, note="" if region else "no pixel changed")
        address = f"{ADDED}/{hashlib.sha256(comparison.shade).hexdigest()[:20]}.png"
        self.added[address] = comparison.shade
        count = len(comparison.boxes)
        places = "one region" if count == 1 else f"{count} regions"
        note = f"{comparison.pixels:,} pixels differ, in {places}"
        zooms = _views_of(comparison.boxes, size)
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
        screen = shots.image(drift.seen).convert("RGBA")
        shade = Image.open(BytesIO(comparison.shade)).convert("RGBA")
        Image.alpha_composite(screen, shade).convert("RGB").save(content, "PNG")
        images["diff"] = content.getvalue()
    return json.dumps({name: data_uri(png) for name, png in images.items()})
