"""Encodings and pixel formats: each gives the very pixels, whatever server, content and size."""

from __future__ import annotations

import io
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

from pytest_vnc_use.agent import build as desktops
from pytest_vnc_use.backends.client import EncodingChoice
from pytest_vnc_use.backends.connection import RfbConnection
from pytest_vnc_use.backends.encodings import Reading, Tight, Zrle, split_runs
from pytest_vnc_use.backends.reactor import reactor
from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.errors import DesktopRefused
from pytest_vnc_use.settings.settings import Settings
from support import rfb_server, vnc_servers
from support.images import decoded
from support.paths import PROGRAMS
from support.slow_link import slow_link
from support.stages.kinds import KINDS
from support.stages.stage import Stage, Wish
from support.vnc_servers import VncServer, qt_on_x, wait_for
from support.witness_programs import window_of, xterm

GRADIENTS = PROGRAMS / "gradients.py"
SMALL: tuple[EncodingChoice, ...] = ("zrle", "tight")
SIZE = (1366, 768)


ZRLE_WAYS = {"raw": 1000, "solid": 1, "packed": 16, "runs": 1000, "palette_runs": 127}
TIGHT_WAYS = {"copy": 1000, "fill": 1, "palette": 256, "gradient": 1000}
sizes = st.tuples(st.integers(1, 150), st.integers(1, 150))
reproducible = settings(max_examples=40, deadline=None, derandomize=True, database=None)


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


@reproducible
@given(size=sizes, ways=st.lists(st.sampled_from(sorted(ZRLE_WAYS)), min_size=1, max_size=3), seed=st.integers(0, 999))
def test_zrle_in_all_its_ways(size: tuple[int, int], ways: list[str], seed: int) -> None:
    decoder, stream = Zrle(), rfb_server.ZrleStream()
    for way in ways:
        colours = 1 + seed % ZRLE_WAYS[way]
        pixels = rfb_server.image(*size, colours, seed)
        assert np.array_equal(read(decoder.decode(*size), stream.encode(pixels, way)), pixels)


@reproducible
@given(
    size=sizes,
    ways=st.lists(
        st.tuples(st.sampled_from(sorted(TIGHT_WAYS)), st.integers(0, 3), st.booleans()), min_size=1, max_size=4
    ),
    seed=st.integers(0, 999),
)
def test_tight_in_all_its_ways(size: tuple[int, int], ways: list[tuple[str, int, bool]], seed: int) -> None:
    decoder, stream = Tight(), rfb_server.TightStream()
    for way, number, reset in ways:
        pixels = rfb_server.image(*size, 1 + seed % TIGHT_WAYS[way], seed)
        data = stream.encode(pixels, way, number, reset=reset)
        assert np.array_equal(read(decoder.decode(*size), data), pixels)


@reproducible
@given(st.binary(max_size=300))
def test_runs_are_split_as_plain_loop_would(data: bytes) -> None:
    bounds, lengths = split_runs(np.frombuffer(data, np.uint8))
    expected = list(_runs_one_by_one(data))
    assert lengths.tolist() == [pixels for _, pixels in expected]
    assert bounds.tolist() == [0, *(end for end, _ in expected)]


