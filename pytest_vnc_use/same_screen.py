"""Comparisons of two images of a screen that ignore carets and moving regions."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
from PIL import Image

from pytest_vnc_use.types import BAR_PX, CARET_PX, Frame


def same_screen(before_png: bytes, now_png: bytes) -> bool:
    """Return whether two images have the same size and differ only within one box of `CARET_PX`."""
    differs = differing(before_png, now_png)
    return differs is not None and within_caret(differs)


def still_shows(seen_png: bytes, now: Frame) -> bool:
    """Return whether `now` differs from `seen_png` only in its moving regions and within one box of `BAR_PX`."""
    differs = differing(seen_png, now.png)
    if differs is None:
        return False
    for region in now.moving:
        differs[region.top : region.bottom, region.left : region.right] = False
    return _within(differs, BAR_PX)


def differing(before_png: bytes, now_png: bytes) -> npt.NDArray[np.bool_] | None:
    """Return the pixels that differ, as an array of shape (height, width); None for images of different sizes."""
    before, now = (np.asarray(Image.open(io.BytesIO(png)).convert("RGB")) for png in (before_png, now_png))
    return (before != now).any(axis=2) if before.shape == now.shape else None


def within_caret(differs: npt.NDArray[np.bool_]) -> bool:
    """Return whether all marked pixels lie within one box of `CARET_PX`; True if no pixel is marked.

    `differs` is an array of shape (height, width).
    """
    return _within(differs, CARET_PX)


def _within(differs: npt.NDArray[np.bool_], box: tuple[int, int]) -> bool:
    rows, columns = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
    return rows.size == 0 or bool(np.ptp(columns) < box[0] and np.ptp(rows) < box[1])
