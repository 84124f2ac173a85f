"""A folder of one process is gone after its process, however that ended; no other folder is touched."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pytest_vnc_use.plugin.owned_folder import OwnedFolder, remove_left_folders

PREFIX = "vnc-owned-"
OWNER = """
import signal
from pytest_vnc_use.plugin.owned_folder import OwnedFolder

folder = OwnedFolder("vnc-owned-")
(folder.path / "note").write_text("begun")
print(folder.path, flush=True)
signal.pause()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_removed_at_the_end_or_after_a_kill_by_the_next_process() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        OwnedFolder(PREFIX).close()
        assert (left / "note").exists(), "its process lives"
        process.kill()
        process.wait()
    assert left.exists()
    own = OwnedFolder(PREFIX)
    assert not left.exists()
    own.close()
    own.close()
    assert not own.path.exists()


def test_a_folder_of_this_process_stays(temporary: Path) -> None:
    own = OwnedFolder(PREFIX)
    remove_left_folders(PREFIX)
    assert [*temporary.iterdir()] == [own.path]
    own.close()


def test_no_link_is_followed(temporary: Path) -> None:
    for place in ("elsewhere", f"{PREFIX}folder"):
        (temporary / place).mkdir()
        (temporary / place / "kept").write_text("kept")
    (temporary / "elsewhere" / "owner.lock").write_text("kept")
    (temporary / f"{PREFIX}link").symlink_to(temporary / "elsewhere")
    (temporary / f"{PREFIX}folder" / "owner.lock").symlink_to(temporary / "elsewhere" / "kept")
    remove_left_folders(PREFIX)
    assert {path.name for path in temporary.iterdir()} == {"elsewhere", f"{PREFIX}link", f"{PREFIX}folder"}
    assert [path.read_text() for path in temporary.glob("*/kept")] == ["kept"] * 3
    assert (temporary / "elsewhere" / "owner.lock").read_text() == "kept"


@pytest.mark.skipif(sys.platform == "win32" or os.getuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("given", ["", "owner.lock"])
def test_the_folder_of_another_user_stays(temporary: Path, given: str) -> None:
    folder = temporary / f"{PREFIX}theirs"
    folder.mkdir()
    (folder / "owner.lock").touch()
    os.chown(folder / given, 65534, 65534)
    remove_left_folders(PREFIX)
    assert (folder / "owner.lock").exists()
