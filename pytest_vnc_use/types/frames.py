"""What is seen of a desktop: frames, parts of them, and why a wait for the screen ended."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal

SettledReason = Literal["settled", "animated", "nothing_changed", "limit"]
EncodingChoice = Literal["auto", "raw", "zrle", "tight"]
"""How pixels travel; `auto` measures the link while the first of them arrive."""


@dataclass(frozen=True)
class FrameRef:
    """A stored frame: `digest` is the SHA-256 (hex) of its PNG; `width` and `height` in pixels."""

    digest: str
    width: int
    height: int


@dataclass(frozen=True)
class Frame:
    """The whole screen at one moment, as PNG (8-bit RGB); frames that show the same are equal.

    `taken_s` is that moment on the monotonic clock. `changed` is where the screen changed since the frame before it, of
    the same connection; `moving` is where it keeps changing by itself (a spinner, a video), which may be in `changed`.
    `pixels` are those of the PNG as an array of shape (height, width), blue in the lowest byte and anything in the
    highest, where whoever took the frame had them at hand; nobody writes to them.
    """

    ref: FrameRef
    png: bytes = field(repr=False)
    taken_s: float = field(default_factory=time.monotonic, compare=False)
    changed: tuple[Region, ...] = field(default=(), compare=False)
    moving: tuple[Region, ...] = field(default=(), compare=False)
    pixels: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Glance:
    """What the screen showed at one moment, as an array like a frame's `pixels`; not encoded, and not kept."""

    pixels: object = field(repr=False)
    taken_s: float = field(default_factory=time.monotonic, compare=False)


@dataclass(frozen=True)
class Settled:
    """Why a wait for the screen returned: quiet again, quiet but for animated tiles, never changed, or time was up."""

    reason: SettledReason
    duration_s: float


@dataclass(frozen=True)
class Region:
    """A rectangle of the screen in pixels; right and bottom edges are outside."""

    left: int
    top: int
    right: int
    bottom: int

    def is_within(self, size: tuple[int, int]) -> bool:
        """Tell whether it is no larger than a width and a height."""
        return self.right - self.left <= size[0] and self.bottom - self.top <= size[1]

    def meets(self, other: Region) -> bool:
        """Tell whether both have a pixel in common."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def part_of(self, screen: Any) -> Any:
        """Return this part of an array of shape (height, width, …), as a view."""
        return screen[self.top : self.bottom, self.left : self.right]


@dataclass(frozen=True)
class Drifted:
    """The screen was not as recorded, by what `problem` says, within `region`; `healed` where a model took over."""

    problem: str
    recorded: FrameRef
    seen: FrameRef
    region: Region | None = None
    healed: bool = False
    kind: Literal["drifted"] = "drifted"


@dataclass(frozen=True)
class Transient:
    """A replay showed something for a moment, within `region`, that its recording did not; `problem` tells where."""

    problem: str
    seen: FrameRef
    region: Region
    kind: Literal["transient"] = "transient"


NO_FRAME = FrameRef("", 0, 0)
"""Stands in a run's start until its first frame is there."""
