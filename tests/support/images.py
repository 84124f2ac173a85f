"""Images: how to make them, and how to look into them."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
from PIL import Image

from pytest_vnc_use.types import Frame


def noise(width: int, height: int) -> bytes:
    """Return an image that no PNG makes small."""
    file = io.BytesIO()
    Image.effect_noise((width, height), 90).save(file, "PNG")
    return file.getvalue()


def decoded(frame: Frame) -> npt.NDArray[np.uint8]:
    """Return the pixels of a frame's PNG."""
    return np.asarray(Image.open(io.BytesIO(frame.png)))
