"""The till with a recording, which tests of several files replay."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from support.forked_python import made_once
from support.till_project import Project, project_in


@pytest.fixture(autouse=True)
def _short_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watch the end of a task for a quarter of the time: it changes in no test here."""
    monkeypatch.setenv("VNC_USE_WATCH_SECONDS", "0.3")


@pytest.fixture
def without_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set nothing, as in a project that does not use the plugin."""
    for name in [name for name in os.environ if name.startswith("VNC_USE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A test without a recording, and a planner for it."""
    return project_in(tmp_path)


@pytest.fixture(scope="session")
def recorded_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def record(directory: Path) -> Path:
        made = project_in(directory)
        ended = made.run("--vnc-record=auto")
        assert ended.code == 0, ended.out
        assert (
            "vnc-use: 1 recording written to __vnc_recordings__/test_till\n"
            in ended.out
        )
        (made.path / "asked.txt").unlink()
        return made.path

    return made_once(tmp_path_factory, "recorded_project", record)


@pytest.fixture
def recorded(recorded_once: Path, tmp_path: Path) -> Project:
    """The same with its recording, of which the planner was not asked yet."""
    shutil.copytree(
        recorded_once, tmp_path / "project", ignore=shutil.ignore_patterns("runs")
    )
    return Project(tmp_path / "project")
