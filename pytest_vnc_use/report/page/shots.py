"""The pictures of a run's page: addresses relative to the run folder, and the comparison of two of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.report.annotate import action_path
from pytest_vnc_use.report.page.model import Box, Pair, Shot
from pytest_vnc_use.report.page.packed import LONGEST, PackedScreens
from pytest_vnc_use.report.page.pictures import Comparison, Screens, around
from pytest_vnc_use.report.page.text import without_place
from pytest_vnc_use.runs.folder import RunFolder
from pytest_vnc_use.types import Action, FrameRef, Region

MADE = "page"
"""The folder within a run folder for the pictures that the page adds."""

QUICK = "what changed is not marked here, as the test passed: `cua-vnc report` marks it"


class Shots:
    """The pictures that a page shows of one run.

    `made` are the pictures that it adds, by address. `missing` says why a run folder has no pictures at all, if it says
    so itself. With `quick` nothing is compared. With `pack` the frames are added too (see packed.py); else the page
    links to them.
    """

    def __init__(self, run_folder: Path, missing: str = "", *, quick: bool = False, pack: bool = False) -> None:
        self._quick = quick
        self._screens = Screens(RunFolder(run_folder), pack=pack)
        self._missing = missing
        self._folder = run_folder
        self._shots: dict[FrameRef, Shot] = {}
        self.made: dict[str, bytes] = {}
        self._packed = PackedScreens(self.made) if pack else None

    def shot(self, ref: FrameRef, about: str) -> Shot:
        """Return the picture of a frame, or why there is none."""
        if ref not in self._shots:
            self._shots[ref] = self._shot(ref)
        return replace(self._shots[ref], about=about)

    def _shot(self, ref: FrameRef) -> Shot:
        try:
            if self._packed and max(ref.width, ref.height) <= LONGEST:
                return self._packed.add(ref, self._screens.pixels(ref))
            png = self._screens.png(ref)
        except RunFolderError as exc:
            return Shot("", problem=self._missing or f"no picture: {without_place(exc, self._folder)}")
        address = self._keep(png, "png") if self._packed else f"screens/{ref.digest}.png"
        return Shot("", address, ref.width, ref.height)

    def crop(self, ref: FrameRef) -> Shot | None:
        """Return the picture of a step's place as it is; None if there is none."""
        try:
            png = self._screens.png(ref)
        except RunFolderError:
            return None
        address = self._keep(png, "png") if self._packed else f"screens/{ref.digest}.png"
        return Shot("the place of the step", address, ref.width, ref.height)

    def thumb(self, ref: FrameRef) -> Shot:
        """Return a small picture of a frame, or a note that there is none."""
        if self._quick:
            return self.shot(ref, "")
        try:
            content, width, height = self._screens.thumb(ref)
        except RunFolderError:
            return Shot("", problem="no picture")
        return Shot("", self._keep(content, "webp"), width, height)

    def pair(
        self,
        names: tuple[str, str],
        refs: tuple[FrameRef, FrameRef],
        *,
        region: Region | None = None,
        judged: Region | None = None,
        action: Action | None = None,
    ) -> Pair:
        """Return two frames and what differs between them, within `region` if one is given.

        `judged` is the part of the right frame that a judge named: then nothing is compared, because that part matters.
        `action` is drawn on the left one.
        """
        left, right = (self.shot(ref, f"the screen {name}") for ref, name in zip(refs, names, strict=True))
        pair = Pair(left, right, *names)
        if action is not None and not left.problem:
            pair = replace(pair, mark=action_path(action, (left.width, left.height)))
        if judged is not None and not right.problem:
            named = _box(judged, (right.width, right.height))
            return replace(pair, regions=[named], zoom=around((named,), (right.width, right.height)))
        if left.problem or right.problem or (names[0] == names[1] and refs[0] == refs[1]):
            return pair
        if self._quick:
            return replace(pair, note="" if refs[0] == refs[1] else QUICK)
        try:
            compared = self._screens.compare(*refs, region)
        except RunFolderError as exc:
            return replace(pair, note=f"not compared: {exc}")
        return self._compare(pair, compared, refs[1], "" if region else "no pixel changed")

    def _compare(self, pair: Pair, compared: Comparison | None, ref: FrameRef, unchanged: str) -> Pair:
        if compared is None:
            sizes = f"{pair.left.width}×{pair.left.height} and {pair.right.width}×{pair.right.height}"
            return replace(pair, note=f"not compared: the screens have different sizes, {sizes}")
        if not compared.boxes:
            return replace(pair, note=unchanged)
        count = len(compared.boxes)
        note = f"{compared.pixels:,} pixels differ, in {'one place' if count == 1 else f'{count} places'}"
        zoom = pair.zoom or around(_nearby(compared.boxes), (ref.width, ref.height))
        boxes, shade = compared.boxes[:100], self._keep(compared.shade, compared.kind)
        return replace(pair, shade=shade, boxes=boxes, note=note, zoom=zoom, name=compared.name)

    def _keep(self, content: bytes, kind: str) -> str:
        address = f"{MADE}/{hashlib.sha256(content).hexdigest()[:20]}.{kind}"
        self.made[address] = content
        return address


def _box(region: Region, size: tuple[int, int]) -> Box:
    """Return the part of a region that is on the screen, at least a pixel."""
    left, right = (min(max(each, 0), size[0]) for each in (region.left, region.right))
    top, bottom = (min(max(each, 0), size[1]) for each in (region.top, region.bottom))
    return Box(left, top, max(right - left, 1), max(bottom - top, 1))


def _nearby(boxes: Sequence[Box]) -> tuple[Box, ...]:
    """Return the boxes that can be looked at together: all, or only the first if they are far apart."""
    left, top = min(box.x for box in boxes), min(box.y for box in boxes)
    width, height = max(box.x + box.width for box in boxes) - left, max(box.y + box.height for box in boxes) - top
    filled = sum(box.width * box.height for box in boxes)
    return tuple(boxes) if filled * 12 > width * height or width * height < 200_000 else (boxes[0],)
