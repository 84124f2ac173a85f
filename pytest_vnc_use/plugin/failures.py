"""The triage of each failure of a test: its meaning, and a plain message.

Its hook is the innermost, so that all others see the triage.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import pytest

from pytest_vnc_use.errors import (
    ConnectionLost,
    DesktopRefused,
    InfraError,
    ProductFailed,
    ProgramCrashed,
    RecordingDrifted,
    SettingsError,
    VncUseError,
    causes,
)
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.state import (
    FailureTriage,
    desktop_of,
    machine_of,
    needs_desktop,
    state_of,
)
from pytest_vnc_use.triage import (
    SETTINGS,
    DesktopFailure,
    cause_of,
    failure_of,
    format_failure,
    rule_for,
    sanitize,
)

_OF_TOOL = ("infra", SETTINGS)
"""The classes of failures that the product has not caused."""
_OF_DRIFT = (RecordingDrifted, ProductFailed)
"""The errors that a drift raises."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Raise ProductFailed instead of an InfraError that the program under test caused.
    Have `--only-rerun InfraError` of pytest-rerunfailures find all others.
    """
    try:
        return (yield)
    except InfraError as exc:
        desktop = desktop_of(item)
        failure = failure_of(desktop, exc) if desktop else DesktopFailure()
        if failure.hangs:
            raise ProductFailed(str(failure)) from exc
        has_lost_desktop = isinstance(exc, (ConnectionLost, DesktopRefused))
        if has_lost_desktop and failure.has_failed:
            raise ProgramCrashed(str(failure)) from exc
        # pytest-rerunfailures compares the name of an error and of each error that led
        # to it, but not of their base classes.
        base = InfraError(causes.named(exc))
        base.__cause__ = exc.__cause__
        raise exc from base


pytest_runtest_call = pytest_runtest_setup


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_makereport(
    item: pytest.Item,
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Find the triage of a failure, and put it into the report."""
    report = yield
    if report.failed and call.excinfo and needs_desktop(item):
        _classify(item, report, call.excinfo.value)
    return report


def complete(
    item: pytest.Item,
    call: pytest.CallInfo[None],
    report: pytest.TestReport,
) -> None:
    """Finish the triage once other plugins have seen the report.

    An outage or a wrong setting also fails a test that was expected to fail, because it
    is no failure of the product, unless the mark names such an error. A test that the
    hook of another plugin failed after it passed, such as pytest-check's, gets its
    triage here.
    """
    failure = state_of(item).reported.failure
    is_of_tool = failure is not None and failure.triage in _OF_TOOL
    is_xfailed = report.skipped and hasattr(report, "wasxfail")
    if is_xfailed and is_of_tool and not _xfails_for_tool(item):
        reason = report.wasxfail or "expected to fail"
        report.outcome = "failed"
        del report.wasxfail
        text = f"{reason}; but the product did not cause this failure"
        report.sections.append(("xfail", text))
    if report.passed or report.skipped or failure:
        return
    if call.excinfo:
        _classify(item, report, call.excinfo.value)
    # without an error, pytest fails a test that passed and is marked to fail
    elif item.get_closest_marker("xfail") is None:
        _classify(item, report, AssertionError(report.longreprtext))


