"""Regions of the screen that move on their own: carets, spinners, clocks and videos.

A screen is recorded once it is stable, which means that nothing else changes.

A frame lists its moving regions, in tiles of 32 x 32 pixels. Each region is sampled for
a few seconds, and its variants decide what it is. `A`, `B`, ... are variants, a letter
a sample:

    AAABBBAAABBB    blinks: a replay must see A and B, and nothing else
    AAABBBBBBBBB    has settled: the screen is B, and nothing moves there
    AAABBBAAAAAA    unstable: a replay may see A or B
    ABCDEFGHIJKL    always changing: it is not compared
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from pytest_vnc_use import clock
from pytest_vnc_use.backends.pixels import box_of
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.recordings.format import (
    DynamicRegion,
    Screen,
    dynamic_region,
    merged,
)
from pytest_vnc_use.recordings.images import (
    Mask,
    Pixels,
    differing,
    pixels_in,
    pixels_of,
)
from pytest_vnc_use.types import BAR_PX, CARET_PX, Frame, RawFrame, Region
from pytest_vnc_use.types.protocols import Controller

STABLE_S = 1.2
"""How long a screen must be stable before it is recorded."""
_GIVE_UP_S = 3.8
"""How much longer than `STABLE_S` the wait for a stable screen may take."""
_PRECISION_S = 0.1
"""How precisely the time of the last change is determined."""
_SAMPLE_S = 0.15
"""The time between two samples of a moving region."""
_CARET_SAMPLES = 9
"""They cover both phases of a caret, which together take 1.2 s at most."""
_BLINK_SAMPLES = 11
"""They cover a region that blinks within 2 s."""
_SETTLE_SAMPLES = 10
"""They cover `STABLE_S` after a region has changed for good."""
MAX_VARIANTS = 4
"""The maximum variants of a blinking region. With more it is a spinner or a video."""
_MIN_SHOWN = 2
"""How often a blinking region must have shown each variant."""
_REACH_PX = 4
"""How far motion may extend beyond the tiles where it was seen."""
_CLEAR_PX = 16
"""The number of unchanged rows between a caret and anything else that moves: with fewer
they cannot be distinguished.
"""
_MIN_BAR_PX = 8
"""The minimum height of a caret that is recorded apart from other motion."""


def stable_screen(
    controller: Controller,
    stable_s: float = STABLE_S,
    acted_at: float | None = None,
) -> Screen:
    """Wait until the screen has been stable for `stable_s`, and return it with its
    dynamic regions.

    A screen that does not become stable is returned as it is, with `stable_s` 0. With
    `acted_at`, the time of an action, it also states how long after that it appeared.
    Raises DesktopError.
    """
    deadline = Deadline(stable_s + _GIVE_UP_S)
    is_stable = False
    while not is_stable and deadline.remaining_s:
        controller.wait_changed(clock.monotonic(), _SAMPLE_S)
        is_stable = not controller.changed_since(clock.monotonic() - stable_s)

    appeared_s = appeared_after(controller, acted_at)
    frame = controller.frame()
    moving = MovingRegions(frame)
    _sample(controller, moving, _CARET_SAMPLES)
    _sample(controller, moving, _BLINK_SAMPLES)
    if moving.may_settle:
        _sample(controller, moving, _SETTLE_SAMPLES)
    if moving.is_outdated:
        frame = controller.frame()
    return screen_of(frame).model_copy(
        update={
            "dynamic": merged(moving.dynamic_regions()),
            "stable_s": stable_s if is_stable else 0.0,
            "appeared_s": float(round(appeared_s)),
        }
    )


def _sample(controller: Controller, moving: MovingRegions, count: int) -> None:
    """Add `count` samples, unless nothing but carets moves."""
    if moving.has_only_carets:
        return
    for _ in range(count):
        controller.wait_changed(clock.monotonic(), _SAMPLE_S)
        moving.add(controller.raw_frame())


def appeared_after(controller: Controller, acted_at: float | None) -> float:
    """Return the seconds between an action and the last change of the screen outside
    moving regions.

    `acted_at` is on the monotonic clock; without an action, the result is 0. Raises
    DesktopError.
    """
    if acted_at is None:
        return 0.0
    # a binary search: the last change is between `first` and `last`
    first = acted_at
    last = clock.monotonic()
    while last - first > _PRECISION_S:
        middle = (first + last) / 2
        if controller.changed_since(middle):
            first = middle
        else:
            last = middle
    return last - acted_at


def screen_of(frame: Frame) -> Screen:
    """Return a frame's screen."""
    return Screen(redacted=frame.redacted, pixels=partial(pixels_of, frame.png))


