"""One-time codes, as RFC 6238 has them."""

from __future__ import annotations

import base64

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.runs.redaction import Redactor, totp

KEY = base64.b32encode(b"12345678901234567890").decode()


@pytest.mark.parametrize(
    ("moment_s", "code"),
    [
        (59, "94287082"),
        (1111111109, "07081804"),
        (1111111111, "14050471"),
        (1234567890, "89005924"),
        (2000000000, "69279037"),
        (20000000000, "65353130"),
    ],
)
def test_vectors_of_appendix_b(moment_s: int, code: str) -> None:
    assert totp(KEY, digits=8, now=lambda: moment_s) == code
    assert totp(KEY, now=lambda: moment_s + 0.9) == code[2:]


def test_its_placeholder_becomes_code() -> None:
    redactor = Redactor({"SHOP_2FA": KEY})
    revealed = redactor.reveal("code <totp:SHOP_2FA>, key <secret:SHOP_2FA>, <totp:OTHER>")
    assert revealed in {
        f"code {code}, key {KEY}, <totp:OTHER>" for code in (totp(KEY), redactor.reveal("<totp:SHOP_2FA>"))
    }
    assert KEY not in repr(revealed)


def test_key_none_is_refused_without_being_told() -> None:
    with pytest.raises(SettingsError, match=r"'PIN' must be a key in base32") as raised:
        Redactor({"PIN": "no-key-1890"}).reveal("<totp:PIN>")
    assert "1890" not in str(raised.value)
