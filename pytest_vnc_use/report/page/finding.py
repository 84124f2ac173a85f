"""The run folders under the paths that a user names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_vnc_use.errors import RunFolderError

_TRACE = "trace.jsonl"


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """Return all run folders that are one of the paths or lie below it, each once, oldest first.

    Raises RunFolderError if there is none at one of the paths.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        runs = {run.resolve(): run for run in _below(path)}
        if not runs:
            raise RunFolderError(f"{str(path)!r} must be a run folder, or a folder with some: there is no {_TRACE}")
        found |= runs
    return sorted(found.values(), key=lambda run: (run.name, str(run)))


def _below(path: Path) -> Iterator[Path]:
    for folder, inner, files in os.walk(path):
        if _TRACE in files:
            inner.clear()
            yield Path(folder)
