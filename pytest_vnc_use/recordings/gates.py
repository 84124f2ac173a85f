"""Gates: the comparison of the screen with the recorded one, pixel by pixel, always at the same place."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from pytest_vnc_use.recordings.format import Volatile, is_part_of
from pytest_vnc_use.recordings.pictures import Mask, Pixels, changed_tiles, differing
from pytest_vnc_use.recordings.rasterised import really_differing
from pytest_vnc_use.types import CARET_PX, REDACTED_COLOUR, Action, Region
from pytest_vnc_use.types.action_points import points

AROUND_PX = (120, 40)
"""The reach of a target's surroundings: to each side, and up and down."""
REST_MAY_DIFFER = 0.05
"""The share of the screen that may differ outside the compared part, before a step in the middle of a run.

No step has changed anything there so far.
"""
APART_PX = 16
"""The number of equal rows or columns between two differences that makes them two."""
MOST_MASKS = 4
LARGEST_MASK = 0.25
"""The largest part of a screen for which a mask is proposed."""


@dataclass(frozen=True)
class Mismatch:
    """A difference from the recording: the problem in words, the region that holds it, and its boxes."""

    problem: str
    region: Region
    boxes: tuple[Region, ...] = ()

    @property
    def masks(self) -> tuple[Region, ...]:
        """Return the masks that would hide the difference: its boxes; the whole region if there are too many."""
        return self.boxes if 0 < len(self.boxes) <= MOST_MASKS else (self.region,)


def masks_entry(masks: Iterable[Region]) -> str:
    """Return the entry for the top level of a recording's file that hides these regions from all comparisons."""
    return f'"masks": {json.dumps([asdict(each) for each in masks])}'


@dataclass(frozen=True, eq=False)
class Gate:
    """The screen that a replay must see before a step, or at the end.

    All pixels in `compared` must be as in `expected`, except those in `ignored`. The first and the last gate compare
    the whole screen. The others compare the pixels that any step so far has changed, and the surroundings of the step's
    `targets`. `changed` are the pixels that the step before changed. Each of the `parts` must show one of its looks.
    `tells`: the gate can distinguish this screen from the one before the step, by changed pixels or by the moved
    `caret`. `hidden` are carets, clocks and masks: they are not compared with looks either.
    """

    expected: Pixels
    compared: Mask
    changed: Mask
    ignored: Mask
    parts: tuple[Volatile, ...] = ()
    targets: tuple[Region, ...] = ()
    is_first: bool = False
    whole: str = "the first screen differs"
    tells: bool = True
    caret: Region | None = None
    hidden: Mask | None = None

    def mismatch(self, seen: Pixels, acted_on: Pixels | None = None) -> Mismatch | None:
        """Return the difference from the recording; None where the gate is open.

        `acted_on` is the screen before the step.
        """
        return self._other(seen) or self._unknown_look(seen) or self._caret_mismatch(seen, acted_on)

    def _other(self, seen: Pixels) -> Mismatch | None:
        if seen.shape != self.expected.shape:
            height, width = seen.shape
            return Mismatch(f"the screen has {width} x {height} pixels", Region(0, 0, width, height))
        differs = really_differing(self.expected, seen) & ~self.ignored
        found = differs & self.compared
        if found.any():
            return _mismatch(self._place(found), found, self.targets)
        if differs.mean() > REST_MAY_DIFFER:
            return _mismatch(f"{differs.mean():.0%} of the screen look different", differs, self.targets)
        return None

    def _place(self, found: Mask) -> str:
        if any(target.part_of(found).any() for target in self.targets):
            return "the surroundings of its target look different"
        if self.is_first:
            return self.whole
        if (found & self.changed).any():
            return "a part that the step before changed differs"
        return "the difference is outside the parts that the step before changed"

    def _unknown_look(self, seen: Pixels) -> Mismatch | None:
        for part in self.parts:
            if self._is_compared(part) and self.look_of(part, seen) is None:
                words = f"a region that changes by itself shows none of its {len(part.looks)} recorded looks"
                return Mismatch(words, part.region)
        return None

    def look_of(self, part: Volatile, seen: Pixels) -> int | None:
        """Return the number of the look that the compared pixels of a part show; None if they show another one."""
        compared = self.compared if self.hidden is None else self.compared & ~self.hidden
        return look_of(part, seen, compared)

    def with_parts(self, parts: Sequence[Volatile]) -> Gate:
        """Return a gate that also accepts any look of these parts. Each replaces the known parts within it."""
        kept = [part for part in self.parts if not any(is_part_of(part.region, each.region) for each in parts)]
        ignored = self.ignored | mask_of((part.region for part in parts), self.expected.shape)
        return replace(self, ignored=ignored, parts=(*kept, *parts))

    def _is_compared(self, part: Volatile) -> bool:
        return bool(part.region.part_of(self.compared).any())

    @property
    def blinking(self) -> tuple[Volatile, ...]:
        """Return the compared parts that must show each of their looks in turn."""
        return tuple(part for part in self.parts if part.kind == "blinks" and self._is_compared(part))

    def _caret_mismatch(self, seen: Pixels, acted_on: Pixels | None) -> Mismatch | None:
        """Return a mismatch while the caret has not arrived where the step before moved it.

        A caret blinks: it has arrived once the pixels there differ from those before the step.
        """
        if self.caret is None or acted_on is None:
            return None
        if (self.caret.part_of(acted_on) != self.caret.part_of(seen)).any():
            return None
        return Mismatch("the caret did not reach the place where the step before moved it", self.caret)

    def elsewhere(self, seen: Pixels) -> list[Region]:
        """Return the boxes where the screen differs outside the part that the gate compares."""
        return boxes_of(really_differing(self.expected, seen) & ~self.ignored & ~self.compared)


