"""What must hold after a session, whatever was done to it. Each check returns a line for each thing that is wrong."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from support.chaos.disturbances import Done, explained
from support.chaos.project import BROKEN, IDS, LONGEST_TEST_S, Project
from support.chaos.world import files, processes

_OF_OTHERS = ("pytest-of-", "xterm")
"""What pytest keeps on purpose, and the scratch file of an xterm that was killed as it started."""
_GONE_WITHIN_S = 25.0
"""How long what a session started may take to end after it: its supervisors end what its workers left."""


def wrong_results(project: Project, code: int, done: Sequence[Done], came: Counter[str]) -> Iterator[str]:
    """Yield what is wrong with the results: a test not told once, passed or blamed wrongly, or too long; lost runs.

    Count in `came` how often each result and triage came.
    """
    try:
        tests: list[dict[str, Any]] = json.loads(project.results.read_text())["tests"]
    except (OSError, ValueError):
        yield f"no results; the session ended with {code}"
        return
    came.update(test["triage"] or test["result"] for test in tests)
    told = Counter(test["test"] for test in tests)
    yield from (f"{each} is told {told[each]} times" for each in sorted({*IDS, *told}) if told[each] != 1)
    times = project.times()
    for test in tests:
        if test["test"] in IDS:
            yield from _wrong_test(test, done, times.get(test["test"], []))
    if code < 0 or any(test["result"] != "passed" for test in tests) != (code != 0):
        yield f"the session ended with {code}, and the results are {dict(came)}"
    named = Counter(Path(run["directory"]).name for test in tests for run in test["runs"])
    there = Counter(path.parent.name for path in project.runs.glob("*/trace.jsonl"))
    for each in sorted({*named, *there}):
        if named[each] != there[each]:
            yield f"the run directory {each} is in {named[each]} results, and there {there[each]} times"


def _wrong_test(test: dict[str, Any], done: Sequence[Done], times: Sequence[tuple[float, float]]) -> Iterator[str]:
    number = IDS[test["test"]]
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


def left_over(own: Callable[[], set[int]], files_before: set[Path]) -> list[str]:
    """Return the processes and files that stay after a session; wait until they are gone, but not for ever."""
    until_s = time.monotonic() + _GONE_WITHIN_S
    while (left := _left_now(own(), files_before)) and time.monotonic() < until_s:
        time.sleep(0.1)  # what is left belongs to nobody who could tell that it ended
    return left


def _left_now(own: set[int], files_before: set[Path]) -> list[str]:
    stay = [process for process in processes() if process.pid not in own]
    new = sorted(path for path in files() - files_before if not path.name.startswith(_OF_OTHERS))
    return [
        *(f"process {process.pid} stays: {' '.join(process.argv)[:150] or process.name}" for process in stay),
        *(f"the file {path} stays" for path in new),
    ]
