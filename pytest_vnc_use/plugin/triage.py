"""The triage of each failure of a test: its meaning, a plain message, and a class that other plugins can match.

Its hook is the innermost, so that all others see the triage.
"""

from __future__ import annotations

import platform
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vnc_use.errors import InfraError, VncUseError
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.state import FailureTriage, desktop_of, is_ours, state_of

if TYPE_CHECKING:
    from pytest_vnc_use.triage.failure_text import Fault
    from pytest_vnc_use.triage.rules import TriageRule

STRICT = "[XPASS(strict)]"
"""The beginning of pytest's text about a test that passed, and was expected to fail."""


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
    if report.failed and call.excinfo and is_ours(item):
        _find_out(item, call, report, call.excinfo.value)
    return report


def find_out_late(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Find the triage of a test that the hook of another plugin failed after it passed, such as pytest-check's."""
    if report.failed and not state_of(item).failure and not report.longreprtext.startswith(STRICT):
        error = call.excinfo.value if call.excinfo else AssertionError(report.longreprtext)
        _find_out(item, call, report, error)


def _find_out(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport, error: BaseException) -> None:
    from pytest_vnc_use.errors import faults
    from pytest_vnc_use.triage import failure_text
    from pytest_vnc_use.triage.rules import SETTINGS, rule_for

    desktop = desktop_of(item)
    fault = failure_text.fault_of(desktop, error) if desktop and call.when != "teardown" else failure_text.Fault()
    rule, tool = rule_for(error, fault), _tool_failure(item)
    if tool and rule.triage not in ("infra", None) and not fault:
        rule = rule_for(tool)
    else:
        tool = None
    word = rule.triage or SETTINGS
    if isinstance(error, pytest.xfail.Exception) and word not in ("infra", SETTINGS):
        return  # the test expects this, by `pytest.xfail` or by `run=False`
    is_plain = isinstance(error, VncUseError) or bool(faults.asked(error))
    if is_plain:
        _tell_plainly(item, report, error, fault, word)
    else:
        _tell_beside(item, report, error, fault)
    message = line(failure_text.sanitize(_headline(report, word, tool), secrets_of(item.config).hide))
    state_of(item).failure = state_of(item).failure or FailureTriage(word, rule.when, message)
    _let_know(item, call, error, rule, message)


def _tool_failure(item: pytest.Item) -> InfraError | None:
    """Return the first error of the tool that a call of the agent raised in this test, and no `pytest.raises` named."""
    agent = state_of(item).agent
    return next((each for each in agent.tool_failures if not each.is_expected), None) if agent else None


def _tell_plainly(item: pytest.Item, report: pytest.TestReport, error: BaseException, fault: Fault, word: str) -> None:
    """Show an error of this package, or of a user's planner, without a traceback through the engine."""
    from pytest_vnc_use.triage import failure_text

    message = failure_text.format_failure(error, fault, _places(item, error), secrets_of(item.config).hide)
    plain = pytest.fail.Exception(f"{word}: {message}", pytrace=False).with_traceback(error.__traceback__)
    report.longrepr = item.repr_failure(pytest.ExceptionInfo.from_exception(plain))


def _tell_beside(item: pytest.Item, report: pytest.TestReport, error: BaseException, fault: Fault) -> None:
    """Show other known facts below the error that the test itself raised, and a crash of the program above it."""
    from pytest_vnc_use.errors.faults import named
    from pytest_vnc_use.triage.failure_text import sanitize
    from pytest_vnc_use.triage.rules import cause_of

    hide = secrets_of(item.config).hide
    longrepr: Any = report.longrepr
    add_section = getattr(longrepr, "addsection", None)
    if add_section is None:
        return
    if fault:
        add_section("program under test" if fault.of_program else "desktop", sanitize(str(fault), hide))
    if fault.broke and getattr(longrepr, "chain", None) and longrepr.reprcrash:
        end = sanitize(str(fault).partition("\n")[0], hide)
        crash = pytest.fail.Exception(end, pytrace=False).with_traceback(error.__traceback__)
        first: Any = item.repr_failure(pytest.ExceptionInfo.from_exception(crash))
        longrepr.chain = [(first.chain[0][0], None, None), *longrepr.chain]
        longrepr.reprcrash.message = f"{end}; {longrepr.reprcrash.message}"
    if (cause := cause_of(error)) is not error:
        add_section("what led to it", sanitize(named(cause), hide))


def _headline(report: pytest.TestReport, word: str, tool: InfraError | None) -> str:
    """Return the failure in one line, without the triage; put the triage into the report's own such line, if any.

    An earlier failure of the tool comes first.
    """
    from pytest_vnc_use.errors.faults import named

    crash: Any = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash else report.longreprtext).strip().splitlines() or [""]
    message = lines[0].removeprefix("Failed: ").removeprefix(f"{word}: ")
    if tool:
        before = f"the tool failed before, and the test continued: {named(tool)}"
        message = f"{before.splitlines()[0]}; then {message}"
        if add_section := getattr(report.longrepr, "addsection", None):
            add_section("what failed before", before)
    if crash:
        crash.message = f"{word}: {message}"
    return message


