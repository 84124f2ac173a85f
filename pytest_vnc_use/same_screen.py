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
    before, now = (
        np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
        for png in (before_png, now_png)
    )
    return (before != now).any(axis=2) if before.shape == now.shape else None


def within_caret(differs: npt.NDArray[np.bool_]) -> bool:
    """Return whether all marked pixels lie within one box of `CARET_PX`; True if no
    pixel is marked.

    `differs` is an array of shape (height, width).
    """
    return _within(differs, CARET_PX)


def _within(differs: npt.NDArray[np.bool_], box: tuple[int, int]) -> bool:
    rows = np.flatnonzero(differs.any(axis=1))
    columns = np.flatnonzero(differs.any(axis=0))
    return rows.size == 0 or bool(np.ptp(columns) < box[0] and np.ptp(rows) < box[1])
