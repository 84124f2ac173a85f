"""A server that breaks, lies or floods: a clear DesktopError in bounded time and
memory, and never an old frame.
"""

from __future__ import annotations

import select
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import numpy as np
import pytest

from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.errors import (
    AuthenticationFailed,
    ConnectionLost,
    DesktopError,
    DesktopRefused,
    SettingsError,
)
from support import rfb_server
from support.rfb_server import (
    COPY,
    CURSOR,
    DESKTOP_SIZE,
    RAW,
    TIGHT,
    ZRLE,
    drawn,
    greeting,
    playing,
    rectangle,
    update,
)
from support.wire import serving

WIDTH = 70
HEIGHT = 9
NO_ANSWER = r"did not answer within 0\.5 s"
IMAGE = rfb_server.image(WIDTH, HEIGHT, 3, seed=1)
FIRST = greeting(WIDTH, HEIGHT) + update(drawn(IMAGE, RAW, IMAGE.tobytes()))
REST = b"".join(
    [
        b"\x02",  # a bell
        update(rectangle(0, 0, 2, 2, CURSOR, bytes(18))),
        update(
            *(
                drawn(IMAGE, ZRLE, data)
                for data in [rfb_server.ZrleStream().encode(IMAGE, "runs")]
            )
        ),
        update(
            drawn(
                IMAGE[:4],
                TIGHT,
                rfb_server.TightStream().encode(IMAGE[:4], "palette"),
                y=5,
            )
        ),
        update(rectangle(3, 2, 20, 4, COPY, struct.pack(">HH", 5, 3))),
        struct.pack(">Bxxxi", 3, 5) + b"apple",  # a text that was cut
        update(
            rectangle(0, 0, 60, 8, DESKTOP_SIZE),
            drawn(IMAGE[:8, :60], TIGHT, b"\x80abc"),
        ),
    ]
)


