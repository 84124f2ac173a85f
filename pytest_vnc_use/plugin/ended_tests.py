"""The result of a test in the folders of its runs, and the pictures that `--vnc-artifacts` does not keep.

A plugin, registered by on_demand.py.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.plugin import attachments, begun_tests, session_results
from pytest_vnc_use.plugin.recordings import REHEARSAL
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.stash import RUNS, SETTINGS, is_ours

if TYPE_CHECKING:
    from pytest_vnc_use.runs.ended_test import EndedTest


@dataclass
class _Attempt:
    """One attempt at a test: its reports so far. `decided` is the first that is bad, or else the one on the call."""

    number: int
    duration_s: float = 0.0
    decided: pytest.TestReport | None = field(default=None, repr=False)

    def add(self, report: pytest.TestReport) -> None:
        """Add the report on one phase."""
        self.duration_s += report.duration
        decides = report.failed or report.when == "call" or report.skipped
        if decides and (self.decided is None or (report.failed and not self.decided.failed)):
            self.decided = report


_ATTEMPT = pytest.StashKey[_Attempt]()


def _attempts_before(item: pytest.Item) -> int:
    """Return the number of attempts before this one: here, and on a worker that died."""
    return item.stash[_ATTEMPT].number if _ATTEMPT in item.stash else begun_tests.crashed_attempt(item)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note on a worker which tests have a desktop."""
    begun_tests.note_collected(session.config, (item.nodeid for item in session.items if is_ours(item)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note on a worker that the test has begun, in case its setup ends the worker."""
    if is_ours(item):
        begun_tests.note_test(item, _attempts_before(item) + 1)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note each report; after the last one write the result into the folders of the test's runs."""
    if not is_ours(item):
        return (yield)
    if call.when == "setup":
        item.stash[_ATTEMPT] = _Attempt(1 if REHEARSAL in item.stash else _attempts_before(item) + 1)
    # a rehearsal, within the yield, has notes and runs of its own
    attempt, runs = item.stash.get(_ATTEMPT, _Attempt(1)), [*item.stash.get(RUNS, ())]
    report = yield
    item.stash[_ATTEMPT] = attempt
    attempt.add(report)
    if call.when == "teardown" and runs:
        _write(item, attempt, runs, report)
    return report


def _write(item: pytest.Item, attempt: _Attempt, runs: list[Path], report: pytest.TestReport) -> None:
    from pytest_vnc_use.errors import RunFolderUnwritable
    from pytest_vnc_use.runs.ended_test import write_ended_test
    from pytest_vnc_use.runs.tidying import drop_pictures

    ended = _result_of(item, attempt, report)
    mode = item.config.stash[SETTINGS].artifacts
    if mode == "off" or (mode == "retain-on-failure" and not ended.is_bad):
        ended = replace(ended, pictures=f"not kept: --vnc-artifacts={mode}")
    for run in filter(Path.is_dir, dict.fromkeys(runs)):
        try:
            if ended.pictures:
                drop_pictures(run)
            write_ended_test(run, ended)
        except (OSError, RunFolderUnwritable) as exc:
            report.sections.append(("run folder", f"the test's result is not in it: {exc}"))


def _result_of(item: pytest.Item, attempt: _Attempt, last: pytest.TestReport) -> EndedTest:
    from pytest_vnc_use.runs.ended_test import EndedTest
    from pytest_vnc_use.triage.failure_text import sanitize

    decided, hide = attempt.decided or last, secrets_of(item.config).hide
    properties = dict(decided.user_properties)
    triage = str(properties.get(session_results.TRIAGE, ""))
    return EndedTest(
        test=item.nodeid,
        result=session_results.result_of(decided),
        phase=decided.when or "call",
        triage=triage,
        rule=str(properties.get(session_results.RULE, "")),
        message=sanitize(str(attachments.attached_to(decided)["message"]), hide),
        failure=sanitize(decided.longreprtext, hide) if decided.failed or hasattr(decided, "wasxfail") else "",
        attempt=attempt.number,
        worker=getattr(item.config, "workerinput", {}).get("workerid", ""),
        seconds=round(attempt.duration_s, 3),
        dollars=dict(last.user_properties).get(session_results.DOLLARS),  # type: ignore[arg-type]
        is_rehearsal=REHEARSAL in item.stash,
    )
