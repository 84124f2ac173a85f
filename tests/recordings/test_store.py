"""How a recording is written: all of it or nothing, whoever is killed, reads meanwhile or
has no room; and what git makes of it.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from multiprocessing import get_context
from pathlib import Path

import pytest

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import RecordingError, RunDirectoryUnwritable
from pytest_vnc_use.recordings.format import Recording, screens
from pytest_vnc_use.recordings.store import FILE, load, save
from support.images import drawn, recording_of
from support.vnc_servers import require

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
"""The forks of these tests only write files."""
TEXTS = ("start", "typed", "more", "end")
OLD = recording_of(*map(drawn, TEXTS))
NEW = recording_of(*(drawn(f"new {text}") for text in TEXTS[:3]))
CHANGES_FILES = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir")
"""The events of Python's audit by which files are changed."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "recordings" / "test_it" / FILE
    save(path, OLD)
    return path


def read(file: Path) -> Recording:
    recording = load(file)
    assert recording
    return recording


def is_either(recording: Recording) -> bool:
    """Return whether a recording is the old or the new one, with all its screens."""
    return shown(recording) in (shown(OLD), shown(NEW))


def shown(recording: Recording) -> list[bytes]:
    return [screen.pixels().tobytes() for screen in screens(recording)]


def test_killed_writer_leaves_old_or_new(file: Path) -> None:
    """Whenever it is killed; and the next one leaves nothing else."""
    killed = 0
    lengths = set[int]()
    while True:
        code = in_child(save_killed_before, killed + 1, file)
        found = read(file)
        assert is_either(found), killed
        lengths.add(len(found.steps))
        save(file, OLD)
        assert [*file.parent.parent.iterdir()] == [file.parent]
        if code == 0:
            break
        assert code == -signal.SIGKILL
        killed += 1
    assert killed > len(TEXTS)
    assert lengths == {len(OLD.steps), len(NEW.steps)}


def in_child(work: Callable[..., None], *arguments: object) -> int | None:
    """Do something in a fork of this process; return its exit code."""
    writer = get_context("fork").Process(target=work, args=arguments)
    writer.start()
    writer.join(60)
    return writer.exitcode


def save_killed_before(number: int, file: Path) -> None:
    """Save the new recording, but `kill -9` this process before it changes files for
    the so many-th time.
    """
    changes = count(1)

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if event in CHANGES_FILES and next(changes) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(note)
    save(file, NEW)


def save_in_turn(file: Path) -> None:
    while True:
        save(file, NEW)
        save(file, OLD)


def test_reader_meets_no_mixture(file: Path) -> None:
    writer = get_context("fork").Process(target=save_in_turn, args=(file,))
    writer.start()
    lengths = set[int]()
    deadline = Deadline(60)
    try:
        while len(lengths) < 2 and deadline.remaining_s:
            for _ in range(10):
                found = read(file)
                assert is_either(found)
                lengths.add(len(found.steps))
    finally:
        writer.kill()
        writer.join()
    assert lengths == {len(OLD.steps), len(NEW.steps)}


def test_full_disk_leaves_old(file: Path) -> None:
    before = {path.name: path.read_bytes() for path in file.parent.iterdir()}
    largest = max(map(len, before.values()))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest // 2, limits[1]))
    try:
        with pytest.raises(RunDirectoryUnwritable, match=r"cannot write .*test_it"):
            save(file, NEW)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {path.name: path.read_bytes() for path in file.parent.iterdir()} == before
    assert [*file.parent.parent.iterdir()] == [file.parent]


class Repository:
    """A repository of git with the old recording."""

    def __init__(self, directory: Path) -> None:
        require("git")
        self._directory = directory
        self.file = directory / "test_it" / FILE
        save(self.file, OLD)
        self.git("init", "-q", "-b", "main")
        self.commit()

    def git(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        identity = ["-c", "user.name=qa", "-c", "user.email=qa@example.org"]
        command = ["git", *identity, *arguments]
        return subprocess.run(
            command, cwd=self._directory, capture_output=True, text=True
        )

    def commit(self) -> None:
        self.git("add", "-A")
        assert self.git("commit", "-qm", "change").returncode == 0

    def change(self, branch: str, number: int) -> None:
        """Change one screen on a new branch."""
        assert self.git("switch", "-qc", branch, "main").returncode == 0
        shown = [drawn(text) for text in TEXTS]
        shown[number] = drawn(f"{branch} {TEXTS[number]}")
        save(self.file, recording_of(*shown))
        self.commit()


def test_changes_of_neighbouring_steps_merge(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.change("first", 0)
    repository.change("second", 1)
    repository.change("third", 2)
    first = repository.git("merge", "-q", "--no-edit", "first")
    assert first.returncode == 0, first.stdout
    second = repository.git("merge", "-q", "--no-edit", "second")
    assert second.returncode == 0, second.stdout
    shown = [screen.pixels().tobytes() for screen in screens(read(repository.file))]
    texts = ["first start", "second typed", "third more", "end"]
    assert shown == [drawn(text).tobytes() for text in texts]


@pytest.fixture
def conflict(tmp_path: Path) -> Repository:
    """A merge of two changes of one step."""
    repository = Repository(tmp_path)
    repository.change("ours", 1)
    repository.change("theirs", 1)
    assert repository.git("merge", "-q", "ours").returncode == 1
    return repository


def test_conflict_in_one_step_is_refused(conflict: Repository) -> None:
    with pytest.raises(RecordingError, match="conflict marks of a merge"):
        load(conflict.file)
    conflict.git("checkout", "--theirs", "--", f"test_it/{FILE}")
    with pytest.raises(RecordingError, match=r"s2\.webp' is not of the same version"):
        load(conflict.file)


@pytest.mark.parametrize(
    ("commit", "branch"), [("HEAD", "theirs"), ("MERGE_HEAD", "ours")]
)
def test_resolved_conflict_is_read(
    conflict: Repository, commit: str, branch: str
) -> None:
    conflict.git("checkout", commit, "--", "test_it")
    shown = read(conflict.file).steps[1].screen.pixels()
    assert shown.tobytes() == drawn(f"{branch} typed").tobytes()
