"""Gates: the comparison of the screen with the recorded one, pixel by pixel, always at
the same position.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pytest_vnc_use.backends.pixels import box_of, boxes_of
from pytest_vnc_use.recordings.format import DynamicRegion, Screen
from pytest_vnc_use.recordings.images import (
    Mask,
    Pixels,
    changed_tiles,
    differing,
    levels_of,
)
from pytest_vnc_use.recordings.same_text import really_differing
from pytest_vnc_use.types import REDACTED_COLOUR, Action, Region
from pytest_vnc_use.types.actions import Point, points

AROUND_PX = (120, 40)
"""The reach of a target's surroundings: to each side, and up and down."""
_PRESSED_PX = 2
"""The width of the border that shows that a control is pressed, on a screen on which all
is twice as large.
"""
_PRESSED_LEVELS = 32
"""The largest difference of a level of that border's colours. In Chromium it is 23; a
ring around what has the focus differs by 80 and more.
"""
LOOK_FOR_BLINK_S = 0.1
"""The longest time between two comparisons where each variant of a blinking part is
waited for.
"""
BACK_S = 2.0
"""How long a difference at the end may last. In a recorded end no difference lasts
longer.
"""


MismatchKind = Literal["difference", "variants", "unchanged", "recoloured", "no_window"]
"""What differs: something; or a region that changes on its own shows other variants, or
not all; or nothing changed after the step; or all has other colours; or the first
screen is blank where a window was.
"""


@dataclass(frozen=True)
class Mismatch:
    """A difference from the recording: the problem, the region that holds it, and its
    boxes, which hold each pixel that differs.

    `is_beside`: it is neither around the next step's target nor an effect of the step
    before. Of a first screen before a step without a target, all counts.
    """

    problem: str
    region: Region
    boxes: tuple[Region, ...] = ()
    is_beside: bool = False
    kind: MismatchKind = "difference"


@dataclass(frozen=True, eq=False)
class StepBefore:
    """The step that led to a gate's screen, as it was recorded.

    `name` is as in `step 3 of 5, click "Pay" (button)`, and `screen` the one before it,
    of which `left_out` is not compared with the gate's. `changed` are the tiles that it
    changed. `pressed` are the points at which it pressed a button of the pointer.
    `accepted` is where only the screen before it is of a newer version of the product.

    `has_effect`: it left changed pixels. Where it did not, `caret` is where it moved
    the only caret; None if it moved none.
    """

    name: str
    screen: Pixels
    left_out: Mask
    changed: Mask
    pressed: tuple[Point, ...] = ()
    has_effect: bool = True
    caret: Region | None = None
    accepted: tuple[Region, ...] = ()


