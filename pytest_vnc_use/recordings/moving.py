"""What moves on its own: a screen is recorded once it is stable but for carets,
blinking regions, clocks and videos.

A frame says in which tiles of 32 x 32 pixels the screen keeps changing. Each such
region is sampled for a few seconds, and what it showed decides what it is. `A` and `B`
are what it showed, a letter a sample:

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
"""How long nothing may change, except parts that move on their own, before a screen is
recorded.
"""
_GIVE_UP_S = 3.8
"""How much longer than `STABLE_S` the wait for a stable screen may take."""
_APPEARED_WITHIN_S = 0.1
"""How exactly the time of the last change is found."""
_SAMPLE_S = 0.15
"""The time between two samples of the parts that move on their own."""
_CARET_SAMPLES = 9
"""They cover both phases of a caret, which takes 1.2 s for both at most."""
_BLINK_SAMPLES = 11
"""They cover a part that blinks within 2 s."""
_REST_SAMPLES = 10
"""They cover the rest of `STABLE_S` of a part that has just changed for good."""
MAX_VARIANTS = 4
"""The maximum variants of a blinking part. With more it is a spinner or a video."""
_MIN_TURNS = 2
"""How often a part must have shown each variant to blink."""
_REACH_PX = 4
"""How far a moving part may extend beyond the tiles where it was seen to move."""
_CLEAR_PX = 16
"""The number of unchanged rows between a caret and anything else that moves: with fewer
they cannot be distinguished.
"""
_MIN_BAR_PX = 8
"""The smallest height of a caret that stands apart from other moving parts."""


def stable_screen(
    controller: Controller,
    stable_s: float = STABLE_S,
    acted_at: float | None = None,
) -> Screen:
    """Wait until the screen has been stable for `stable_s`; return it with its dynamic
    regions, and when it appeared after what was done at `acted_at`. Raises
    DesktopError.

    One that does not become stable is returned as it is, with `stable_s` 0.
    """
    deadline = Deadline(stable_s + _GIVE_UP_S)
    is_stable = False
    while not is_stable and deadline.remaining_s:
        controller.wait_changed(clock.monotonic(), _SAMPLE_S)
        is_stable = not controller.changed_since(clock.monotonic() - stable_s)

    appeared_s = appeared_after(controller, acted_at)
    frame = controller.frame()
    moving = Moving(frame)
    _sample(controller, moving, _CARET_SAMPLES)
    if not moving.is_known:
        _sample(controller, moving, _BLINK_SAMPLES)
    if moving.may_settle:
        _sample(controller, moving, _REST_SAMPLES)
    if moving.is_outdated:
        frame = controller.frame()
    return screen_of(frame).model_copy(
        update={
            "dynamic": merged(moving.parts()),
            "stable_s": stable_s if is_stable else 0.0,
            "appeared_s": float(round(appeared_s)),
        }
    )


def _sample(controller: Controller, moving: Moving, count: int) -> None:
    """Add `count` samples, but none to what holds only carets."""
    if moving.is_known:
        return
    for _ in range(count):
        controller.wait_changed(clock.monotonic(), _SAMPLE_S)
        moving.add(controller.raw_frame())


def appeared_after(controller: Controller, acted_at: float | None) -> float:
    """Return the seconds from an action until the screen was as it is now, but for
    parts that move on their own.

    `acted_at` is on the monotonic clock; without an action it is 0. Raises
    DesktopError.
    """
    if acted_at is None:
        return 0.0
    # The last change is between these two times, and each turn halves what is between.
    first = acted_at
    last = clock.monotonic()
    while last - first > _APPEARED_WITHIN_S:
        middle = (first + last) / 2
        if controller.changed_since(middle):
            first = middle
        else:
            last = middle
    return last - acted_at


def screen_of(frame: Frame) -> Screen:
    """Return a frame's screen."""
    return Screen(redacted=frame.redacted, pixels=partial(pixels_of, frame.png))


