"""The run directories and the results of sessions, or of a session's jobs, under the paths that a user names."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path, PureWindowsPath

from pytest_vnc_use.errors import RunDirectoryError, SettingsError
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.report.phrases import without_place
from pytest_vnc_use.report.reliability import reliabilities
from pytest_vnc_use.report.results import (
    NO_TESTS,
    RESULTS,
    ItemResult,
    SessionResults,
    read_results,
    session_results,
)
from pytest_vnc_use.report.session_view import NOT_FOUND, KnownResults
from pytest_vnc_use.report.summaries import cell
from pytest_vnc_use.runs.json_lines import LARGEST, read_whole
from pytest_vnc_use.runs.trace import open_trace
from pytest_vnc_use.runs.transcript import line_of

TRACE = "trace.jsonl"
_MAX_LINKS = 100
_URL = re.compile(r"https?://[^\s()<>|]+")


def find_runs(paths: Iterable[Path], *, may_be_none: bool = False) -> list[Path]:
    """Return all run directories that are one of the paths or lie below it, each once, oldest first.

    Raises RunDirectoryError if there is none at one of the paths, unless there `may_be_none`.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        runs = {run.resolve(): run for run, names in _directories(path) if TRACE in names}
        if not runs and not may_be_none:
            raise RunDirectoryError(
                f"{str(path)!r} must be a run directory, or one with some below: there is no {TRACE}"
            )
        found |= runs
    return sorted(found.values(), key=lambda run: (run.name, str(run)))


