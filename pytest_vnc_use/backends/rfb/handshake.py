"""The beginning of a VNC connection: security types, TLS, the password; and the error if it fails."""

from __future__ import annotations

import ipaddress
import struct
from typing import Any

from twisted.internet.address import UNIXAddress
from twisted.internet.interfaces import IHandshakeListener
from twisted.python.failure import Failure
from vncdotool.client import VNCDoToolClient, VNCDoToolFactory
from vncdotool.const import AuthTypes

from pytest_vnc_use.backends.rfb import security
from pytest_vnc_use.backends.rfb.authentication import answer_challenge
from pytest_vnc_use.backends.rfb.reactor import implementer
from pytest_vnc_use.backends.rfb.tls import MISSING, ClientTls, is_installed
from pytest_vnc_use.backends.rfb.tunnel import Tunnel
from pytest_vnc_use.backends.screen.framebuffer import Framebuffer
from pytest_vnc_use.errors import (
    AuthenticationFailed,
    ConnectionLost,
    DesktopError,
    DesktopRefused,
    SettingsError,
    VncUseError,
)
from pytest_vnc_use.errors.faults import blocked
from pytest_vnc_use.plain_text import cut, plain
from pytest_vnc_use.types.wire import Wire

_MOST_TEXT_BYTES = 1 << 20
_MOST_REASON = 300
_VENCRYPT_VERSION = b"\0\2"
_ACCEPTED = b"\1"


class ConnectionFactory(VNCDoToolFactory):
    """The factory of one protocol. It knows the receivers of pixels and errors, and the rules of the connection."""

    noisy = False

    def __init__(self, framebuffer: Framebuffer, server: str, password: str | None) -> None:
        super().__init__()
        self.framebuffer = framebuffer
        self.server = server
        self.password = password
        self.wire = Wire()
        self.host, self.port = "", 0
        """The name that the certificate must have, and the port that is dialled; 0 for a unix socket."""
        self.tunnel: Tunnel | None = None
        self.is_websocket = False
        self.tls: ClientTls | None = None
        self.lowest: Any = None
        """The lowest transport, once there is one."""
        self.opened: SecuredClient | None = None
        self.takes_plain = False
        """True if the server has TLS without a certificate and a plain connection is allowed."""
        self.is_over = False

    def clientConnectionFailed(self, connector: object, reason: Failure) -> None:
        """Report that there is no connection, as DesktopRefused; as SettingsError if the host cannot be one."""
        if isinstance(
            reason.value, ValueError
        ):  # Twisted's error for a host that is neither a DNS name nor an IP address
            self.fail(
                SettingsError(
                    f"no VNC connection to {self.server!r}: the host {self.host!r} must be an IP address or a host "
                    "name. Each part of a name has 1 to 63 letters, digits and '-', and does not begin or end with '-'"
                )
            )
        dialled = f", host {self.host!r}, port {self.port}" if self.port else ""
        self.fail(DesktopRefused(f"no VNC connection to {self.server!r}{dialled}: {message_of(reason)}"))

    def clientConnectionLost(self, connector: object, reason: Failure) -> None:
        """Report how the connection ended: DesktopRefused before the handshake, else ConnectionLost."""
        tunnel_problem = ""
        if self.tunnel:
            tunnel_problem = self.tunnel.problem
            self.tunnel.end()
        if self.tls and self.tls.problem:
            self.fail(DesktopRefused(f"the certificate of {self.server!r} is not accepted: {self.tls.problem}"))
        elif self.opened is None or not self.opened.handshaken:
            self.fail(DesktopRefused(self._early_end(tunnel_problem, reason)))
        self.fail(ConnectionLost(f"the VNC connection to {self.server!r} was lost: {message_of(reason)}"))

    def _early_end(self, tunnel_problem: str, reason: Failure) -> str:
        if self.tunnel and tunnel_problem:
            return f"no tunnel to {self.server!r} by `{self.tunnel}`: {tunnel_problem}"
        if self.tls and reason.type.__module__.startswith("OpenSSL"):
            return f"{self.server!r} and this client found no common kind of TLS: {message_of(reason)}"
        return f"{self.server!r} closed the connection before it showed a screen"

    def fail(self, error: VncUseError) -> None:
        """Wake every waiter with the error; the first error stays."""
        self.is_over = True
        self.framebuffer.fail(error)


