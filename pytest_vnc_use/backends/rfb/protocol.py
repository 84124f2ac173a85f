"""vncdotool's RFB protocol for a live screen: it always waits for an update, and errors reach waiting callers."""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import replace

from twisted.internet.base import DelayedCall
from twisted.internet.interfaces import IHalfCloseableDescriptor, ISSLTransport, ITCPTransport
from twisted.python.failure import Failure
from vncdotool import rfb
from vncdotool.const import Encoding

from pytest_vnc_use.backends.rfb.clipboard import Flag, caps_message, flags_of, notify_message, provide_message
from pytest_vnc_use.backends.rfb.encodings.choice import Trial, first_choice, offered
from pytest_vnc_use.backends.rfb.encodings.reading import Decode, Reading, raw, swapped, turned
from pytest_vnc_use.backends.rfb.encodings.tight import Tight
from pytest_vnc_use.backends.rfb.encodings.zrle import Zrle
from pytest_vnc_use.backends.rfb.handshake import ConnectionFactory, SecuredClient
from pytest_vnc_use.backends.rfb.keepalive import Pulse
from pytest_vnc_use.backends.rfb.outgoing import Outgoing
from pytest_vnc_use.backends.rfb.reactor import reactor
from pytest_vnc_use.backends.screen.framebuffer import Framebuffer
from pytest_vnc_use.backends.screen.pointer_shape import PointerShape
from pytest_vnc_use.backends.screen.rectangles import Area, CopiedArea, Rectangle, SentArea
from pytest_vnc_use.types import EncodingChoice

BGRX = rfb.PixelFormat(32, 24, False, True, 255, 255, 255, 16, 8, 0)
_RGBX = replace(BGRX, redshift=0, blueshift=16)
_RECEIVE_BYTES = 1 << 20
_MOST_SCREEN_PIXELS = 1 << 24
"""Two screens of 4K beside each other have fewer. A larger screen would let a server use up the memory."""
_MOST_CURSOR_PIXELS = 1 << 20
_MOST_SCREENS_AN_UPDATE = 4
_MOST_TEXT_BYTES = 1 << 20
_MOST_RESIZES_AN_UPDATE = 4
_HANG_UP_S = 10.0
"""The time in which a server may still read its last messages, once the connection is closed."""


class DesktopFactory(ConnectionFactory):
    """A factory of the one protocol of a connection."""

    def __init__(self, framebuffer: Framebuffer, server: str, password: str | None) -> None:
        super().__init__(framebuffer, server, password)
        self.protocol = DesktopProtocol
        self.encoding: EncodingChoice = "auto"
        self.is_near = False
        self.opened: DesktopProtocol | None = None
        self.outgoing = Outgoing()


