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

from pytest_vnc_use.agent import build
from pytest_vnc_use.errors import (
    ProgramCrashed,
    RecordingDrifted,
    RunDirectoryUnwritable,
    TaskFailed,
    causes,
)
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.plugin import costs, markers, recordings, triage
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.results import result_of
from pytest_vnc_use.plugin.state import (
    ATTACHED,
    SETTINGS,
    FailureTriage,
    attached_to,
    begin_attempt,
    desktop_of,
    needs_desktop,
    notes_as_properties,
    state_of,
    without_notes,
)
from pytest_vnc_use.plugin.terminal import print_line
from pytest_vnc_use.report.results import RunFigures, figures_of
from pytest_vnc_use.runs.directory import FinishedTest, drop_screenshots, keep_logs, to_json, write_finished_test
from pytest_vnc_use.runs.transcript import step_line
from pytest_vnc_use.settings.layers import merge
from pytest_vnc_use.triage import crash_of, format_program_end, rule_for, sanitize
from pytest_vnc_use.types import Drift, Judged, Limits, RunEnded, RunStarted, StepFinished, StepStarted

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent
    from pytest_vnc_use.recordings.record import RecordedTest
    from pytest_vnc_use.types import RunEvent


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget the notes of earlier attempts at the test. A rehearsal has started a new attempt already."""
    if needs_desktop(item) and not state_of(item).rehearsal:
        begin_attempt(item)


def call_function(item: pytest.Function) -> Generator[None, object, object]:
    """Run the marker's tasks in the call phase, before the body; report soft checks after it."""
    markers.check(item)
    agent: Any = item.funcargs.get("vnc_agent")
    if agent is None:
        result = yield
        markers.check(item)  # the body may have added one, whose task was not performed
        return result
    drift = None
    try:
        with soft_checks(agent, functools.partial(item.add_report_section, "call", "checks")):
            drift = run_tasks(agent, markers.tasks_of(item), state_of(item).recorded)
            result = yield
            markers.check(item)
    except BaseException as exc:
        # a drift at the end outranks a skip and an xfail; what ends the session outranks the drift
        is_skipped = isinstance(exc, (pytest.skip.Exception, pytest.xfail.Exception, SkipTest))
        is_error = isinstance(exc, (Exception, pytest.fail.Exception)) and not isinstance(exc, pytest.exit.Exception)
        if drift is None or not (is_skipped or (is_error and rule_for(exc).triage == "inconclusive")):
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

    Where the last one drifts only at its end, its error is returned: the test's body can still show what is wrong.
    """
    for number, spec in enumerate(specs, 1):
        if recorded:
            recorded.task_follows = number < len(specs)
        settings = merge((vars(agent.settings), str), (spec.settings, str))
        policy = build.build_policy(settings, ask=agent.can_ask) if "policy" in spec.settings else None
        expect = None if spec.body_checks else spec.expect
        limits = Limits(settings.max_steps, settings.max_seconds)
        try:
            agent.run(spec.task, expect=expect, limits=limits, policy=policy, votes=settings.votes)
        except RecordingDrifted as drift:
            if drift.at_end and number == len(specs):
                return drift
            raise
    return None


@contextmanager
def soft_checks(agent: VncUseAgent, add_section: Callable[[str], None]) -> Iterator[None]:
    """Raise, at the end, the failure of the agent's soft checks, also instead of a skip.

    Beside any other error, pass the failed checks to `add_section`: they belong in the report of any end.
    """
    unmet: Callable[[], TaskFailed | None] = getattr(agent, "unmet", lambda: None)  # a custom agent may have no checks
    try:
        yield
    except BaseException as exc:
        if failure := unmet():
            if isinstance(exc, (pytest.skip.Exception, SkipTest)):
                raise failure from exc
            add_section(str(failure))
        raise
    if failure := unmet():
        raise failure


def check_end(item: pytest.Item) -> None:
    """Raise the failure at the end of a test that would pass: a failed task, a replay's missing end, a crash."""
    if agent := state_of(item).agent:
        agent.end_body()
        if (failed_task := agent.failed_task) and not failed_task.is_expected:
            raise failed_task
    if (desktop := desktop_of(item)) is not None and (crash := crash_of(desktop, of_itself=True)):
        raise ProgramCrashed(format_program_end(crash, " before the test did"))
    recordings.check_replay(item)


