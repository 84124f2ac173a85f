"""Whether two images are of the same screen: a caret may blink, words may not change."""

from __future__ import annotations

import io

import pytest
from PIL import Image, ImageDraw

from pytest_vnc_use.same_screen import same_screen


def image(words: str = "", *, caret: bool = False, size: tuple[int, int] = (640, 400)) -> bytes:
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    draw.text((100, 100), words, fill="black")
    if caret:
        draw.rectangle((300, 200, 301, 219), fill="black")
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def test_same_screen_ignores_caret() -> None:
    assert same_screen(image("Delete draft.txt?"), image("Delete draft.txt?", caret=True))


@pytest.mark.parametrize("now", [image("Delete thesis.docx?"), image(""), image("Delete draft.txt?", size=(640, 401))])
def test_same_screen_other_question_differs(now: bytes) -> None:
    assert not same_screen(image("Delete draft.txt?"), now)