class MovingRegions:
    """The moving regions of a frame, with what they show in that and other frames."""

    def __init__(self, frame: Frame) -> None:
        shape = frame.ref.height, frame.ref.width
        self._regions = [_MovingRegion(region, shape) for region in frame.moving]
        self._frame_at = frame.taken_at
        self.add(frame)

    def add(self, screen: Frame | RawFrame) -> None:
        """Add a sample of each region. The frame may be earlier than others."""
        for region in self._regions:
            region.add(screen)

    @property
    def has_only_carets(self) -> bool:
        """Return whether each region was seen to change, and only carets change."""
        if not all(region.changes for region in self._regions):
            return False
        return all(region.kind == "caret" for region in self.dynamic_regions())

    @property
    def may_settle(self) -> bool:
        """Return whether a region shows a few variants, some of which have not come back
        yet.
        """
        return any(region.may_settle for region in self._regions)

    @property
    def is_outdated(self) -> bool:
        """Return whether a region has changed for good since the frame."""
        return any(self._frame_at < region.settled_at for region in self._regions)

    def dynamic_regions(self) -> Iterator[DynamicRegion]:
        """Yield the dynamic regions: a caret's own box, else the tiles and a little
        around them.

        A region whose tiles do not change is omitted: what changes around them belongs
        to a neighbour. If it is a caret, a replay may never see it.
        """
        for region in self._regions:
            yield from region.dynamic_regions(self._frame_at)


class _MovingRegion:
    """A moving region, and what it showed when.

    `tiles` is where the screen moved. The samples extend a little beyond it.
    """

    def __init__(self, tiles: Region, shape: tuple[int, int]) -> None:
        self._tiles = tiles
        self._around = tiles.grown(_REACH_PX, shape)
        self._variants: list[Pixels] = []
        self._shown: list[tuple[float, int]] = []
        """The time and the variant's number of each sample, by time."""

    def add(self, screen: Frame | RawFrame) -> None:
        pixels = self._around.part_of(pixels_in(screen))
        number = _number_of(pixels, self._variants)
        if number == len(self._variants):
            self._variants.append(pixels.copy())
        self._shown.append((screen.taken_at, number))
        self._shown.sort()

    @property
    def changes(self) -> bool:
        """Return whether the tiles changed, and have not settled since."""
        samples = self._cut(self._tiles, self._current())
        return bool(_changed(samples).any())

    @property
    def settled_at(self) -> float:
        """The time when the region changed for good: no earlier variant has come back
        for at least `STABLE_S`. Minus infinity if it has not.

        >>> region = _MovingRegion(Region(0, 0, 1, 1), (1, 1))
        >>> for time, shade in [(0.0, 1), (0.5, 2), (1.0, 1), (1.5, 9), (2.9, 9)]:
        ...     region.add(RawFrame(np.full((1, 1), shade, np.uint32), time))
        >>> region.settled_at
        1.5
        """
        numbers = [number for _, number in self._shown]
        last_change = 0
        for start in range(1, len(numbers)):
            earlier = set(numbers[:start])
            if earlier.isdisjoint(numbers[start:]):
                last_change = start
        if not last_change:
            return -math.inf
        changed_at, _ = self._shown[last_change]
        newest_at, _ = self._shown[-1]
        if newest_at - changed_at < STABLE_S:
            return -math.inf
        return changed_at

    @property
    def may_settle(self) -> bool:
        has_settled = self.settled_at > -math.inf
        if has_settled or len(self._variants) > MAX_VARIANTS:
            return False
        variants, order = distinct(self._current())
        return len(variants) > 1 and not _all_come_back(order)

    def dynamic_regions(self, frame_at: float) -> Iterator[DynamicRegion]:
        """Yield a caret, or the region with its variants, or both where a caret is apart
        from everything else that moves.

        The recorded screen is that of `frame_at`, or the newest if that is outdated.
        """
        samples = self._current()
        marked = _changed(self._cut(self._tiles, samples))
        if not marked.any():
            return
        if caret := _caret_box(marked, self._tiles):
            yield _caret(caret, self._cut(caret, samples))
            return

        recorded = self._recorded_sample(frame_at)
        bands = _bands(marked, self._tiles)
        bars = [_bar_box(marked, self._tiles, band) for band in bands]
        if not any(bars):
            yield _with_variants(self._around, samples, recorded)
            return
        for bar, band in zip(bars, bands, strict=True):
            if bar:
                yield _caret(bar, self._cut(bar, samples))
                continue
            # as wide as the samples, and a little higher where there is room
            wider = replace(
                self._around,
                top=max(self._around.top, band.top - _REACH_PX),
                bottom=min(self._around.bottom, band.bottom + _REACH_PX),
            )
            yield _with_variants(wider, self._cut(wider, samples), recorded)

    def _current(self) -> list[Pixels]:
        """Return the samples since the region settled, else all, by time."""
        since = self.settled_at
        return [self._variants[number] for at, number in self._shown if at >= since]

    def _recorded_sample(self, frame_at: float) -> int:
        """Return the index of the current sample that the recorded screen shows."""
        since = self.settled_at
        times = [at for at, _ in self._shown if at >= since]
        return times.index(frame_at) if frame_at in times else -1

    def _cut(self, box: Region, samples: Sequence[Pixels]) -> list[Pixels]:
        """Cut a box of the screen out of each sample."""
        inside = box.moved(-self._around.left, -self._around.top)
        return [inside.part_of(sample) for sample in samples]


