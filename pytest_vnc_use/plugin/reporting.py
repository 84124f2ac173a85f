"""The report of a test's runs in pytest: each step as it happens, the pictures, the planner, the outcome.

A plugin, registered by on_demand.py.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.plugin import allure_report, attachments, begun_tests, html_report, session_results, triage
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.stash import (
    PLACE,
    PLAYWRIGHT_CALLS,
    REPORTED_DOLLARS,
    REPORTED_RUNS,
    RUNS,
    TRIAGE_OF_FAILURE,
    FailureTriage,
    desktop_of,
    is_ours,
)
from pytest_vnc_use.plugin.triage import give_back

if TYPE_CHECKING:
    from pytest_vnc_use.report.results import RunFigures
    from pytest_vnc_use.types import RunEvent, Step

PLANNER_PROPERTY, RUN_PROPERTY, PAGE_PROPERTY = "vnc_planner", "vnc_run", "vnc_page"


class ItemObserver:
    """An observer that shows a run's steps, and notes its planner and its place for the reports."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def observe(self, event: RunEvent) -> None:
        """Note the event on the test."""
        from pytest_vnc_use.types import FolderMade, RunEnded, RunStarted, StepFinished, StepStarted

        match event:
            case FolderMade(folder):
                begun_tests.note_run(self._item, folder)
            case RunStarted():
                self._item.user_properties.append((PLANNER_PROPERTY, event.planner))
                self._item.stash[PLACE] = "before the first step"
            case StepStarted():
                self._item.stash[PLACE] = f"at step {event.number}"
            case StepFinished():
                self._item.stash[PLACE] = f"after step {event.step.number}"
                _show(self._item, event.step)
            case RunEnded() if not event.error:
                self._item.stash[PLACE] = ""
            case _:
                pass  # the run folder keeps the other events; pytest's reports do not show them


