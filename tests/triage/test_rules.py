"""Triage: the rules one by one, and what holds whatever happens."""

from __future__ import annotations

import errno
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pytest_vnc_use import VncUseAgent, errors
from pytest_vnc_use.errors import (
    ActionError,
    AgentFailed,
    AnswerRefused,
    AuthenticationFailed,
    BudgetExceeded,
    ConnectionLost,
    DesktopError,
    DesktopRefused,
    DesktopSilent,
    FileUnreadable,
    Inconclusive,
    InfraError,
    ModelUnavailable,
    PolicyDenied,
    ProductFailed,
    ProgramCrashed,
    QuotaExhausted,
    RunFolderUnwritable,
    ScreenFrozen,
    SettingsError,
    TaskFailed,
    VncUseError,
)
from pytest_vnc_use.plugin.task_spec import TaskSpec
from pytest_vnc_use.plugin.tasks import carry_out
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.triage.failure_text import Fault, fault_of
from pytest_vnc_use.triage.rules import CLASSES, RULES, FailureFacts, RunEnd, error_for_run, rule_for, word_on_run
from pytest_vnc_use.types import (
    STALLED,
    TRIAGES,
    Click,
    Confirmation,
    Decision,
    DesktopAction,
    Frame,
    FrameRef,
    Outcome,
    Proposal,
    Report,
    Ruling,
    RunResult,
    Step,
    Verdict,
)
from support.memory_desktop import ListPlanner, PaintedController, act, finished

CRASHED = Fault("the program 'shop' exited with -11 (SIGSEGV)\nlast words", of_program=True)
CLOSED = Fault("the program 'shop' exited with 0\nexited with 1, it says", of_program=True)
SERVER_ENDED = Fault("the VNC server 'Xtigervnc' exited with -9 (SIGKILL)")
UNSURE = Verdict("the total is 3.00", "unsure", "a dialog hides it")
FAILS = Verdict("the total is 3.00", "fails", "it is 4.00")
HOLDS = Verdict("the total is 3.00", "holds", "it is")


def lacking_space(number: int = errno.ENOSPC) -> OSError:
    return OSError(number, "no")


def raised_from(cause: BaseException) -> BaseException:
    try:
        raise RuntimeError("while something was written") from cause
    except RuntimeError as exc:
        return exc


