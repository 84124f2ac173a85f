"""Whether two pictures show the same screen."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

CARET_PX = (12, 48)
"""Width and height of the largest caret: what differs within one such box may blink by itself."""


def same_screen(before_png: bytes, now_png: bytes) -> bool:
    """The same size, and no pixels that differ but within one box of `CARET_PX`."""
    if before_png == now_png:
        return True
    before, now = (np.asarray(Image.open(io.BytesIO(png)).convert("RGB")) for png in (before_png, now_png))
    if before.shape != now.shape:
        return False
    rows, columns = np.nonzero((before != now).any(axis=2))
    return rows.size == 0 or bool(np.ptp(columns) < CARET_PX[0] and np.ptp(rows) < CARET_PX[1])
