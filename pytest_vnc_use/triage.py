"""Triage: what a failed test means, by rules that are written down here and nowhere else.

`product`       the screen, or the program, is not as the test says it must be
`agent`         the planner gave up, or went in circles: nothing sure is known of the product
`infra`         the tool or its surroundings broke: the desktop, the model's service, the disk
`budget`        the steps, seconds, tokens or dollars were used up
`policy`        an action was denied, and that ended the run
`inconclusive`  nothing is shown either way: a judge was unsure, or the test itself broke

`RULES` are asked from top to bottom, and the first that fits decides. In doubt it is never `product`.
"""

from __future__ import annotations

import errno
import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from typing_extensions import assert_never

from pytest_vnc_use.errors import (
    AgentFailed,
    AnswerRefused,
    BudgetExceeded,
    ConnectionLost,
    DesktopRefused,
    Inconclusive,
    InfraError,
    PolicyDenied,
    ProductFailed,
    RecordingDrifted,
    SettingsError,
    TaskFailed,
    VncUseError,
)
from pytest_vnc_use.failure import Fault
from pytest_vnc_use.standstill import STALLED
from pytest_vnc_use.transcript import LAST_STEPS, told_end
from pytest_vnc_use.types import Outcome, RunResult, Verdict

Triage = Literal["product", "agent", "infra", "budget", "policy", "inconclusive"]
TRIAGES: tuple[Triage, ...] = get_args(Triage)
SETTINGS = "settings"
"""What stands in the place of a triage where a setting or a file of the user's is wrong: nothing was tested."""

CLASSES: dict[Triage, type[VncUseError]] = {
    "product": ProductFailed,
    "agent": AgentFailed,
    "infra": InfraError,
    "budget": BudgetExceeded,
    "policy": PolicyDenied,
    "inconclusive": Inconclusive,
}
"""The exception class of each, for `except`, `pytest.raises` and `--only-rerun` of pytest-rerunfailures."""

_STOOD_STILL = STALLED.partition("{")[0]
"""How the note begins that a planner gets for a step that it has tried before, in vain."""

# --- how a run ended --------------------------------------------------------------------------------------------------


def failure_of(result: RunResult) -> VncUseError:
    """The exception for a run that did not end as done."""
    told = told_end(result)
    match result.outcome:
        case Outcome.GAVE_UP:
            return AgentFailed(told)
        case Outcome.STEP_LIMIT | Outcome.TIME_LIMIT | Outcome.BUDGET:
            return AgentFailed(told) if in_circles(result) else BudgetExceeded(told)
        case Outcome.DENIED | Outcome.WAITING:
            return PolicyDenied(told)
        case Outcome.BLOCKED:
            return AnswerRefused(told)
        case Outcome.DONE:
            return Inconclusive(told)
        case _:
            assert_never(result.outcome)


def in_circles(result: RunResult) -> bool:
    """Whether the planner, when the run ended, was repeating what had changed nothing before."""
    return any(step.note.startswith(_STOOD_STILL) for step in result.steps[-LAST_STEPS:])


# --- what failed a test -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failure:
    """What is known of a test that failed.

    `asserted` says that the test's body said so, by an assertion or `pytest.fail`. `fault` is what became of the
    desktop or its program; `verdicts` are the test's so far, oldest first.
    """

    error: BaseException
    asserted: bool = False
    fault: Fault = Fault()
    verdicts: tuple[Verdict, ...] = ()


@dataclass(frozen=True)
class Rule:
    """One line of the table: `when` it holds, in words; what the failure then is; and how that is found out.

    The triage is None where nothing was tested.
    """

    when: str
    triage: Triage | None
    holds: Callable[[Failure], bool]


def rule_for(failure: Failure) -> Rule:
    """The rule that decides what a failure means."""
    return next(rule for rule in RULES if rule.holds(failure))


