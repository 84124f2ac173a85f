"""A rehearsal: a replay right after the recording. It learns which differences are
harmless.

If a small, local difference keeps a gate closed, the rehearsal opens the gate and
remembers the variants of that part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, product

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
from pytest_vnc_use.recordings.life import GateOpened, SegmentEvent
from pytest_vnc_use.recordings.moving import distinct
from pytest_vnc_use.recordings.same_text import really_differing
from pytest_vnc_use.types import Region

FIRST_STAYS_S = 2.0
"""How long the first screen must stay in the first rehearsal: a user may act while a
page still loads, and another machine would be done with that too soon. The others act
at once, as a replay does.
"""
_READY_S = 3.0
"""How long it must stay for a program that took no input at once: somewhat longer than
the time that was long enough, as another machine may be slower.
"""
_MAX_DIFFERENCES = 4
"""The maximum places that may differ. With more it is another screen: other fonts,
another theme, another list.
"""
_MAX_LEARNT_SHARE = 0.005
"""The largest share of the screen that may differ: 6,480 pixels of 1440x900. A line of
text has less than 1,500.
"""
_MAX_LEARNT_AREA = 0.02
"""The largest share of the screen that the boxes around the differences may cover."""
_MAX_VARIANTS = 4
_NEAR_LEVELS = 48
"""The largest difference of a level in the same drawing: browsers draw a border 23
levels off now and then, and the edge of a circle 41.
"""
_HOLLOW = 0.25
"""A box with no larger share of differing pixels may be a border."""
_LINE = 0.5
"""A row with a larger share of them is the border's top or bottom."""