class ItemObserver:
    """An observer of a test's runs: notes planner and location, prints steps, calls the hooks of hookspecs.py."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def observe(self, event: RunEvent) -> None:
        """Note the event on the test, print it, and call the hook for it, if there is one."""
        state, secrets = state_of(self._item), secrets_of(self._item.config)
        run_dir = state.runs[-1] if state.runs else None
        match event:
            case RunStarted():
                state.add_note("planner", event.planner)
                state.location = "before the first step"
            case StepStarted():
                state.location = f"at step {event.number}"
            case StepFinished(step):
                state.location = f"after step {step.number}"
                if self._item.config.get_verbosity() >= 1:
                    print_line(self._item.config, step_line(step))
                self._call("pytest_vnc_step", step=step, run_dir=run_dir)
            case Judged(verdict):
                self._call("pytest_vnc_verdict", verdict=verdict, run_dir=run_dir)
            case Drift():
                drift = replace(event, problem=secrets.hide(event.problem))
                self._call("pytest_vnc_drift", drift=drift, run_dir=run_dir)
            case RunEnded():
                state.location = state.location if event.error else ""
                if run_dir and self._item.ihook.pytest_vnc_run_end.get_hookimpls():
                    self._call("pytest_vnc_run_end", run=figures_of(run_dir))
            case _:
                pass  # the run directory keeps the other events

    def _call(self, name: str, **data: object) -> None:
        """Call a hook. If it raises, note that on the test, whose result does not depend on it."""
        try:
            hook = getattr(self._item.ihook, name)
            if hook.get_hookimpls():
                hook(item=self._item, **deepcopy(data))  # a hook may change its copy
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise
        except BaseException as exc:  # noqa: BLE001  a user's hook may raise anything; the test does not depend on it
            frames = [frame for frame in traceback.extract_tb(exc.__traceback__) if frame.name == name]
            location = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
            text = line(f"the hook {name}{location} raised {causes.named(exc)}")
            failure, state = secrets_of(self._item.config).hide(text), state_of(self._item)
            if failure not in state.notes.get("hook_error", ()):
                state.add_note("hook_error", failure)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Complete each report, outermost, where the outcome is final; triage.py has found what a failure means."""
    report = yield
    if not needs_desktop(item):
        return report
    state = state_of(item)
    triage.complete(item, call, report)
    # the report on the call includes the runs of a setup that passed
    figures = [] if call.when == "setup" and report.passed else _new_figures(item)
    if runs := [Path(run.directory) for run in figures]:
        _keep_logs(item, runs, report)
    failure, message = state.failure, ""
    if report.failed and failure is None:
        failure = FailureTriage("inconclusive", "the test passed, and was expected to fail", "")
    elif not report.failed:  # a failure that comes after it is another
        state.failure = None
        failure = failure if failure and failure.triage != "product" else None
    if failure:
        message = failure.message
        if "triage" not in state.notes:
            state.notes |= {"triage": failure.triage, "rule": failure.rule}
    for run in figures:
        if run.directory not in state.notes.get("run", ()):
            state.add_note("outcome", run.outcome)
            state.add_note("run", run.directory)
            state.add_note("page", str(Path(run.directory, "index.html")))
    recordings.note_result(item, call, report)
    _attach(item, report, figures, message)
    ended = _result_so_far(item, report)
    shown = [] if state.rehearsal else [*runs, *state.unrepeated_runs]
    if shown and (reporting := item.config.pluginmanager.get_plugin("vnc_use_reporting")):
        reporting.add_runs(item, report, shown, ended)
    if call.when == "teardown":
        _keep_result(item, report, ended)
    return report


def _new_figures(item: pytest.Item) -> list[RunFigures]:
    """Return the runs that no report contains yet, or only in an older state, such as without the last verdict."""
    state = state_of(item)
    figures = [figures_of(run) for run in state.runs or ()]
    new = [run for run in figures if state.reported_runs.get(run.directory) != run]
    state.reported_runs.update((run.directory, run) for run in new)
    return new


def _keep_logs(item: pytest.Item, runs: list[Path], report: pytest.TestReport) -> None:
    """Put the output of the desktop's processes into the test's run directories, before the report reads them."""
    hide = secrets_of(item.config).hide
    logs_of = getattr(desktop_of(item), "logs", dict)  # a custom vnc_desktop may have no logs
    try:
        texts = {**logs_of(), "playwright": "\n".join(state_of(item).playwright_calls)}
        logs = {role: sanitize(text, hide) for role, text in texts.items()}
        for run in runs:
            keep_logs(run, logs)
    except Exception as exc:  # noqa: BLE001  # a custom vnc_desktop may raise anything, which would end pytest
        report.sections.append(("desktop's logs", f"not kept: {sanitize(str(exc), hide)}"))


def _attach(item: pytest.Item, report: pytest.TestReport, figures: list[RunFigures], message: str) -> None:
    """Attach what the session's results need, and add the same to JUnit's XML as properties."""
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
        "attempt": state.attempt,
    }
    setattr(report, ATTACHED, attached)
    for properties in (item.user_properties, report.user_properties):
        properties[:] = [*without_notes(properties, state), *notes_as_properties(state)]


def _result_so_far(item: pytest.Item, report: pytest.TestReport) -> FinishedTest:
    """Note the report, and return the test's result by its reports so far."""
    state = state_of(item)
    state.duration_s += report.duration
    decides = report.failed or report.when == "call" or report.skipped
    if decides and (state.decided is None or (report.failed and not state.decided.failed)):
        state.decided = report
    deciding, hide = state.decided or report, secrets_of(item.config).hide
    attached = attached_to(deciding)
    return FinishedTest(
        test=item.nodeid,
        result=result_of(deciding),
        phase=deciding.when or "call",
        triage=str(attached.get("triage", "")),
        rule=str(attached.get("rule", "")),
        message=sanitize(str(attached["message"]), hide),
        failure=sanitize(deciding.longreprtext, hide) if deciding.failed or hasattr(deciding, "wasxfail") else "",
        attempt=state.attempt,
        worker=getattr(item.config, "workerinput", {}).get("workerid", ""),
        seconds=round(state.duration_s, 3),
        dollars=state.notes.get("dollars"),
        is_rehearsal=state.rehearsal is not None,
    )


def _keep_result(item: pytest.Item, report: pytest.TestReport, ended: FinishedTest) -> None:
    """Write the test's result into the directories of its runs."""
    mode = item.config.stash[SETTINGS].artifacts
    if mode == "off" or (mode == "retain-on-failure" and not ended.is_bad):
        ended = replace(ended, screenshots=f"not kept: --vnc-artifacts={mode}")
    for run in filter(Path.is_dir, dict.fromkeys(state_of(item).runs or ())):
        try:
            if ended.screenshots:
                drop_screenshots(run)
            write_finished_test(run, ended)
        except (OSError, RunDirectoryUnwritable) as exc:
            report.sections.append(("run directory", f"the test's result is not in it: {exc}"))
