"""The page of a session with many runs: failed tests first, equal differences together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pytest_vnc_use.report.page.line_of_test import REHEARSAL, line_of_result, line_of_runs, tone_of
from pytest_vnc_use.report.page.model import Badge, Group, SessionView, TestLine
from pytest_vnc_use.report.page.run_view import DID_NOT_END
from pytest_vnc_use.report.page.runs_of_tests import PagedRun, runs_of_results, runs_together
from pytest_vnc_use.report.page.text import short
from pytest_vnc_use.report.results import ItemResult
from pytest_vnc_use.report.summaries import checked_by_body

_ORDER = ("failed", "error", DID_NOT_END, "broke", "unreadable", "xpassed", "unfinished")
_LONGEST_PROBLEM = 150
_VARYING = re.compile(r"\d[\d.,]*|0x[0-9a-f]+|'[^']*[/\\][^']*'")
"""The numbers and paths of a message. Messages that differ only in these have the same cause."""


@dataclass(frozen=True)
class KnownResults:
    """The results of sessions, which also contain tests without a run.

    `problems` are other problems, each with the name of a file or a shard, or "". `is_partial`: results are missing, so
    some tests may be unknown. `is_read`: the results of a session were read, also if they have no test.
    """

    results: Sequence[ItemResult] = ()
    problems: Sequence[tuple[str, str]] = ()
    is_partial: bool = False
    is_read: bool = False


NO_RESULTS = KnownResults()
NOT_FOUND = KnownResults(
    problems=[("", "the results of the session were not found: tests without a run are missing here")], is_partial=True
)
"""The note for runs without a results file."""


def session_view(pages: Sequence[PagedRun], known: KnownResults = NO_RESULTS) -> SessionView:
    """Return the page of these runs, each with the address of its page, and of the results of sessions."""
    if known is NOT_FOUND and not any(run.view.test for run, _ in pages):
        known = NO_RESULTS  # runs that no test made have no session
    tests = sorted(_tests(pages, known.results), key=_place)
    counted = [test for test in tests if test.is_counted]
    counts = Counter(test.result for test in counted)
    dollars = [test.dollars for test in tests if test.dollars is not None]
    facts = [
        ("tests", f"{len(counted)}"),
        ("not counted", _uncounted_in_words(tests)),
        ("steps", ", ".join(f"{count} {way}" for way, count in _ways(tests).most_common()) or "none"),
        ("time", f"{sum(test.duration_s for test in tests):.0f} s"),
        ("cost", f"${sum(dollars):.4f}" if dollars else "none"),
        ("expect=None", checked_by_body(known.results).partition(": ")[2]),
        ("triage", ", ".join(f"{n} {name}" for name, n in Counter(t.triage for t in tests if t.triage).most_common())),
    ]
    return SessionView(
        title=_title(counted, known),
        counts=[Badge(f"{count} {result}", tone_of(result)) for result, count in counts.items()],
        facts=[(name, text) for name, text in facts if text],
        groups=_groups([test for test in tests if test.is_bad]),
        tests=tests,
        results=sorted({test.result for test in tests}),
        triages=sorted({test.triage for test in tests if test.triage}),
        problems=[*known.problems, *_unwritten(pages)],
    )


def _tests(pages: Sequence[PagedRun], results: Iterable[ItemResult]) -> list[TestLine]:
    found, rest = runs_of_results(results, pages)
    times = Counter(result.test for result, _ in found)
    count: dict[str, ItemResult] = {}
    for result, _ in found:
        if result.test not in count or (result.is_bad and not count[result.test].is_bad):
            count[result.test] = result
    lines = [
        replace(line_of_result(result, runs, of=times[result.test]), is_counted=count[result.test] is result)
        for result, runs in found
    ]
    return [*lines, *map(line_of_runs, runs_together(rest))]


def _unwritten(pages: Sequence[PagedRun]) -> list[tuple[str, str]]:
    return [
        (run.path.name, f"its page is not written: {short(run.unwritten, 500)}") for run, _ in pages if run.unwritten
    ]


def _ways(tests: Sequence[TestLine]) -> Counter[str]:
    """Return how many steps were live, replayed, healed or not healed, in earlier attempts and rehearsals too."""
    ways = Counter[str]()
    for test in tests:
        for run in (*test.runs, *(run for _, run in test.aside)):
            ways.update(run.ways)
    return ways


def _title(tests: Sequence[TestLine], known: KnownResults) -> str:
    bad = sum(test.is_bad for test in tests)
    names = "1 test" if len(tests) == 1 else f"{len(tests)} tests"
    if bad:
        return f"{bad} of {names} did not pass"
    fine = f"{names} known here did not fail" if known.is_partial else f"{names}, none failed"
    if not tests:
        fine = "no test is known here" if known.is_partial else "no test ran"
    if not known.problems:
        return fine
    more = len(known.problems) - 1
    first = short(": ".join(filter(None, known.problems[0])), _LONGEST_PROBLEM)
    return f"{fine}{'; but' if tests else ':'} {first}" + (f"; and {more} more" if more else "")


def _uncounted_in_words(tests: Sequence[TestLine]) -> str:
    """Return, in words, how many lines are no tests of their own."""
    rest = [test.result for test in tests if not test.is_counted]
    rehearsals = rest.count(REHEARSAL)
    counts = [(len(rest) - rehearsals, "more result", "of tests that ran more than once"), (rehearsals, REHEARSAL, "")]
    return ", ".join(f"{n} {word}{'' if n == 1 else 's'} {more}".strip() for n, word, more in counts if n)


def _place(test: TestLine) -> tuple[int, str]:
    return (_ORDER.index(test.result) if test.result in _ORDER else len(_ORDER)), test.started


def _groups(bad: Sequence[TestLine]) -> list[Group]:
    """Return the tests that failed, those with the same difference or message together, the largest group first."""
    together: dict[tuple[str, str], list[TestLine]] = {}
    for test in bad:
        key = ("difference", test.difference) if test.difference else ("message", _cause(test))
        together.setdefault(key, []).append(test)
    return [Group(tests) for tests in sorted(together.values(), key=len, reverse=True)]


def _cause(test: TestLine) -> str:
    """Return the message of a test without what differs from test to test: its name, numbers and paths."""
    place, colons, name = test.test.partition("::")
    message = test.message
    for own in (name, name.partition("[")[0]):
        message = message.replace(f"{place.rpartition('/')[2]}{colons}{own}'", "…'")
    return _VARYING.sub("…", message)
