"""The VNC client: vncdotool's RFB protocol for a live screen. It runs on the reactor's
thread.

It gets bytes and knows no socket, so recorded bytes can be decoded too, by
`protocol.makeConnection(transport)` and `protocol.dataReceived(…)`. A comment in each
override says what vncdotool's method lacks. The extended clipboard is that of rfbproto,
"Extended Clipboard Pseudo-Encoding".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import IntFlag
from typing import Any, Literal

from twisted.internet.interfaces import ITCPTransport
from twisted.python.failure import Failure
from vncdotool.const import Encoding
from vncdotool.rfb import PixelFormat, RFBFactory

from pytest_vnc_use.backends.encodings import (
    Decode,
    Reading,
    Tight,
    Zrle,
    raw,
    swapped,
    turned,
)
from pytest_vnc_use.backends.pixels import Area, Pixels, Rectangle
from pytest_vnc_use.backends.quirks import is_named_by_x11vnc
from pytest_vnc_use.backends.reactor import Pulse, reactor
from pytest_vnc_use.backends.screen import Framebuffer, PointerShape
from pytest_vnc_use.backends.security import SecuredClient, ServerFacts
from pytest_vnc_use.errors import (
    ConnectionLost,
    DesktopRefused,
    SettingsError,
    VncUseError,
)
from pytest_vnc_use.errors.causes import blocked
from pytest_vnc_use.types.actions import SecretText
from pytest_vnc_use.types.protocols import MessageTap
from pytest_vnc_use.types.wire import Wire

EncodingChoice = Literal["raw", "tight", "zrle"]
_PIXELS: dict[EncodingChoice, Sequence[Encoding]] = {
    "raw": [Encoding.RAW],
    "tight": [Encoding.COPY_RECTANGLE, Encoding.TIGHT, Encoding.ZRLE, Encoding.RAW],
    "zrle": [Encoding.COPY_RECTANGLE, Encoding.ZRLE, Encoding.RAW],
}
_PSEUDO = (
    Encoding.PSEUDO_CURSOR,  # keeps the pointer out of the frame
    Encoding.PSEUDO_DESKTOP_SIZE,
    Encoding.PSEUDO_EXTENDED_CLIPBOARD,
    Encoding.PSEUDO_QEMU_EXTENDED_KEY_EVENT,
    # no LastRect: it makes TigerVNC look for solid rectangles, 2.4 times slower
    # no quality level: it allows lossy pixels
    # no ContinuousUpdates: a request is always pending anyway, so that over a link of
    # 20 ms ten changes in 100 ms come no sooner
)
ENCODING_NAMES = {
    Encoding.RAW: "Raw",
    Encoding.COPY_RECTANGLE: "CopyRect",
    Encoding.TIGHT: "Tight",
    Encoding.ZRLE: "ZRLE",
    Encoding.PSEUDO_CURSOR: "Cursor",
    Encoding.PSEUDO_DESKTOP_SIZE: "DesktopSize",
}
MAX_RAW_BYTES = 24 << 20
"""The largest screen that is asked for in raw pixels.

