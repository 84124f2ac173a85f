"""Red is red: the colours of a frame are those that the program drew, whatever pixel format its server speaks."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing

import pytest
from PIL import Image

from pytest_vnc_use.backends.vnc import connect
from support.paths import PAD
from support.qt_desktop import QtDesktop

pytestmark = pytest.mark.desktop

COLOUR = (0x1F, 0x6F, 0xB2)


@pytest.fixture
def qt_desktop() -> Iterator[QtDesktop]:
    desktop = QtDesktop([*PAD, "--background=#1f6fb2"])
    yield desktop
    desktop.stop()


def test_qts_own_server_swaps_no_colours(qt_desktop: QtDesktop) -> None:
    """Qt 6.12 announces a depth of 32, and sends blue first whatever it is asked for."""
    with closing(connect(qt_desktop.server)) as controller:
        image = Image.open(io.BytesIO(controller.screenshot_png()))
    assert image.getpixel((5, 5)) == COLOUR
