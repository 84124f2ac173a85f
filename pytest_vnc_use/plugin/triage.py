"""The triage of each failure of a test: its meaning, a plain message, and a class that other plugins can match.

Its hook is the innermost, so that all others see the triage.
"""

from __future__ import annotations

import platform
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_vnc_use.errors import InfraError, SettingsError, VncUseError, causes
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.state import FailureTriage, desktop_of, needs_desktop, state_of
from pytest_vnc_use.triage import (
    CLASSES,
    SETTINGS,
    DesktopFailure,
    cause_of,
    failure_of,
    format_failure,
    rule_for,
    sanitize,
)

if TYPE_CHECKING:
    from pytest_vnc_use.types import Triage

STRICT = "[XPASS(strict)]"
"""The prefix of pytest's text about a test that passed, and was expected to fail."""


def pytest_configure(config: pytest.Config) -> None:
    """Have `pytest.raises` mark each error of this package that it names and catches.

    pytest offers no hook for that.
    """
    raises: Any = type(pytest.raises(VncUseError))
    leave = raises.__exit__

    def exit_marking(self: Any, *raised: Any) -> Any:
        is_caught = leave(self, *raised)
        expected = getattr(self, "expected_exceptions", None) or getattr(self, "expected_exception", ())
        kinds = expected if isinstance(expected, tuple) else (expected,)
        if is_caught and isinstance(raised[1], VncUseError):
            raised[1].is_expected = any(issubclass(kind, VncUseError) for kind in kinds)
        return is_caught

    patch = pytest.MonkeyPatch()
    patch.setattr(raises, "__exit__", exit_marking)
    config.add_cleanup(patch.undo)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Find the triage of a failure, and put it into the report."""
    report = yield
    if report.failed and call.excinfo and needs_desktop(item):
        _classify(item, call, report, call.excinfo.value)
    return report


def complete(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Restore the raised exception for its readers, such as a debugger, once other plugins have seen the triage.

    Find the triage of a test that the hook of another plugin failed after it passed, such as pytest-check's. Report an
    outage or a wrong setting as a failure also of a test that was expected to fail: the product did not fail there. It
    stays an expected failure if the mark names such an error.
    """
    state = state_of(item)
    if state.raised:
        call.excinfo, state.raised = state.raised, None
    reason, failure = getattr(report, "wasxfail", None), state.failure
    if reason is not None and report.skipped and failure and failure.triage in ("infra", SETTINGS):
        classes, error = _xfail_classes(item), call.excinfo.value if call.excinfo else None
        # of the errors of a user's planner or judge, a class that also holds this package's, as Exception, names none
        narrow = tuple(kind for kind in classes if not issubclass(VncUseError, kind))
        is_named = error is not None and isinstance(error, narrow) and bool(causes.asked(error))
        if not is_named and not any(issubclass(kind, (InfraError, SettingsError)) for kind in classes):
            report.outcome = "failed"
            del report.wasxfail
            text = f"{reason or 'expected to fail'}; but the product did not cause this failure"
            report.sections.append(("xfail", text))
    if report.failed and not state.failure and not report.longreprtext.startswith(STRICT):
        error = call.excinfo.value if call.excinfo else AssertionError(report.longreprtext)
        _classify(item, call, report, error)


def _classify(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport, error: BaseException) -> None:
    state, desktop, hide = state_of(item), desktop_of(item), secrets_of(item.config).hide
    desktop_failure = failure_of(desktop, error) if desktop and call.when != "teardown" else DesktopFailure()
    rule = rule_for(error, desktop_failure)
    # an error of the tool, earlier in the test, that no `pytest.raises` named
    failures = (
        state.agent.tool_failures if state.agent and not desktop_failure and rule.triage not in ("infra", None) else ()
    )
    tool = next((failure for failure in failures if not failure.is_expected), None)
    if tool:
        rule = rule_for(tool)
    triage = rule.triage or SETTINGS
    if isinstance(error, pytest.xfail.Exception) and triage not in ("infra", SETTINGS):
        return  # the test expects this, by `pytest.xfail` or by `run=False`
    if isinstance(error, VncUseError) or causes.asked(error):  # without a traceback through the engine
        text = format_failure(error, desktop_failure, _locations(item, error), hide)
        plain = pytest.fail.Exception(f"{triage}: {text}", pytrace=False).with_traceback(error.__traceback__)
        report.longrepr = item.repr_failure(pytest.ExceptionInfo.from_exception(plain))
    elif hasattr(report.longrepr, "addsection"):
        _show_beside(item, report, error, desktop_failure)
    message = line(sanitize(_headline(report, triage, tool), hide))
    state.failure = state.failure or FailureTriage(triage, rule.when, message)
    if rule.triage is not None:
        _expose_triage(item, call, error, rule.triage, message)


