"""A connection that notes what the server says about itself, even where the connection then fails."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import partial

from vncdotool.const import Encoding

from pytest_vnc_use.backends.rfb.connection import Connection
from pytest_vnc_use.backends.rfb.protocol import DesktopFactory, DesktopProtocol
from pytest_vnc_use.backends.screen.framebuffer import Framebuffer
from pytest_vnc_use.backends.screen.settle import SettleRules
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.types import TypingMeans

SECURITY_NAMES = {
    1: "None",
    2: "VncAuth",
    5: "RA2",
    6: "RA2ne",
    16: "Tight",
    17: "Ultra",
    18: "TLS",
    19: "VeNCrypt",
    20: "SASL",
    30: "Apple",
    113: "MSLogonII",
    129: "RA2_256",
    130: "RA2ne_256",
}
"""Security types as servers' options spell them. Source: RFC 6143, 8.1.2, and rfbproto, "Security Types"."""
SPOKEN = tuple(SECURITY_NAMES[number] for number in sorted(DesktopProtocol.SUPPORTED_AUTHS))
"""The security types that a connection of this package can use; the preferred one is last."""
ENCODING_NAMES = {
    Encoding.RAW: "Raw",
    Encoding.COPY_RECTANGLE: "CopyRect",
    Encoding.TIGHT: "Tight",
    Encoding.ZRLE: "ZRLE",
    Encoding.PSEUDO_CURSOR: "Cursor",
    Encoding.PSEUDO_DESKTOP_SIZE: "DesktopSize",
}


@dataclass
class ServerFacts:
    """The facts that a VNC server has sent about itself; a field is empty where the connection never got that far.

    `size` is in pixels. `version` is a text such as `3.8`. `pixel_format` is the server's own, before it is asked for
    another. `encodings` are those of the rectangles that it sent, including pseudo-encodings.
    """

    version: str = ""
    security_types: tuple[str, ...] = ()
    name: str = ""
    size: tuple[int, int] = (0, 0)
    pixel_format: str = ""
    encodings: set[str] = field(default_factory=set)
    extended_clipboard: bool = False

    @property
    def security_used(self) -> str:
        """Return the offered type that was used, or would have been; "" where none is supported here."""
        return next((name for name in reversed(SPOKEN) if name in self.security_types), "")


def inspect(
    server: str,
    password: str | None,
    facts: ServerFacts,
    *,
    timeout_s: float = 10.0,
    type_by: TypingMeans = "keys",
) -> VNCController:
    """Connect as `vnc.connect` does, with the same errors, and note in `facts` what the server says on the way."""
    connection = Connection(server, password, timeout_s, new_factory=partial(_InspectingFactory, facts))
    facts.extended_clipboard = connection.protocol.announces_clipboard
    try:
        return VNCController(connection, SettleRules(), type_by=type_by)
    except SettingsError:
        connection.drop()
        raise


class _InspectingFactory(DesktopFactory):
    def __init__(self, facts: ServerFacts, framebuffer: Framebuffer, server: str, password: str | None) -> None:
        super().__init__(framebuffer, server, password)
        self.protocol = _InspectedProtocol
        self.facts = facts


class _InspectedProtocol(DesktopProtocol):
    factory: _InspectingFactory

    def _handleSecurityTypes(self, block: bytes) -> None:
        self._note_greeting(block)
        super()._handleSecurityTypes(block)

    def _handleAuth(self, block: bytes) -> None:
        """Note the one type that the server chose itself, as it does before version 3.7."""
        self._note_greeting(block[-1:])
        super()._handleAuth(block)

    def _note_greeting(self, types: bytes) -> None:
        self.factory.facts.version = "{}.{}".format(*self._version_server)
        self.factory.facts.security_types = tuple(SECURITY_NAMES.get(number, f"type {number}") for number in types)

    def vncConnectionMade(self) -> None:
        """Note the facts of the screen, then go on as the base class does."""
        facts, own = self.factory.facts, self.pixel_format
        facts.name, facts.size = bytes(self.name).decode("utf-8", "replace"), (self.width, self.height)
        facts.pixel_format = f"{own.bpp} bits a pixel, depth {own.depth}" + ("" if own.truecolor else ", colour map")
        super().vncConnectionMade()

    def _handleRectangle(self, block: bytes) -> None:
        (encoding,) = struct.unpack_from("!i", block, 8)
        if encoding != Encoding.PSEUDO_QEMU_EXTENDED_KEY_EVENT:  # only confirms that scan codes are taken
            self.factory.facts.encodings.add(ENCODING_NAMES.get(encoding, f"encoding {encoding}"))
        super()._handleRectangle(block)
