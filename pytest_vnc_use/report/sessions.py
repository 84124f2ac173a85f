"""The run directories and the results of sessions, or of a session's jobs, under the
paths that a user names.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import chain
from pathlib import Path, PureWindowsPath

from pytest_vnc_use.errors import RunDirectoryError, SettingsError
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.report.phrases import without_parent_path
from pytest_vnc_use.report.reliability import reliabilities
from pytest_vnc_use.report.results import (
    NO_TESTS,
    RESULTS,
    Divergence,
    ItemResult,
    SessionResults,
    read_results,
    session_results,
)
from pytest_vnc_use.report.session_view import NOT_FOUND, KnownResults
from pytest_vnc_use.report.summaries import cell
from pytest_vnc_use.runs.json_lines import read_whole
from pytest_vnc_use.runs.trace import open_trace
from pytest_vnc_use.runs.transcript import line_of

TRACE = "trace.jsonl"
_MAX_LINKS = 100
_URL = re.compile(r"https?://[^\s()<>|]+")


def find_runs(paths: Iterable[Path], *, may_be_none: bool = False) -> list[Path]:
    """Return all run directories that are one of the paths or below it, each once,
    oldest first.

    Raises RunDirectoryError if there is none at one of the paths, unless there
    `may_be_none`.
    """
    runs_by_path: dict[Path, Path] = {}
    for path in paths:
        runs = {
            run.resolve(): run for run, names in _directories(path) if TRACE in names
        }
        if not runs and not may_be_none:
            raise RunDirectoryError(
                f"{str(path)!r} must be a run directory, or one with some below: there"
                f" is no {TRACE}"
            )
        runs_by_path |= runs
    return sorted(runs_by_path.values(), key=lambda run: (run.name, str(run)))


def _directories(path: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield the directories below a path, itself included but none within a run
    directory, with the names of files.
    """
    for directory, inner, files in os.walk(path):
        if TRACE in files:
            inner.clear()
        yield Path(directory), files


def only_last_session(runs: Sequence[Path], paths: Iterable[Path]) -> list[Path]:
    """Return the runs without those that started before the session whose results are
    beside them.

    Runs that the paths themselves name stay.
    """
    named = {path.resolve() for path in paths}
    directories = {run.parent for run in runs}
    starts = {path: _start_of_session(path / RESULTS) for path in directories}
    return [
        run
        for run in runs
        if run.resolve() in named or _start_of_run(run) >= starts[run.parent]
    ]


def _start_of_session(file: Path) -> float:
    with suppress(RunDirectoryError, ValueError):  # no file, or no time in it
        return datetime.fromisoformat(read_results(file).started_at).timestamp()
    return 0.0


def _start_of_run(run: Path) -> float:
    with suppress(RunDirectoryError):  # its page states why it cannot be read
        return open_trace(run)[0].started_at
    return math.inf


def results_files(*paths: Path) -> Iterator[Path]:
    """Yield the files with the results of sessions that are in the directories or below
    them.

    Of files with the same content only the first: a session may leave a copy beside its
    runs.
    """
    seen: set[bytes] = set()
    for directory, names in chain.from_iterable(map(_directories, paths)):
        if RESULTS in names and TRACE not in names:
            file = directory.resolve() / RESULTS
            try:
                content = read_whole(file)
            except OSError:
                content = os.fsencode(file)
            if content not in seen:
                seen.add(content)
                yield file


def results_beside(paths: Iterable[Path]) -> KnownResults:
    """Return the results of the sessions whose files are at the paths or below them,
    beside the run directories.
    """
    files = [*results_files(*paths)]
    if not files:
        return NOT_FOUND
    sessions: list[SessionResults] = []
    problems: list[tuple[str, str]] = []
    for file in files:
        try:
            session = read_results(file)
        except RunDirectoryError as exc:
            problems.append((file.name, without_parent_path(exc, file)))
        else:
            sessions.append(session)
            problems += [("", problem) for problem in session.problems]
    return KnownResults(
        results=[*chain.from_iterable(session.tests for session in sessions)],
        problems=problems,
        is_partial=len(sessions) < len(files),
        is_read=bool(sessions),
        reliability=[*chain.from_iterable(session.reliability for session in sessions)],
    )


