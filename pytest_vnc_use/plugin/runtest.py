"""One test with a desktop, from its setup to its last report: its tasks, its body, its
runs and its result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import SkipTest

import pytest

from pytest_vnc_use.agent import build
from pytest_vnc_use.errors import (
    RecordingDrifted,
    RunDirectoryUnwritable,
    TaskFailed,
)
from pytest_vnc_use.plugin import costs, ending, failures, markers
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.state import (
    ATTACHED,
    SETTINGS,
    FailureTriage,
    ItemState,
    attached_to,
    begin_attempt,
    desktop_of,
    needs_desktop,
    notes_as_properties,
    result_of,
    state_of,
    without_notes,
    workerinput_of,
)
from pytest_vnc_use.plugin.tasks import TaskSpec
from pytest_vnc_use.report.results import RunFigures, figures_of
from pytest_vnc_use.runs.directory import (
    DRAFT_FILE,
    FinishedTest,
    drop_screenshots,
    keep_logs,
    to_json,
    write_finished_test,
)
from pytest_vnc_use.settings.layers import merge
from pytest_vnc_use.triage import rule_for, sanitize
from pytest_vnc_use.types import Limits

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent
    from pytest_vnc_use.recordings.record import RecordedTest

_UNEXPECTED_PASS = FailureTriage(
    "inconclusive", "the test passed, and was expected to fail", ""
)

_SKIPS = (pytest.skip.Exception, pytest.xfail.Exception, SkipTest)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget the notes of earlier attempts at the test."""
    if needs_desktop(item):
        begin_attempt(item)


def run_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run the marker's tasks, then the test's body, and end the call. The plugin's hook
    `pytest_runtest_call` (`plugin/__init__.py`) delegates to it.

    A drift at the end of the last task waits for the body, whose assertion comes first.
    """
    markers.check(item)
    agent = getattr(item, "funcargs", {}).get("vnc_agent")
    drift: RecordingDrifted | None = None
    add_section = functools.partial(item.add_report_section, "call", "checks")
    try:
        with soft_checks(agent, add_section):
            if agent is not None:
                tasks = markers.tasks_of(item)
                drift = run_tasks(agent, tasks, state_of(item).recorded_test)
            result = yield
            # the body may have added one, whose task was not performed
            markers.check(item)
    except BaseException as exc:
        if drift is None:
            raise
        if not _is_outranked(exc):
            item.add_report_section("call", "drift", str(drift))
            raise
        text = f"{type(exc).__name__}: {exc}"
        item.add_report_section("call", "error of the test's body", text)
        raise drift from exc
    if drift:
        raise drift
    ending.end_call(item)
    return result


def _is_outranked(error: BaseException) -> bool:
    """Return whether a drift at the end is reported instead of the error of a test's
    body: a skip, an xfail, or an unsure verdict. What ends the session is always
    reported.
    """
    if isinstance(error, _SKIPS):
        return True
    if isinstance(error, pytest.exit.Exception):
        return False
    if not isinstance(error, (Exception, pytest.fail.Exception)):
        return False
    return rule_for(error).triage == "inconclusive"


def run_tasks(
    agent: VncUseAgent,
    specs: Sequence[TaskSpec],
    recorded_test: RecordedTest | None = None,
) -> RecordingDrifted | None:
    """Run and judge one task after the other, up to the first that fails. Raises the
    errors of `VncUseAgent.run`.

    If the last one drifts only at its end, return its error instead: the test's body
    can still show what is wrong.
    """
    if recorded_test:
        recorded_test.queue_tasks(len(specs))
    for number, spec in enumerate(specs, 1):
        is_last = number == len(specs)
        of_session = vars(agent.settings)
        settings = merge((of_session, str), (spec.settings, str))
        policy = None
        if "policy" in spec.settings:
            policy = build.build_policy(settings, ask=agent.can_ask)
        try:
            agent.run(
                spec.task,
                expect=None if spec.body_checks else spec.expect,
                limits=Limits(settings.max_steps, settings.max_seconds),
                policy=policy,
                votes=settings.votes,
                recording=spec.recording,
                values=spec.values,
            )
        except RecordingDrifted as drift:
            if drift.at_end and is_last:
                return drift
            raise
    return None


@contextmanager
def soft_checks(agent: object, add_section: Callable[[str], None]) -> Iterator[None]:
    """At the end of the test, raise the failure of the agent's soft checks, even
    instead of a skip.

    If the test ends by another error, pass the failed checks to `add_section`, so that
    the report shows them too.
    """
    # a custom agent may have no checks
    unmet: Callable[[], TaskFailed | None] = getattr(agent, "unmet", lambda: None)
    try:
        yield
    except (pytest.skip.Exception, SkipTest) as skipped:
        if failure := unmet():
            raise failure from skipped
        raise
    except BaseException:
        if failure := unmet():
            add_section(str(failure))
        raise
    if failure := unmet():
        raise failure


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item,
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Complete each report, outermost, where the outcome is final; failures.py has found
    what a failure means.
    """
    report = yield
    if not needs_desktop(item):
        return report
    state = state_of(item)
    failures.complete(item, call, report)
    figures: list[RunFigures] = []
    # the report on the call includes the runs of a setup that passed
    if report.when != "setup" or not report.passed:
        figures = _new_figures(state)
    runs = [Path(run.directory) for run in figures]
    if runs:
        _keep_logs(item, runs, report)
    message = _note_failure(state, report)
    _note_runs(state, figures)
    if report.when == "call":
        ending.note_call(state, report)
    ending.note_recording(state, report)
    _attach(item, report, figures, message)
    ended = _result_so_far(item, report)
    if state.video:
        ended = state.video.end(ended, report.when or "call")
        if report.when == "teardown":
            # pytest keeps the item to the session's end, and with it the screens
            state.video = None
    _show_runs(item, report, runs, ended)
    if report.when == "teardown":
        _keep_result(item, report, ended)
    return report