@pytest.mark.parametrize(
    ("error", "triage"),
    [
        (SettingsError("vnc_steps"), None),
        (QuotaExhausted("daily"), "infra"),
        (AnswerRefused("blocked"), "infra"),
        (AuthenticationFailed("password"), "infra"),
        (DesktopRefused("no server"), "infra"),
        (ConnectionLost("gone"), "infra"),
        (RunFolderUnwritable("full"), "infra"),
        (lacking_space(), "infra"),
        (raised_from(lacking_space(errno.EDQUOT)), "infra"),
        (sqlite3.OperationalError("database or disk is full"), "infra"),
        (ProductFailed("4.00"), "product"),
        (ProgramCrashed("SIGSEGV"), "product"),
        (AgentFailed("no basket"), "agent"),
        (BudgetExceeded("40 steps"), "budget"),
        (PolicyDenied("it buys"), "policy"),
        (Inconclusive("unsure"), "inconclusive"),
        (TaskFailed("of a kind unknown here"), "inconclusive"),
        (ActionError("no such key"), "inconclusive"),
        (NameError("total"), "inconclusive"),
        (FileNotFoundError(errno.ENOENT, "orders.csv"), "inconclusive"),
        (sqlite3.OperationalError("no such table"), "inconclusive"),
        (sqlite3.OperationalError("no such column: full_name"), "inconclusive"),
        (FileUnreadable("not UTF-8"), "product"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_an_error_means(error: BaseException, triage: str | None) -> None:
    assert rule_for(FailureFacts(error)).triage == triage


@pytest.mark.parametrize(
    ("text", "verdicts", "triage"),
    [
        ("assert 1 == 2", [], "product"),
        ("assert 1 == 2", [HOLDS], "product"),
        ("assert 1 == 2", [UNSURE, HOLDS], "product"),
        (f"assert {FAILS!r}", [FAILS], "product"),
        (f"assert {UNSURE!r}", [UNSURE], "inconclusive"),
        (f"assert {UNSURE!r}", [UNSURE, HOLDS], "inconclusive"),
        (f"assert ({UNSURE!r} and {FAILS!r})", [UNSURE, FAILS], "product"),
        (f"assert {FAILS!r}", [FAILS, UNSURE], "product"),
        ("assert False", [UNSURE], "inconclusive"),
    ],
)
def test_an_assertion_means(text: str, verdicts: Sequence[Verdict], triage: str) -> None:
    said = FailureFacts(AssertionError(text), asserted=True, verdicts=tuple(verdicts))
    assert rule_for(said).triage == triage
    assert rule_for(FailureFacts(AssertionError(text), verdicts=tuple(verdicts))).triage == "inconclusive", (
        "in a fixture"
    )


@pytest.mark.parametrize(
    ("error", "fault", "triage"),
    [
        (AssertionError("assert 1 == 2"), SERVER_ENDED, "infra"),
        (AgentFailed("the screen is black"), SERVER_ENDED, "infra"),
        (ConnectionLost("gone"), SERVER_ENDED, "infra"),
        (ConnectionLost("gone"), CRASHED, "product"),
        (ConnectionLost("gone"), CLOSED, "inconclusive"),
        (AssertionError("assert 1 == 2"), CLOSED, "product"),
        (AgentFailed("there is no window"), CRASHED, "product"),
        (QuotaExhausted("daily"), CRASHED, "infra"),
        (NameError("total"), CRASHED, "product"),
    ],
)
def test_what_became_of_desktop_and_program_counts(error: BaseException, fault: Fault, triage: str) -> None:
    assert rule_for(FailureFacts(error, asserted=isinstance(error, AssertionError), fault=fault)).triage == triage


@pytest.mark.parametrize(
    ("words", "module", "triage"),
    [
        ("Timeout (>60.0s) from pytest-timeout.", "pytest_timeout", "budget"),
        ("Timeout >60.0s", "pytest_timeout", "budget"),
        ("Timeout >60.0s", "test_shop", "product"),
    ],
)
def test_a_timeout_of_pytest_timeout_is_budget(words: str, module: str, triage: str) -> None:
    code = compile("def fail(error): raise error", f"{module}.py", "exec")
    made: dict[str, Any] = {"__name__": module}
    exec(code, made)
    with pytest.raises(pytest.fail.Exception) as caught:
        made["fail"](pytest.fail.Exception(words))
    assert rule_for(FailureFacts(caught.value, asserted=True)).triage == triage


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ProductFailed("…: fails (it says 3)"), "a person did it, in 1 step; as the test failed, nothing was recorded"),
        (AssertionError("assert 1 == 2"), "a person did it, in 1 step; as the test failed, nothing was recorded"),
    ],
    ids=["a judge", "the body"],
)
def test_of_a_task_that_a_person_did_no_planner_is_told(error: Exception, told: str) -> None:
    ends = (RunEnd(Outcome.DONE, message="a person did it, in 1 step", did=1, shown=True),)
    failure = FailureFacts(error, asserted=isinstance(error, AssertionError), ends=ends)
    word = word_on_run(failure, rule_for(failure))
    assert word.startswith(told)
    assert word.endswith("; as the test failed, nothing was recorded")


# --- how a run ended --------------------------------------------------------------------------------------------------


def result_of(outcome: Outcome, *notes: str) -> RunResult:
    frame, proposal = FrameRef("0" * 64, 10, 10), Proposal(Click(1, 1))
    steps = [
        Step(number, number, proposal, Ruling("allow", "harmless"), frame, frame, note=note)
        for number, note in enumerate(notes, start=1)
    ]
    return RunResult("r", outcome, "so it ended", Path("runs/r"), "Buy", tuple(steps))


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (Outcome.DONE, Inconclusive),
        (Outcome.GAVE_UP, AgentFailed),
        (Outcome.STEP_LIMIT, BudgetExceeded),
        (Outcome.TIME_LIMIT, BudgetExceeded),
        (Outcome.BUDGET, BudgetExceeded),
        (Outcome.DENIED, PolicyDenied),
        (Outcome.WAITING, PolicyDenied),
        (Outcome.BLOCKED, AnswerRefused),
    ],
)
def test_the_end_of_a_run_is(outcome: Outcome, kind: type[VncUseError]) -> None:
    failure = error_for_run(result_of(outcome))
    assert type(failure) is kind
    assert "run folder: runs" in str(failure)