class Rehearsal:
    """The differences that one replay of new recordings teaches. `learnt` returns a
    recording with them.

    Args:
        recordings: What is rehearsed; in CI some are proposals, in other files than
            those of the tests.
        first_stays_s: How long the first screen of each task must stay before the
            first step, in seconds.
    """

    def __init__(
        self, recordings: Iterable[Recording], first_stays_s: float = FIRST_STAYS_S
    ) -> None:
        self.first_stays_s = first_stays_s
        self.recordings = {recording.test: recording for recording in recordings}
        """Each by its test, or its name as in `shared::sign_in`."""
        self._parts: dict[int, tuple[DynamicRegion, ...]] = {}
        """The learnt parts by the `id` of each screen of the recording, which stays
        alive with it.
        """
        self._transients: dict[int, tuple[Screen, ...]] = {}
        """The learnt transient frames by the `id` of each step."""
        self._unstable: tuple[DynamicRegion, ...] = ()
        """The unstable parts of all screens, recorded and learnt."""
        self._unready: set[int] = set()
        """The `id` of each first screen on which the first step came too soon."""
        self.remedies: list[str] = []
        """What can be done about the gate that stayed closed, a line each."""
        for recording in self.recordings.values():
            for screen in screens(recording):
                self._unstable += _unstable_of(screen.dynamic)

    def widened(self, gate: Gate, screen: Screen) -> Gate:
        """Return the gate to a screen that also accepts the unstable parts of other
        screens.

        Such a part must be on this screen too, as it was recorded on the other.
        """
        learnt = self._parts.get(id(screen), ())
        taken = [part.region for part in (*screen.dynamic, *learnt)]
        fitting = []
        for part in self._unstable:
            if part.region.meets_any(taken):
                continue
            recorded = part.variants[0].pixels()
            shown = part.region.part_of(gate.expected)
            is_shown = not differing(recorded, shown).any()
            if is_shown and _is_learnable(part):
                fitting.append(part)
        return gate.with_parts([*learnt, *fitting])

    @staticmethod
    def with_learned(
        gate: Gate, seen: Pixels, acted_on: Pixels | None = None
    ) -> Gate | None:
        """Return the gate with the variants that open it to a screen; None if more
        differs than may be learnt.
        """
        for _ in range(2 * _MAX_DIFFERENCES):
            mismatch = gate.mismatch(seen, acted_on)
            if mismatch is None:
                return gate
            parts = _other_variants(mismatch, gate, seen)
            if not parts or not all(map(_is_learnable, parts)):
                return None
            gate = gate.with_parts(parts)
        return None

    def learn_evidence(self, screen: Screen, gate: Gate, seen: Pixels) -> bool:
        """Learn the variant of a claim's evidence that a screen shows; return False
        where it differs by more than may be learnt.
        """
        widened = self.widened(gate, screen)
        learned = self.with_learned(widened, seen)
        if learned:
            self.note(screen, learned, seen)
        return learned is not None

    def notice(self, event: SegmentEvent) -> None:
        """Learn from each gate that was open."""
        if isinstance(event, GateOpened):
            self.note(event.screen, event.gate, event.seen)

    def note(self, screen: Screen, gate: Gate, seen: Pixels) -> None:
        """Remember where a screen with an open gate showed another variant than the
        recorded one.
        """
        learnt = self._parts.get(id(screen), ())
        compared = ~gate.hidden
        for part in _unstable_of(gate.parts):
            if part in screen.dynamic or part in learnt:
                continue
            shown = variant_of(part, seen, compared)
            recorded = variant_of(part, gate.expected, compared)
            if shown != recorded:
                learnt = _join(learnt, part)
                self._unstable = _join(self._unstable, part)
        self._parts[id(screen)] = learnt

    def note_transient(self, step: RecordedStep, transient: Screen) -> None:
        """Remember a transient frame after a step."""
        earlier = self._transients.get(id(step), ())
        self._transients[id(step)] = (*earlier, transient)

    def note_unready(self, first: Screen) -> None:
        """Remember that the step on this first screen came too soon: at once it did not
        do what it did when the screen had stayed.
        """
        self._unready.add(id(first))

    @property
    def is_unready(self) -> bool:
        """Whether a first step came too soon in a recording that can learn it: the
        rehearsal is then repeated.
        """
        own = chain.from_iterable(map(screens, self.recordings.values()))
        return not self._unready.isdisjoint(map(id, own))

    @property
    def lessons(self) -> list[str]:
        """What was learnt, a line each."""
        parts = chain.from_iterable(self._parts.values())
        regions = dict.fromkeys(part.region for part in parts)
        lines = [f"new variant, {region}" for region in regions]
        if self._unready:
            lines.append(
                f"the first screen must stay {_READY_S:g} s, as the first step did not"
                " do at once what it did later"
            )
        return lines

    def learnt(self, recording: Recording) -> Recording:
        """Return one of the recordings with everything learnt; the recording itself if
        nothing was learnt.
        """
        has_parts = any(self._parts.values())
        if not (has_parts or self._transients or self._unready):
            return recording

        segments = []
        for segment in recording.segments:
            steps = tuple(map(self._with_transients, segment.steps))
            update: dict[str, object] = {"steps": steps}
            if id(segment.screens[0]) in self._unready:
                update["first_stays_s"] = _READY_S
            segments.append(segment.model_copy(update=update))
        learnt = recording.model_copy(update={"segments": tuple(segments)})
        return with_screens(learnt, self._with_parts)

    def _with_transients(self, step: RecordedStep) -> RecordedStep:
        passed = self._transients.get(id(step), ())
        transients = (*step.transients, *passed)
        return step.model_copy(update={"transients": transients})

    def _with_parts(self, screen: Screen) -> Screen:
        parts = self._parts.get(id(screen), ())
        dynamic = _join(screen.dynamic, *parts)
        return screen.model_copy(update={"dynamic": dynamic})


def _unstable_of(parts: Iterable[DynamicRegion]) -> tuple[DynamicRegion, ...]:
    return tuple(part for part in parts if part.kind == "unstable")


def _join(
    parts: Iterable[DynamicRegion], *more: DynamicRegion
) -> tuple[DynamicRegion, ...]:
    """Return all parts. A new part replaces the unstable parts within it; a caret
    stays.
    """
    new = [part.region for part in more]
    kept = []
    for part in parts:
        is_replaced = part.region.is_part_of_any(new)
        if part.kind != "unstable" or not is_replaced:
            kept.append(part)
    return (*kept, *more)


def _other_variants(
    mismatch: Mismatch, gate: Gate, seen: Pixels
) -> list[DynamicRegion]:
    """Return parts whose variants include the current one; none where the difference
    is not small and local.
    """
    unstable = _unstable_of(gate.parts)
    if not mismatch.boxes:
        # an unstable part shows none of its variants
        for part in unstable:
            if part.region == mismatch.region:
                return [_joined_part(part.region, [part], gate, seen)]
        return []
    differs = really_differing(gate.expected, seen, gate.ignored)
    boxes = _boxes_to_learn(mismatch, differs)
    if any(blinking.region.meets_any(boxes) for blinking in gate.blinking):
        return []
    parts = []
    for box in boxes:
        known = [part for part in unstable if part.region.meets(box)]
        parts.append(_joined_part(box, known, gate, seen))
    return parts


