"""Screenshots scaled down for a model, and its points scaled back."""

from __future__ import annotations

import functools
import io
import math
from dataclasses import dataclass, replace
from typing import Any

from PIL import Image

from pytest_vnc_use.planners.common.arguments import Unreadable, number_of
from pytest_vnc_use.types import Decision, FrameRef, Observation
from pytest_vnc_use.types.protocols import Planner

MOST_KILOBYTES = 200
"""The largest PNG that an agent in a browser sends in its full size."""


@dataclass(frozen=True)
class ImageLimit:
    """The largest image that a service uses unscaled: its longest side, and how many square patches cover it."""

    longest_side: int
    patch: int
    patches: int

    def fitted(self, width: int, height: int) -> tuple[int, int]:
        """Return the largest size of the same shape within the limit, in pixels."""
        longest = max(width, height)
        sides = range(min(self.longest_side, longest), 0, -1)
        sizes = ((max(1, round(width * side / longest)), max(1, round(height * side / longest))) for side in sides)
        return next(
            (across, down)
            for across, down in sizes
            if math.ceil(across / self.patch) * math.ceil(down / self.patch) <= self.patches
        )

    def fit(self, png: bytes) -> bytes:
        """Return the PNG in the largest size within the limit; unchanged if it has that size."""
        return resized(png, self.fitted(*png_size(png)))


def png_size(png: bytes) -> tuple[int, int]:
    """Return width and height of a PNG in pixels."""
    with Image.open(io.BytesIO(png)) as image:
        size: tuple[int, int] = image.size
    return size


def resized(png: bytes, size: tuple[int, int]) -> bytes:
    """Return the PNG in another size; unchanged if it has that size."""
    with Image.open(io.BytesIO(png)) as image:
        if image.size == size:
            return png
        file = io.BytesIO()
        image.resize(size, Image.Resampling.LANCZOS).save(file, "PNG")
    return file.getvalue()


@dataclass(frozen=True)
class SentScreen:
    """A screen, and the size of the image of it that a model got."""

    screen: FrameRef
    width: int
    height: int

    @classmethod
    def within(cls, limit: ImageLimit, screen: FrameRef) -> SentScreen:
        """Return the screen with the largest size within the limit."""
        return cls(screen, *limit.fitted(screen.width, screen.height))

    @classmethod
    def of_image(cls, png: bytes, limit: ImageLimit, screen: FrameRef) -> SentScreen:
        """Return the screen with the size of an image that may be smaller than the screen, within the limit."""
        return cls(screen, *limit.fitted(*png_size(png)))

    def point(self, x: Any, y: Any) -> tuple[int, int]:
        """Return the screen's pixel under a pixel of the image. Raises Unreadable if it is outside the image."""
        return _scaled("x", x, self.width, self.screen.width), _scaled("y", y, self.height, self.screen.height)


def _scaled(name: str, value: Any, sent: int, real: int) -> int:
    number = number_of(name, value)
    if not 0 <= number <= sent:
        raise Unreadable(f"{name!r} must lie on the screenshot, 0 to {sent - 1}, got {value!r}")
    return min(int((number + 0.5) * real / sent), real - 1)


@dataclass(frozen=True)
class ScaledScreens:
    """A planner that gets each screenshot in one size, whatever its shape; its points must be those of a grid."""

    planner: Planner
    size: tuple[int, int]

    @property
    def name(self) -> str:
        """The name of the wrapped planner."""
        return self.planner.name

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the planner's next turn. Raises PlannerError."""

        @functools.cache
        def load(screen: FrameRef) -> bytes:
            return resized(observation.load_png(screen), self.size)

        return self.planner.decide(replace(observation, load_png=load), timeout_s=timeout_s)


def within(png: bytes, longest_side: int) -> bytes:
    """Return the PNG, scaled down where a side of it is longer."""
    width, height = png_size(png)
    scale = min(1.0, longest_side / max(width, height))
    return resized(png, (max(1, round(width * scale)), max(1, round(height * scale))))


def halved(png: bytes) -> bytes:
    """Return the PNG; in half its width and height if it has more than 200 KB."""
    if len(png) <= MOST_KILOBYTES * 1000:
        return png
    width, height = png_size(png)
    return resized(png, (max(1, width // 2), max(1, height // 2)))
