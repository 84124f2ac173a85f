"""The run directories and the results of sessions, or of a session's jobs, under the paths that a user names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PureWindowsPath

from pytest_vnc_use.errors import RunDirectoryError, SettingsError
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.report.phrases import without_place
from pytest_vnc_use.report.reliability import reliabilities
from pytest_vnc_use.report.results import (
    NO_TESTS,
    ItemResult,
    SessionResults,
    read_results,
    session_problems,
    session_results,
)
from pytest_vnc_use.report.session_view import NOT_FOUND, KnownResults
from pytest_vnc_use.report.summaries import cell
from pytest_vnc_use.runs.json_lines import LARGEST, read_whole
from pytest_vnc_use.runs.transcript import line_of

_TRACE, _RESULTS = "trace.jsonl", "vnc-results.json"
_MAX_LINKS = 100
_URL = re.compile(r"https?://[^\s()<>|]+")


def find_runs(paths: Iterable[Path], *, may_be_none: bool = False) -> list[Path]:
    """Return all run directories that are one of the paths or lie below it, each once, oldest first.

    Raises RunDirectoryError if there is none at one of the paths, unless there `may_be_none`.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        runs = {run.resolve(): run for run in _runs_below(path)}
        if not runs and not may_be_none:
            raise RunDirectoryError(
                f"{str(path)!r} must be a run directory, or one with some below: there is no {_TRACE}"
            )
        found |= runs
    return sorted(found.values(), key=lambda run: (run.name, str(run)))


def _runs_below(path: Path) -> Iterator[Path]:
    for directory, inner, files in os.walk(path):
        if _TRACE in files:
            inner.clear()
            yield Path(directory)


def results_files(*paths: Path) -> Iterator[Path]:
    """Yield the files with the results of sessions that lie in the directories or below them.

    Of files with the same content only the first: a session may leave a copy beside its runs.
    """
    seen: set[bytes] = set()
    for path in paths:
        for directory, inner, files in os.walk(path):
            if _TRACE in files:
                inner.clear()
            elif _RESULTS in files:
                file = Path(directory).resolve() / _RESULTS
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
    return _results_in(files) if files else NOT_FOUND


def _results_in(files: Iterable[Path], shard: str = "") -> KnownResults:
    known = KnownResults()
    for file in files:
        try:
            read = read_results(file)
        except RunDirectoryError as exc:
            problem = file.name, without_place(exc, file)
            known = replace(known, is_partial=True, problems=[*known.problems, problem])
        else:
            bad = any(test.is_bad for test in read.tests)
            told = read.problems or session_problems(read.exit_status or 0, (), 0, has_bad=bad)
            problems = [(shard, problem) for problem in told]
            known = replace(
                known,
                results=[*known.results, *read.tests],
                problems=[*known.problems, *problems],
                reliability=[*known.reliability, *read.reliability],
                is_read=True,
            )
    return known


def results_of_shards(paths: Iterable[Path]) -> KnownResults:
    """Return the results of a session's shards. A missing shard, or one without results, becomes a problem.

    So does it if no shard has a test.
    """
    known = KnownResults()
    for path in dict.fromkeys(paths):
        name, files = f"shard {path.name}", [*results_files(path)]
        part = _results_in(files, name)
        problems = [*known.problems, *part.problems]
        if not path.is_dir():
            problems.append((name, "there is no such directory: its tests are missing here"))
        elif not files:
            problems.append((name, f"it has no {_RESULTS}: tests of it that left no run directory are missing here"))
        known = KnownResults(
            [*known.results, *part.results],
            problems,
            is_partial=known.is_partial or part.is_partial or not files,
            is_read=known.is_read or part.is_read,
            reliability=[*known.reliability, *part.reliability],
        )
    if known.is_read and not known.results:
        known = replace(known, problems=[*known.problems, ("", NO_TESTS)])
    return known


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
    failed = [(test, number) for test, number in failed if number]
    lines = [f"{cell(problem)}  " for problem in problems[:_MAX_LINKS]]
    if problems[_MAX_LINKS:]:
        lines.append(f"and {len(problems) - _MAX_LINKS} more")
    below = ["", *lines] if lines else []
    if not failed:
        return "\n".join([f"[The report]({url})", *below, ""])
    rows = [
        f"| {row} | [{cell(test)}]({url}#run-{number}) |"
        for row, (test, number) in enumerate(failed[:_MAX_LINKS], start=1)
    ]
    return "\n".join(["| | what decided it, in the report |", "|---:|---|", *rows, *below, ""])