class DesktopProtocol(SecuredClient):
    """One connection; it lives on the reactor's thread."""

    # no warning that 2.0 changes updateRectangle: the dependency is pinned below it
    _CHANGING_HOOKS: tuple[str, ...] = ()  # type: ignore[assignment]
    factory: DesktopFactory
    announces_clipboard = False
    takes_scancodes = False
    fetched_texts = 0
    _resizes = 0
    _offered = ""
    _drew = False
    _resized = False

    # --- connecting ---

    def connectionMade(self) -> None:
        """Prepare to decode updates, and to ask for signs of life."""
        super().connectionMade()
        self.pulse = Pulse(lambda: self.framebufferUpdateRequest(0, 0, 1, 1))
        self._decoders: dict[int, Decode] = {
            Encoding.RAW: raw,
            Encoding.TIGHT: Tight().decode,
            Encoding.ZRLE: Zrle().decode,
        }
        self._rectangles: list[Rectangle] = []
        self._pixels_of_update = 0
        self._trial: Trial | None = None
        self._abort: DelayedCall | None = None
        self.transport.bufferSize = _RECEIVE_BYTES
        # do not read from a server that asks and does not read the answers: they would fill the memory
        self.transport.registerProducer(self, True)
        if ITCPTransport.providedBy(self.transport):
            self.transport.setTcpNoDelay(True)

    def pauseProducing(self) -> None:
        """Stop reading, because the server does not read what is written."""
        self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        """Read again."""
        self.transport.resumeProducing()

    def stopProducing(self) -> None:
        """Do nothing: the connection has ended."""

    def hang_up(self) -> None:
        """Send no more, and end the connection when the server ends it, or after a time if it does not.

        A socket that is closed while a server writes resets it. Some servers then drop what they have not read yet,
        such as the release of a key.
        """
        self.transport.unregisterProducer()
        can_end_half = IHalfCloseableDescriptor.providedBy(self.transport) and not ISSLTransport.providedBy(
            self.transport
        )
        if can_end_half and self.transport.connected:
            self.transport.resumeProducing()
            self.transport.loseWriteConnection()
        else:
            self.transport.loseConnection()
        if self.factory.lowest is not None:
            self._abort = reactor.callLater(_HANG_UP_S, self.factory.lowest.abortConnection)

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """Cancel the timer that ends the connection, because it would keep the screen in memory."""
        super().connectionLost(reason)
        if self._abort and self._abort.active():
            self._abort.cancel()

    def dataReceived(self, data: bytes) -> None:
        """Handle bytes from the server; an error ends the connection."""
        if self._trial:
            self._trial.received(len(data))
        try:
            super().dataReceived(data)
        except Exception as exc:  # noqa: BLE001  # vncdotool raises many kinds, and each must reach the waiting caller
            self._break_off(str(exc) or type(exc).__name__)

    def _handleExpected(self) -> None:
        """Handle blocks as vncdotool does, but only while the connection lasts."""
        self._already_expecting = True
        while not self._ended and len(self._packet) >= self._expected_len:
            block = bytes(self._packet[: self._expected_len])
            del self._packet[: self._expected_len]
            self._expected_handler(block, *self._expected_args, **self._expected_kwargs)
        self._already_expecting = False

    def vncConnectionMade(self) -> None:
        """Choose pixel format and encodings, and ask for the first update.

        VMware's servers send their own format whatever is asked for, so one that can be read is kept. Its depth does
        not count: Qt's server announces 32.
        """
        if replace(self.pixel_format, depth=BGRX.depth) == _RGBX:
            self.setPixelFormat(_RGBX)
            for number in (Encoding.RAW, Encoding.ZRLE):  # Tight's pixels are red first in any format
                self._decoders[number] = turned(self._decoders[number])
        else:
            self.setPixelFormat(BGRX)
        self._resize(self.width, self.height)
        screen_bytes = self.width * self.height * self.bypp
        encoding = first_choice(self.factory.encoding, screen_bytes, is_near=self.factory.is_near)
        self.setEncodings(offered(encoding))
        self.handshaken = True
        self._trial = Trial() if encoding == "auto" else None
        self._request_first()

    def _request_first(self) -> None:
        rows = -(-Trial.PIXELS // self.width) if self._trial else self.height
        self.framebufferUpdateRequest(height=min(self.height, rows))

    def setEncodings(self, list_of_encodings: Collection[Encoding]) -> None:
        """Send the encodings that this client reads, in order of preference."""
        self.factory.outgoing.encodings([encoding.name for encoding in list_of_encodings])
        super().setEncodings(list_of_encodings)

    # --- the screen ---

    def framebufferUpdateRequest(
        self, x: int = 0, y: int = 0, width: int | None = None, height: int | None = None, incremental: bool = False
    ) -> None:
        """Ask for a part of the screen, by default for all of it; if `incremental`, once it has changed."""
        width = self.width - x if width is None else width
        height = self.height - y if height is None else height
        self.factory.outgoing.update_request(x, y, width, height, incremental)
        super().framebufferUpdateRequest(x, y, width, height, incremental)

    def _handleRectangle(self, block: bytes) -> None:
        x, y, width, height, encoding = struct.unpack("!HHHHi", block)
        area = Area(x, y, width, height)
        self.rectangles -= 1
        match encoding:
            case Encoding.RAW | Encoding.TIGHT | Encoding.ZRLE:
                self._check(area)
                self._read_on(None, self._decoders[encoding](area.width, area.height), area)
            case Encoding.COPY_RECTANGLE:
                self._check(area)
                self.expect(self._handle_copy, 4, area)
            case Encoding.PSEUDO_CURSOR:
                self._expect_cursor(area)
            case Encoding.PSEUDO_DESKTOP_SIZE:
                self._handleDecodeDesktopSize(area.width, area.height)
            case Encoding.PSEUDO_QEMU_EXTENDED_KEY_EVENT:
                self.takes_scancodes = True
                self._doConnection()
            case _:
                raise ValueError(f"unknown encoding {encoding!r}")

    def _read_on(self, block: bytes | None, reading: Reading, area: Area) -> None:
        try:
            needed = reading.send(block)  # type: ignore[arg-type]  # None starts it
        except StopIteration as read:
            self._keep(SentArea(area, read.value))
        else:
            self.expect(self._read_on, needed, reading, area)

    def _handle_copy(self, block: bytes, area: Area) -> None:
        x, y = struct.unpack("!HH", block)
        source = Area(x, y, area.width, area.height)
        self._check(source)
        self._keep(CopiedArea(area, source))

    def _keep(self, rectangle: Rectangle) -> None:
        if rectangle.area.size:
            self._rectangles.append(rectangle)
        self._doConnection()

    def _check(self, area: Area) -> None:
        """Raise ValueError if an area leaves the screen, or an update is larger than any server needs."""
        if not area.is_within(self.width, self.height):
            raise ValueError(f"the rectangle {area!r} must lie on the screen of {self.width} x {self.height} pixels")
        self._pixels_of_update += area.size
        if self._pixels_of_update > _MOST_SCREENS_AN_UPDATE * self.width * self.height + Trial.PIXELS:
            raise ValueError(f"an update must have at most {_MOST_SCREENS_AN_UPDATE} times the pixels of the screen")

    def _expect_cursor(self, area: Area) -> None:
        if area.size > _MOST_CURSOR_PIXELS:
            raise ValueError(
                f"the pointer must have at most {_MOST_CURSOR_PIXELS} pixels, got {area.width} x {area.height}"
            )
        length = area.size * self.bypp + (area.width + 7) // 8 * area.height
        self.expect(self._handleDecodePsuedoCursor, length, area.x, area.y, area.width, area.height)

    def updateDesktopSize(self, width: int, height: int) -> None:
        """Start again with another size of the screen."""
        self._resizes += 1
        if self._resizes > _MOST_RESIZES_AN_UPDATE:
            raise ValueError(f"an update must change the screen's size at most {_MOST_RESIZES_AN_UPDATE} times")
        self._rectangles.clear()
        self._resized = True
        self._resize(width, height)

    def _resize(self, width: int, height: int) -> None:
        if not 1 <= width * height <= _MOST_SCREEN_PIXELS:
            raise ValueError(f"the screen must have 1 to {_MOST_SCREEN_PIXELS} pixels in all, got {width} x {height}")
        self.width, self.height = width, height
        self.factory.framebuffer.resize(width, height)

    def updateCursor(self, x: int, y: int, width: int, height: int, image: bytes, mask: bytes) -> None:
        """Note the shape of the pointer, which is no part of the screen."""
        shape = PointerShape.of(x, y, width, height, image, mask)
        if self.pixel_format == _RGBX:
            shape = replace(shape, pixels=swapped(shape.pixels))
        self.factory.framebuffer.shape_pointer(shape)

    def pointerEvent(self, x: int, y: int, buttonmask: int = 0) -> None:
        """Send the pointer to a pixel, and note where it is."""
        self.factory.framebuffer.move_pointer(x, y)
        super().pointerEvent(x, y, buttonmask)

    def commitUpdate(self, rectangles: object = None) -> None:
        """Draw the whole update, and ask for the next one."""
        answers = any(rectangle.area.covers(0, 0) for rectangle in self._rectangles)
        self._drew = self._drew or bool(self._rectangles)
        self.factory.framebuffer.apply(self._rectangles)
        self._rectangles.clear()
        self._pixels_of_update = self._resizes = 0
        if self._drew or self._resized:
            self._request_next()
        else:
            self._request_first()
        if answers and self.pulse.is_awaited:
            self.pulse.answered()
            self.factory.framebuffer.wake()

    def _request_next(self) -> None:
        whole = self._resized
        if self._trial and self._drew:
            self.setEncodings(offered(self._trial.choice()))
            self._trial = None
            whole = True
        self._resized = False
        self.framebufferUpdateRequest(incremental=not whole)

    # --- keys and the clipboard ---

    def offer_text(self, text: str) -> None:
        """Offer `text` as the clipboard; it is sent when a program fetches it."""
        self._offered = text
        self.transport.write(notify_message())

    def _handleServerCutText(self, block: bytes) -> None:
        (length,) = struct.unpack(">xxxi", block)
        if -_MOST_TEXT_BYTES <= length < 0:
            self.expect(self._handle_extended_clipboard, -length)
        else:
            self._pass_over(abs(length))

    def _pass_over(self, length: int) -> None:
        """Skip text that programs copy: it may be secret, and long."""
        if length:
            now = min(length, _MOST_TEXT_BYTES)
            self.expect(lambda _: self._pass_over(length - now), now)
        else:
            self.expect(self._handleConnection, 1)

    def _handle_extended_clipboard(self, block: bytes) -> None:
        flags = flags_of(block)
        if flags & Flag.CAPS:
            self.announces_clipboard = bool(flags & Flag.NOTIFY and flags & Flag.TEXT)
            self.transport.write(caps_message())
        elif flags & Flag.REQUEST and self._offered:
            self.transport.write(provide_message(self._offered))
            self.fetched_texts += 1
            self.factory.framebuffer.wake()
        self.expect(self._handleConnection, 1)

    def bell(self) -> None:
        """Do nothing for the server's bell."""
