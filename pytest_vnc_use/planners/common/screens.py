"""Screenshots scaled down for a model, and its points scaled back."""

from __future__ import annotations

import functools
import io
import math
from dataclasses import dataclass, replace

from PIL import Image

from pytest_vnc_use.types import Decision, FrameRef, Observation
from pytest_vnc_use.types.protocols import Planner

MAX_KILOBYTES = 200
"""The largest PNG that an agent in a browser sends in its full size."""


@dataclass(frozen=True)
class ImageLimit:
    """The largest image that a service uses unscaled: its longest side, and how many
    square patches cover it.
    """

    max_side: int
    patch: int
    patches: int

    def fitted(self, width: int, height: int) -> tuple[int, int]:
        """Return the largest size of the same shape within the limit, in pixels."""
        longer = max(width, height)
        side = min(self.max_side, longer)
        while True:
            across = max(1, round(width * side / longer))
            down = max(1, round(height * side / longer))
            patches = math.ceil(across / self.patch) * math.ceil(down / self.patch)
            if patches <= self.patches:
                return across, down
            side -= 1

    def fit(self, png: bytes) -> bytes:
        """Return the PNG in the largest size within the limit; unchanged if it has that
        size.
        """
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
class ScaledScreens:
    """A planner that gets every screenshot in one size; its points must be on a
    grid.
    """

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

        return self.planner.decide(
            replace(observation, load_png=load), timeout_s=timeout_s
        )


def halved(png: bytes) -> bytes:
    """Return the PNG, in half its width and height if it has more than 200 KB."""
    if len(png) <= MAX_KILOBYTES * 1000:
        return png
    width, height = png_size(png)
    return resized(png, (max(1, width // 2), max(1, height // 2)))
