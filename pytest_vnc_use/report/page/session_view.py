"""Many runs as the page of a session shows them: what failed first, and equal differences together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_vnc_use.report.page.model import Badge, Group, RunLine, SessionView, TestLine
from pytest_vnc_use.report.page.run_view import RESULT_TONES, ShownRun, outcome_word
from pytest_vnc_use.report.page.text import short
from pytest_vnc_use.report.phrases import Tone

_ORDER = ("failed", "error", "broke", "unreadable", "xpassed", "unfinished")
_OF_RUNS: dict[str, Tone] = {"broke": "bad", "unreadable": "bad", "unfinished": "bad", "done": "plain"}
_BAD = frozenset({"failed", "error", "broke", "unreadable", "unfinished"})
_VARYING = re.compile(r"\d[\d.,]*|0x[0-9a-f]+|'[^']*'|\"[^\"]*\"")


def session_view(shown: Sequence[tuple[ShownRun, str]], problems: Sequence[tuple[str, str]] = ()) -> SessionView:
    """Return the page of these runs, each with the address of its page. `problems` are folders that say nothing."""
    tests = sorted(_tests(shown), key=_place)
    counts = Counter(test.result for test in tests)
    dollars = [test.dollars for test in tests if test.dollars is not None]
    ways = Counter[str]()
    for test in tests:
        for run in test.runs:
            ways.update(run.ways)
    facts = [
        ("tests", f"{len(tests)}"),
        ("steps", ", ".join(f"{count} {way}" for way, count in ways.most_common()) or "none"),
        ("time", f"{sum(test.seconds for test in tests):.0f} s"),
        ("cost", f"${sum(dollars):.4f}" if dollars else "none"),
        ("triage", ", ".join(f"{n} {name}" for name, n in Counter(t.triage for t in tests if t.triage).most_common())),
    ]
    return SessionView(
        title=_title(tests),
        counts=[Badge(f"{count} {result}", _tone(result)) for result, count in counts.items()],
        facts=[(name, text) for name, text in facts if text],
        groups=_groups([test for test in tests if test.is_bad]),
        tests=tests,
        results=sorted(counts),
        triages=sorted({test.triage for test in tests if test.triage}),
        problems=problems,
    )


def _title(tests: Sequence[TestLine]) -> str:
    bad = sum(test.is_bad for test in tests)
    names = "1 test" if len(tests) == 1 else f"{len(tests)} tests"
    return f"{bad} of {names} did not pass" if bad else f"{names}, none failed"


def _tests(shown: Sequence[tuple[ShownRun, str]]) -> Iterable[TestLine]:
    """Yield a line for each time that a test was carried out: its runs have the same result."""
    together: dict[object, list[tuple[ShownRun, str]]] = {}
    for run, page in shown:
        together.setdefault(run.ended or run.path, []).append((run, page))
    for runs in together.values():
        yield _line(runs)


def _line(runs: Sequence[tuple[ShownRun, str]]) -> TestLine:
    last = runs[-1][0]
    ended, result = last.ended, outcome_word(last)
    lines = [run.line(page) for run, page in runs]
    more = [f"attempt {ended.attempt}"] if ended and ended.attempt > 1 else []
    more += ["rehearsal"] if ended and ended.is_rehearsal else []
    decided = next((run.difference for run in reversed(lines) if run.difference), "")
    return TestLine(
        test=last.view.test or short(last.view.task, 200) or last.view.run_id,
        result=result,
        badge=Badge(result, _tone(result)),
        triage=short(ended.triage, 40) if ended else "",
        rule=last.view.rule,
        message=_message(last),
        runs=lines,
        seconds=ended.seconds if ended else sum(run.seconds for run in lines),
        dollars=ended.dollars if ended else _sum(lines),
        started=last.trace.started.started_at if last.trace else "",
        more=", ".join(more),
        is_bad=result in _BAD,
        difference=decided,
    )


def _message(run: ShownRun) -> str:
    if run.ended and run.ended.message:
        return short(run.ended.message, 500)
    return short(run.view.problem or run.view.sentence, 500)


def _sum(lines: Sequence[RunLine]) -> float | None:
    known = [run.dollars for run in lines if run.dollars is not None]
    return sum(known) if known else None


def _tone(result: str) -> Tone:
    return RESULT_TONES.get(result) or _OF_RUNS.get(result, "plain")


def _place(test: TestLine) -> tuple[int, str]:
    return (_ORDER.index(test.result) if test.result in _ORDER else len(_ORDER)), test.started


def _groups(bad: Sequence[TestLine]) -> list[Group]:
    """Return the tests that failed, those with the same difference or message together, the largest group first."""
    together: dict[tuple[str, str], list[TestLine]] = {}
    for test in bad:
        key = ("difference", test.difference) if test.difference else ("message", _VARYING.sub("…", test.message))
        together.setdefault(key, []).append(test)
    return [Group(tests) for tests in sorted(together.values(), key=len, reverse=True)]