def _show(item: pytest.Item, step: Step) -> None:
    """Show a step as it happens, with -v."""
    terminal = item.config.pluginmanager.get_plugin("terminalreporter")
    capture = item.config.pluginmanager.get_plugin("capturemanager")
    if terminal is None or capture is None or item.config.get_verbosity() < 1:
        return
    from pytest_vnc_use.runs.transcript import step_line

    with capture.global_and_fixture_disabled():
        terminal.ensure_newline()
        terminal.write_line(f"  {step_line(step)}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put every step's picture into pytest-html's report, if there is one, and the runs' results into all reports."""
    report = yield
    if not is_ours(item):
        return report
    give_back(item, call)
    _keep_outage(item, call, report)
    triage.find_out_late(item, call, report)
    # the report on the call includes the runs of a setup that passed
    figures = [] if call.when == "setup" and report.passed else _new_figures(item)
    runs = [Path(run.folder) for run in figures]
    if runs:
        _keep_logs(item, runs, report)
        allure_report.add_steps(item.config, runs)
    if runs and item.config.getoption("htmlpath", None):
        html_report.add_extras(
            report, item.config, runs, found.message if (found := item.stash.get(TRIAGE_OF_FAILURE, None)) else ""
        )
    _note_what_it_came_to(item, report, figures)
    return report


def _keep_outage(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Report an outage or a wrong setting as a failure, also of a test that was expected to fail.

    The product did not fail there. The test stays an expected failure if the mark names such an error.
    """
    reason, found = getattr(report, "wasxfail", None), item.stash.get(TRIAGE_OF_FAILURE, None)
    if reason is None or not report.skipped or found is None or found.triage not in ("infra", "settings"):
        return
    from pytest_vnc_use.errors import InfraError, SettingsError

    expected = any(issubclass(kind, (InfraError, SettingsError)) for kind in triage.xfail_classes(item))
    if not expected and not (call.excinfo and triage.is_named_by_xfail(item, call.excinfo.value)):
        report.outcome = "failed"
        del report.wasxfail
        report.sections.append(("xfail", f"{reason or 'expected to fail'}; but the product did not cause this failure"))


def _new_figures(item: pytest.Item) -> list[RunFigures]:
    """Return the runs that no report contains yet, or only in an older state, such as without the last verdict."""
    from pytest_vnc_use.report.results import figures_of

    reported = item.stash.setdefault(REPORTED_RUNS, {})
    now = [figures_of(run) for run in item.stash.get(RUNS, [])]
    new = [run for run in now if reported.get(run.folder) != run]
    reported.update((run.folder, run) for run in new)
    return new


def _note_what_it_came_to(item: pytest.Item, report: pytest.TestReport, figures: list[RunFigures]) -> None:
    """Add the results to the test's properties, also for JUnit's XML, and attach them for the session's results."""
    from pytest_vnc_use.runs.folder import to_json

    properties: list[tuple[str, object]] = []
    found = _triage_of(item, report)
    if found and session_results.TRIAGE not in dict(item.user_properties):
        properties += [(session_results.TRIAGE, found.triage), (session_results.RULE, found.rule)]
    known = {value for name, value in item.user_properties if name == RUN_PROPERTY}
    new = [run for run in figures if run.folder not in known]
    properties += [("vnc_outcome", run.outcome) for run in new] + [(RUN_PROPERTY, run.folder) for run in new]
    properties += [(PAGE_PROPERTY, str(Path(run.folder, "index.html"))) for run in new]
    item.user_properties += properties
    report.user_properties += properties
    attachments.attach(report, to_json(figures), _dollars_since(item), found.message if found else "")


def _triage_of(item: pytest.Item, report: pytest.TestReport) -> FailureTriage | None:
    """Return the triage that a report shows; None for an expected failure of the product."""
    if report.failed:
        return item.stash.get(TRIAGE_OF_FAILURE, _PASSED_THOUGH_XFAIL)
    found = item.stash.get(TRIAGE_OF_FAILURE, None)
    if found:
        del item.stash[TRIAGE_OF_FAILURE]  # a failure that comes after it is another
    return found if found and found.triage != "product" else None


def _dollars_since(item: pytest.Item) -> float | None:
    """Return the cost of the test since its last report."""
    dollars: float | None = dict(item.user_properties).get(session_results.DOLLARS)  # type: ignore[assignment]
    if dollars is None:
        return None
    before = item.stash.get(REPORTED_DOLLARS, 0.0)
    item.stash[REPORTED_DOLLARS] = dollars
    return dollars - before


_PASSED_THOUGH_XFAIL = FailureTriage("inconclusive", "the test passed, and was expected to fail", "")


def _keep_logs(item: pytest.Item, runs: list[Path], report: pytest.TestReport) -> None:
    """Put the output of the desktop's processes into the test's run folders, before the report reads them."""
    from pytest_vnc_use.runs.program_logs import keep_logs
    from pytest_vnc_use.triage.failure_text import sanitize

    # a user's own vnc_desktop may have no logs
    logs_of = getattr(desktop_of(item), "logs", dict)
    try:
        calls = item.stash.get(PLAYWRIGHT_CALLS, [])
        texts = {**logs_of(), "playwright": "\n".join(calls)}
        logs = {role: sanitize(text, secrets_of(item.config).hide) for role, text in texts.items()}
        for run in runs:
            keep_logs(run, logs)
    except Exception as exc:  # noqa: BLE001  # a user's own vnc_desktop may raise anything, and that would end pytest
        report.sections.append(("desktop's logs", f"not kept: {sanitize(str(exc), secrets_of(item.config).hide)}"))


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugins for triage, for the session's results and for pytest-html's report."""
    config.pluginmanager.register(triage, "vnc_use_triage")
    config.pluginmanager.register(session_results, "vnc_use_session_results")
    config.pluginmanager.register(html_report, "vnc_use_html_report")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the planners: a model, or a script."""
    from pytest_vnc_use.plain_text import line

    run_in = {
        run["folder"]: run
        for reports in terminalreporter.stats.values()
        for report in reports
        for run in attachments.runs_attached_to(report)
        if run["planner"]
    }
    planners = [run["planner"] for run in run_in.values()]
    for planner in sorted(set(planners)):
        count = planners.count(planner)
        terminalreporter.write_line(line(f"vnc-use: {count} {'run' if count == 1 else 'runs'} planned by {planner}"))
