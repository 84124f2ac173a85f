"""Secrets of one X server: the password its VNC clients need, the cookie its X clients need, and their files."""

from __future__ import annotations

import os
import secrets
import struct
from pathlib import Path

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes

COOKIE_NAME = b"MIT-MAGIC-COOKIE-1"
_ANY_DISPLAY = 0xFFFF  # FamilyWild of X11/Xauth.h
_PASSWORD_FILE_KEY = bytes.fromhex("e84ad660c4721ae0")
"""What every VNC server hides its password file under: d3des's fixed key (23, 82, 107, …), bits mirrored."""


def new_password() -> str:
    """Eight random characters, which is all that VNC's password check looks at: 48 bits."""
    return secrets.token_urlsafe(6)


def write_password_file(path: Path, password: str) -> None:
    """The file that `vncpasswd` writes: one block of DES (here as the same key three times under triple DES)."""
    encryptor = Cipher(TripleDES(_PASSWORD_FILE_KEY * 3), modes.ECB()).encryptor()
    _write_private(path, encryptor.update(password.encode("ascii")) + encryptor.finalize())


def write_authority_file(path: Path) -> bytes:
    """An Xauthority file with one new cookie, good for any display; returns the cookie. Format: Xau(3)."""
    cookie = secrets.token_bytes(16)
    fields = (b"", b"", COOKIE_NAME, cookie)
    _write_private(path, struct.pack(">H", _ANY_DISPLAY) + b"".join(struct.pack(">H", len(f)) + f for f in fields))
    return cookie


def _write_private(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
