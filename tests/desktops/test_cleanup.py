"""What cleaning up removes outside the folder: the desktop's own files, and nobody else's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vnc_use.desktops.processes import cleanup


def test_a_noted_file_is_removed(tmp_path: Path) -> None:
    mine, missing = tmp_path / "X1", tmp_path / "lock"
    mine.touch()
    cleanup.note_files(tmp_path, [mine, missing])
    cleanup.remove_left_files(tmp_path)
    assert not mine.exists()


def test_a_file_that_another_has_put_there_since_stays(tmp_path: Path) -> None:
    taken = tmp_path / "X1"
    taken.touch()
    cleanup.note_files(tmp_path, [taken])
    taken.unlink()
    taken.write_text("another server's")
    cleanup.remove_left_files(tmp_path)
    assert taken.read_text() == "another server's"


def test_a_folder_without_notes_is_fine(tmp_path: Path) -> None:
    cleanup.clean(tmp_path)
    assert not tmp_path.exists()


@pytest.mark.parametrize(("named", "ends"), [("{0}", True), ("{0} -{0}", False)], ids=["told", "taken back"])
def test_a_session_ends_that_was_told_and_not_taken_back(tmp_path: Path, named: str, ends: bool) -> None:
    """Its number may be another process's by then."""
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as process:
        try:
            sessions = named.format(process.pid).split()
            subprocess.run([sys.executable, cleanup.__file__, str(tmp_path / "folder"), *sessions], check=True)
            assert (process.poll() is not None) == ends
        finally:
            process.kill()
