"""The protection of a VNC connection: TLS, the security types of RFB, VeNCrypt, and
passwords; and the messages when a server or this client rejects the other.

TLS and the check of certificates are the standard library's. Numbers of security types:
RFC 6143, 8.1.2, and rfbproto, "Security Types" and "VeNCrypt".
"""

from __future__ import annotations

import hashlib
import ipaddress
import ssl
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from twisted.internet.address import UNIXAddress
from vncdotool.rfb import RFBClient

from pytest_vnc_use.errors import (
    AuthenticationFailed,
    ConnectionLost,
    DesktopRefused,
    SettingsError,
    VncUseError,
)
from pytest_vnc_use.files import read_regular
from pytest_vnc_use.plain_text import cut, plain
from pytest_vnc_use.types.wire import Wire

_READ_BYTES = 1 << 18


def context_of(wire: Wire) -> ssl.SSLContext:
    """Return the context that checks a certificate by the rules. Raises
    SettingsError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # `check_fingerprint` compares it, and no authority is asked
    if wire.tls_fingerprint:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif wire.tls_ca:
        try:
            read_regular(wire.tls_ca)  # OpenSSL would wait for a FIFO
            context.load_verify_locations(wire.tls_ca)
        except OSError as exc:  # ssl.SSLError is one
            raise SettingsError(
                "vnc_tls must be auto, require, off, sha256:HEX or a readable file of"
                f" certificates (PEM), got {wire.tls_ca!r}"
            ) from exc
    else:
        context.load_default_certs()
    return context


def check_fingerprint(tls: ssl.SSLObject | ssl.SSLSocket, wire: Wire) -> None:
    """Raise SSLCertVerificationError if the certificate has not the fingerprint that the
    rules name.
    """
    if not wire.tls_fingerprint:
        return
    certificate = tls.getpeercert(binary_form=True) or b""
    fingerprint = f"sha256:{hashlib.sha256(certificate).hexdigest()}"
    if fingerprint != wire.tls_fingerprint:
        raise ssl.SSLCertVerificationError(
            f"its fingerprint is {fingerprint}, not {wire.tls_fingerprint}"
        )


def format_tls_error(server: str, error: ssl.SSLError) -> str:
    """Format why TLS with a server failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = getattr(error, "verify_message", "") or error.args[-1]
        remedy = (
            "if it is right, name its file (PEM) or sha256:HEX in vnc_tls, or"
            " VNC_USE_TLS for cua-vnc"
        )
        return f"the certificate of {server!r} is not accepted: {reason}; {remedy}"
    return (
        f"{server!r} and this client found no common kind of TLS:"
        f" {error.reason or error}"
    )


class TlsLayer:
    """TLS between a connected protocol and its transport, which it replaces. Other
    attributes are those of the transport.

    It calls the protocol's `tls_started` once the certificate is accepted, otherwise
    `tls_failed`.
    """

    def __init__(self, protocol: Any, host: str, wire: Wire) -> None:
        self._protocol = protocol
        self._below = protocol.transport
        self._wire = wire
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context_of(wire).wrap_bio(
            self._incoming, self._outgoing, server_hostname=host
        )
        self._is_open = False
        protocol.transport = self
        self._below.protocol = self
        self._advance()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)

    def dataReceived(self, data: bytes) -> None:
        """Take bytes from the server."""
        self._incoming.write(data)
        self._advance()

    def connectionLost(self, reason: Any) -> None:
        """Pass the end on."""
        self._protocol.connectionLost(reason)

    def write(self, data: bytes) -> None:
        """Send bytes of the protocol."""
        self._tls.write(data)
        self._flush()

    def loseWriteConnection(self) -> None:
        """End TLS and this half of the connection, once all is sent."""
        with suppress(ssl.SSLError):  # the server's answer is not waited for
            self._tls.unwrap()
        self._flush()
        self._below.loseWriteConnection()

    def _advance(self) -> None:
        try:
            if not self._is_open:
                self._tls.do_handshake()
                check_fingerprint(self._tls, self._wire)
                self._is_open = True
                self._protocol.tls_started()
            while data := self._tls.read(_READ_BYTES):
                self._protocol.dataReceived(data)
            self._below.loseConnection()  # the server has ended TLS
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as exc:
            self._protocol.tls_failed(exc)
        self._flush()

    def _flush(self) -> None:
        if data := self._outgoing.read():
            self._below.write(data)


