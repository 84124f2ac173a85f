"""The triage of a failed test: its meaning, by rules that are written down only here.

`product`       the screen, or the program, is not as the test requires `agent`         the planner gave up, or went in
circles: nothing certain is known about the product `infra`         the tool or its surroundings broke: the desktop, the
model's service, the disk `budget`        the steps, seconds, tokens or dollars were used up `policy`        an action
was denied, and that ended the run `inconclusive`  nothing is shown either way: a judge was unsure, or the test itself
broke

`RULES` are asked from top to bottom, and the first that fits decides. In doubt it is never `product`. The causes of an
error count: an assertion that fails because the tool broke is reported as `infra`.
"""

from __future__ import annotations

import errno
import re
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from typing_extensions import assert_never

from pytest_vnc_use.errors import (
    AgentFailed,
    AnswerRefused,
    BudgetExceeded,
    ConnectionLost,
    DesktopRefused,
    FileUnreadable,
    Inconclusive,
    InfraError,
    PolicyDenied,
    ProductFailed,
    ProgramCrashed,
    RecordingDrifted,
    SettingsError,
    TaskFailed,
    VncUseError,
    faults,
)
from pytest_vnc_use.runs.transcript import LAST_STEPS, format_end, plain
from pytest_vnc_use.triage.failure_text import Fault
from pytest_vnc_use.types import STALLED, Outcome, RunResult, Step, TakeScreenshot, Triage, Verdict, Wait

SETTINGS = "settings"
"""Used in place of a triage if a setting or a file of the user is wrong: nothing was tested."""

CLASSES: dict[Triage, type[VncUseError]] = {
    "product": ProductFailed,
    "agent": AgentFailed,
    "infra": InfraError,
    "budget": BudgetExceeded,
    "policy": PolicyDenied,
    "inconclusive": Inconclusive,
}
"""The exception class of each triage, for `except`, `pytest.raises` and `--only-rerun` of pytest-rerunfailures."""

_STOOD_STILL = STALLED.partition("{")[0]
"""The beginning of the note that a planner gets for a step that it has tried before without effect."""

# --- the end of a run -------------------------------------------------------------------------------------------------


def error_for_run(result: RunResult) -> VncUseError:
    """Return the exception for a run that did not end as done."""
    message = format_end(result)
    match result.outcome:
        case Outcome.GAVE_UP:
            return AgentFailed(message)
        case Outcome.STEP_LIMIT | Outcome.TIME_LIMIT | Outcome.BUDGET:
            return AgentFailed(message) if in_circles(result) else BudgetExceeded(message)
        case Outcome.DENIED | Outcome.WAITING:
            return PolicyDenied(message)
        case Outcome.BLOCKED:
            return AnswerRefused(message)
        case Outcome.DONE:
            return Inconclusive(message)
        case _:
            assert_never(result.outcome)


def in_circles(result: RunResult) -> bool:
    """Return whether the planner, when the run ended, was repeating steps that had changed nothing before."""
    return any(step.note.startswith(_STOOD_STILL) for step in result.steps[-LAST_STEPS:])


# --- the failure of a test --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunEnd:
    """The end of a run of a test; `rule` gives its meaning if the run broke or did not end as done.

    `message` is the planner's last one. `did` is the number of actions since the run began, including the test's own.
    If the run was `replayed`, no planner was asked. If it was `shown`, a person did it.
    """

    outcome: Outcome | None
    rule: TriageRule | None = None
    message: str = ""
    did: int = 0
    replayed: bool = False
    shown: bool = False


