"""Images: how to make them, and how to look into them; screens with text, and
recordings of such screens.
"""

from __future__ import annotations

import hashlib
import io
from functools import partial

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from pytest_vnc_use.recordings.format import (
    RecordedStep,
    Recording,
    Screen,
    Segment,
)
from pytest_vnc_use.recordings.images import Pixels
from pytest_vnc_use.types import Click, Frame, FrameRef

SIZE = (320, 200)


def frame_of(image: Image.Image) -> Frame:
    file = io.BytesIO()
    image.save(file, "PNG")
    png = file.getvalue()
    return Frame(FrameRef(hashlib.sha256(png).hexdigest(), *image.size), png)


def numbers(image: Image.Image) -> Pixels:
    pixels: Pixels = np.frombuffer(image.tobytes("raw", "BGRX"), "<u4") & np.uint32(
        0xFFFFFF
    )
    return pixels.reshape(image.height, image.width)


def noise(width: int, height: int) -> bytes:
    return frame_of(Image.effect_noise((width, height), 90)).png


def decoded(frame: Frame) -> npt.NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(frame.png)))


def drawn(
    text: str, at: tuple[int, int] = (20, 30), size: tuple[int, int] = SIZE
) -> Pixels:
    image = Image.new("RGB", size, "white")
    ImageDraw.Draw(image).text(at, text, fill="black")
    return numbers(image)


def recording_of(*shown: Pixels) -> Recording:
    """Return a run of a click on each of these screens but the last, which is its
    end.
    """
    screens = [Screen(pixels=partial(np.asarray, pixels)) for pixels in shown]
    steps = tuple(
        RecordedStep(action=Click(10, 20), intent="click", screen=screen)
        for screen in screens[:-1]
    )
    run = Segment(task="Click", planner="steps", steps=steps, end=screens[-1])
    return Recording(test="test_it.py::test_it", screen_size=SIZE, segments=(run,))
