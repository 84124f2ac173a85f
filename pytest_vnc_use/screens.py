"""Whether two pictures show the same screen."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

CARET_PX = 400
"""As many pixels may differ as a caret and a clock's digit take together."""


def same_screen(before_png: bytes, now_png: bytes) -> bool:
    """The same size, and no more pixels that differ than blink by themselves (`CARET_PX`)."""
    if before_png == now_png:
        return True
    before, now = (np.asarray(Image.open(io.BytesIO(png)).convert("RGB")) for png in (before_png, now_png))
    return before.shape == now.shape and int((before != now).any(axis=2).sum()) <= CARET_PX
