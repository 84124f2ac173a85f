"""The pointer as the server describes it (RFC 6143, 7.8.1), for frames that show it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_vnc_use.backends.screen.rectangles import Pixels


@dataclass(frozen=True, eq=False)
class PointerShape:
    """The pixels of a pointer, which of them cover the screen, and which one points, from the top left."""

    pixels: Pixels
    covers: npt.NDArray[np.bool_]
    hot_x: int
    hot_y: int

    @classmethod
    def of(cls, hot_x: int, hot_y: int, width: int, height: int, image: bytes, mask: bytes) -> PointerShape:
        """Return the shape in a message: 4 bytes a pixel, and a bit a pixel in rows of whole bytes."""
        pixels = np.frombuffer(image, "<u4").reshape(height, width)
        bits = np.unpackbits(np.frombuffer(mask, np.uint8).reshape(height, (width + 7) // 8), axis=1)
        return cls(pixels, bits[:, :width].astype(np.bool_), hot_x, hot_y)


@dataclass(frozen=True, eq=False)
class PlacedPointer:
    """A pointer that points at a pixel of the screen."""

    shape: PointerShape
    x: int
    y: int

    def drawn_on(self, pixels: Pixels) -> Pixels:
        """Return a copy of the pixels with the pointer on them, as far as it is on the screen."""
        drawn: Pixels = pixels.copy()
        left, top = self.x - self.shape.hot_x, self.y - self.shape.hot_y
        cut_left, cut_top = max(0, -left), max(0, -top)
        target = drawn[top + cut_top :, left + cut_left :]
        covers = self.shape.covers[cut_top:, cut_left:][: target.shape[0], : target.shape[1]]
        new = self.shape.pixels[cut_top:, cut_left:][: target.shape[0], : target.shape[1]]
        target[: covers.shape[0], : covers.shape[1]][covers] = new[covers]
        return drawn
