"""One-time codes from a shared key, as authenticator apps show them: RFC 6238, with SHA-1 and steps of 30 seconds."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable

from pytest_vnc_use import clock

_STEP_S = 30


def totp(key: str, *, digits: int = 6, now: Callable[[], float] = clock.epoch) -> str:
    """Return the code of this moment for a key in base32; spaces, small letters and missing padding are fine.

    Raises ValueError for a key that is no base32.
    """
    letters = "".join(key.split()).upper().rstrip("=")
    try:
        raw = base64.b32decode(letters + "=" * (-len(letters) % 8))
    except binascii.Error:
        raise ValueError("a key in base32, such as an authenticator app is given") from None
    counter = int(now() // _STEP_S).to_bytes(8, "big")
    digest = hmac.digest(raw, counter, "sha1")
    offset = digest[-1] & 0xF  # RFC 4226, section 5.3
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFFFFFF
    return f"{number % 10**digits:0{digits}d}"
