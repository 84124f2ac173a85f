"""What is removed, and what stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.runs.directory import (
    EndedTest,
    RunDirectory,
    drop_screenshots,
    make_room,
    read_ended_test,
    write_ended_test,
)


def run(runs_dir: Path, name: str, result: str = "", *, age_s: int = 0) -> Path:
    """A run directory of a megabyte."""
    path = RunDirectory.create(runs_dir, name).path
    (path / "screens" / "a.png").write_bytes(bytes(1_000_000))
    if result:
        write_ended_test(path, EndedTest("test_it", result))
        at = (path / "result.json").stat().st_mtime - age_s
        os.utime(path / "result.json", (at, at))
    return path


def left(runs_dir: Path) -> list[str]:
    return sorted(path.name for path in runs_dir.iterdir())


def test_oldest_passing_runs_go_first_and_it_is_said(tmp_path: Path) -> None:
    run(tmp_path, "old-failure", "failed", age_s=300)
    run(tmp_path, "old", "passed", age_s=200)
    run(tmp_path, "new", "passed", age_s=100)
    told = make_room(tmp_path, 2, keep=[])
    assert left(tmp_path) == ["old-failure"]
    assert told == "2 runs were removed, the oldest first: all runs had 3 MB of at most 2 (vnc_max_megabytes)"


def test_what_is_kept_or_was_not_ended_by_test_stays_and_it_is_said(tmp_path: Path) -> None:
    kept = run(tmp_path, "kept", "failed")
    run(tmp_path, "waits")
    run(tmp_path, "failed", "failed")
    (tmp_path / "photos").mkdir()
    told = make_room(tmp_path, 1, keep=[kept])
    assert left(tmp_path) == ["kept", "photos", "waits"]
    assert "1 run was removed, the oldest first, 1 of them of tests that failed" in told
    assert told.endswith("2 MB are left, in runs that stay")


def test_screenshots_go_and_trace_stays(tmp_path: Path) -> None:
    path = run(tmp_path, "run")
    drop_screenshots(path)
    assert left(path) == ["trace.jsonl"]


def test_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    ended = EndedTest("test_ä", "failed", triage="product", failure="<b>\ud800", seconds=1.5, dollars=0.25)
    write_ended_test(tmp_path, ended)
    assert read_ended_test(tmp_path) == EndedTest(**{**vars(ended), "failure": "<b>?"})
    assert read_ended_test(tmp_path / "nothing") is None


@pytest.mark.parametrize("content", ["", "[]", "{", '{"format": "other", "version": 1}', "[" * 100_000])
def test_damaged_result_is_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(RunDirectoryError, match=r"result\.json"):
        read_ended_test(tmp_path)