def _boxes_to_learn(mismatch: Mismatch, differs: Mask) -> list[Region]:
    """Return the boxes around the differences of two screens; none where there are too
    many, or they are too large.
    """
    # with a pixel around each, so that a move of its content can be seen
    boxes = [box.grown(1, differs.shape) for box in _thin_boxes(differs)]
    area = sum(box.area for box in boxes)
    is_many = len(mismatch.boxes) > _MAX_DIFFERENCES
    is_large = differs.mean() > _MAX_LEARNT_SHARE
    is_wide = area > _MAX_LEARNT_AREA * differs.size
    return [] if is_many or is_large or is_wide else boxes


def _joined_part(
    box: Region, known: Sequence[DynamicRegion], gate: Gate, seen: Pixels
) -> DynamicRegion:
    """Return the part in a box and in the known parts there, with its variants:
    recorded, seen before, seen now.

    A known part may be only a piece of the current one, if an earlier gate compared
    only that. Around it, its variants are then drawn as recorded:

        recorded     known part with its variants     box, seen now
        a b c          b, d                           x y z
        the new part's variants: a b c, a d c, x y z
    """
    region = box
    for part in known:
        region = region.joined(part.region)
    recorded = region.part_of(gate.expected)
    variants = [recorded.copy()]
    for part in known:
        shown = part.region.part_of(seen)
        inside = part.region.moved(-region.left, -region.top)
        for variant in part.variants[1:]:
            pixels = variant.pixels()
            if differing(pixels, shown).any():
                drawn = recorded.copy()
                inside.part_of(drawn)[:] = pixels
                variants.append(drawn)
    variants.append(region.part_of(seen).copy())
    different, _ = distinct(variants)
    return dynamic_region(region, "unstable", *different)


def _is_learnable(part: DynamicRegion) -> bool:
    """Return whether a part may have these variants: few enough, and each the recorded
    drawing, no other value or word.
    """
    if len(part.variants) > _MAX_VARIANTS:
        return False
    recorded = part.variants[0].pixels()
    others = part.variants[1:]
    return all(_is_same_drawing(recorded, variant.pixels()) for variant in others)


def _is_same_drawing(one: Pixels, other: Pixels) -> bool:
    """Return whether two images show the same drawing, moved by a pixel at most and a
    little lighter or darker.

    The outermost pixels of both must be equal, or nearly: the move leaves them out of
    the comparison.

    >>> lines = np.array([[0, 255, 0, 0]] * 3, np.uint32)
    >>> _is_same_drawing(lines, np.roll(lines, 1, axis=1))
    True
    >>> _is_same_drawing(lines, np.roll(lines, 2, axis=1))
    False
    """
    height, width = one.shape
    for down, across in product((-1, 0, 1), repeat=2):
        # Both without the rows and columns that the other one lacks once it is moved:
        #   down = 1    one     rows 1 … height
        #               other   rows 0 … height - 1
        rows = _rows_in_both(height, down)
        columns = _rows_in_both(width, across)
        other_rows = _rows_in_both(height, -down)
        other_columns = _rows_in_both(width, -across)
        levels = levels_of(one[rows, columns])
        other_levels = levels_of(other[other_rows, other_columns])
        if (np.abs(levels - other_levels) <= _NEAR_LEVELS).all():
            return True
    return False


def _rows_in_both(length: int, moved_by: int) -> slice:
    """Return which of `length` rows, or columns, an image that is moved has too.

    >>> _rows_in_both(9, 1), _rows_in_both(9, -1)
    (slice(1, 9, None), slice(0, 8, None))
    """
    return slice(max(0, moved_by), length + min(0, moved_by))


def _thin_boxes(differs: Mask) -> Iterator[Region]:
    """Yield boxes around the differences; for a border, which is hollow, boxes around
    its four sides.

        ┌────────┐      one box around it would hold the field's text too, and more of
        │ text   │      the screen than may be learnt
        └────────┘
    """
    for box in boxes_of(differs):
        inside = box.part_of(differs)
        is_hollow = inside.mean() <= _HOLLOW
        if min(inside.shape) <= 2 * APART_PX or not is_hollow:
            yield box
            continue
        # the rows of its top and bottom; in the others, only its left and right are
        is_line = inside.mean(axis=1) > _LINE
        lines = inside & is_line[:, None]
        between = inside & ~is_line[:, None]
        for side in (*boxes_of(lines), *boxes_of(between)):
            yield side.moved(box.left, box.top)
