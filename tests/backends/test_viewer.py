"""The VNC server that a person's viewer connects to, spoken to in bytes and by real clients."""

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
PIXELS = rfb_server.picture(WIDTH, HEIGHT, 200, seed=1)
SECONDS = 30.0


class Shown:
    """A screen at a stage, and what is heard of the viewer."""

    def __init__(self, password: str | None = None, listen: str = "localhost::0") -> None:
        self.screen = Framebuffer()
        self.screen.resize(WIDTH, HEIGHT)
        self.draw(PIXELS)
        self._heard: queue.SimpleQueue[Motion | None] = queue.SimpleQueue()
        self.stage = ViewerServer(self.screen, "shown", listen, password, lambda motion, _: self._heard.put(motion))

    def draw(self, pixels: rfb_server.Pixels, x: int = 0, y: int = 0) -> None:
        height, width = pixels.shape
        self.screen.apply([Rectangle(Area(x, y, width, height), pixels)])

    def heard(self, count: int) -> list[Motion | None]:
        return [self._heard.get(timeout=SECONDS) for _ in range(count)]


@pytest.fixture
def on_stage() -> Iterator[Callable[..., Shown]]:
    shown: list[Shown] = []

    def show(*args: str | None) -> Shown:
        shown.append(Shown(*args))
        return shown[-1]

    yield show
    for each in shown:
        each.stage.close()


def rectangles(person: Person) -> list[tuple[int, int, int, int, int]]:
    """The headers of an update's rectangles, which are read one by one; what is in them the caller reads."""
    (count,) = struct.unpack("!xxH", person.read(4))
    return [struct.unpack("!HHHHi", person.read(12)) for _ in range(count)]


def ask(person: Person, *, incremental: bool = False, area: tuple[int, int, int, int] = (0, 0, WIDTH, HEIGHT)) -> None:
    person.send(struct.pack("!BB4H", 3, incremental, *area))


# --- seeing ----------------------------------------------------------------------------------------------------------


def test_a_client_sees_what_is_shown_and_what_changes(on_stage: Callable[..., Shown]) -> None:
    shown = on_stage()
    with closing(connect(shown.stage.address)) as client:
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
def test_each_version_is_spoken(on_stage: Callable[..., Shown], version: bytes, password: str) -> None:
    with Person(on_stage(password or None).stage.address, password, version) as person:
        assert (person.said, person.size, person.name) == ("", (WIDTH, HEIGHT), "shown")
        assert person.form == rfb_server.BGRX


@pytest.mark.parametrize("version", [b"RFB 003.003\n", b"RFB 003.008\n"])
def test_a_wrong_password_is_refused(on_stage: Callable[..., Shown], version: bytes) -> None:
    shown = on_stage("secret")
    with Person(shown.stage.address, "other", version) as person:
        assert person.said
        with pytest.raises(EOFError):
            person.read(1)
    with Person(shown.stage.address, "secret") as person:
        assert person.size == (WIDTH, HEIGHT)


def test_a_client_without_the_password_is_refused(on_stage: Callable[..., Shown]) -> None:
    with pytest.raises(AuthenticationFailed):
        connect(on_stage("secret").stage.address)


FORMATS = {
    "red first": (struct.pack("!BBBBHHHBBBxxx", 32, 24, 0, 1, 255, 255, 255, 0, 8, 16), "<u4"),
    "big": (struct.pack("!BBBBHHHBBBxxx", 32, 24, 1, 1, 255, 255, 255, 16, 8, 0), ">u4"),
    "565": (struct.pack("!BBBBHHHBBBxxx", 16, 16, 0, 1, 31, 63, 31, 11, 5, 0), "<u2"),
    "233": (struct.pack("!BBBBHHHBBBxxx", 8, 8, 0, 1, 7, 7, 3, 0, 3, 6), "u1"),
}


