"""One run of a task: the nodes that look, ask, rule and act, and the runner that writes each run down.

`graph` says in which order the nodes run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sqlite3
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from filelock import FileLock, Timeout
from typing_extensions import assert_never

from pytest_vnc_use import clock
from pytest_vnc_use.agent.act import (
    LONGEST_TEXT,
    Actor,
    ElementsOf,
    Targets,
    elements_of,
    page_url_of,
    readable,
    truncated,
)
from pytest_vnc_use.agent.budget import Budget
from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import (
    AnswerRefused,
    BudgetExceeded,
    ProgramCrashed,
    RunFolderError,
    SettingsError,
    VncUseError,
    faults,
)
from pytest_vnc_use.plain_text import cut, without_query
from pytest_vnc_use.planners.common.decisions import decision_of
from pytest_vnc_use.runs.folder import RunFolder, Trace, from_json, new_run_id, path_of, read_trace, to_json
from pytest_vnc_use.runs.logger import RunLogger
from pytest_vnc_use.runs.secrets import Secrets
from pytest_vnc_use.runs.takeover import ONLY_REPLAYED, live_name, seen_by_live
from pytest_vnc_use.runs.tidying import drop_checkpoints
from pytest_vnc_use.runs.transcript import plain, transcript
from pytest_vnc_use.safety.rules import Policy, ReviewContext, deny_unasked
from pytest_vnc_use.same_screen import same_screen
from pytest_vnc_use.settings.settings import TIMING, Settings
from pytest_vnc_use.triage.failure_text import format_program_end
from pytest_vnc_use.types import (
    NO_FRAME,
    STALLED,
    ApprovalAsked,
    CallFunction,
    CUAState,
    Decision,
    Extracted,
    FolderMade,
    Frame,
    FrameRef,
    GateAwaited,
    Judged,
    KeyUp,
    Limits,
    ModelAsked,
    MouseUp,
    Observation,
    Outcome,
    Proposal,
    Report,
    Ruling,
    RunEnded,
    RunEvent,
    RunResult,
    RunStarted,
    Step,
    StepFinished,
    StepStarted,
    TakeScreenshot,
    Turn,
    TurnDecided,
    Usage,
    Wait,
)
from pytest_vnc_use.types.protocols import (
    Approver,
    Controller,
    Judge,
    Planner,
    Replaying,
    RunObserver,
    TellsUrl,
)

if TYPE_CHECKING:
    from pytest_vnc_use.agent.graph import TaskRun


@dataclass
class History:
    """The turns and steps of a run. `open_step` is the number of a step that was unfinished at a crash."""

    turns: list[Turn] = field(default_factory=list)
    open_step: int | None = None

    @classmethod
    def of(cls, trace: Trace) -> History:
        """Return the history of a run folder."""
        return cls(list(trace.turns), trace.open_step.number if trace.open_step else None)

    @property
    def steps(self) -> list[Step]:
        """The steps of all turns, in order."""
        return [step for turn in self.turns for step in turn.steps]

    def decided(self, number: int, decision: Decision) -> None:
        """Note the decision of turn `number`. It replaces one from before a crash that was not carried out."""
        del self.turns[number - 1 :]
        self.turns.append(Turn(decision))

    def add(self, step: Step) -> None:
        """Add a step to the newest turn."""
        turn = self.turns[-1]
        self.turns[-1] = dataclasses.replace(turn, steps=(*turn.steps, step))

    def finished(self, number: int) -> Step | None:
        """Return the step of that number; None if it was not finished."""
        return next((step for step in self.steps if step.number == number), None)


MOST_AGAIN = 2
"""The most repeats of one turn. The last answer is used even if the screen changed again."""
RUN_ENDS = (DeadlineExceeded, AnswerRefused, BudgetExceeded)
"""Errors that end a run with an outcome of its own."""
STALE = "the screen changed again during this decision: check whether the action still made sense"


@dataclass(frozen=True)
class TimelyAnswer:
    """A decision about a frame. `cut_short` is why the planner could not be asked again, although it was necessary."""

    decision: Decision
    frame: FrameRef
    cut_short: Exception | None = None


def answer_about(
    frame: FrameRef, *, ask: Callable[[FrameRef], Decision], other_than: Callable[[FrameRef], FrameRef | None]
) -> TimelyAnswer:
    """Return the planner's answer about the current screen. If the screen changed meanwhile, ask a model again.

    The first answer is about `frame`. `other_than` returns the current screen if it differs from a frame. The
    decision's usage is that of all answers. Without an answer, it raises what `ask` does.
    """
    answers: list[Decision] = []
    while True:
        try:
            answers.append(ask(frame))
        except RUN_ENDS as exc:
            if not answers:
                raise
            return TimelyAnswer(_last_of(answers), frame, cut_short=exc)
        now = other_than(frame) if _may_be_stale(answers[-1]) else None
        if now is None or len(answers) > MOST_AGAIN:
            return TimelyAnswer(replace(_last_of(answers), stale=now is not None), frame)
        frame = now


def _may_be_stale(decision: Decision) -> bool:
    """Return whether a change of the screen matters: the answer is a model's, and it does more than wait or look."""
    waits = all(isinstance(proposal.action, (Wait, TakeScreenshot)) for proposal in decision.proposals)
    return bool(decision.model) and not (decision.kind == "act" and waits)


