"""The VNC server that a user's viewer connects to, spoken to in bytes and by real clients."""

from __future__ import annotations

import queue
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np
import pytest

from pytest_vnc_use.backends.pixels import Area, Rectangle
from pytest_vnc_use.backends.screen import Framebuffer, PointerShape
from pytest_vnc_use.backends.viewer_server import Motion, ViewerServer
from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.errors import AuthenticationFailed, DesktopError, SettingsError
from pytest_vnc_use.types import KeyDown, KeyUp, MouseDown, MouseUp, Move, Scroll
from pytest_vnc_use.types.keys import key_of, parse_key
from support import rfb_server
from support.viewer_client import ALT, CONTROL, SHIFT, Person

WIDTH, HEIGHT = 70, 40
PIXELS = rfb_server.image(WIDTH, HEIGHT, 200, seed=1)
SECONDS = 30.0


class Shown:
    """A screen that is served, and what its viewer does."""

    def __init__(self, password: str | None = None, listen: str = "localhost::0") -> None:
        self.screen = Framebuffer()
        self.screen.resize(WIDTH, HEIGHT)
        self.draw(PIXELS)
        self._motions: queue.SimpleQueue[Motion | None] = queue.SimpleQueue()
        self.server = ViewerServer(self.screen, "shown", listen, password, lambda motion, _: self._motions.put(motion))
        self.address = self.server.address

    def draw(self, pixels: rfb_server.Pixels, x: int = 0, y: int = 0) -> None:
        height, width = pixels.shape
        self.screen.apply([Rectangle(Area(x, y, width, height), pixels)])

    def motions(self, count: int) -> list[Motion | None]:
        return [self._motions.get(timeout=SECONDS) for _ in range(count)]


@pytest.fixture
def show() -> Iterator[Callable[..., Shown]]:
    shown: list[Shown] = []

    def start(*args: str | None) -> Shown:
        shown.append(Shown(*args))
        return shown[-1]

    yield start
    for each in shown:
        each.server.close()


def ask(person: Person, *, incremental: bool = False, area: tuple[int, int, int, int] = (0, 0, WIDTH, HEIGHT)) -> None:
    person.send(struct.pack("!BB4H", 3, incremental, *area))


def rectangles(person: Person, pixel_bytes: int = 4) -> list[tuple[tuple[int, int, int, int, int], bytes]]:
    """Return an update's rectangles: header and data of each."""
    (count,) = struct.unpack("!xxH", person.read(4))
    found = []
    for _ in range(count):
        head = _, _, width, height, encoding = struct.unpack("!HHHHi", person.read(12))
        mask = (width + 7) // 8 * height if encoding == rfb_server.CURSOR else 0
        found.append((head, person.read(width * height * pixel_bytes + mask)))
    return found


def test_client_sees_screen_and_changes(show: Callable[..., Shown]) -> None:
    shown = show()
    with closing(connect(shown.address)) as client:
        assert (client.name, client.size) == ("shown", (WIDTH, HEIGHT))
        assert np.array_equal(client.screen.last_capture().pixels & 0xFFFFFF, PIXELS)
        before_s = client.frame().taken_at
        shown.draw(np.full((3, 5), 0x123456, np.uint32), 60, 30)
        assert client.wait_changed(before_s, SECONDS)
        expected = PIXELS.copy()
        expected[30:33, 60:65] = 0x123456
        client.frame()
        assert np.array_equal(client.screen.last_capture().pixels & 0xFFFFFF, expected)


@pytest.mark.parametrize("version", [b"RFB 003.003\n", b"RFB 003.007\n", b"RFB 003.008\n", b"RFB 003.889\n"])
@pytest.mark.parametrize("password", ["", "secret"])
def test_each_version_lets_one_viewer_in(show: Callable[..., Shown], version: bytes, password: str) -> None:
    shown = show(password or None)
    if password:
        with Person(shown.address, "other", version) as stranger:
            assert stranger.said == ("refused" if version < b"RFB 003.008" else "wrong password")
            with pytest.raises(EOFError):
                stranger.read(1)
    with Person(shown.address, password, version) as first:
        assert (first.said, first.size, first.name, first.form) == ("", (WIDTH, HEIGHT), "shown", rfb_server.BGRX)
        with Person(shown.address, password, version) as second:
            assert second.said.startswith("this desktop already has a viewer")
            with pytest.raises(EOFError):
                second.read(1)
        first.point(1, 2)
    assert shown.motions(2) == [Move(1, 2), None]


def test_client_reads_why_it_is_refused(show: Callable[..., Shown]) -> None:
    with pytest.raises(AuthenticationFailed):
        connect(show("secret").address)
    shown = show(None, "127.0.0.1::0")
    host, _, port = shown.address.rpartition("::")
    with (
        socket.create_connection((host, int(port)), SECONDS),  # one that never speaks stands in no other's way
        Person(shown.address),
        pytest.raises(DesktopError, match="this desktop already has a viewer"),
    ):
        connect(shown.address)


FORMATS = {
    "red first": (struct.pack("!BBBBHHHBBBxxx", 32, 24, 0, 1, 255, 255, 255, 0, 8, 16), "<u4"),
    "big": (struct.pack("!BBBBHHHBBBxxx", 32, 24, 1, 1, 255, 255, 255, 16, 8, 0), ">u4"),
    "565": (struct.pack("!BBBBHHHBBBxxx", 16, 16, 0, 1, 31, 63, 31, 11, 5, 0), "<u2"),
    "233": (struct.pack("!BBBBHHHBBBxxx", 8, 8, 0, 1, 7, 7, 3, 0, 3, 6), "u1"),
}