@dataclass(frozen=True)
class FailureFacts:
    """The known facts about a test that failed.

    `asserted`: the test itself failed it, by an assertion or `pytest.fail`. `fault`: the end of the desktop or its
    program. `verdicts`: those on which the failure may rest. `ends`: those of all runs so far, oldest first. `broken`:
    errors that the test caught from its broken calls, and that may have led to the failure.
    """

    error: BaseException
    asserted: bool = False
    fault: Fault = Fault()
    verdicts: tuple[Verdict, ...] = ()
    ends: tuple[RunEnd, ...] = ()
    broken: tuple[VncUseError, ...] = ()

    @cached_property
    def cause(self) -> BaseException:
        """Return the nearest error behind this one that this package, or a user's planner or judge, raised.

        Return the error itself if there is none. If there are several, prefer one that does not count against the
        product. The error of a run's end does not count if the test caught it and a later run ended as done.
        """
        errors = [each for each in faults.chain(self.error) if isinstance(each, VncUseError) or faults.asked(each)]
        if self.ends and self.ends[-1].rule is None and self.error.__cause__ is None:
            ended = [end.rule for end in self.ends if end.rule]
            errors = [each for each in errors if each is self.error or rule_for(FailureFacts(each)) not in ended]
        return next((each for each in errors if not isinstance(each, ProductFailed)), next(iter(errors), self.error))

    @property
    def is_asserted(self) -> bool:
        """Return whether the test asserts by itself, not because of an error that it caught."""
        return self.asserted and self.cause is self.error


@dataclass(frozen=True)
class TriageRule:
    """One line of the table: `when` it holds, in words; the triage of the failure; and the check.

    The triage is None if nothing was tested.
    """

    when: str
    triage: Triage | None
    holds: Callable[[FailureFacts], bool]


def rule_for(failure: FailureFacts) -> TriageRule:
    """Return the rule that decides the meaning of a failure.

    Before a failure counts against the product, a run that broke counts. Before the test's own assertion counts, a
    broken call counts.
    """
    rule = next(rule for rule in RULES if rule.holds(failure))
    explains: list[TriageRule] = []
    if rule in (_CLAIM_FAILS, _FILE_UNREADABLE, _ASSERTION_FAILS) and (end := _run_in_question(failure)) and end.rule:
        explains = [end.rule]
    if rule in (_ASSERTION_FAILS, _NOTHING_DONE, _ASSERTS_UNSURE, _ANYTHING_ELSE):
        explains += [_rule_for_call(error, failure.fault) for error in broken_before(failure)]
    return gravest(explains) if explains else rule


def _rule_for_call(error: VncUseError, fault: Fault) -> TriageRule:
    """Return the rule for a broken call; an AgentFailed there means that a planner or a judge broke."""
    return _ASKED_BROKE if isinstance(error, AgentFailed) else rule_for(FailureFacts(error, fault=fault))


def broken_before(failure: FailureFacts) -> tuple[VncUseError, ...]:
    """Return the broken calls, if the test's own code raised the error and the error shows no later verdict."""
    is_own = failure.cause is failure.error and not isinstance(failure.error, VncUseError)
    shows_verdict = re.search(r"<Verdict (fails|unsure)\b", faults.text_of(failure.error))
    return failure.broken if is_own and not shows_verdict else ()


def gravest(rules: Iterable[TriageRule]) -> TriageRule:
    """Return the rule that decides if a group of errors was raised."""
    return min(rules, key=lambda rule: _GRAVITY.index(rule.triage))


_GRAVITY: tuple[Triage | None, ...] = (None, "infra", "policy", "budget", "agent", "product", "inconclusive")
"""The order of triages for several errors at once: causes come first. One failed assertion is enough for `product`."""


def word_on_run(failure: FailureFacts, rule: TriageRule) -> str:
    """Return a sentence on the run behind a failure: its planner, or a person, was wrong, or it ended in another way.

    Return "" if the run does not explain the failure.
    """
    if not (_claim_fails(failure) or failure.is_asserted):
        return ""
    end = _run_in_question(failure)
    if end and end.rule:
        how = f"ended as {end.outcome}" if end.outcome else "broke"
        return f"the run {how}: {plain(end.message)}" if end.rule == rule else ""
    if not end or end.replayed or rule not in (_CLAIM_FAILS, _FILE_UNREADABLE, _ASSERTION_FAILS, _NOTHING_DONE):
        return ""
    if end.shown:
        return f"{plain(end.message)}; as the test failed, nothing was recorded"
    did = f"{end.did} {'action' if end.did == 1 else 'actions'} carried out"
    if not any(each.did for each in failure.ends):
        did = "nothing at all was done"
    return f"the planner was wrong: it said that the task was done ({did}): {plain(end.message)!r}"


