"""One test with a desktop, from its setup to its last report: its tasks, its body, its runs and its result."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import SkipTest

import pytest

from pytest_vnc_use.errors import (
    InfraError,
    ProgramCrashed,
    RecordingDrifted,
    RunFolderUnwritable,
    SettingsError,
    TaskFailed,
)
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.plugin import allure_report, costs, html_report, markers, recordings, triage
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.results import result_of
from pytest_vnc_use.plugin.state import (
    ATTACHED,
    SETTINGS,
    FailureTriage,
    attached_to,
    begin_attempt,
    desktop_of,
    is_note,
    is_ours,
    state_of,
)
from pytest_vnc_use.runs.folder import EndedTest, write_ended_test
from pytest_vnc_use.settings.layers import merge
from pytest_vnc_use.triage.failure_text import crash_of, format_program_end, sanitize
from pytest_vnc_use.triage.rules import rule_for
from pytest_vnc_use.types import Limits

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent
    from pytest_vnc_use.recordings.record import RecordedTest
    from pytest_vnc_use.report.results import RunFigures
    from pytest_vnc_use.types import RunEvent, Step


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget what earlier attempts at the test noted. A rehearsal has begun its own."""
    if is_ours(item) and not state_of(item).rehearsal:
        begin_attempt(item)


def call_function(item: pytest.Function) -> Generator[None, object, object]:
    """Run the marker's tasks in the call phase, before the body; report soft checks after it."""
    markers.check(item)
    agent: Any = item.funcargs.get("vnc_agent")
    if agent is None:
        result = yield
        markers.check(item)  # the body may have added one, whose task nobody carried out
        return result
    drift = None
    try:
        with soft_checks(agent, functools.partial(item.add_report_section, "call", "checks")):
            drift = run_tasks(agent, markers.tasks_of(item), state_of(item).recorded)
            result = yield
            markers.check(item)
    except BaseException as exc:
        if drift is None or _decides(exc):
            if drift:
                item.add_report_section("call", "drift", str(drift))
            raise
        item.add_report_section("call", "error of the test's body", f"{type(exc).__name__}: {exc}")
        raise drift from exc
    if drift:
        raise drift
    return result


def run_tasks(
    agent: VncUseAgent, specs: Sequence[markers.TaskSpec], recorded: RecordedTest | None = None
) -> RecordingDrifted | None:
    """Run each task, and judge it before the next, up to the first that fails. Raises as `VncUseAgent.run` does.

    Where the last one drifts only at its end, its error is returned: the test's body can still tell what is wrong.
    """
    from pytest_vnc_use.agent import build

    for number, spec in enumerate(specs, 1):
        if recorded:
            recorded.task_follows = number < len(specs)
        own = merge((vars(agent.settings), str), (spec.settings, str))
        policy = build.build_policy(own) if "policy" in spec.settings else None
        expect = None if spec.body_checks else spec.expect
        limits = Limits(own.max_steps, own.max_seconds, own.stall)
        try:
            agent.run(spec.task, expect=expect, limits=limits, policy=policy, votes=own.votes)
        except RecordingDrifted as drift:
            if drift.at_end and number == len(specs):
                return drift
            raise
    return None


def _decides(error: BaseException) -> bool:
    """Return whether an error of the body says more than a drift at the end: a skip and an xfail do not."""
    if isinstance(error, (pytest.skip.Exception, pytest.xfail.Exception, SkipTest)):
        return False
    ends_session = isinstance(error, pytest.exit.Exception) or not isinstance(error, (Exception, pytest.fail.Exception))
    return ends_session or rule_for(error).triage != "inconclusive"


@contextmanager
def soft_checks(agent: VncUseAgent, add_section: Callable[[str], None]) -> Iterator[None]:
    """Raise, at the end, the failure of the agent's soft checks, also in the place of a skip.

    Beside any other error, pass the failed checks to `add_section`: they belong in the report of any end.
    """
    unmet: Callable[[], TaskFailed | None] = getattr(agent, "unmet", lambda: None)  # a user's agent may have no checks
    try:
        yield
    except BaseException as exc:
        if failed := unmet():
            if isinstance(exc, (pytest.skip.Exception, SkipTest)):
                raise failed from exc
            add_section(str(failed))
        raise
    if failed := unmet():
        raise failed


def check_end(item: pytest.Item) -> None:
    """Raise what the end of a test that would pass shows: a broken task, a replay's end that is gone, a crash."""
    if agent := state_of(item).agent:
        agent.end_body()
        if (broken := agent.broken_task) and not broken.is_expected:
            raise broken
    try:
        desktop = desktop_of(item)
        crash = crash_of(desktop, of_itself=True) if desktop is not None else ""
    except Exception:  # noqa: BLE001  # a user's own desktop may raise anything, and the test does not depend on it
        return
    if crash:
        raise ProgramCrashed(format_program_end(crash, " before the test did"))