def _is(*classes: type[BaseException]) -> Callable[[Failure], bool]:
    return lambda failure: isinstance(failure.error, classes)


def _lost_its_screen(failure: Failure) -> bool:
    return isinstance(failure.error, (ConnectionLost, DesktopRefused))


def _is_of_the_tool(failure: Failure) -> bool:
    return isinstance(failure.error, InfraError) and not _lost_its_screen(failure)


def _desktop_ended(failure: Failure) -> bool:
    return bool(failure.fault) and not failure.fault.of_program


def _program_ended(failure: Failure) -> bool:
    return bool(failure.fault) and failure.fault.of_program


def _program_broke(failure: Failure) -> bool:
    """It ended by a signal, or said by its exit code that something was wrong."""
    return _program_ended(failure) and not re.search(r"exited with 0\b", str(failure.fault).partition("\n")[0])


def _disk_is_full(failure: Failure) -> bool:
    return any(map(_tells_of_full_disk, _chain(failure.error)))


def _tells_of_full_disk(error: BaseException) -> bool:
    if isinstance(error, sqlite3.OperationalError):
        return "full" in str(error)
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from, each once."""
    seen: set[int] = set()
    now: BaseException | None = error
    while now is not None and id(now) not in seen:
        seen.add(id(now))
        yield now
        now = now.__cause__ or now.__context__


def _ran_into_timeout(failure: Failure) -> bool:
    """Its words since version 2.4, and those before."""
    return bool(re.match(r"Timeout \(>.*\) from pytest-timeout|Timeout >[\d.]+s$", str(failure.error)))


def _asserts_the_unsure(failure: Failure) -> bool:
    """An assertion shows the verdicts that it is about; where it shows none, it is the last one that made it."""
    if not failure.asserted:
        return False
    shown = set(re.findall(r"<Verdict (fails|unsure)\b", str(failure.error)))
    if shown:
        return shown == {"unsure"}
    return bool(failure.verdicts) and failure.verdicts[-1].kind == "unsure"


RULES = (
    Rule("a setting, a marker, a policy file or a recording is wrong", None, _is(SettingsError)),
    Rule("the desktop itself ended: its VNC server, window manager or container", "infra", _desktop_ended),
    Rule("the disk is full, or cannot be written", "infra", _disk_is_full),
    Rule("the program under test hangs: it runs, and answers no ping", "product", lambda failure: failure.fault.hangs),
    Rule("the model's service, the run folder, or the desktop's screen failed", "infra", _is_of_the_tool),
    Rule("the program under test ended by a signal, or with an exit code that is not 0", "product", _program_broke),
    Rule(
        "the program under test ended with 0, and the screen with it: whoever closed it",
        "inconclusive",
        lambda failure: _program_ended(failure) and _lost_its_screen(failure),
    ),
    Rule("the desktop could not be reached, or its connection was lost", "infra", _lost_its_screen),
    Rule("a judge says that a claim fails, or `wait_for_text` that a page lacks it", "product", _is(ProductFailed)),
    Rule("the planner gave up, or was repeating itself when its run ended", "agent", _is(AgentFailed)),
    Rule("the steps, seconds, tokens or dollars were used up", "budget", _is(BudgetExceeded)),
    Rule("pytest-timeout ended the test", "budget", _ran_into_timeout),
    Rule("an action was denied, or nobody was there to allow it", "policy", _is(PolicyDenied)),
    Rule("the screen is not as recorded, and no model looked at it", "inconclusive", _is(RecordingDrifted)),
    Rule("no claim fails, and of one the judge is unsure", "inconclusive", _is(TaskFailed)),
    Rule("an assertion of the test's body fails, for a verdict that is unsure", "inconclusive", _asserts_the_unsure),
    Rule("an assertion, or `pytest.fail`, of the test's body fails", "product", lambda failure: failure.asserted),
    Rule("anything else that the test, or one of its fixtures, raises", "inconclusive", lambda failure: True),
)
