"""Comparisons of two images of a screen that ignore carets and moving regions."""

from __future__ import annotations

import io
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from PIL import Image

from pytest_vnc_use.types import BAR_PX, CARET_PX, Region


def same_screen(before_png: bytes, now_png: bytes) -> bool:
    """Return whether two images have the same size and differ only within one box of
    `CARET_PX`.
    """
    differs = differing(before_png, now_png)
    return differs is not None and within_caret(differs)


def still_shows(differs: npt.NDArray[np.bool_], moving: Iterable[Region]) -> bool:
    """Return whether all marked pixels lie in the moving regions or within one box of
    `BAR_PX`.

    `differs` is an array of shape (height, width), which is changed.
    """
    for region in moving:
        region.part_of(differs)[:] = False
    return _within(differs, BAR_PX)


def differing(before_png: bytes, now_png: bytes) -> npt.NDArray[np.bool_] | None:
    """Return the pixels that differ, as an array of shape (height, width); None for
    images of different sizes.
    """
    before = _channels_of(before_png)
    now = _channels_of(now_png)
    if before.shape != now.shape:
        return None
    differs: npt.NDArray[np.bool_] = (before != now).any(axis=2)
    return differs


def _channels_of(png: bytes) -> npt.NDArray[np.uint8]:
    """Return red, green and blue of an image, of shape (height, width, 3)."""
    image = Image.open(io.BytesIO(png))
    return np.asarray(image.convert("RGB"))


def within_caret(differs: npt.NDArray[np.bool_]) -> bool:
    """Return whether all marked pixels lie within one box of `CARET_PX`; True if no
    pixel is marked.

    `differs` is an array of shape (height, width).
    """
    return _within(differs, CARET_PX)


def _within(differs: npt.NDArray[np.bool_], size: tuple[int, int]) -> bool:
    """Return whether all marked pixels lie within one box of a width and height."""
    rows = np.flatnonzero(differs.any(axis=1))
    columns = np.flatnonzero(differs.any(axis=0))
    if not rows.size:
        return True
    width, height = size
    # `np.ptp` is the last one less the first: one less than how many they span
    return bool(np.ptp(columns) < width and np.ptp(rows) < height)
