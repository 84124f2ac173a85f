"""vncdotool's RFB protocol, made live: an update request is always outstanding, and errors reach who waits."""

from __future__ import annotations

import struct
from typing import Any

from twisted.internet.interfaces import ITCPTransport
from twisted.python.failure import Failure
from vncdotool import rfb
from vncdotool.client import VNCDoToolClient, VNCDoToolFactory
from vncdotool.const import AuthTypes, Encoding

from pytest_vnc_use.backends.authentication import answer_challenge
from pytest_vnc_use.backends.clipboard import Flag, caps_message, flags_of, notify_message, provide_message
from pytest_vnc_use.backends.framebuffer import Framebuffer, Rectangle
from pytest_vnc_use.errors import AuthenticationFailed, ConnectionLost, DesktopError, DesktopRefused

_BGRX = rfb.PixelFormat(32, 24, False, True, 255, 255, 255, 16, 8, 0)
_RECEIVE_BYTES = 1 << 20
_ENCODINGS = (
    Encoding.RAW,
    Encoding.PSEUDO_CURSOR,  # keeps the pointer out of the frame
    Encoding.PSEUDO_DESKTOP_SIZE,
    Encoding.PSEUDO_EXTENDED_CLIPBOARD,
)  # no LastRect: it makes TigerVNC hunt for solid rectangles, 2.4 times slower


class DesktopFactory(VNCDoToolFactory):
    """Builds the one protocol of a connection and knows where its pixels and errors go."""

    noisy = False

    def __init__(self, framebuffer: Framebuffer, server: str, password: str | None) -> None:
        super().__init__()
        self.protocol = DesktopProtocol
        self.framebuffer = framebuffer
        self.server = server
        self.password = password
        self.opened: DesktopProtocol | None = None

    def clientConnectionFailed(self, connector: object, reason: Failure) -> None:
        self.fail(DesktopRefused(f"no VNC connection to {self.server!r}: {_message(reason)}"))

    def clientConnectionLost(self, connector: object, reason: Failure) -> None:
        if self.opened is None or not self.opened.handshaken:
            self.fail(DesktopRefused(f"{self.server!r} closed the connection before it showed a screen"))
        self.fail(ConnectionLost(f"the VNC connection to {self.server!r} is gone: {_message(reason)}"))

    def fail(self, error: DesktopError) -> None:
        self.framebuffer.fail(error)


class DesktopProtocol(VNCDoToolClient):
    """One connection; lives on the reactor's thread."""

    # no warning that 2.0 changes updateRectangle: the dependency is pinned below it
    _CHANGING_HOOKS: tuple[str, ...] = ()  # type: ignore[assignment]
    SUPPORTED_AUTHS = {AuthTypes.NONE, AuthTypes.VNC_AUTHENTICATION}  # noqa: RUF012
    factory: DesktopFactory
    transport: Any
    handshaken = False
    announces_clipboard = False
    security_types = b""
    fetched_texts = 0
    _offered = ""
    _resized = False

    # --- connecting ---

    def connectionMade(self) -> None:
        super().connectionMade()
        self.factory.opened = self
        self._rectangles: list[Rectangle] = []
        self.transport.bufferSize = _RECEIVE_BYTES
        if ITCPTransport.providedBy(self.transport):
            self.transport.setTcpNoDelay(True)

    def _handleSecurityTypes(self, block: bytes) -> None:
        self.security_types = block
        super()._handleSecurityTypes(block)

    def vncRequestPassword(self) -> None:
        if self.factory.password is None:
            self._refuse("wants a password, and none was given")
        else:
            # vncdotool's own way warns that its DES has moved
            self.transport.write(answer_challenge(self._challenge, self.factory.password))

    def vncAuthFailed(self, reason: Any) -> None:
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
        self._refuse(f"refused the password: {text}")

    def vncProtocolError(self, reason: str) -> None:
        self.factory.fail(DesktopRefused(f"{self.factory.server!r} does not talk VNC as known here: {reason}"))

    def vncConnectionMade(self) -> None:
        self.setPixelFormat(_BGRX)  # most servers' own, and what Qt's sends whatever it is asked for
        self.factory.framebuffer.resize(self.width, self.height)
        self.setEncodings(_ENCODINGS)
        self.handshaken = True
        self.framebufferUpdateRequest()

    def _refuse(self, what: str) -> None:
        self.factory.fail(AuthenticationFailed(f"{self.factory.server!r} {what}"))
        self.transport.loseConnection()

    # --- seeing ---

    def updateRectangle(self, x: int, y: int, width: int, height: int, data: bytes) -> None:
        if data:
            self._rectangles.append(Rectangle(x, y, width, height, data))

    def updateDesktopSize(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._rectangles.clear()
        self._resized = True
        self.factory.framebuffer.resize(width, height)

    def updateCursor(self, *_: Any) -> None:
        """The pointer is no part of the frame."""

    def commitUpdate(self, rectangles: object = None) -> None:
        self.factory.framebuffer.apply(self._rectangles)
        self._rectangles.clear()
        self.framebufferUpdateRequest(incremental=not self._resized)
        self._resized = False

    # --- the clipboard ---

    def offer_text(self, text: str) -> None:
        """Say that the clipboard holds `text`; it is sent when a program fetches it."""
        self._offered = text
        self.transport.write(notify_message())

    def _handleServerCutText(self, block: bytes) -> None:
        (length,) = struct.unpack(">xxxi", block)
        if length < 0:
            self.expect(self._handle_extended_clipboard, -length)
        else:
            self.expect(self._handleServerCutTextValue, length)

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

    def copy_text(self, text: str) -> None:
        """What programs copy is not read: it may be secret."""

    def bell(self) -> None:
        """No bell rings."""


def _message(reason: Failure) -> str:
    return str(reason.value) or type(reason.value).__name__