class BlinkWatch:
    """A record of the looks that blinking parts have shown since it was made."""

    def __init__(self, blinking: Iterable[Volatile]) -> None:
        self._unseen = {part: set(range(len(part.looks))) for part in blinking}

    def look(self, seen: Pixels) -> Mismatch | None:
        """Note the looks on the screen; return where a look is still missing, None once all were seen."""
        for part, unseen in self._unseen.items():
            if (look := look_of(part, seen)) is not None:
                unseen.discard(look)
            if (part.region.part_of(seen) == REDACTED_COLOUR).any():
                unseen.clear()
        missing = next((part for part, unseen in self._unseen.items() if unseen), None)
        if missing is None:
            return None
        looks = len(missing.looks)
        words = f"the blinking part has not shown all of its {looks} recorded looks"
        return Mismatch(words, missing.region)


def look_of(part: Volatile, seen: Pixels, compared: Mask | None = None) -> int | None:
    """Return the number of the recorded look that a part of the screen shows; None where it shows another."""
    now = part.region.part_of(seen)
    counts = True if compared is None else part.region.part_of(compared)
    same = (n for n, look in enumerate(part.looks) if not (differing(look.pixels(), now) & counts).any())
    return next(same, None)


def gate(
    expected: Pixels,
    parts: Sequence[Volatile],
    *,
    before: Pixels | None = None,
    parts_before: Sequence[Volatile] = (),
    masks: Sequence[Region] = (),
    touched: Mask | None = None,
    targets: tuple[Region, ...] = (),
) -> Gate:
    """Return the gate to a recorded screen on which `parts` changed by themselves.

    A step turned the screen `before` into it; `before` is None where nothing was done yet. `touched` are the pixels
    that any step so far has changed; None compares the whole screen.
    """
    with_looks = tuple(each for each in parts if each.looks and not any(is_part_of(each.region, m) for m in masks))
    hidden = mask_of((*masks, *(part.region for part in parts if not part.looks)), expected.shape)
    ignored = hidden | mask_of((part.region for part in parts), expected.shape)
    compared = np.ones(expected.shape, np.bool_) if touched is None else touched | mask_of(targets, expected.shape)
    if before is None:
        nothing = np.zeros(expected.shape, np.bool_)
        return Gate(expected, compared, nothing, ignored, with_looks, targets, is_first=True, hidden=hidden)
    left_out = ignored | mask_of((part.region for part in parts_before), expected.shape)
    stays = bool((differing(before, expected) & ~left_out).any())
    caret = None if stays else _moved_caret(parts_before, parts)
    changed = changed_tiles(before, expected)
    made = Gate(expected, compared, changed, ignored, with_looks, targets, hidden=hidden)
    return replace(made, tells=stays or caret is not None, caret=caret)


def _moved_caret(before: Sequence[Volatile], now: Sequence[Volatile]) -> Region | None:
    """Return where one caret moved to, between two screens with these parts; None where that is not clear."""
    gone, come = _carets_apart(before, now), _carets_apart(now, before)
    return come[0] if len(gone) == len(come) == 1 else None


