"""Certificates for tests: an authority, and what it signs, valid or not."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Certificate:
    file: Path
    key: Path
    fingerprint: str


class Authority:
    def __init__(self, directory: Path) -> None:
        import trustme  # each worker would import it to collect the tests

        self._dir = directory
        self._ca = trustme.CA()
        self.file = directory / "authority.pem"
        self._ca.cert_pem.write_to_path(self.file)

    def certificate(self, *names: str, days: int = 2) -> Certificate:
        """Return a certificate for names and addresses; one that has expired with
        `days` below 0.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives.hashes import SHA256

        not_after = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(
            days=days
        )
        leaf = self._ca.issue_cert(*names, not_after=not_after)
        file, key = (self._dir / f"{names[0]}{days}.{kind}" for kind in ("pem", "key"))
        chain = b"".join(each.bytes() for each in leaf.cert_chain_pems)
        file.write_bytes(chain)
        leaf.private_key_pem.write_to_path(key)
        fingerprint = x509.load_pem_x509_certificate(chain).fingerprint(SHA256())
        return Certificate(file, key, f"sha256:{fingerprint.hex()}")