@dataclass(frozen=True, eq=False)
class Gate:
    """The screen that a replay must see before a step, or at the end.

    All pixels must be as in `expected`, except those in `ignored`. Each of the `parts`
    shows one of its variants. `hidden` are carets, clocks and masks: they are not
    compared with variants either. `targets` are the surroundings of what the next step
    acts on. `values` are where the screen shows values, which are hidden too. `step` is
    the step before, None at the first screen, and `whole` the name of a difference
    there.
    """

    expected: Pixels
    ignored: Mask
    hidden: Mask
    parts: tuple[DynamicRegion, ...] = ()
    targets: tuple[Region, ...] = ()
    values: tuple[Region, ...] = ()
    step: StepBefore | None = None
    whole: str = "the first screen differs"

    @property
    def is_first(self) -> bool:
        """Whether nothing was done yet."""
        return self.step is None

    @property
    def caret(self) -> Region | None:
        """The caret that alone shows whether the step before had its effect; None where
        other pixels do.
        """
        return self.step.caret if self.step else None

    @property
    def shows_effect(self) -> bool:
        """Whether the gate can distinguish this screen from the one before the step: by
        changed pixels, or by the moved caret.
        """
        return self.step is None or self.step.has_effect or self.caret is not None

    def mismatch(
        self,
        seen: Pixels,
        acted_on: Pixels | None = None,
        passing: Iterable[DynamicRegion] = (),
    ) -> Mismatch | None:
        """Return the difference from the recording; None where the gate is open.

        `acted_on` is the screen before the step. What is `passing` may still be there.
        """
        if seen.shape != self.expected.shape:
            height, width = seen.shape
            return Mismatch(
                f"the screen has {width} x {height} pixels", Region(0, 0, width, height)
            )
        differs = really_differing(self.expected, seen, self.ignored)
        if differs.any():
            for part in passing:
                shown = part.region.part_of(seen)
                is_other = differing(part.variants[0].pixels(), shown)
                # `part_of` is a view: what passes is no longer marked in `differs`
                there = part.region.part_of(differs)
                there &= is_other
        if differs.any() and not self._is_unpressed(differs, seen):
            return self._difference(differs)
        for part in self.parts:
            if variant_of(part, seen, ~self.hidden) is None:
                problem = (
                    "a region that changes on its own shows none of its"
                    f" {len(part.variants)} recorded variants {part.region}"
                )
                return Mismatch(problem, part.region, kind="variants")
        step = self.step
        if step is None or step.caret is None or acted_on is None:
            return None
        # A caret blinks: it has arrived once the pixels there differ from those before
        # the step.
        was = step.caret.part_of(acted_on)
        if (was != step.caret.part_of(seen)).any():
            return None
        problem = f"the caret is not where it was moved by {step.name}"
        return Mismatch(problem, step.caret, (step.caret,), kind="variants")

    def _is_unpressed(self, differs: Mask, seen: Pixels) -> bool:
        """Return whether the marked pixels are only the border of the control that the
        step pressed, which shows faintly that it is pressed, or no longer.

        A `select` of Chromium does for as long as its list is open, by chance: if the
        button went up before it opened, the border is as before the step. So no border
        counts that the recording does not show, and the step must have another effect,
        such as the list.
        """
        box = box_of(differs)
        step = self.step
        if step is None or not box.holds_any(step.pressed):
            return False
        inside = np.s_[_PRESSED_PX:-_PRESSED_PX, _PRESSED_PX:-_PRESSED_PX]
        if box.part_of(differs)[inside].any():
            return False
        # the border is as before the step, and only a little different from recorded
        if differing(step.screen, seen)[differs].any():
            return False
        if _levels_apart(self.expected[differs], seen[differs]) > _PRESSED_LEVELS:
            return False
        # the recorded step has changed something beside the control
        has_changed = differing(step.screen, self.expected) & ~self.ignored
        around = box.grown(_PRESSED_PX, differs.shape)
        around.part_of(has_changed)[:] = False
        return bool(has_changed.any())

    def _difference(self, differs: Mask) -> Mismatch:
        """Return the mismatch whose pixels are marked, with the place that says most
        about its cause: the next target, else the newest step's effect.
        """
        near_targets = mask_of(self.targets, differs.shape)
        near_px = int((differs & near_targets).sum())
        step = self.step
        is_effect = step is not None and bool((differs & step.changed).any())
        if near_px:
            what = (
                f"the surroundings of the step's target differ ({near_px:,} px there)"
            )
        elif step is None:
            what = self.whole
        elif is_effect:
            what = f"a different effect of {step.name}"
        else:
            what = f"a difference where nothing changed at {step.name}, when recorded"

        box = box_of(differs)
        boxes = tuple(boxes_of(differs))
        size = f"{int(differs.sum()):,} px"
        if len(boxes) > 1:
            size += f" in {len(boxes)} regions"
        problem = f"{what}: {size} {box}"
        if self.targets and not near_px:
            problem += ", away from where the next step acts"
        counts_all = step is None and not self.targets
        is_beside = not (near_px or is_effect or counts_all)
        return Mismatch(problem, box, boxes, is_beside)

    def with_parts(self, parts: Sequence[DynamicRegion]) -> Gate:
        """Return a gate that also accepts any variant of these parts. Each replaces the
        known parts within it.
        """
        regions = [part.region for part in parts]
        kept = [part for part in self.parts if not part.region.is_part_of_any(regions)]
        ignored = self.ignored | mask_of(regions, self.expected.shape)
        return replace(self, ignored=ignored, parts=(*kept, *parts))

    @property
    def blinking(self) -> tuple[DynamicRegion, ...]:
        """Return the parts that must show each of their variants in turn."""
        return tuple(part for part in self.parts if part.kind == "blinks")


class BlinkWatch:
    """A record of the variants that blinking parts have shown since it was made."""

    def __init__(self, blinking: Iterable[DynamicRegion]) -> None:
        self._unseen: dict[DynamicRegion, set[int]] = {}
        """The numbers of the variants that each part has not shown yet."""
        for part in blinking:
            self._unseen[part] = set(range(len(part.variants)))

    def note(self, seen: Pixels) -> Mismatch | None:
        """Note the variants on the screen; return where a variant is still missing,
        None once all were seen.
        """
        for part, unseen in self._unseen.items():
            variant = variant_of(part, seen)
            if variant is not None:
                unseen.discard(variant)
            is_redacted = part.region.part_of(seen) == REDACTED_COLOUR
            if is_redacted.any():
                unseen.clear()
        for part, unseen in self._unseen.items():
            if unseen:
                problem = (
                    "the blinking region has not shown all of its"
                    f" {len(part.variants)} recorded variants {part.region}"
                )
                return Mismatch(problem, part.region, kind="variants")
        return None


