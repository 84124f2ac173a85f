"""langsmith's plugin, which comes along with langgraph."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from pytest_vnc_use.cli import other_plugins
from pytest_vnc_use.cli.other_plugins import langsmith_in


def test_it_is_told_how_to_leave_it_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    is_left_out, told = langsmith_in(tmp_path)
    assert (is_left_out, "add '-p no:langsmith_plugin' to addopts in pytest.ini" in told) == (False, True)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -q -p no:langsmith_plugin\n")
    assert langsmith_in(tmp_path) == (True, "its pytest plugin is left out")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-pno:langsmith_plugin")
    assert langsmith_in(tmp_path)[0]


def test_without_it_nothing_is_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none: list[EntryPoint] = []
    monkeypatch.setattr(other_plugins, "entry_points", lambda **_: none)
    assert langsmith_in(tmp_path) == (True, "not installed")
