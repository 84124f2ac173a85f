"""The results of a session for a user: lines for a terminal, and a Markdown table for a
job summary on GitHub.
"""

from __future__ import annotations

import os
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from pytest_vnc_use.files import reason_of
from pytest_vnc_use.report.results import ItemResult, SessionResults
from pytest_vnc_use.types import TRIAGES

_MAX_ROWS = 100
_MAX_CELL = 300
_ESCAPED = str.maketrans({mark: "\\" + mark for mark in string.punctuation})


def lines(results: SessionResults) -> Iterator[str]:
    """Yield lines such as `5 failed: 2 product, 1 agent, 2 infra`, also on unrepeated
    recordings and on retries.
    """
    bad = [test for test in results.tests if test.is_bad]
    if bad:
        triages = [test.triage or "" for test in bad]
        yield f"{len(bad)} failed: {_counts(triages)}"
    excused = [
        test.triage
        for test in results.tests
        if test.result == "xfailed" and test.triage
    ]
    if excused:
        yield (
            f"{len(excused)} expected to fail, and did, but not for the product:"
            f" {_counts(excused)}"
        )
    unrepeated = [test for test in results.tests if test.is_unrepeated]
    if unrepeated:
        yield f"{len(unrepeated)} recorded, but did not repeat"
    if by_body := checked_by_body(results.tests):
        yield by_body
    retried = [test.retried_for for test in results.tests if test.retried_for]
    if retried:
        attempts = [*chain.from_iterable(retried)]
        yield f"{len(retried)} tried again: {_counts(attempts)}"


def checked_by_body(tests: Sequence[ItemResult]) -> str:
    """Return which tests passed by a task with `expect=None`, the first 10 by name, with
    the number of their parameter sets; "" if there is none.
    """
    names = [
        test.test
        for test in tests
        if test.result == "passed" and "body" in test.checked_by
    ]
    if not names:
        return ""
    sets: dict[str, list[str]] = {}
    for name in names:
        sets.setdefault(name.partition("[")[0], []).append(name)
    shown = []
    for test, ids in sets.items():
        shown.append(f"{test} ({len(ids)} sets)" if ids[1:] else ids[0])
    text = f"{len(names)} checked by the test's body alone (expect=None):"
    text += f" {', '.join(shown[:10])}"
    if shown[10:]:
        text += f" and {len(shown) - 10} more, see checked_by in the results"
    return text


def _counts(triages: Sequence[str]) -> str:
    counts = Counter(triages)
    others = sorted(set(counts).difference(TRIAGES))
    parts = [
        f"{counts[triage]} {triage}".strip()
        for triage in (*TRIAGES, *others)
        if counts[triage]
    ]
    return ", ".join(parts)


def markdown(results: SessionResults) -> str:
    """Return a heading, the counts, and a row for each test that failed.

    Text of a test or a model is never markup in it. Only the first 100 tests get a row;
    the others are counted.
    """
    counts = [f"{count} {result}" for result, count in results.totals.results.items()]
    paragraph = [", ".join(counts) or "no tests", *lines(results), *_takeovers(results)]
    paragraph += map(cell, results.problems[:_MAX_ROWS])
    rows = ["### Tests of graphical programs", ""]
    rows += [f"{line}  " for line in paragraph]
    rows.append("")
    bad = [test for test in results.tests if test.is_bad]
    if bad:
        rows.append("| test | triage | why | steps | tokens |")
        rows.append("|---|---|---|---:|---:|")
        rows += map(_row, bad[:_MAX_ROWS])
    if bad[_MAX_ROWS:]:
        rows += ["", f"and {len(bad) - _MAX_ROWS} more"]
    return "\n".join([*rows, ""])


def _takeovers(results: SessionResults) -> Iterator[str]:
    """Yield how many tests continued with a model after a drift, and how many of these
    were healed.
    """
    healed = sum(bool(test.healed) for test in results.tests)
    continued = sum(bool(test.not_healed) and not test.healed for test in results.tests)
    if healed:
        yield f"{healed} healed"
    if continued:
        yield (
            f"{continued} not healed: a model continued after a drift, and the test did"
            " not pass"
        )


def append_job_summary(results: SessionResults) -> Iterator[str]:
    """Append the results to the file that GitHub shows for a job's step, if there is
    one; yield why it could not.
    """
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        try:
            with open(path, "a", encoding="utf-8", errors="replace") as file:
                file.write(markdown(results))
        except OSError as exc:
            yield (
                f"the job summary for GitHub, GITHUB_STEP_SUMMARY={path!r}, cannot be"
                f" written: {reason_of(exc)}"
            )


def _row(test: ItemResult) -> str:
    steps = sum(run.steps for run in test.runs)
    tokens = sum(
        run.usage.input + run.usage.output + run.usage.thinking for run in test.runs
    )
    cells = [test.test, test.triage or "", test.message, f"{steps}", f"{tokens}"]
    return f"| {' | '.join(map(cell, cells))} |"


def cell(text: str) -> str:
    """Return the text on one line, with every mark escaped that might be Markdown."""
    line = " ".join(text.split())
    short_line = line if len(line) <= _MAX_CELL else line[:_MAX_CELL] + "…"
    return short_line.translate(_ESCAPED)