def _runs_one_by_one(data: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(data):
        index, pixels = data[at], 1
        at += 1
        while index > 127:
            if at == len(data):
                return
            pixels += data[at]
            at += 1
            if data[at - 1] != 255:
                break
        yield at, pixels


def _deflated(length: int) -> bytes:
    """Return so many zero bytes as Tight sends them when it compresses them."""
    block = zlib.compress(bytes(length))
    return rfb_server.compact_length(len(block)) + block


INVALID_ZRLE = {
    "4 pixels need 12 bytes, got 3": b"\x00" + bytes(3),
    "unknown ZRLE tile type 17": b"\x11" + bytes(60),
    "unknown ZRLE tile type 129": b"\x81" + bytes(60),
    "index must be below 3, the size of its palette": b"\x03" + bytes(9) + b"\xff\xff",
    "a packed palette needs 2 bytes, got 1": b"\x04" + bytes(12) + b"\x00",
    "a run must have at most 4 pixels, got 5": b"\x80" + bytes(3) + b"\x04",
    "a run must have at most 4 pixels, got 256": b"\x80" + bytes(3) + b"\xff\x00",
    "the runs must have 4 pixels, got 5": b"\x82" + bytes(6) + b"\x80\x04",
    "the runs must have 4 pixels, got fewer": b"\x82" + bytes(6) + b"\x00",
    "index must be below 2, the size of its palette": b"\x82" + bytes(6) + b"\x02" * 4,
    "fewer tiles than its size needs": b"",
    "no bytes after its last tile, got 1": b"\x01" + bytes(4),
    "the compressed pixels must have at most": bytes(1 << 20),
}
INVALID_TIGHT = {
    "JPEG, which was not asked for": b"\x90",
    "Tight compression 10": b"\xa0",
    "unknown Tight filter 7": b"\x40\x07" + rfb_server.TightStream().wrap(0, bytes(12)),
    "index must be below 3, the size of its palette": b"\x40\x01\x02" + bytes(9) + b"\x03" * 4,
    "are not zlib data": b"\x00\x03abc",
    "must have 12 bytes, got 11": b"\x00" + _deflated(11),
    "at most 12 bytes": b"\x00" + _deflated(1 << 24),
}


@pytest.mark.parametrize("problem", INVALID_ZRLE)
def test_invalid_zrle_is_named(problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read(Zrle().decode(2, 2), rfb_server.ZrleStream().wrap(INVALID_ZRLE[problem]))


@pytest.mark.parametrize("problem", INVALID_TIGHT)
def test_invalid_tight_is_named(problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read(Tight().decode(2, 2), INVALID_TIGHT[problem])


@pytest.mark.desktop
@pytest.mark.parametrize("kind", KINDS)
def test_every_server_shows_same_in_every_encoding(kind: str, tmp_path: Path) -> None:
    with KINDS[kind].start(tmp_path, Wish(size=KINDS[kind].size)) as stage:
        for number, encoding in enumerate(get_args(EncodingChoice)):
            with closing(connect(stage.server.address, encoding=encoding)) as hands:
                hands.move(5 + 40 * number, 5)  # TigerVNC paints the pointer where another client has left it
                _becomes_the_truth(hands, stage)
                stage.repaint()
                _becomes_the_truth(hands, stage)


@pytest.mark.desktop
@pytest.mark.parametrize("size", [(3840, 2160), (5120, 2880)])
def test_slow_client_keeps_large_screen(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """TigerVNC 1.12 ends a connection for which 32 MiB wait."""
    monkeypatch.setattr("pytest_vnc_use.backends.connection.ANSWER_S", 60.0)
    with (
        vnc_servers.tigervnc(size=size) as server,
        closing(RfbConnection(server.address, None, 60.0)) as connection,
    ):
        reactor.callFromThread(reactor.callLater, 0.01, time.sleep, 1.0)  # it reads nothing meanwhile
        connection.refresh()
        assert connection.framebuffer.size == size


def _becomes_the_truth(hands: VNCController, stage: Stage) -> None:
    wait_for(lambda: stage.shows(decoded(hands.frame())), "the truth in the frame")


@pytest.fixture(scope="module", params=vnc_servers.STARTERS)
def full_screen(request: pytest.FixtureRequest) -> Iterator[VncServer]:
    """Gradients, noise and text on a screen whose width is no multiple of anything, and a terminal before them."""
    with vnc_servers.STARTERS[request.param](size=SIZE) as server, qt_on_x(server, GRADIENTS, *map(str, SIZE)):
        window_of(server, "gradients")
        with xterm(server, "seq 300; printf '\\033[?25l'; exec cat", geometry="83x21+201+303"):
            yield server


@pytest.mark.desktop
@pytest.mark.parametrize("encoding", SMALL)
def test_gradients_and_text_are_as_raw(full_screen: VncServer, encoding: EncodingChoice) -> None:
    with closing(connect(full_screen.address, encoding="raw")) as raw:
        raw.settle()
        with closing(connect(full_screen.address, encoding=encoding)) as small:
            assert np.array_equal(decoded(small.frame()), decoded(raw.frame()))


@pytest.mark.parametrize("encoding", SMALL)
def test_window_that_moved_is_as_raw(desktop: VncServer, encoding: EncodingChoice) -> None:
    """TigerVNC then tells where on the screen the pixels are already."""
    with (
        closing(connect(desktop.address, encoding="raw")) as raw,
        closing(connect(desktop.address, encoding=encoding)) as small,
        xterm(desktop, "seq 300; printf '\\033[?25l'; exec cat", geometry="83x21+201+303"),
    ):
        for x, y in ((333, 355), (340, 340), (7, 11)):
            desktop.output_of("xdotool", "search", "--name", "terminal", "windowmove", "--sync", str(x), str(y))
            wait_for(lambda: raw.frame().ref == small.frame().ref, f"{encoding} as raw")
        assert len(np.unique(decoded(small.frame()))) > 10


@pytest.mark.slow
@pytest.mark.parametrize("encoding", SMALL)
def test_what_scrolled_is_as_raw(full_screen: VncServer, encoding: EncodingChoice) -> None:
    address = full_screen.address
    with closing(connect(address, encoding="raw")) as raw, closing(connect(address, encoding=encoding)) as small:
        before = small.frame()
        small.click(300, 400)
        small.type_text("".join(f"{encoding} {line}\n" for line in range(15)))
        wait_for(lambda: small.frame().ref != before.ref, "a change")
        wait_for(lambda: raw.frame().ref == small.frame().ref, f"{encoding} as raw")


FORMATS = {
    "big-endian": (32, 24, 1, 1, 255, 255, 255, 16, 8, 0),
    "red in the highest byte": (32, 24, 0, 1, 255, 255, 255, 24, 16, 8),
    "16 bit": (16, 16, 0, 1, 31, 63, 31, 11, 5, 0),
    "colour map": (8, 8, 0, 0, 0, 0, 0, 0, 0, 0),
}


@pytest.mark.parametrize("name", FORMATS)
def test_other_pixel_format_is_asked_for_ours(name: str) -> None:
    announced = struct.pack(">BBBBHHHBBBxxx", *FORMATS[name])
    pixels = rfb_server.image(40, 30, 500, seed=2)
    colours = struct.pack(">BxHH", 1, 0, 2) + bytes(12)
    shown = rfb_server.update(rfb_server.drawn(pixels, rfb_server.RAW, pixels.tobytes()))
    session = rfb_server.greeting(40, 30, announced) + colours + shown
    with rfb_server.playing(session, then_silent=True) as address, closing(connect(address)) as hands:
        assert np.array_equal(decoded(hands.last_frame()), rfb_server.channels(pixels))


@pytest.mark.parametrize("depth", [24, 32])
@pytest.mark.parametrize("encoding", [rfb_server.RAW, rfb_server.ZRLE, rfb_server.TIGHT])
def test_announced_red_first_format_is_taken(depth: int, encoding: int) -> None:
    """VMware's servers send the format that they announce, whatever they are asked for."""
    announced = struct.pack(">BBBBHHHBBBxxx", 32, depth, 0, 1, 255, 255, 255, 0, 8, 16)
    pixels = rfb_server.image(40, 30, 500, seed=2)
    turned = np.frombuffer(pixels.astype(">u4").tobytes()[1:] + b"\0", "<u4").reshape(pixels.shape)
    data = {
        rfb_server.RAW: turned.tobytes(),
        rfb_server.ZRLE: rfb_server.ZrleStream().encode(turned & 0xFFFFFF, "raw"),
        rfb_server.TIGHT: rfb_server.TightStream().encode(pixels, "copy"),  # its pixels are red first in any format
    }[encoding]
    arrow = rfb_server.drawn(turned[:1, :8], rfb_server.CURSOR, turned[:1, :8].tobytes() + b"\xff")
    session = rfb_server.greeting(40, 30, announced) + rfb_server.update(
        arrow, rfb_server.drawn(pixels, encoding, data)
    )
    with (
        rfb_server.playing(session, then_silent=True) as address,
        closing(RfbConnection(address, None, 10.0)) as connection,
    ):
        screen = connection.framebuffer
        assert np.array_equal(decoded(screen.last_capture().frame()), rfb_server.channels(pixels))
        assert screen.pointer_shape is not None
        assert np.array_equal(screen.pointer_shape.pixels & 0xFFFFFF, pixels[:1, :8])


def test_server_keeping_16_bit_is_refused() -> None:
    announced = struct.pack(">BBBBHHHBBBxxx", *FORMATS["16 bit"])
    shown = rfb_server.update(rfb_server.rectangle(0, 0, 40, 30, rfb_server.RAW, bytes(2 * 40 * 30)))
    refused = pytest.raises(DesktopRefused, match="showed no screen within")
    with rfb_server.playing(rfb_server.greeting(40, 30, announced) + shown, then_silent=True) as address, refused:
        connect(address, timeout_s=0.5)


def test_pixels_by_tcp_are_compressed_and_raw_if_asked(tigervnc: VncServer) -> None:
    tigervnc.output_of("xsetroot", "-mod", "5", "7")
    for encoding, is_small in ((None, True), ("raw", False)):
        with slow_link(tigervnc.address, delay_s=0, bits_a_second=1e12) as link:
            with closing(connect(link.address, encoding=encoding)) as hands:  # type: ignore[arg-type]
                assert hands.frame().ref.width == 1024
            assert (link.from_server < 1024 * 768) == is_small


def test_desktop_with_its_own_password_sends_raw_pixels(tigervnc: VncServer) -> None:
    """A container that was started here tells its password, and is reached over loopback."""
    for password, is_small in (("geheim", False), (None, True)):
        with slow_link(tigervnc.address, delay_s=0, bits_a_second=1e12) as link:
            with closing(desktops.connect(Settings(server=link.address), password)) as hands:
                hands.glance()
            assert (link.from_server < 1024 * 768) == is_small


@pytest.mark.slow
def test_frame_after_settle_waits_no_round_trip(tigervnc: VncServer) -> None:
    round_trip_s = 0.3
    with slow_link(tigervnc.address, delay_s=round_trip_s / 2) as link, closing(connect(link.address)) as hands:
        assert min(_frame_s(hands, x) for x in (100, 200, 300)) < 0.8 * round_trip_s


def _frame_s(hands: VNCController, x: int) -> float:
    hands.click(x, 100)
    hands.settle()
    began_s = time.monotonic()
    hands.frame()
    return time.monotonic() - began_s
