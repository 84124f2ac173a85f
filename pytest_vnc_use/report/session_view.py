"""A session as a reviewer sees it: what failed first, equal differences together, then
a line for each test.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PureWindowsPath

from pytest_vnc_use.plain_text import count_of
from pytest_vnc_use.report.phrases import Tone, short
from pytest_vnc_use.report.reliability import reliability_rows
from pytest_vnc_use.report.results import ItemResult, Reliability
from pytest_vnc_use.report.run_view import (
    DID_NOT_END,
    RESULT_TONES,
    Badge,
    Deciding,
    RunPage,
    transient_badge,
)
from pytest_vnc_use.report.screenshots import Shot
from pytest_vnc_use.report.summaries import checked_by_body
from pytest_vnc_use.runs.directory import FinishedTest

REHEARSAL = "rehearsal"
"""The result of a line for a rehearsal whose test is missing."""
_RUN_TONES: dict[str, Tone] = {
    "error": "bad",
    "unreadable": "bad",
    "unfinished": "bad",
    DID_NOT_END: "bad",
}
_ORDER = ("failed", "error", DID_NOT_END, "unreadable", "xpassed", "unfinished")
_MAX_PROBLEM = 150
_NO_RESULTS_PROBLEM = (
    "the results of the session were not found: tests without a run are missing"
)
_VARYING = re.compile(r"\d[\d.,]*|0x[0-9a-f]+|'[^']*[/\\][^']*'")
"""The numbers and paths of a message. Messages that differ only in these have the same
cause.
"""


@dataclass(frozen=True)
class KnownResults:
    """The results of sessions, which also contain tests without a run.

    `problems` are other problems, each with the name of a file or a shard, or "".
    `is_partial`: results are missing, so some tests may be unknown. `is_read`: the
    results of a session were read, also if they have no test.
    """

    results: Sequence[ItemResult] = ()
    problems: Sequence[tuple[str, str]] = ()
    is_partial: bool = False
    is_read: bool = False
    reliability: Sequence[Reliability] = ()


NO_RESULTS = KnownResults()
NOT_FOUND = KnownResults(
    problems=[("", _NO_RESULTS_PROBLEM)],
    is_partial=True,
)
"""The note for runs without a results file."""


@dataclass(frozen=True)
class RunSummary:
    """A run as the page of its session lists it.

    `title` is its test, or what it has instead. `result` is the test's; for a run that
    no test made, how the run ended. Runs that a test failed for the same difference
    have the same `difference`. `page` is the URL of its page, and `unwritten` why it
    has none.
    """

    path: Path
    test: str
    title: str
    result: str
    rule: str
    message: str
    difference: str
    deciding: Deciding | None
    last: Shot | None
    modes: Mapping[str, int]
    claims: Mapping[str, int]
    transients: int
    started_at: str
    duration_s: float
    dollars: float | None
    ended: FinishedTest | None
    page: str
    unwritten: str


def summary_of(run: RunPage, page: str, unwritten: str = "") -> RunSummary:
    """Return the summary of a run whose page is written at the URL `page`, or is
    `unwritten`.
    """
    view = run.view
    trace = run.trace
    verdicts = trace.verdicts if trace else ()
    return RunSummary(
        path=run.path,
        test=view.test,
        title=view.test or short(view.task, 200) or view.run_id,
        result=run.result,
        rule=view.rule,
        message=view.problem or view.sentence,
        difference=run.difference,
        deciding=None if unwritten else view.deciding,
        last=None if unwritten else view.last,
        modes=run.modes,
        claims=Counter(verdict.kind for verdict in verdicts),
        transients=len(trace.transients) if trace else 0,
        started_at=trace.started.started_at if trace else "",
        duration_s=trace.seconds if trace else 0.0,
        dollars=trace.dollars if trace else None,
        ended=run.ended,
        page=page,
        unwritten=unwritten,
    )


@dataclass(frozen=True)
class TestLine:
    """A test with the runs of its last attempt; none if it failed before any.

    `result` is pytest's word; for a run that no test made, how the run ended. `aside`
    are the runs of earlier attempts and of rehearsals, each with its name. `is_counted`
    is false for a rehearsal whose test is missing, and for all but one result of the
    same test.
    """

    test: str
    result: str
    triage: str
    rule: str
    message: str
    runs: Sequence[RunSummary] = ()
    aside: Sequence[tuple[str, RunSummary]] = ()
    duration_s: float = 0.0
    dollars: float | None = None
    started: str = ""
    more: str = ""
    is_bad: bool = False
    is_counted: bool = True

    @property
    def badges(self) -> list[Badge]:
        """The result, and the number of transients."""
        transients = sum(run.transients for run in self.runs)
        return [Badge(self.result, tone_of(self.result)), *transient_badge(transients)]

    @property
    def claims(self) -> Mapping[str, int]:
        """How many claims hold, fail, or are unsure."""
        return _sum_of(run.claims for run in self.runs)

    @property
    def modes(self) -> Mapping[str, int]:
        """How many steps were live, replayed, healed and so on."""
        return _sum_of(run.modes for run in self.runs)

    @property
    def difference(self) -> str:
        """The name of the difference that failed the test; equal ones have the same."""
        return self.deciding.difference if self.deciding else ""

    @property
    def deciding(self) -> RunSummary | None:
        """The run that decided: the last one with a difference, or else the last
        one.
        """
        for run in reversed(self.runs):
            if run.difference:
                return run
        return self.runs[-1] if self.runs else None


def _sum_of(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total = Counter[str]()
    for count in counts:
        total.update(count)
    return total


@dataclass(frozen=True)
class SessionView:
    """All tests: the groups of those that failed for the same difference or with the
    same message, and a line each.
    """

    title: str
    counts: Sequence[Badge]
    facts: Sequence[tuple[str, str]]
    groups: Sequence[Sequence[TestLine]]
    tests: Sequence[TestLine]
    results: Sequence[str]
    triages: Sequence[str]
    problems: Sequence[tuple[str, str]] = ()
    reliability: Sequence[tuple[Reliability, Sequence[tuple[str, str]]]] = ()


def session_view(
    runs: Sequence[RunSummary], known_results: KnownResults = NO_RESULTS
) -> SessionView:
    """Return the view of these runs and of the results of sessions."""
    if known_results is NOT_FOUND and not any(run.test for run in runs):
        known_results = NO_RESULTS  # runs that no test made have no session
    tests = sorted(_tests(runs, known_results.results), key=_sort_key)
    counted = [test for test in tests if test.is_counted]
    counts = Counter(test.result for test in counted)
    badges = [
        Badge(f"{count} {result}", tone_of(result)) for result, count in counts.items()
    ]
    transients = sum(len(test.badges) > 1 for test in tests)
    if transients:
        badges.append(Badge(f"{count_of(transients, 'test')} with transients", "doubt"))
    problems = [*known_results.problems]
    for run in runs:
        if run.unwritten:
            reason = f"its page is not written: {short(run.unwritten, 500)}"
            problems.append((run.path.name, reason))
    facts = _facts(tests, known_results.results)
    pages = {run.path.name: run.page for run in runs}
    return SessionView(
        title=_title(counted, known_results),
        counts=badges,
        facts=[(name, text) for name, text in facts if text],
        groups=_groups([test for test in tests if test.is_bad]),
        tests=tests,
        results=sorted({test.result for test in tests}),
        triages=sorted({test.triage for test in tests if test.triage}),
        problems=problems,
        reliability=reliability_rows(
            known_results.reliability,
            lambda name: pages.get(PureWindowsPath(name).name, ""),
        ),
    )


def _facts(
    tests: Sequence[TestLine], results: Sequence[ItemResult]
) -> Iterator[tuple[str, str]]:
    modes = Counter[str]()
    for test in tests:
        modes.update(test.modes)
        modes.update(_sum_of(run.modes for _, run in test.aside))
    triages = Counter(test.triage for test in tests if test.triage)
    dollars = [test.dollars for test in tests if test.dollars is not None]
    yield "tests", f"{sum(test.is_counted for test in tests)}"
    yield "not counted", _format_uncounted(tests)
    yield "steps", _format_counts(modes) or "none"
    yield "time", f"{sum(test.duration_s for test in tests):.0f} s"
    yield "cost", f"${sum(dollars):.4f}" if dollars else "none"
    yield "expect=None", checked_by_body(results).partition(": ")[2]
    yield "triage", _format_counts(triages)


def _format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def tone_of(result: str) -> Tone:
    """Return the colour of a test's result, or of how a run ended."""
    return RESULT_TONES.get(result) or _RUN_TONES.get(result, "plain")


