"""A rehearsal: a replay right after the recording. It learns which differences are harmless.

If a small, local difference keeps a gate closed, the rehearsal opens the gate and remembers the variants of that part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product

import numpy as np

from pytest_vnc_use.backends.pixels import APART_PX, boxes_of
from pytest_vnc_use.recordings.format import (
    DynamicRegion,
    RecordedStep,
    Recording,
    Screen,
    dynamic_region,
    screens,
    with_screens,
)
from pytest_vnc_use.recordings.gates import Gate, Mismatch, variant_of
from pytest_vnc_use.recordings.images import Mask, Pixels, differing, levels_of
from pytest_vnc_use.recordings.moving import distinct
from pytest_vnc_use.recordings.same_text import really_differing
from pytest_vnc_use.types import Region

MAX_DIFFERENCES = 4
"""The most places that may differ. With more it is another screen: other fonts, another theme, another list."""
MAX_LEARNT_SHARE = 0.005
"""The largest share of the screen that may differ: 6,480 pixels of 1440x900. A line of text has less than 1,500."""
_MAX_LEARNT_AREA = 0.02
"""The largest share of the screen that the boxes around the differences may cover."""
MAX_VARIANTS = 4
NEAR_LEVELS = 32
"""The largest difference of a level in the same drawing: browsers draw a border 23 levels off now and then."""
_HOLLOW, _LINE = 0.25, 0.5
"""A box with a smaller marked share may be a border; rows with more than the second share are its top and bottom."""


class Rehearsal:
    """The differences that one replay of a recording teaches. `learnt` returns the recording with them."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._parts: dict[int, tuple[DynamicRegion, ...]] = {}
        """The learnt parts by the `id` of each screen of the recording, which stays alive with it."""
        self._transients: dict[int, tuple[Screen, ...]] = {}
        self._known = [part for screen in screens(recording) for part in screen.dynamic if part.kind == "unstable"]

    def widened(self, gate: Gate, screen: Screen) -> Gate:
        """Return the gate to a screen that also accepts the unstable parts of other screens.

        Such a part must be on this screen too, as it was recorded on the other.
        """
        learnt = self._parts.get(id(screen), ())
        fitting = [
            part
            for part in self._known
            if not any(part.region.meets(other.region) for other in (*screen.dynamic, *learnt))
            if not differing(part.variants[0].pixels(), part.region.part_of(gate.expected)).any()
            if _may_be(part)
        ]
        return gate.with_parts([*learnt, *fitting])

    @staticmethod
    def opened(gate: Gate, seen: Pixels, acted_on: Pixels | None = None) -> Gate | None:
        """Return the gate, opened to the screen by more variants; None if more differs than may be learnt."""
        for _ in range(2 * MAX_DIFFERENCES):
            mismatch = gate.mismatch(seen, acted_on)
            if mismatch is None:
                return gate
            parts = list(_other_variants(mismatch, gate, seen))
            if not parts or not all(_may_be(part) for part in parts):
                return None
            gate = gate.with_parts(parts)
        return None

    def accepts(self, screen: Screen, gate: Gate, seen: Pixels) -> bool:
        """Return whether a screen shows the evidence, or a slightly different variant of it, which is learnt."""
        if opened := self.opened(self.widened(gate, screen), seen):
            self.note(screen, opened, seen)
        return opened is not None

    def note(self, screen: Screen, gate: Gate, seen: Pixels) -> None:
        """Remember where a screen with an open gate showed another variant than the recorded one."""
        known = self._parts.get(id(screen), ())
        for part in gate.parts:
            is_new = part.kind == "unstable" and part not in (*screen.dynamic, *known)
            if is_new and variant_of(part, seen, ~gate.hidden) != variant_of(part, gate.expected, ~gate.hidden):
                known = _join(known, [part])
                self._known = [*_join(self._known, [part])]
        self._parts[id(screen)] = known

    def note_transient(self, step: RecordedStep, transient: Screen) -> None:
        """Remember a transient frame after a step."""
        self._transients[id(step)] = (*self._transients.get(id(step), ()), transient)

    @property
    def regions(self) -> list[Region]:
        """Return the places where other variants were learnt, each once."""
        return [*dict.fromkeys(part.region for parts in self._parts.values() for part in parts)]

    def learnt(self) -> Recording:
        """Return the recording with everything learnt; the recording itself if nothing was learnt."""
        if not any(self._parts.values()) and not self._transients:
            return self.recording

        def with_transients(step: RecordedStep) -> RecordedStep:
            return step.model_copy(update={"transients": (*step.transients, *self._transients.get(id(step), ()))})

        def with_parts(screen: Screen) -> Screen:
            dynamic = _join(screen.dynamic, self._parts.get(id(screen), ()))
            return screen.model_copy(update={"dynamic": dynamic})

        runs = (run.model_copy(update={"steps": tuple(map(with_transients, run.steps))}) for run in self.recording.runs)
        return with_screens(self.recording.model_copy(update={"runs": tuple(runs)}), with_parts)


