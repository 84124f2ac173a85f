"""What a commit changes in recordings: of two revisions of a git repository, the text of
each test's recording, and its screens, in groups that changed alike.

Git is asked, and writes only into a temporary directory: the working tree, the index and
the recordings stay as they are.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
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

_GIT_S = 300.0
_FILES = f":(glob)**/{DIRECTORY}/**"
"""All files of recordings, as git is asked for them."""
_TEXTS = f"{_FILES}/{FILE}"
"""Their texts alone."""
_INDEX = "index"
"""The file of git's index in a directory that `_check_out` has written."""
_NO_SCREEN = np.uint32(0xE0E0E0)
"""The colour of what stands for a screen that only one version has."""


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
        old, new = _ends(self.revisions)
        before = temporary / "before"
        _check_out(root, old, before)
        after = root
        if new:
            after = temporary / "after"
            _check_out(root, new, after)
        former = _former_paths(root, old, new, before / _INDEX)
        for path in _changed_recordings(root, old, new):
            if path in former.values():
                continue
            was = former.get(path, path)
            try:
                versions = load(before / was), load(after / path)
                self._add(path, was, *versions)
            except (VncUseError, OSError) as exc:
                problem = str(exc).replace(f"{temporary}/", "")
                self.left_out.append(f"{path}: {problem}")

    def _add(
        self,
        path: PurePosixPath,
        was: PurePosixPath,
        before: Recording | None,
        after: Recording | None,
    ) -> None:
        known = after or before
        if known is None:
            return
        test = str(path.parents[3] / known.test)
        lines = changed_lines(before, after)
        if was != path:
            lines.insert(0, f" moved from {was.parent} to {path.parent}")
        accepted = tuple(accepted_since(before, after))
        self.tests.append(ChangedRecording(test, tuple(lines), accepted))
        for change in changed_screens(before, after):
            self._group_of(change).places.append((test, change.location))

    def _group_of(self, change: ScreenChange) -> ChangedScreens:
        """Return the group of the screens that changed alike, a new one if it is the
        first.
        """
        look = change.look
        for group, known in zip(self.groups, self._looks, strict=True):
            if look.is_like(known):
                return group
        group = ChangedScreens(change.boxes, self._images(change))
        self.groups.append(group)
        self._looks.append(look)
        return group

    def _images(self, change: ScreenChange) -> tuple[Path, Path, Path]:
        """Store the images of a change."""
        before = _shown(change.before, change.after)
        after = _shown(change.after, change.before)
        return images_of(self._directory, before, frame_of(after), change.boxes, ())

    def close(self) -> None:
        """Remove the images."""
        self._temporary.cleanup()


def _shown(pixels: Pixels | None, other: Pixels | None) -> Pixels:
    """Return a screen; for one that is not there, a grey one as large as the other."""
    if pixels is not None:
        return pixels
    assert other is not None
    return np.full_like(other, _NO_SCREEN)


def _ends(revisions: str) -> tuple[str, str]:
    """Return both commits to compare; the second is "" for the working tree."""
    old, dots, new = revisions.partition("..")
    if not dots:
        return _commit(revisions), ""
    if new.startswith("."):
        new = new[1:] or "HEAD"
        base = _git("merge-base", old or "HEAD", new).strip()
        return base, _commit(new)
    return _commit(old or "HEAD"), _commit(new or "HEAD")


def _commit(revision: str) -> str:
    name = f"{revision}^{{commit}}"
    try:
        return _git("rev-parse", "--verify", "--end-of-options", name).strip()
    except _GitFailed as exc:
        raise SettingsError(
            f"{revision!r} is no revision of this repository: {exc}. If another has it,"
            " run git fetch first"
        ) from exc


def _changed_recordings(root: Path, old: str, new: str) -> Iterator[PurePosixPath]:
    """Yield the files of the recordings that differ, from the repository's root."""
    in_root = ("-C", str(root))
    ends = [old, new] if new else [old]
    names = _git(*in_root, "diff", "--name-only", "-z", *ends, "--", _FILES)
    if not new:
        untracked = ("--others", "--exclude-standard")
        names += _git(*in_root, "ls-files", *untracked, "-z", "--", _FILES)
    files = [PurePosixPath(name) for name in names.split("\0") if name]
    yield from sorted(set(map(_recording_of, files)))


def _former_paths(
    root: Path, old: str, new: str, index: Path
) -> dict[PurePosixPath, PurePosixPath]:
    """Return the former path of each recording that was moved, as git finds renames: by
    the text, which has the digest of each image.

    `index` is one of the older commit: files that are new in the working tree are added
    to it.
    """
    environment = {**os.environ, "GIT_INDEX_FILE": str(index)}
    in_root = ("-C", str(root))
    ends = [old, new] if new else [old]
    if not new:
        others = ("ls-files", "--others", "--exclude-standard", "-z", "--", _TEXTS)
        names = _git(*in_root, *others, environment=environment)
        noted = ("add", "-N", "--pathspec-from-file=-", "--pathspec-file-nul")
        _git(*in_root, *noted, stdin=names, environment=environment)
    renamed = ("diff", "--name-status", "--find-renames", "--diff-filter=R", "-z")
    listed = _git(*in_root, *renamed, *ends, "--", _TEXTS, environment=environment)
    fields = listed.split("\0")
    former = map(PurePosixPath, fields[1::3])
    paths = map(PurePosixPath, fields[2::3])
    return dict(zip(paths, former, strict=True))


def _recording_of(file: PurePosixPath) -> PurePosixPath:
    """Return the file of the recording that a file belongs to: it is two directories
    below `DIRECTORY`, the one of the module and the one of the test.
    """
    depth = file.parts.index(DIRECTORY) + 3
    return PurePosixPath(*file.parts[:depth], FILE)


def _check_out(root: Path, commit: str, directory: Path) -> None:
    """Write the recordings of a commit below a directory, as `git checkout` does."""
    directory.mkdir()
    environment = {**os.environ, "GIT_INDEX_FILE": str(directory / _INDEX)}
    in_root = ("-C", str(root))
    _git(*in_root, "read-tree", commit, environment=environment)
    names = _git(*in_root, "ls-files", "-z", "--", _FILES, environment=environment)
    prefix = f"--prefix={directory}/"
    out = ("checkout-index", prefix, "-z", "--stdin")
    _git(*in_root, *out, stdin=names, environment=environment)


def _git(
    *arguments: str, stdin: str = "", environment: dict[str, str] | None = None
) -> str:
    """Return what git prints. Raises SettingsError, with git's own words."""
    try:
        done = subprocess.run(
            ["git", *arguments],
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            env=environment,
            timeout=_GIT_S,
        )
    except FileNotFoundError as exc:
        raise SettingsError("git is not installed, or not on PATH") from exc
    except subprocess.TimeoutExpired as exc:
        raise SettingsError(f"git {arguments[0]} took more than {_GIT_S} s") from exc
    if done.returncode:
        command = " ".join(["git", *arguments])
        raise _GitFailed(f"{command!r} failed: {done.stderr.strip()}")
    return done.stdout
