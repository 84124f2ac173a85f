"""Files of the program under test: inside its working folder, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vnc_use.desktops.files import WorkingDirectory
from pytest_vnc_use.errors import DesktopError, FileUnreadable


@pytest.fixture
def folder(tmp_path: Path) -> WorkingDirectory:
    (tmp_path / "secret.txt").write_text("not for you")
    (tmp_path / "work").mkdir()
    (tmp_path / "work-too").mkdir()
    (tmp_path / "work-too" / "secret.txt").write_text("nor this")
    return WorkingDirectory(tmp_path / "work")


@pytest.mark.parametrize("name", ["notes.txt", "drafts/today/notes.txt", "drafts/../notes.txt"])
def test_what_is_written_is_read_back(folder: WorkingDirectory, name: str) -> None:
    folder.write(name, "Grüße\n日本\n")
    assert folder.read(name) == "Grüße\n日本\n"


@pytest.mark.parametrize("name", ["../secret.txt", "a/../../secret.txt", "../work-too/secret.txt", "/etc/hostname"])
def test_no_name_leads_out_of_the_folder(folder: WorkingDirectory, name: str) -> None:
    with pytest.raises(DesktopError, match=f"must lie in the program's working folder, got '{name}'"):
        folder.read(name)
    with pytest.raises(DesktopError, match="must lie in the program's working folder"):
        folder.write(name, "overwritten")


def test_no_link_leads_out_of_the_folder(folder: WorkingDirectory) -> None:
    (folder.path / "link").symlink_to(folder.path.parent)
    (folder.path / "orders.csv").symlink_to("/etc/hostname")
    for name in ("link/secret.txt", "orders.csv"):  # the program made the link
        with pytest.raises(FileUnreadable, match=f"cannot read '{name}' .*: a link leads out of that folder, to '/"):
            folder.read(name)
        with pytest.raises(DesktopError, match=f"cannot write '{name}' .*: a link leads out of that folder, to '/"):
            folder.write(name, "overwritten")


def test_a_missing_file_is_told_with_what_is_there(folder: WorkingDirectory) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no file 'orders.csv'; it has no files"):
        folder.read("orders.csv")
    folder.write("a/state.json", "{}")
    with pytest.raises(FileNotFoundError, match=r"has no file 'orders.csv'; it has 'a/state.json'"):
        folder.read("orders.csv")


def test_a_file_that_is_no_text_is_an_error(folder: WorkingDirectory) -> None:
    (folder.path / "picture.png").write_bytes(b"\x89PNG\xff")
    with pytest.raises(FileUnreadable, match=r"cannot read 'picture.png'.*utf-8"):
        folder.read("picture.png")


def test_a_folder_is_no_file(folder: WorkingDirectory) -> None:
    with pytest.raises(FileUnreadable, match=r"cannot read '\.'"):
        folder.read(".")
    with pytest.raises(DesktopError, match=r"cannot write '\.'"):
        folder.write(".", "text")


def test_a_link_to_itself_is_neither_read_nor_written(folder: WorkingDirectory) -> None:
    (folder.path / "orders.csv").symlink_to("orders.csv")
    with pytest.raises(FileUnreadable, match=r"cannot read 'orders.csv'"):
        folder.read("orders.csv")
    with pytest.raises(DesktopError, match=r"cannot write 'orders.csv'"):
        folder.write("orders.csv", "text")


def test_a_file_that_is_too_large_is_the_programs_doing(folder: WorkingDirectory) -> None:
    with (folder.path / "orders.csv").open("wb") as file:
        file.truncate(70 * 2**20)
    with pytest.raises(FileUnreadable, match=r"cannot read 'orders.csv'.*at most"):
        folder.read("orders.csv")