def _classify(
    item: pytest.Item,
    report: pytest.TestReport,
    error: BaseException,
) -> None:
    """Note what a failure means, and show it in the report: an error of this plugin
    without a traceback through the engine, others with what led to them.
    """
    state = state_of(item)
    hide = secrets_of(item.config).hide
    desktop = desktop_of(item)
    ended = DesktopFailure()
    if desktop and report.when != "teardown":
        ended = failure_of(desktop, error)
    rule = rule_for(error, ended)
    tool: InfraError | None = None
    is_explained = bool(ended) or rule.triage in ("infra", None)
    if state.agent and not is_explained:
        # An error of the tool, earlier in the test, may have led to this one.
        tool = next(iter(state.agent.tool_failures), None)
    if tool:
        rule = rule_for(tool)
    triage = rule.triage or SETTINGS
    if isinstance(error, pytest.xfail.Exception) and triage not in _OF_TOOL:
        return  # the test expects this, by `pytest.xfail` or by `run=False`
    words = _drift_in_words(item)
    if isinstance(error, VncUseError):
        locations = _locations(item, error)
        text = format_failure(error, ended, locations, hide).strip()
        if words and isinstance(error, _OF_DRIFT) and not ended:
            first, end, others = text.partition("\n")
            text = f"{first}; {words}{end}{others}"
        report.longrepr = _representation(item, f"{triage}: {text}", error)
    else:
        _show_beside(item, report, error, ended)
        text = _text_of(report)
        if words:
            _add_section(report, "drift in words", words)
    message, _, _ = text.partition("\n")
    if tool:
        before = f"the tool failed before, and the test continued: {causes.named(tool)}"
        _add_section(report, "what failed before", before)
        first_line, _, _ = before.partition("\n")
        message = f"{first_line}; then {message}"
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    if crash:
        crash.message = f"{triage}: {message}"
    if state.reported.failure is None:
        shown = line(sanitize(message, hide))
        state.reported.failure = FailureTriage(triage, rule.when, shown)


def _drift_in_words(item: pytest.Item) -> str:
    """Return in words what differs in the drift of a test's newest run; "" without a
    drift.
    """
    if not state_of(item).runs:
        return ""
    # with numpy and Pillow, which a session without a failure does not need
    from pytest_vnc_use.plugin.drift_words import drift_in_words

    return drift_in_words(item)


def _representation(
    item: pytest.Item,
    text: str,
    error: BaseException,
) -> Any:
    """Return pytest's representation of a failure with this text, at the line where
    `error` was raised.
    """
    failure = pytest.fail.Exception(text, pytrace=False)
    failure = failure.with_traceback(error.__traceback__)
    return item.repr_failure(pytest.ExceptionInfo.from_exception(failure))


def _show_beside(
    item: pytest.Item,
    report: pytest.TestReport,
    error: BaseException,
    ended: DesktopFailure,
) -> None:
    """Show other facts below the error that the test raised, and a crash of the program
    above it.
    """
    hide = secrets_of(item.config).hide
    longrepr: Any = report.longrepr
    shown = sanitize(str(ended), hide)
    if ended:
        title = "program under test" if ended.of_program else "desktop"
        _add_section(report, title, shown)
    chain = getattr(longrepr, "chain", None)
    if ended.has_failed and chain and longrepr.reprcrash:
        crash, _, _ = shown.partition("\n")
        representation = _representation(item, crash, error)
        first, _, _ = representation.chain[0]
        longrepr.chain = [(first, None, None), *chain]
        longrepr.reprcrash.message = f"{crash}; {longrepr.reprcrash.message}"
    cause = cause_of(error)
    if cause is not error:
        text = sanitize(causes.named(cause), hide)
        _add_section(report, "what led to it", text)


def _add_section(report: pytest.TestReport, title: str, text: str) -> None:
    """Show a text below a failure, if pytest's own representation of errors is used."""
    longrepr: Any = report.longrepr
    if hasattr(longrepr, "addsection"):
        longrepr.addsection(title, text)


def _text_of(report: pytest.TestReport) -> str:
    """Return pytest's text of a failure."""
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    text: str = crash.message if crash else report.longreprtext
    return text.strip().removeprefix("Failed: ")  # of `pytest.fail`


def _xfails_for_tool(item: pytest.Item) -> bool:
    """Return whether `xfail(raises=…)` of a test names an error of the tool."""
    for mark in item.iter_markers("xfail"):
        raises = mark.kwargs.get("raises") or ()
        if not isinstance(raises, tuple):
            raises = (raises,)
        for kind in raises:
            if issubclass(kind, (InfraError, SettingsError)):
                return True
    return False


def _locations(item: pytest.Item, error: BaseException) -> Sequence[str]:
    """Return the locations of the error: the step and run directory, the lines, the
    machine.
    """
    state = state_of(item)
    locations = []
    if state.location and state.runs:
        locations.append(f"{state.location} of the run in {state.runs[-1]}")
    locations += causes.lines_in(item.path, error)
    machine = machine_of(item.config)
    if machine:
        locations.append(f"on the machine {machine}")
    return locations
