"""The secrets of one X server: the password for its VNC clients, the cookie for its X clients, and their files."""

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
"""The key with which VNC servers hide the password file: d3des's fixed key (23, 82, 107, …), bits mirrored."""


def new_password() -> str:
    """Return eight random characters, 48 bits: VNC's password check uses no more."""
    return secrets.token_urlsafe(6)


def write_password_file(path: Path, password: str) -> None:
    """Write the file that `vncpasswd` writes: one block of DES (here triple DES with three equal keys)."""
    encryptor = Cipher(TripleDES(_PASSWORD_FILE_KEY * 3), modes.ECB()).encryptor()
    _write_private(path, encryptor.update(password.encode("ascii")) + encryptor.finalize())


def write_authority_file(path: Path) -> bytes:
    """Write an Xauthority file with one new cookie, good for any display; return the cookie. Format: Xau(3)."""
    cookie = secrets.token_bytes(16)
    fields = (b"", b"", COOKIE_NAME, cookie)
    _write_private(path, struct.pack(">H", _ANY_DISPLAY) + b"".join(struct.pack(">H", len(f)) + f for f in fields))
    return cookie


def _write_private(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
