"""The run folders, and the results of sessions, under the paths that a user names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.report.page.session_view import NOT_FOUND, KnownResults
from pytest_vnc_use.report.page.text import without_place
from pytest_vnc_use.report.results import NO_TESTS, ItemResult, SessionResults, read_results, session_problems
from pytest_vnc_use.runs.json_lines import LARGEST, read_whole

_TRACE, _RESULTS = "trace.jsonl", "vnc-results.json"


def find_runs(paths: Iterable[Path], *, may_be_none: bool = False) -> list[Path]:
    """Return all run folders that are one of the paths or lie below it, each once, oldest first.

    Raises RunFolderError if there is none at one of the paths, unless there `may_be_none`.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        runs = {run.resolve(): run for run in _below(path)}
        if not runs and not may_be_none:
            raise RunFolderError(f"{str(path)!r} must be a run directory, or one with some below: there is no {_TRACE}")
        found |= runs
    return sorted(found.values(), key=lambda run: (run.name, str(run)))


def results_beside(paths: Iterable[Path]) -> KnownResults:
    """Return the results of the sessions whose files lie at the paths or below them, beside the run folders."""
    files = [*results_files(*paths)]
    return _results_in(files) if files else NOT_FOUND


def _results_in(files: Iterable[Path], shard: str = "") -> KnownResults:
    results: list[ItemResult] = []
    problems: list[tuple[str, str]] = []
    is_partial = is_read = False
    for file in files:
        try:
            read = read_results(file)
        except RunFolderError as exc:
            is_partial = True
            problems.append((file.name, without_place(exc, file)))
        else:
            is_read = True
            results.extend(read.tests)
            problems.extend((shard, problem) for problem in read.problems or _exit_problems(read))
    return KnownResults(results, problems, is_partial, is_read)


def _exit_problems(read: SessionResults) -> Iterator[str]:
    """Yield the problems that only the exit status shows."""
    if read.exit_status is not None:
        yield from session_problems(read.exit_status, (), 0, has_bad=any(test.is_bad for test in read.tests))


def results_of_shards(paths: Iterable[Path]) -> KnownResults:
    """Return the results of a session's shards. A missing shard, or one without results, becomes a problem.

    So does it if no shard has a test.
    """
    results: list[ItemResult] = []
    problems: list[tuple[str, str]] = []
    is_partial = is_read = False
    for path in dict.fromkeys(paths):
        name, files = f"shard {path.name}", [*results_files(path)]
        known = _results_in(files, name)
        results.extend(known.results)
        problems.extend(known.problems)
        is_partial = is_partial or known.is_partial or not files
        is_read = is_read or known.is_read
        if not path.is_dir():
            problems.append((name, "there is no such folder: its tests are missing here"))
        elif not files:
            problems.append((name, f"it has no {_RESULTS}: tests of it that left no run folder are missing here"))
    if is_read and not results:
        problems.append(("", NO_TESTS))
    return KnownResults(results, problems, is_partial, is_read)


def results_files(*paths: Path) -> Iterator[Path]:
    """Yield the files with the results of sessions that lie in the folders or below them.

    Of files with the same content only the first: a session may leave a copy beside its runs.
    """
    seen: set[bytes] = set()
    for path in paths:
        for folder, inner, files in os.walk(path):
            if _TRACE in files:
                inner.clear()
            elif _RESULTS in files:
                file = Path(folder).resolve() / _RESULTS
                if (content := _content(file)) not in seen:
                    seen.add(content)
                    yield file


def _content(file: Path) -> bytes:
    """Return the content of a file, or its name where it cannot be read."""
    try:
        return read_whole(file, LARGEST)
    except OSError:
        return os.fsencode(file)


def _below(path: Path) -> Iterator[Path]:
    for folder, inner, files in os.walk(path):
        if _TRACE in files:
            inner.clear()
            yield Path(folder)