def _changed(samples: Sequence[Pixels]) -> Mask:
    """Mark the pixels that differ between any samples of one region."""
    first, *others = samples
    marked = np.zeros(first.shape, np.bool_)
    for sample in others:
        marked |= differing(sample, first)
    return marked


def _bands(marked: Mask, region: Region) -> list[Region]:
    """Cut a region into bands as wide as itself, in the middle of each gap of more than
    `_CLEAR_PX` rows between marked pixels.
    """
    rows = np.flatnonzero(marked.any(axis=1))
    cuts = [0]
    for above, below in pairwise(rows.tolist()):
        if below - above > _CLEAR_PX:
            cuts.append((above + below) // 2)
    cuts.append(len(marked))
    bands = []
    for start, stop in pairwise(cuts):
        bands.append(replace(region, top=region.top + start, bottom=region.top + stop))
    return bands


def _caret_box(marked: Mask, region: Region) -> Region | None:
    """Return the box of the marked pixels of a region, if it is as small as a caret and
    full, unlike a clock's digit; else None.
    """
    box = box_of(marked)
    is_full = box.part_of(marked).all()
    if not is_full or not box.is_within(CARET_PX):
        return None
    return box.moved(region.left, region.top)


def _bar_box(marked: Mask, region: Region, band: Region) -> Region | None:
    """Return the box of the caret in a band of a region, if it is a bar; else None."""
    inside = band.moved(-region.left, -region.top).part_of(marked)
    if not inside.any():
        return None
    caret = _caret_box(inside, band)
    if caret is None:
        return None
    width, _ = BAR_PX
    is_bar = caret.width <= width and caret.height >= _MIN_BAR_PX
    return caret if is_bar else None


def _caret(box: Region, samples: Sequence[Pixels]) -> DynamicRegion:
    """Return a caret. One larger than a bar keeps its variants: it may be a lamp."""
    if box.is_within(BAR_PX):
        return dynamic_region(box, "caret")
    variants, _ = distinct(samples)
    return dynamic_region(box, "caret", *variants)


def _with_variants(
    region: Region, samples: Sequence[Pixels], recorded: int
) -> DynamicRegion:
    """Return a region that blinks if all of its few variants come back, that is unstable
    if some do, or else that always changes.

    Where no variant comes back, as in the seconds of a clock, anything may show next.
    The sample at index `recorded` is what the recorded screen shows.
    """
    variants, order = distinct(samples)
    repeats_none = len(order) == len(variants)
    if repeats_none or len(variants) > MAX_VARIANTS:
        return dynamic_region(region, "always_changing")
    if _all_come_back(order):
        return dynamic_region(region, "blinks", *variants)
    # the recorded variant comes first
    variants, _ = distinct([samples[recorded], *samples])
    return dynamic_region(region, "unstable", *variants)


def _all_come_back(order: Sequence[int]) -> bool:
    """Return whether each variant was shown at least twice, with another in between.

    >>> _all_come_back([0, 1, 0, 1])
    True
    >>> _all_come_back([0, 1, 0])
    False
    """
    return all(order.count(number) >= _MIN_SHOWN for number in set(order))


def distinct(samples: Sequence[Pixels]) -> tuple[list[Pixels], list[int]]:
    """Return each variant once, and the numbers of the variants in the order in which
    they were shown.

    >>> red, grey = np.full((1, 1), 1, np.uint32), np.full((1, 1), 9, np.uint32)
    >>> distinct([red, red, grey, red])[1]
    [0, 1, 0]
    """
    variants: list[Pixels] = []
    order: list[int] = []
    for pixels in samples:
        number = _number_of(pixels, variants)
        if number == len(variants):
            variants.append(pixels)
        if order[-1:] != [number]:
            order.append(number)
    return variants, order


def _number_of(pixels: Pixels, variants: Sequence[Pixels]) -> int:
    """Return the index of the variant that these pixels show; that of the next variant
    if they show a new one.
    """
    for number, variant in enumerate(variants):
        if not differing(variant, pixels).any():
            return number
    return len(variants)
