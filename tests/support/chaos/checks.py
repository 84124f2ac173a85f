"""What must hold after a session, whatever was done to it. Each check returns a line for each thing that is wrong."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.chaos.disturbances import Done, explained
from support.chaos.project import BROKEN, LONGEST_TEST_S, Project, ids, number_of
from support.chaos.world import files, processes

_OF_OTHERS = ("pytest-of-", "xterm")
"""What pytest keeps on purpose, and the scratch file of an xterm that was killed as it started."""
_GONE_WITHIN_S = 25.0
"""How long what a session started may take to end after it: its supervisors end what its workers left."""


@dataclass(frozen=True)
class Ended:
    """A session that ended: its exit code, its output, and what was done to it."""

    code: int
    output: str
    done: Sequence[Done]


def results_of(project: Project) -> list[dict[str, Any]] | None:
    """Return the results of each test; None if the session left none."""
    try:
        tests: list[dict[str, Any]] = json.loads(project.results.read_text())["tests"]
    except (OSError, ValueError):
        return None
    return tests


def wrong_results(project: Project, ended: Ended) -> list[str]:
    """Return what is wrong with the results: a test not told once, passed or blamed wrongly, or too long."""
    tests = results_of(project)
    if tests is None:
        return [f"no results; the session ended with {ended.code}"]
    times = Counter(test["test"] for test in tests)
    wrong = [f"{each} is told {times[each]} times" for each in sorted(ids() | {*times}) if times[each] != 1]
    times_of = project.times()
    own = [test for test in tests if test["test"] in ids()]
    wrong += [line for test in own for line in _wrong_test(test, ended.done, times_of.get(test["test"], []))]
    bad = any(test["result"] != "passed" for test in tests)
    if bad != (ended.code != 0):
        wrong.append(f"the session ended with {ended.code}, though {'some' if bad else 'no'} test is bad")
    return wrong


def _wrong_test(test: dict[str, Any], done: Sequence[Done], times: Sequence[tuple[float, float]]) -> Iterator[str]:
    number = number_of(test["test"])
    told = f"{test['test']}: {test['result']}, {test['triage']} ({test['rule']}; {test['message'][:200]})"
    if number in BROKEN:
        if test["result"] == "passed":
            yield f"passed with a broken program: {told}"
    elif test["result"] != "passed":
        allowed = explained(done, number, times)
        if test["triage"] not in allowed:
            yield f"nothing that was done explains more than {sorted(allowed)}: {told}"
    attempts = 1 + len(test["retried_for"])
    stopped_s = sum(each.action.for_s or 0.0 for each in done if each.action.kind == "stop worker")
    if test["duration_s"] > LONGEST_TEST_S * attempts + stopped_s:  # No limit continues while a worker is stopped.
        yield f"took {test['duration_s']:.0f} s: {told}"


def lost_runs(project: Project) -> list[str]:
    """Return the run directories that no result names, and those that are named and are not there."""
    tests = results_of(project)
    if tests is None:
        return []  # wrong_results reports that.
    named = Counter(Path(run["directory"]).name for test in tests for run in test["runs"])
    there = {path.parent.name for path in project.runs.glob("*/trace.jsonl")}
    lost = [f"the run directory {each} is in no result" for each in sorted(there - {*named})]
    missing = [f"the run directory {each} of a result is not there" for each in sorted({*named} - there)]
    twice = [f"the run directory {each} is in {count} results" for each, count in named.items() if count > 1]
    return lost + missing + twice


def left_over(own: Callable[[], set[int]], files_before: set[Path]) -> list[str]:
    """Return the processes and files that stay after a session; wait until they are gone, but not for ever."""
    until_s = time.monotonic() + _GONE_WITHIN_S
    while (left := _left_now(own(), files_before)) and time.monotonic() < until_s:
        time.sleep(0.1)  # what is left belongs to nobody who could tell that it ended
    return left


def _left_now(own: set[int], files_before: set[Path]) -> list[str]:
    stay = [
        each
        for each in processes()
        if each.pid not in own and not (each.parent in own and each.name.startswith("openbox"))
    ]
    new = sorted(path for path in files() - files_before if not path.name.startswith(_OF_OTHERS))
    return [f"process {each.pid} stays: {' '.join(each.argv)[:150] or each.name}" for each in stay] + [
        f"the file {path} stays" for path in new
    ]


def summary(project: Project) -> Counter[str]:
    """Return how often each result and triage came."""
    return Counter(test["triage"] or test["result"] for test in results_of(project) or ())
