"""A VNC server in this process for one client; the client's input is reported, not performed.

It speaks RFB 3.3 to 3.8 (RFC 6143). It sends raw pixels, because it is meant for a viewer nearby. The clipboard is not
shared: a recording could not repeat a paste from elsewhere.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import struct
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any, Union

import numpy as np
from twisted.internet.endpoints import TCP4ServerEndpoint, TCP6ServerEndpoint
from twisted.internet.error import CannotListenError
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.threads import blockingCallFromThread
from vncdotool.const import AuthTypes, Encoding, MsgC2S
from vncdotool.rfb import PixelFormat

from pytest_vnc_use import clock
from pytest_vnc_use.backends.client import BGRX
from pytest_vnc_use.backends.pixels import Pixels
from pytest_vnc_use.backends.reactor import reactor, start_reactor
from pytest_vnc_use.backends.screen import Framebuffer, PointerShape
from pytest_vnc_use.backends.security import mirrored_des
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.types import Button, Direction, KeyDown, KeyUp, MouseDown, MouseUp, Move, Region, Scroll
from pytest_vnc_use.types.keys import key_of
from pytest_vnc_use.types.wire import host_and_port

Motion = Union[MouseDown, MouseUp, Move, Scroll, KeyDown, KeyUp]
"""One event of a pointer or a keyboard."""
_LOOK_AGAIN_S = 1 / 30
_MOST_TEXT_BYTES = 1 << 20
_VERSION = b"RFB 003.008\n"
_IN_USE = "this desktop already has a viewer, and only one is allowed"
_BUTTONS: Sequence[Button] = ("left", "middle", "right")
_WHEEL: Sequence[Direction] = ("up", "down", "left", "right")
_ARROW = ("X       ", "XX      ", "XXX     ", "XXXX    ", "XXXXX   ", "XXXXXX  ", "XXXXXXX ", "XXXX    ", "X  XX   ")
_ARROW_COVERS = np.array([[mark == "X" for mark in row] for row in _ARROW])
_ARROW_SHAPE = PointerShape(np.zeros(_ARROW_COVERS.shape, np.uint32), _ARROW_COVERS, 0, 0)
"""The pointer for a server that does not send its own shape."""

Talk = Generator[int, bytes, None]
"""A conversation: it yields the number of bytes that it needs next, and gets them by `send`."""


MotionListener = Callable[[Union[Motion, None], float], None]
"""A listener that the reactor calls with each event, or None once the viewer is gone, and the moment.

