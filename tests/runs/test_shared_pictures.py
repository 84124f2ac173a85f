"""A picture is on disk once in a session, and every run folder still stands by itself."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from pytest_vnc_use.runs.ended_test import EndedTest, write_ended_test
from pytest_vnc_use.runs.folder import RunFolder
from pytest_vnc_use.runs.shared_pictures import end_sharing, share_pictures
from pytest_vnc_use.runs.tidying import make_room
from pytest_vnc_use.types import Frame, FrameRef

pytestmark = pytest.mark.skipif(os.name != "posix", reason="looks at hard links as POSIX has them")


def picture(number: int) -> Frame:
    png = bytes([number]) * 1_000_000
    return Frame(FrameRef(hashlib.sha256(png).hexdigest(), 8, 8), png)


def made(runs_dir: Path, name: str, *numbers: int) -> RunFolder:
    folder = RunFolder.create(runs_dir, name)
    for number in numbers:
        folder.store(picture(number))
        share_pictures(folder.path)
    write_ended_test(folder.path, EndedTest("test_it", "passed"))
    return folder


def files_of(runs_dir: Path) -> set[int]:
    return {path.stat().st_ino for path in runs_dir.rglob("*.png")}


def test_the_same_picture_in_several_runs_is_on_disk_once(tmp_path: Path) -> None:
    runs = [made(tmp_path, "run-1", 1, 2), made(tmp_path, "run-2", 2, 1), made(tmp_path, "run-3", 1, 3)]
    end_sharing(tmp_path)
    assert len(files_of(tmp_path)) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run-1", "run-2", "run-3"]
    shutil.copytree(runs[1].path, tmp_path / "copy" / "run-2")
    shutil.rmtree(runs[0].path)
    for folder in (runs[1], RunFolder(tmp_path / "copy" / "run-2")):
        assert folder.load_png(picture(1).ref) == picture(1).png


def test_without_a_session_nothing_is_shared(tmp_path: Path) -> None:
    for name in ("run-1", "run-2"):
        RunFolder.create(tmp_path, name).store(picture(1))
    assert len(files_of(tmp_path)) == 2


def test_what_others_put_there_is_not_taken(tmp_path: Path) -> None:
    made(tmp_path, "run-1", 1)
    shared = tmp_path / ".screens"
    (shared / f"{picture(2).ref.digest}.png").write_bytes(b"another picture")
    (shared / f"{picture(3).ref.digest}.png").symlink_to(tmp_path / "nothing")
    folder = made(tmp_path, "run-2", 2, 3)
    assert [folder.load_png(picture(number).ref) for number in (2, 3)] == [picture(2).png, picture(3).png]


def test_nothing_is_put_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / ".screens").symlink_to(tmp_path / "elsewhere")
    made(tmp_path / "runs", "run-1", 1, 2)
    end_sharing(tmp_path / "runs")
    assert [*(tmp_path / "elsewhere").iterdir()] == []


def test_a_shared_picture_counts_once_for_the_limit(tmp_path: Path) -> None:
    for name in ("run-1", "run-2", "run-3"):
        made(tmp_path, name, 1)
    end_sharing(tmp_path)
    assert make_room(tmp_path, 2, keep=[]) == ""
    made(tmp_path, "run-4", 2, 3)
    end_sharing(tmp_path)
    assert make_room(tmp_path, 2, keep=[tmp_path / "run-4"]).startswith("3 runs were removed")
