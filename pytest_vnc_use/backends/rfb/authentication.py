"""VNC's password check: DES of the server's challenge, under the password with mirrored bits (RFC 6143, 7.2.2)."""

from __future__ import annotations

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes

_KEY_BYTES = 8


def answer_challenge(challenge: bytes, password: str) -> bytes:
    """Return the answer to a challenge of 16 bytes; the password's first eight ASCII characters count."""
    return mirrored_des(password.encode("ascii"), challenge)


def mirrored_des(key: bytes, data: bytes) -> bytes:
    """Encrypt data by DES in ECB mode, under the key with its bits mirrored, as triple DES with three equal keys."""
    mirrored = bytes(int(f"{byte:08b}"[::-1], 2) for byte in key[:_KEY_BYTES].ljust(_KEY_BYTES, b"\0"))
    encryptor = Cipher(TripleDES(mirrored * 3), modes.ECB()).encryptor()
    return encryptor.update(data) + encryptor.finalize()
