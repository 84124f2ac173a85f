"""Files that are written as a whole or not at all, and files that a user names: no
FIFO, device or impossible name.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from pytest_vnc_use.agent.budget import load_prices
from pytest_vnc_use.desktops.started import WorkingDirectory
from pytest_vnc_use.errors import (
    DesktopError,
    FileUnreadable,
    RecordingError,
    RunDirectoryError,
    SettingsError,
    VncUseError,
)
from pytest_vnc_use.files import draft_of, read_regular, replace_file
from pytest_vnc_use.plugin.toml import read_task_file
from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.report.results import read_results
from pytest_vnc_use.runs.directory import read_finished_test, read_trace
from pytest_vnc_use.runs.json_lines import read_whole
from pytest_vnc_use.runs.uitask_trace import read_execution
from pytest_vnc_use.safety.policy_file import load_policy
from pytest_vnc_use.ui.review import CiReview

FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "test_it.json": (load, "not a recording"),
    "policy.toml": (load_policy, "not a policy"),
    "test_it.vnc.toml": (read_task_file, "not a file of tasks"),
    "prices.toml": (lambda path: load_prices(str(path)), "not a table of prices"),
    "vnc-results.json": (read_results, "not results"),
    "result.json": (lambda path: read_finished_test(path.parent), "not a result"),
    "trace.jsonl": (lambda path: read_trace(path.parent), "not a trace"),
    "runs.zip": (CiReview, "not a zip"),
}
"""Files that a user has from a repository or a job: how each is read."""
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n"
CONTENTS = {
    "pointer": (LFS_POINTER, "is a pointer of Git LFS, {}.* Run git lfs pull"),
    "conflict": (
        b"<<<<<<< HEAD\n{}\n=======\n[]\n>>>>>>> main\n",
        "holds the conflict marks of a merge.* .git checkout --ours or --theirs",
    ),
    "page": (b"<!DOCTYPE html>\n<html><body>Sign in", "is a web page, {}"),
    "half": (b'{"format": "pytest-vnc-use trace", "runs": [{"task"', "is truncated"),
    "empty": (b"", "is empty"),
    "directory": (None, "is a directory"),
}


USED = {
    ("runs.zip", "half"),
    ("runs.zip", "directory"),
    ("trace.jsonl", "directory"),
    ("policy.toml", "empty"),
    ("prices.toml", "empty"),
}
"""What is no mistake, or has another message."""


@pytest.mark.parametrize(("name", "kind"), sorted({*product(FILES, CONTENTS)} - USED))
def test_file_that_is_another_is_called_that(
    tmp_path: Path, name: str, kind: str
) -> None:
    read, what = FILES[name]
    content, problem = CONTENTS[kind]
    file = tmp_path / name
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    with pytest.raises(VncUseError, match=problem.format(what)) as caught:
        read(file)
    assert name in str(caught.value)


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
    writers = [
        threading.Thread(target=replace_file, args=(target, content))
        for content in contents
    ]
    for writer in writers:
        writer.start()
    read = set()
    while any(writer.is_alive() for writer in writers):
        read.add(target.read_bytes())
    for writer in writers:
        writer.join()
    read.add(target.read_bytes())
    torn = read - {*contents}
    assert [len(content) for content in torn] == []
    assert [*tmp_path.iterdir()] == [target]


@pytest.fixture(params=["fifo", "zero", "directory", "a\0b", "\ud800"])
def special(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """What is no regular file; some of them only by their name."""
    path = tmp_path / request.param
    match request.param:
        case "fifo":
            os.mkfifo(path)
        case "zero":
            path.symlink_to("/dev/zero")
        case "directory":
            path.mkdir()
    return path


@pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="the system does not list open files"
)
@pytest.mark.parametrize(
    ("read", "error", "message"),
    [
        (read_regular, OSError, r"fifo|zero|directory|name"),
        (read_whole, (OSError, ValueError), None),
        (
            lambda path: WorkingDirectory(path.parent).read(path.name),
            (FileUnreadable, FileNotFoundError, DesktopError, ValueError),
            None,
        ),
        (load_policy, SettingsError, None),
        (read_task_file, SettingsError, None),
        (load, RecordingError, None),
        (read_execution, RunDirectoryError, None),
        (lambda path: load_prices(str(path)), SettingsError, None),
    ],
    ids=[
        "regular",
        "whole",
        "desktop",
        "policy",
        "tasks",
        "recording",
        "run",
        "prices",
    ],
)
def test_read_special_file_raises_and_leaves_none_open(
    special: Path,
    read: Callable[[Path], object],
    error: type[Exception] | tuple[type[Exception], ...],
    message: str | None,
) -> None:
    descriptors = Path("/proc/self/fd")
    before = {file.name for file in descriptors.iterdir()}
    with pytest.raises(error, match=message):
        read(special)
    assert {file.name for file in descriptors.iterdir()} == before


def test_read_too_large_file_raises(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"abc")
    with pytest.raises(OSError, match="at most 2 bytes, it has 3"):
        read_regular(tmp_path / "large", 2)


@pytest.mark.parametrize(
    "read",
    [load_policy, read_task_file, lambda path: load_prices(str(path))],
    ids=["policy", "tasks", "prices"],
)
@pytest.mark.parametrize(
    "text", ["a = " + "9" * 5000, "a = " + "[" * 12_000], ids=["number", "lists"]
)
def test_read_unreadable_toml_raises(
    tmp_path: Path, text: str, read: Callable[[Path], object]
) -> None:
    file = tmp_path / "a.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=r"a\.toml"):
        read(file)
