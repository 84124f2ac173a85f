"""The pixels of a PNG, read quickly where this project wrote it, and by Pillow elsewhere."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from pytest_vnc_use.backends.screen.png import encode_png
from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.report.page import png_pixels
from pytest_vnc_use.report.page.png_pixels import read_pixels


@pytest.fixture
def png() -> bytes:
    """A picture of 37 x 41 pixels as a controller writes it."""
    return encode_png(np.random.default_rng(7).integers(0, 1 << 24, (41, 37), np.uint32))


def with_pillow(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGBX")).view(np.uint32)[..., 0]


def test_our_own_pictures_are_read_as_pillow_reads_them(png: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = with_pillow(png)
    monkeypatch.setattr(png_pixels, "_with_pillow", lambda png: pytest.fail("Pillow was asked"))
    assert (read_pixels(png) == expected).all()


def test_pictures_of_others_are_left_to_pillow(png: bytes) -> None:
    other = io.BytesIO()
    Image.open(io.BytesIO(png)).save(other, "PNG")
    assert (read_pixels(other.getvalue()) == with_pillow(png)).all()


def test_a_picture_cut_or_spoilt_anywhere_raises_nothing_else(png: bytes) -> None:
    for at in range(0, len(png), 13):
        for spoilt in (png[:at], png[:at] + b"\xff" + png[at + 1 :]):
            try:
                read_pixels(spoilt)
            except RunFolderError:
                continue