def _let_know(
    item: pytest.Item, call: pytest.CallInfo[None], error: BaseException, rule: TriageRule, message: str
) -> None:
    """Make `--only-rerun` of pytest-rerunfailures find the triage: it reads only the exception's class and text.

    A new exception with the triage's class name is in `call.excinfo` until `give_back`. The raised exception is its
    cause and stays as it is. The new one keeps the class that `xfail(raises=…)` looks for, unless that class
    contradicts the triage.
    """
    from pytest_vnc_use.errors.faults import asked, text_of
    from pytest_vnc_use.triage.rules import CLASSES

    if rule.triage is None or (rule.triage == "product" and not isinstance(error, VncUseError)):
        return
    if is_named_by_xfail(item, error):
        return  # pytest compares the class that was raised
    kind = CLASSES[rule.triage]
    text = f"{kind.__name__}: {text_of(error)}"
    if isinstance(error, VncUseError) and isinstance(error, kind):
        named: BaseException = _saying(error, text)
    elif isinstance(error, AssertionError) and not asked(error):
        named = AssertionError(text)
    elif isinstance(error, VncUseError) or asked(error) or rule.triage == "infra":
        named = kind(message)
    else:
        return
    named.__cause__ = error
    state_of(item).raised = call.excinfo
    call.excinfo = pytest.ExceptionInfo.from_exception(named.with_traceback(error.__traceback__))


def is_named_by_xfail(item: pytest.Item, error: BaseException) -> bool:
    """Return whether `xfail(raises=…)` names the class of an error that a user's planner or judge raised."""
    from pytest_vnc_use.errors.faults import asked

    # a class so wide that it also holds this package's errors, such as Exception, names none
    narrow = tuple(kind for kind in xfail_classes(item) if not issubclass(VncUseError, kind))
    return isinstance(error, narrow) and bool(asked(error))


def xfail_classes(item: pytest.Item) -> list[type[BaseException]]:
    """Return the classes that `xfail(raises=…)` of a test names."""
    named = [mark.kwargs.get("raises", ()) for mark in item.iter_markers("xfail")]
    classes = [kind for each in named for kind in (each if isinstance(each, tuple) else (each,))]
    return [kind for kind in classes if isinstance(kind, type)]


def _saying(error: VncUseError, text: str) -> VncUseError:
    """Return another error of the same class with this text, however a user's class is made.

    If the class cannot hold the text, return an error of this package's nearest class.
    """
    from pytest_vnc_use import errors
    from pytest_vnc_use.errors.faults import text_of

    try:
        saying: VncUseError = type(error).__new__(type(error), text)
    except Exception:  # noqa: BLE001  # a user's own class may raise anything
        saying = VncUseError()
    ours: type[VncUseError] = next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
    return saying if text_of(saying) == text else ours(text)


def give_back(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Put the raised exception back for those who look at it, such as a debugger."""
    state = state_of(item)
    if state.raised:
        call.excinfo, state.raised = state.raised, None


def _places(item: pytest.Item, error: BaseException) -> Sequence[str]:
    """Return the places of the error: the step and run folder, the lines, the machine."""
    from pytest_vnc_use.errors import faults

    state, machine = state_of(item), machine_of(item.config)
    in_run = [f"{state.place} of the run in {state.runs[-1]}"] if state.place and state.runs else []
    asked = faults.asked(error)
    lines = (
        [f"at {line}" for line in faults.users_lines(error, item.path)] if asked else faults.lines_in(item.path, error)
    )
    return [*in_run, *lines, *([f"on the machine {machine}"] if machine else [])]


def machine_of(config: pytest.Config) -> str:
    """Return the name of this machine on a worker of pytest-xdist, as the reader may be on another machine; else ""."""
    return platform.node() if hasattr(config, "workerinput") else ""
