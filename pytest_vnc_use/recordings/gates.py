"""Gates: the comparison of the screen with the recorded one, pixel by pixel, always at the same position."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_vnc_use.backends.pixels import box_of, boxes_of
from pytest_vnc_use.recordings.format import DynamicRegion, Screen
from pytest_vnc_use.recordings.images import Mask, Pixels, changed_tiles, differing
from pytest_vnc_use.recordings.same_text import really_differing
from pytest_vnc_use.types import CARET_PX, REDACTED_COLOUR, Action, Region
from pytest_vnc_use.types.actions import Point, points

AROUND_PX = (120, 40)
"""The reach of a target's surroundings: to each side, and up and down."""
_BORDER_PX = 6
"""The width of a border, or of a ring around what has the focus, on a screen on which all is twice as large."""
_SAME_COLOUR_LEVELS = 8
"""The largest difference of a level where pixels of one colour have another one now: blended edges are rounded."""
LOOK_FOR_BLINK_S = 0.1
"""The longest time between two comparisons where each variant of a blinking part is waited for."""
BACK_S = 2.0
"""How long a difference at the end may last. In a recorded end no difference lasts longer."""


@dataclass(frozen=True)
class Mismatch:
    """A difference from the recording: the problem, the region that holds it, and its boxes.

    `is_beside`: it is neither around the next step's target nor an effect of the step before. Of a first screen before
    a step without a target, all counts.
    """

    problem: str
    region: Region
    boxes: tuple[Region, ...] = ()
    is_beside: bool = False


@dataclass(frozen=True, eq=False)
class Gate:
    """The screen that a replay must see before a step, or at the end.

    All pixels must be as in `expected`, except those in `ignored`. `changed` are the pixels that the step before
    changed, `targets` the surroundings of the next step's. Each of the `parts` shows one of its variants.
    `shows_effect`: the gate can distinguish this screen from the one before the step, by changed pixels or by the moved
    `caret`. `hidden` are carets, clocks and masks: they are not compared with variants either.
    """

    expected: Pixels
    changed: Mask
    ignored: Mask
    hidden: Mask
    parts: tuple[DynamicRegion, ...] = ()
    targets: tuple[Region, ...] = ()
    is_first: bool = False
    whole: str = "the first screen differs"
    shows_effect: bool = True
    caret: Region | None = None

    def mismatch(
        self, seen: Pixels, acted_on: Pixels | None = None, passing: Iterable[DynamicRegion] = ()
    ) -> Mismatch | None:
        """Return the difference from the recording; None where the gate is open.

        `acted_on` is the screen before the step. What is `passing` may still be there.
        """
        if seen.shape != self.expected.shape:
            height, width = seen.shape
            return Mismatch(f"the screen has {width} x {height} pixels", Region(0, 0, width, height))
        differs = really_differing(self.expected, seen) & ~self.ignored
        for part in passing if differs.any() else ():
            there = part.region.part_of(differs)
            there &= differing(part.variants[0].pixels(), part.region.part_of(seen))
        if differs.any():
            near, box = int((differs & mask_of(self.targets, differs.shape)).sum()), box_of(differs)
            is_effect = bool((differs & self.changed).any())
            if near:
                what = f"the surroundings of the step's target differ ({near:,} px there):"
            elif self.is_first:
                what = f"{self.whole}:"
            elif is_effect:
                what = "the effect of the step before looks different:"
            else:
                what = "a region that the step before did not touch differs:"
            beside = ", away from where the next step acts" if self.targets and not near else ""
            problem = f"{what} {int(differs.sum()):,} px {box}{beside}"
            is_beside = not near and not is_effect and (bool(self.targets) or not self.is_first)
            return Mismatch(problem, box, tuple(boxes_of(differs)), is_beside)
        for part in self.parts:
            if variant_of(part, seen, ~self.hidden) is None:
                problem = f"a region that changes on its own shows none of its {len(part.variants)} recorded variants"
                return Mismatch(problem, part.region)
        # a caret blinks: it has arrived once the pixels there differ from those before the step
        came = acted_on is None or not self.caret or (self.caret.part_of(acted_on) != self.caret.part_of(seen)).any()
        if self.caret and not came:
            return Mismatch("the caret did not reach the place where the step before moved it", self.caret)
        return None

    def with_parts(self, parts: Sequence[DynamicRegion]) -> Gate:
        """Return a gate that also accepts any variant of these parts. Each replaces the known parts within it."""
        kept = [part for part in self.parts if not any(part.region.is_part_of(new.region) for new in parts)]
        ignored = self.ignored | mask_of((part.region for part in parts), self.expected.shape)
        return replace(self, ignored=ignored, parts=(*kept, *parts))

    @property
    def blinking(self) -> tuple[DynamicRegion, ...]:
        """Return the parts that must show each of their variants in turn."""
        return tuple(part for part in self.parts if part.kind == "blinks")