TigerVNC 1.12 ends a connection with more than 32 MiB in its queue, which a briefly slow
client can cause.
"""
BGRX = PixelFormat(32, 24, False, True, 255, 255, 255, 16, 8, 0)
_RGBX = replace(BGRX, redshift=0, blueshift=16)
_RECEIVE_BYTES = 1 << 20
_MAX_SCREEN_PIXELS = 1 << 24
"""The maximum size of a screen, so that a server cannot use up the memory. Two 4K
screens beside each other have fewer pixels.
"""
_CACHE_RATIO = 3
"""The ratio of height to width from which a screen must contain the cache of x11vnc. By
default it makes 640x480 into 640x5760; no monitor or phone is that tall.
"""
_MAX_TEXT_BYTES = 1 << 20
_HANG_UP_S = 10.0
"""The time that a server has to read the last messages before the connection is ended.
"""


class Clipboard(IntFlag):
    """The flags of an extended clipboard message that concern text."""

    TEXT = 1
    CAPS = 1 << 24
    REQUEST = 1 << 25
    NOTIFY = 1 << 27
    PROVIDE = 1 << 28


class Outgoing:
    """The messages of one connection, each reported to a `tap` before it is sent."""

    def __init__(self, tap: MessageTap | None = None) -> None:
        self._tap = tap
        self.is_tapped = tap is not None
        self._types_secret = False

    def note(self, kind: str, **fields: object) -> None:
        """Report one message. The keys of a secret are left out."""
        if self._tap and not (self._types_secret and kind in ("key", "clipboard")):
            self._tap.note([{"kind": kind, **fields}])

    @contextmanager
    def typing(self, text: str) -> Iterator[None]:
        """Report a text that is typed meanwhile as a whole if it holds a secret, under
        the secret's name and without its keys.
        """
        if self._tap:
            shown = text.redacted if isinstance(text, SecretText) else text
            hidden = self._tap.hide(shown)
            if hidden != str(text):
                self.note("text", text=hidden)
                self._types_secret = True
        try:
            yield
        finally:
            self._types_secret = False


class DesktopFactory(RFBFactory):
    """The factory of one protocol, with the rules of its connection, and the framebuffer
    that gets its pixels and errors.
    """

    noisy = False

    def __init__(
        self,
        framebuffer: Framebuffer,
        server: str,
        password: str | None,
        *,
        wire: Wire = Wire(),  # noqa: B008  # frozen
        encoding: EncodingChoice = "tight",
        outgoing: Outgoing | None = None,
        facts: ServerFacts | None = None,
    ) -> None:
        super().__init__(password, shared=True)
        self.protocol = DesktopProtocol
        self.framebuffer = framebuffer
        self.server = server
        self.wire = wire
        self.encoding = encoding
        self.outgoing = outgoing or Outgoing()
        self.facts = facts or ServerFacts()
        self.host = ""
        """The name that the certificate must have."""
        self.port = 0
        """The port of the server; 0 for a unix socket."""
        self.websocket = ""
        """`ws` or `wss` for a connection through a WebSocket."""
        self.peers: tuple[str, str] | None = None
        """The hosts at the far and the near end of a WebSocket; the protocol sees
        neither.
        """
        self.opened: DesktopProtocol | None = None
        self.takes_plain = False
        """True if the server has TLS without a certificate and a plain connection is
        allowed.
        """

    def clientConnectionFailed(self, connector: object, reason: Failure) -> None:
        """Fail with DesktopRefused because there is no connection, or with
        SettingsError if the host is malformed.
        """
        # the host is neither a DNS name nor an IP address
        if isinstance(reason.value, ValueError):
            error: VncUseError = SettingsError(
                f"no VNC connection to {self.server!r}: the host {self.host!r} must be"
                " an IP address or a host name. Each label of a name has 1 to 63"
                " letters, digits and '-', and does not begin or end with '-'"
            )
        else:
            dialled = f", host {self.host!r}, port {self.port}" if self.port else ""
            error = DesktopRefused(
                f"no VNC connection to {self.server!r}{dialled}: {_message_of(reason)}"
            )
        self.framebuffer.fail(error)

    def clientConnectionLost(self, connector: object, reason: Failure) -> None:
        """Fail with DesktopRefused if the connection ended before its handshake, else
        with ConnectionLost.
        """
        if self.opened is None or not self.opened.handshaken:
            self.framebuffer.fail(
                DesktopRefused(
                    f"{self.server!r} closed the connection before it showed a screen"
                )
            )
        self.framebuffer.fail(
            ConnectionLost(
                f"the VNC connection to {self.server!r} was lost: {_message_of(reason)}"
            )
        )


class DesktopProtocol(SecuredClient):
    """The RFB client of one desktop, on the reactor's thread."""

    factory: DesktopFactory
    announces_clipboard = False
    fetched_texts = 0
    _drew = False
    _resized = False
    is_paused = False
    """Whether no changes are asked for now."""
    _offered = ""

    def connectionMade(self) -> None:
        """Prepare to decode updates."""
        # vncdotool's method does nothing
        self.factory.opened = self
        self.pulse = Pulse(lambda: self.request(0, 0, 1, 1))
        self._decoders: dict[int, Decode] = {
            Encoding.RAW: raw,
            Encoding.TIGHT: Tight().decode,
            Encoding.ZRLE: Zrle().decode,
        }
        self._rectangles: list[Rectangle] = []
        self._abort: Any = None
        self.transport.bufferSize = _RECEIVE_BYTES
        if ITCPTransport.providedBy(self.transport):
            # Nagle's algorithm holds a click up for 40 ms
            self.transport.setTcpNoDelay(True)

    def dataReceived(self, data: bytes) -> None:
        """Handle bytes from the server."""
        # vncdotool's method raises errors of many kinds, which no caller would see
        if self._ended:
            return
        try:
            super().dataReceived(data)
        except Exception as exc:  # noqa: BLE001  # each must reach the waiting caller
            self._break_off(str(exc) or type(exc).__name__)

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """Report the end."""
        # vncdotool's method does nothing
        if self._abort and self._abort.active():
            self._abort.cancel()  # the timer would keep this object in memory
        self._decoders.clear()  # half a megabyte
        self.factory.clientConnectionLost(None, reason)

    def hang_up(self) -> None:
        """Send no more, and leave it to the server to end the connection; if it does
        not, end it after a time.

        Closing a socket while the server writes resets the connection. Some servers
        then drop what they have not read yet, such as the release of a key.
        """
        if self.transport.connected:
            self.transport.loseWriteConnection()
            self._abort = reactor.callLater(_HANG_UP_S, self.transport.abortConnection)

    def vncConnectionMade(self) -> None:
        """Choose pixel format and encodings, and ask for the first update.

        VMware's servers ignore the format that is asked for, so a server's own format
        is kept if it can be read. Its depth does not count: Qt's server announces 32.
        """
        # vncdotool's method does nothing
        facts = self.factory.facts
        server_format = self.pixel_format
        facts.name = bytes(self.name).decode("utf-8", "replace")
        facts.size = (self.width, self.height)
        if is_named_by_x11vnc(facts.name) and self.height >= _CACHE_RATIO * self.width:
            self._reject(
                f"shows a screen of {self.width}x{self.height}: below the desktop is the"
                " cache of x11vnc -ncache. Restart x11vnc with -ncache 0. If the desktop"
                " really is that tall, name it with x11vnc -desktop NAME",
                SettingsError,
            )
            return
        facts.protection = self._protection()
        facts.pixel_format = (
            f"{server_format.bpp} bits a pixel, depth {server_format.depth}"
        )
        if not server_format.truecolor:
            facts.pixel_format += ", colour map"
        is_red_first = replace(server_format, depth=BGRX.depth) == _RGBX
        self.setPixelFormat(_RGBX if is_red_first else BGRX)
        if is_red_first:  # those of Tight are red first in any format
            for number in (Encoding.RAW, Encoding.ZRLE):
                self._decoders[number] = turned(self._decoders[number])
        self._resize(self.width, self.height)
        is_large = self.width * self.height * self.bypp > MAX_RAW_BYTES
        offered = [*_PIXELS["tight" if is_large else self.factory.encoding], *_PSEUDO]
        self.factory.outgoing.note(
            "encodings", names=[encoding.name for encoding in offered]
        )
        self.setEncodings(offered)
        self.handshaken = True
        self.request()

    def request(
        self,
        x: int = 0,
        y: int = 0,
        width: int | None = None,
        height: int | None = None,
        *,
        incremental: bool = False,
    ) -> None:
        """Ask for a region of the screen, by default for all of it. With `incremental`
        the server answers once it has changed.
        """
        area = {
            "x": x,
            "y": y,
            "width": width or self.width,
            "height": height or self.height,
        }
        self.factory.outgoing.note("update request", **area, incremental=incremental)
        self.framebufferUpdateRequest(**area, incremental=incremental)

    def _handleRectangle(self, block: bytes) -> None:
        """Read one rectangle."""
        # vncdotool's method has no Tight, a broken ZRLE, no copies, and decodes in
        # Python; it reads pseudo-encodings
        *corners, encoding = struct.unpack("!HHHHi", block)
        area = Area(*corners)
        # only confirms that scan codes are taken
        if encoding != Encoding.PSEUDO_QEMU_EXTENDED_KEY_EVENT:
            self.factory.facts.encodings.add(
                ENCODING_NAMES.get(encoding, f"encoding {encoding}")
            )
        match encoding:
            case Encoding.RAW | Encoding.TIGHT | Encoding.ZRLE:
                self.rectangles -= 1
                self._check(area)
                self._continue_reading(
                    None, self._decoders[encoding](area.width, area.height), area
                )
            case Encoding.COPY_RECTANGLE:
                self.rectangles -= 1
                self._check(area)
                self.expect(self._handle_copy, 4, area)
            case _ if encoding in _PSEUDO:
                super()._handleRectangle(block)
            case _:
                raise ValueError(f"unknown encoding {encoding!r}")

    def _continue_reading(
        self, block: bytes | None, reading: Reading, area: Area
    ) -> None:
        try:
            needed = reading.send(block)  # type: ignore[arg-type]  # None starts it
        except StopIteration as read:
            self._add_rectangle(area, read.value)
        else:
            self.expect(self._continue_reading, needed, reading, area)

    def _handle_copy(self, block: bytes, area: Area) -> None:
        x, y = struct.unpack("!HH", block)
        source = Area(x, y, area.width, area.height)
        self._check(source)
        self._add_rectangle(area, source)

    def _add_rectangle(self, area: Area, source: Area | Pixels) -> None:
        if area.width and area.height:
            self._rectangles.append(Rectangle(area, source))
        self._doConnection()

    def _check(self, area: Area) -> None:
        if area.x + area.width > self.width or area.y + area.height > self.height:
            raise ValueError(
                f"the rectangle {area!r} must lie on the screen of {self.width} x"
                f" {self.height} pixels"
            )

    def updateDesktopSize(self, width: int, height: int) -> None:
        """Restart with another size of the screen."""
        # vncdotool's method does nothing
        self._rectangles.clear()
        self._resized = True
        self._resize(width, height)

    def _resize(self, width: int, height: int) -> None:
        if not 1 <= width * height <= _MAX_SCREEN_PIXELS:
            raise ValueError(
                f"the screen must have 1 to {_MAX_SCREEN_PIXELS} pixels in all, got"
                f" {width} x {height}"
            )
        self.width = width
        self.height = height
        self.factory.framebuffer.resize(width, height)

    def updateCursor(
        self, x: int, y: int, width: int, height: int, image: bytes, mask: bytes
    ) -> None:
        """Note the shape of the pointer, which is not in the pixels."""
        # vncdotool's method does nothing
        shape = PointerShape.of(x, y, width, height, image, mask)
        if self.pixel_format == _RGBX:
            shape = replace(shape, pixels=swapped(shape.pixels))
        self.factory.framebuffer.pointer_shape = shape

    def commitUpdate(self, rectangles: object = None) -> None:
        """Draw the whole update, and ask for the next one."""
        # vncdotool's method does nothing
        answers = any(area.x == area.y == 0 for area, _ in self._rectangles)
        self._drew = self._drew or bool(self._rectangles)
        self.factory.framebuffer.apply(self._rectangles)
        self._rectangles.clear()
        if not self.is_paused:
            self.request(incremental=self._drew and not self._resized)
        self._resized = False
        if answers:
            self.pulse.answered()
            self.factory.framebuffer.wake()

    def point(self, x: int, y: int, buttons: int) -> None:
        """Send the pointer to a pixel, and note where it is."""
        self.factory.framebuffer.pointer_at = x, y
        self.pointerEvent(x, y, buttons)

    def offer_text(self, text: str) -> None:
        """Offer `text` as the clipboard; it is sent when a program fetches it."""
        self._offered = text
        self._send_clipboard(Clipboard.NOTIFY | Clipboard.TEXT)

    def _handleServerCutText(self, block: bytes) -> None:
        """Read the extended clipboard, whose lengths are negative."""
        # vncdotool's method knows Latin-1 only
        (length,) = struct.unpack(">xxxi", block)
        if -_MAX_TEXT_BYTES <= length < 0:
            self.expect(self._handle_extended_clipboard, -length)
        else:
            self._skip_text(abs(length))

    def _skip_text(self, length: int) -> None:
        """Skip text that programs copy: it may be secret, and long."""
        if length:
            count = min(length, _MAX_TEXT_BYTES)
            self.expect(lambda _: self._skip_text(length - count), count)
        else:
            self.expect(self._handleConnection, 1)

    def _handle_extended_clipboard(self, block: bytes) -> None:
        flags = Clipboard(int.from_bytes(block[:4], "big"))
        if flags & Clipboard.CAPS:
            self.announces_clipboard = bool(
                flags & Clipboard.NOTIFY and flags & Clipboard.TEXT
            )
            self.factory.facts.extended_clipboard = self.announces_clipboard
            all_flags = (
                Clipboard.TEXT
                | Clipboard.CAPS
                | Clipboard.REQUEST
                | Clipboard.NOTIFY
                | Clipboard.PROVIDE
            )
            # no text of more than 0 bytes unasked
            self._send_clipboard(all_flags, bytes(4))
        elif flags & Clipboard.REQUEST and self._offered:
            # as the protocol has it
            text = self._offered.replace("\n", "\r\n").encode() + b"\0"
            self._send_clipboard(
                Clipboard.PROVIDE | Clipboard.TEXT,
                zlib.compress(struct.pack(">I", len(text)) + text),
            )
            self.fetched_texts += 1
            self.factory.framebuffer.wake()
        self.expect(self._handleConnection, 1)

    def _send_clipboard(self, flags: int, payload: bytes = b"") -> None:
        body = struct.pack(">I", flags) + payload
        self.transport.write(struct.pack(">Bxxxi", 6, -len(body)) + body)


def _message_of(reason: Failure) -> str:
    text = str(reason.value)
    return blocked(text) or text or type(reason.value).__name__
