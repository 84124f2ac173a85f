"""The triage of each failure of a test: its meaning, a plain message, and a class that other plugins can match.

A plugin, registered by reporting.py. Its hook is the innermost, so that all others see the triage.
"""

from __future__ import annotations

import platform
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vnc_use.errors import VncUseError
from pytest_vnc_use.plain_text import cut, line
from pytest_vnc_use.plugin.broken_calls import of_test
from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.stash import (
    ENDS,
    PLACE,
    RUNS,
    TRIAGE_OF_FAILURE,
    VERDICTS,
    FailureTriage,
    desktop_of,
    forget,
    is_ours,
)

if TYPE_CHECKING:
    from pytest_vnc_use.body_checks.code_places import Lines
    from pytest_vnc_use.triage.failure_text import Fault
    from pytest_vnc_use.triage.rules import FailureFacts, RunEnd, TriageRule
    from pytest_vnc_use.types import Verdict

RAISED: pytest.StashKey[pytest.ExceptionInfo[BaseException] | None] = pytest.StashKey()
"""The exception that the test raised, while another one replaces it."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget the notes on earlier attempts at the test."""
    if is_ours(item):
        forget(item)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Find the triage of a failure, and put it into the report."""
    report = yield
    if report.failed and call.excinfo and is_ours(item):
        _find_out(item, call, report, call.excinfo.value)
    return report


def _find_out(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport, error: BaseException) -> None:
    from pytest_vnc_use.errors import faults
    from pytest_vnc_use.triage import failure_text
    from pytest_vnc_use.triage.rules import SETTINGS, gravest, rule_for

    desktop = desktop_of(item)
    fault = failure_text.fault_of(desktop, error) if desktop and call.when != "teardown" else failure_text.Fault()
    known = [_known_of(item, call, each, fault, each if each.__traceback__ else error) for each in faults.parts(error)]
    rules = [rule_for(each) for each in known]
    rule = gravest(rules)
    word = rule.triage or SETTINGS
    if isinstance(error, pytest.xfail.Exception) and word not in ("infra", SETTINGS):
        return  # the test expects this, by `pytest.xfail` or by `run=False`
    decisive = known[rules.index(rule)]
    if isinstance(error, VncUseError) or faults.asked(error):
        _tell_plainly(item, report, error, decisive, rule)
    else:
        _tell_beside(item, report, error, decisive, rule)
    message = line(failure_text.sanitize(_headline(report, word), secrets_of(item.config).hide))
    item.stash.setdefault(TRIAGE_OF_FAILURE, FailureTriage(word, rule.when, message))
    _let_know(item, call, error, rule, message)


def _known_of(
    item: pytest.Item, call: pytest.CallInfo[None], error: BaseException, fault: Fault, raised: BaseException
) -> FailureFacts:
    """Return the facts about an error. `raised` is the error that was raised: itself, or the group that contains it."""
    from pytest_vnc_use.triage.rules import FailureFacts

    ends: list[RunEnd] = item.stash.get(ENDS, [])
    known = fault, _verdicts_behind(item, raised), tuple(ends), of_test(item.config).behind(raised)
    return FailureFacts(error, _is_asserted(item, call, error, raised), *known)


def _is_asserted(item: pytest.Item, call: pytest.CallInfo[None], error: BaseException, raised: BaseException) -> bool:
    """Return whether the test's body, or a helper of it, asserts that something is wrong.

    A fixture of the user may assert that too, after a task was done, unless a fault of something else came first.
    """
    from pytest_vnc_use.errors.faults import asked, asserts_in

    says_so = isinstance(error, (AssertionError, pytest.fail.Exception)) and not asked(raised)
    if not says_so or not asserts_in(raised, item.path):
        return False
    found = item.stash.get(TRIAGE_OF_FAILURE, None)
    return call.when == "call" or (bool(item.stash.get(ENDS, ())) and (found is None or found.triage == "product"))


def _verdicts_behind(item: pytest.Item, error: BaseException) -> tuple[Verdict, ...]:
    """Return the test's unsure verdicts on which the error may depend."""
    from pytest_vnc_use.body_checks.consequences import consequences_of, frames_at, in_doubt, may_decide

    def is_behind(lines: Lines) -> bool:
        found, is_kept = consequences_of(lines, of_verdict=True)
        return may_decide(found, at, is_kept=is_kept)

    at = frames_at(error)
    unsure = [(verdict, lines) for verdict, lines in item.stash.get(VERDICTS, ()) if verdict.kind == "unsure"]
    return tuple(verdict for verdict, lines in unsure if in_doubt(is_behind, lines))


def _tell_plainly(
    item: pytest.Item, report: pytest.TestReport, error: BaseException, known: FailureFacts, rule: TriageRule
) -> None:
    """Show an error of this package, or of a user's planner, without a traceback through the engine."""
    from pytest_vnc_use.triage import failure_text
    from pytest_vnc_use.triage.rules import SETTINGS, word_on_run

    places = [*_places(item, error), *filter(None, [word_on_run(known, rule)])]
    message = failure_text.format_failure(error, known.fault, places, secrets_of(item.config).hide)
    word = rule.triage or SETTINGS
    plain = pytest.fail.Exception(f"{word}: {message}", pytrace=False).with_traceback(error.__traceback__)
    report.longrepr = item.repr_failure(pytest.ExceptionInfo.from_exception(plain))


def _tell_beside(
    item: pytest.Item, report: pytest.TestReport, error: BaseException, known: FailureFacts, rule: TriageRule
) -> None:
    """Show other known facts below the error that the test itself raised, and a crash of the program above it."""
    from pytest_vnc_use.errors.faults import named
    from pytest_vnc_use.triage.failure_text import sanitize
    from pytest_vnc_use.triage.rules import broken_before, word_on_run

    hide, fault = secrets_of(item.config).hide, known.fault
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
    if known.cause is not known.error:
        add_section("what led to it", sanitize(named(known.cause), hide))
    if broken := broken_before(known):
        add_section("what broke before", sanitize(cut("\n".join(map(str, broken))), hide))
    if word := word_on_run(known, rule):
        add_section("run", sanitize(word, hide))


def _headline(report: pytest.TestReport, word: str) -> str:
    """Return the failure in one line, without the triage; put the triage into the report's own such line, if any."""
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash else report.longreprtext).strip().splitlines() or [""]
    message = lines[0].removeprefix("Failed: ").removeprefix(f"{word}: ")
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
    item.stash[RAISED] = call.excinfo
    call.excinfo = pytest.ExceptionInfo.from_exception(named.with_traceback(error.__traceback__))


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
    if raised := item.stash.get(RAISED, None):
        call.excinfo = raised
        del item.stash[RAISED]


def _places(item: pytest.Item, error: BaseException) -> Sequence[str]:
    """Return the places of the error: the step and run folder, the lines, the machine."""
    from pytest_vnc_use.errors import faults

    place, machine = item.stash.get(PLACE, ""), machine_of(item.config)
    in_run = [f"{place} of the run in {item.stash[RUNS][-1]}"] if place else []
    asked = faults.asked(error)
    lines = (
        [f"at {line}" for line in faults.users_lines(error, item.path)] if asked else faults.lines_in(item.path, error)
    )
    return [*in_run, *lines, *([f"on the machine {machine}"] if machine else [])]


def machine_of(config: pytest.Config) -> str:
    """Return the name of this machine on a worker of pytest-xdist, as the reader may be on another machine; else ""."""
    return platform.node() if hasattr(config, "workerinput") else ""
