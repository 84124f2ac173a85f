"""The screens of a run as lossless WebP, which takes a fifth of the room of their PNG.

With `patches` only key pictures are whole. Any other screen is a key picture, and a patch over the part that differs.
"""

from __future__ import annotations

from io import BytesIO

import numpy as np
from PIL import Image

from pytest_vnc_use.report.page.model import Box, Patch, Shot
from pytest_vnc_use.report.page.png_pixels import Pixels
from pytest_vnc_use.types import FrameRef

_KEYS = 3
"""So many of the latest key pictures may be patched: a test often goes back to a page."""
_MOST = 0.5
"""A patch covers at most this part of a screen; a larger one makes the screen a key picture."""
_MARGIN = 8
"""Pixels around the difference that belong to the patch, so that its edge cannot be seen when it is scaled."""


class PackedScreens:
    """The packed screens of one run: `made` has the pictures by address."""

    def __init__(self, made: dict[str, bytes], *, patches: bool) -> None:
        self._made = made
        self._patches = patches
        self._keys: list[tuple[str, Pixels]] = []

    def add(self, ref: FrameRef, pixels: Pixels) -> Shot:
        """Pack a screen, and return how it is shown."""
        height, width = pixels.shape
        address = f"screens/{ref.digest}.webp"
        found = self._patched(pixels)
        if found is None:
            self._made[address] = _webp(pixels)
            if self._patches:
                self._keys = [*self._keys[1 - _KEYS :], (address, pixels)]
            return Shot("", address, width, height)
        key, box = found
        if box is None:
            return Shot("", key, width, height)
        self._made[address] = _webp(pixels[box.y : box.y + box.height, box.x : box.x + box.width])
        return Shot("", key, width, height, patch=Patch(address, box))

    def _patched(self, pixels: Pixels) -> tuple[str, Box | None] | None:
        """Return the key picture that differs least, and where, if anywhere; None if all differ much."""
        boxes = [(address, _difference(key, pixels)) for address, key in self._keys if key.shape == pixels.shape]
        areas = [box.width * box.height if box else 0 for _, box in boxes]
        return boxes[areas.index(min(areas))] if areas and min(areas) <= _MOST * pixels.size else None


def _difference(key: Pixels, pixels: Pixels) -> Box | None:
    """Return the part that differs, with its margin; None if nothing does."""
    differs = key != pixels
    ys, xs = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
    if not ys.size:
        return None
    top, left = max(int(ys[0]) - _MARGIN, 0), max(int(xs[0]) - _MARGIN, 0)
    bottom, right = (min(int(last) + 1 + _MARGIN, side) for last, side in zip((ys[-1], xs[-1]), key.shape, strict=True))
    return Box(left, top, right - left, bottom - top)


def _webp(pixels: Pixels) -> bytes:
    rgb = np.ascontiguousarray(pixels.view(np.uint8).reshape(*pixels.shape, 4)[..., :3])
    content = BytesIO()
    Image.fromarray(rgb).save(content, "WEBP", lossless=True, method=4, quality=75)
    return content.getvalue()
