"""A run directory is for its owner alone, and a run id leads nowhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.report.results import session_results, write_results
from pytest_vnc_use.runs.directory import keep_logs, path_of
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Click, Proposal
from support.memory_desktop import ListPlanner, PaintedController, act, finished


@pytest.fixture
def _no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other rights")
@pytest.mark.usefixtures("_no_umask")
def test_only_owner_may_read_run_also_without_umask(tmp_path: Path) -> None:
    planner = ListPlanner([act(Proposal(Click(1, 1), "open it")), finished()])
    settings = Settings(server="localhost::1", runs_dir=str(tmp_path / "runs"))
    with VncUseAgent(settings=settings, planner=planner, controller=PaintedController()) as agent:
        directory = agent.run("Open it").run_dir
        assert directory is not None
        keep_logs(directory, {"program": "started"})
        rights = {
            str(each.relative_to(tmp_path)): each.stat().st_mode & 0o777 for each in [directory, *directory.rglob("*")]
        }
    assert len(rights) >= 6
    wrong = {name: oct(mode) for name, mode in rights.items() if mode not in (0o600, 0o700)}
    assert wrong == {}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other rights")
@pytest.mark.usefixtures("_no_umask")
def test_only_owner_may_read_results(tmp_path: Path) -> None:
    write_results(tmp_path / "results.json", session_results("", "", ()))
    assert (tmp_path / "results.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("run_id", ["", ".", "..", "../x", "/etc", "a/b", "a\\b", "C:x", "a\nb", "a\0b", "x/"])
def test_run_id_is_name_of_dir(run_id: str) -> None:
    with pytest.raises(RunDirectoryError, match="a run id must be the name of a directory in 'runs'"):
        path_of(Path("runs"), run_id)


def test_any_other_name_is_fine() -> None:
    for run_id in ("20260101-120000-000-abcd", "my run", "…"):
        assert path_of(Path("runs"), run_id) == Path("runs", run_id)