def _last_of(answers: Sequence[Decision]) -> Decision:
    usage = sum((decision.usage for decision in answers), Usage())
    return replace(answers[-1], usage=usage, asked_again=len(answers) - 1)


def fingerprint(step: Step) -> str:
    """Return a text that is the same for the same action on the same frame."""
    action = json.dumps(to_json(step.proposal.action), sort_keys=True)
    return hashlib.sha256(f"{step.frame_before.digest} {action}".encode()).hexdigest()[:16]


def repeats(step: Step, state: CUAState) -> int:
    """Return how often the step's action was proposed on this frame, this time included. Waiting does not count."""
    if isinstance(step.proposal.action, (Wait, TakeScreenshot, CallFunction)):
        return 0
    return state["fingerprints"].count(fingerprint(step)) + 1


LONGEST_DELAY_MS = 10_000


@dataclass
class Timing:
    """The timing of one run. `step_delay_s` may change during the run; `settings_s` are the others, in seconds."""

    step_delay_s: float
    settings_s: Mapping[str, float]

    def functions(self) -> Mapping[str, Callable[..., object]]:
        """Return the functions for a model, by name."""

        def get_timing() -> str:
            """Return the times of this run, in milliseconds."""
            times_s = {**self.settings_s, "step_delay": self.step_delay_s}
            return "\n".join(f"{name}_ms: {round(seconds * 1000)}" for name, seconds in times_s.items())

        def configure(step_delay_ms: float) -> str:
            """Set the wait after each step of this run, in milliseconds."""
            if isinstance(step_delay_ms, bool) or not 0 <= float(step_delay_ms) <= LONGEST_DELAY_MS:
                raise ValueError(f"step_delay_ms must be 0 to {LONGEST_DELAY_MS}, got {step_delay_ms!r}")
            self.step_delay_s = float(step_delay_ms) / 1000
            return get_timing()

        return {"get_timing": get_timing, "configure": configure}


class Reviewer:
    """The reviewer. It remembers the actions that were carried out. Without `hitl_mode` it denies instead of asking."""

    def __init__(self, *, hitl_mode: bool) -> None:
        self._hitl_mode = hitl_mode
        self._context = ReviewContext()
        self._page_url: Callable[[], str] = str
        self._runs: set[str] = set()

    def begin(self, run_id: str, controller: Controller, before: Iterable[Step]) -> None:
        """Note that a run begins or continues; `controller` acts in it, `before` are its steps so far."""
        self._page_url = controller.page_url if isinstance(controller, TellsUrl) else str
        if run_id not in self._runs:  # it has observed the other steps
            for step in before:
                self._context = self._context.after(step)
        self._runs.add(run_id)

    def observe(self, event: RunEvent) -> None:
        """Note a step that is over."""
        if isinstance(event, StepFinished):
            self._context = self._context.after(event.step)

    def review(self, policy: Policy, context: ReviewContext, proposal: Proposal, *, after_yes: bool = False) -> Ruling:
        """Rule on a proposal; with `after_yes`, on one that a person has said yes to."""
        typed, held = self._context.typed, self._context.held
        ruling = policy.review(proposal, replace(context, typed=typed, held=held, page_url=self._page_url))
        return ruling if self._hitl_mode or after_yes or ruling.kind != "ask" else deny_unasked(ruling)


CHECKPOINTS = "checkpoints.sqlite"
"""Their file in the run folder."""
NO_CHECKPOINT = "run {!r} left no checkpoint to go on from; start its task again"


