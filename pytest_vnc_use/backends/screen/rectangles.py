"""The parts of a screen update: areas with new pixels, and areas copied from elsewhere on the screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint32]
"""An array of shape (height, width). A pixel is 0x00RRGGBB; its highest byte means nothing."""
COLOUR_BITS = np.uint32(0xFFFFFF)


@dataclass(frozen=True)
class Area:
    """A part of the screen, in pixels; it is empty if its width or height is 0."""

    x: int
    y: int
    width: int
    height: int

    @property
    def size(self) -> int:
        """The number of its pixels."""
        return self.width * self.height

    @property
    def slices(self) -> tuple[slice, slice]:
        """Its rows and columns in an array of pixels."""
        return slice(self.y, self.y + self.height), slice(self.x, self.x + self.width)

    def is_within(self, width: int, height: int) -> bool:
        """Return whether all of it is on a screen of that size."""
        return self.x + self.width <= width and self.y + self.height <= height

    def covers(self, x: int, y: int) -> bool:
        """Return whether that pixel is part of it."""
        return self.x <= x < self.x + self.width and self.y <= y < self.y + self.height


@dataclass(frozen=True)
class Sent:
    """An area and its new pixels."""

    area: Area
    pixels: Pixels

    def on(self, screen: Pixels) -> Pixels:
        """Return the new pixels of the area."""
        return self.pixels


@dataclass(frozen=True)
class Copied:
    """An area that takes the pixels of `source`, an area of the same size that may overlap it."""

    area: Area
    source: Area

    def on(self, screen: Pixels) -> Pixels:
        """Return the new pixels of the area, copied from `screen`."""
        copied: Pixels = screen[self.source.slices].copy()
        return copied


Rectangle = Union[Sent, Copied]