_OLDEST_VERSION = b"RFB 003.003\n"
_REPEATER = b"RFB 000.000\n"
_MAX_REASON = 300
_NONE = 1
_VNC_AUTH = 2
_VENCRYPT = 19
_NAMES = {
    1: "None", 2: "VncAuth", 5: "RA2", 6: "RA2ne", 16: "Tight", 17: "Ultra", 18: "TLS", 19: "VeNCrypt", 20: "SASL",
    30: "Apple", 113: "MSLogonII", 129: "RA2_256", 130: "RA2ne_256",
    256: "Plain", 257: "TLSNone", 258: "TLSVnc", 259: "TLSPlain", 260: "X509None", 261: "X509Vnc", 262: "X509Plain",
    263: "TLSSASL", 264: "X509SASL",
}  # fmt: skip
"""Security types and VeNCrypt's sub-types, as servers' options spell them."""
_WITHOUT_CERTIFICATE = frozenset({257, 258, 259})
_X509_NONE = 260
_X509_VNC = 261
_X509_PLAIN = 262


@dataclass
class ServerFacts:
    """The facts that a VNC server has sent about itself. A field is empty if the
    connection failed before the server sent it.
    """

    version: str = ""
    """The version of RFB, such as `3.8`."""
    security_types: tuple[str, ...] = ()
    """The names of the offered types, as in servers' options."""
    subtypes: tuple[str, ...] = ()
    """The same for VeNCrypt's sub-types."""
    security_used: str = ""
    protection: str = ""
    """What keeps other users from reading the connection; "" if nothing does."""
    name: str = ""
    size: tuple[int, int] = (0, 0)
    """Width and height in pixels."""
    pixel_format: str = ""
    """The server's default, before the client asks for another."""
    encodings: set[str] = field(default_factory=set)
    """Those of the rectangles that it sent, including pseudo-encodings."""
    extended_clipboard: bool = False


