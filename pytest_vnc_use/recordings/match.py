"""Whether the screen is as it was recorded. Pixels are compared one by one; nothing is looked for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_vnc_use.recordings.pictures import Mask, Pixels, changed_tiles
from pytest_vnc_use.safety import points
from pytest_vnc_use.screens import CARET_PX
from pytest_vnc_use.types import Action, Region

AROUND_PX = (120, 40)
"""So far to each side, and up and down, the surroundings of a target reach."""
REST_MAY_DIFFER = 0.05
"""The share of the screen that may be other where neither the target is nor what the step before had changed."""

BESIDE_PX = 96
"""So far to each side of what moves something may belong to it that rests: the hours of a clock, beside its seconds."""


@dataclass(frozen=True)
class Mismatch:
    """What is not as recorded, in words, and within which part of the screen."""

    problem: str
    region: Region

    @property
    def mask(self) -> str:
        """What in the recording's file would leave that part out of all comparisons."""
        return f'"masks": [{json.dumps(asdict(self.region))}]'


@dataclass(frozen=True, eq=False)
class Gate:
    """What the screen must show before a step, and at the end: what the step before changed, and where it will act.

    `changed` are the pixels that the step before changed, `ignored` those that nothing is said of. Where no step came
    before, `is_first`, all of the screen must be as it was, but what keeps moving by itself now, and what is beside it.
    What moves now where `carets` were recorded is one of these, and hides nothing of what is around it. The gate
    `tells` the screen from that before the step, be it in what stays as it is, be it by where a `caret` went.
    """

    expected: Pixels
    changed: Mask
    ignored: Mask
    targets: tuple[Region, ...] = ()
    is_first: bool = False
    carets: tuple[Region, ...] = ()
    tells: bool = True
    caret: Region | None = None

    def mismatch(self, seen: Pixels, moving: Iterable[Region] = (), acted_on: Pixels | None = None) -> Mismatch | None:
        """What is not as recorded; None where the gate is open.

        `moving` is where the screen moves by itself, `acted_on` what it showed before the step.
        """
        return self._other(seen, moving) or self._unmoved(seen, acted_on)

    def _unmoved(self, seen: Pixels, acted_on: Pixels | None) -> Mismatch | None:
        """A caret blinks: it is there once what was there before has changed."""
        if self.caret is None or acted_on is None or (_part(acted_on, self.caret) != _part(seen, self.caret)).any():
            return None
        return Mismatch("the caret has not come to where the step before moved it", self.caret)

    def _other(self, seen: Pixels, moving: Iterable[Region]) -> Mismatch | None:
        differs = (self.expected != seen) & ~self.ignored
        if not differs.any():
            return None
        for target in self.targets:
            part = _part(differs, target)
            if part.any():
                return Mismatch(f"the surroundings of its target look different ({_told(part)})", box_of(part, target))
        if self.is_first and (found := differs & ~self._moves(moving)).any():
            return Mismatch(f"it is other before anything was done ({_told(found)} differ)", box_of(found))
        if (found := differs & self.changed).any():
            return Mismatch(f"what the step before changed is not as it was then ({_told(found)})", box_of(found))
        if differs.mean() > REST_MAY_DIFFER:
            return Mismatch(f"{differs.mean():.0%} of the screen look different ({_told(differs)})", box_of(differs))
        return None

    def _moves(self, moving: Iterable[Region]) -> Mask:
        """What keeps moving by itself now, and what is beside it, as the hours of a clock are."""
        unknown = (part for part in moving if not any(_overlap(part, caret) for caret in self.carets))
        return mask_of(map(_widened, unknown), self.expected.shape)


def gate(
    before: Pixels | None,
    expected: Pixels,
    left_out: Iterable[Region],
    targets: tuple[Region, ...] = (),
    *,
    left_out_before: Iterable[Region] = (),
) -> Gate:
    """The gate to a recorded screen, which became of the one `before` by a step; of none where nothing was done yet."""
    left_out = tuple(left_out)
    ignored = mask_of(left_out, expected.shape)
    if before is None:
        nothing = np.zeros(expected.shape, np.bool_)
        return Gate(expected, nothing, ignored, targets, is_first=True, carets=_carets_apart(left_out, ()))
    stays = (before != expected) & ~ignored & ~mask_of(left_out_before, expected.shape)
    caret = None if stays.any() else _moved_caret(tuple(left_out_before), left_out)
    tells = bool(stays.any()) or caret is not None
    return Gate(expected, changed_tiles(before, expected), ignored, targets, tells=tells, caret=caret)


def _moved_caret(before: Sequence[Region], now: Sequence[Region]) -> Region | None:
    """Where one caret went, of two screens of which these parts move; None where it is not clear that one did."""
    gone, come = _carets_apart(before, now), _carets_apart(now, before)
    return come[0] if len(gone) == len(come) == 1 else None


def _carets_apart(parts: Sequence[Region], others: Sequence[Region]) -> tuple[Region, ...]:
    """The parts no larger than a caret that have no pixel in common with the others."""
    width, height = CARET_PX
    small = [part for part in parts if part.right - part.left <= width and part.bottom - part.top <= height]
    return tuple(part for part in small if not any(_overlap(part, other) for other in others))


def _overlap(one: Region, other: Region) -> bool:
    across = one.left < other.right and other.left < one.right
    return across and one.top < other.bottom and other.top < one.bottom


def _part(screen: npt.NDArray[Any], part: Region) -> npt.NDArray[Any]:
    return screen[part.top : part.bottom, part.left : part.right]


def mask_of(regions: Iterable[Region], shape: tuple[int, ...]) -> Mask:
    """The pixels of all regions."""
    mask = np.zeros(shape, np.bool_)
    for region in regions:
        _part(mask, region)[:] = True
    return mask


def other_than(expected: Pixels, seen: Pixels, left_out: Iterable[Region]) -> Mismatch | None:
    """Where, outside what is left out, a screen is other than the one that was evidence; None where nowhere."""
    if expected.shape != seen.shape:
        height, width = seen.shape
        return Mismatch(f"the screen has {width} x {height} pixels", Region(0, 0, width, height))
    differs = (expected != seen) & ~mask_of(left_out, expected.shape)
    return Mismatch(f"{_told(differs)} differ", box_of(differs)) if differs.any() else None


def surroundings(action: Action, size: tuple[int, int]) -> tuple[Region, ...]:
    """What is around each point of an action, on a screen of this size; none where it has no point."""
    (across, down), (width, height) = AROUND_PX, size
    return tuple(
        Region(max(0, x - across), max(0, y - down), min(width, x + across), min(height, y + down))
        for x, y in points(action)
    )


def _widened(moving: Region) -> Region:
    return replace(moving, left=max(0, moving.left - BESIDE_PX), right=moving.right + BESIDE_PX)


def _told(differs: Mask) -> str:
    count = int(differs.sum())
    return "1 pixel" if count == 1 else f"{count:,} pixels"


def box_of(differs: Mask, within: Region = Region(0, 0, 0, 0)) -> Region:  # noqa: B008  # frozen
    """The smallest region that holds all that differs, at least one pixel; `differs` is of the part `within`."""
    rows, columns = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
    left, top = within.left, within.top
    return Region(left + int(columns[0]), top + int(rows[0]), left + int(columns[-1]) + 1, top + int(rows[-1]) + 1)
