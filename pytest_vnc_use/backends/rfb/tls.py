"""TLS of one connection, and the check of the server's certificate. The only file that knows pyOpenSSL."""

from __future__ import annotations

import ipaddress
from typing import Any

from cryptography.hazmat.primitives.hashes import SHA256

from pytest_vnc_use.backends.rfb.reactor import implementer, reactor
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.files import read_regular
from pytest_vnc_use.types.wire import Wire

MISSING = "TLS needs a library that is not installed: pip install 'pytest-vnc-use[tls]'"
_PROBLEMS = {
    9: "it is not valid yet",
    10: "it has expired",
    18: "it is self-signed, and no known authority vouches for it",
    19: "its authority is not known on this machine",
    20: "its authority is not known on this machine",
    21: "its authority is not known on this machine",
    23: "it was revoked",
    24: "its authority may not sign certificates",
    26: "it is for another purpose",
}
"""Results of verification in words; X509_STORE_CTX_get_error(3)."""


def is_installed() -> bool:
    """Return whether TLS can be used."""
    try:
        import OpenSSL
        import service_identity.cryptography  # noqa: F401
    except ImportError:
        return False
    return bool(OpenSSL)


def check_rules(wire: Wire) -> None:
    """Raise SettingsError if the library is missing, or the file of the authorities cannot be read."""
    if wire.tls_ca or not is_installed():
        ClientTls("localhost", wire)


class ClientTls:
    """The TLS of one connection to `host`.

    With `anonymous` there is no certificate. Else the chain is checked during the handshake; after a failed one
    `problem` says why. After the handshake `check` must be called before anything is sent. Raises SettingsError if the
    library is missing, or the file of the authorities cannot be read.
    """

    def __init__(self, host: str, wire: Wire, *, anonymous: bool = False) -> None:
        if not is_installed():
            raise SettingsError(MISSING)
        self._host, self._wire, self._is_anonymous = host, wire, anonymous
        self.problem = ""
        self._context = _anonymous_context() if anonymous else self._checking_context()

    def start(self, protocol: Any) -> None:
        """Put TLS between a connected protocol and its transport, as `startTLS`, which writes by the global reactor."""
        from twisted.protocols.tls import TLSMemoryBIOFactory

        factory = TLSMemoryBIOFactory(self._creator(), True, None, clock=reactor)  # type: ignore[arg-type]  # as startTLS
        tls: Any = factory.protocol(factory, protocol, False)
        below, protocol.transport = protocol.transport, tls
        producer, streaming = below.producer, below.streamingProducer
        if producer:
            below.unregisterProducer()
        below.protocol = tls
        tls.makeConnection(below)
        if producer:
            tls.registerProducer(producer, streaming)

    def _creator(self) -> Any:
        """Return the object that Twisted asks for a connection of OpenSSL."""
        from OpenSSL import SSL
        from twisted.internet.interfaces import IOpenSSLClientConnectionCreator

        context, host = self._context, self._host

        @implementer(IOpenSSLClientConnectionCreator)
        class Creator:
            def clientConnectionForTLS(self, protocol: object) -> Any:
                connection = SSL.Connection(context, None)
                if not _is_ip(host):
                    connection.set_tlsext_host_name(host.encode("idna"))
                return connection

        return Creator()

    def check(self, connection: Any) -> str:
        """Return why the certificate of an open connection is not accepted; "" if it is."""
        if self._is_anonymous:
            return ""
        certificate = connection.get_peer_certificate(as_cryptography=True)
        if certificate is None:
            return "the server showed no certificate"
        fingerprint = f"sha256:{certificate.fingerprint(SHA256()).hex()}"
        if self._wire.tls_fingerprint:
            accepted = fingerprint == self._wire.tls_fingerprint
            return "" if accepted else f"its fingerprint is {fingerprint}, not {self._wire.tls_fingerprint}"
        return self._name_problem(certificate)

    def _name_problem(self, certificate: Any) -> str:
        from service_identity import CertificateError, VerificationError
        from service_identity.cryptography import verify_certificate_hostname, verify_certificate_ip_address

        verify = verify_certificate_ip_address if _is_ip(self._host) else verify_certificate_hostname
        try:
            verify(certificate, self._host)
        except (CertificateError, VerificationError):
            return f"it is not for the name {self._host!r}"
        return ""

    def _checking_context(self) -> Any:
        from OpenSSL import SSL

        context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        context.set_min_proto_version(SSL.TLS1_2_VERSION)
        if self._wire.tls_fingerprint:
            context.set_verify(SSL.VERIFY_NONE)  # `check` compares it
            return context
        if self._wire.tls_ca:
            try:
                read_regular(self._wire.tls_ca)  # OpenSSL would wait for a FIFO
                context.load_verify_locations(self._wire.tls_ca)
            except (OSError, SSL.Error) as exc:
                raise SettingsError(
                    f"vnc_tls_ca must be a readable file of certificates (PEM), got {self._wire.tls_ca!r}"
                ) from exc
        else:
            context.set_default_verify_paths()
        context.set_verify(SSL.VERIFY_PEER, self._note_verification)
        return context

    def _note_verification(self, connection: object, certificate: Any, error: int, depth: int, accepted: int) -> bool:
        """Note the result of OpenSSL's check, and keep it."""
        if not accepted:
            self.problem = self.problem or _PROBLEMS.get(error, f"OpenSSL's verification ended with {error}")
        return bool(accepted)


def _anonymous_context() -> Any:
    from OpenSSL import SSL

    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_max_proto_version(SSL.TLS1_2_VERSION)  # the last version that knows TLS without a certificate
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_cipher_list(b"aNULL:!eNULL:@SECLEVEL=0")
    return context


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