def test_a_limit_that_was_reached_in_circles_is_the_agents() -> None:
    stalled = STALLED.format(times=3)
    assert type(error_for_run(result_of(Outcome.STEP_LIMIT, "", stalled))) is AgentFailed
    assert type(error_for_run(result_of(Outcome.TIME_LIMIT, stalled))) is AgentFailed
    long_ago = [stalled, *[""] * 5]
    assert type(error_for_run(result_of(Outcome.STEP_LIMIT, *long_ago))) is BudgetExceeded


# --- whatever happens -------------------------------------------------------------------------------------------------


def test_the_table_is_whole() -> None:
    assert {rule.triage for rule in RULES} == {*TRIAGES, None}
    assert len({rule.when for rule in RULES}) == len(RULES)
    assert set(CLASSES) == set(TRIAGES)
    assert RULES[-1].holds(FailureFacts(KeyError("anything")))


def classes(root: type[VncUseError]) -> set[type[VncUseError]]:
    return {root}.union(*map(classes, root.__subclasses__()))


@pytest.mark.parametrize("kind", sorted(classes(VncUseError), key=lambda kind: kind.__name__))
def test_every_exception_of_the_package_has_the_triage_of_its_class(kind: type[VncUseError]) -> None:
    triage = rule_for(FailureFacts(kind("so it is"))).triage
    expected = [name for name, each in CLASSES.items() if issubclass(kind, each)] or ["inconclusive"]
    assert triage == (None if issubclass(kind, SettingsError) else expected[0]), "the first of its classes"
    assert kind.__module__ != errors.__name__ or kind.__name__ in str(errors.__doc__)


OF_US = [kind for kind in classes(InfraError) if kind.__module__ == errors.__name__]
OUTAGES = st.sampled_from([kind for kind in OF_US if not issubclass(kind, ProductFailed)])
VERDICTS = st.lists(st.sampled_from([HOLDS, FAILS, UNSURE]))
FAULTS = st.sampled_from([Fault(), SERVER_ENDED, CLOSED])


UNHURRIED = settings(deadline=None, database=None)


@UNHURRIED
@given(OUTAGES, VERDICTS, FAULTS, st.booleans())
def test_an_outage_never_reads_as_product(
    outage: type[InfraError], verdicts: list[Verdict], fault: Fault, asserted: bool
) -> None:
    """Whatever was judged before it, and whether or not somebody has closed the program."""
    found = rule_for(FailureFacts(outage("out"), asserted, fault, tuple(verdicts))).triage
    assert found in ("infra", "inconclusive") or issubclass(outage, SettingsError)


@pytest.mark.slow
@UNHURRIED
@given(VERDICTS, st.text(), st.sampled_from([AssertionError, LookupError, AgentFailed, BudgetExceeded, ProductFailed]))
def test_a_desktop_that_ended_never_reads_as_product(verdicts: list[Verdict], text: str, kind: type[Exception]) -> None:
    assert rule_for(FailureFacts(kind(text), True, SERVER_ENDED, tuple(verdicts))).triage == "infra"


@UNHURRIED
@given(st.lists(st.sampled_from([HOLDS, UNSURE])), st.text(alphabet="abc 1="))
def test_an_unsure_verdict_never_reads_as_product(before: list[Verdict], text: str) -> None:
    said = FailureFacts(AssertionError(f"{text} {UNSURE!r}"), True, verdicts=(*before, UNSURE))
    assert rule_for(said).triage == "inconclusive"


@UNHURRIED
@given(st.sampled_from(sorted(Outcome)), st.lists(st.sampled_from(["", STALLED.format(times=4)])))
def test_no_end_of_a_run_alone_reads_as_product(outcome: Outcome, notes: list[str]) -> None:
    failure = FailureFacts(error_for_run(result_of(outcome, *notes)))
    assert rule_for(failure).triage not in ("product", None)


# --- whole runs, of random events -------------------------------------------------------------------------------------


@dataclass
class Outages:
    """Raises them, and remembers that it did."""

    happened: list[str] = field(default_factory=list)

    def of(self, kind: type[InfraError]) -> Decision:
        self.happened.append(kind.__name__)
        raise kind("out")