def _new_figures(state: ItemState) -> list[RunFigures]:
    """Return the runs that no report contains yet, or only in an older state, for
    example without the last verdict.
    """
    reported = state.reported.runs
    new = []
    for run_dir in state.runs or ():
        run = figures_of(run_dir)
        if reported.get(run.directory) != run:
            reported[run.directory] = run
            new.append(run)
    return new


def _keep_logs(
    item: pytest.Item,
    runs: list[Path],
    report: pytest.TestReport,
) -> None:
    """Put the output of the desktop's processes into the test's run directories, before
    the report reads them.
    """
    hide = secrets_of(item.config).hide
    # a custom vnc_desktop may have no logs
    logs_of = getattr(desktop_of(item), "logs", dict)
    try:
        logs = dict(logs_of())
        logs["playwright"] = "\n".join(state_of(item).playwright_calls)
        for role, text in logs.items():
            logs[role] = sanitize(text, hide)
        for run in runs:
            keep_logs(run, logs)
    except Exception as exc:  # noqa: BLE001  # a custom vnc_desktop may raise anything, which would end pytest
        problem = f"not kept: {sanitize(str(exc), hide)}"
        report.sections.append(("desktop's logs", problem))


def _note_failure(state: ItemState, report: pytest.TestReport) -> str:
    """Note the triage of a test's first failure, and return the message for this
    report.
    """
    failure = state.reported.failure
    if report.failed:
        failure = failure or _UNEXPECTED_PASS
    else:  # a failure that comes after it is another
        state.reported.failure = None
        if failure and failure.triage == "product":
            failure = None
    if failure is None:
        return ""
    if "triage" not in state.notes:
        state.notes["triage"] = failure.triage
        state.notes["rule"] = failure.rule
    return failure.message


def _note_runs(state: ItemState, figures: list[RunFigures]) -> None:
    """Note each run once: its outcome, its directory, its page."""
    noted = state.notes.get("run", ())
    for run in figures:
        if run.directory in noted:
            continue
        page = Path(run.directory, "index.html")
        state.add_note("outcome", run.outcome)
        state.add_note("run", run.directory)
        state.add_note("page", str(page))