@pytest.mark.parametrize("form", FORMATS)
def test_pixels_have_form_asked_for(show: Callable[..., Shown], form: str) -> None:
    block, number = FORMATS[form]
    *_, red_most, green_most, blue_most, red, green, blue = struct.unpack("!BBBBHHHBBBxxx", block)
    with Person(show().address) as person:
        person.send(b"\0\0\0\0", block)
        ask(person, area=(10, 20, 500, 5))
        ((head, data),) = rectangles(person, np.dtype(number).itemsize)
    assert head == (10, 20, WIDTH - 10, 5, 0)
    received, expected = np.frombuffer(data, number).reshape(5, WIDTH - 10).astype(np.uint32), PIXELS[20:25, 10:]
    for most, shift, ours in ((red_most, red, 16), (green_most, green, 8), (blue_most, blue, 0)):
        assert np.array_equal(received >> shift & most, (expected >> ours & 255) * most // 255)


def test_pointer_shape_is_sent_when_it_changes(show: Callable[..., Shown]) -> None:
    shown = show()
    with Person(shown.address) as person:
        person.send(struct.pack("!BxHi", 2, 1, rfb_server.CURSOR))
        ask(person)
        assert [head[-1] for head, _ in rectangles(person)] == [rfb_server.RAW, rfb_server.CURSOR]
        shown.screen.pointer_shape = PointerShape.of(1, 2, 9, 2, bytes(9 * 2 * 4), b"\xff\x80\x80\x00")
        ask(person, incremental=True)
        assert (1, 2, 9, 2, rfb_server.CURSOR) in [head for head, _ in rectangles(person)]


def test_resized_screen_and_close_end_viewer(show: Callable[..., Shown]) -> None:
    shown = show()
    with Person(shown.address) as person:
        shown.screen.resize(10, 10)
        ask(person, incremental=True)
        with pytest.raises(EOFError):
            person.read(1)
    closed = Shown()
    with Person(closed.address) as person:
        closed.server.close()
        with pytest.raises((EOFError, ConnectionError)):
            person.read(1)
    with pytest.raises(OSError, match="refused"):
        Person(closed.address)


def test_input_of_viewer_becomes_motions(show: Callable[..., Shown]) -> None:
    shown = show()
    with Person(shown.address) as person:
        person.send(struct.pack("!BxxxI", 6, 3_000_000), b"x" * 3_000_000)  # a clipboard, which is passed over
        for x, y, buttons in ((3, 4, 0), (3, 4, 1), (9, 9, 1), (9, 9, 0)):
            person.point(x, y, buttons)
        person.click(9, 9, 4)
        person.click(9, 9, 16)
        person.point(500, 500)
        person.press(SHIFT, ord("A"))
        person.press(0xFE51)
        assert shown.motions(14) == [
            *(Move(3, 4), MouseDown(3, 4), Move(9, 9), MouseUp(9, 9)),
            *(MouseDown(9, 9, "right"), MouseUp(9, 9, "right")),
            *(Scroll(9, 9, "down", 1), Move(WIDTH - 1, HEIGHT - 1)),
            *(KeyDown("shift"), KeyDown("A"), KeyUp("A"), KeyUp("shift")),
            *(KeyDown("0xfe51"), KeyUp("0xfe51")),
        ]


@pytest.mark.parametrize("said", [b"\xff", b"\0\0\0\0" + struct.pack("!BBBBHHHBBBxxx", 8, 8, 0, 0, *[0] * 6)])
def test_invalid_message_ends_viewer(show: Callable[..., Shown], said: bytes) -> None:
    shown = show()
    with Person(shown.address) as person:
        person.send(said)
        assert shown.motions(1) == [None]


KEYSYMS = {
    0x20: " ", ord("A"): "A", 0xE9: "é", 0x10003B1: "α", 0x1B1: "ą", 0x6C1: "а", 0x7E1: "α", 0x20AC: "€", 0x13BC: "Œ",
    0xFFB5: "5", 0xFFAA: "*", SHIFT: "shift", CONTROL: "control", ALT: "alt", 0xFFE7: "alt", 0xFE03: "altgr",
    0xFF7E: "altgr", 0xFE20: "tab", 0xFF0D: "return", 0xFF8D: "kpenter", 0xFF95: "home", 0xFF9F: "delete", 0xFFBE: "f1",
}  # fmt: skip


def test_keysym_has_name_of_its_key() -> None:
    assert {keysym: key_of(keysym) for keysym in KEYSYMS} == KEYSYMS
    assert all(parse_key(name) for name in KEYSYMS.values())
    assert {key_of(each) for each in (0, 0xFE51, 0x7B1, 0xFF9D, 0x1000000, 0x1FFFFFFF, 0x100000A)} == {""}


@pytest.mark.parametrize(
    ("password", "listen", "problem"),
    [
        *((None, each, "would let every user in") for each in ("0.0.0.0::0", "somewhere.example::5930", "[::]::0")),
        *(("secret", each, "--listen") for each in ("localhost::port", "203.0.113.7::0")),
        (None, "127.0.0.1::{taken}", "is not a free address"),
    ],
)
def test_invalid_address_is_rejected(show: Callable[..., Shown], password: str, listen: str, problem: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SettingsError, match=problem):
        show(password, listen.format(taken=taken.getsockname()[1]))