def _carets_apart(parts: Sequence[Volatile], others: Sequence[Volatile]) -> list[Region]:
    """Return the carets that have no pixel in common with the other parts."""
    carets = [part.region for part in parts if part.kind == "caret"]
    return [caret for caret in carets if not any(caret.meets(other.region) for other in others)]


def mask_of(regions: Iterable[Region], shape: tuple[int, ...]) -> Mask:
    """Return a mask that marks the pixels of all regions."""
    mask = np.zeros(shape, np.bool_)
    for region in regions:
        region.part_of(mask)[:] = True
    return mask


def is_maskable(masks: Iterable[Region], shape: tuple[int, ...]) -> bool:
    """Return whether masks leave enough of the screen to propose them."""
    return float(mask_of(masks, shape).mean()) <= LARGEST_MASK


def other_than(
    expected: Pixels, seen: Pixels, parts: Iterable[Volatile] = (), masks: Iterable[Region] = ()
) -> Mismatch | None:
    """Return where a screen differs from the screen of the evidence; None if it does not."""
    return evidence_gate(expected, parts, masks).mismatch(seen)


def evidence_gate(expected: Pixels, parts: Iterable[Volatile] = (), masks: Iterable[Region] = ()) -> Gate:
    """Return the gate to the screen of some evidence. It compares the whole screen."""
    whole = gate(expected, tuple(parts), masks=tuple(masks))
    return replace(whole, whole="the screen differs from the judged one")


def _mismatch(problem: str, found: Mask, targets: Sequence[Region]) -> Mismatch:
    """Return a mismatch whose problem says how many pixels differ, where, and how many near the step's targets."""
    box = box_of(found)
    count = f"{int(found.sum()):,} px {_place_in_words(box)}"
    return Mismatch(f"{count}: {problem}{_near_in_words(found, targets)}", box, tuple(boxes_of(found)))


def _near_in_words(found: Mask, targets: Sequence[Region]) -> str:
    if not targets:
        return ""
    near = found & mask_of(targets, found.shape)
    where = " and ".join(map(_place_in_words, targets))
    if not near.any():
        return f"; the surroundings of the step's target, {where}, are as recorded"
    return f"; of these, {int(near.sum()):,} px in the surroundings, {where}"


def _place_in_words(box: Region) -> str:
    return f"from ({box.left}, {box.top}) to ({box.right}, {box.bottom})"


def surroundings(action: Action, size: tuple[int, int]) -> tuple[Region, ...]:
    """Return the region around each point of an action, cut at the edges of a screen of this size."""
    (across, down), (width, height) = AROUND_PX, size
    return tuple(
        Region(max(0, x - across), max(0, y - down), min(width, x + across), min(height, y + down))
        for x, y in points(action)
    )


def box_of(differs: Mask) -> Region:
    """Return the smallest region that holds all marked pixels. At least one must be marked."""
    rows, columns = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
    return Region(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)


def boxes_of(differs: Mask) -> list[Region]:
    """Return a box around each group of marked pixels. At least `APART_PX` rows or columns separate two groups."""
    if not differs.any():
        return []
    box = box_of(differs)
    inside = box.part_of(differs)
    for axis in (0, 1):
        marked = np.flatnonzero(inside.any(axis=1 - axis))
        if (gaps := np.flatnonzero(np.diff(marked) > APART_PX)).size:
            cut = int(marked[gaps[0]]) + 1 + (box.top, box.left)[axis]
            one, other = differs.copy(), differs.copy()
            one[(np.s_[cut:], np.s_[:, cut:])[axis]] = False
            other[(np.s_[:cut], np.s_[:, :cut])[axis]] = False
            return [*boxes_of(one), *boxes_of(other)]
    return [box]


def is_small(region: Region) -> bool:
    """Return whether a region is no larger than a caret."""
    return region.is_within(CARET_PX)


def unknown_parts(seen: Pixels, known: Iterable[Pixels], left_out: Mask) -> list[Region]:
    """Return where a screen differs from all of the `known` screens.

    A window that is still being drawn does not count: each of its pieces is as on the screen before or after, or of one
    colour. A caret does not count either.
    """
    marked: Mask = ~left_out
    for screen in known:
        if screen.shape != seen.shape:
            return []
        marked &= really_differing(seen, screen)
    return [box for box in boxes_of(marked) if not is_small(box) and not _is_plain(box, seen, marked)]


def _is_plain(box: Region, seen: Pixels, marked: Mask) -> bool:
    pixels = box.part_of(seen)[box.part_of(marked)]
    return bool(np.all(pixels == pixels[0]))