def _title(tests: Sequence[TestLine], known_results: KnownResults) -> str:
    bad = sum(test.is_bad for test in tests)
    names = count_of(len(tests), "test")
    if bad:
        return f"{bad} of {names} did not pass"
    if known_results.is_partial:
        text = f"{names} listed did not fail" if tests else "no test is listed"
    else:
        text = f"{names}, none failed" if tests else "no test ran"
    if known_results.problems:
        problem = ": ".join(filter(None, known_results.problems[0]))
        text += "; but " if tests else ": "
        text += short(problem, _MAX_PROBLEM)
    if known_results.problems[1:]:
        text += f"; and {len(known_results.problems) - 1} more"
    return text


def _format_uncounted(tests: Sequence[TestLine]) -> str:
    """Format how many lines are not separate tests."""
    uncounted = [test.result for test in tests if not test.is_counted]
    rehearsals = uncounted.count(REHEARSAL)
    repeats = len(uncounted) - rehearsals
    parts = []
    if repeats:
        results = count_of(repeats, "more result")
        parts.append(f"{results} of tests that ran more than once")
    if rehearsals:
        parts.append(count_of(rehearsals, REHEARSAL))
    return ", ".join(parts)


def _sort_key(test: TestLine) -> tuple[int, str]:
    rank = len(_ORDER)
    if test.result in _ORDER:
        rank = _ORDER.index(test.result)
    return rank, test.started