The moment is on the monotonic clock.
"""


class ViewerServer:
    """A server that shows `screen` to the one viewer that connects to `listen`, such as `localhost::5930`.

    Port 0 is any free one. With a password, the viewer must give it. Without one, only this machine may connect: raises
    SettingsError for any other address. Raises SettingsError too where it cannot listen at the address.
    """

    def __init__(
        self, screen: Framebuffer, name: str, listen: str, password: str | None, on_motion: MotionListener
    ) -> None:
        host, port = _address(listen, password)
        self.screen, self.name, self.password, self.on_motion = screen, name, password, on_motion
        self.viewer: _Viewer | None = None
        self._connected: set[_Viewer] = set()
        factory = Factory.forProtocol(lambda: _Viewer(self))
        factory.noisy = False
        start_reactor()
        endpoint = TCP6ServerEndpoint if ":" in host else TCP4ServerEndpoint
        try:
            listening = blockingCallFromThread(reactor, endpoint(reactor, port, interface=host).listen, factory)
        except (CannotListenError, OSError) as exc:
            raise SettingsError(f"--listen={listen!r} is not a free address of this machine: {exc}") from exc
        self._listening: Any = listening
        literal = f"[{host}]" if ":" in host else host
        self.address = f"{literal}::{listening.getHost().port}"

    def close(self) -> None:
        """Disconnect the viewer and stop listening."""
        blockingCallFromThread(reactor, self._close)

    def _close(self) -> Any:
        for viewer in self._connected:
            viewer.transport.abortConnection()
        return self._listening.stopListening()

    def opened(self, viewer: _Viewer) -> None:
        """Note a viewer that has connected."""
        self._connected.add(viewer)

    def closed(self, viewer: _Viewer) -> None:
        """Forget a viewer that is gone. If it was the one that sees the desktop, call the listener."""
        self._connected.discard(viewer)
        if viewer is self.viewer:
            self.on_motion(None, clock.monotonic())


def _address(listen: str, password: str | None) -> tuple[str, int]:
    found = None
    with suppress(SettingsError):
        found = host_and_port(listen)
    if not found:
        raise SettingsError(f"--listen must be host::port or host:display, got {listen!r}")
    host, port = found[0] or "127.0.0.1", found[1]
    if password is None and not _is_here(host):
        raise SettingsError(
            f"--listen={listen!r} would let every user in without a password. Give a password (--password-env), or "
            "listen at localhost and connect from elsewhere through `ssh -L`"
        )
    return host, port


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Viewer(Protocol):
    """One connection; it lives on the reactor's thread."""

    transport: Any

    def __init__(self, server: ViewerServer) -> None:
        self._server = server
        self._screen = server.screen
        self._received = bytearray()
        self._format = BGRX
        self._encodings: tuple[int, ...] = ()
        self._size = self._screen.size
        self._seen_at = -np.inf
        self._shape: PointerShape | None = None
        self._waits = False
        self._buttons = 0
        self._at = (-1, -1)

    def connectionMade(self) -> None:
        """Begin the conversation."""
        self._server.opened(self)
        self.transport.setTcpNoDelay(True)
        self._talk = self._converse()
        self._needed = next(self._talk)

    def connectionLost(self, reason: object = None) -> None:
        """Tell the server that the viewer is gone."""
        self._waits = False
        self._server.closed(self)

    def dataReceived(self, data: bytes) -> None:
        """Continue the conversation; end it if the viewer sends invalid bytes."""
        self._received += data
        while len(self._received) >= self._needed and not self.transport.disconnecting:
            block = bytes(self._received[: self._needed])
            del self._received[: self._needed]
            try:
                self._needed = self._talk.send(block)
            except (StopIteration, ValueError, struct.error):  # no viewer sends that
                self.transport.loseConnection()
                return

    def _converse(self) -> Talk:
        self.transport.write(_VERSION)
        version = yield 12
        if not (yield from self._is_let_in(version[:11])):
            return
        yield 1  # the flag that others may watch; there is only one viewer
        if self._server.viewer is not None:  # another viewer came at the same time and was quicker
            return
        width, height = self._size
        name = self._server.name.encode()
        self.transport.write(struct.pack("!HH16sI", width, height, BGRX.to_bytes(), len(name)) + name)
        self._server.viewer = self
        while True:
            yield from self._message((yield 1)[0])

    def _is_let_in(self, version: bytes) -> Generator[int, bytes, bool]:
        """Agree on the security. Refuse a second viewer, with a reason, as its version does (RFC 6143, 7.1)."""
        if self._server.viewer is not None:
            no_security = struct.pack("!I", 0) if version < b"RFB 003.007" else b"\0"
            self.transport.write(no_security + _reason(_IN_USE))
            return False
        security_type = AuthTypes.NONE if self._server.password is None else AuthTypes.VNC_AUTHENTICATION
        if version < b"RFB 003.007":
            self.transport.write(struct.pack("!I", security_type))
        else:
            self.transport.write(bytes([1, security_type]))
            if (yield 1)[0] != security_type:
                return False
        knows = self._server.password is None or (yield from self._knows(self._server.password))
        if self._server.password is not None or version >= b"RFB 003.008":
            self.transport.write(struct.pack("!I", not knows))
        if not knows and version >= b"RFB 003.008":
            self.transport.write(_reason("wrong password"))
        return knows

    def _knows(self, password: str) -> Generator[int, bytes, bool]:
        challenge = os.urandom(16)
        self.transport.write(challenge)
        return hmac.compare_digest((yield 16), mirrored_des(password.encode("ascii"), challenge))

    def _message(self, kind: int) -> Talk:
        match kind:
            case MsgC2S.SET_PIXEL_FORMAT:
                self._set_format((yield 19)[3:])
            case MsgC2S.SET_ENCODING:
                (count,) = struct.unpack("!xH", (yield 3))
                self._encodings = struct.unpack(f"!{count}i", (yield 4 * count))
            case MsgC2S.FRAMEBUFFER_UPDATE_REQUEST:
                self._update_request(*struct.unpack("!?HHHH", (yield 9)))
            case MsgC2S.KEY_EVENT:
                down, keysym = struct.unpack("!?xxI", (yield 7))
                key = key_of(keysym) or hex(keysym)  # no key has such a name: a press of it is refused
                self._tell(KeyDown(key) if down else KeyUp(key))
            case MsgC2S.POINTER_EVENT:
                self._pointer_event(*struct.unpack("!BHH", (yield 5)))
            case MsgC2S.CLIENT_CUT_TEXT:
                yield from self._skip(*struct.unpack("!xxxI", (yield 7)))
            case _:
                raise ValueError(f"the viewer sent a message of the unknown kind {kind!r}")

    def _skip(self, length: int) -> Talk:
        while length:
            now = min(length, _MOST_TEXT_BYTES)
            yield now
            length -= now

    def _set_format(self, block: bytes) -> None:
        self._format = PixelFormat.from_bytes(block)
        if not self._format.truecolor or self._format.bpp not in (8, 16, 32):
            raise ValueError(f"the viewer asked for the unknown pixel format {self._format!r}")

    def _update_request(self, incremental: bool, x: int, y: int, width: int, height: int) -> None:
        if not incremental:
            asked = Region(x, y, min(x + width, self._size[0]), min(y + height, self._size[1]))
            self._show([(asked, self._screen.part(asked))])
        elif not self._waits:
            self._waits = True
            self._show_news()

    def _show_news(self) -> None:
        if not self._waits:
            return
        if self._screen.size != self._size:
            self.transport.loseConnection()
            return
        seen_at, parts = self._screen.parts_since(self._seen_at)
        if parts or self._has_new_shape():
            self._seen_at, self._waits = seen_at, False
            self._show(parts)
        else:
            reactor.callLater(_LOOK_AGAIN_S, self._show_news)

    def _show(self, parts: Sequence[tuple[Region, Pixels]]) -> None:
        drawn = [_rectangle(part.left, part.top, pixels, Encoding.RAW, self._format) for part, pixels in parts]
        if self._has_new_shape():
            self._shape = self._screen.pointer_shape or _ARROW_SHAPE
            shape = self._shape
            covers = np.packbits(shape.covers, axis=1).tobytes()
            pointer = _rectangle(shape.hot_x, shape.hot_y, shape.pixels, Encoding.PSEUDO_CURSOR, self._format)
            drawn.append(pointer + covers)
        self.transport.writeSequence([struct.pack("!BxH", 0, len(drawn)), *drawn])

    def _has_new_shape(self) -> bool:
        if Encoding.PSEUDO_CURSOR not in self._encodings:
            return False
        return self._shape is None or self._screen.pointer_shape not in (None, self._shape)

    def _pointer_event(self, buttons: int, x: int, y: int) -> None:
        at = min(x, self._size[0] - 1), min(y, self._size[1] - 1)
        changed, self._buttons = buttons ^ self._buttons, buttons
        if at != self._at:
            self._at = at
            self._tell(Move(*at))
        for number, button in enumerate(_BUTTONS):
            if changed >> number & 1:
                self._tell(MouseDown(*at, button) if buttons >> number & 1 else MouseUp(*at, button))
        for number, direction in enumerate(_WHEEL, len(_BUTTONS)):
            if changed & buttons & 1 << number:
                self._tell(Scroll(*at, direction, 1))

    def _tell(self, motion: Motion) -> None:
        self._server.on_motion(motion, clock.monotonic())


def _reason(text: str) -> bytes:
    """Return the reason of a refusal, as RFB sends it."""
    return struct.pack("!I", len(text.encode())) + text.encode()


def _rectangle(x: int, y: int, pixels: Pixels, encoding: int, form: PixelFormat) -> bytes:
    height, width = pixels.shape
    return struct.pack("!HHHHi", x, y, width, height, encoding) + in_format(pixels, form)


def in_format(pixels: Pixels, form: PixelFormat) -> bytes:
    """Return the pixels in the format that a viewer wants."""
    number = np.dtype(f"{'>' if form.bigendian else '<'}u{form.bypp}")
    if (form.redshift, form.greenshift, form.blueshift, form.redmax, form.greenmax, form.bluemax) == _SAME:
        return pixels.astype(number).tobytes()
    channels = (
        (16, form.redmax, form.redshift),
        (8, form.greenmax, form.greenshift),
        (0, form.bluemax, form.blueshift),
    )
    moved = sum(
        (((pixels >> np.uint32(ours)) & 255) * np.uint32(most) // 255) << shift for ours, most, shift in channels
    )
    return np.asarray(moved).astype(number).tobytes()


_SAME = (16, 8, 0, 255, 255, 255)
