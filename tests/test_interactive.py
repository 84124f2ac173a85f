"""Whether a CI job runs this process: one answer for all of the package."""

from __future__ import annotations

import os

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.interactive import check_user, has_user, is_ci


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((value, True) for value in ("true", "TRUE", "1", "woodpecker", "no")),
        *((value, False) for value in (None, "", " ", "false", "False", "FALSE", "0")),
    ],
)
def test_is_ci_of_variable(
    monkeypatch: pytest.MonkeyPatch, value: str | None, expected: bool
) -> None:
    monkeypatch.delenv("CI", raising=False)
    if value is not None:
        monkeypatch.setenv("CI", value)
    assert is_ci() is expected


def test_check_user_in_ci_names_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "woodpecker")
    with pytest.raises(SettingsError, match=r"CI='woodpecker' .* Go home, or set"):
        check_user("a test", "Go home")
    monkeypatch.setenv("CI", "false")
    check_user("a test", "Go home")


def test_terminal_in_ci_has_no_user(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = os.openpty()
    with os.fdopen(master), os.fdopen(slave) as stream:
        monkeypatch.setenv("CI", "0")
        assert has_user(stream)
        monkeypatch.setenv("CI", "1")
        assert not has_user(stream)
    assert not has_user(None)
