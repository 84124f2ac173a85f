"""TLS by the standard library: the check of a server's certificate, and TLS that starts within a connection."""

from __future__ import annotations

import hashlib
import ssl
from contextlib import suppress
from typing import Any

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.files import read_regular
from pytest_vnc_use.types.wire import Wire

_READ_BYTES = 1 << 18


def context_of(wire: Wire) -> ssl.SSLContext:
    """Return the context that checks a certificate by the rules. Raises SettingsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if wire.tls_fingerprint:  # `check_fingerprint` compares it, and no authority is asked
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif wire.tls_ca:
        try:
            read_regular(wire.tls_ca)  # OpenSSL would wait for a FIFO
            context.load_verify_locations(wire.tls_ca)
        except OSError as exc:  # ssl.SSLError is one
            raise SettingsError(
                "vnc_tls must be auto, require, off, sha256:HEX or a readable file of certificates (PEM), "
                f"got {wire.tls_ca!r}"
            ) from exc
    else:
        context.load_default_certs()
    return context


def check_fingerprint(tls: ssl.SSLObject | ssl.SSLSocket, wire: Wire) -> None:
    """Raise SSLCertVerificationError if the certificate is not the one that the rules name."""
    if not wire.tls_fingerprint:
        return
    fingerprint = f"sha256:{hashlib.sha256(tls.getpeercert(binary_form=True) or b'').hexdigest()}"
    if fingerprint != wire.tls_fingerprint:
        raise ssl.SSLCertVerificationError(f"its fingerprint is {fingerprint}, not {wire.tls_fingerprint}")


def problem_of(server: str, error: ssl.SSLError) -> str:
    """Return why TLS with a server failed, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = getattr(error, "verify_message", "") or error.args[-1]
        return f"the certificate of {server!r} is not accepted: {reason}"
    return f"{server!r} and this client found no common kind of TLS: {error.reason or error}"


class TlsLayer:
    """TLS between a connected protocol and its transport, whose place it takes; the rest is the transport's.

    The protocol's `tls_started` is called once the certificate is accepted, or else `tls_failed`.
    """

    def __init__(self, protocol: Any, host: str, wire: Wire) -> None:
        self._protocol, self._below, self._wire = protocol, protocol.transport, wire
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context_of(wire).wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._is_open = False
        protocol.transport, self._below.protocol = self, self
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
