"""What is seen is what the X server shows: the first frame, after a resize, and until the server is gone."""

from __future__ import annotations

import io
import os
import signal
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from pytest_vnc_use.backends.pixels import encode_png
from pytest_vnc_use.backends.screen import PointerShape
from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.errors import ConnectionLost
from pytest_vnc_use.types import Region
from support.vnc_servers import VncServer, wait_for
from support.witness_programs import xterm

pytestmark = pytest.mark.desktop

Connect = Callable[..., VNCController]
Pixels = npt.NDArray[np.uint8]


def decoded(png: bytes) -> Pixels:
    image = Image.open(io.BytesIO(png))
    assert image.mode == "RGB"
    return np.asarray(image)


def test_same_screen_gives_same_bytes(tigervnc: VncServer, connected: Connect) -> None:
    first, second = connected(tigervnc).frame(), connected(tigervnc).frame()
    assert first == second
    assert first.png == connected(tigervnc).screenshot_png()


def test_pointer_is_drawn_where_asked_for(tigervnc: VncServer, connected: Connect) -> None:
    tigervnc.output_of("xsetroot", "-solid", "red", "-cursor_name", "crosshair")
    hands, plain = connected(tigervnc, show_pointer=True), connected(tigervnc)
    for x, y in [(500, 400), (0, 0), (1023, 767)]:
        hands.move(x, y)
        hands.wait(0.3)
        differs = (decoded(hands.frame().png) != decoded(plain.frame().png)).any(axis=2)
        rows, columns = np.nonzero(differs)
        assert 20 < rows.size < 800
        assert abs(rows - y).max() < 40
        assert abs(columns - x).max() < 40
    assert plain.frame() == plain.frame()


@pytest.mark.parametrize(("at", "covered"), [((1, 1), 9), ((0, 0), 4), ((4, 4), 4), ((4, 0), 4)])
def test_pointer_at_edge_is_cut(at: tuple[int, int], covered: int) -> None:
    pixels = np.zeros((5, 5), np.uint32)
    shape = PointerShape.of(1, 1, 3, 3, b"\x07\x07\x07\0" * 9, b"\xe0" * 3)
    drawn = shape.drawn_on(pixels, *at)
    assert np.count_nonzero(drawn == 0x070707) == covered
    assert drawn[at[::-1]] == 0x070707
    assert not pixels.any()


@pytest.mark.parametrize("size", [(1, 1), (37, 5), (1, 65), (640, 480)])
def test_png_holds_pixels(size: tuple[int, int]) -> None:
    pixels = np.random.default_rng(1).integers(0, 2**32, size[::-1], np.uint32)
    red_green_blue = np.stack([pixels >> 16, pixels >> 8, pixels], axis=2).astype(np.uint8)
    assert np.array_equal(decoded(encode_png(pixels)), red_green_blue)


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (1440, 901), (2000, 1300)])
def test_pngs_checksums_are_right(size: tuple[int, int]) -> None:
    """Pillow does not look at all of them; other readers do."""
    width, height = size
    pixels = np.random.default_rng(1).integers(0, 2**32, size[::-1], np.uint32)
    body = encode_png(pixels)[8 + 25 :]
    (length,) = struct.unpack(">I", body[:4])
    assert zlib.crc32(body[4 : 8 + length]).to_bytes(4, "big") == body[8 + length : 12 + length]
    assert len(zlib.decompress(body[8 : 8 + length])) == height * (width * 3 + 1)


WITHOUT_A_WHEEL = """
import sys
sys.modules["isal"] = None
import numpy as np, zlib
from pytest_vnc_use.backends import pixels
assert pixels.deflate is zlib
sys.stdout.buffer.write(pixels.encode_png(np.arange(50 * 70, dtype=np.uint32).reshape(50, 70) * 997))
"""


def test_where_isal_has_no_wheel_pixels_are_same() -> None:
    written = subprocess.run([sys.executable, "-c", WITHOUT_A_WHEEL], capture_output=True, check=True, timeout=400)
    pixels = np.arange(50 * 70, dtype=np.uint32).reshape(50, 70) * 997
    assert np.array_equal(decoded(written.stdout), decoded(encode_png(pixels)))


def test_frame_knows_its_time_and_where_screen_changed(tigervnc: VncServer, connected: Connect) -> None:
    with xterm(tigervnc, "printf '\\033[?25l'; stty -echo; exec cat"):
        hands = connected(tigervnc)
        hands.click(100, 100)
        hands.settle()
        first = hands.frame()
        assert first.changed == (Region(0, 0, 1024, 768),)
        assert hands.frame().changed == ()
        sent_s = time.monotonic()
        hands.type_text("a", press_enter=True)
        hands.settle()
        after = hands.frame()
    assert first.taken_at < sent_s < after.taken_at <= time.monotonic()
    assert 1 <= len(after.changed) <= 3
    assert all(region.right <= 96 and region.bottom <= 96 for region in after.changed)
    assert after.moving == ()


def test_resting_connection_gets_no_changes_until_refresh(tigervnc: VncServer, connected: Connect) -> None:
    resting, watching = connected(tigervnc), connected(tigervnc)
    resting.rest()
    tigervnc.paint(5)  # the server still owes an answer to the last request
    wait_for(lambda: resting.screen.changed_at > 0, "the last answer")
    answered_at = resting.screen.changed_at
    before = watching.glance()
    tigervnc.paint(9)
    assert watching.wait_changed(before.taken_at, 10)
    assert resting.screen.changed_at == answered_at
    resting.refresh()
    assert resting.frame() == watching.frame()


def test_frozen_server_is_lost(tigervnc: VncServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_vnc_use.backends.connection.ANSWER_S", 0.5)
    hands = connect(tigervnc.address)
    os.kill(tigervnc.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(ConnectionLost, match=r"did not answer within 0.5 s; the connection is closed"):
            hands.frame()
    finally:
        os.kill(tigervnc.process.pid, signal.SIGCONT)
    with pytest.raises(ConnectionLost):
        hands.frame()
    assert connect(tigervnc.address).frame()


def test_answer_before_action_is_not_taken(tigervnc: VncServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_vnc_use.backends.connection.ANSWER_S", 0.5)
    hands = connect(tigervnc.address)
    hands.move(10, 10)
    hands.frame()
    os.kill(tigervnc.process.pid, signal.SIGSTOP)
    try:
        hands.move(20, 20)
        with pytest.raises(ConnectionLost, match="did not answer"):
            hands.frame()
    finally:
        os.kill(tigervnc.process.pid, signal.SIGCONT)