# --- while it runs ---------------------------------------------------------------------------------------------------


class ItemObserver:
    """An observer that shows a run's steps, and notes its planner and its place for the reports."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def observe(self, event: RunEvent) -> None:
        """Note the event on the test."""
        from pytest_vnc_use.types import RunEnded, RunStarted, StepFinished, StepStarted

        state = state_of(self._item)
        match event:
            case RunStarted():
                state.add_note("planner", event.planner)
                state.place = "before the first step"
            case StepStarted():
                state.place = f"at step {event.number}"
            case StepFinished():
                state.place = f"after step {event.step.number}"
                self._show(event.step)
            case RunEnded() if not event.error:
                state.place = ""
            case _:
                pass  # the run directory keeps the other events; pytest's reports do not show them

    def _show(self, step: Step) -> None:
        """Show a step as it happens, with -v."""
        if self._item.config.get_verbosity() >= 1:
            from pytest_vnc_use.runs.transcript import step_line

            print_line(self._item.config, step_line(step))


def print_line(config: pytest.Config, text: str) -> None:
    """Print a line on the terminal while a test runs."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")
    if terminal and capture:
        with capture.global_and_fixture_disabled():
            terminal.ensure_newline()
            terminal.write_line(f"  {text}")


class HookCalls:
    """An observer that calls the hooks of hookspecs.py for the runs of a test."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def observe(self, event: RunEvent) -> None:
        """Call the hook for the event, if there is one."""
        from pytest_vnc_use.report.results import figures_of
        from pytest_vnc_use.types import Drifted, Judged, RunEnded, StepFinished

        runs = state_of(self._item).runs
        run_folder = runs[-1] if runs else None
        match event:
            case StepFinished():
                self._call("pytest_vnc_step", step=event.step, run_folder=run_folder)
            case Judged():
                self._call("pytest_vnc_verdict", verdict=event.verdict, run_folder=run_folder)
            case Drifted():
                drift = replace(event, problem=secrets_of(self._item.config).hide(event.problem))
                self._call("pytest_vnc_drift", drift=drift, run_folder=run_folder)
            case RunEnded() if run_folder and self._item.ihook.pytest_vnc_run_end.get_hookimpls():
                self._call("pytest_vnc_run_end", run=figures_of(run_folder))  # reads a file
            case _:
                pass  # no hook stands for the other events

    def _call(self, name: str, **data: object) -> None:
        """Call a hook. If it raises, note that on the test, whose result does not depend on it."""
        try:
            getattr(self._item.ihook, name)(item=self._item, **deepcopy(data))  # what a hook changes is its own
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise
        except BaseException as exc:  # noqa: BLE001  a user's hook may raise anything; the test does not depend on it
            failure = secrets_of(self._item.config).hide(_format_hook_failure(name, exc))
            if failure not in (state := state_of(self._item)).notes.get("hook_fault", ()):
                state.add_note("hook_fault", failure)


def _format_hook_failure(name: str, error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name == name]
    location = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    try:
        text = str(error)
    except Exception as exc:  # noqa: BLE001  a user's own __str__ may raise anything
        text = f"its text cannot be shown, because str() raised {type(exc).__name__}"
    return line(f"the hook {name}{location} raised {type(error).__name__}: {text}")


# --- its reports -----------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Complete each report, outermost, where the outcome is final; triage.py has found what a failure means."""
    report = yield
    if not is_ours(item):
        return report
    state = state_of(item)
    triage.give_back(item, call)
    _keep_outage(item, call, report)
    triage.find_out_late(item, call, report)
    # the report on the call includes the runs of a setup that passed
    figures = [] if call.when == "setup" and report.passed else _new_figures(item)
    runs = [Path(run.folder) for run in figures]
    if runs:
        _keep_logs(item, runs, report)
    runs = [] if state.rehearsal else [*runs, *state.unrepeated_runs]
    if runs:
        allure_report.add_steps(item.config, runs)
        if item.config.getoption("htmlpath", None):
            html_report.add_extras(report, item.config, runs, state.failure.message if state.failure else "")
    failure = _failure_of(item, report)
    if failure and "triage" not in state.notes:
        state.notes |= {"triage": failure.triage, "rule": failure.rule}
    for run in figures:
        if run.folder not in state.notes.get("run", ()):
            state.add_note("outcome", run.outcome)
            state.add_note("run", run.folder)
            state.add_note("page", str(Path(run.folder, "index.html")))
    recordings.note_result(item, call, report)
    _attach(item, report, figures, failure.message if failure else "")
    _keep_result(item, call, report)
    return report


