"""The removal of checkpoints of ended runs, of pictures, and of the oldest runs."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.runs.ended_test import FILE, EndedTest, read_ended_test

_MEGABYTE = 1_000_000


def drop_checkpoints(run_folder: Path) -> None:
    """Remove the checkpoints of a run that has ended: nobody can go on with it."""
    for path in run_folder.glob("checkpoints.sqlite*"):
        with suppress(OSError):  # another process may be looking at it; it does no harm where it stays
            path.unlink()


def drop_pictures(run_folder: Path) -> None:
    """Remove the pictures of a run, the exchanges with models, the messages to its server and the logs of programs."""
    for name in ("screens", "logs", "page"):
        shutil.rmtree(run_folder / name, ignore_errors=True)
    for name in ("exchanges.jsonl", "messages.jsonl"):
        (run_folder / name).unlink(missing_ok=True)


def make_room(runs_dir: Path, megabytes: int, keep: Collection[Path]) -> str:
    """Remove runs of ended tests until the folder is small enough. Return what was done, "" if nothing had to be.

    The oldest runs of tests that did not fail go first, then the oldest of those that did. A run stays if it is one of
    `keep`, or if no test has ended that made it.
    """
    files = {path: _files(path) for path in sorted(runs_dir.iterdir()) if (path / "trace.jsonl").is_file()}
    links = Counter(file for of_run in files.values() for file in of_run)
    before = total = sum(file.size for file in links)
    most = megabytes * _MEGABYTE
    if total <= most:
        return ""
    kept, removed, bad = {path.resolve() for path in keep}, 0, 0
    may_go = [(path, ended) for path in files if path.resolve() not in kept and (ended := _ended(path))]
    for path, ended in sorted(may_go, key=lambda run: (run[1].is_bad, (run[0] / FILE).stat().st_mtime, run[0].name)):
        if total <= most:
            break
        shutil.rmtree(path, ignore_errors=True)
        links.subtract(files[path])
        total -= sum(file.size for file in {*files[path]} if not links[file])
        removed, bad = removed + 1, bad + ended.is_bad
    runs = "1 run was" if removed == 1 else f"{removed} runs were"
    message = f"{runs} removed, the oldest first" + (f", {bad} of them of tests that failed" if bad else "")
    rest = "" if total <= most else f"; {total / _MEGABYTE:.0f} MB are left, in runs that stay"
    return f"{message}: all runs had {before / _MEGABYTE:.0f} MB of at most {megabytes} (vnc_max_megabytes){rest}"


def _ended(path: Path) -> EndedTest | None:
    try:
        return read_ended_test(path)
    except RunFolderError:  # a folder that is not understood stays
        return None


@dataclass(frozen=True)
class _DiskFile:
    """A file on the disk, which several runs may share."""

    device: int
    number: int
    size: int


def _files(folder: Path) -> list[_DiskFile]:
    found = []
    for path in folder.rglob("*"):
        with suppress(OSError):
            status = path.lstat()
            found.append(_DiskFile(status.st_dev, status.st_ino, status.st_size))
    return found
