"""The runs that belong to one test: those of its attempts, and the rehearsals of its recording."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PureWindowsPath

from pytest_vnc_use.report.page.run_view import RunPage
from pytest_vnc_use.report.results import ItemResult
from pytest_vnc_use.runs.folder import EndedTest

PagedRun = tuple[RunPage, str]
"""A run, and the address of its page."""


def runs_of_results(
    results: Iterable[ItemResult], pages: Sequence[PagedRun]
) -> tuple[list[tuple[ItemResult, list[PagedRun]]], list[PagedRun]]:
    """Return each result with its runs, and the runs of no result. A run is known by its name: it may have moved."""
    rest: dict[str, list[PagedRun]] = {}
    for each in pages:
        rest.setdefault(each[0].path.name, []).append(each)
    found = []
    for result in results:
        names = [PureWindowsPath(run.folder).name for run in result.runs]  # it takes / and \ alike
        found.append((result, [rest[name].pop(0) for name in names if rest.get(name)]))
    left = {id(each) for runs in rest.values() for each in runs}
    return found, [each for each in pages if id(each) in left]


def runs_together(pages: Iterable[PagedRun]) -> list[list[PagedRun]]:
    """Return the runs, oldest first, as lists: each holds those of one test, with all its attempts and rehearsals."""
    together: list[list[PagedRun]] = []
    latest: dict[object, list[PagedRun]] = {}
    for each in pages:
        ended = each[0].ended
        key = (each[0].path.parent, ended.test, ended.worker) if ended else each[0].path
        group = latest.get(key)
        if group is None or ended is None or not _goes_on(group, ended):
            latest[key] = group = []
            together.append(group)
        group.append(each)
    return together


def _goes_on(group: Sequence[PagedRun], ended: EndedTest) -> bool:
    """Return whether a run belongs to the same test as the runs before it: an attempt after the first, for example."""
    if ended.is_rehearsal:
        return True
    before = [run.ended for run, _ in group if run.ended and not run.ended.is_rehearsal]
    return bool(before) and (ended == before[-1] or ended.attempt > before[-1].attempt)


def is_rehearsal(run: RunPage) -> bool:
    """Return whether the run rehearsed a recording that the test had just made."""
    return run.ended is not None and run.ended.is_rehearsal


def attempt_of(run: RunPage) -> int:
    """Return the number of the attempt that made a run; 0 if no result is written."""
    return run.ended.attempt if run.ended else 0
