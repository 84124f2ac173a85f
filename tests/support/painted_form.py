"""A form with one field, painted in memory: what is typed appears there, and where a
test says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from pytest_vnc_use.recordings.images import Pixels, frame_of
from pytest_vnc_use.types import (
    DesktopAction,
    Frame,
    KeyCombo,
    OpenUrl,
    RawFrame,
    Region,
    TypeText,
)
from support.memory_desktop import PaintedController

SIZE = (480, 320)
FIELD = Region(40, 60, 280, 86)
INK, PAPER = "#101010", "#ffffff"
Pen = ImageDraw.ImageDraw


@cache
def font(size: int = 16) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def word(text: str, *, size: int = 16) -> Pixels:
    """The pixels of a text on paper, as the form draws it, without the paper
    around it.
    """
    image = Image.new("RGB", SIZE, PAPER)
    ImageDraw.Draw(image).text((20, 20), text, INK, font(size))
    pixels = numbers(image)
    drawn = pixels != pixels[0, 0]
    rows = np.flatnonzero(drawn.any(axis=1))
    columns = np.flatnonzero(drawn.any(axis=0))
    return pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def numbers(image: Image.Image) -> Pixels:
    pixels: Pixels = np.frombuffer(image.tobytes("raw", "BGRX"), "<u4") & np.uint32(
        0xFFFFFF
    )
    return pixels.reshape(image.height, image.width)


def shows(screen: Pixels, what: Pixels) -> bool:
    found = np.lib.stride_tricks.sliding_window_view(screen, what.shape)
    first = np.argwhere(found[:, :, 0, 0] == what[0, 0])
    corners = [np.argwhere(what != what[0, 0])[index] for index in (0, -1)]
    for down, across in corners:
        first = first[
            found[first[:, 0], first[:, 1], down, across] == what[down, across]
        ]
    return any(np.array_equal(found[top, left], what) for top, left in first)


@dataclass
class PaintedForm(PaintedController):
    """The port Controller for a form. `hides` the text behind dots; `also` draws more;
    `enters` is what Enter does.
    """

    text: str = ""
    hides: bool = False
    caret: bool = False
    also: Callable[[Pen, PaintedForm], None] | None = None
    enters: Callable[[PaintedForm], None] | None = None
    page: str = "form"
    moving: tuple[Region, ...] = ()

    def __post_init__(self) -> None:
        super().__init__()

    def pixels(self) -> Pixels:
        image = Image.new("RGB", SIZE, PAPER)
        pen = ImageDraw.Draw(image)
        if self.page == "form":
            self._paint_form(pen)
        if self.also:
            self.also(pen, self)
        return numbers(image)

    def _paint_form(self, pen: Pen) -> None:
        left = FIELD.left
        top = FIELD.top
        right = FIELD.right
        bottom = FIELD.bottom
        pen.text((left, top - 24), "Your code", INK, font())
        pen.rectangle((left, top, right, bottom), outline="#8080a0")
        pen.rectangle((left, bottom + 20, left + 80, bottom + 44), fill="#d0d0d0")
        pen.text((left + 10, bottom + 22), "Sign in", INK, font())
        end: float = left + 6
        if self.hides:
            for _ in self.text:
                pen.ellipse((end + 1, top + 10, end + 7, top + 16), fill=INK)
                end += 10
        else:
            pen.text((end, top + 3), self.text, INK, font())
            end += pen.textlength(self.text, font())
        if self.caret:
            pen.rectangle((end + 2, top + 4, end + 2, top + 22), fill=INK)

    def frame(self) -> Frame:
        frame = frame_of(self.pixels())
        return Frame(frame.ref, frame.png, moving=self.moving)

    def raw_frame(self) -> RawFrame:
        return RawFrame(self.pixels())

    def perform(self, action: DesktopAction) -> None:
        self.performed.append(action)
        if isinstance(action, TypeText):
            self.text = ("" if action.clear_first else self.text) + action.text
            if action.press_enter and self.enters:
                self.enters(self)
        elif isinstance(action, OpenUrl):
            self.text = action.url
        elif isinstance(action, KeyCombo) and action.keys == ("ctrl+l",):
            self.text = ""

    def transient_frames(self) -> tuple[Frame, ...]:
        return (self.frame(),)