@implementer(IHandshakeListener)
class SecuredClient(VNCDoToolClient):
    """One connection up to its screen; it lives on the reactor's thread."""

    SUPPORTED_AUTHS = {AuthTypes.NONE, AuthTypes.VNC_AUTHENTICATION}  # noqa: RUF012
    factory: ConnectionFactory
    transport: Any
    handshaken = False
    security_types = b""
    security_used = ""
    """The security type that is used, with VeNCrypt's sub-type."""
    _subtype = 0
    _ended = False

    def connectionMade(self) -> None:
        """Note the connection."""
        super().connectionMade()
        self.factory.opened = self
        self.factory.lowest = self.factory.lowest or self.transport

    def _handleInitial(self) -> None:
        """Check the server's first words, then go on as vncdotool does."""
        greeting = bytes(self._packet[:12])
        is_old = len(greeting) == 12 and greeting[4:11] < b"003.003"
        if is_old or not self._HEADER.startswith(greeting.translate(self._HEADER_TRANSLATE)):
            self._break_off(f"it began with {plain(greeting.decode('latin-1'))!r}, not with 'RFB 003.003' or newer")
        else:
            super()._handleInitial()

    # --- the security type ---

    @property
    def protection(self) -> str:
        """Return what keeps others from reading along; "" if nothing does."""
        if "X509" in self.security_used:
            return "TLS, with a certificate that was checked"
        if "TLS" in self.security_used:
            return "TLS without a certificate, so someone on the network can read and change it"
        if self.factory.tls:
            return "wss, with a certificate that was checked"
        if self.factory.tunnel:
            return f"the tunnel {self.factory.wire.tunnel}"
        return "it stays on this machine" if _stays_here(self.transport) else ""

    @property
    def _situation(self) -> security.Situation:
        has_tls = self.factory.tls is not None
        is_private = has_tls or bool(self.factory.tunnel) or _stays_here(self.transport)
        return security.Situation(is_private, has_tls, can_start_tls=not self.factory.is_websocket)

    def _choice(self, offered: bytes) -> int:
        """Return the type to use. Without the library for TLS, TLS is used only if it is required. Raises Unfit."""
        situation, wire, has_password = self._situation, self.factory.wire, self.factory.password is not None
        types = security.choose(offered, wire, situation, has_password=has_password)
        if types == security.VENCRYPT and not is_installed():
            without = offered.replace(bytes([security.VENCRYPT]), b"")
            if wire.requires_tls or not {security.NONE, security.VNC_AUTH} & set(without):
                raise security.Unfit(f"offers {security.names(offered)}; {MISSING}")
            return security.choose(without, wire, situation, has_password=has_password)
        return types

    def _handleSecurityTypes(self, block: bytes) -> None:
        self.security_types = block
        try:
            chosen = self._choice(block)
        except security.Unfit as exc:
            self._end(DesktopRefused(f"{self.factory.server!r} {exc}"))
            return
        self.security_used = security.NAMES[chosen]
        if chosen == security.VENCRYPT:
            self.transport.write(bytes([chosen]))
            self.expect(self._handle_vencrypt_version, 2)
        else:
            super()._handleSecurityTypes(bytes([chosen]))

    def _handleAuth(self, block: bytes) -> None:
        """Check the type that a server of version 3.3 chose itself."""
        (chosen,) = struct.unpack("!I", block)
        if chosen:
            try:
                self._choice(bytes([min(chosen, 255)]))
            except security.Unfit as exc:
                self._end(DesktopRefused(f"{self.factory.server!r} {exc}"))
                return
            self.security_used = security.NAMES[chosen]
        super()._handleAuth(block)

    # --- VeNCrypt ---

    def _handle_vencrypt_version(self, block: bytes) -> None:
        if block < _VENCRYPT_VERSION:
            raise ValueError(f"the server's VeNCrypt version must be 0.2, got {block[0]}.{block[1]}")
        self.transport.write(_VENCRYPT_VERSION)
        self.expect(self._handle_vencrypt_answer, 1)

    def _handle_vencrypt_answer(self, block: bytes) -> None:
        if block != b"\0":
            raise ValueError("the server refused VeNCrypt 0.2")
        self.expect(self._handle_subtype_count, 1)

    def _handle_subtype_count(self, block: bytes) -> None:
        if not block[0]:
            raise ValueError("the server offered no VeNCrypt sub-type")
        self.expect(self._handle_subtypes, 4 * block[0])

    def _handle_subtypes(self, block: bytes) -> None:
        offered = struct.unpack(f"!{len(block) // 4}I", block)
        wire, has_password = self.factory.wire, self.factory.password is not None
        self._note_subtypes(offered)
        try:
            self._subtype = security.choose_subtype(offered, wire, has_password=has_password)
        except security.Unfit as exc:
            plain = {security.NONE, security.VNC_AUTH} & set(self.security_types)
            self.factory.takes_plain = isinstance(exc, security.OnlyAnonymous) and bool(plain) and not wire.requires_tls
            self._end(DesktopRefused(f"{self.factory.server!r} {exc}"))
            return
        self.security_used = f"VeNCrypt {security.NAMES[self._subtype]}"
        if self._has_credentials():
            self.transport.write(struct.pack("!I", self._subtype))
            self.expect(self._start_tls, 1)

    def _note_subtypes(self, offered: tuple[int, ...]) -> None:
        """Do nothing; for a subclass that takes notes."""

    def _has_credentials(self) -> bool:
        """Return whether the sub-type's credentials are set; refuse the connection if not."""
        name = security.NAMES[self._subtype]
        if name.endswith("Plain") and not self.factory.wire.user:
            self._refuse(f"wants a user name ({name}), but none is set: set vnc_username")
        elif not name.endswith("None") and self.factory.password is None:
            self._refuse("wants a password, but none is set")
        return not self._ended

    def _start_tls(self, block: bytes) -> None:
        if block != _ACCEPTED:
            raise ValueError(f"the server offered {self.security_used}, then refused it")
        if self._packet:  # someone on the network could have sent it
            raise ValueError("the server sent bytes before the TLS handshake; they must come after it")
        anonymous = security.is_anonymous(self._subtype)
        self.factory.tls = ClientTls(self.factory.host, self.factory.wire, anonymous=anonymous)
        self.factory.tls.start(self)

    def handshakeCompleted(self) -> None:
        """Check the certificate, then continue within TLS; an error ends the connection."""
        tls = self.factory.tls
        assert tls
        if problem := tls.check(self.transport.getHandle()):
            tls.problem = problem
            self._end(DesktopRefused(f"the certificate of {self.factory.server!r} is not accepted: {problem}"))
            return
        name = security.NAMES[self._subtype]
        if name.endswith("Vnc"):
            self.expect(self._handleVNCAuth, 16)
            return
        if name.endswith("Plain"):
            given = self.factory.wire.user, self.factory.password or ""
            user, password = (text.encode("utf-8", "surrogateescape") for text in given)
            self.transport.write(struct.pack("!II", len(user), len(password)) + user + password)
        self.expect(self._handleVNCAuthResult, 4)

    # --- the password ---

    def vncRequestPassword(self) -> None:
        """Answer the server's challenge; fail if no password is set."""
        if self.factory.password is None:
            self._refuse("wants a password, but none is set")
        else:
            # vncdotool's own code warns that its DES has moved
            self.transport.write(answer_challenge(self._challenge, self.factory.password))

    def vncAuthFailed(self, reason: Any) -> None:
        """Report that the server refused the password."""
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
        self._refuse(f"refused the password: {cut(plain(text), _MOST_REASON)}")

    # --- the end ---

    def vncProtocolError(self, reason: str) -> None:
        """End the connection with this error."""
        self._break_off(cut(plain(reason), _MOST_REASON))

    def _handleConnFailed(self, block: bytes) -> None:
        check_text(block)
        super()._handleConnFailed(block)

    def _handleConnMessage(self, block: bytes) -> None:
        reason = cut(plain(block.decode("utf-8", "replace")), _MOST_REASON) or "it gave no reason"
        self._end(DesktopRefused(f"{self.factory.server!r} refused the connection: {reason}"))

    def _handleAuthFailed(self, block: bytes) -> None:
        check_text(block)
        super()._handleAuthFailed(block)

    def _handleServerInit(self, block: bytes) -> None:
        check_text(block[-4:])
        super()._handleServerInit(block)

    def _refuse(self, what: str) -> None:
        self._end(AuthenticationFailed(f"{self.factory.server!r} {what}"))

    def _break_off(self, reason: str) -> None:
        if self.handshaken:
            self._end(
                ConnectionLost(f"{self.factory.server!r} broke the VNC protocol: {reason}. The connection is closed")
            )
        else:
            self._end(DesktopRefused(f"{self.factory.server!r} does not speak VNC as expected: {reason}"))

    def _end(self, error: DesktopError) -> None:
        self._ended = True
        self.factory.fail(error)
        self.transport.abortConnection()


def check_text(length: bytes) -> None:
    """Raise ValueError if the announced text is too long to wait for."""
    if int.from_bytes(length, "big") > _MOST_TEXT_BYTES:
        raise ValueError(f"a text must have at most {_MOST_TEXT_BYTES} bytes, got {int.from_bytes(length, 'big')!r}")


def message_of(reason: Failure) -> str:
    """Return the text of a failure."""
    text = str(reason.value)
    return blocked(text) or text or type(reason.value).__name__


def _stays_here(transport: Any) -> bool:
    """Return whether a connection does not leave this machine."""
    peer = transport.getPeer()
    if isinstance(peer, UNIXAddress):
        return True
    return ipaddress.ip_address(peer.host.partition("%")[0]).is_loopback or peer.host == transport.getHost().host
