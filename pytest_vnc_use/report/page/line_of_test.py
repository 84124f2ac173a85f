"""The line of one test on the page of a session, from its result in the session or from the results of its runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from pytest_vnc_use.report.page.model import Badge, RunLine, TestLine
from pytest_vnc_use.report.page.run_view import DID_NOT_END, RESULT_TONES, RunPage, outcome_word
from pytest_vnc_use.report.page.runs_of_tests import PagedRun, attempt_of, is_rehearsal
from pytest_vnc_use.report.page.text import short
from pytest_vnc_use.report.phrases import Tone
from pytest_vnc_use.report.results import ItemResult

_OF_RUNS: dict[str, Tone] = {"broke": "bad", "unreadable": "bad", "unfinished": "bad", DID_NOT_END: "bad"}
REHEARSAL = "rehearsal"
"""The result of a line for a rehearsal whose test is not here."""
_LARGEST = 1e9


def line_of_result(result: ItemResult, pages: Sequence[PagedRun], of: int = 1) -> TestLine:
    """Return the line of a test with its result in the session; `pages` are the runs of it that are there.

    `of` is the number of results that sessions or shards have of the same test.
    """
    attempt = len(result.retried_for) + 1
    last = [each for each in pages if attempt_of(each[0]) in (0, attempt) and not is_rehearsal(each[0])]
    more = [f"attempt {attempt}"] if attempt > 1 else []
    more += ["its rehearsal did not repeat"] if result.is_unrepeated else []
    more += [f"one of {of} results of this test"] if of > 1 else []
    gone = len(result.runs) - len(pages)
    more += [f"{gone} of its runs {'is' if gone == 1 else 'are'} not here"] if gone > 0 else []
    failed = "" if result.is_bad else _failed_in_folder([run for run, _ in last])
    more += [f"the result beside the runs says {short(result.result, 40)}"] if failed else []
    runs = [run.line(page) for run, page in last]
    return TestLine(
        test=short(result.test, 500),
        result=short(result.result, 40),
        badge=Badge(short(result.result, 40), tone_of(result.result)),
        triage=short(result.triage or "", 40),
        rule=short(result.rule, 300),
        message=short(failed or result.message),
        runs=runs,
        aside=_aside(pages, last),
        duration_s=_valid(result.duration_s) or 0.0,
        dollars=_valid(result.dollars),
        started=_start_of(pages),
        more=", ".join(more),
        is_bad=result.is_bad or bool(failed),
        difference=_difference(runs),
    )


def _failed_in_folder(last: Iterable[RunPage]) -> str:
    """Return a sentence if the folder of one of the last runs says that the test failed; else ""."""
    ended = next((run.ended for run in last if run.ended and run.ended.is_bad), None)
    return f"the folder of its run says {ended.result}: {ended.message}" if ended else ""


def line_of_runs(pages: Sequence[PagedRun]) -> TestLine:
    """Return the line of a test by what is written in the folders of its runs."""
    tried = [each for each in pages if not is_rehearsal(each[0])]
    last = [each for each in tried if attempt_of(each[0]) == attempt_of(tried[-1][0])] or list(pages)
    run = last[-1][0]
    ended, result = run.ended, outcome_word(run) if tried else REHEARSAL
    runs = [run.line(page) for run, page in last]
    return TestLine(
        test=run.view.test or short(run.view.task, 200) or run.view.run_id,
        result=short(result, 40),
        badge=Badge(short(result, 40), tone_of(result)),
        triage=short(ended.triage, 40) if ended else "",
        rule=run.view.rule,
        message=_message(run),
        runs=runs,
        aside=_aside(pages, last),
        duration_s=_seconds(pages),
        dollars=_dollars(pages),
        started=_start_of(pages),
        more=f"attempt {ended.attempt}" if ended and ended.attempt > 1 else "",
        is_bad=result in _OF_RUNS or bool(tried and ended and ended.is_bad),
        is_counted=bool(tried),
        difference=_difference(runs),
    )


def tone_of(result: str) -> Tone:
    """Return the colour of a test's result, or of how a run ended."""
    return RESULT_TONES.get(result) or _OF_RUNS.get(result, "plain")


def _aside(pages: Sequence[PagedRun], last: Sequence[PagedRun]) -> list[tuple[str, RunLine]]:
    """Return the runs of earlier attempts and of rehearsals, each with a name for its kind."""
    named = []
    for each in pages:
        if each not in last:
            run, page = each
            kind = "rehearsal" if is_rehearsal(run) else f"attempt {attempt_of(run)}"
            named.append((short(f"{kind}: {outcome_word(run)}", 60), run.line(page)))
    return named


def _difference(runs: Sequence[RunLine]) -> str:
    return next((run.difference for run in reversed(runs) if run.difference), "")


def _start_of(pages: Sequence[PagedRun]) -> str:
    return next((run.trace.started.started_at for run, _ in pages if run.trace), "")


def _message(run: RunPage) -> str:
    if run.ended and run.ended.message:
        return short(run.ended.message)
    return short(run.view.problem or run.view.sentence)


def _seconds(pages: Sequence[PagedRun]) -> float:
    """Return the seconds of all attempts: each counts once, also if it has several runs."""
    attempts = {run.ended for run, _ in pages if run.ended}
    rest = sum(run.line("").duration_s for run, _ in pages if not run.ended)
    return sum(attempt.seconds for attempt in attempts) + rest


def _dollars(pages: Sequence[PagedRun]) -> float | None:
    of_attempts = [ended.dollars for ended in {run.ended for run, _ in pages if run.ended}]
    rest = (run.line("").dollars for run, _ in pages if not run.ended)
    known = [each for each in (*of_attempts, *rest) if each is not None]
    return sum(known) if known else None


def _valid(number: float | None) -> float | None:
    """Return a number, or None for one that cannot be, such as nan: results may come from anybody."""
    return number if number is not None and math.isfinite(number) and 0 <= number < _LARGEST else None