def _keep_outage(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Report an outage or a wrong setting as a failure, also of a test that was expected to fail.

    The product did not fail there. The test stays an expected failure if the mark names such an error.
    """
    reason, failure = getattr(report, "wasxfail", None), state_of(item).failure
    if reason is None or not report.skipped or failure is None or failure.triage not in ("infra", "settings"):
        return
    expected = any(issubclass(kind, (InfraError, SettingsError)) for kind in triage.xfail_classes(item))
    if not expected and not (call.excinfo and triage.is_named_by_xfail(item, call.excinfo.value)):
        report.outcome = "failed"
        del report.wasxfail
        report.sections.append(("xfail", f"{reason or 'expected to fail'}; but the product did not cause this failure"))


def _new_figures(item: pytest.Item) -> list[RunFigures]:
    """Return the runs that no report contains yet, or only in an older state, such as without the last verdict."""
    from pytest_vnc_use.report.results import figures_of

    state = state_of(item)
    figures = [figures_of(run) for run in state.runs or ()]
    new = [run for run in figures if state.reported_runs.get(run.folder) != run]
    state.reported_runs.update((run.folder, run) for run in new)
    return new


def _failure_of(item: pytest.Item, report: pytest.TestReport) -> FailureTriage | None:
    """Return the triage that a report shows; None for an expected failure of the product."""
    state = state_of(item)
    if report.failed:
        return state.failure or FailureTriage("inconclusive", "the test passed, and was expected to fail", "")
    failure, state.failure = state.failure, None  # a failure that comes after it is another
    return failure if failure and failure.triage != "product" else None


def _keep_logs(item: pytest.Item, runs: list[Path], report: pytest.TestReport) -> None:
    """Put the output of the desktop's processes into the test's run directories, before the report reads them."""
    from pytest_vnc_use.runs.folder import keep_logs

    hide = secrets_of(item.config).hide
    logs_of = getattr(desktop_of(item), "logs", dict)  # a user's own vnc_desktop may have no logs
    try:
        texts = {**logs_of(), "playwright": "\n".join(state_of(item).playwright_calls)}
        logs = {role: sanitize(text, hide) for role, text in texts.items()}
        for run in runs:
            keep_logs(run, logs)
    except Exception as exc:  # noqa: BLE001  # a user's own vnc_desktop may raise anything, and that would end pytest
        report.sections.append(("desktop's logs", f"not kept: {sanitize(str(exc), hide)}"))


def _attach(item: pytest.Item, report: pytest.TestReport, figures: list[RunFigures], message: str) -> None:
    """Attach what the session's results need, and give JUnit's XML the same as properties."""
    from pytest_vnc_use.runs.folder import to_json

    state = state_of(item)
    state.notes |= costs.notes_of(state)
    dollars = state.notes.get("dollars")
    since = None if dollars is None else dollars - state.reported_dollars
    state.reported_dollars = dollars or state.reported_dollars
    attached = {
        **state.notes,
        "runs": [*to_json(figures), *state.rehearsed_runs],
        "rehearsals": state.rehearsals,
        "dollars_since": since,
        "message": message,
    }
    setattr(report, ATTACHED, attached)
    properties = [
        (f"vnc_{name}", each)
        for name, value in state.notes.items()
        for each in (value if isinstance(value, list) else [value])
    ]
    for noted in (item.user_properties, report.user_properties):
        noted[:] = [*(each for each in noted if not is_note(each[0])), *properties]


def _keep_result(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Note the report; after the last one write the test's result into the directories of its runs."""
    from pytest_vnc_use.runs.folder import drop_pictures

    state = state_of(item)
    state.duration_s += report.duration
    decides = report.failed or report.when == "call" or report.skipped
    if decides and (state.decided is None or (report.failed and not state.decided.failed)):
        state.decided = report
    if call.when != "teardown" or not state.runs:
        return
    ended = _ended_test(item, state.decided or report)
    mode = item.config.stash[SETTINGS].artifacts
    if mode == "off" or (mode == "retain-on-failure" and not ended.is_bad):
        ended = replace(ended, pictures=f"not kept: --vnc-artifacts={mode}")
    for run in filter(Path.is_dir, dict.fromkeys(state.runs)):
        try:
            if ended.pictures:
                drop_pictures(run)
            write_ended_test(run, ended)
        except (OSError, RunFolderUnwritable) as exc:
            report.sections.append(("run folder", f"the test's result is not in it: {exc}"))


def _ended_test(item: pytest.Item, decided: pytest.TestReport) -> EndedTest:
    state, hide = state_of(item), secrets_of(item.config).hide
    attached = attached_to(decided)
    return EndedTest(
        test=item.nodeid,
        result=result_of(decided),
        phase=decided.when or "call",
        triage=str(attached.get("triage", "")),
        rule=str(attached.get("rule", "")),
        message=sanitize(str(attached["message"]), hide),
        failure=sanitize(decided.longreprtext, hide) if decided.failed or hasattr(decided, "wasxfail") else "",
        attempt=state.attempt,
        worker=getattr(item.config, "workerinput", {}).get("workerid", ""),
        seconds=round(state.duration_s, 3),
        dollars=state.notes.get("dollars"),
        is_rehearsal=state.rehearsal is not None,
    )
