"""Compare the recordings of two revisions of a git repository: the text of each test's
recording, and its screens, which are grouped where they changed alike.

Git writes only into a temporary directory: the working tree, the index and the
recordings stay as they are.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import numpy as np

from pytest_vnc_use.errors import SettingsError, VncUseError
from pytest_vnc_use.recordings.changes import (
    Look,
    ScreenChange,
    accepted_since,
    changed_lines,
    changed_screens,
)
from pytest_vnc_use.recordings.format import Recording
from pytest_vnc_use.recordings.images import Pixels, frame_of
from pytest_vnc_use.recordings.question import images_of
from pytest_vnc_use.recordings.store import DIRECTORY, FILE, load
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.types import ChangedRecording, ChangedScreens

_GIT_TIMEOUT_S = 300.0
_FILES = f":(glob)**/{DIRECTORY}/**"
"""The pathspec of all files of recordings."""
_TEXTS = f"{_FILES}/{FILE}"
"""The pathspec of their texts."""
_INDEX = "index"
"""The name of git's index in a directory that `_check_out` has written."""
_NO_SCREEN = np.uint32(0xE0E0E0)
"""The colour of an image in place of a screen that only one revision has."""


class _GitFailed(SettingsError):
    """A git command failed."""


class RevisionReview:
    """The recordings that differ between two revisions.

    Args:
        revisions: As for `git diff`: `main..HEAD`, `main...HEAD`, one revision to
            compare with the working tree, or "" for `HEAD`.

    Raises:
        SettingsError: Git does not know the revisions, or this is no repository.
    """

    def __init__(self, revisions: str) -> None:
        self.revisions = revisions or "HEAD"
        self.tests: list[ChangedRecording] = []
        self.groups: list[ChangedScreens] = []
        self._looks: list[Look] = []
        """What differs in each group."""
        self.left_out: list[str] = []
        """Why a recording cannot be compared, a line each."""
        self._temporary = TemporaryDirectory(prefix="vnc-use-review-")  # 0700
        self._directory = RunDirectory.create(
            Path(self._temporary.name, "images"), "review"
        )
        try:
            self._compare(Path(self._temporary.name))
        except BaseException:
            self.close()
            raise

    def _compare(self, temporary: Path) -> None:
        try:
            root = Path(_git("rev-parse", "--show-toplevel").strip())
        except _GitFailed as exc:
            raise SettingsError(
                f"{str(Path.cwd())!r} is in no git repository: {exc}"
            ) from exc
        commits = _commits(self.revisions)
        old_root = temporary / "before"
        _check_out(root, commits[0], old_root)
        new_root = root
        if len(commits) == 2:
            new_root = temporary / "after"
            _check_out(root, commits[1], new_root)

        former_paths = _former_paths(root, commits, old_root / _INDEX)
        for path in _changed_recordings(root, commits):
            if path in former_paths.values():
                continue  # it is compared at its new path
            former = former_paths.get(path, path)
            try:
                before = load(old_root / former)
                after = load(new_root / path)
                self._add(path, former, before, after)
            except (VncUseError, OSError) as exc:
                problem = str(exc).replace(f"{temporary}/", "")
                self.left_out.append(f"{path}: {problem}")

    def _add(
        self,
        path: PurePosixPath,
        former: PurePosixPath,
        before: Recording | None,
        after: Recording | None,
    ) -> None:
        recording = after or before
        if recording is None:
            return
        # a recording names its test from the directory that has `DIRECTORY`
        test = str(path.parents[3] / recording.test)
        lines = changed_lines(before, after)
        if former != path:
            lines.insert(0, f" moved from {former.parent} to {path.parent}")
        accepted = tuple(accepted_since(before, after))
        self.tests.append(ChangedRecording(test, tuple(lines), accepted))
        for change in changed_screens(before, after):
            self._group_of(change).places.append((test, change.location))

    def _group_of(self, change: ScreenChange) -> ChangedScreens:
        """Return the group of the screens that changed alike, or start a new one."""
        look = change.look
        for group, group_look in zip(self.groups, self._looks, strict=True):
            if look.is_like(group_look):
                return group
        group = ChangedScreens(change.boxes, self._images(change))
        self.groups.append(group)
        self._looks.append(look)
        return group

    def _images(self, change: ScreenChange) -> tuple[Path, Path, Path]:
        """Store the images of a change."""
        before = _screen_or_grey(change.before, change.after)
        after = _screen_or_grey(change.after, change.before)
        return images_of(self._directory, before, frame_of(after), change.boxes, ())

    def close(self) -> None:
        """Remove the images."""
        self._temporary.cleanup()


