"""Text files of the program under test, on this machine and through a command: in its directory, nowhere else."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pytest_vnc_use.desktops.remote import RemoteExec
from pytest_vnc_use.desktops.started import WorkingDirectory
from pytest_vnc_use.errors import DesktopError, FileUnreadable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="env -C and /proc")
Files = WorkingDirectory | RemoteExec


@pytest.fixture(params=["here", "there"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """The files in `tmp_path`, reached both ways."""
    return WorkingDirectory(tmp_path) if request.param == "here" else RemoteExec(["env", "-C", str(tmp_path)])


@pytest.mark.parametrize("name", ["list.txt", "a directory/deep/it's.csv", "-n", "a/../b.txt"])
def test_file_written_is_read_back(files: Files, name: str) -> None:
    text = "Äpfel;2\nno end of line \0 $HOME"
    files.write(name, text)
    assert files.read(name) == text


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "a/../../secret", ".."])
def test_name_outside_directory_is_rejected(files: Files, name: str) -> None:
    for use in (files.read, lambda name: files.write(name, "text")):
        with pytest.raises(DesktopError, match=f"must lie in the program's working directory, got '{name}'"):
            use(name)


def test_missing_file_lists_those_that_exist(files: Files) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file 'orders.csv'; it has no files"):
        files.read("orders.csv")
    files.write("b.txt", "")
    files.write("a/c.txt", "")
    with pytest.raises(FileNotFoundError, match=r"no file 'orders.csv'; it has 'a/c.txt', 'b.txt'$"):
        files.read("orders.csv")


def test_file_no_text_is_rejected(files: Files, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "image.png").write_bytes(b"\x89PNG\xff")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 70 << 20)
    for name in ("directory", "loop", "pipe", "image.png", "large"):
        with pytest.raises(FileUnreadable, match=rf"cannot read '{name}' "):
            files.read(name)
    with pytest.raises(FileUnreadable, match=r"at most 67108864 bytes, it has 73400320; look at it there"):
        files.read("large")
    for name in ("directory", "loop", "pipe"):
        with pytest.raises(DesktopError, match=rf"cannot write '{name}' "):
            files.write(name, "text")


def test_link_out_of_directory_is_rejected(tmp_path: Path) -> None:
    files = WorkingDirectory(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path.parent)
    (tmp_path / "orders.csv").symlink_to("/etc/hostname")
    for name in ("link/secret.txt", "orders.csv"):  # the program made the link
        with pytest.raises(FileUnreadable, match=f"cannot read '{name}' .*: a link leads out of that directory, to '/"):
            files.read(name)
        with pytest.raises(DesktopError, match=f"cannot write '{name}' .*: a link leads out of that directory, to '/"):
            files.write(name, "overwritten")
