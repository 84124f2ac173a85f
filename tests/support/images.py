"""Images: how to make them, and how to look into them."""

from __future__ import annotations

import hashlib
import io

import numpy as np
import numpy.typing as npt
from PIL import Image

from pytest_vnc_use.types import Frame, FrameRef


def frame_of(image: Image.Image) -> Frame:
    file = io.BytesIO()
    image.save(file, "PNG")
    png = file.getvalue()
    return Frame(FrameRef(hashlib.sha256(png).hexdigest(), *image.size), png)


def noise(width: int, height: int) -> bytes:
    """Return an image that no PNG makes small."""
    return frame_of(Image.effect_noise((width, height), 90)).png


def decoded(frame: Frame) -> npt.NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(frame.png)))