def end_of(result: RunResult, *, replayed: bool = False, shown: bool = False) -> RunEnd:
    """Return the end of a run that ended with an outcome."""
    rule = None if result.outcome is Outcome.DONE else rule_for(FailureFacts(error_for_run(result)))
    return RunEnd(result.outcome, rule, result.message, _done_in(result.steps), replayed, shown)


def broken_end(error: BaseException, steps: Iterable[Step] = ()) -> RunEnd:
    """Return the end of a run that broke."""
    return RunEnd(None, rule_for(FailureFacts(error)), faults.named(error), _done_in(steps))


def _done_in(steps: Iterable[Step]) -> int:
    return sum(not step.error and not isinstance(step.proposal.action, _DOES_NOTHING) for step in steps)


_DOES_NOTHING = (Wait, TakeScreenshot)


def _run_in_question(failure: FailureFacts) -> RunEnd | None:
    """Return the newest run whose outcome is not done and is shown by an assertion; without one, the newest run."""
    text = faults.text_of(failure.error)
    line = faults.line_of(failure.error)
    kinds = [end for end in failure.ends if end.outcome and _shows(text, end.outcome, line)]
    return next((end for end in reversed(kinds) if end.rule), next(iter(failure.ends[-1:]), None))


def _shows(text: str, outcome: Outcome, line: str) -> bool:
    """Return whether the text shows the outcome of a run.

    A word does not count if the test's own `line` contains it, or if it is compared with another text: then the test
    expects it from the product.
    """
    if re.search(rf"Outcome\.{outcome.name}\b", text):
        return True
    asserted = next((each for each in text.splitlines() if each.startswith("assert ")), text)
    compared = _COMPARED.match(asserted)
    if compared and not {compared[2], compared[4]} <= set(Outcome):
        return False
    word = rf"(['\"]){outcome.value}\1"
    return len(re.findall(word, asserted)) > len(re.findall(word, line))


_COMPARED = re.compile(r"(?:assert )?(['\"])(.*)\1 (?:==|!=|in|not in) (['\"])(.*)\3$")
"""Two texts as pytest, or unittest, shows their comparison."""


def _is(*classes: type[BaseException]) -> Callable[[FailureFacts], bool]:
    return lambda failure: isinstance(failure.cause, classes)


def _lost_its_screen(failure: FailureFacts) -> bool:
    return isinstance(failure.cause, (ConnectionLost, DesktopRefused))


def _is_of_the_tool(failure: FailureFacts) -> bool:
    is_of_product = isinstance(failure.cause, ProductFailed)
    return isinstance(failure.cause, InfraError) and not (is_of_product or _lost_its_screen(failure))


def _asked_user(failure: FailureFacts) -> bool:
    """Return whether a user's own planner or judge raised the error."""
    return bool(faults.asked(failure.cause)) and not _ran_into_timeout(failure)


def _asked_user_in_vain(failure: FailureFacts) -> bool:
    return _asked_user(failure) and faults.of_network(failure.cause)


def _did_nothing(failure: FailureFacts) -> bool:
    """Return whether a claim or the test's assertion fails, the newest run ended as done, and no run did any action.

    Return False if any run was replayed.
    """
    if not failure.ends or failure.ends[-1].rule or any(end.did or end.replayed for end in failure.ends):
        return False
    return _claim_fails(failure) or (failure.is_asserted and not _asserts_the_unsure(failure))


def _claim_fails(failure: FailureFacts) -> bool:
    return isinstance(failure.cause, ProductFailed) and not isinstance(failure.cause, ProgramCrashed)


def _desktop_ended(failure: FailureFacts) -> bool:
    return bool(failure.fault) and not failure.fault.of_program


def _program_ended(failure: FailureFacts) -> bool:
    return bool(failure.fault) and failure.fault.of_program


def _program_broke(failure: FailureFacts) -> bool:
    """Return whether the program ended by a signal, or with an exit code that is not 0."""
    return isinstance(failure.cause, ProgramCrashed) or failure.fault.broke


def _disk_is_full(failure: FailureFacts) -> bool:
    return any(map(_tells_of_full_disk, faults.chain(failure.error)))


