"""A connection that notes what the server says about itself, even if the connection then fails."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import partial

from vncdotool.const import Encoding

from pytest_vnc_use.backends.controller import VNCController
from pytest_vnc_use.backends.rfb.connection import Connection
from pytest_vnc_use.backends.rfb.protocol import DesktopFactory, DesktopProtocol
from pytest_vnc_use.backends.rfb.security import NAMES
from pytest_vnc_use.backends.screen.framebuffer import Framebuffer
from pytest_vnc_use.backends.screen.settle import SettleRules
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.types import TypingMeans
from pytest_vnc_use.types.wire import Wire

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
    """The facts that a VNC server has sent about itself; a field is empty if the connection did not get that far.

    `security_types`, and VeNCrypt's `subtypes`, are spelled as in servers' options. `security_used` is the one that was
    used; `protection` says what keeps others from reading along, "" if nothing does. `size` is in pixels. `version` is
    a text such as `3.8`. `pixel_format` is the server's own, before the client asks for another. `encodings` are those
    of the rectangles that it sent, including pseudo-encodings.
    """

    version: str = ""
    security_types: tuple[str, ...] = ()
    subtypes: tuple[str, ...] = ()
    security_used: str = ""
    protection: str = ""
    name: str = ""
    size: tuple[int, int] = (0, 0)
    pixel_format: str = ""
    encodings: set[str] = field(default_factory=set)
    extended_clipboard: bool = False


def inspect(
    server: str,
    password: str | None,
    facts: ServerFacts,
    *,
    timeout_s: float = 10.0,
    type_by: TypingMeans = "keys",
    wire: Wire = Wire(),  # noqa: B008  # frozen
) -> VNCController:
    """Connect as `vnc.connect` does, with the same errors, and note in `facts` what the server says on the way."""
    connection = Connection(server, password, timeout_s, wire=wire, new_factory=partial(_InspectingFactory, facts))
    facts.protection = connection.protection
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
        self.factory.facts.security_used = self.security_used

    def _handleAuth(self, block: bytes) -> None:
        """Note the one type that the server chose itself, as servers do before version 3.7."""
        self._note_greeting(block[-1:])
        super()._handleAuth(block)
        self.factory.facts.security_used = self.security_used

    def _handle_subtypes(self, block: bytes) -> None:
        super()._handle_subtypes(block)
        self.factory.facts.security_used = self.security_used

    def _note_subtypes(self, offered: tuple[int, ...]) -> None:
        self.factory.facts.subtypes = tuple(NAMES.get(number, f"type {number}") for number in offered)

    def _note_greeting(self, types: bytes) -> None:
        self.factory.facts.version = "{}.{}".format(*self._version_server)
        self.factory.facts.security_types = tuple(NAMES.get(number, f"type {number}") for number in types)

    def vncConnectionMade(self) -> None:
        """Note the facts of the screen, then go on as the base class does."""
        facts, own = self.factory.facts, self.pixel_format
        facts.security_used = self.security_used
        facts.name, facts.size = bytes(self.name).decode("utf-8", "replace"), (self.width, self.height)
        facts.pixel_format = f"{own.bpp} bits a pixel, depth {own.depth}" + ("" if own.truecolor else ", colour map")
        super().vncConnectionMade()

    def _handleRectangle(self, block: bytes) -> None:
        (encoding,) = struct.unpack_from("!i", block, 8)
        if encoding != Encoding.PSEUDO_QEMU_EXTENDED_KEY_EVENT:  # only confirms that scan codes are taken
            self.factory.facts.encodings.add(ENCODING_NAMES.get(encoding, f"encoding {encoding}"))
        super()._handleRectangle(block)
