"""What the keyboard sends, byte by byte, as a server of this test hears it."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.errors import ActionError
from support.rfb_server import RAW, greeting, rectangle, update
from support.vnc_servers import wait_for

SCREEN = rectangle(0, 0, 8, 8, RAW, bytes(8 * 8 * 4))
TAKES_SCANCODES = rectangle(0, 0, 0, 0, -258)
SHIFT, CONTROL, F5 = 0xFFE1, 0xFFE3, 0xFFC2


class Listener:
    """A VNC server with a still screen that keeps what it is told, as it was received."""

    def __init__(self, name: bytes, *extensions: bytes) -> None:
        self._words = greeting(8, 8, name=name) + b"".join(map(update, extensions)) + update(SCREEN)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._received: list[bytes] = []
        self._thread = threading.Thread(target=self._serve)
        self._is_over = False
        self.address = f"127.0.0.1::{self._listener.getsockname()[1]}"

    def hears_at_once(self, act: Callable[[], object], *messages: bytes) -> None:
        """Assert that `act` sends these messages, which arrive together."""
        data = b"".join(messages)
        act()
        wait_for(lambda: any(data in piece for piece in self._received), f"{data!r} in one of {self._received!r}")
        self._received.clear()

    @contextmanager
    def listening(self) -> Iterator[None]:
        self._thread.start()
        with closing(self._listener):
            yield
        self._thread.join()

    @contextmanager
    def serving(self) -> Iterator[VNCController]:
        with self.listening(), closing(connect(self.address)) as hands:
            self._received.clear()
            yield hands
            self._is_over = True

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        self.say = connection.sendall
        with connection, suppress(ConnectionError):
            self.say(self._words)
            while piece := connection.recv(1 << 20):
                self._received.append(piece)
                if self._is_over:  # the end waits for an answer
                    self.say(update(SCREEN))


def key(keysym: int, down: bool) -> bytes:
    return struct.pack(">BBxxI", 4, down, keysym)


def struck(*keysyms: int) -> bytes:
    return b"".join([key(each, True) for each in keysyms] + [key(each, False) for each in reversed(keysyms)])


def on_qemu(keysym: int, down: bool, scancode: int) -> bytes:
    return struct.pack(">BBHII", 255, 0, down, keysym, scancode)


@pytest.fixture
def listener() -> Listener:
    return Listener(b"a server")


def test_text_goes_out_in_one_write(listener: Listener) -> None:
    """A release that is late would let the server repeat the key."""
    with listener.serving() as hands:
        typed = [struck(SHIFT, ord("A")), struck(ord("b")), struck(0xFF0D), struck(SHIFT, ord("?"))]
        listener.hears_at_once(lambda: hands.type_text("Ab\n?" * 100), *typed * 100)


def test_held_modifier_stays_down(listener: Listener) -> None:
    with listener.serving() as hands:
        listener.hears_at_once(lambda: hands.key_down("shift"), key(SHIFT, True))
        listener.hears_at_once(lambda: hands.type_text("AB"), struck(ord("A")), struck(ord("B")))
        listener.hears_at_once(lambda: hands.key_combo("ctrl+shift+x"), struck(CONTROL, ord("X")))
        listener.hears_at_once(hands.close, key(SHIFT, False))


def test_held_letter_can_be_typed_all_same(listener: Listener) -> None:
    with listener.serving() as hands:
        listener.hears_at_once(lambda: hands.key_down("w"), key(ord("w"), True))
        listener.hears_at_once(lambda: hands.type_text("wow"), *(struck(ord(each)) for each in "wow"))


def test_lone_character_beyond_ascii_is_text(listener: Listener) -> None:
    with listener.serving() as hands:
        for name in ("é", "Ω"):
            with pytest.raises(ActionError, match=f"cannot type the characters '{name}'"):
                hands.key_combo(name)
        listener.hears_at_once(lambda: hands.key_combo("ctrl+é"), struck(CONTROL, 0xE9))


def test_qemu_gets_confirmed_scan_codes() -> None:
    listener = Listener(b"QEMU (guest)", TAKES_SCANCODES)
    with listener.serving() as hands:
        shift, slash = (SHIFT, 0x2A), (ord("?"), 0x35)
        pressed = [on_qemu(each, True, code) for each, code in (shift, slash)]
        released = [on_qemu(each, False, code) for each, code in (slash, shift)]
        listener.hears_at_once(lambda: hands.type_text("?"), *pressed, *released)
        listener.hears_at_once(lambda: hands.key_combo("F5"), on_qemu(F5, True, 0x3F), on_qemu(F5, False, 0x3F))
        with pytest.raises(ActionError, match=r"does not support the key 'f13'. It supports ASCII, F1 to F12"):
            hands.key_combo("f13")


def test_qemu_with_layout_of_its_own_gets_keysyms() -> None:
    listener = Listener(b"QEMU")
    with listener.serving() as hands:
        listener.hears_at_once(lambda: hands.type_text("?"), struck(SHIFT, ord("?")))
