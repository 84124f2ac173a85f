"""The triage of a failed test: what the failure means, by the class of its exception.

- `product`: the screen or the program is not as the test requires.
- `agent`: the planner gave up, or the screen does not show that the task is done.
- `infra`: the tool or what it depends on failed: the desktop, the model's service, the
  disk.
- `budget`: the steps, seconds, tokens or dollars were used up.
- `policy`: an action was denied, and that ended the run.
- `inconclusive`: nothing is shown either way: a judge was unsure, a gate stayed closed,
  or the test itself failed.

The first of the `RULES` that holds decides.
"""

from __future__ import annotations

import errno
import re
import signal
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from typing_extensions import assert_never

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import (
    AgentFailed,
    AnswerRefused,
    BudgetExceeded,
    ConnectionLost,
    DesktopRefused,
    DesktopSilent,
    FileMissing,
    FileUnreadable,
    Inconclusive,
    InfraError,
    PolicyDenied,
    ProductFailed,
    ProgramCrashed,
    RecordingDrifted,
    ScreenBlank,
    ScreenFrozen,
    SettingsError,
    TaskFailed,
    VncUseError,
    causes,
)
from pytest_vnc_use.errors.causes import named, text_of
from pytest_vnc_use.plain_text import cut, plain
from pytest_vnc_use.runs.transcript import LAST_STEPS, format_end
from pytest_vnc_use.types import REPEATED_NOTE, Outcome, RunResult, Triage
from pytest_vnc_use.types.protocols import Desktop

SETTINGS = "settings"
"""Used in place of a triage if a setting or a file of the user is wrong: nothing was
tested.
"""
NOT_AS_RECORDED = "the screen is not as recorded, and no model continued"
"""The rule of a test that failed for a drift or a transient."""
MAX_ERROR = 20_000
"""The maximum length of an error with the last output of a program, in characters."""

_NOTICE_TIMEOUT_S = 1.0
"""How long after the loss of a connection the end of its program may be noticed."""
_CRASH_SIGNALS = {
    getattr(signal, f"SIG{name}", None)
    for name in ("ILL", "TRAP", "ABRT", "BUS", "FPE", "SEGV", "SYS")
}
"""Signals by which a program ends through its own failure."""
_EXIT = re.compile(r"exited with (?P<code>-?\d+)(?: \((?P<signal>\w+)\))?")


@dataclass(frozen=True)
class DesktopFailure:
    """The failure of a desktop or its program, with the last output; false if there is
    none.
    """

    text: str = ""
    of_program: bool = False
    """True if the program under test ended; false if the desktop under it did, which is
    `infra`.
    """
    hangs: bool = False
    """True if the program has not ended, but does not answer."""

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def has_failed(self) -> bool:
        """Return whether the program under test hangs, or ended by a signal or with an
        exit code that is not 0.
        """
        match = _exit_in(self.text)
        has_succeeded = match is not None and match["code"] == "0"
        return self.of_program and not has_succeeded

    def __str__(self) -> str:
        if self.hangs:
            return f"the program under test hangs: {self.text}"
        if self.of_program:
            return format_program_end(self.text)
        return f"the desktop: {self.text}"


_NO_FAILURE = DesktopFailure()

Check = Callable[[BaseException, DesktopFailure], bool]
"""Takes the nearest error behind a failure that this package raised, else the failure
itself; and the failure of the desktop or its program.
"""


@dataclass(frozen=True)
class TriageRule:
    """A rule of triage: a condition, as text and as a check, and what it means.

    `triage` is None if nothing was tested.
    """

    when: str
    triage: Triage | None
    holds: Check


def rule_for(error: BaseException, failure: DesktopFailure = _NO_FAILURE) -> TriageRule:
    """Return the rule that decides what a failure means. In a group of errors, each has
    its rule, and `_PRECEDENCE` decides.
    """
    rules: list[TriageRule] = []
    for member in causes.parts(error):
        cause = cause_of(member)
        rules.append(next(rule for rule in RULES if rule.holds(cause, failure)))
    return min(rules, key=lambda rule: _PRECEDENCE.index(rule.triage))


_PRECEDENCE: tuple[Triage | None, ...] = (
    None,
    "infra",
    "policy",
    "budget",
    "agent",
    "product",
    "inconclusive",
)
"""The triage of several errors is the first of theirs in this order: causes come first,
and one failed assertion is enough for `product`.
"""


def cause_of(error: BaseException) -> BaseException:
    """Return the nearest error behind this one that this package raised, or itself."""
    for cause in causes.chain(error):
        if isinstance(cause, VncUseError):
            return cause
    return error


def _is(*classes: type[BaseException]) -> Check:
    return lambda error, failure: isinstance(error, classes)


def _is_full_disk(error: BaseException) -> bool:
    if isinstance(error, sqlite3.OperationalError):
        # SQLITE_FULL; other texts hold users' names
        return causes.text_of(error) == "database or disk is full"
    return isinstance(error, OSError) and error.errno in (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
    )


