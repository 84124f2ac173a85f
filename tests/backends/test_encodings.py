"""Encodings and pixel formats: each gives the very pixels, whatever server, content and
size.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from contextlib import closing
from functools import partial
from random import Random

import numpy as np
import numpy.typing as npt
import pytest

from pytest_vnc_use.agent import leasing
from pytest_vnc_use.backends.encodings import Reading, Tight, Zrle
from pytest_vnc_use.backends.rfb_connection import RfbConnection
from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.settings.settings import Settings
from support import rfb_server
from support.images import decoded
from support.vnc_servers import VncServer, wait_for
from support.wire import wire
from support.witness_programs import xterm

# The most colours of an image that each way is tested with.
ZRLE_WAYS = {"raw": 1000, "solid": 1, "packed": 16, "runs": 1000, "palette_runs": 127}
TIGHT_WAYS = {"copy": 1000, "fill": 1, "palette": 256, "gradient": 1000}


def read(reading: Reading, data: bytes) -> npt.NDArray[np.uint32]:
    """Return the pixels that a decoder makes of `data`. It has to want all of it."""
    stream = io.BytesIO(data)
    needed = next(reading)
    while True:
        try:
            needed = reading.send(stream.read(needed))
        except StopIteration as done:
            assert not stream.read()
            pixels: npt.NDArray[np.uint32] = done.value
            return pixels


@pytest.mark.parametrize("seed", range(15))
def test_zrle_decodes_each_subencoding(seed: int) -> None:
    drawn = Random(seed)
    zrle = Zrle()
    stream = rfb_server.ZrleStream()
    size = drawn.randint(1, 130), drawn.randint(1, 130)
    # One stream has several rectangles, as a connection has.
    for way in drawn.choices(sorted(ZRLE_WAYS), k=3):
        colours = drawn.randint(1, ZRLE_WAYS[way])
        pixels = rfb_server.image(*size, colours, seed)
        data = stream.encode(pixels, way)
        decoded = read(zrle.decode(*size), data)
        np.testing.assert_array_equal(decoded, pixels, err_msg=way)


@pytest.mark.parametrize("seed", range(15))
def test_tight_decodes_each_filter(seed: int) -> None:
    drawn = Random(seed)
    tight = Tight()
    stream = rfb_server.TightStream()
    size = drawn.randint(1, 130), drawn.randint(1, 130)
    # One stream has several rectangles, as a connection has.
    for way in drawn.choices(sorted(TIGHT_WAYS), k=4):
        colours = drawn.randint(1, TIGHT_WAYS[way])
        pixels = rfb_server.image(*size, colours, seed)
        is_reset = drawn.random() < 0.5
        data = stream.encode(pixels, way, drawn.randrange(4), reset=is_reset)
        decoded = read(tight.decode(*size), data)
        np.testing.assert_array_equal(decoded, pixels, err_msg=way)


def _deflated(length: int) -> bytes:
    """Return so many zero bytes as Tight sends them when it compresses them."""
    block = zlib.compress(bytes(length))
    return rfb_server.compact_length(len(block)) + block


INVALID_ZRLE = {
    "too few pixels": b"\x00" + bytes(3),
    "unknown types of tile": b"\x11" + bytes(60),
    "an index beyond the palette": b"\x03" + bytes(9) + b"\xff\xff",
    "a run beyond the tile": b"\x80" + bytes(3) + b"\x04",
    "a run's index beyond the palette": b"\x82" + bytes(6) + b"\x02" * 4,
    "too much": bytes(1 << 20),
}
INVALID_TIGHT = {
    "an unknown filter": b"\x40\x07" + rfb_server.TightStream().wrap(0, bytes(12)),
    "an index beyond the palette": b"\x40\x01\x02" + bytes(9) + b"\x03" * 4,
    "no zlib data": b"\x00\x03abc",
    "too much": b"\x00" + _deflated(1 << 24),
}


@pytest.mark.parametrize("tiles", INVALID_ZRLE.values(), ids=INVALID_ZRLE)
def test_invalid_zrle_raises(tiles: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        read(Zrle().decode(2, 2), rfb_server.ZrleStream().wrap(tiles))


@pytest.mark.parametrize("data", INVALID_TIGHT.values(), ids=INVALID_TIGHT)
def test_invalid_tight_raises(data: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        read(Tight().decode(2, 2), data)


def test_scrolled_text_and_moved_window_equal_raw(tigervnc: VncServer) -> None:
    """TigerVNC then tells where on the screen the pixels are already."""
    lines = (
        "printf '\033[?25l'; for n in $(seq 40); do seq $n $((n + 9)); sleep 0.02;"
        " done; exec sleep 99"
    )
    with (
        closing(connect(tigervnc.address, encoding="raw")) as raw,
        closing(connect(tigervnc.address, encoding="zrle")) as zrle,
        closing(connect(tigervnc.address, encoding="tight")) as tight,
        xterm(tigervnc, lines, geometry="83x21+201+303"),
    ):
        move = "xdotool search --name terminal windowmove --sync"
        for place in ("333 355", "340 340", "7 11"):
            tigervnc.output_of(*move.split(), *place.split())
            for controller in (zrle, tight):
                wait_for(
                    lambda: raw.frame().ref == controller.frame().ref,  # noqa: B023
                    "the same screen as raw",
                )
        assert len(np.unique(decoded(raw.frame()))) > 10


FORMAT = ">BBBBHHHBBBxxx"
FORMATS = {
    "big-endian": (32, 24, 1, 1, 255, 255, 255, 16, 8, 0),
    "red in the highest byte": (32, 24, 0, 1, 255, 255, 255, 24, 16, 8),
    "16 bit": (16, 16, 0, 1, 31, 63, 31, 11, 5, 0),
    "colour map": (8, 8, 0, 0, 0, 0, 0, 0, 0, 0),
}


@pytest.mark.parametrize("announced", FORMATS.values(), ids=FORMATS)
def test_other_pixel_format_is_asked_for_ours(announced: tuple[int, ...]) -> None:
    pixels = rfb_server.image(40, 30, 500, seed=2)
    greeting = rfb_server.greeting(40, 30, struct.pack(FORMAT, *announced))
    colours = struct.pack(">BxHH", 1, 0, 2) + bytes(12)
    shown = rfb_server.drawn(pixels, rfb_server.RAW, pixels.tobytes())
    session = greeting + colours + rfb_server.update(shown)
    with (
        rfb_server.playing(session, then_silent=True) as address,
        closing(connect(address)) as controller,
    ):
        frame = controller.last_frame()
    assert np.array_equal(decoded(frame), rfb_server.channels(pixels))


def test_announced_red_first_format_is_taken() -> None:
    """VMware's servers send the format that they announce, whatever they are
    asked for.
    """
    announced = struct.pack(FORMAT, 32, 32, 0, 1, 255, 255, 255, 0, 8, 16)
    pixels = rfb_server.image(40, 30, 500, seed=2)
    red_first = pixels.byteswap() >> 8
    data = rfb_server.ZrleStream().encode(red_first, "raw")
    shown = rfb_server.drawn(pixels, rfb_server.ZRLE, data)
    arrow = red_first[:1, :8]
    mask = b"\xff"
    pointer = rfb_server.drawn(arrow, rfb_server.CURSOR, arrow.tobytes() + mask)
    greeting = rfb_server.greeting(40, 30, announced)
    session = greeting + rfb_server.update(pointer, shown)
    with (
        rfb_server.playing(session, then_silent=True) as address,
        closing(RfbConnection(address, None, 10.0)) as connection,
    ):
        screen = connection.framebuffer
        frame = screen.last_capture().frame()
        assert np.array_equal(decoded(frame), rfb_server.channels(pixels))
        assert screen.pointer_shape is not None
        assert np.array_equal(screen.pointer_shape.pixels & 0xFFFFFF, pixels[:1, :8])


@pytest.mark.parametrize(
    ("start", "is_small"),
    [
        pytest.param(connect, True, id="connect"),
        pytest.param(partial(connect, encoding="raw"), False, id="raw"),
        pytest.param(
            lambda address: leasing.connect(Settings(server=address), "geheim"),
            False,
            id="desktop started here",
        ),
        pytest.param(
            lambda address: leasing.connect(Settings(server=address), None),
            True,
            id="external desktop",
        ),
    ],
)
def test_pixels_by_tcp_are_compressed_unless_started_here(
    tigervnc: VncServer, start: Callable[[str], VNCController], is_small: bool
) -> None:
    tigervnc.paint(5)
    with wire(tigervnc.address) as link:
        with closing(start(link.address)) as controller:
            controller.raw_frame()
        assert (link.from_server < 1024 * 768) == is_small