def _directories(path: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield the directories below a path, itself included but none within a run directory, with the names of files."""
    for directory, inner, files in os.walk(path):
        if TRACE in files:
            inner.clear()
        yield Path(directory), files


def of_last_session(runs: Sequence[Path], paths: Iterable[Path]) -> list[Path]:
    """Return the runs without those that began before the session whose results lie beside them.

    Runs that the paths themselves name stay.
    """
    named = {path.resolve() for path in paths}
    starts = {directory: _start_of_session(directory / RESULTS) for directory in {run.parent for run in runs}}
    return [run for run in runs if run in named or _start_of_run(run) >= starts[run.parent]]


def _start_of_session(file: Path) -> float:
    with suppress(RunDirectoryError, ValueError):  # no file, or no time in it
        return datetime.fromisoformat(read_results(file).started_at).timestamp()
    return 0.0


def _start_of_run(run: Path) -> float:
    with suppress(RunDirectoryError):  # its page says why it cannot be read
        return open_trace(run)[0].began_at
    return math.inf


def results_files(*paths: Path) -> Iterator[Path]:
    """Yield the files with the results of sessions that lie in the directories or below them.

    Of files with the same content only the first: a session may leave a copy beside its runs.
    """
    seen: set[bytes] = set()
    for directory, names in (each for path in paths for each in _directories(path)):
        if RESULTS in names and TRACE not in names:
            file = directory.resolve() / RESULTS
            try:
                content = read_whole(file, LARGEST)
            except OSError:
                content = os.fsencode(file)
            if content not in seen:
                seen.add(content)
                yield file


def results_beside(paths: Iterable[Path]) -> KnownResults:
    """Return the results of the sessions whose files lie at the paths or below them, beside the run directories."""
    files = [*results_files(*paths)]
    known = KnownResults() if files else NOT_FOUND
    for file in files:
        try:
            read = read_results(file)
        except RunDirectoryError as exc:
            problem = file.name, without_place(exc, file)
            known = replace(known, is_partial=True, problems=[*known.problems, problem])
        else:
            known = replace(
                known,
                results=[*known.results, *read.tests],
                problems=[*known.problems, *(("", problem) for problem in read.problems)],
                reliability=[*known.reliability, *read.reliability],
                is_read=True,
            )
    return known


def results_of_jobs(paths: Sequence[Path], count: int = 0) -> tuple[KnownResults, SessionResults | None, int]:
    """Return the results of a session's jobs as its page shows them, as one file, and how many jobs have any.

    `count` is the number of all jobs, if it is known. A missing job, or one without results, is a problem.
    """
    parts: dict[str, SessionResults] = {}
    problems: list[str] = []
    read: dict[Path, Path] = {}
    for path in paths:
        files = list(results_files(path))
        if len(files) != 1:
            found = f"it has {len(files)}" if files else "it has none: its job did not end"
            problems.append(f"{str(path)!r} must have one {RESULTS} below it, {found}")
        elif (file := files[0].resolve()) in read:
            problems.append(f"{str(path)!r} must be another job's, it has the results of {str(read[file])!r}")
        else:
            read[file] = path
            try:
                parts[str(path)] = read_results(file)
            except RunDirectoryError as exc:
                problems.append(f"{str(path)!r} has results that cannot be read: {exc}")
    is_partial = bool(problems) or len(paths) < count
    if 0 < count < len(paths):
        problems.append(f"--jobs must be the number of all jobs, got {count} for {len(paths)} directories")
    elif len(paths) < count:
        problems.append(f"{count - len(paths)} of {count} jobs are missing")
    if not parts:
        return KnownResults((), [("", problem) for problem in problems], is_partial=True), None, 0
    results = merged(parts, problems)
    listed = [("", problem) for problem in results.problems]
    known = KnownResults(results.tests, listed, is_partial, is_read=True, reliability=results.reliability)
    return known, results, len(parts)


def merged(parts: Mapping[str, SessionResults], problems: Sequence[str] = ()) -> SessionResults:
    """Return the results of all jobs, by the name of each, with each test once; at least one must be given.

    The problems of each job follow `problems`. A test that is in several jobs is a problem too; its bad result is kept.
    So it is if no job has a test.
    """
    tests: dict[str, tuple[str, ItemResult]] = {}
    doubled: list[str] = []
    for name, part in parts.items():
        for test in part.tests:
            before = tests.get(test.test)
            if before:
                doubled.append(f"{test.test} is in {before[0]} and in {name}: each test must be in one of them")
            if before is None or (test.is_bad and not before[1].is_bad):
                tests[test.test] = name, test
    results = session_results(
        min(part.started_at for part in parts.values()),
        max(part.ended_at for part in parts.values()),
        [test for _, test in tests.values()],
    )
    old = {each.test: each for part in parts.values() for each in part.reliability}
    again = reliabilities(results.tests, 2 if old else 1)
    reliability = tuple(
        replace(each, divergence=old[each.test].divergence) if each.divergence is None and each.test in old else each
        for each in again
    )
    of_parts = [f"{name}: {problem}" for name, part in parts.items() for problem in part.problems]
    missing = () if tests else (NO_TESTS,)
    return replace(results, reliability=reliability, problems=(*problems, *of_parts, *doubled, *missing))


def _last_run(result: ItemResult) -> str:
    """Return the name of the run that decided a test; empty if it has none."""
    names = [PureWindowsPath(run.directory).name for run in result.runs if not run.rehearsal]
    return names[-1] if names else ""


def format_problems(runs: Sequence[Path], known: KnownResults) -> list[str]:
    """Return what else is wrong, a line each: a test that failed without a run, another problem of a session.

    Runs that no test made need no session.
    """
    if known is NOT_FOUND and not any(line_of(run).test for run in runs):
        return []
    names = {run.name for run in runs}
    without_run = [
        (f"{result.test} failed without a run", line(result.message))
        for result in known.results
        if result.is_bad and _last_run(result) not in names
    ]
    return [": ".join(filter(None, problem)) for problem in (*without_run, *known.problems)]


def links(runs: Sequence[Path], results: Sequence[ItemResult], url: str, problems: Sequence[str] = ()) -> str:
    """Return a Markdown row for each test that failed and left a run: its name leads to its place in the report.

    The report is at `url`, in one file of these runs. A run is known by its name. The problems follow, such as a
    missing job. Raises SettingsError for an invalid URL.
    """
    if not _URL.fullmatch(url):
        raise SettingsError(f"--links must be the report's URL, such as https://ci.example/report, got {url!r}")
    numbers = {run.name: number for number, run in enumerate(runs, start=1)}
    failed = [(result.test, numbers.get(_last_run(result), 0)) for result in results if result.is_bad]
    rows = [f"[{cell(test)}]({url}#run-{number})" for test, number in failed if number][:_MAX_LINKS]
    lines = [f"{cell(problem)}  " for problem in problems[:_MAX_LINKS]]
    if problems[_MAX_LINKS:]:
        lines.append(f"and {len(problems) - _MAX_LINKS} more")
    table = [f"| {number} | {row} |" for number, row in enumerate(rows, start=1)]
    head = ["| | what decided it, in the report |", "|---:|---|"] if table else [f"[The report]({url})"]
    return "\n".join([*head, *table, *(["", *lines] if lines else []), ""])