def look(address: str) -> None:
    """Connect and look twice, the second time at what a fresh answer says."""
    with closing(connect(address, timeout_s=30)) as controller:
        controller.frame()
        controller.frame()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.5 s is all that an answer may take."""
    monkeypatch.setattr("pytest_vnc_use.backends.rfb_connection.ANSWER_S", 0.5)


def test_connection_ended_anywhere_is_named() -> None:
    lengths = range(0, len(REST) + 1, 3)
    errors = []
    with playing(*(FIRST + REST[:length] for length in lengths)) as address:
        for _ in lengths:
            with pytest.raises(DesktopError) as caught:
                look(address)
            errors.append(str(caught.value))
    named = f"{address}'"
    unnamed = {
        length: error
        for length, error in zip(lengths, errors, strict=True)
        if named not in error
    }
    assert unnamed == {}


def test_half_update_is_no_frame(impatient: None) -> None:
    white = np.full_like(IMAGE, 0xFFFFFF)
    half = update(drawn(white, RAW, white.tobytes()), drawn(IMAGE, RAW, b""))
    with (
        playing(FIRST + half, then_silent=True) as address,
        closing(connect(address, encoding="raw")) as controller,
    ):
        before = controller.last_frame()
        with pytest.raises(ConnectionLost, match=NO_ANSWER):
            controller.frame()
        assert controller.last_frame().ref == before.ref


def test_drawn_screen_is_updated_incrementally() -> None:
    """A whole screen for every request would keep the server and the connection
    busy.
    """
    incremental = struct.pack(">BBHHHH", 3, 1, 0, 0, WIDTH, HEIGHT)
    requested = threading.Event()

    class Server(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(FIRST)
            received = b""
            while incremental not in received and (more := self.request.recv(4096)):
                received += more
            requested.set()
            while self.request.recv(4096):
                pass

    with serving(Server) as address, closing(connect(address, encoding="raw")):
        assert requested.wait(10)


@contextmanager
def deaf() -> Iterator[tuple[str, list[socket.socket]]]:
    """Yield the address of a server that shows one screen and reads nothing, and its
    connections.
    """
    accepted: list[socket.socket] = []

    class Deaf(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            accepted.append(self.request)
            with suppress(OSError):
                self.request.sendall(FIRST)
            over.wait(30)

    over = threading.Event()
    with serving(Deaf) as address:
        try:
            yield address, accepted
        finally:
            over.set()


def test_deaf_server_is_left_in_time(
    impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_vnc_use.backends.client._HANG_UP_S", 0.3)
    with deaf() as (address, accepted):
        controller, other = (
            connect(address, encoding="raw", timeout_s=5) for _ in range(2)
        )
        started_s = time.monotonic()
        with (  # noqa: PT012  # either may notice it
            closing(controller),
            pytest.raises(ConnectionLost, match=NO_ANSWER),
        ):
            controller.type_text("apple" * 10_000)
            controller.frame()
        assert time.monotonic() - started_s < 60
        connection = other._connection
        # more than any socket holds
        connection.send(connection.protocol.transport.write, bytes(20_000_000))
        other.close()
        assert all(map(ended, accepted))


def ended(connection: socket.socket) -> bool:
    """Return whether the other end has closed the connection, within some seconds."""
    poll = select.poll()
    poll.register(connection, select.POLLHUP | select.POLLERR | select.POLLRDHUP)
    return bool(poll.poll(8000))


def test_update_elsewhere_is_no_answer(impatient: None) -> None:
    """The server still draws, and heeds no request any more."""
    elsewhere = update(rectangle(1, 1, 60, 8, RAW, bytes(60 * 8 * 4)))
    # either may notice it
    noticed = pytest.raises(ConnectionLost, match=rf"{NO_ANSWER}|has been sent yet")
    with playing(FIRST, again=elsewhere) as address, noticed:
        look(address)


SENSELESS_GREETINGS = {
    "is no VNC server: it greets with 'SSH-2.0-OpenSSH_9.2'. Give the port": (
        b"SSH-2.0-OpenSSH_9.2\r\n"
    ),
    "it greets with 'HTTP/1.1 400 Bad Request'": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "is an UltraVNC repeater .* of the VNC server behind it": b"RFB 000.000\n",
    "is no VNC server: it greets with 'RFB 002.001'": b"RFB 002.001\n",
    "offers type 99, type 100: make the server offer VncAuth": (
        b"RFB 003.008\n\x02\x63\x64"
    ),
    "refused the connection: Too many é": (
        b"RFB 003.008\n\x00" + struct.pack(">I", 11) + "Too many é".encode()
    ),
    "refused the password: $": b"RFB 003.008\n\x01\x01\x00\x00\x00\x01" + bytes(4),
    "the screen must have .*, got 0 x 8": greeting(0, 8),
}
SENSELESS = {
    "x=1, y=0, width=70, height=1": update(rectangle(1, 0, WIDTH, 1, RAW)),
    "width=65535, height=65535": update(rectangle(0, 0, 65535, 65535, TIGHT)),
    "x=60, y=5, width=20, height=4": update(
        rectangle(0, 0, 20, 4, COPY, struct.pack(">HH", 60, 5))
    ),
    "the screen must have .*, got 4097 x 4096": update(
        rectangle(0, 0, 4097, 4096, DESKTOP_SIZE)
    ),
    "unknown encoding 1234": update(rectangle(0, 0, 1, 1, 1234)),
    "unknown message": b"\x99",
    "the compressed pixels are not zlib data": (
        update(drawn(IMAGE, ZRLE, struct.pack(">I", 9) + b"no zlib ")) + b"."
    ),
    "4294967295 compressed bytes": update(drawn(IMAGE, ZRLE, b"\xff" * 4)),
    "JPEG, which was not asked for": update(drawn(IMAGE, TIGHT, b"\x90")),
}


def test_silent_server_error_names_websocket() -> None:
    """As a web server, which waits for the client."""
    problem = "is it a VNC server.*noVNC.*ws://host:port/websockify"
    with (
        playing(b"", then_silent=True) as address,
        pytest.raises(DesktopRefused, match=problem),
    ):
        connect(address, timeout_s=0.5)


@pytest.mark.parametrize(
    ("name", "size", "is_rejected"),
    [
        (b"box:41", (640, 5760), True),
        (b"box:41", (64, 191), False),
        (b"A long page", (64, 576), False),
    ],
)
def test_screen_of_ncache_is_settings_error(
    name: bytes, size: tuple[int, int], is_rejected: bool
) -> None:
    pixels = np.zeros((size[1], size[0], 4), np.uint8)
    session = greeting(*size, name=name) + update(drawn(pixels, RAW, pixels.tobytes()))
    with playing(session, then_silent=True) as address:
        if not is_rejected:
            with closing(connect(address)) as controller:
                assert controller.size == size
            return
        with pytest.raises(
            SettingsError,
            match=r"640x5760.*x11vnc -ncache.*Restart x11vnc with -ncache 0.*-desktop",
        ):
            connect(address)


@pytest.mark.parametrize(("problem", "message"), SENSELESS_GREETINGS.items())
def test_invalid_greeting_ends_connection(problem: str, message: bytes) -> None:
    with (
        playing(message, then_silent=True) as address,
        pytest.raises((DesktopRefused, AuthenticationFailed), match=problem),
    ):
        look(address)


@pytest.mark.parametrize(("problem", "message"), SENSELESS.items())
def test_invalid_message_ends_connection(problem: str, message: bytes) -> None:
    text = f"violated the VNC protocol: .*({problem})"
    with (
        playing(FIRST + message, then_silent=True) as address,
        pytest.raises(ConnectionLost, match=text),
    ):
        look(address)
