"""Links into a report in one file, for the summary that a CI shows of the tests that failed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.report.page.session_view import NOT_FOUND, KnownResults
from pytest_vnc_use.report.results import ItemResult
from pytest_vnc_use.report.summaries import cell
from pytest_vnc_use.runs.transcript import line_of

_MOST_LINKS = 100
_ADDRESS = re.compile(r"https?://[^\s()<>|]+")


@dataclass(frozen=True)
class Failed:
    """A test that failed, and its last run: the folder, and its number in the report in one file."""

    test: str
    number: int
    run: Path


def failed_tests(runs: Sequence[Path], results: Sequence[ItemResult]) -> list[Failed]:
    """Return the tests that failed and left a run, in the order of the results. A run is known by its name."""
    numbers = {run.name: number for number, run in enumerate(runs, start=1)}
    bad = [(result.test, numbers.get(_last_run(result), 0)) for result in results if result.is_bad]
    return [Failed(test, number, runs[number - 1]) for test, number in bad if number]


def _last_run(result: ItemResult) -> str:
    """Return the name of the run that decided a test; empty if it has none."""
    names = [PureWindowsPath(run.folder).name for run in result.runs if not run.rehearsal]
    return names[-1] if names else ""


def told_problems(runs: Sequence[Path], known: KnownResults) -> list[str]:
    """Return what else is wrong, a line each: a test that failed without a run, another problem of a session.

    Runs that no test made need no session.
    """
    if known is NOT_FOUND and not any(line_of(run).test for run in runs):
        return []
    there = {run.name for run in runs}
    alone = [
        (f"{result.test} failed without a run", line(result.message))
        for result in known.results
        if result.is_bad and _last_run(result) not in there
    ]
    return [": ".join(filter(None, problem)) for problem in (*alone, *known.problems)]


def links(failed: Sequence[Failed], address: str, problems: Sequence[str] = ()) -> str:
    """Return a Markdown row for each test that failed: its name leads to its place in the report at `address`.

    The problems follow, such as a missing job. Raises SettingsError for an invalid address.
    """
    if not _ADDRESS.fullmatch(address):
        raise SettingsError(f"--links must be the report's address, such as https://ci.example/report, got {address!r}")
    told = [f"{cell(problem)}  " for problem in problems[:_MOST_LINKS]]
    if problems[_MOST_LINKS:]:
        told.append(f"and {len(problems) - _MOST_LINKS} more")
    below = ["", *told] if told else []
    if not failed:
        return "\n".join([f"[The report]({address})", *below, ""])
    rows = [
        f"| {row} | [{cell(test.test)}]({address}#run-{test.number}) |"
        for row, test in enumerate(failed[:_MOST_LINKS], start=1)
    ]
    return "\n".join(["| | what decided it, in the report |", "|---:|---|", *rows, *below, ""])
