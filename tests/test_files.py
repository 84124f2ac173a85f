"""Files that are written as a whole or not at all."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pytest_vnc_use.files import draft_of, replace_file


def test_replace_file_twice_keeps_last(tmp_path: Path) -> None:
    target = tmp_path / "ledger.json"
    replace_file(target, b"one")
    replace_file(target, b"two")
    assert target.read_bytes() == b"two"
    assert [*tmp_path.iterdir()] == [target]


def test_draft_interrupted_is_removed(tmp_path: Path) -> None:
    def write_half(target: Path) -> None:
        with draft_of(target) as draft:
            draft.write_bytes(b"half of")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half(tmp_path / "key")
    assert not [*tmp_path.iterdir()]


def test_replace_file_by_many_leaves_one_whole(tmp_path: Path) -> None:
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
def test_replace_file_failure_names_target(tmp_path: Path, name: str) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    target = tmp_path / name
    with pytest.raises(OSError, match="directory") as raised:
        replace_file(target, b"new")
    assert raised.value.filename == str(target)
    assert ".tmp" not in str(raised.value)


def test_replace_file_without_name_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match=r"'\.'"):
        replace_file(Path(), b"new")
    assert not [*tmp_path.iterdir()]