def _is_tool_error(error: BaseException, failure: DesktopFailure) -> bool:
    if isinstance(error, (ConnectionLost, DesktopRefused)):
        return False  # these have their own rules
    return isinstance(error, InfraError)


def _program_failed(error: BaseException, failure: DesktopFailure) -> bool:
    return isinstance(error, ProgramCrashed) or failure.has_failed


def _is_timeout(error: BaseException) -> bool:
    """Return whether pytest-timeout ended the test."""
    text = causes.text_of(error)
    if re.match(r"Timeout \(>.*\) from pytest-timeout", text):
        return True
    # before version 2.4 its message does not name it
    return bool(re.match(r"Timeout >[\d.]+s$", text)) and any(
        frame.f_globals.get("__name__") == "pytest_timeout"
        for frame in causes.frames_of(error)
    )


def _is_assertion(error: BaseException) -> bool:
    # `pytest.fail` raises an outcome of pytest, which only `plugin` knows
    return isinstance(error, AssertionError) or any(
        kind.__name__ == "OutcomeException" for kind in type(error).__mro__
    )


RULES = (
    TriageRule(
        "a setting, a marker, a policy file, a recording or a judge's answer is wrong,"
        " or a key or a judge is missing",
        None,
        _is(SettingsError),
    ),
    TriageRule(
        "the desktop itself exited: its VNC server, window manager or container",
        "infra",
        lambda error, failure: bool(failure) and not failure.of_program,
    ),
    TriageRule(
        "the disk is full, or cannot be written",
        "infra",
        lambda error, failure: any(map(_is_full_disk, causes.chain(error))),
    ),
    TriageRule(
        "the program under test hangs: on `qt`, it is the VNC server, and it runs but"
        " does not answer",
        "product",
        lambda error, failure: failure.hangs,
    ),
    TriageRule(
        "the model's service, the run directory, or the desktop's screen failed; or a"
        " custom planner or judge could not reach its service",
        "infra",
        _is_tool_error,
    ),
    TriageRule(
        "the program under test was ended by a signal, or its exit code was not 0",
        "product",
        _program_failed,
    ),
    TriageRule(
        "the program under test exited with 0 and closed its screen; the cause is"
        " unknown",
        "inconclusive",
        lambda error, failure: (
            bool(failure) and isinstance(error, (ConnectionLost, DesktopRefused))
        ),
    ),
    TriageRule(
        "the desktop could not be reached, or its connection was lost",
        "infra",
        _is(ConnectionLost, DesktopRefused),
    ),
    TriageRule(
        "a file that the program should have written is missing, not UTF-8, not a"
        " regular file, or too large",
        "product",
        _is(FileMissing, FileUnreadable),
    ),
    TriageRule(
        "a claim fails, a reviewer calls it a bug, or `wait_for_text` finds that a page"
        " lacks a text",
        "product",
        _is(ProductFailed),
    ),
    TriageRule(
        "the planner gave up, repeated its actions or returned no action; the task was"
        " not confirmed as done; or a custom planner or judge raised an error",
        "agent",
        _is(AgentFailed),
    ),
    TriageRule(
        "the steps, seconds, tokens or dollars were used up",
        "budget",
        _is(BudgetExceeded),
    ),
    TriageRule(
        "pytest-timeout ended the test",
        "budget",
        lambda error, failure: _is_timeout(error),
    ),
    TriageRule(
        "an action was denied, or no user could allow it", "policy", _is(PolicyDenied)
    ),
    TriageRule(
        NOT_AS_RECORDED,
        "inconclusive",
        _is(RecordingDrifted),
    ),
    TriageRule(
        "no claim fails, but the judge is unsure about one",
        "inconclusive",
        _is(TaskFailed),
    ),
    TriageRule(
        "an assertion, or `pytest.fail`, fails, or another plugin fails the test, as"
        " pytest-check does",
        "product",
        lambda error, failure: _is_assertion(error),
    ),
    TriageRule(
        "anything else that the test or a fixture raises",
        "inconclusive",
        lambda error, failure: True,
    ),
)


def error_for_run(result: RunResult) -> VncUseError:
    """Return the exception for a run that did not end as done."""
    message = format_end(result)
    match result.outcome:
        case Outcome.GAVE_UP:
            return AgentFailed(message)
        case Outcome.STEP_LIMIT | Outcome.TIME_LIMIT | Outcome.BUDGET:
            if _repeats_actions(result):
                return AgentFailed(message)
            return BudgetExceeded(message)
        case Outcome.DENIED | Outcome.WAITING:
            return PolicyDenied(message)
        case Outcome.BLOCKED:
            return AnswerRefused(message)
        case Outcome.DONE:
            return Inconclusive(message)
        case _:
            assert_never(result.outcome)