def _join(parts: Sequence[DynamicRegion], more: Sequence[DynamicRegion]) -> tuple[DynamicRegion, ...]:
    """Return all parts. A new part replaces the unstable parts within it; a caret stays."""
    new = [part.region for part in more]
    kept = [part for part in parts if part.kind != "unstable" or not any(map(part.region.is_part_of, new))]
    return (*kept, *more)


def _other_variants(mismatch: Mismatch, gate: Gate, seen: Pixels) -> Iterator[DynamicRegion]:
    """Yield parts whose variants include the current one; none where the difference is not small and local."""
    unstable = [part for part in gate.parts if part.kind == "unstable"]
    if not mismatch.boxes:
        known = next((part for part in unstable if part.region == mismatch.region), None)
        if known:
            yield _part(known.region, [known], gate, seen)
        return
    differs = really_differing(gate.expected, seen) & ~gate.ignored
    # with a pixel around each, so that a move of its content can be seen
    boxes = [box.grown(1, *differs.shape[::-1]) for box in _thin_boxes(differs)]
    area = sum((box.right - box.left) * (box.bottom - box.top) for box in boxes)
    is_small = differs.mean() <= MAX_LEARNT_SHARE and area <= _MAX_LEARNT_AREA * differs.size
    if len(mismatch.boxes) > MAX_DIFFERENCES or not is_small:
        return
    if any(box.meets(part.region) for box in boxes for part in gate.blinking):
        return
    for box in boxes:
        yield _part(box, [part for part in unstable if part.region.meets(box)], gate, seen)


def _part(box: Region, known: Sequence[DynamicRegion], gate: Gate, seen: Pixels) -> DynamicRegion:
    """Return the part in a box and in the known parts there, with its variants: recorded, seen before, seen now.

    A known part may be only a piece of the current one, if an earlier gate compared only that.
    """
    region = reduce(Region.joined, (part.region for part in known), box)
    recorded = region.part_of(gate.expected)
    variants = [recorded.copy()]
    for part in known:
        for variant in part.variants[1:]:
            if differing(variant.pixels(), part.region.part_of(seen)).any():
                painted = gate.expected.copy()
                part.region.part_of(painted)[:] = variant.pixels()
                variants.append(region.part_of(painted).copy())
    variants.append(region.part_of(seen).copy())
    return dynamic_region(region, "unstable", *distinct(variants)[0])


def _may_be(part: DynamicRegion) -> bool:
    """Return whether a part may have these variants: each must be the recorded drawing, and no other value or word."""
    recorded, *others = (variant.pixels() for variant in part.variants)
    return len(others) < MAX_VARIANTS and all(is_same_drawing(recorded, variant) for variant in others)


def is_same_drawing(one: Pixels, other: Pixels) -> bool:
    """Return whether two images show the same drawing, moved by a pixel at most and a little lighter or darker.

    The outermost pixels of both must be equal, or nearly: the move leaves them out of the comparison.
    """
    height, width = one.shape
    for down, across in product((-1, 0, 1), repeat=2):
        moved = one[max(0, down) : height + min(0, down), max(0, across) : width + min(0, across)]
        beside = other[max(0, -down) : height + min(0, -down), max(0, -across) : width + min(0, -across)]
        if (np.abs(levels_of(moved) - levels_of(beside)) <= NEAR_LEVELS).all():
            return True
    return False


def _thin_boxes(differs: Mask) -> Iterator[Region]:
    """Yield boxes around the differences; for a border, which is hollow, boxes around its four sides."""
    for box in boxes_of(differs):
        inside = box.part_of(differs)
        if min(inside.shape) <= 2 * APART_PX or inside.mean() > _HOLLOW:
            yield box
            continue
        of_box = np.zeros_like(differs)
        box.part_of(of_box)[:] = inside
        lines = np.zeros(differs.shape[0], np.bool_)
        lines[box.top : box.bottom] = inside.mean(axis=1) > _LINE
        yield from boxes_of(of_box & lines[:, None])
        yield from boxes_of(of_box & ~lines[:, None])