def _groups(bad: Sequence[TestLine]) -> list[list[TestLine]]:
    """Return the tests that failed, those with the same difference or message together,
    the largest group first.
    """
    groups: dict[tuple[str, str], list[TestLine]] = {}
    for test in bad:
        key = ("message", _cause(test))
        if test.difference:
            key = ("difference", test.difference)
        groups.setdefault(key, []).append(test)
    return sorted(groups.values(), key=len, reverse=True)


def _cause(test: TestLine) -> str:
    """Return the message of a test without what differs from test to test: its name,
    numbers and paths.
    """
    path, colons, name = test.test.partition("::")
    file = path.rpartition("/")[2]
    message = test.message
    for test_name in (name, name.partition("[")[0]):
        message = message.replace(f"{file}{colons}{test_name}'", "…'")
    return _VARYING.sub("…", message)


def _tests(runs: Sequence[RunSummary], results: Sequence[ItemResult]) -> list[TestLine]:
    """Return the line of each result with its runs, by name as they may have moved,
    then those of the other runs.
    """
    unassigned: dict[str, list[RunSummary]] = {}
    for run in runs:
        unassigned.setdefault(run.path.name, []).append(run)
    times = Counter(result.test for result in results)
    counted: dict[str, ItemResult] = {}
    for result in results:
        other = counted.setdefault(result.test, result)
        if result.is_bad and not other.is_bad:
            counted[result.test] = result
    lines: list[TestLine] = []
    assigned: set[int] = set()
    for result in results:
        its_runs: list[RunSummary] = []
        for figures in result.runs:
            name = PureWindowsPath(figures.directory).name  # it takes / and \ alike
            if unassigned.get(name):
                its_runs.append(unassigned[name].pop(0))
        assigned.update(map(id, its_runs))
        line = _line_of_result(result, its_runs, times[result.test])
        lines.append(replace(line, is_counted=counted[result.test] is result))
    remaining = [run for run in runs if id(run) not in assigned]
    return [*lines, *map(_line_of_runs, runs_together(remaining))]


def runs_together(runs: Iterable[RunSummary]) -> list[list[RunSummary]]:
    """Return the runs, oldest first, as lists: each holds those of one test, with all
    its attempts and rehearsals.
    """
    together: list[list[RunSummary]] = []
    latest: dict[object, list[RunSummary]] = {}
    for run in runs:
        ended = run.ended
        key = (run.path.parent, ended.test, ended.worker) if ended else run.path
        group = latest.get(key)
        if group is None or ended is None or not _continues(group, ended):
            group = []
            latest[key] = group
            together.append(group)
        group.append(run)
    return together