def _attach(
    item: pytest.Item,
    report: pytest.TestReport,
    figures: list[RunFigures],
    message: str,
) -> None:
    """Attach what the session's results need, and add the same to JUnit's XML as
    properties.
    """
    state = state_of(item)
    state.notes |= costs.notes_of(state)
    dollars_since = None
    if "dollars" in state.notes:
        dollars = state.notes["dollars"]
        dollars_since = dollars - state.reported.dollars
        state.reported.dollars = dollars
    attached = {
        **state.notes,
        "runs": [*to_json(figures), *state.rehearsed.runs],
        "rehearsals": state.rehearsed.figures,
        "transient_regions": to_json(state.transient_regions),
        "dollars_since": dollars_since,
        "message": message,
        "attempt": state.attempt,
    }
    setattr(report, ATTACHED, attached)
    for properties in (item.user_properties, report.user_properties):
        others = without_notes(properties, state)
        properties[:] = [*others, *notes_as_properties(state)]


def _result_so_far(item: pytest.Item, report: pytest.TestReport) -> FinishedTest:
    """Note the report, and return the test's result by its reports so far."""
    state = state_of(item)
    state.reported.duration_s += report.duration
    deciding = _deciding(state, report)
    attached = attached_to(deciding)
    hide = secrets_of(item.config).hide
    worker = workerinput_of(item.config)
    failure = ""
    if deciding.failed or hasattr(deciding, "wasxfail"):
        failure = sanitize(deciding.longreprtext, hide)
    return FinishedTest(
        test=item.nodeid,
        result=result_of(deciding),
        phase=deciding.when or "call",
        triage=str(attached.get("triage", "")),
        rule=str(attached.get("rule", "")),
        message=sanitize(str(attached["message"]), hide),
        failure=failure,
        attempt=state.attempt,
        worker=worker.get("workerid", ""),
        seconds=round(state.reported.duration_s, 3),
        dollars=state.notes.get("dollars"),
        is_rehearsal=state.rehearsal is not None,
    )


def _deciding(state: ItemState, report: pytest.TestReport) -> pytest.TestReport:
    """Return the report that decides so far: the first that failed, else the one on the
    call, or on a skip.
    """
    former = state.reported.decided
    if former is None:
        decides = report.failed or report.skipped or report.when == "call"
    else:
        decides = report.failed and not former.failed
    if decides:
        state.reported.decided = report
    return state.reported.decided or report


def _show_runs(
    item: pytest.Item,
    report: pytest.TestReport,
    runs: list[Path],
    ended: FinishedTest,
) -> None:
    """Show the test's runs in the reports of other plugins, if one is written."""
    state = state_of(item)
    shown = [*runs, *state.rehearsed.unrepeated_runs]
    if state.rehearsal or not shown:
        return
    reporting = item.config.pluginmanager.get_plugin("vnc_use_reporting")
    if reporting:
        reporting.add_runs(item, report, shown, ended)


def _keep_result(
    item: pytest.Item,
    report: pytest.TestReport,
    ended: FinishedTest,
) -> None:
    """Write the test's result into the directories of its runs, and the page of each."""
    mode = item.config.stash[SETTINGS].artifacts
    is_kept = mode != "off"
    if mode == "retain-on-failure":
        is_kept = ended.is_bad
    if not is_kept:
        ended = replace(ended, screenshots=f"not kept: --vnc-artifacts={mode}")
    runs = dict.fromkeys(state_of(item).runs or ())
    if not runs:
        return
    # jinja2, and numpy and Pillow, which the test's agent has imported
    from pytest_vnc_use.report.pages import write_run_page

    runs_dir = item.config.invocation_params.dir / item.config.stash[SETTINGS].runs_dir
    for run in filter(Path.is_dir, runs):
        try:
            if ended.screenshots and not (run / DRAFT_FILE).exists():
                drop_screenshots(run)
            write_finished_test(run, ended)
            write_run_page(run, runs_dir)
        except (OSError, RunDirectoryUnwritable) as exc:
            report.sections.append(
                ("run directory", f"the test's result is not in it: {exc}")
            )
