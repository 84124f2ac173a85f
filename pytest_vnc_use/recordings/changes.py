"""What differs between two versions of a test's recording, as a reviewer of a commit
wants to see it: its text, and each screen that looks different.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import NamedTuple

from pytest_vnc_use.backends.pixels import boxes_of
from pytest_vnc_use.recordings.format import (
    Accepted,
    Evidence,
    Recording,
    Screen,
    Segment,
    named_screens,
)
from pytest_vnc_use.recordings.images import Pixels, differing
from pytest_vnc_use.runs.transcript import format_caption
from pytest_vnc_use.types import Region

_CONTEXT_LINES = 2


@dataclass(frozen=True, eq=False)
class ScreenChange:
    """A screen that was added, was removed, or looks different.

    `location` says where it stands in the test, such as `before step s2: click "Book"
    (button)`. `boxes` are around what differs; of a stable screen that was added or
    removed there are none.
    """

    location: str
    boxes: tuple[Region, ...]
    before: Pixels | None
    after: Pixels | None

    @property
    def look(self) -> Look:
        """What differs, as two changes are compared by it: they must be the same to the
        bit where a whole screen is new, as it is not kept.
        """
        digest = hashlib.sha256()
        parts = []
        for screen in (self.before, self.after):
            if screen is None:
                digest.update(b"none")
                continue
            for box in self.boxes:
                parts.append(box.part_of(screen).copy())
            if not self.boxes:
                digest.update(repr(screen.shape).encode())
                digest.update(screen.tobytes())
        return Look(self.boxes, tuple(parts), digest.digest())


class Look(NamedTuple):
    """The boxes of a change, the pixels in them before and after, and a digest of whole
    screens.
    """

    boxes: tuple[Region, ...]
    parts: tuple[Pixels, ...]
    digest: bytes

    def is_like(self, other: Look) -> bool:
        """Return whether two changes look the same."""
        if self.boxes != other.boxes or self.digest != other.digest:
            return False
        for part, other_part in zip(self.parts, other.parts, strict=True):
            if differing(part, other_part).any():
                return False
        return True


def changed_lines(before: Recording | None, after: Recording | None) -> list[str]:
    """Return what differs in the text: lines that begin with `+`, `-` or a space, as in
    a unified diff. None stands for no recording.
    """
    old = list(_lines_of(before)) if before else []
    new = list(_lines_of(after)) if after else []
    diff = [*unified_diff(old, new, n=_CONTEXT_LINES, lineterm="")]
    # the first two lines name files
    return [line for line in diff[2:] if not line.startswith("@@")]


def accepted_since(before: Recording | None, after: Recording | None) -> list[str]:
    """Return a sentence for each change of the product that only the newer version has
    as accepted.
    """
    known = before.history if before else {}
    history = after.history if after else {}
    return [
        format_accepted(change, location)
        for change, location in history.items()
        if change not in known
    ]


def format_accepted(change: Accepted, location: str, test: str = "") -> str:
    """Return who accepted a change, when and where."""
    parts = [f"{change.at:%Y-%m-%d %H:%M} {change.by} accepted", test, location]
    at = change.region
    if at:
        parts.append(f"{at.left},{at.top},{at.right},{at.bottom}")
    if change.value:
        parts.append(f"as a place of the value {change.value!r}")
    if change.claim:
        parts.append(f"for the claim {change.claim!r}")
    sentence = " ".join(part for part in parts if part)
    return f"{sentence}: {change.steps}" if change.steps else sentence


def step_lines(segment: Segment) -> Iterator[str]:
    """Yield a line for each step of a segment, as a user reads it."""
    for step in segment.steps:
        yield f"  {step.id}: {format_caption(step.action, step.elements)}"


def claim_lines(claims: Sequence[Evidence]) -> Iterator[str]:
    """Yield a line for each answer of a judge."""
    for claim in claims:
        value = f" {claim.value!r}" if claim.verdict == "read" else ""
        yield f"  {claim.verdict}{value}: {claim.claim}"


def _lines_of(recording: Recording) -> Iterator[str]:
    """Yield what a reviewer reads of a recording beside its screens."""
    width, height = recording.screen_size
    yield f"screen: {width}x{height}"
    for name in recording.secrets:
        yield f"secret: {name}"
    for mask in recording.masks:
        yield f"mask: {mask}"
    for named in named_screens(recording):
        for mask in named.screen.masks:
            yield f"mask at {named.name}: {mask}"
        for shown in named.screen.values:
            yield f"value at {named.name}: {shown.name} {shown.region}"
    yield from claim_lines(recording.claims)
    for segment in recording.segments:
        yield f"task: {segment.task}"
        yield from step_lines(segment)
        yield from claim_lines(segment.claims)
        yield f"  end: confirmed by {segment.confirmed_by}"


class _Placed(NamedTuple):
    """A screen, with its location in words; for a transient, the stable screen after
    it.
    """

    location: str
    screen: Screen
    stable: Screen | None = None


def changed_screens(
    before: Recording | None, after: Recording | None
) -> Iterator[ScreenChange]:
    """Yield the screens that differ: those of the newer version in its order, then
    those that were removed.
    """
    old = dict(_placed_screens(before)) if before else {}
    new = dict(_placed_screens(after)) if after else {}
    for place, (location, screen, _) in new.items():
        if place not in old:
            yield _added(new[place])
            continue
        was = old[place].screen.pixels()
        pixels = screen.pixels()
        if was.shape != pixels.shape:
            yield ScreenChange(f"{location} (of another size)", (), was, pixels)
            continue
        boxes = tuple(boxes_of(differing(was, pixels)))
        if boxes:
            yield ScreenChange(location, boxes, was, pixels)
    for place, (location, screen, _) in old.items():
        if place not in new:
            yield ScreenChange(f"{location} (removed)", (), screen.pixels(), None)


def _added(placed: _Placed) -> ScreenChange:
    """Return the change that a new screen is. A transient is compared with the stable
    screen after it, where it was accepted, or everywhere if a rehearsal has learned it.
    """
    location = f"{placed.location} (added)"
    pixels = placed.screen.pixels()
    if placed.stable is None:
        return ScreenChange(location, (), None, pixels)
    stable = placed.stable.pixels()
    accepted = [change.region for change in placed.screen.history if change.region]
    boxes = tuple(accepted or boxes_of(differing(stable, pixels)))
    return ScreenChange(location, boxes, stable, pixels)


def _placed_screens(recording: Recording) -> Iterator[tuple[str, _Placed]]:
    """Yield the gates and transients, each after the name of its place, which stays
    where other steps are inserted or dropped.
    """
    for segment in recording.segments:
        for step, stable in zip(segment.steps, segment.screens[1:], strict=True):
            caption = f"step {step.id}: {format_caption(step.action, step.elements)}"
            yield step.id, _Placed(f"before {caption}", step.screen)
            for number, screen in enumerate(step.transients, 1):
                placed = _Placed(f"briefly after {caption}", screen, stable)
                yield f"{step.id}-transient{number}", placed
        end = f"at the end of the task {segment.task!r}"
        yield segment.id, _Placed(end, segment.end)
