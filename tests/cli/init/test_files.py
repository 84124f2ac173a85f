"""Files are written all together or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vnc_use.cli.init.files import PlannedFile, read_text, write_all
from pytest_vnc_use.errors import SettingsError

FULL_DISK = """
import resource, sys
from pathlib import Path
from pytest_vnc_use.cli.init.files import PlannedFile, write_all
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
folder = Path(sys.argv[1])
write_all([PlannedFile(Path("a"), "", "new"), PlannedFile(Path("x/b"), "", "n" * 5000)], folder)
"""


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def test_a_file_keeps_its_mode_and_a_new_one_has_the_usual(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("old")
    there.chmod(0o640)
    write_all([PlannedFile(Path("there"), "add", "new"), PlannedFile(Path("a/b/new"), "write", "é\r\n")], tmp_path)
    assert tree(tmp_path) == {"there": b"new", "a": b"", "a/b": b"", "a/b/new": "é\r\n".encode()}
    assert stat.S_IMODE(there.stat().st_mode) == 0o640
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a/b/new").stat().st_mode) == 0o666 & ~mask


def test_a_full_disk_leaves_all_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, timeout=400, check=False
    )
    assert "SettingsError: nothing is written: File too large" in done.stderr
    assert tree(tmp_path) == {"a": b"old"}


def test_a_disk_that_is_read_only_is_told(tmp_path: Path) -> None:
    """Root may write anywhere; /proc takes no files from root either."""
    with pytest.raises(SettingsError, match="nothing is written"):
        write_all([PlannedFile(Path("a"), "write", "new")], Path("/proc/self/fdinfo"))


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path, kind: str) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (outside / "file").write_text("theirs")
    path = Path("link") if kind == "file" else Path("link/test_first.py")
    (project / "link").symlink_to(outside / "file" if kind == "file" else outside)
    with pytest.raises(SettingsError, match="must lie in this folder"):
        write_all([PlannedFile(Path("a"), "write", "new"), PlannedFile(path, "add", "new")], project)
    assert not (project / "a").exists()
    assert tree(outside) == {"file": b"theirs"}


def test_a_link_within_the_project_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_all([PlannedFile(Path("link"), "add", "new")], tmp_path)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_file_where_a_folder_must_be_stops_it(tmp_path: Path) -> None:
    (tmp_path / "tests").write_text("not a folder")
    (tmp_path / "a").write_text("old")
    with pytest.raises(SettingsError, match=r"nothing is written: .*tests"):
        write_all([PlannedFile(Path("a"), "add", "new"), PlannedFile(Path("tests/b"), "write", "new")], tmp_path)
    assert tree(tmp_path) == {"tests": b"not a folder", "a": b"old"}


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(SettingsError, match=r"'.*fifo' must be a regular file"):
        read_text(tmp_path / "fifo")