def _show_beside(
    item: pytest.Item, report: pytest.TestReport, error: BaseException, desktop_failure: DesktopFailure
) -> None:
    """Show other facts below the error that the test raised, and a crash of the program above it."""
    hide, longrepr = secrets_of(item.config).hide, cast("Any", report.longrepr)
    if desktop_failure:
        longrepr.addsection(
            "program under test" if desktop_failure.of_program else "desktop", sanitize(str(desktop_failure), hide)
        )
    if desktop_failure.has_failed and getattr(longrepr, "chain", None) and longrepr.reprcrash:
        end = sanitize(str(desktop_failure).partition("\n")[0], hide)
        crash = pytest.fail.Exception(end, pytrace=False).with_traceback(error.__traceback__)
        first: Any = item.repr_failure(pytest.ExceptionInfo.from_exception(crash))
        longrepr.chain = [(first.chain[0][0], None, None), *longrepr.chain]
        longrepr.reprcrash.message = f"{end}; {longrepr.reprcrash.message}"
    if (cause := cause_of(error)) is not error:
        longrepr.addsection("what led to it", sanitize(causes.named(cause), hide))


def _headline(report: pytest.TestReport, triage: str, tool: InfraError | None) -> str:
    """Return the failure in one line, without the triage; put the triage into the report's such line, if any.

    An earlier failure of the tool comes first.
    """
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash else report.longreprtext).strip().splitlines() or [""]
    message = lines[0].removeprefix("Failed: ").removeprefix(f"{triage}: ")
    if tool:
        before = f"the tool failed before, and the test continued: {causes.named(tool)}"
        message = f"{before.splitlines()[0]}; then {message}"
        if add_section := getattr(report.longrepr, "addsection", None):
            add_section("what failed before", before)
    if crash:
        crash.message = f"{triage}: {message}"
    return message


def _expose_triage(
    item: pytest.Item, call: pytest.CallInfo[None], error: BaseException, triage: Triage, message: str
) -> None:
    """Make `--only-rerun` of pytest-rerunfailures find the triage: it reads only the exception's class and text.

    A new exception of the triage's class is in `call.excinfo` until `give_back`, with the raised one as its cause. The
    raised one stays where `xfail(raises=…)` names it, as pytest compares its class, unless it contradicts the triage.
    """
    kind = CLASSES[triage]
    is_contradicted = isinstance(error, VncUseError) and not isinstance(error, kind)
    is_ordinary = not isinstance(error, VncUseError) and not causes.asked(error) and triage != "infra"
    if is_ordinary or (isinstance(error, tuple(_xfail_classes(item))) and not is_contradicted):
        return
    rerun_error = kind(f"{causes.named(error)}; {message}")
    rerun_error.__cause__ = error
    state_of(item).raised = call.excinfo
    call.excinfo = pytest.ExceptionInfo.from_exception(rerun_error.with_traceback(error.__traceback__))


def _xfail_classes(item: pytest.Item) -> list[type[BaseException]]:
    """Return the classes that `xfail(raises=…)` of a test names."""
    arguments = [mark.kwargs.get("raises", ()) for mark in item.iter_markers("xfail")]
    classes = [kind for raises in arguments for kind in (raises if isinstance(raises, tuple) else (raises,))]
    return [kind for kind in classes if isinstance(kind, type)]


def _locations(item: pytest.Item, error: BaseException) -> Sequence[str]:
    """Return the locations of the error: the step and run directory, the lines, the machine."""
    state, machine = state_of(item), machine_of(item.config)
    run_location = [f"{state.location} of the run in {state.runs[-1]}"] if state.location and state.runs else []
    if causes.asked(error):
        lines = [f"at {frame}" for frame in causes.users_lines(error, item.path)]
    else:
        lines = causes.lines_in(item.path, error)
    return [*run_location, *lines, *([f"on the machine {machine}"] if machine else [])]


def machine_of(config: pytest.Config) -> str:
    """Return the name of this machine on a worker of pytest-xdist, as the reader may be on another machine; else ""."""
    return platform.node() if hasattr(config, "workerinput") else ""
