"""What a desktop's programs inherit from the tests, and what they do not."""

from __future__ import annotations

import pytest

from pytest_vnc_use.desktops.session import Session


def test_the_tests_own_secrets_are_kept_from_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "VNC_USE_PASSWORD", "WAYLAND_DISPLAY"):
        monkeypatch.setenv(name, "not for the program")
    monkeypatch.setenv("SHOP_MODE", "test")
    session = Session({"SHOP_SIZE": "3"})
    session.stop()
    assert "not for the program" not in session.environment.values()
    assert (session.environment["SHOP_MODE"], session.environment["SHOP_SIZE"]) == ("test", "3")
