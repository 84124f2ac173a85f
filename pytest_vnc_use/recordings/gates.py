"""Gates: the comparison of the screen with the recorded one, pixel by pixel, always at the same place.

Where a gate stays closed, the machine that drew the recording may say why.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from pytest_vnc_use import clock
from pytest_vnc_use.backends.pixels import box_of, boxes_of
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import VncUseError
from pytest_vnc_use.recordings.format import DynamicRegion, Screen, dynamic_region, is_part_of, merged
from pytest_vnc_use.recordings.images import (
    Mask,
    Pixels,
    changed_tiles,
    differing,
    pixels_in,
    pixels_of,
    really_differing,
)
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import BAR_PX, CARET_PX, REDACTED_COLOUR, Action, Frame, Glance, Region
from pytest_vnc_use.types.actions import Point, points
from pytest_vnc_use.types.protocols import Controller, Desktop

AROUND_PX = (120, 40)
"""The reach of a target's surroundings: to each side, and up and down."""
_BORDER_PX = 6
"""The width of a border, or of a ring around what has the focus, on a screen on which all is twice as large."""
_SAME_COLOUR_LEVELS = 8
"""The largest difference of a level where pixels of one colour have another one now: blended edges are rounded."""
MOST_MASKS = 4
LARGEST_MASK = 0.25
"""The largest part of a screen for which a mask is proposed."""
LOOK_FOR_BLINK_S = 0.1
"""The longest time between two comparisons where each variant of a blinking part is waited for."""
BACK_S = 2.0
"""How long a difference at the end may last. In a recorded end no difference lasts longer."""


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


def mask_command(test: str, masks: Iterable[Region]) -> str:
    """Return the command that hides these regions from all comparisons of a test."""
    regions = (f"{mask.left},{mask.top},{mask.right},{mask.bottom}" for mask in masks)
    return shlex.join(["cua-vnc", "mask", test, *regions])


@dataclass(frozen=True, eq=False)
class Gate:
    """The screen that a replay must see before a step, or at the end.

    All pixels must be as in `expected`, except those in `ignored`. `changed` are the pixels that the step before
    changed, `targets` the surroundings of the next step's. Each of the `parts` shows one of its variants. `tells`: the
    gate can distinguish this screen from the one before the step, by changed pixels or by the moved `caret`. `hidden`
    are carets, clocks and masks: they are not compared with variants either.
    """

    expected: Pixels
    changed: Mask
    ignored: Mask
    hidden: Mask
    parts: tuple[DynamicRegion, ...] = ()
    targets: tuple[Region, ...] = ()
    is_first: bool = False
    whole: str = "the first screen differs"
    tells: bool = True
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
            if near:
                what = f"the surroundings of the step's target differ, by {near:,} px of"
            elif self.is_first:
                what = f"{self.whole}:"
            elif (differs & self.changed).any():
                what = "what the step before did looks different:"
            else:
                what = "a region that the step before did not touch differs:"
            beside = ", away from where the next step acts" if self.targets and not near else ""
            problem = f"{what} {int(differs.sum()):,} px {format_region(box)}{beside}"
            return Mismatch(problem, box, tuple(boxes_of(differs)))
        for part in self.parts:
            if variant_of(part, seen, ~self.hidden) is None:
                words = f"a region that changes on its own shows none of its {len(part.variants)} recorded variants"
                return Mismatch(words, part.region)
        # a caret blinks: it has arrived once the pixels there differ from those before the step
        came = acted_on is None or not self.caret or (self.caret.part_of(acted_on) != self.caret.part_of(seen)).any()
        if self.caret and not came:
            return Mismatch("the caret did not reach the place where the step before moved it", self.caret)
        return None

    def with_parts(self, parts: Sequence[DynamicRegion]) -> Gate:
        """Return a gate that also accepts any variant of these parts. Each replaces the known parts within it."""
        kept = [part for part in self.parts if not any(is_part_of(part.region, each.region) for each in parts)]
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
        words = "the blinking region has not shown all of its {} recorded variants"
        return None if missing is None else Mismatch(words.format(len(missing.variants)), missing.region)


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
    """Return the gate to a recorded screen on which `parts` changed on their own.

    A step turned the screen `before` into it; `before` is None where nothing was done yet.
    """
    with_variants = tuple(
        each for each in parts if each.variants and not any(is_part_of(each.region, m) for m in masks)
    )
    hidden = mask_of((*masks, *(part.region for part in parts if not part.variants)), expected.shape)
    ignored = hidden | mask_of((part.region for part in parts), expected.shape)
    nothing = np.zeros(expected.shape, np.bool_)
    made = Gate(expected, nothing, ignored, hidden, with_variants, targets, is_first=before is None)
    if before is None:
        return made
    left_out = ignored | mask_of((part.region for part in parts_before), expected.shape)
    stays = bool((differing(before, expected) & ~left_out).any())
    gone, come = (  # the carets that have no pixel in common with what changed on its own on the other screen
        [part.region for part in some if part.kind == "caret" and not any(part.region.meets(o.region) for o in others)]
        for some, others in ((parts_before, parts), (parts, parts_before))
    )
    caret = come[0] if not stays and len(gone) == len(come) == 1 else None
    return replace(made, changed=changed_tiles(before, expected), tells=stays or caret is not None, caret=caret)


