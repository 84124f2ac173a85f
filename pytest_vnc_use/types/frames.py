"""Frames and raw frames of a desktop, regions of the screen, and why a wait for the
screen ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pytest_vnc_use import clock

SettledReason = Literal["settled", "animated", "nothing_changed", "limit"]


@dataclass(frozen=True)
class FrameRef:
    """A stored frame. `digest` is the SHA-256 (hex) of its PNG; `width` and `height`
    are in pixels.
    """

    digest: str
    width: int
    height: int


@dataclass(frozen=True)
class Frame:
    """The whole screen at one time, as PNG (8-bit RGB). Frames with the same image are
    equal.

    `taken_at` is that time on the monotonic clock. `moving` is where the screen always
    changes (a spinner, a video). `pixels` are the pixels of the PNG as an array of
    shape (height, width), with blue in the lowest byte and any value in the highest.
    They are None if they were not available when the frame was taken, or are released.
    Code must not write to them. `redacted` are the boxes over typed secrets, which no
    comparison reads.
    """

    ref: FrameRef
    png: bytes = field(repr=False)
    taken_at: float = field(default_factory=clock.monotonic, compare=False)
    moving: tuple[Region, ...] = field(default=(), compare=False)
    pixels: object = field(default=None, compare=False, repr=False)
    redacted: tuple[Region, ...] = field(default=(), compare=False)

    def release(self) -> None:
        """Drop the pixels, because others may keep an error, and thereby this frame.
        They can still be decoded from the PNG.
        """
        object.__setattr__(self, "pixels", None)


@dataclass(frozen=True)
class RawFrame:
    """The screen at one time, as an array like a frame's `pixels`. It is not encoded
    and not stored.
    """

    pixels: object = field(repr=False)
    taken_at: float = field(default_factory=clock.monotonic, compare=False)


@dataclass(frozen=True)
class Settled:
    """The reason why a wait for the screen ended, and its length.

    `settled`: the screen is stable; `animated`: it is, except for moving regions;
    `nothing_changed`: it never changed; `limit`: the time was up.
    """

    reason: SettledReason
    duration_s: float


@dataclass(frozen=True)
class Region:
    """A rectangle of the screen in pixels. The right and bottom edges are outside."""

    left: int
    top: int
    right: int
    bottom: int

    def __str__(self) -> str:
        return f"from ({self.left}, {self.top}) to ({self.right}, {self.bottom})"

    @property
    def width(self) -> int:
        """The number of its columns."""
        return self.right - self.left

    @property
    def height(self) -> int:
        """The number of its rows."""
        return self.bottom - self.top

    @property
    def area(self) -> int:
        """The number of its pixels."""
        return self.width * self.height

    def is_within(self, size: tuple[int, int]) -> bool:
        """Return whether the region is no larger than a width and a height."""
        width, height = size
        return self.width <= width and self.height <= height

    def meets(self, other: Region) -> bool:
        """Return whether the two regions share a pixel."""
        across = self.left < other.right and other.left < self.right
        down = self.top < other.bottom and other.top < self.bottom
        return across and down

    def meets_any(self, others: Iterable[Region]) -> bool:
        """Return whether the region shares a pixel with one of some others."""
        return any(map(self.meets, others))

    def is_part_of(self, other: Region) -> bool:
        """Return whether the region lies within another."""
        return self.joined(other) == other

    def is_part_of_any(self, others: Iterable[Region]) -> bool:
        """Return whether the region lies within one of some others."""
        return any(map(self.is_part_of, others))

    def holds(self, point: tuple[int, int]) -> bool:
        """Return whether a pixel is in the region."""
        x, y = point
        return self.left <= x < self.right and self.top <= y < self.bottom

    def holds_any(self, points: Iterable[tuple[int, int]]) -> bool:
        """Return whether one of these pixels is in the region."""
        return any(map(self.holds, points))

    def grown(self, by_px: int, shape: tuple[int, ...]) -> Region:
        """Return the region grown by a number of pixels at each side, within a screen
        whose array has this shape: (height, width).
        """
        height, width = shape
        left = max(0, self.left - by_px)
        top = max(0, self.top - by_px)
        right = min(width, self.right + by_px)
        bottom = min(height, self.bottom + by_px)
        return Region(left, top, right, bottom)

    def moved(self, across: int, down: int) -> Region:
        """Return the region, moved right by `across` pixels and down by `down`."""
        left = self.left + across
        top = self.top + down
        return Region(left, top, self.right + across, self.bottom + down)

    def joined(self, other: Region) -> Region:
        """Return the smallest region that contains both."""
        left = min(self.left, other.left)
        top = min(self.top, other.top)
        right = max(self.right, other.right)
        bottom = max(self.bottom, other.bottom)
        return Region(left, top, right, bottom)

    def part_of(self, screen: Any) -> Any:
        """Return this region of an array of shape (height, width, …), as a view."""
        return screen[self.top : self.bottom, self.left : self.right]


@dataclass(frozen=True)
class Drift:
    """A screen that differs from its recording within `region`. `problem` says how.

    `boxes` contain each pixel that differs. `masks` are the masks that are offered, if
    any. `claim` is the claim whose evidence is missing, if any. `healed` is true if a
    model continued; the recording is then healed if the test passes.
    """

    problem: str
    recorded: FrameRef
    seen: FrameRef
    region: Region | None = None
    healed: bool = False
    boxes: tuple[Region, ...] = ()
    masks: tuple[Region, ...] = ()
    claim: str = ""
    kind: Literal["drift"] = "drift"


@dataclass(frozen=True)
class Transient:
    """A transient frame of a replay that its recording did not have, within `region`.
    `problem` states where. It came after the step with this number; 0 is the last one.
    """

    problem: str
    seen: FrameRef
    region: Region
    step: int = 0
    kind: Literal["transient"] = "transient"


@dataclass(frozen=True)
class DirectoryCreated:
    """A run has its directory now; it starts once the desktop is seen. Observers
    receive it; the trace does not.
    """

    directory: Path
    kind: Literal["directory_created"] = "directory_created"


@dataclass(frozen=True)
class GateAwaited:
    """A wait for a recorded screen that has already taken long. It ends within
    `remaining_s`. When it was recorded, the screen took `recorded_s`; 0 if unknown.

    Observers receive this event; the trace does not.
    """

    remaining_s: float
    recorded_s: float = 0.0
    kind: Literal["gate_awaited"] = "gate_awaited"


@dataclass(frozen=True)
class RecordingAwaited:
    """A wait for another process of the session, which records the name.

    Observers receive it; the trace does not.
    """

    name: str
    kind: Literal["recording_awaited"] = "recording_awaited"


REDACTED_COLOUR = 0x777A93
"""The colour over a field in which a secret was typed, `0xRRGGBB`. No comparison reads
pixels that have it.
"""
BAR_PX = (3, 48)
"""The width and height of the largest caret that is a bar, in pixels."""
CARET_PX = (12, 48)
"""The width and height of the largest caret in pixels. What differs within one such box
may be a blink.
"""
LOOK = "pytest_vnc_use.look"
"""The audit event that is raised when a test looks at the desktop."""
NO_FRAME = FrameRef("", 0, 0)
"""The placeholder in a run's start until its first frame is there."""