class BlinkWatch:
    """A record of the variants that blinking parts have shown since it was made."""

    def __init__(self, blinking: Iterable[DynamicRegion]) -> None:
        self._unseen = {part: set(range(len(part.variants))) for part in blinking}

    def note(self, seen: Pixels) -> Mismatch | None:
        """Note the variants on the screen; return where a variant is still missing, None once all were seen."""
        for part, unseen in self._unseen.items():
            if (variant := variant_of(part, seen)) is not None:
                unseen.discard(variant)
            if (part.region.part_of(seen) == REDACTED_COLOUR).any():
                unseen.clear()
        missing = next((part for part, unseen in self._unseen.items() if unseen), None)
        problem = "the blinking region has not shown all of its {} recorded variants"
        return None if missing is None else Mismatch(problem.format(len(missing.variants)), missing.region)


def variant_of(part: DynamicRegion, seen: Pixels, compared: Mask | None = None) -> int | None:
    """Return the number of the recorded variant that a part of the screen shows; None where it shows another."""
    now = part.region.part_of(seen)
    counts = True if compared is None else part.region.part_of(compared)
    same = (n for n, variant in enumerate(part.variants) if not (differing(variant.pixels(), now) & counts).any())
    return next(same, None)


def gate(
    expected: Pixels,
    parts: Sequence[DynamicRegion],
    *,
    before: Pixels | None = None,
    parts_before: Sequence[DynamicRegion] = (),
    masks: Sequence[Region] = (),
    targets: tuple[Region, ...] = (),
) -> Gate:
    """Return the gate to a recorded screen whose dynamic regions are `parts`.

    A step turned the screen `before` into it; `before` is None where nothing was done yet.
    """
    with_variants = tuple(part for part in parts if part.variants and not any(map(part.region.is_part_of, masks)))
    hidden = mask_of((*masks, *(part.region for part in parts if not part.variants)), expected.shape)
    ignored = hidden | mask_of((part.region for part in parts), expected.shape)
    nothing = np.zeros(expected.shape, np.bool_)
    first_gate = Gate(expected, nothing, ignored, hidden, with_variants, targets, is_first=before is None)
    if before is None:
        return first_gate
    left_out = ignored | mask_of((part.region for part in parts_before), expected.shape)
    stays = bool((differing(before, expected) & ~left_out).any())
    gone, come = (  # the carets that have no pixel in common with what changed on its own on the other screen
        [part.region for part in some if part.kind == "caret" and not any(part.region.meets(o.region) for o in others)]
        for some, others in ((parts_before, parts), (parts, parts_before))
    )
    caret = come[0] if not stays and len(gone) == len(come) == 1 else None
    return replace(
        first_gate, changed=changed_tiles(before, expected), shows_effect=stays or caret is not None, caret=caret
    )


def mask_of(regions: Iterable[Region], shape: tuple[int, ...]) -> Mask:
    """Return a mask that marks the pixels of all regions."""
    mask = np.zeros(shape, np.bool_)
    for region in regions:
        region.part_of(mask)[:] = True
    return mask


def evidence_gate(screen: Screen, masks: Sequence[Region] = ()) -> Gate:
    """Return the gate to the screen of some evidence."""
    judged = gate(screen.pixels(), screen.dynamic, masks=(*masks, *screen.redacted))
    return replace(judged, whole="the screen differs from the judged one")


def surroundings(action: Action, size: tuple[int, int]) -> tuple[Region, ...]:
    """Return the region around each point of an action, cut at the edges of a screen of this size."""
    (across, down), (width, height) = AROUND_PX, size
    return tuple(
        Region(max(0, x - across), max(0, y - down), min(width, x + across), min(height, y + down))
        for x, y in points(action)
    )


def unknown_parts(seen: Pixels, known: Iterable[Pixels], left_out: Mask) -> list[Region]:
    """Return where a screen differs from all of the `known` screens.

    A window that is still being drawn does not count: each of its pieces is as on the screen before or after, or of one
    colour. A caret does not count either.
    """
    marked: Mask = ~left_out
    for screen in known:
        if screen.shape != seen.shape:
            return []
        marked &= differing(seen, screen)
    boxes = []
    for box in boxes_of(marked):
        pixels = box.part_of(seen)[box.part_of(marked)]
        if not box.is_within(CARET_PX) and (pixels != pixels[0]).any():
            boxes.append(box)
    return boxes


def is_recoloured(box: Region, targets: Iterable[Point], before: Pixels, seen: Pixels) -> bool:
    """Return whether a box around a target shows the same drawing in other colours, apart from its border."""
    if not any(map(box.holds, targets)):
        return False
    was, now = (box.part_of(screen)[_BORDER_PX:-_BORDER_PX, _BORDER_PX:-_BORDER_PX] for screen in (before, seen))
    colours, kinds = np.unique(was, return_inverse=True)
    for level in (now >> shift & 0xFF for shift in (0, 8, 16)):
        least, greatest = np.full(len(colours), 0xFF), np.zeros(len(colours), np.int64)
        np.minimum.at(least, kinds.ravel(), level.ravel())
        np.maximum.at(greatest, kinds.ravel(), level.ravel())
        if (greatest - least > _SAME_COLOUR_LEVELS).any():
            return False
    return len(colours) <= 1 or len(np.unique(now)) > 1