@pytest.mark.parametrize("form", FORMATS)
def test_pixels_come_in_the_form_that_is_asked_for(on_stage: Callable[..., Shown], form: str) -> None:
    block, number = FORMATS[form]
    *_, red_most, green_most, blue_most, red, green, blue = struct.unpack("!BBBBHHHBBBxxx", block)
    with Person(on_stage().stage.address) as person:
        person.send(b"\0\0\0\0", block)
        ask(person)
        assert rectangles(person) == [(0, 0, WIDTH, HEIGHT, 0)]
        width = np.dtype(number).itemsize
        received = np.frombuffer(person.read(WIDTH * HEIGHT * width), number).reshape(HEIGHT, WIDTH).astype(np.uint32)
    for most, shift, ours in ((red_most, red, 16), (green_most, green, 8), (blue_most, blue, 0)):
        assert np.array_equal(received >> shift & most, (PIXELS >> ours & 255) * most // 255)


def test_the_part_that_is_asked_for_is_shown(on_stage: Callable[..., Shown]) -> None:
    with Person(on_stage().stage.address) as person:
        ask(person, area=(10, 20, 500, 5))
        assert rectangles(person) == [(10, 20, WIDTH - 10, 5, 0)]
        pixels = np.frombuffer(person.read((WIDTH - 10) * 5 * 4), "<u4").reshape(5, WIDTH - 10)
    assert np.array_equal(pixels & 0xFFFFFF, PIXELS[20:25, 10:])


def test_the_pointer_is_told_and_told_again_when_it_changes(on_stage: Callable[..., Shown]) -> None:
    shown = on_stage()
    with Person(shown.stage.address) as person:
        person.send(struct.pack("!BxHi", 2, 1, rfb_server.CURSOR))
        ask(person)
        assert [encoding for *_, encoding in rectangles_with_data(person)] == [rfb_server.RAW, rfb_server.CURSOR]
        shown.screen.shape_pointer(PointerShape.of(1, 2, 9, 2, bytes(9 * 2 * 4), b"\xff\x80\x80\x00"))
        ask(person, incremental=True)
        assert (1, 2, 9, 2, rfb_server.CURSOR) in rectangles_with_data(person)


def rectangles_with_data(person: Person) -> list[tuple[int, int, int, int, int]]:
    (count,) = struct.unpack("!xxH", person.read(4))
    found: list[tuple[int, int, int, int, int]] = []
    for _ in range(count):
        found.append(struct.unpack("!HHHHi", person.read(12)))
        _, _, width, height, encoding = found[-1]
        person.read(width * height * 4 + ((width + 7) // 8 * height if encoding == rfb_server.CURSOR else 0))
    return found


def test_a_screen_of_another_size_ends_it(on_stage: Callable[..., Shown]) -> None:
    shown = on_stage()
    with Person(shown.stage.address) as person:
        shown.screen.resize(10, 10)
        ask(person, incremental=True)
        with pytest.raises(EOFError):
            person.read(1)


# --- doing -----------------------------------------------------------------------------------------------------------


def test_what_the_pointer_does_is_heard(on_stage: Callable[..., Shown]) -> None:
    shown = on_stage()
    with Person(shown.stage.address) as person:
        person.point(3, 4)
        person.point(3, 4, 1)
        person.point(9, 9, 1)
        person.point(9, 9, 0)
        person.click(9, 9, 4)
        person.click(9, 9, 16)
        person.point(500, 500)
        assert shown.heard(8) == [
            *(Move(3, 4), MouseDown(3, 4), Move(9, 9), MouseUp(9, 9)),
            *(MouseDown(9, 9, "right"), MouseUp(9, 9, "right")),
            *(Scroll(9, 9, "down", 1), Move(WIDTH - 1, HEIGHT - 1)),
        ]


def test_keys_are_heard_by_their_names(on_stage: Callable[..., Shown]) -> None:
    shown = on_stage()
    with Person(shown.stage.address) as person:
        person.press(SHIFT, ord("A"))
        person.press(0xFE51)
        assert shown.heard(6) == [
            *(KeyDown("shift"), KeyDown("A"), KeyUp("A"), KeyUp("shift")),
            *(KeyDown("0xfe51"), KeyUp("0xfe51")),
        ]


KEYSYMS = {
    0x20: " ",
    ord("A"): "A",
    0xE9: "é",
    0x10003B1: "α",
    0x1B1: "ą",
    0x6C1: "а",
    0x7E1: "α",
    0x20AC: "€",
    0x13BC: "Œ",
    0xFFB5: "5",
    0xFFAA: "*",
    SHIFT: "shift",
    CONTROL: "control",
    ALT: "alt",
    0xFFE7: "alt",
    0xFE03: "altgr",
    0xFF7E: "altgr",
    0xFE20: "tab",
    0xFF0D: "return",
    0xFF8D: "kpenter",
    0xFF95: "home",
    0xFF9F: "delete",
    0xFFBE: "f1",
}


@pytest.mark.parametrize("keysym", KEYSYMS, ids=hex)
def test_a_keysym_has_a_spelling_that_is_known(keysym: int) -> None:
    assert key_of(keysym) == KEYSYMS[keysym]
    assert parse_key(key_of(keysym))


@pytest.mark.parametrize("keysym", [0, 0xFE51, 0x7B1, 0xFF9D, 0x1000000, 0x1FFFFFFF, 0x100000A], ids=hex)
def test_other_keysyms_have_none(keysym: int) -> None:
    assert key_of(keysym) == ""


def test_the_clipboard_is_passed_over(on_stage: Callable[..., Shown]) -> None:
    shown = on_stage()
    text = b"x" * 3_000_000
    with Person(shown.stage.address) as person:
        person.send(struct.pack("!BxxxI", 6, len(text)), text)
        person.point(1, 2)
        assert shown.heard(1) == [Move(1, 2)]


# --- coming and going ------------------------------------------------------------------------------------------------


def test_that_the_viewer_is_gone_is_heard(on_stage: Callable[..., Shown]) -> None:
    shown = on_stage()
    with Person(shown.stage.address) as person:
        person.point(1, 2)
    assert shown.heard(2) == [Move(1, 2), None]


@pytest.mark.parametrize("said", [b"\xff", b"\0\0\0\0" + struct.pack("!BBBBHHHBBBxxx", 8, 8, 0, 0, *[0] * 6)])
def test_what_no_viewer_says_ends_it(on_stage: Callable[..., Shown], said: bytes) -> None:
    shown = on_stage()
    with Person(shown.stage.address) as person:
        person.send(said)
        assert shown.heard(1) == [None]


@pytest.mark.parametrize("version", [b"RFB 003.003\n", b"RFB 003.007\n", b"RFB 003.008\n"])
@pytest.mark.parametrize("password", ["", "secret"])
def test_a_second_viewer_is_told_why_it_is_not_let_in_and_ends_nothing(
    on_stage: Callable[..., Shown], version: bytes, password: str
) -> None:
    shown = on_stage(password or None)
    with Person(shown.stage.address, password) as first:
        with Person(shown.stage.address, password, version) as second:
            assert second.said.startswith("this desktop already has a viewer")
            with pytest.raises(EOFError):
                second.read(1)
        first.point(1, 2)
        assert shown.heard(1) == [Move(1, 2)]


def test_a_real_client_reads_why_a_second_viewer_is_refused(on_stage: Callable[..., Shown]) -> None:
    shown = on_stage()
    with Person(shown.stage.address), pytest.raises(DesktopError, match="this desktop already has a viewer"):
        connect(shown.stage.address)


def test_who_never_speaks_stands_in_nobodys_way(on_stage: Callable[..., Shown]) -> None:
    shown = on_stage()
    host, _, port = shown.stage.address.rpartition("::")
    with socket.create_connection((host, int(port)), SECONDS), Person(shown.stage.address) as person:
        person.point(1, 2)
        assert shown.heard(1) == [Move(1, 2)]


def test_it_ends_its_viewer_and_listens_no_more() -> None:
    shown = Shown()
    with Person(shown.stage.address) as person:
        shown.stage.close()
        with pytest.raises((EOFError, ConnectionError)):
            person.read(1)
    with pytest.raises(OSError, match="refused"):
        Person(shown.stage.address)


def test_an_address_of_this_machine_is_told_as_viewers_take_it(on_stage: Callable[..., Shown]) -> None:
    with Person(on_stage(None, "127.0.0.1::0").stage.address) as person:
        assert person.size == (WIDTH, HEIGHT)


@pytest.mark.parametrize("listen", ["0.0.0.0::0", "somewhere.example::5930", "[::]::0"])
def test_without_a_password_nobody_comes_from_elsewhere(on_stage: Callable[..., Shown], listen: str) -> None:
    with pytest.raises(SettingsError, match="would let anybody in"):
        on_stage(None, listen)


@pytest.mark.parametrize("listen", ["localhost::port", "203.0.113.7::0"])
def test_what_cannot_be_listened_at_is_refused(on_stage: Callable[..., Shown], listen: str) -> None:
    with pytest.raises(SettingsError, match="--listen"):
        on_stage("secret", listen)


def test_a_port_that_is_taken_is_told(on_stage: Callable[..., Shown]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"127.0.0.1::{port}"):
            on_stage(None, f"127.0.0.1::{port}")