def _tells_of_full_disk(error: BaseException) -> bool:
    if isinstance(error, sqlite3.OperationalError):
        return faults.text_of(error) == "database or disk is full"  # SQLITE_FULL; other texts hold users' names
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def _ran_into_timeout(failure: FailureFacts) -> bool:
    """Return whether pytest-timeout ended the test: by its message, or before version 2.4 by its code."""
    text = faults.text_of(failure.error)
    if re.match(r"Timeout >[\d.]+s$", text):
        return any(frame.f_globals.get("__name__") == "pytest_timeout" for frame in faults.frames_of(failure.error))
    return bool(re.match(r"Timeout \(>.*\) from pytest-timeout", text))


def _asserts_the_unsure(failure: FailureFacts) -> bool:
    """Return whether an assertion rests on an unsure verdict.

    If the assertion shows verdicts, only these count; if not, any verdict that it may rest on.
    """
    if not failure.is_asserted:
        return False
    kinds = set(re.findall(r"<Verdict (fails|unsure)\b", faults.text_of(failure.error)))
    if kinds:
        return kinds == {"unsure"}
    last = {verdict.claim: verdict for verdict in failure.verdicts}
    return any(verdict.kind == "unsure" for verdict in last.values())


_NOTHING_DONE = TriageRule(
    "the planner said done without any action, but a claim or the body fails", "agent", _did_nothing
)
_CLAIM_FAILS = TriageRule(
    "a judge says that a claim fails, or `wait_for_text` that a page lacks it", "product", _claim_fails
)
_FILE_UNREADABLE = TriageRule(
    "a file that the program wrote is not UTF-8, no regular file, or too large", "product", _is(FileUnreadable)
)
_ASSERTION_FAILS = TriageRule(
    "an assertion, or `pytest.fail`, of the test's body, its helpers or fixtures fails",
    "product",
    lambda failure: failure.is_asserted,
)
_ASKED_BROKE = TriageRule("a planner or judge of the user's own broke", "agent", _asked_user)
_ASSERTS_UNSURE = TriageRule(
    "an assertion fails that depends on an unsure verdict", "inconclusive", _asserts_the_unsure
)
_ANYTHING_ELSE = TriageRule(
    "anything else that the test, or one of its fixtures, raises", "inconclusive", lambda failure: True
)

RULES = (
    TriageRule(
        "a setting, a marker, a policy file or a recording is wrong, or a key is missing", None, _is(SettingsError)
    ),
    TriageRule("the desktop itself ended: its VNC server, window manager or container", "infra", _desktop_ended),
    TriageRule("the disk is full, or cannot be written", "infra", _disk_is_full),
    TriageRule(
        "the program under test hangs: it runs, and answers no ping", "product", lambda failure: failure.fault.hangs
    ),
    TriageRule("the model's service, the run folder, or the desktop's screen failed", "infra", _is_of_the_tool),
    TriageRule("a planner or judge of the user's own could not reach its service", "infra", _asked_user_in_vain),
    TriageRule(
        "the program under test ended by a signal, or with an exit code that is not 0", "product", _program_broke
    ),
    TriageRule(
        "the program under test ended with 0 and closed its screen; nobody knows who ended it",
        "inconclusive",
        lambda failure: _program_ended(failure) and _lost_its_screen(failure),
    ),
    TriageRule("the desktop could not be reached, or its connection was lost", "infra", _lost_its_screen),
    _NOTHING_DONE,
    _FILE_UNREADABLE,
    _CLAIM_FAILS,
    TriageRule("the planner gave up, or was repeating itself when its run ended", "agent", _is(AgentFailed)),
    _ASKED_BROKE,
    TriageRule("the steps, seconds, tokens or dollars were used up", "budget", _is(BudgetExceeded)),
    TriageRule("pytest-timeout ended the test", "budget", _ran_into_timeout),
    TriageRule("an action was denied, or nobody was there to allow it", "policy", _is(PolicyDenied)),
    TriageRule("the screen is not as recorded, and no model looked at it", "inconclusive", _is(RecordingDrifted)),
    TriageRule("no claim fails, but the judge is unsure about one", "inconclusive", _is(TaskFailed)),
    _ASSERTS_UNSURE,
    _ASSERTION_FAILS,
    _ANYTHING_ELSE,
)
