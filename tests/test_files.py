"""Files that are written as a whole or not at all."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pytest_vnc_use.files import draft_of, replace_file


def test_file_is_written_and_replaced(tmp_path: Path) -> None:
    target = tmp_path / "ledger.json"
    replace_file(target, b"one")
    replace_file(target, b"two")
    assert target.read_bytes() == b"two"
    assert [*tmp_path.iterdir()] == [target]


def test_where_it_cannot_be_written_old_content_stays_and_nothing_else(tmp_path: Path) -> None:
    directory = tmp_path / "is_a_dir"
    (directory / "kept").mkdir(parents=True)
    with pytest.raises(OSError, match="is_a_dir"):
        replace_file(directory, b"new")
    assert [*tmp_path.rglob("*")] == [directory, directory / "kept"]


@pytest.mark.parametrize("parent", ["missing", "file"])
def test_without_directory_it_raises_os_error(tmp_path: Path, parent: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match=parent):
        replace_file(tmp_path / parent / "target", b"new")


def test_draft_is_removed_whatever_ends_writing(tmp_path: Path) -> None:
    def write_half(target: Path) -> None:
        with draft_of(target) as draft:
            draft.write_bytes(b"half of")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half(tmp_path / "key")
    assert not [*tmp_path.iterdir()]


def test_many_writers_leave_whole_of_one(tmp_path: Path) -> None:
    target = tmp_path / "shared"
    contents = [bytes([number]) * 100_000 for number in range(8)]
    replace_file(target, contents[0])
    writers = [threading.Thread(target=replace_file, args=(target, content)) for content in contents]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert target.read_bytes() in contents
    for writer in writers:
        writer.join()
    assert target.read_bytes() in contents
    assert [*tmp_path.iterdir()] == [target]


@pytest.mark.parametrize("name", ["directory", "missing/file", "file/target"])
def test_error_names_file_that_user_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    target = tmp_path / name
    with pytest.raises(OSError, match="directory") as raised:
        replace_file(target, b"new")
    assert raised.value.filename == str(target)
    assert ".tmp" not in str(raised.value)


def test_path_without_name_is_error_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match=r"'\.'"):
        replace_file(Path(), b"new")
    assert not [*tmp_path.iterdir()]