def _continues(group: Sequence[RunSummary], ended: FinishedTest) -> bool:
    """Return whether a run belongs to the same test as the runs before it: an attempt
    after the first, for example.
    """
    if ended.is_rehearsal:
        return True
    before = [run.ended for run in group if run.ended and not run.ended.is_rehearsal]
    return bool(before) and (ended == before[-1] or ended.attempt > before[-1].attempt)


def _line_of_result(
    result: ItemResult, runs: Sequence[RunSummary], times: int
) -> TestLine:
    """Return the line of a test by its result in the session; `times` is the number of
    results of the same test.
    """
    attempt = len(result.retried_for) + 1
    last = [
        run
        for run in runs
        if _attempt_of(run) in (0, attempt) and not _is_rehearsal(run)
    ]
    message = result.message
    more = []
    if attempt > 1:
        more.append(f"attempt {attempt}")
    if result.is_unrepeated:
        more.append("its rehearsal did not repeat")
    if times > 1:
        more.append(f"one of {times} results of this test")
    missing = len(result.runs) - len(runs)
    if missing > 0:
        more.append(f"{missing} of its runs {'is' if missing == 1 else 'are'} missing")
    failures = [run.ended for run in last if run.ended and run.ended.is_bad]
    is_contradicted = bool(failures) and not result.is_bad
    if is_contradicted:
        failed = failures[0]
        message = f"the directory of its run has {failed.result}: {failed.message}"
        more.append(f"the result beside the runs is {short(result.result, 40)}")
    return TestLine(
        test=short(result.test, 500),
        result=short(result.result, 40),
        triage=short(result.triage or "", 40),
        rule=short(result.rule, 300),
        message=short(message),
        runs=last,
        aside=_aside(runs, last),
        duration_s=result.duration_s,
        dollars=result.dollars,
        started=_start_of(runs),
        more=", ".join(more),
        is_bad=result.is_bad or is_contradicted,
    )


def _line_of_runs(runs: Sequence[RunSummary]) -> TestLine:
    """Return the line of a test by what is stored in the directories of its runs."""
    attempts = [run for run in runs if not _is_rehearsal(run)]
    last = [run for run in attempts if _attempt_of(run) == _attempt_of(attempts[-1])]
    last = last or list(runs)
    run = last[-1]
    ended = run.ended
    result = run.result if attempts else REHEARSAL
    # each attempt counts once, also if it has several runs
    ends = {run.ended for run in runs if run.ended}
    unended = [run for run in runs if not run.ended]
    seconds = [end.seconds for end in ends] + [run.duration_s for run in unended]
    costs = [end.dollars for end in ends] + [run.dollars for run in unended]
    dollars = [cost for cost in costs if cost is not None]
    return TestLine(
        test=run.title,
        result=short(result, 40),
        triage=short(ended.triage, 40) if ended else "",
        rule=run.rule,
        message=short((ended.message if ended else "") or run.message),
        runs=last,
        aside=_aside(runs, last),
        duration_s=sum(seconds),
        dollars=sum(dollars) if dollars else None,
        started=_start_of(runs),
        more=f"attempt {ended.attempt}" if ended and ended.attempt > 1 else "",
        is_bad=result in _RUN_TONES or bool(attempts and ended and ended.is_bad),
        is_counted=bool(attempts),
    )


def _aside(
    runs: Sequence[RunSummary], last: Sequence[RunSummary]
) -> list[tuple[str, RunSummary]]:
    """Return the runs of earlier attempts and of rehearsals, each with a name for its
    kind.
    """
    named = []
    for run in runs:
        if not any(run is other for other in last):
            kind = "rehearsal" if _is_rehearsal(run) else f"attempt {_attempt_of(run)}"
            named.append((short(f"{kind}: {run.result}", 60), run))
    return named


def _start_of(runs: Sequence[RunSummary]) -> str:
    starts = [run.started_at for run in runs if run.started_at]
    return starts[0] if starts else ""


def _is_rehearsal(run: RunSummary) -> bool:
    """Return whether the run rehearsed a recording that the test had just made."""
    return run.ended is not None and run.ended.is_rehearsal


def _attempt_of(run: RunSummary) -> int:
    """Return the number of the attempt that made a run; 0 if no result is stored."""
    return run.ended.attempt if run.ended else 0