def _repeats_actions(result: RunResult) -> bool:
    """Return whether the planner, when the run ended, was repeating steps that had
    changed nothing before.
    """
    prefix = REPEATED_NOTE.partition("{")[0]
    return any(step.note.startswith(prefix) for step in result.steps[-LAST_STEPS:])


def failure_of(desktop: Desktop, error: BaseException | None = None) -> DesktopFailure:
    """Return the failure of the desktop or its program. After a ConnectionLost, wait
    briefly for one that explains it.
    """
    is_lost = isinstance(error, ConnectionLost)
    may_hang = isinstance(error, (ScreenBlank, ScreenFrozen, DesktopSilent))
    deadline = Deadline(_NOTICE_TIMEOUT_S if is_lost else 0.0)
    failure = _failure_now(desktop, may_hang=may_hang)
    while not failure and deadline.remaining_s:
        time.sleep(0.02)  # a desktop has no event to wait for
        failure = _failure_now(desktop, may_hang=may_hang)
    if is_lost and failure.of_program and getattr(desktop, "outlives_program", False):
        return DesktopFailure(
            f"its connection was lost, and the program ended: {failure.text}"
        )
    return failure


def _failure_now(desktop: Desktop, *, may_hang: bool) -> DesktopFailure:
    try:
        if program_failure := _program_exit_reason(desktop):
            return DesktopFailure(program_failure, of_program=True)
        failure = DesktopFailure(getattr(desktop, "exit_reason", str)())
        if not failure and may_hang and getattr(desktop, "program_hangs", bool)():
            return DesktopFailure(
                "it runs, and answers nothing", of_program=True, hangs=True
            )
        return failure
    except Exception as exc:  # noqa: BLE001  # it may raise anything; this only explains another failure
        return DesktopFailure(f"its state is unknown: {type(exc).__name__}: {exc}")


def _program_exit_reason(desktop: Desktop | None) -> str:
    """Return why the program under test ended; "" if it still runs."""
    # A custom vnc_desktop may lack any of these methods: then `str()` is "".
    reason = getattr(desktop, "program_exit_reason", str)()
    return str(reason or "")


def format_program_state(desktop: Desktop | None) -> str:
    """Return whether the program under test still runs; "" if that is not known."""
    if getattr(desktop, "program_runs", bool)():
        return "the program still runs"
    # its end, with its output, is reported as the desktop's failure
    return "the program has ended" if _program_exit_reason(desktop) else ""


def format_program_end(program_exit_reason: str, when: str = "") -> str:
    """Return how a program ended, and its exit reason, which starts with the command."""
    how = ""
    if match := _exit_in(program_exit_reason):
        how = f" with {match['signal'] or 'exit code ' + match['code']}"
    return f"the program ended{how}{when}: {program_exit_reason}"


def crash_of(desktop: Desktop, *, of_itself: bool = False) -> str:
    """Return the failure of the program under test if a signal ended it; "" while it
    runs, or if it exited.

    With `of_itself`, only signals count that a program causes itself.
    """
    failure = _program_exit_reason(desktop)
    match = _exit_in(failure)
    exit_code = int(match["code"]) if match else 0
    # Python reports signal n as -n, a shell as 128 + n
    number = -exit_code if exit_code < 0 else exit_code - 128
    signals = _CRASH_SIGNALS if of_itself else range(1, 32)
    return failure if number in signals else ""


def _exit_in(failure: str) -> re.Match[str] | None:
    """Return the exit code, and the signal if one is known, in a program's failure."""
    first_line, _, _ = failure.partition("\n")
    return _EXIT.search(first_line)


def format_failure(
    error: BaseException,
    failure: DesktopFailure,
    locations: Sequence[str],
    hide: Callable[[str], str],
) -> str:
    """Return the error with its locations, and the failure of the desktop or its
    program, which comes first if it is the cause.
    """
    if isinstance(error, InfraError):
        headline = named(error)
    elif isinstance(error, VncUseError):
        headline = text_of(error)
    else:
        headline = f"the test raised {named(error)}"
    lines = [headline, *(f"  {location}" for location in locations)]
    if failure and not isinstance(error, ProgramCrashed):  # which has its program's end
        end, _, output = str(failure).partition("\n")
        if _is_cause(failure, error):
            lines = [end, *lines, output]
        else:
            lines += [end, output]
    return cut(sanitize("\n".join(filter(None, lines)), hide), MAX_ERROR)


def _is_cause(failure: DesktopFailure, error: BaseException) -> bool:
    if isinstance(error, (ConnectionLost, DesktopRefused)) or failure.hangs:
        return True
    return failure.has_failed and not isinstance(error, InfraError)


def sanitize(text: str, hide: Callable[[str], str]) -> str:
    """Return the text without secrets and control characters."""
    # secrets are hidden twice: control characters may have split one
    return hide("\n".join(map(plain, hide(text).splitlines())))
