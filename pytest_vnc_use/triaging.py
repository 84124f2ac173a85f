"""Finds out what each failure of a test means, tells it plainly, and lets other plugins know it by its class.

A plugin of its own, registered by reporting.py: its hook is the innermost, so that all others see what it found.
"""

from __future__ import annotations

import platform
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vnc_use.errors import VncUseError
from pytest_vnc_use.notes import FOUND, HIDE, PLACE, RUNS, VERDICTS, Found, desktop_of, forget, is_ours
from pytest_vnc_use.plain_text import line

if TYPE_CHECKING:
    from pytest_vnc_use.failure import Fault
    from pytest_vnc_use.triage import Rule


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Each attempt begins anew."""
    if is_ours(item):
        forget(item)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and call.excinfo and is_ours(item):
        _find_out(item, call, report, call.excinfo.value)
    return report


def _find_out(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport, error: BaseException) -> None:
    from pytest_vnc_use import failure
    from pytest_vnc_use.triage import SETTINGS, Failure, rule_for

    desktop = desktop_of(item)
    fault = failure.fault_of(desktop, error) if desktop and call.when != "teardown" else failure.Fault()
    asserted = call.when == "call" and isinstance(error, (AssertionError, pytest.fail.Exception))
    rule = rule_for(Failure(error, asserted, fault, item.stash.get(VERDICTS, ())))
    word = rule.triage or SETTINGS
    if isinstance(error, VncUseError):
        _tell_plainly(item, report, error, fault, word)
    else:
        _tell_beside(item, report, fault)
    message = line(failure.harmless(_headline(report, word), item.stash.get(HIDE, str)))
    item.stash.setdefault(FOUND, Found(word, rule.when, message))
    _let_know(call, error, rule, message)


def _tell_plainly(item: pytest.Item, report: pytest.TestReport, error: VncUseError, fault: Fault, word: str) -> None:
    """What this package raises is shown as its message, without a way through the engine."""
    from pytest_vnc_use import failure

    told = failure.told(error, fault, _places(item, error), item.stash.get(HIDE, str))
    plain = pytest.fail.Exception(f"{word}: {told}", pytrace=False).with_traceback(error.__traceback__)
    report.longrepr = item.repr_failure(pytest.ExceptionInfo.from_exception(plain))


def _tell_beside(item: pytest.Item, report: pytest.TestReport, fault: Fault) -> None:
    """What became of the desktop or its program is shown below what the test itself raised."""
    from pytest_vnc_use.failure import harmless

    hide = item.stash.get(HIDE, str)
    add_section = getattr(report.longrepr, "addsection", None)
    if fault and add_section:
        add_section("program under test" if fault.of_program else "desktop", harmless(str(fault), hide))


def _headline(report: pytest.TestReport, word: str) -> str:
    """The failure in a line, without the triage, which is put before it where pytest has such a line."""
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash else report.longreprtext).strip().splitlines() or [""]
    message = lines[0].removeprefix("Failed: ").removeprefix(f"{word}: ")
    if crash:
        crash.message = f"{word}: {message}"
    return message


def _let_know(call: pytest.CallInfo[None], error: BaseException, rule: Rule, message: str) -> None:
    """What pytest-rerunfailures, with `--only-rerun`, looks for: the name of the triage's class in name or text.

    Its class stays the one that was raised, but where that says something else than the triage. What a fixture raised
    is raised again for the next test, and therefore left as it is.
    """
    from pytest_vnc_use.triage import CLASSES

    if rule.triage is None:
        return
    kind = CLASSES[rule.triage]
    if isinstance(error, AssertionError):
        if call.when == "call" and rule.triage != "product":
            error.args = (f"{kind.__name__}: {error}",)
    elif isinstance(error, VncUseError) or rule.triage == "infra":
        named = _saying(error, f"{kind.__name__}: {error}") if isinstance(error, kind) else kind(message)
        call.excinfo = pytest.ExceptionInfo.from_exception(named.with_traceback(error.__traceback__))


def _saying(error: VncUseError, text: str) -> VncUseError:
    """Another of its class, however a user's own class is made."""
    return type(error).__new__(type(error), text)


def _places(item: pytest.Item, error: VncUseError) -> Sequence[str]:
    """Where it happened, and where the run folder is."""
    from pytest_vnc_use import failure

    place, machine = item.stash.get(PLACE, ""), machine_of(item.config)
    in_run = [f"{place} of the run in {item.stash[RUNS][-1]}"] if place else []
    return [*in_run, *failure.lines_in(item.path, error), *([f"on the machine {machine}"] if machine else [])]


def machine_of(config: pytest.Config) -> str:
    """The name of this machine on a worker of pytest-xdist: the reader may be on another."""
    return platform.node() if hasattr(config, "workerinput") else ""
