"""Paths in settings."""

from __future__ import annotations

from pathlib import Path

from pytest_vnc_use.settings.paths import absolute_files
from pytest_vnc_use.settings.settings import Settings


def test_a_file_is_absolute_and_a_preset_is_no_file(tmp_path: Path) -> None:
    assert absolute_files(Settings(policy="a.toml"), tmp_path).policy == str(tmp_path / "a.toml")
    assert absolute_files(Settings(policy="strict"), tmp_path).policy == "strict"
    assert absolute_files(Settings(policy="./strict"), tmp_path).policy == str(tmp_path / "strict")
    assert absolute_files(Settings(), tmp_path).policy == ""