class LosingController(PaintedController):
    """Its desktop goes away at a click on the left edge."""

    def __init__(self, outages: Outages) -> None:
        super().__init__()
        self._outages = outages

    def perform(self, action: DesktopAction) -> None:
        if isinstance(action, Click) and action.x == 0:
            self._outages.of(ConnectionLost)
        super().perform(action)


class EventfulJudge:
    """Answers as listed, and holds what is asked beyond."""

    def __init__(self, said: Iterable[str], outages: Outages) -> None:
        self._said, self._outages = iter(said), outages

    def judge(self, claim: str, frame: Frame, *, timeout_s: float, report: Report) -> Verdict:
        kind = next(self._said, "holds")
        if kind == "out":
            self._outages.of(QuotaExhausted)
        return Verdict(claim, kind, "so it looks", frame=frame.ref)  # type: ignore[arg-type]  # of the three


EVENTS = st.sampled_from(["act", "buy", "lose", "out", "give up", "finish"])


def turns(events: Iterable[str], outages: Outages) -> Iterator[Decision | Callable[[], Decision]]:
    for number, event in enumerate(events, start=1):
        click = Proposal(Click(0 if event == "lose" else number, number))
        match event:
            case "act" | "lose":
                yield act(click)
            case "buy":
                yield act(Proposal(click.action, "buy", {}, Confirmation("this buys two apples")))
            case "out":
                yield lambda: outages.of(ModelUnavailable)
            case "give up":
                yield Decision("gave_up", "no basket")
            case _:
                yield finished()


def triage_of_test(events: Sequence[str], said: Sequence[str], outages: Outages) -> str | None:
    """Of a test with a task and two claims, under these events; `passed` where it passes."""
    with tempfile.TemporaryDirectory() as folder:
        agent = VncUseAgent(
            settings=Settings(runs_dir=folder, steps=4),
            planner=ListPlanner([*turns(events, outages), finished()]),
            controller=LosingController(outages),
            judge=EventfulJudge(said, outages),
            hitl_mode=False,
        )
        try:
            carry_out(agent, [TaskSpec("Buy apples", ("2 apples", "a total of 3.00"))], judge_end_state=True)
        except VncUseError as exc:
            return rule_for(FailureFacts(exc)).triage
    return "passed"


@pytest.mark.slow
@settings(deadline=None, database=None, max_examples=60)
@given(st.lists(EVENTS, max_size=7), st.lists(st.sampled_from(["holds", "fails", "unsure", "out"]), max_size=2))
def test_an_outage_in_a_run_is_infra_and_an_unmet_claim_never_passes(events: list[str], said: list[str]) -> None:
    outages = Outages()
    triage = triage_of_test(events, said, outages)
    assert (triage == "infra") == bool(outages.happened)
    if triage == "passed":
        assert set(said) <= {"holds"}
    if triage == "product":
        assert "fails" in said


# --- a program that hangs --------------------------------------------------------------------------------------------


class HangingDesktop:
    def program_hangs(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("error", "is_blamed"),
    [
        (ScreenFrozen("no pixel has changed"), True),
        (DesktopSilent("it has not answered for 10 s"), True),
        (ConnectionLost("reset by peer"), False),
        (DesktopRefused("showed no screen"), False),
        (DesktopError("the screen's size changed"), False),
        (ModelUnavailable("503"), False),
    ],
)
def test_a_program_is_asked_for_a_sign_of_life_only_where_its_screen_stands_still(
    error: Exception, is_blamed: bool
) -> None:
    fault = fault_of(HangingDesktop(), error)  # type: ignore[arg-type]
    assert fault.hangs is is_blamed
    assert (rule_for(FailureFacts(error, fault=fault)).triage == "product") is is_blamed


@pytest.mark.parametrize(("outlives", "triage"), [(True, "infra"), (False, "product")])
def test_a_lost_connection_blames_a_desktop_that_outlives_its_program(outlives: bool, triage: str) -> None:
    desktop = SimpleNamespace(program_fault=lambda: "xterm exited with 84", outlives_program=outlives)
    error = ConnectionLost("reset by peer")
    assert rule_for(FailureFacts(error, fault=fault_of(desktop, error))).triage == triage  # type: ignore[arg-type]
