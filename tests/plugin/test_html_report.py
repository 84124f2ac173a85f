"""A self-contained report of pytest-html stays small: past its limit, tests that passed keep thumbnails alone."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_vnc_use.plugin import html_report
from pytest_vnc_use.plugin.html_report import _SizeOfReport
from pytest_vnc_use.plugin.results import _TriageColumn

HALF = "x" * 500_000


def report(content: str, small: str | None = None) -> Any:
    """Return the last report of a test that passed."""
    extras = [{"content": content, **({} if small is None else {"vnc_small": small})}]
    return SimpleNamespace(extras=extras, nodeid="test_it.py::test_it", when="teardown", passed=True)


def test_below_the_limit_everything_stays() -> None:
    size, passed = _SizeOfReport(1), report(HALF, "small")
    size.pytest_runtest_logreport(passed)
    assert passed.extras == [{"content": HALF}]
    head: list[str] = []
    size.pytest_html_results_summary(head)
    assert head == []


def test_past_the_limit_earlier_and_later_tests_that_passed_are_reduced_and_no_others() -> None:
    size = _SizeOfReport(1)
    reports = [report(HALF, "small"), report(HALF), report(HALF, "small"), report("", "small"), report(HALF)]
    for each in reports:
        size.pytest_runtest_logreport(each)
    assert [each.extras[0]["content"] for each in reports] == ["small", HALF, "small", "small", HALF]
    head: list[str] = []
    size.pytest_html_results_summary(head)
    assert re.search("larger than 1 MB .* The 3 runs of tests that passed have thumbnails only", head[0])


def test_a_limit_of_0_is_none() -> None:
    size, passed = _SizeOfReport(0), report(HALF * 10)
    size.pytest_runtest_logreport(passed)
    assert passed.extras == [{"content": HALF * 10}]


def test_a_test_that_failed_in_its_teardown_keeps_its_pictures() -> None:
    size = _SizeOfReport(megabytes=1)
    kept: dict[str, dict[str, str]] = {}
    for name, end in (("broken", "failed"), ("good", "passed")):
        kept[name] = {"content": "x" * 2_000_000, html_report._SMALL: "thumbnails"}
        for when, outcome in (("call", "passed"), ("teardown", end)):
            part: Any = pytest.TestReport(name, ("", 0, ""), {}, outcome, None, when)  # type: ignore[arg-type]
            part.extras = [kept[name]] if when == "call" else []
            size.pytest_runtest_logreport(part)
    assert len(kept["broken"]["content"]) == 2_000_000
    assert kept["good"]["content"] == "thumbnails"


def test_a_property_of_the_test_is_no_markup_in_the_columns() -> None:
    attached = {"triage": "<script>alert(1)</script>", "dollars": 0.5}
    cells = ["<td>Failed</td>", "<td>test_it</td>", "<td>1 s</td>"]
    failed: Any = SimpleNamespace(outcome="failed", vnc=attached)
    _TriageColumn().pytest_html_results_table_row(failed, cells)
    assert cells[2:4] == [
        '<td class="col-triage">&lt;script&gt;alert(1)&lt;/script&gt;</td>',
        '<td class="col-cost">$0.5000</td>',
    ]
    heads = ["<th>Result</th>", "<th>Test</th>", "<th>Duration</th>"]
    _TriageColumn().pytest_html_results_table_header(heads)
    assert heads[2] == '<th class="sortable" data-column-type="triage">Triage</th>'
