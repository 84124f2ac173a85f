"""Seals, which show whether this user made a run folder on this machine or it came from elsewhere.

A seal is a keyed hash (HMAC-SHA256). The key is random and is made at first use. It lies in a file that only the user
can read; a run folder never holds it. If no such file can be made, the key lives as long as the process.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import os
import secrets
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from pytest_vnc_use.files import draft_of

_KEY_BYTES = 32
_LENGTH = 32
"""The length of a seal in hexadecimal digits."""
_BEFORE, _AFTER = b',"seal":"', b'"}'
_TAIL = len(_BEFORE) + _LENGTH + len(_AFTER)


def seal_of(*parts: bytes) -> str:
    """Return the seal of all parts, in this order. A different division into parts has a different seal."""
    summed = hmac.new(_key(), digestmod=hashlib.sha256)
    for part in parts:
        summed.update(b"%d:" % len(part) + part)
    return summed.hexdigest()[:_LENGTH]


def is_seal_of(seal: str, *parts: bytes) -> bool:
    """Return whether the seal is that of these parts, compared in constant time."""
    return hmac.compare_digest(seal.encode(), seal_of(*parts).encode())


# --- lines that hold together ----------------------------------------------------------------------------------------


def sealed(line: bytes, before: bytes) -> bytes:
    """Return the line, a JSON object with at least one field, with its seal added as the last field.

    The seal covers the line and the line before it. The first line has no line before it and no seal: the second line's
    seal covers it too.
    """
    return line[:-1] + _BEFORE + seal_of(before, line).encode() + _AFTER if before else line


def are_sealed(lines: Sequence[bytes]) -> bool:
    """Return whether every line but the first is sealed, none is missing in between, and none was changed."""
    pairs = itertools.pairwise(lines)
    return len(lines) > 1 and all(sealed(line[:-_TAIL] + b"}", before) == line for before, line in pairs)


# --- the key ---------------------------------------------------------------------------------------------------------


def key_file() -> Path:
    """Return the path of the key. Raises RuntimeError if the user has no home."""
    if sys.platform == "win32":
        state = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        state = Path.home() / "Library" / "Application Support"
    else:
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "pytest-vnc-use" / "seal.key"


@cache
def _key() -> bytes:
    try:
        file = key_file()
        return _read(file) or _make(file)
    except (OSError, RuntimeError):  # no home, or a read-only one: only this process can check its own seals
        return secrets.token_bytes(_KEY_BYTES)


def _read(file: Path) -> bytes:
    """Return the key; empty if there is none, or if others may have read or written it."""
    with suppress(FileNotFoundError), file.open("rb") as opened:
        status = os.fstat(opened.fileno())
        is_private = os.name != "posix" or (status.st_uid == os.getuid() and not status.st_mode & 0o077)
        key = opened.read(_KEY_BYTES + 1) if stat.S_ISREG(status.st_mode) and is_private else b""
        return key if len(key) == _KEY_BYTES else b""
    return b""


def _make(file: Path) -> bytes:
    """Return a new key, or the key of a process that made one at the same moment."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with draft_of(file) as draft:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(secrets.token_bytes(_KEY_BYTES))
        with suppress(FileExistsError):
            os.link(draft, file)
        if not _read(file):
            draft.replace(file)
    return _read(file)