class SecuredClient(RFBClient):
    """vncdotool's client, up to the end of the handshake. It uses TLS where it can, and
    reports why it ends a connection.
    """

    factory: Any
    transport: Any
    handshaken = False
    security_types = b""
    _subtype = 0
    _ended = False

    def _handleInitial(self) -> None:
        """Report what answers, if it is no VNC server."""
        # vncdotool's method prints a bytearray, and an error of Python for old versions
        greeting = bytes(self._packet[: len(_REPEATER)])
        is_too_old = len(greeting) == len(_REPEATER) and greeting < _OLDEST_VERSION
        if greeting == _REPEATER:
            self._reject(
                "is an UltraVNC repeater (RFB 000.000), which waits for the ID of a"
                " server. That is not supported. Give the address of the VNC server"
                " behind it"
            )
        elif is_too_old or not greeting.startswith(b"RFB "[: len(greeting)]):
            text = bytes(self._packet).decode("utf-8", "replace")
            first_line = plain(text.partition("\n")[0].strip())
            self._reject(
                f"is no VNC server: it greets with {first_line!r:.100}. Give the port of"
                " the VNC server, by default 5900 plus the number of its display"
            )
        else:
            super()._handleInitial()

    def _handleSecurityTypes(self, block: bytes) -> None:
        """Choose by the rules."""
        # vncdotool's method takes the highest type that it knows
        self._note_types(block)
        if (chosen := self._choice(block)) is None:
            return
        if chosen == _VENCRYPT:
            self.transport.write(bytes([chosen]))
            self.expect(self._handle_vencrypt_version, 2)
        else:
            super()._handleSecurityTypes(bytes([chosen]))

    def _handleAuth(self, block: bytes) -> None:
        """Check the type that a server of version 3.3 chose itself."""
        # vncdotool's method would do without TLS
        (chosen,) = struct.unpack("!I", block)
        self._note_types(block[-1:])
        if not chosen or self._choice(bytes([min(chosen, 255)])) is not None:
            super()._handleAuth(block)

    def _note_types(self, types: bytes) -> None:
        self.security_types = types
        self.factory.facts.version = "{}.{}".format(*self._version_server)
        self.factory.facts.security_types = tuple(map(_name, types))

    def _choice(self, offered: bytes) -> int | None:
        """Return the type to use; end the connection if none fits the rules."""
        wire = self.factory.wire
        order = [_VNC_AUTH, _NONE]
        if self.factory.password is None:
            order = [_NONE, _VNC_AUTH]
        has_tls = self.factory.websocket == "wss"
        can_start_tls = not self.factory.websocket and wire.tls != "off"
        if wire.requires_tls and not has_tls:
            order = [_VENCRYPT]
        elif can_start_tls and is_local_connection(self):
            order.append(_VENCRYPT)
        elif can_start_tls:
            order.insert(0, _VENCRYPT)
        chosen = next((number for number in order if number in offered), None)
        if chosen is not None:
            self.factory.facts.security_used = _name(chosen)
            return chosen
        if order == [_VENCRYPT]:
            problem = (
                f", but {wire.demand} requires TLS. Nothing was sent. Someone on the"
                " network may have removed the offer of TLS. If not, make the server"
                " offer VeNCrypt with X509Vnc or X509Plain"
            )
        elif _VENCRYPT in offered and self.factory.websocket:
            problem = (
                ": VeNCrypt does not work through a WebSocket. Make the server offer"
                " VncAuth or None, and use wss:// for TLS"
            )
        elif _VENCRYPT in offered:
            problem = (
                ": vnc_tls=off allows no TLS. Set vnc_tls=auto, or make the server"
                " offer VncAuth or None"
            )
        else:
            problem = ": make the server offer VncAuth, None or VeNCrypt"
        self._reject(f"offers {_names(offered)}{problem}")
        return None

    # VeNCrypt, which vncdotool 1.4 does not have

    def _handle_vencrypt_version(self, _: bytes) -> None:
        # a server that has only an older version refuses this one
        self.transport.write(b"\0\2")
        self.expect(self._handle_vencrypt_answer, 2)

    def _handle_vencrypt_answer(self, block: bytes) -> None:
        refused, count = block
        if refused:
            raise ValueError("the server refused VeNCrypt 0.2")
        if not count:
            raise ValueError("the server offered no VeNCrypt sub-type")
        self.expect(self._handle_subtypes, 4 * count)

    def _handle_subtypes(self, block: bytes) -> None:
        """Choose the sub-type that fits the credentials best, and check that those it
        needs are set.
        """
        offered = struct.unpack(f"!{len(block) // 4}I", block)
        self.factory.facts.subtypes = tuple(map(_name, offered))
        wire = self.factory.wire
        has_password = self.factory.password is not None
        if wire.user:
            order = (_X509_PLAIN, _X509_VNC, _X509_NONE)
        elif has_password:
            order = (_X509_VNC, _X509_NONE, _X509_PLAIN)
        else:
            order = (_X509_NONE, _X509_VNC, _X509_PLAIN)
        chosen = next((number for number in order if number in offered), None)
        if chosen is None:
            plain_types = {_NONE, _VNC_AUTH} & set(self.security_types)
            lacks_certificate = bool(_WITHOUT_CERTIFICATE.intersection(offered))
            self.factory.takes_plain = (
                lacks_certificate and bool(plain_types) and not wire.requires_tls
            )
            advice = ": make"
            if lacks_certificate:
                advice = (
                    ", all without a certificate. Someone on the network can read and"
                    " change such a connection. Make"
                )
            self._reject(
                f"offers VeNCrypt with {_names(offered)}{advice} the server offer"
                " X509Vnc, X509Plain or X509None"
            )
            return
        self.factory.facts.security_used = f"VeNCrypt {_name(chosen)}"
        if chosen == _X509_PLAIN and not wire.user:
            self._reject(
                "wants a user name (X509Plain), but none is set. Set vnc_username",
                AuthenticationFailed,
            )
        elif chosen != _X509_NONE and not has_password:
            self._reject_missing_password()
        else:
            self._subtype = chosen
            self.transport.write(struct.pack("!I", chosen))
            self.expect(self._start_tls, 1)

    def _start_tls(self, block: bytes) -> None:
        if block != b"\1":
            raise ValueError(
                f"the server offered {self.factory.facts.security_used}, then"
                " refused it"
            )
        if self._packet:  # someone on the network could have sent it
            raise ValueError(
                "the server sent bytes before the TLS handshake; they must come"
                " after it"
            )
        TlsLayer(self, self.factory.host, self.factory.wire)

    def tls_started(self) -> None:
        """Continue within TLS, whose certificate is accepted."""
        if self._subtype == _X509_VNC:
            self.expect(self._handleVNCAuth, 16)
            return
        if self._subtype == _X509_PLAIN:
            password = (self.factory.password or "").encode("utf-8", "surrogateescape")
            user = self.factory.wire.user.encode("utf-8", "surrogateescape")
            lengths = struct.pack("!II", len(user), len(password))
            self.transport.write(lengths + user + password)
        self.expect(self._handleVNCAuthResult, 4)

    def tls_failed(self, error: ssl.SSLError) -> None:
        """End the connection, whose certificate or kind of TLS is not accepted."""
        self._end(DesktopRefused(format_tls_error(self.factory.server, error)))

    def vncRequestPassword(self) -> None:
        """Answer the server's challenge."""
        # vncdotool's method warns that its DES has moved
        if self.factory.password is None:
            self._reject_missing_password()
        else:
            self.transport.write(
                mirrored_des(self.factory.password.encode("ascii"), self._challenge)
            )

    def vncAuthFailed(self, reason: Any) -> None:
        """Report that the server refused the password."""
        # vncdotool's method only logs it
        if isinstance(reason, bytes):
            reason = reason.decode("utf-8", "replace")
        text = cut(plain(reason), _MAX_REASON)
        self._reject(f"refused the password: {text}", AuthenticationFailed)

    def vncProtocolError(self, reason: str) -> None:
        """End the connection with this error."""
        # vncdotool's method only logs it
        self._break_off(cut(plain(reason), _MAX_REASON))

    def _handleConnMessage(self, block: bytes) -> None:
        """Report why the server refuses."""
        # vncdotool's method calls that an error of the protocol
        reason = cut(plain(block.decode("utf-8", "replace")), _MAX_REASON)
        self._reject(f"refused the connection: {reason or 'it gave no reason'}")

    def _reject(self, problem: str, kind: type[VncUseError] = DesktopRefused) -> None:
        self._end(kind(f"{self.factory.server!r} {problem}"))

    def _reject_missing_password(self) -> None:
        self._reject(
            f"wants a password, but none is set. Set {self.factory.wire.password_env}",
            AuthenticationFailed,
        )

    def _break_off(self, reason: str) -> None:
        if self.handshaken:
            server = self.factory.server
            self._end(
                ConnectionLost(
                    f"{server!r} violated the VNC protocol: {reason}. The connection is"
                    " closed"
                )
            )
        else:
            self._reject(f"does not speak VNC as expected: {reason}")

    def _end(self, error: VncUseError) -> None:
        self._ended = True
        # vncdotool would continue to handle the packet, and never end if the next
        # field is empty, such as a reason
        self._packet.clear()
        self._expected_len = sys.maxsize
        self.factory.framebuffer.fail(error)
        self.transport.abortConnection()

    def _protection(self) -> str:
        """Return what keeps other users from reading the connection; "" if nothing
        does.
        """
        if self._subtype:
            return "TLS, with a certificate that was checked"
        if self.factory.websocket == "wss":
            return "wss, with a certificate that was checked"
        return "it stays on this machine" if is_local_connection(self) else ""


def mirrored_des(key: bytes, data: bytes) -> bytes:
    """Encrypt data by DES in ECB mode, under the key's first 8 bytes with their bits
    mirrored (RFC 6143, 7.2.2).
    """
    mirrored = bytes(int(f"{byte:08b}"[::-1], 2) for byte in key[:8].ljust(8, b"\0"))
    encryptor = Cipher(TripleDES(mirrored * 3), modes.ECB()).encryptor()
    return encryptor.update(data) + encryptor.finalize()


def is_local_connection(protocol: SecuredClient) -> bool:
    """Return whether a connection does not leave this machine."""
    if protocol.factory.peers:
        peer, local = protocol.factory.peers
    else:
        address = protocol.transport.getPeer()
        if isinstance(address, UNIXAddress):
            return True
        peer = address.host
        local = protocol.transport.getHost().host
    return ipaddress.ip_address(peer.partition("%")[0]).is_loopback or peer == local


def _name(number: int) -> str:
    return _NAMES.get(number, f"type {number}")


def _names(types: Sequence[int]) -> str:
    return ", ".join(map(_name, types)) or "nothing"