def results_of_jobs(
    paths: Sequence[Path], count: int = 0
) -> tuple[KnownResults, SessionResults | None, int]:
    """Return the results of a session's jobs as its page shows them, as one file, and
    how many jobs have any.

    `count` is the number of all jobs, if it is known. A missing job, or one without
    results, is a problem.
    """
    jobs: dict[str, SessionResults] = {}
    problems: list[str] = []
    names_by_file: dict[Path, str] = {}
    for path in paths:
        name = str(path)
        files = [file.resolve() for file in results_files(path)]
        if not files:
            problems.append(
                f"{name!r} must have one {RESULTS} below it, it has none: its job did"
                " not end"
            )
        elif len(files) > 1:
            problems.append(
                f"{name!r} must have one {RESULTS} below it, it has {len(files)}"
            )
        elif files[0] in names_by_file:
            problems.append(
                f"{name!r} must be another job's, it has the results of"
                f" {names_by_file[files[0]]!r}"
            )
        else:
            names_by_file[files[0]] = name
            try:
                jobs[name] = read_results(files[0])
            except RunDirectoryError as exc:
                problems.append(f"{name!r} has results that cannot be read: {exc}")
    is_partial = bool(problems) or len(paths) < count
    if 0 < count < len(paths):
        problems.append(
            f"--jobs must be the number of all jobs, got {count} for {len(paths)}"
            " directories"
        )
    elif len(paths) < count:
        problems.append(f"{count - len(paths)} of {count} jobs are missing")
    if not jobs:
        listed = [("", problem) for problem in problems]
        return KnownResults((), listed, is_partial=True), None, 0
    results = merged(jobs, problems)
    listed = [("", problem) for problem in results.problems]
    known_results = KnownResults(
        results.tests, listed, is_partial, is_read=True, reliability=results.reliability
    )
    return known_results, results, len(jobs)


def merged(
    jobs: Mapping[str, SessionResults], problems: Sequence[str] = ()
) -> SessionResults:
    """Return the results of all jobs, by the name of each, with each test once; at
    least one must be given.

    The problems of each job follow `problems`. A test that is in several jobs is a
    problem too; its bad result is kept. So it is if no job has a test.
    """
    tests: dict[str, tuple[str, ItemResult]] = {}
    duplicates: list[str] = []
    for name, job in jobs.items():
        for test in job.tests:
            earlier = tests.get(test.test)
            if earlier:
                duplicates.append(
                    f"{test.test} is in {earlier[0]} and in {name}: each test must be"
                    " in one of them"
                )
            if earlier is None or (test.is_bad and not earlier[1].is_bad):
                tests[test.test] = name, test
    results = session_results(
        min(job.started_at for job in jobs.values()),
        max(job.ended_at for job in jobs.values()),
        [test for _, test in tests.values()],
    )
    divergences: dict[str, Divergence | None] = {}
    all_problems = [*problems]
    for name, job in jobs.items():
        divergences |= {row.test: row.divergence for row in job.reliability}
        all_problems += [f"{name}: {problem}" for problem in job.problems]
    all_problems += duplicates
    if not tests:
        all_problems.append(NO_TESTS)
    reliability = []
    for row in reliabilities(results.tests, 2 if divergences else 1):
        # the run directories of another machine cannot be read here
        divergence = row.divergence or divergences.get(row.test)
        reliability.append(replace(row, divergence=divergence))
    return replace(
        results, reliability=tuple(reliability), problems=tuple(all_problems)
    )


def _last_run(result: ItemResult) -> str:
    """Return the name of the run that decided a test; empty if it has none."""
    names = [
        PureWindowsPath(run.directory).name for run in result.runs if not run.rehearsal
    ]
    return names[-1] if names else ""


def format_problems(runs: Sequence[Path], known_results: KnownResults) -> list[str]:
    """Return what else is wrong, a line each: a test that failed without a run, another
    problem of a session.

    Runs that no test made need no session.
    """
    if known_results is NOT_FOUND and not any(line_of(run).test for run in runs):
        return []
    names = {run.name for run in runs}
    problems = [
        (f"{result.test} failed without a run", line(result.message))
        for result in known_results.results
        if result.is_bad and _last_run(result) not in names
    ]
    problems += known_results.problems
    return [": ".join(filter(None, problem)) for problem in problems]


def links(
    runs: Sequence[Path],
    results: Sequence[ItemResult],
    url: str,
    problems: Sequence[str] = (),
) -> str:
    """Return a Markdown row for each test that failed and left a run: its name links to
    its run in the report.

    The report is at `url`, in one file of these runs. A run is known by its name. The
    problems follow, such as a missing job. Raises SettingsError for an invalid URL.
    """
    if not _URL.fullmatch(url):
        raise SettingsError(
            "--links must be the report's URL, such as https://ci.example/report, got"
            f" {url!r}"
        )
    numbers = {run.name: number for number, run in enumerate(runs, start=1)}
    failed: list[str] = []
    for result in results:
        run = numbers.get(_last_run(result))
        if result.is_bad and run:
            failed.append(f"[{cell(result.test)}]({url}#run-{run})")
    if failed:
        lines = ["| | what decided it, in the report |", "|---:|---|"]
        for number, link in enumerate(failed[:_MAX_LINKS], start=1):
            lines.append(f"| {number} | {link} |")
    else:
        lines = [f"[The report]({url})"]
    if problems:
        lines.append("")
        lines += [f"{cell(problem)}  " for problem in problems[:_MAX_LINKS]]
    if problems[_MAX_LINKS:]:
        lines.append(f"and {len(problems) - _MAX_LINKS} more")
    return "\n".join([*lines, ""])