def _screen_or_grey(pixels: Pixels | None, other: Pixels | None) -> Pixels:
    """Return a screen; if there is none, a grey one as large as the other."""
    if pixels is not None:
        return pixels
    assert other is not None
    return np.full_like(other, _NO_SCREEN)


def _commits(revisions: str) -> list[str]:
    """Return the two commits to compare, or one to compare with the working tree."""
    old, dots, new = revisions.partition("..")
    if not dots:
        return [_commit(revisions)]
    is_since_branching = new.startswith(".")  # three dots, as in `main...HEAD`
    if is_since_branching:
        new = new[1:] or "HEAD"
        base = _git("merge-base", old or "HEAD", new).strip()
        return [base, _commit(new)]
    return [_commit(old or "HEAD"), _commit(new or "HEAD")]


def _commit(revision: str) -> str:
    name = f"{revision}^{{commit}}"
    try:
        return _git("rev-parse", "--verify", "--end-of-options", name).strip()
    except _GitFailed as exc:
        raise SettingsError(
            f"{revision!r} is no revision of this repository: {exc}. If another has it,"
            " run git fetch first"
        ) from exc


def _changed_recordings(root: Path, commits: Sequence[str]) -> list[PurePosixPath]:
    """Return the files of the recordings that differ, relative to the repository's
    root.
    """
    names = _git("diff", "--name-only", "-z", *commits, "--", _FILES, root=root)
    if len(commits) == 1:
        names += _untracked(_FILES, root)
    files = [PurePosixPath(name) for name in names.split("\0") if name]
    return sorted(set(map(_recording_of, files)))


def _former_paths(
    root: Path, commits: Sequence[str], index: Path
) -> dict[PurePosixPath, PurePosixPath]:
    """Return the former path of each recording that was moved.

    Git finds moved files by their similarity. The text of a recording holds the digest
    of each image. `index` is that of the older commit: files that are new in the working
    tree are added to it.
    """
    if len(commits) == 1:
        names = _untracked(_TEXTS, root, index)
        from_stdin = ("--pathspec-from-file=-", "--pathspec-file-nul")
        _git("add", "-N", *from_stdin, root=root, index=index, stdin=names)
    renames = ("--name-status", "--find-renames", "--diff-filter=R", "-z")
    output = _git("diff", *renames, *commits, "--", _TEXTS, root=root, index=index)
    # for each file its status, its former path and its path
    fields = output.split("\0")
    former_paths = map(PurePosixPath, fields[1::3])
    paths = map(PurePosixPath, fields[2::3])
    return dict(zip(paths, former_paths, strict=True))


def _untracked(pathspec: str, root: Path, index: Path | None = None) -> str:
    """Return the names of files that are not in the index and not ignored, each ended by
    a null byte.
    """
    untracked = ("--others", "--exclude-standard")
    return _git("ls-files", *untracked, "-z", "--", pathspec, root=root, index=index)


def _recording_of(file: PurePosixPath) -> PurePosixPath:
    """Return the text of the recording that a file belongs to. It is two directories
    below `DIRECTORY`: those of the module and of the test.
    """
    depth = file.parts.index(DIRECTORY) + 3
    return PurePosixPath(*file.parts[:depth], FILE)


def _check_out(root: Path, commit: str, directory: Path) -> None:
    """Write the recordings of a commit to a directory, as `git checkout` does."""
    directory.mkdir()
    index = directory / _INDEX
    _git("read-tree", commit, root=root, index=index)
    names = _git("ls-files", "-z", "--", _FILES, root=root, index=index)
    options = (f"--prefix={directory}/", "-z", "--stdin")
    _git("checkout-index", *options, root=root, index=index, stdin=names)


def _git(
    *arguments: str,
    root: Path | None = None,
    index: Path | None = None,
    stdin: str = "",
) -> str:
    """Run git, in `root` and with another `index`, and return what it prints.

    Raises SettingsError with git's message.
    """
    argv = ["git", *arguments]
    if root:
        argv = ["git", "-C", str(root), *arguments]
    environment = dict(os.environ)
    if index:
        environment["GIT_INDEX_FILE"] = str(index)
    try:
        done = subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            env=environment,
            timeout=_GIT_TIMEOUT_S,
        )
    except FileNotFoundError as exc:
        raise SettingsError("git is not installed, or not on PATH") from exc
    except subprocess.TimeoutExpired as exc:
        raise SettingsError(
            f"git {arguments[0]} took more than {_GIT_TIMEOUT_S} s"
        ) from exc
    if done.returncode:
        command = " ".join(argv)
        raise _GitFailed(f"{command!r} failed: {done.stderr.strip()}")
    return done.stdout
