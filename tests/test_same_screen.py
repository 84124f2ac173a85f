"""Whether two images are of the same screen: a caret may blink, words may not
change.
"""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageDraw

from pytest_vnc_use.same_screen import same_screen, still_shows
from pytest_vnc_use.types import Region


def image(
    words: str = "", *, caret: bool = False, size: tuple[int, int] = (640, 400)
) -> bytes:
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    draw.text((100, 100), words, fill="black")
    if caret:
        draw.rectangle((300, 200, 301, 219), fill="black")
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def test_same_screen_ignores_caret() -> None:
    with_caret = image("Delete draft.txt?", caret=True)
    assert same_screen(image("Delete draft.txt?"), with_caret)


@pytest.mark.parametrize(
    "now",
    [
        image("Delete thesis.docx?"),
        image(),
        image("Delete draft.txt?", size=(640, 401)),
    ],
    ids=["words", "nothing", "size"],
)
def test_same_screen_ignores_no_words(now: bytes) -> None:
    assert not same_screen(image("Delete draft.txt?"), now)


@pytest.mark.parametrize(
    ("box", "same"),
    [
        ((50, 50, 51, 69), True),
        ((50, 50, 57, 59), False),
        ((40, 40, 89, 89), True),
        ((40, 40, 99, 89), False),
    ],
)
def test_still_shows_ignores_caret_and_moving_region(
    box: tuple[int, int, int, int], same: bool
) -> None:
    before = Image.open(io.BytesIO(image()))
    now = before.copy()
    ImageDraw.Draw(now).rectangle(box, "black")
    moving = (Region(32, 32, 96, 96),) if box[0] == 40 else ()
    differs = (np.asarray(now) != np.asarray(before)).any(axis=2)
    assert still_shows(differs, moving) is same