def variant_of(
    part: DynamicRegion, seen: Pixels, compared: Mask | None = None
) -> int | None:
    """Return the number of the recorded variant that a part of the screen shows; None
    where it shows another. Only pixels of the screen that are `compared` count.
    """
    now = part.region.part_of(seen)
    for number, variant in enumerate(part.variants):
        differs = differing(variant.pixels(), now)
        if compared is not None:
            differs &= part.region.part_of(compared)
        if not differs.any():
            return number
    return None


def gate(
    expected: Pixels,
    parts: Sequence[DynamicRegion],
    *,
    before: Pixels | None = None,
    parts_before: Sequence[DynamicRegion] = (),
    masks: Sequence[Region] = (),
    targets: tuple[Region, ...] = (),
    step: str = "the step before",
    pressed: tuple[Point, ...] = (),
    accepted: tuple[Region, ...] = (),
) -> Gate:
    """Return the gate to a recorded screen whose dynamic regions are `parts`.

    A `step` turned the screen `before` into it, and `pressed` a button at these points;
    `before` is None where nothing was done yet. `accepted` is as in `StepBefore`.
    """
    shape = expected.shape
    with_variants = []
    hidden_regions = list(masks)
    for part in parts:
        if not part.variants:
            hidden_regions.append(part.region)
        elif not part.region.is_part_of_any(masks):
            with_variants.append(part)
    hidden = mask_of(hidden_regions, shape)
    ignored = hidden | mask_of((part.region for part in parts), shape)
    first_gate = Gate(expected, ignored, hidden, tuple(with_variants), targets)
    if before is None:
        return first_gate

    left_out = ignored | mask_of((part.region for part in parts_before), shape)
    # Where pixels stay changed, the gate can tell the step's effect by them. Else only
    # a caret that moved can, if it is the only one that came and the only one gone.
    has_effect = bool(really_differing(before, expected, left_out).any())
    gone = _carets_apart(parts_before, parts)
    come = _carets_apart(parts, parts_before)
    caret = None
    if not has_effect and len(gone) == len(come) == 1:
        # In a masked region, or beside another value, the caret may be elsewhere.
        is_compared = not any(map(come[0].is_part_of, masks))
        caret = come[0] if is_compared else None
    changed = changed_tiles(before, expected)
    step_before = StepBefore(
        step, before, left_out, changed, pressed, has_effect, caret, accepted
    )
    return replace(first_gate, step=step_before)


def _carets_apart(
    parts: Iterable[DynamicRegion], others: Sequence[DynamicRegion]
) -> list[Region]:
    """Return the carets of one screen that have no pixel in common with what changed on
    its own on the other screen.
    """
    carets = [part.region for part in parts if part.kind == "caret"]
    regions = [other.region for other in others]
    return [caret for caret in carets if not caret.meets_any(regions)]


def mask_of(regions: Iterable[Region], shape: tuple[int, ...]) -> Mask:
    """Return a mask that marks the pixels of all regions."""
    mask = np.zeros(shape, np.bool_)
    for region in regions:
        region.part_of(mask)[:] = True
    return mask


def evidence_gate(screen: Screen, masks: Sequence[Region] = ()) -> Gate:
    """Return the gate to the screen of some evidence, with more masks than its own."""
    hidden = (*masks, *screen.not_compared)
    judged = gate(screen.pixels(), screen.dynamic, masks=hidden)
    return replace(judged, whole="the screen differs from the judged one")


def surroundings(action: Action, size: tuple[int, int]) -> tuple[Region, ...]:
    """Return the region around each point of an action, cut at the edges of a screen of
    this size.

    >>> from pytest_vnc_use.types import Click
    >>> surroundings(Click(30, 35), (320, 200))
    (Region(left=0, top=0, right=150, bottom=75),)
    """
    across, down = AROUND_PX
    width, height = size
    return tuple(
        Region(
            max(0, x - across),
            max(0, y - down),
            min(width, x + across),
            min(height, y + down),
        )
        for x, y in points(action)
    )


def _levels_apart(colours: Pixels, others: Pixels) -> int:
    """Return the largest difference of a level of red, green or blue."""
    distance = np.abs(levels_of(colours) - levels_of(others))
    return int(distance.max())
