"""Certificates for tests: an authority, and what it signs, valid or not."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)
_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@dataclass
class Certificate:
    """A certificate and its key, as files."""

    file: Path
    key: Path
    fingerprint: str


class Authority:
    """An authority of its own; its certificate is in `file`."""

    def __init__(self, directory: Path) -> None:
        self._dir = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("an authority of a test")
        self.file = directory / "authority.pem"
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        builder = self._builder(self._name, self._key, days=2).add_extension(constraints, True)
        builder = builder.add_extension(_SIGNS, True)
        self.file.write_bytes(builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM))

    def certificate(self, *names: str, days: int = 2) -> Certificate:
        """Return a certificate for names and addresses; one that has expired with `days` below 0."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = x509.SubjectAlternativeName([_general(name) for name in names])
        builder = self._builder(_name(names[0]), key, days).add_extension(alternatives, False)
        signed = builder.sign(self._key, SHA256())
        stem = f"{names[0]}{days}"
        file, key_file = self._dir / f"{stem}.pem", self._dir / f"{stem}.key"
        file.write_bytes(signed.public_bytes(Encoding.PEM))
        key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return Certificate(file, key_file, f"sha256:{signed.fingerprint(SHA256()).hex()}")

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
        """Return what every certificate has; Python 3.13 checks RFC 5280 strictly, so also the two key identifiers."""
        now = datetime.datetime.now(datetime.timezone.utc)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(self._name).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - 5 * _DAY).not_valid_after(now + days * _DAY)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        return builder.add_extension(issuer, False)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
