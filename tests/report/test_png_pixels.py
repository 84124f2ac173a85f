"""The pixels of a PNG, read quickly where this project wrote it, and by Pillow elsewhere."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from pytest_vnc_use.backends.pixels import encode_png
from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.report.page import png_pixels
from pytest_vnc_use.report.page.png_pixels import read_pixels


@pytest.fixture
def png() -> bytes:
    """A picture of 37 x 41 pixels as a controller writes it."""
    return encode_png(np.random.default_rng(7).integers(0, 1 << 24, (41, 37), np.uint32))


def with_pillow(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


def test_our_own_pictures_are_read_as_pillow_reads_them(png: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = with_pillow(png)
    monkeypatch.setattr(png_pixels, "open_png", lambda png: pytest.fail("Pillow was asked"))
    assert (read_pixels(png) == expected).all()


def test_pictures_of_others_are_left_to_pillow(png: bytes) -> None:
    other = io.BytesIO()
    Image.open(io.BytesIO(png)).save(other, "PNG")
    assert (read_pixels(other.getvalue()) == with_pillow(png)).all()


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_pictures_of_any_kind_become_three_bytes_a_pixel(mode: str) -> None:
    whole = Image.new("RGBA", (4, 3), (200, 200, 200, 255))
    whole.putpixel((1, 1), (200, 200, 200, 0))
    image = whole if mode == "RGBA" else Image.new(mode, (4, 3)) if mode == "I;16" else whole.convert(mode)
    content = io.BytesIO()
    image.save(content, "PNG")
    pixels = read_pixels(content.getvalue())
    assert (pixels.shape, pixels.dtype, pixels.flags.c_contiguous) == ((3, 4, 3), np.uint8, True)
    colour = {"I;16": 0, "1": 255}.get(mode, 200)
    assert pixels[0, 0].tolist() == [colour] * 3
    assert mode != "LA" or (pixels == 200).all(), "its alpha is no colour"


def test_a_picture_cut_or_spoilt_anywhere_raises_nothing_else(png: bytes) -> None:
    for at in range(0, len(png), 13):
        for spoilt in (png[:at], png[:at] + b"\xff" + png[at + 1 :]):
            try:
                read_pixels(spoilt)
            except RunFolderError:
                continue