def mask_of(regions: Iterable[Region], shape: tuple[int, ...]) -> Mask:
    """Return a mask that marks the pixels of all regions."""
    mask = np.zeros(shape, np.bool_)
    for region in regions:
        region.part_of(mask)[:] = True
    return mask


def is_maskable(masks: Iterable[Region], shape: tuple[int, ...]) -> bool:
    """Return whether masks leave enough of the screen to propose them."""
    return float(mask_of(masks, shape).mean()) <= LARGEST_MASK


def evidence_gate(screen: Screen, masks: Sequence[Region] = ()) -> Gate:
    """Return the gate to the screen of some evidence."""
    made = gate(screen.pixels(), screen.dynamic, masks=(*masks, *screen.redacted))
    return replace(made, whole="the screen differs from the judged one")


def format_region(region: Region) -> str:
    """Return a region as text."""
    return f"from ({region.left}, {region.top}) to ({region.right}, {region.bottom})"


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
    found = []
    for box in boxes_of(marked):
        pixels = box.part_of(seen)[box.part_of(marked)]
        if not box.is_within(CARET_PX) and (pixels != pixels[0]).any():
            found.append(box)
    return found


def is_recoloured(box: Region, targets: Iterable[Point], before: Pixels, seen: Pixels) -> bool:
    """Return whether a box around a target shows the same drawing in other colours, apart from its border."""
    if not any(box.left <= x < box.right and box.top <= y < box.bottom for x, y in targets):
        return False
    was, now = (box.part_of(screen)[_BORDER_PX:-_BORDER_PX, _BORDER_PX:-_BORDER_PX] for screen in (before, seen))
    colours, kinds = np.unique(was, return_inverse=True)
    for level in (now >> shift & 0xFF for shift in (0, 8, 16)):
        least, most = np.full(len(colours), 0xFF), np.zeros(len(colours), np.int64)
        np.minimum.at(least, kinds.ravel(), level.ravel())
        np.maximum.at(most, kinds.ravel(), level.ravel())
        if (most - least > _SAME_COLOUR_LEVELS).any():
            return False
    return len(colours) <= 1 or len(np.unique(now)) > 1


QUIET_S = 1.2
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
_LEAST_BAR_PX = 8


def screen_at_rest(eyes: Controller, quiet_s: float = QUIET_S) -> Screen:
    """Wait until the screen has been quiet for so long; return it with its dynamic regions. Raises DesktopError.

    One that does not become stable is returned as it is, with `quiet_s` 0.
    """
    deadline, is_quiet = Deadline(quiet_s + _GIVE_UP_S), False
    while not is_quiet and deadline.remaining_s:
        eyes.wait_changed(clock.monotonic(), _SAMPLE_S)
        is_quiet = not eyes.changed_since(clock.monotonic() - quiet_s)
    frame = eyes.frame()
    moving = Moving(frame)
    for samples in (_SAMPLES, _MORE_SAMPLES):  # what is more than a caret is watched until its variants come back
        for _ in range(0 if moving.is_known else samples):
            eyes.wait_changed(clock.monotonic(), _SAMPLE_S)
            moving.add(eyes.glance())
    dynamic = merged(moving.parts())
    return screen_of(frame).model_copy(update={"dynamic": dynamic, "quiet_s": quiet_s if is_quiet else 0.0})


