"""The run folders, and the results of sessions, under the paths that a user names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.report.page.session_view import Told
from pytest_vnc_use.report.page.text import without_place
from pytest_vnc_use.report.results import ItemResult, read_results

_TRACE, _RESULTS = "trace.jsonl", "vnc-results.json"


def find_runs(paths: Iterable[Path], *, may_be_none: bool = False) -> list[Path]:
    """Return all run folders that are one of the paths or lie below it, each once, oldest first.

    Raises RunFolderError if there is none at one of the paths, unless there `may_be_none`.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        runs = {run.resolve(): run for run in _below(path)}
        if not runs and not may_be_none:
            raise RunFolderError(f"{str(path)!r} must be a run folder, or a folder with some: there is no {_TRACE}")
        found |= runs
    return sorted(found.values(), key=lambda run: (run.name, str(run)))


def results_beside(paths: Iterable[Path]) -> Told:
    """Return the results of the sessions whose files lie at the paths or below them, beside the run folders."""
    results: list[ItemResult] = []
    problems: list[tuple[str, str]] = []
    for file in dict.fromkeys(file.resolve() for path in paths for file in results_files(path)):
        try:
            results.extend(read_results(file).tests)
        except RunFolderError as exc:
            problems.append((file.name, without_place(exc, file)))
    return Told(results, problems)


def results_of_shards(paths: Iterable[Path]) -> Told:
    """Return the results of a session's shards. A shard without results, or that is not there, is a problem to tell."""
    shards = [(path, results_beside([path])) for path in dict.fromkeys(paths)]
    problems = [problem for _, told in shards for problem in told.problems]
    for path, _ in shards:
        if not path.is_dir():
            problems.append((f"shard {path.name}", "there is no such folder: its tests are missing here"))
        elif not any(results_files(path)):
            missing = f"it has no {_RESULTS}: tests of it that left no run folder are missing here"
            problems.append((f"shard {path.name}", missing))
    return Told([result for _, told in shards for result in told.results], problems)


def results_files(path: Path) -> Iterator[Path]:
    """Yield the files with the results of sessions that lie in a folder or below it."""
    for folder, inner, files in os.walk(path):
        if _TRACE in files:
            inner.clear()
        elif _RESULTS in files:
            yield Path(folder, _RESULTS)


def _below(path: Path) -> Iterator[Path]:
    for folder, inner, files in os.walk(path):
        if _TRACE in files:
            inner.clear()
            yield Path(folder)
