"""What moves on its own: a screen is recorded once it is stable but for carets, blinking regions, clocks and videos."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from pytest_vnc_use import clock
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.recordings.format import DynamicRegion, Screen, dynamic_region, merged
from pytest_vnc_use.recordings.images import Mask, Pixels, differing, pixels_in, pixels_of
from pytest_vnc_use.types import BAR_PX, CARET_PX, Frame, RawFrame, Region
from pytest_vnc_use.types.protocols import Controller

STABLE_S = 1.2
"""How long nothing may change, except parts that move on their own, before a screen is recorded."""
_GIVE_UP_S = 3.8
"""How much longer than that a screen is waited for that never becomes stable."""
_SAMPLES, _MORE_SAMPLES = 9, 11
_SAMPLE_S = 0.15
"""The time between two samples of the parts that move on their own.

The first samples cover both phases of a caret. More cover a part that blinks within 2 s.
"""
MAX_VARIANTS = 4
"""The most variants of a blinking part. With more it is a spinner or a video."""
_REACH_PX = 4
"""How far a moving part may extend beyond the tiles where it was seen to move."""
_CLEAR_PX = 16
"""The number of resting rows between a caret and anything else that moves, needed to tell them apart."""
_MIN_BAR_PX = 8


def stable_screen(controller: Controller, stable_s: float = STABLE_S) -> Screen:
    """Wait until the screen has been stable for so long; return it with its dynamic regions. Raises DesktopError.

    One that does not become stable is returned as it is, with `stable_s` 0.
    """
    deadline, is_stable = Deadline(stable_s + _GIVE_UP_S), False
    while not is_stable and deadline.remaining_s:
        controller.wait_changed(clock.monotonic(), _SAMPLE_S)
        is_stable = not controller.changed_since(clock.monotonic() - stable_s)
    frame = controller.frame()
    moving = Moving(frame)
    for samples in (_SAMPLES, _MORE_SAMPLES):  # what is more than a caret is watched until its variants come back
        for _ in range(0 if moving.is_known else samples):
            controller.wait_changed(clock.monotonic(), _SAMPLE_S)
            moving.add(controller.raw_frame())
    dynamic = merged(moving.parts())
    return screen_of(frame).model_copy(update={"dynamic": dynamic, "stable_s": stable_s if is_stable else 0.0})


def screen_of(frame: Frame) -> Screen:
    """Return a frame's screen."""
    return Screen(redacted=frame.redacted, pixels=partial(pixels_of, frame.png))


class Moving:
    """The moving regions of a frame, and their content in each frame."""

    def __init__(self, frame: Frame) -> None:
        size = frame.ref.width, frame.ref.height
        self._samples: list[tuple[Region, Region, list[Pixels]]] = [
            (region, region.grown(_REACH_PX, *size), []) for region in frame.moving
        ]
        self.add(frame)

    def add(self, screen: Frame | RawFrame) -> None:
        """Note the whole screen of another frame."""
        for _, grown, samples in self._samples:
            samples.append(grown.part_of(pixels_in(screen)).copy())

    @property
    def is_known(self) -> bool:
        """Return whether each of the regions was seen to change, and holds only carets."""
        all_changed = all(_changed(region, grown, samples).any() for region, grown, samples in self._samples)
        return all_changed and all(part.kind == "caret" for part in self.parts())

    def parts(self) -> Iterator[DynamicRegion]:
        """Yield the dynamic regions: a caret's own box, else its tiles and a little around them.

        A change only around a region is its neighbour's. It may be a piece of a caret, of which the rest is compared:
        then a replay would never see all variants of a part that held that piece.
        """
        for region, grown, samples in self._samples:
            if _changed(region, grown, samples).any():
                yield from _changing(region, grown, samples)


def _changed(region: Region, grown: Region, samples: Sequence[Pixels]) -> Mask:
    shown = _cut(region, grown, samples)
    marked: Mask = np.logical_or.reduce([differing(sample, shown[0]) for sample in shown])
    return marked


def _cut(box: Region, grown: Region, samples: Sequence[Pixels]) -> list[Pixels]:
    """Return what a box shows in each sample of the grown region that holds it."""
    x, y = grown.left, grown.top
    inside = Region(box.left - x, box.top - y, box.right - x, box.bottom - y)
    return [inside.part_of(sample) for sample in samples]


def _changing(region: Region, grown: Region, samples: Sequence[Pixels]) -> Iterator[DynamicRegion]:
    """Yield a caret; else the region with its variants, without a caret that stands apart from other moving parts."""
    marked = _changed(region, grown, samples)
    if caret := _caret_of(marked, region):
        yield _caret(caret, grown, samples)
        return
    rows = np.flatnonzero(marked.any(axis=1))
    gaps = np.flatnonzero(np.diff(rows) > _CLEAR_PX)
    cuts = [0, *(int(rows[gap] + rows[gap + 1]) // 2 for gap in gaps), len(marked)]
    bands = [replace(region, top=region.top + top, bottom=region.top + bottom) for top, bottom in pairwise(cuts)]
    bars: list[Region | None] = []
    for band in bands:
        inside = marked[band.top - region.top : band.bottom - region.top]
        caret = _caret_of(inside, band) if inside.any() else None
        is_bar = caret and caret.right - caret.left <= BAR_PX[0] and caret.bottom - caret.top >= _MIN_BAR_PX
        bars.append(caret if is_bar else None)
    if not any(bars):
        yield _with_variants(grown, samples)
        return
    for bar, band in zip(bars, bands, strict=True):
        # as wide as the grown region, and a little higher where there is room
        top, bottom = max(grown.top, band.top - _REACH_PX), min(grown.bottom, band.bottom + _REACH_PX)
        wider = Region(grown.left, top, grown.right, bottom)
        yield _caret(bar, grown, samples) if bar else _with_variants(wider, _cut(wider, grown, samples))


def _caret(box: Region, grown: Region, samples: Sequence[Pixels]) -> DynamicRegion:
    """Return a caret. If it is larger than a bar it keeps its variants, because it may be a lamp."""
    variants = () if box.is_within(BAR_PX) else distinct(_cut(box, grown, samples))[0]
    return dynamic_region(box, "caret", *variants)


def _with_variants(region: Region, samples: Sequence[Pixels]) -> DynamicRegion:
    """Return a region that blinks if it repeats a few variants; else one that always changes.

    A part that never repeats a variant, such as the seconds of a clock, may show anything next.
    """
    variants, order = distinct(samples)
    if len(variants) <= MAX_VARIANTS and 2 * len(variants) <= len(order) + 1:
        return dynamic_region(region, "blinks", *variants)
    return dynamic_region(region, "always_changing")


def distinct(samples: Sequence[Pixels]) -> tuple[list[Pixels], list[int]]:
    """Return each variant once, and the numbers of the variants in the order in which they came."""
    variants: list[Pixels] = []
    order: list[int] = []
    for pixels in samples:
        number = next((n for n, variant in enumerate(variants) if not differing(variant, pixels).any()), len(variants))
        variants += [pixels] if number == len(variants) else []
        order += [number] if order[-1:] != [number] else []
    return variants, order


def _caret_of(part: Mask, region: Region) -> Region | None:
    """Return the box of the marked pixels; None where it is larger than a caret, or not full, as a clock's digit."""
    rows, columns = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
    top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    if right - left > CARET_PX[0] or bottom - top > CARET_PX[1] or not part[top:bottom, left:right].all():
        return None
    x, y = region.left, region.top
    return Region(x + int(left), y + int(top), x + int(right), y + int(bottom))