def screen_of(frame: Frame) -> Screen:
    """Return a frame's screen."""
    return Screen(redacted=frame.redacted, pixels=partial(pixels_of, frame.png))


class Moving:
    """The moving regions of a frame, and their content at each moment."""

    def __init__(self, frame: Frame) -> None:
        size = frame.ref.width, frame.ref.height
        self._samples: list[tuple[Region, Region, list[Pixels]]] = [
            (region, region.grown(_REACH_PX, *size), []) for region in frame.moving
        ]
        self.add(frame)

    def add(self, screen: Frame | Glance) -> None:
        """Note the whole screen at another moment."""
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
        is_bar = caret and caret.right - caret.left <= BAR_PX[0] and caret.bottom - caret.top >= _LEAST_BAR_PX
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


FAMILIES = ("sans-serif", "serif", "monospace")
_DIFFERS = "This machine differs from the recording's"
_LOOK_S = 20.0
_STARTED = ("xvnc", "qt")
_TOOLS = "dash|bash|coreutils|findutils|grep|sed|dpkg|dbus.*|dconf.*|.*-common"
"""Packages that draw nothing: of the commands below, of wrappers and services, and doubles of a program's own."""
_LOOK = f"""
for family in {" ".join(FAMILIES)}; do fc-match -f "$family: %{{family[0]}}\\n" $family; done
fc-match -f 'text: antialias %{{antialias}}, hinting %{{hinting}} %{{hintstyle}}, subpixels %{{rgba}}\\n' sans-serif
echo "scale: GTK ${{GDK_SCALE:-1}}, Qt ${{QT_SCALE_FACTOR:-1}}"
xdpyinfo | sed -n 's/^ *depth of root window: *\\([0-9]*\\).*/depth: \\1/p'
[ -z "$1" ] || grep -lsz "^HOME=$HOME$" /proc/[0-9]*/environ | sed 's/environ$/exe/' | xargs readlink | sort -u \\
    | xargs dpkg-query -S | sed -n 's/^\\([^ :,]*\\)[:,] *.*/\\1/p' | grep -vxE '{_TOOLS}' \\
    | xargs -r dpkg-query -W -f '${{Package}}: ${{Version}}\\n'
"""
"""It prints what is known there, a line each, and nothing for a program that is not installed.

The last command prints the versions of the packages of all programs that have the home of a desktop that we started.
"""


def machine_of(desktop: Desktop, settings: Settings) -> dict[str, str]:
    """Return what draws on a desktop, by its name: fonts, text, scale, depth, server, rendering, versions of packages.

    What is not known there is left out. Nothing of it names a host or a user.
    """
    kind = settings.server if settings.server in _STARTED else ""
    known = {"rendering": settings.rendering, "server": kind} if kind else {}
    with suppress(VncUseError, AttributeError):  # only VNC reaches it, it is gone, or is a user's own without `run`
        for line in desktop.run(["sh", "-c", _LOOK, "sh", kind], timeout_s=_LOOK_S).stdout.splitlines():
            name, _, value = line.partition(": ")
            known |= {name: value} if value.strip() else {}
    return known


def difference(recorded: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Return in a sentence or two how this machine differs from the recording's; "" if nothing is known to."""
    differs = {name: was for name, was in recorded.items() if here.get(name, was) != was}
    fonts, others = ([name for name in differs if (name in FAMILIES) == is_font] for is_font in (True, False))
    sentences = []
    for start, names in (("Fonts differ from the recording's machine", fonts), (_DIFFERS, others)):
        values = ", ".join(f"{name} is {here[name]} here, {differs[name]} there" for name in names)
        sentences += [f"{start}: {values}."] if names else []
    return " ".join(sentences)