class Moving:
    """The moving regions of a frame, and their content in each frame."""

    def __init__(self, frame: Frame) -> None:
        shape = frame.ref.height, frame.ref.width
        self._regions = [_MovingRegion(region, shape) for region in frame.moving]
        self._frame_at = frame.taken_at
        self.add(frame)

    def add(self, screen: Frame | RawFrame) -> None:
        """Note the whole screen of another frame, which may be an earlier one."""
        for region in self._regions:
            region.add(screen)

    @property
    def is_known(self) -> bool:
        """Return whether each of the regions was seen to change, and holds only
        carets.
        """
        if not all(region.changes for region in self._regions):
            return False
        return all(part.kind == "caret" for part in self.parts())

    @property
    def may_settle(self) -> bool:
        """Return whether a region has shown a few variants, and not yet whether they
        come back.
        """
        return any(region.may_settle for region in self._regions)

    @property
    def is_outdated(self) -> bool:
        """Return whether the frame shows what has changed for good since."""
        return any(self._frame_at < region.settled_at for region in self._regions)

    def parts(self) -> Iterator[DynamicRegion]:
        """Yield the dynamic regions: a caret's own box, else its tiles and a little
        around them.

        A change only around a region is its neighbour's. It may be a piece of a caret,
        of which the rest is compared: then a replay would never see all variants of a
        part that held that piece.
        """
        for region in self._regions:
            yield from region.parts(self._frame_at)


class _MovingRegion:
    """A region that moves, and what it showed when.

    `tiles` is where the screen moved, `around` that and a little more.
    """

    def __init__(self, tiles: Region, shape: tuple[int, int]) -> None:
        self._tiles = tiles
        self._around = tiles.grown(_REACH_PX, shape)
        self._variants: list[Pixels] = []
        self._shown: list[tuple[float, int]] = []
        """The time of each sample and the number of its variant, by time."""

    def add(self, screen: Frame | RawFrame) -> None:
        pixels = self._around.part_of(pixels_in(screen))
        number = _number_of(pixels, self._variants)
        if number == len(self._variants):
            self._variants.append(pixels.copy())
        self._shown.append((screen.taken_at, number))
        self._shown.sort()

    @property
    def changes(self) -> bool:
        """Return whether the tiles changed, and may do so again."""
        samples = self._cut(self._tiles, self._current())
        return bool(_changed(samples).any())

    @property
    def settled_at(self) -> float:
        """The time of the change after which nothing came back that was shown before,
        if what came then has stayed for `STABLE_S`; else minus infinity.

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
        settled_at, _ = self._shown[last_change]
        newest_at, _ = self._shown[-1]
        return settled_at if newest_at - settled_at >= STABLE_S else -math.inf

    @property
    def may_settle(self) -> bool:
        has_settled = self.settled_at > -math.inf
        if has_settled or len(self._variants) > MAX_VARIANTS:
            return False
        variants, turns = distinct(self._current())
        return len(variants) > 1 and not _all_come_back(turns)

    def _current(self) -> list[Pixels]:
        """Return the samples that show what still counts, by time: those since it has
        settled, else all.
        """
        since = self.settled_at
        return [self._variants[number] for at, number in self._shown if at >= since]

    def _cut(self, box: Region, samples: Sequence[Pixels]) -> list[Pixels]:
        """Return what a box of the screen shows in each sample."""
        inside = box.moved(-self._around.left, -self._around.top)
        return [inside.part_of(sample) for sample in samples]

    def parts(self, frame_at: float) -> Iterator[DynamicRegion]:
        """Yield a caret; else the region with its variants, without a caret that stands
        apart from other moving parts.

        The screen that is recorded is that of `frame_at`, or the newest one if that is
        outdated.
        """
        samples = self._current()
        marked = _changed(self._cut(self._tiles, samples))
        if not marked.any():
            return
        since = self.settled_at
        times = [at for at, _ in self._shown if at >= since]
        recorded = len(times) - 1
        if frame_at in times:
            recorded = times.index(frame_at)
        if caret := _caret_of(marked, self._tiles):
            yield _caret(caret, self._cut(caret, samples))
            return

        bands = _bands(marked, self._tiles)
        bars = [_bar_of(marked, self._tiles, band) for band in bands]
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


def _changed(samples: Sequence[Pixels]) -> Mask:
    """Mark the pixels that differ between any two samples of one place."""
    first, *others = samples
    marked = np.zeros(first.shape, np.bool_)
    for sample in others:
        marked |= differing(sample, first)
    return marked


def _bands(marked: Mask, region: Region) -> list[Region]:
    """Cut a region into bands, each as wide as the region: more than `_CLEAR_PX` rows
    without a marked pixel part two, and the cut is in their middle.
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


