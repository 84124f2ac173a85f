"""Encodings and pixel formats: each gives the very pixels, whatever server, content and
size.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from random import Random

import numpy as np
import numpy.typing as npt
import pytest

from pytest_vnc_use.agent import leasing
from pytest_vnc_use.backends.client import EncodingChoice
from pytest_vnc_use.backends.encodings import Reading, Tight, Zrle
from pytest_vnc_use.backends.rfb_connection import RfbConnection
from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.settings.settings import Settings
from support import rfb_server
from support.images import decoded
from support.vnc_servers import VncServer, wait_for
from support.wire import wire
from support.witness_programs import xterm

ENCODINGS: tuple[EncodingChoice, ...] = ("raw", "zrle", "tight")
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
def test_zrle_and_tight_in_all_their_ways(seed: int) -> None:
    drawn = Random(seed)
    zrle = Zrle()
    tight = Tight()
    zrle_stream = rfb_server.ZrleStream()
    tight_stream = rfb_server.TightStream()
    size = drawn.randint(1, 130), drawn.randint(1, 130)
    for way in drawn.choices(sorted(ZRLE_WAYS), k=3):
        pixels = rfb_server.image(*size, drawn.randint(1, ZRLE_WAYS[way]), seed)
        assert np.array_equal(
            read(zrle.decode(*size), zrle_stream.encode(pixels, way)), pixels
        )
    for way in drawn.choices(sorted(TIGHT_WAYS), k=4):
        pixels = rfb_server.image(*size, drawn.randint(1, TIGHT_WAYS[way]), seed)
        data = tight_stream.encode(
            pixels, way, drawn.randrange(4), reset=drawn.random() < 0.5
        )
        assert np.array_equal(read(tight.decode(*size), data), pixels)


def _deflated(length: int) -> bytes:
    """Return so many zero bytes as Tight sends them when it compresses them."""
    block = zlib.compress(bytes(length))
    return rfb_server.compact_length(len(block)) + block


INVALID_ZRLE = [
    b"\x00" + bytes(3),  # too few pixels
    b"\x11" + bytes(60),  # unknown types of tile
    b"\x03" + bytes(9) + b"\xff\xff",  # an index beyond the palette
    b"\x80" + bytes(3) + b"\x04",  # a run beyond the tile
    b"\x82" + bytes(6) + b"\x02" * 4,  # a run's index beyond the palette
    bytes(1 << 20),  # too much
]
INVALID_TIGHT = [
    b"\x40\x07" + rfb_server.TightStream().wrap(0, bytes(12)),  # an unknown filter
    b"\x40\x01\x02" + bytes(9) + b"\x03" * 4,  # an index beyond the palette
    b"\x00\x03abc",  # no zlib data
    b"\x00" + _deflated(1 << 24),  # too much
]


def test_invalid_pixels_raise() -> None:
    for tiles in INVALID_ZRLE:
        with pytest.raises((ValueError, IndexError)):
            read(Zrle().decode(2, 2), rfb_server.ZrleStream().wrap(tiles))
    for data in INVALID_TIGHT:
        with pytest.raises((ValueError, IndexError)):
            read(Tight().decode(2, 2), data)


def test_scrolled_text_and_moved_window_equal_raw(tigervnc: VncServer) -> None:
    """TigerVNC then tells where on the screen the pixels are already."""
    with ExitStack() as stack:
        raw, *small = (
            stack.enter_context(closing(connect(tigervnc.address, encoding=each)))
            for each in ENCODINGS
        )
        lines = (
            "printf '\033[?25l'; for n in $(seq 40); do seq $n $((n + 9)); sleep 0.02;"
            " done; exec sleep 99"
        )
        stack.enter_context(xterm(tigervnc, lines, geometry="83x21+201+303"))
        for x, y in ((333, 355), (340, 340), (7, 11)):
            tigervnc.output_of(
                "xdotool",
                "search",
                "--name",
                "terminal",
                "windowmove",
                "--sync",
                str(x),
                str(y),
            )
            for controller in small:
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


def test_other_pixel_format_is_asked_for_ours() -> None:
    pixels = rfb_server.image(40, 30, 500, seed=2)
    colours = struct.pack(">BxHH", 1, 0, 2) + bytes(12)
    shown = rfb_server.update(
        rfb_server.drawn(pixels, rfb_server.RAW, pixels.tobytes())
    )
    for announced in FORMATS.values():
        session = (
            rfb_server.greeting(40, 30, struct.pack(FORMAT, *announced))
            + colours
            + shown
        )
        with (
            rfb_server.playing(session, then_silent=True) as address,
            closing(connect(address)) as controller,
        ):
            assert np.array_equal(
                decoded(controller.last_frame()), rfb_server.channels(pixels)
            )


def test_announced_red_first_format_is_taken() -> None:
    """VMware's servers send the format that they announce, whatever they are
    asked for.
    """
    announced = struct.pack(FORMAT, 32, 32, 0, 1, 255, 255, 255, 0, 8, 16)
    pixels = rfb_server.image(40, 30, 500, seed=2)
    turned = np.frombuffer(pixels.astype(">u4").tobytes()[1:] + b"\0", "<u4").reshape(
        pixels.shape
    )
    data = rfb_server.ZrleStream().encode(turned & 0xFFFFFF, "raw")
    arrow = rfb_server.drawn(
        turned[:1, :8], rfb_server.CURSOR, turned[:1, :8].tobytes() + b"\xff"
    )
    session = rfb_server.greeting(40, 30, announced) + rfb_server.update(
        arrow, rfb_server.drawn(pixels, rfb_server.ZRLE, data)
    )
    with (
        rfb_server.playing(session, then_silent=True) as address,
        closing(RfbConnection(address, None, 10.0)) as connection,
    ):
        screen = connection.framebuffer
        assert np.array_equal(
            decoded(screen.last_capture().frame()), rfb_server.channels(pixels)
        )
        assert screen.pointer_shape is not None
        assert np.array_equal(screen.pointer_shape.pixels & 0xFFFFFF, pixels[:1, :8])


def test_pixels_by_tcp_are_compressed_unless_started_here(tigervnc: VncServer) -> None:
    starts: list[tuple[Callable[[str], VNCController], bool]] = [
        (connect, True),
        (partial(connect, encoding="raw"), False),
        # of a desktop started here
        (lambda address: leasing.connect(Settings(server=address), "geheim"), False),
        (lambda address: leasing.connect(Settings(server=address), None), True),
    ]
    tigervnc.paint(5)
    for start, is_small in starts:
        with wire(tigervnc.address) as link:
            with closing(start(link.address)) as controller:
                controller.raw_frame()
            assert (link.from_server < 1024 * 768) == is_small