@contextmanager
def damage_as_error(run_id: str) -> Iterator[None]:
    """Map errors of damaged checkpoints to RunFolderError; a full disk keeps its own error."""
    try:
        yield
    except VncUseError:
        raise
    except Exception as exc:  # for a damaged file SQLite and LangGraph may raise anything
        if isinstance(exc, sqlite3.OperationalError) and "full" in str(exc):
            raise
        raise RunFolderError(
            f"the checkpoints of run {run_id!r} are damaged ({type(exc).__name__}: {exc}), so it cannot continue. "
            "Its run folder shows what it did; start the task again"
        ) from exc


@contextmanager
def only_driver(folder: RunFolder) -> Iterator[None]:
    """Drive a run as the only one, in this process and others. Raises RunFolderError if somebody else drives it."""
    lock = FileLock(folder.path / "driver.lock", mode=0o600, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RunFolderError(f"this or another process is carrying out run {folder.path.name!r} right now") from None
    try:
        yield
    finally:
        lock.release()


@dataclass(frozen=True)
class Given:
    """The objects that an agent was given. `would_plan` makes the planner if none was given."""

    secrets: Collection[str]
    functions: Collection[str]
    planner: Planner | None
    would_plan: Callable[[], Planner]
    has_policy: bool
    has_judge: bool


def check_unfinished(trace: Trace) -> None:
    """Raise RunFolderError if the run is over; one that broke is not."""
    outcome = trace.ended.outcome if trace.ended else None
    if outcome is not None:
        run_id = trace.path.name
        raise RunFolderError(
            f"run {run_id!r} is over, it ended as {str(outcome)!r}; only an unfinished run can continue"
        )


def check_step(trace: Trace, step: int | None) -> None:
    """Raise RunFolderError if the run does not wait for an answer about this step."""
    if step is not None and (trace.asked is None or trace.asked.number != step):
        run_id = trace.path.name
        raise RunFolderError(
            f"run {run_id!r} does not wait for an answer about step {step!r}; look which step it waits for now"
        )


def check_needs(started: RunStarted, settings: Settings, given: Given) -> None:
    """Raise SettingsError if something is missing that the run was started with. It says how to give it again."""
    missing = "; ".join(_missing(started, settings, given))
    if missing:
        raise SettingsError(f"run {started.run_id!r} cannot continue as it was started: {missing}")


def _missing(started: RunStarted, settings: Settings, given: Given) -> Iterator[str]:
    for name in sorted(set(started.secrets) - set(given.secrets)):
        yield f"its secret {name!r} is missing: give it again with --secret {name} (secrets={{{name!r}: …}})"
    if functions := sorted(set(started.functions) - set(given.functions)):
        yield f"its functions {', '.join(functions)} are missing: give them again as functions=[…] in Python"
    if given.planner is None:
        yield from _other_planner(started, settings, given.would_plan)
    if started.own_policy and not given.has_policy:
        yield "it was started with a policy object: give it again as policy=…"
    elif (policy := started.settings.get("policy")) and not (settings.policy or given.has_policy):
        yield f"its policy was {plain(str(policy))!r}: give it again with --policy FILE (policy=…)"
    if started.own_judge and started.expect and not given.has_judge:
        yield "it was started with a judge object: give it again as judge=…"


def _other_planner(started: RunStarted, settings: Settings, would_plan: Callable[[], Planner]) -> Iterator[str]:
    """Yield how the current planner differs from the one that planned the run, or went on where its replay drifted."""
    before = live_name(started.planner)
    if before == ONLY_REPLAYED:
        yield "its planner was a recording. Run its test again, or pass a planner (planner=…, --planner NAME)"
        return
    try:
        name = would_plan().name
    except VncUseError:  # there is none, or its key is missing; the right planner reports a missing key itself
        name = before if settings.planner and before.startswith(settings.planner) else ""
    if name != before:
        would = f"but now it would be {plain(name)!r}" if name else "but now there is none"
        yield (f"its planner was {plain(before)!r}, {would}. Pass the same planner again (planner=…, --planner NAME)")
    if excluded := sorted(set(started.settings.get("exclude") or ()) - set(settings.exclude)):
        yield (
            f"its planner was not allowed to use {', '.join(map(plain, excluded))}: give that again as "
            "excluded_actions=[…]"
        )


INTERRUPTED = "the run stopped during this action, so its effect is unknown. Look at the screen before you repeat it"
SCREEN_CHANGED = "not carried out: the screen changed while the run was stopped. Look at it and decide again"
HALTED = "not carried out: an earlier action of this turn failed"


@dataclass
class Parts:
    """The parts that a run works with.

    `announce` gets the first frame. `to_placeholders` takes declared secrets out of the next action; the actor reveals
    them again. `hide` takes all secrets out of every output. `crash` returns which signal ended the program under test.
    With `watch`, a model is asked again if the screen changed during its answer. `request_s` as in Observation.
    """

    actor: Actor
    planner: Planner
    review: Callable[..., Ruling]
    announce: Callable[[FrameRef], None]
    emit: Callable[[RunEvent], None]
    limits: Limits
    to_placeholders: Callable[[Any], Any]
    hide: Callable[[Any], Any]
    crash: Callable[[], str] = str
    watch: bool = True
    request_s: float | None = None


class Nodes:
    """The nodes of one run. Each takes the graph's state and returns what it changes."""

    def __init__(self, parts: Parts, history: History) -> None:
        self._parts = parts
        self.history = history
        self._deadline = Deadline(parts.limits.seconds)
        self._stood_still = False
        self._moved_on = False
        self._model_s = 0.0

    def go_on(self, elapsed_s: float) -> None:
        """Continue a run that stopped after `elapsed_s`. The screen may have changed."""
        self._deadline = Deadline(self._parts.limits.seconds, elapsed_s)
        self._stood_still = True

    def observe(self, state: CUAState) -> CUAState:
        """Look at the first frame; the planner's first turn is about it."""
        frame = self._parts.actor.first_look()
        self._parts.announce(frame)
        return CUAState(first_frame=to_json(frame), frame=to_json(frame), turn=0, step=0, pending=[], fingerprints=[])

    def propose(self, state: CUAState) -> CUAState:
        """Ask the planner for its next turn."""
        if not self._deadline.remaining_s:
            return self._out_of_time()
        frame = self._frame_to_act_on(state)
        self._moved_on = False
        started = clock.monotonic()
        try:
            answer = self._answer_about(frame, state)
        except RUN_ENDS as exc:
            return self.cut_short(exc)
        self._model_s = clock.monotonic() - started
        number, decision = state["turn"] + 1, readable(answer.decision)
        self.history.decided(number, decision)
        self._parts.emit(TurnDecided(number, decision, self._model_s))
        decided = self.cut_short(answer.cut_short) if answer.cut_short else self._decide(decision, state)
        frame_json = to_json(answer.frame)
        first = frame_json if number == 1 else state["first_frame"]
        return CUAState(turn=number, first_frame=first, frame=frame_json) | decided

    def act(self, state: CUAState) -> CUAState:
        """Carry out the first pending action, or refuse it, or run out of time."""
        if not self._deadline.remaining_s:
            return self._out_of_time()
        step = self.history.finished(state["step"] + 1) or self._new_step(state)
        return self._after(step, state)

    def cut_short(self, reason: Exception) -> CUAState:
        """Return the state of a run that ends early: because of a refused answer, the budget, or else the time."""
        match reason:
            case AnswerRefused():
                return self._end_run(Outcome.BLOCKED, str(reason))
            case BudgetExceeded():
                return self._end_run(Outcome.BUDGET, str(reason))
            case _:
                return self._out_of_time(str(reason))

    # --- proposing ---------------------------------------------------------------------------------------------------

    def _frame_to_act_on(self, state: CUAState) -> FrameRef:
        """Return the last frame; or, the first time after the run stopped, the screen now."""
        last = from_json(FrameRef, state["frame"])
        if not self._stood_still:
            return last
        self._stood_still = False
        now, load_png = self._parts.actor.capture(), self._parts.actor.folder.load_png
        self._moved_on = not same_screen(load_png(last), load_png(now))
        return now

    def _answer_about(self, frame: FrameRef, state: CUAState) -> TimelyAnswer:
        return answer_about(
            frame,
            ask=lambda seen: self._deadline.call(lambda: self._ask(state, seen), meanwhile=self._parts.actor.watch),
            other_than=self._parts.actor.other_than if self._parts.watch else lambda _: None,
        )

    def _ask(self, state: CUAState, frame: FrameRef) -> Decision:
        _vnc_asks = "planner"
        observation = Observation(
            task=state["task"],
            first_frame=from_json(FrameRef, state["first_frame"]),
            frame=frame,
            turns=tuple(self.history.turns[: state["turn"]]),
            load_png=self._parts.actor.folder.load_png,
            report=self._parts.emit,
            request_s=self._parts.request_s,
        )
        if not isinstance(self._parts.planner, Replaying):  # else it is resumed: what was replayed is not its own
            observation = seen_by_live(observation)
        answer = self._parts.planner.decide(observation, timeout_s=self._deadline.remaining_s)
        return decision_of(answer, f"an answer of {self._parts.planner.name}")

    def _decide(self, decision: Decision, state: CUAState) -> CUAState:
        match decision.kind:
            case "finished":
                self._check_program(state["step"])
                return self._end_run(Outcome.DONE, decision.words)
            case "gave_up":
                return self._end_run(Outcome.GAVE_UP, decision.words)
            case "act":
                pending = [to_json(self._parts.to_placeholders(proposal)) for proposal in decision.proposals]
                return self._next(pending, steps=state["step"])
            case _:
                assert_never(decision.kind)

    def _next(self, pending: list[dict[str, Any]], *, steps: int) -> CUAState:
        """Return the state for the pending calls, with a ruling on the first."""
        if pending and steps >= self._parts.limits.steps:
            return self._end_run(Outcome.STEP_LIMIT, f"the limit of {self._parts.limits.steps} steps was reached")
        ruling = None
        if pending:
            ruling = self.rule_on(from_json(Proposal, pending[0]))
        return CUAState(pending=pending, ruling=to_json(ruling) if ruling else None, elapsed_s=self._deadline.spent_s)

    def rule_on(self, proposal: Proposal) -> Ruling:
        """Return the ruling on the next action."""
        return Ruling("allow", HALTED) if self._is_halted(proposal) else self._parts.review(proposal)

    def _is_halted(self, proposal: Proposal) -> bool:
        """Return whether to leave out a call of a turn that failed. Keys and buttons are still released."""
        turn = self.history.turns[-1]
        failed = turn.decision.stop_at_error and any(step.error for step in turn.steps)
        return failed and not isinstance(proposal.action, (KeyUp, MouseUp))

    # --- acting ------------------------------------------------------------------------------------------------------

    def _new_step(self, state: CUAState) -> Step:
        decision, first_of_turn = self.history.turns[-1].decision, not self.history.turns[-1].steps
        frame, proposal = self._frame_to_act_on(state), from_json(Proposal, state["pending"][0])
        step = Step(
            number=state["step"] + 1,
            turn=state["turn"],
            proposal=proposal,
            ruling=self._ruling(proposal, from_json(Ruling, state["ruling"])),
            frame_before=frame,
            frame_after=frame,
            words=decision.words,
            model=decision.model,
            usage=decision.usage if first_of_turn else Usage(),
            note=STALE if first_of_turn and decision.stale else "",
            asked_again=decision.asked_again if first_of_turn else 0,
        )
        watched = self._parts.watch and bool(decision.model) and len(state["pending"]) == 1
        step = self._carried_out(step, self._model_s if first_of_turn else 0.0, watched=watched)
        if (times := repeats(step, state)) >= self._parts.limits.stall:
            step = dataclasses.replace(step, note=STALLED.format(times=times))
        step = truncated(self._parts.hide(step))  # hide first: a secret that is cut in half would not be recognised
        self.history.add(step)
        self._parts.emit(StepFinished(step))
        return step

    def _ruling(self, proposal: Proposal, ruling: Ruling) -> Ruling:
        """Return the ruling; a denial where the policy denies by now what a person has said yes to."""
        if ruling.kind != "allow" or ruling.by != "person":
            return ruling
        now = self._parts.review(proposal, after_yes=True)
        return now if now.kind == "deny" else ruling

    def _carried_out(self, step: Step, model_s: float, *, watched: bool) -> Step:
        if step.ruling.kind != "allow":
            return dataclasses.replace(step, error=f"denied: {step.ruling.explanation}")
        if self._is_halted(step.proposal):
            return dataclasses.replace(step, error=HALTED)
        if step.number == self.history.open_step:
            self.history.open_step, self._moved_on = None, True
            return dataclasses.replace(step, error=INTERRUPTED)
        if self._moved_on:
            return dataclasses.replace(step, error=SCREEN_CHANGED)
        self._parts.emit(StepStarted(step.number, step.turn, step.proposal, step.ruling))
        effect = self._parts.actor.carry_out(step.proposal.action, step.frame_before, self._deadline, watched=watched)
        times = dataclasses.replace(effect.times, model_s=model_s)
        return dataclasses.replace(step, **vars(effect) | {"times": times})

    # --- after a step ------------------------------------------------------------------------------------------------

    def _after(self, step: Step, state: CUAState) -> CUAState:
        self._check_program(step.number)
        fingerprints = [*state["fingerprints"], fingerprint(step)][-8 * self._parts.limits.stall :]
        after = CUAState(step=step.number, frame=to_json(step.frame_after), fingerprints=fingerprints)
        if step.ruling.kind != "allow" and step.ruling.ends_run:
            return after | self._end_run(Outcome.DENIED, step.ruling.explanation)
        pending = state["pending"][1:]
        if repeats(step, state) > self._parts.limits.stall:
            return after | self._end_run(Outcome.GAVE_UP, "it kept repeating the same action on the same screen")
        return after | self._next(pending, steps=step.number)

    def _check_program(self, step: int) -> None:
        if crash := self._parts.crash():
            raise ProgramCrashed(format_program_end(crash, f" at step {step}"))

    def _end_run(self, outcome: Outcome, message: str) -> CUAState:
        message = cut(self._parts.hide(message), LONGEST_TEXT)
        return CUAState(outcome=outcome.value, message=message, pending=[], elapsed_s=self._deadline.spent_s)

    def _out_of_time(self, why: str = "") -> CUAState:
        reached = f"the limit of {self._parts.limits.seconds:g} s was reached"
        return self._end_run(Outcome.TIME_LIMIT, f"{reached}: {why}" if why else reached)


class DesktopAccess(Protocol):
    """The desktop of an agent, as `build.Connection` gives it."""

    @property
    def server(self) -> str:
        """The address of the desktop."""

    @property
    def controller(self) -> Controller:
        """The eyes and hands. Raises DesktopError."""

    def await_rest(self, acting: Controller) -> None:
        """Wait before the first action until the screen is quiet."""

    def keep_messages(self, folder: RunFolder, hide: Callable[[str], str]) -> None:
        """Write what is sent to the server from now on into this run folder, if the settings want it."""

    def crash(self) -> str:
        """Return how a signal ended the program under test; "" while it runs."""

    @property
    def elements_of(self) -> ElementsOf:
        """The function that asks the page, or the programs, what an action will act on."""


class ModelAccess(Protocol):
    """The planner and the judge of an agent, as `build.LiveModels` gives them."""

    given_planner: Planner | None
    given_judge: Judge | None

    @property
    def planner(self) -> Planner:
        """The planner of a run that brings none of its own."""

    @property
    def request_s(self) -> float | None:
        """The seconds of one request, if the settings have changed since the planner was given."""

    def nobody(self) -> Planner:
        """Return the planner of a run that ends without being asked."""


class RunRecorder(Protocol):
    """The recording of a test: it replays a run, or watches one to record it."""

    def begin(
        self,
        started: RunStarted,
        planner: Planner,
        desktop: Controller,
        folder: RunFolder,
        emit: Callable[[RunEvent], None],
    ) -> tuple[Planner, Controller]:
        """Return who plans a run that begins now, and its eyes and hands."""


@dataclass(frozen=True)
class RunContext:
    """The things that all runs of an agent share.

    `settings` returns those that hold by now. `verify` makes the function by which a model asks the judge.
    """

    settings: Callable[[], Settings]
    desktop: DesktopAccess
    models: ModelAccess
    verify: Callable[[Callable[[], Frame], Report], Callable[..., object]]
    secrets: Secrets
    functions: Mapping[str, Callable[..., object]]
    policy: Policy
    given_policy: bool
    hitl_mode: bool
    budget: Budget
    observers: Sequence[RunObserver]
    recorded: RunRecorder | None
    test_id: str


class Runner:
    """Carries out tasks on one desktop. `folders` are those of its runs, oldest first."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._reviewer = Reviewer(hitl_mode=context.hitl_mode)
        self._logger: RunLogger | None = None
        self._own_policies: dict[str, Policy] = {}
        self._own_planners: dict[str, Planner] = {}
        self._newest_steps: tuple[Step, ...] = ()
        self.folders: list[Path] = []
        self.started: RunStarted | None = None
        """The beginning of the newest run."""
        self.history = History()
        """The turns of the newest run."""

    # --- runs --------------------------------------------------------------------------------------------------------

    def run(
        self,
        task: str,
        *,
        expect: Sequence[str] | None,
        limits: Limits | None,
        policy: Policy | None,
        planner: Planner | None,
        approver: Approver | None,
        run_id: str | None,
    ) -> RunResult:
        """Carry out a task. `policy` and `planner` hold for this run. Raises InfraError, SettingsError."""
        context, settings = self._context, self._context.settings()
        folder = RunFolder.create(Path(settings.runs_dir), run_id or new_run_id())
        started = RunStarted(
            run_id=folder.path.name,
            task=context.secrets.declared.hide(task),
            started_at=clock.utc_now().isoformat(timespec="seconds"),
            planner="",
            screen=NO_FRAME,
            server=without_query(context.desktop.server),
            test_id=context.test_id,
            limits=limits or Limits(settings.steps, settings.seconds, settings.stall),
            expect=tuple(expect or ()),
            body_checks=expect is None,
            settings={**to_json(settings), "server": without_query(settings.server)},
            own_policy=policy is not None or context.given_policy,
            own_judge=context.models.given_judge is not None,
            secrets=tuple(context.secrets.values),
            functions=tuple(context.functions),
        )
        self._keep_own(started.run_id, policy, planner)
        with only_driver(folder):
            return self._drive(folder, started, History(), approver, lambda run: run.start(started.task))

    def go_on(
        self,
        run_id: str,
        answer: bool | None,
        *,
        step: int | None,
        policy: Policy | None,
        planner: Planner | None,
        approver: Approver | None,
    ) -> RunResult:
        """Go on with a run. `answer` is a person's yes or no, if it waits for one. Raises as `check_…` do."""
        context = self._context
        folder = RunFolder.open(path_of(Path(context.settings().runs_dir), run_id))
        with only_driver(folder):
            trace = read_trace(folder.path)
            check_unfinished(trace)
            check_step(trace, step)
            if not (folder.path / CHECKPOINTS).exists():
                raise RunFolderError(NO_CHECKPOINT.format(run_id))
            ends_here = answer is False and trace.asked is not None and trace.asked.ruling.ends_run
            self._keep_own(run_id, policy, context.models.nobody() if ends_here else planner)
            if not ends_here and folder.path not in self.folders:
                check_needs(trace.started, context.settings(), self._given(run_id))
                context.budget.recall(trace.exchanges, len(trace.steps))
            history = History.of(trace)
            asked = trace.asked.proposal if trace.asked else None
            return self._drive(folder, trace.started, history, approver, lambda run: run.resume(answer, asked))

    def _given(self, run_id: str) -> Given:
        context, models = self._context, self._context.models
        return Given(
            context.secrets.values,
            context.functions,
            self._own_planners.get(run_id) or models.given_planner,
            lambda: models.planner,
            context.given_policy or run_id in self._own_policies,
            models.given_judge is not None,
        )

    def _keep_own(self, run_id: str, policy: Policy | None, planner: Planner | None) -> None:
        if policy:
            self._own_policies[run_id] = policy
        if planner is not None:
            self._own_planners[run_id] = planner

    def _drive(
        self,
        folder: RunFolder,
        started: RunStarted,
        history: History,
        approver: Approver | None,
        advance: Callable[[TaskRun], CUAState],
    ) -> RunResult:
        """Advance a run until it ends or waits. Whatever breaks it is written down."""
        from pytest_vnc_use.agent.graph import TaskRun  # LangGraph takes most of a second; who runs no task saves it

        hide = self._context.secrets.everything
        self._logger = RunLogger(folder, hide, self._context.secrets.at_start)
        self.folders.append(folder.path)
        self.started, self.history, self._newest_steps = started, history, ()
        emit = partial(self._emit, self._logger)
        try:
            emit(FolderMade(folder.path))
            run = TaskRun(self._parts(folder, started, emit), history)
            self._reviewer.begin(folder.path.name, self._context.desktop.controller, history.steps)
            state = advance(run)
            while "outcome" not in state:
                question = hide.hide_in(question_in(state))
                emit(question)
                if approver is None:
                    break
                state = run.resume(approver.approve(question), question.proposal)
        except BaseException as exc:  # whatever ended the run, Ctrl-C included, is written down before it goes on
            error = cut(hide.hide_pieces(faults.named(exc)), LONGEST_TEXT)
            way = cut(hide.hide_pieces(traceback.format_exc()), 10 * LONGEST_TEXT)
            emit(RunEnded(None, "the run broke", error, way))
            raise
        return self._result(state, folder, started.task, history, emit)

    def _parts(self, folder: RunFolder, started: RunStarted, emit: Callable[[RunEvent], None]) -> Parts:
        context = self._context
        secrets, settings, controller = context.secrets, context.settings(), context.desktop.controller
        policy = self._own_policies.get(started.run_id, context.policy)
        review_context = ReviewContext(test_id=started.test_id, task=started.task)
        planner, acting = self._own_planners.get(started.run_id) or context.models.planner, controller
        if context.recorded and started.run_id not in self._own_planners:
            planner, acting = context.recorded.begin(started, planner, controller, folder, emit)
        context.desktop.keep_messages(folder, secrets.everything.hide)
        context.desktop.await_rest(acting)
        timing = Timing(settings.step_delay, {name: getattr(settings, name) for name in TIMING})
        verify = context.verify(controller.frame, emit)
        functions = {"verify": verify, **timing.functions(), **context.functions}
        reveal, page_url = secrets.declared.reveal, page_url_of(controller)
        targets = Targets(elements_of(acting, context.desktop.elements_of), folder)
        return Parts(
            actor=Actor(acting, folder, functions, reveal, lambda: timing.step_delay_s, page_url, targets),
            planner=planner,
            review=partial(self._reviewer.review, policy, review_context),
            announce=lambda screen: emit(dataclasses.replace(started, screen=screen, planner=planner.name)),
            emit=emit,
            limits=started.limits,
            to_placeholders=secrets.declared.hide_in,
            hide=secrets.everything.hide_in,
            crash=context.desktop.crash,
            watch=settings.watch,
            request_s=context.models.request_s,
        )

    def _result(
        self, state: CUAState, folder: RunFolder, task: str, history: History, emit: Callable[[RunEvent], None]
    ) -> RunResult:
        if "outcome" in state:
            outcome, message = Outcome(state["outcome"]), state["message"]
            emit(RunEnded(outcome, message))
            drop_checkpoints(folder.path)
            params = history.turns[-1].decision.params if history.turns else {}
            params = self._context.secrets.everything.hide_json(params)
        else:
            outcome, message, params = Outcome.WAITING, question_in(state).ruling.explanation, {}
        usage = sum((turn.decision.usage for turn in history.turns), Usage())
        self._newest_steps = steps = tuple(history.steps)
        return RunResult(folder.path.name, outcome, message, folder.path, task, steps, usage, transcript(steps), params)

    # --- events ------------------------------------------------------------------------------------------------------

    def emit(self, event: RunEvent) -> None:
        """Pass an event on to the budget, to the newest run folder and to all observers."""
        self._emit(self._logger, event)

    def _emit(self, logger: RunLogger | None, event: RunEvent) -> None:
        event = self._context.budget.hear(event)
        if not isinstance(event, (ModelAsked, GateAwaited, FolderMade)):  # these are of the moment: nothing keeps them
            self._reviewer.observe(event)
            if logger:
                logger.observe(event)
        for observer in self._context.observers:
            observer.observe(event)

    def record(self, event: Judged | Extracted, frames: Sequence[Frame]) -> None:
        """Keep the frames of a verdict or a value in the newest run folder, and emit it without secrets."""
        if self._logger:
            for frame in frames:
                self._logger.folder.store(frame)
        self.emit(self._context.secrets.everything.hide_in(event))

    # --- frames ------------------------------------------------------------------------------------------------------

    def newest_frames(self, steps: int) -> Iterator[Frame]:
        """Yield the kept frames of the last steps of the newest run, newest first; none after `forget_frames`."""
        for step in reversed(self._newest_steps[-steps:]):
            for ref in (step.frame_after, *reversed(step.passed)):
                yield Frame(ref, RunFolder(self.folders[-1]).load_png(ref))

    def forget_frames(self) -> None:
        """Take the kept frames as old: something was done after the newest run."""
        self._newest_steps = ()


def question_in(state: CUAState) -> ApprovalAsked:
    """Return the question to a person, from the state of a run that waits."""
    proposal, ruling = from_json(Proposal, state["pending"][0]), from_json(Ruling, state["ruling"])
    return ApprovalAsked(state["step"] + 1, proposal, ruling)
