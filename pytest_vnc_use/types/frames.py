"""Frames and raw frames of a desktop, regions of them, and the reasons why a wait for
the screen ended.
"""

from __future__ import annotations

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
    They are None if they were not available when the frame was taken. Code must not
    write to them. `redacted` are the boxes over typed secrets, which no comparison
    reads.
    """

    ref: FrameRef
    png: bytes = field(repr=False)
    taken_at: float = field(default_factory=clock.monotonic, compare=False)
    moving: tuple[Region, ...] = field(default=(), compare=False)
    pixels: object = field(default=None, compare=False, repr=False)
    redacted: tuple[Region, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class RawFrame:
    """The screen at one time, as an array like a frame's `pixels`. It is not encoded
    and not stored.
    """

    pixels: object = field(repr=False)
    taken_at: float = field(default_factory=clock.monotonic, compare=False)


@dataclass(frozen=True)
class Settled:
    """The reason why a wait for the screen ended.

    It is stable again, stable except for moving tiles, it never changed, or time was
    up.
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

    def is_within(self, size: tuple[int, int]) -> bool:
        """Return whether the region is no larger than a width and a height."""
        return self.right - self.left <= size[0] and self.bottom - self.top <= size[1]

    def meets(self, other: Region) -> bool:
        """Return whether the two regions share a pixel."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def is_part_of(self, other: Region) -> bool:
        """Return whether the region lies within another."""
        return self.joined(other) == other

    def holds(self, point: tuple[int, int]) -> bool:
        """Return whether a pixel is in the region."""
        return self.left <= point[0] < self.right and self.top <= point[1] < self.bottom

    def grown(self, by_px: int, width: int, height: int) -> Region:
        """Return the region with so many pixels more at each side, as far as a screen
        of that size goes.
        """
        right = min(width, self.right + by_px)
        bottom = min(height, self.bottom + by_px)
        return Region(
            max(0, self.left - by_px), max(0, self.top - by_px), right, bottom
        )

    def joined(self, other: Region) -> Region:
        """Return the smallest region that both are in."""
        left = min(self.left, other.left)
        top = min(self.top, other.top)
        return Region(
            left, top, max(self.right, other.right), max(self.bottom, other.bottom)
        )

    def part_of(self, screen: Any) -> Any:
        """Return this region of an array of shape (height, width, …), as a view."""
        return screen[self.top : self.bottom, self.left : self.right]


@dataclass(frozen=True)
class Drift:
    """A screen that differs from its recording within `region`. `problem` states how.

    `boxes` hold each pixel that differs, and `masks` are the regions that a mask would
    hide, if one is offered. `claim` is the one whose evidence is not on the screen.
    `healed` is true if a model continued. The recording is healed only if the test then
    passed, which is not known yet.
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
    `problem` states where.
    """

    problem: str
    seen: FrameRef
    region: Region
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
    """A wait for a recorded screen that already takes long, and takes at most
    `remaining_s` more. `recorded_s` is how long it took when it was recorded; 0 if that
    is not known.

    Observers receive it; the trace does not.
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
"""The width and height of the largest caret, in pixels: differences within one such box
may blink on their own.
"""
LOOK = "pytest_vnc_use.look"
"""The audit event of a look at the desktop."""
NO_FRAME = FrameRef("", 0, 0)
"""The placeholder in a run's start until its first frame is there."""