def _bar_of(marked: Mask, region: Region, band: Region) -> Region | None:
    """Return the caret in a band of a region if it is a bar; else None."""
    inside = band.moved(-region.left, -region.top).part_of(marked)
    caret = _caret_of(inside, band) if inside.any() else None
    if caret is None:
        return None
    width, _ = BAR_PX
    is_bar = caret.width <= width and caret.height >= _MIN_BAR_PX
    return caret if is_bar else None


def _caret(box: Region, samples: Sequence[Pixels]) -> DynamicRegion:
    """Return a caret. If it is larger than a bar it keeps its variants, because it may
    be a lamp.
    """
    if box.is_within(BAR_PX):
        return dynamic_region(box, "caret")
    variants, _ = distinct(samples)
    return dynamic_region(box, "caret", *variants)


def _with_variants(
    region: Region, samples: Sequence[Pixels], recorded: int
) -> DynamicRegion:
    """Return a region that blinks if it repeats all of a few variants, that is unstable
    if it repeats some, or else that always changes.

    A part that never repeats a variant, such as the seconds of a clock, may show
    anything next. The sample number `recorded` is what the recorded screen shows.
    """
    variants, turns = distinct(samples)
    repeats_none = len(turns) == len(variants)
    if repeats_none or len(variants) > MAX_VARIANTS:
        return dynamic_region(region, "always_changing")
    if _all_come_back(turns):
        return dynamic_region(region, "blinks", *variants)
    # what is recorded is the first variant
    variants, _ = distinct([samples[recorded], *samples])
    return dynamic_region(region, "unstable", *variants)


def _all_come_back(turns: Sequence[int]) -> bool:
    """Return whether each variant was shown in two turns or more.

    >>> _all_come_back([0, 1, 0, 1])
    True
    >>> _all_come_back([0, 1, 0])
    False
    """
    return all(turns.count(number) >= _MIN_TURNS for number in set(turns))


def distinct(samples: Sequence[Pixels]) -> tuple[list[Pixels], list[int]]:
    """Return each variant once, and the numbers of the variants in the order in which
    they came.

    >>> red, grey = np.full((1, 1), 1, np.uint32), np.full((1, 1), 9, np.uint32)
    >>> distinct([red, red, grey, red])[1]
    [0, 1, 0]
    """
    variants: list[Pixels] = []
    turns: list[int] = []
    for pixels in samples:
        number = _number_of(pixels, variants)
        if number == len(variants):
            variants.append(pixels)
        if turns[-1:] != [number]:
            turns.append(number)
    return variants, turns


def _number_of(pixels: Pixels, variants: Sequence[Pixels]) -> int:
    """Return the number of the variant that these pixels show; for a new one the number
    of variants.
    """
    for number, variant in enumerate(variants):
        if not differing(variant, pixels).any():
            return number
    return len(variants)


def _caret_of(marked: Mask, region: Region) -> Region | None:
    """Return the box of the marked pixels of a region; None where it is larger than a
    caret, or not full, as a clock's digit.
    """
    box = box_of(marked)
    is_full = box.part_of(marked).all()
    if not is_full or not box.is_within(CARET_PX):
        return None
    return box.moved(region.left, region.top)
