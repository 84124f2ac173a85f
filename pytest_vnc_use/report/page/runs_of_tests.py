"""The runs that belong to one test: those of its attempts, and the rehearsals of its recording."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PureWindowsPath

from pytest_vnc_use.report.page.run_view import ShownRun
from pytest_vnc_use.report.results import ItemResult
from pytest_vnc_use.runs.ended_test import EndedTest

Shown = tuple[ShownRun, str]
"""A run, and the address of its page."""


def runs_of_results(
    results: Iterable[ItemResult], shown: Sequence[Shown]
) -> tuple[list[tuple[ItemResult, list[Shown]]], list[Shown]]:
    """Return each result with its runs, and the runs of no result. A run is known by its name: it may have moved."""
    rest: dict[str, list[Shown]] = {}
    for each in shown:
        rest.setdefault(each[0].path.name, []).append(each)
    found = []
    for result in results:
        names = [PureWindowsPath(run.folder).name for run in result.runs]  # it takes / and \ alike
        found.append((result, [rest[name].pop(0) for name in names if rest.get(name)]))
    left = {id(each) for runs in rest.values() for each in runs}
    return found, [each for each in shown if id(each) in left]


def runs_together(shown: Iterable[Shown]) -> list[list[Shown]]:
    """Return the runs, oldest first, as lists: each holds those of one test, with all its attempts and rehearsals."""
    together: list[list[Shown]] = []
    latest: dict[object, list[Shown]] = {}
    for each in shown:
        ended = each[0].ended
        key = (each[0].path.parent, ended.test, ended.worker) if ended else each[0].path
        group = latest.get(key)
        if group is None or ended is None or not _goes_on(group, ended):
            latest[key] = group = []
            together.append(group)
        group.append(each)
    return together


def _goes_on(group: Sequence[Shown], ended: EndedTest) -> bool:
    """Return whether a run belongs to the same test as the runs before it: an attempt after the first, for example."""
    if ended.is_rehearsal:
        return True
    before = [run.ended for run, _ in group if run.ended and not run.ended.is_rehearsal]
    return bool(before) and (ended == before[-1] or ended.attempt > before[-1].attempt)


def is_rehearsal(run: ShownRun) -> bool:
    """Return whether the run rehearsed a recording that the test had just made."""
    return run.ended is not None and run.ended.is_rehearsal


def attempt_of(run: ShownRun) -> int:
    """Return the number of the attempt that made a run; 0 if no result is written."""
    return run.ended.attempt if run.ended else 0
