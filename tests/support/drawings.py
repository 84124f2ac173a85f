"""Screens with text on them, and recordings made of such screens."""

from __future__ import annotations

from functools import partial

from PIL import Image, ImageDraw

from pytest_vnc_use.recordings.format import RecordedRun, RecordedStep, Recording, Screen
from pytest_vnc_use.recordings.images import Pixels, pixels_of
from pytest_vnc_use.types import Click
from support.images import frame_of

SIZE = (320, 200)


def drawn(text: str, at: tuple[int, int] = (20, 30), size: tuple[int, int] = SIZE) -> Pixels:
    """Return a white screen with text in the font that Pillow brings."""
    image = Image.new("RGB", size, "white")
    ImageDraw.Draw(image).text(at, text, fill="black")
    return pixels_of(frame_of(image).png)


def _same(pixels: Pixels) -> Pixels:
    return pixels


def recording_of(*shown: Pixels) -> Recording:
    """Return a run of a click on each of these screens but the last, which is its end."""
    screens = [Screen(pixels=partial(_same, pixels)) for pixels in shown]
    steps = tuple(RecordedStep(action=Click(10, 20), intent="click", screen=screen) for screen in screens[:-1])
    run = RecordedRun(task="Click", planner="steps", steps=steps, end=screens[-1])
    return Recording(test="test_it.py::test_it", screen_size=SIZE, runs=(run,))
