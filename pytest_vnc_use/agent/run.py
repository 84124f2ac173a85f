"""One run of a task: its nodes look, ask, rule and act, and each run leaves a run directory.

`graph` says in which order the nodes run. A run that waits or was interrupted continues from its directory, in this
process or another. The directory holds names of secrets and functions, never their values, and no planner, policy or
judge object: they are given again to continue the run.
"""

from __future__ import annotations

import hashlib
import json
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from pytest_vnc_use import clock
from pytest_vnc_use.agent.act import MAX_OUTPUT_LENGTH, MAX_TEXT_LENGTH, Actor, Targets, cut_names
from pytest_vnc_use.agent.build import elements_asker
from pytest_vnc_use.agent.claims import answer_question
from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import (
    AgentFailed,
    AnswerRefused,
    BudgetExceeded,
    ModelUnavailable,
    ProgramCrashed,
    RunDirectoryError,
    SettingsError,
    VncUseError,
    causes,
)
from pytest_vnc_use.plain_text import cut, without_query
from pytest_vnc_use.planners.local.callables import decision_of
from pytest_vnc_use.planners.local.scripted import NoPlanner
from pytest_vnc_use.runs.directory import (
    RunDirectory,
    Trace,
    drop_checkpoints,
    from_json,
    new_run_id,
    path_of,
    read_trace,
    to_json,
)
from pytest_vnc_use.runs.logger import RunLogger
from pytest_vnc_use.runs.transcript import ONLY_REPLAYED, live_name, plain, seen_by_live, transcript
from pytest_vnc_use.safety.rules import Policy, deny_unasked
from pytest_vnc_use.same_screen import same_screen
from pytest_vnc_use.settings.settings import TIMING, Settings
from pytest_vnc_use.triage import crash_of, format_program_end
from pytest_vnc_use.types import (
    NO_FRAME,
    REPEATED_NOTE,
    Action,
    ApprovalRequest,
    CallFunction,
    CUAState,
    Decision,
    DirectoryCreated,
    FrameRef,
    GateAwaited,
    InvalidAction,
    KeyUp,
    Limits,
    ModelRequest,
    MouseUp,
    Observation,
    Outcome,
    Proposal,
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
from pytest_vnc_use.types.actions import TOO_DEEP, is_shallow
from pytest_vnc_use.types.protocols import Approver, Planner, Replaying, SupportsElements, SupportsUrl

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent

CHECKPOINTS = "checkpoints.sqlite"
"""The file of the checkpoints in the run directory."""
NO_CHECKPOINT = "run {!r} left no checkpoint to continue from. Start its task again"
MAX_REPLANS = 2
"""The maximum repeats of one turn. The last answer is used even if the screen changed again."""
RUN_ENDS = (DeadlineExceeded, AnswerRefused, BudgetExceeded)
"""Errors that end a run with a separate outcome."""
MAX_DELAY_MS, SMALLEST_SIDE = 10_000, 100

STALE = "the screen changed again during this decision: check whether the action still made sense"
INTERRUPTED = "the run stopped during this action, so its effect is unknown. Look at the screen before you repeat it"
SCREEN_CHANGED = "not performed: the screen changed while the run was stopped. Look at it and decide again"
HALTED = "not performed: an earlier action of this turn failed"


def run_task(
    agent: VncUseAgent,
    task: str,
    expect: Sequence[str] | None,
    limits: Limits | None,
    run_id: str | None,
    policy: Policy | None,
    planner: Planner | None,
    approver: Approver | None,
) -> RunResult:
    """Run a task from its start. `policy` and `planner` hold for this run. Raises InfraError, SettingsError."""
    settings = agent.settings
    directory = RunDirectory.create(Path(settings.runs_dir), run_id or new_run_id(), agent._test_id)
    started = RunStarted(
        run_id=directory.path.name,
        task=agent._secrets.declared.hide(task),
        started_at=clock.utc_now().isoformat(timespec="seconds"),
        planner="",
        screen=NO_FRAME,
        server=without_query(agent.server),
        test_id=agent._test_id,
        limits=limits or Limits(settings.max_steps, settings.max_seconds),
        expect=tuple(expect or ()),
        body_checks=expect is None,
        settings={**to_json(settings), "server": without_query(settings.server)},
        custom_policy=policy is not None or agent._custom_policy is not None,
        custom_judge=agent._custom_judge is not None,
        secrets=tuple(agent._secrets.values),
        functions=tuple(agent._functions),
    )
    _keep_for_run(agent, started.run_id, policy, planner)
    with _only_driver(directory):
        return Run(agent, directory, started).advance(approver)


def continue_run(
    agent: VncUseAgent,
    run_id: str,
    answer: bool | None,
    step: int | None,
    policy: Policy | None,
    planner: Planner | None,
    approver: Approver | None,
) -> RunResult:
    """Continue a run; `answer` approves or denies, if it waits for that. Raises RunDirectoryError, SettingsError."""
    directory = RunDirectory.open(path_of(Path(agent.settings.runs_dir), run_id))
    with _only_driver(directory):
        trace = read_trace(directory.path)
        outcome = trace.ended.outcome if trace.ended else None
        if outcome is not None:  # a run that failed has none
            raise RunDirectoryError(
                f"run {run_id!r} is finished, with {str(outcome)!r}. Only an unfinished run can continue"
            )
        if step is not None and (trace.open_approval is None or trace.open_approval.number != step):
            raise RunDirectoryError(
                f"run {run_id!r} does not wait for an answer about step {step!r}. Check which step it waits for now"
            )
        if not (directory.path / CHECKPOINTS).exists():
            raise RunDirectoryError(NO_CHECKPOINT.format(run_id))
        ends_now = answer is False and trace.open_approval is not None and trace.open_approval.ruling.ends_run
        _keep_for_run(agent, run_id, policy, NoPlanner() if ends_now else planner)
        if not ends_now and directory.path not in agent.runs:
            if missing := "; ".join(_missing(agent, trace.started)):
                raise SettingsError(f"run {run_id!r} cannot continue as it was started: {missing}")
            agent.budget.recall(trace.exchanges, len(trace.steps))
        asked = trace.open_approval.proposal if trace.open_approval else None
        return Run(agent, directory, trace.started, trace).advance(approver, answer, asked)


def _keep_for_run(agent: VncUseAgent, run_id: str, policy: Policy | None, planner: Planner | None) -> None:
    """Keep what holds for one run instead of the agent's."""
    agent._policies |= {run_id: policy} if policy else {}
    agent._planners |= {run_id: planner} if planner is not None else {}


@contextmanager
def _only_driver(directory: RunDirectory) -> Iterator[None]:
    """Drive a run as the only one, in this process and others. Raises RunDirectoryError if another one drives it."""
    lock = FileLock(directory.path / "driver.lock", mode=0o600, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RunDirectoryError(
            f"run {directory.path.name!r} is being performed by this or another process. Wait until it ends, or end "
            "that process"
        ) from None
    try:
        yield
    finally:
        lock.release()


def _missing(agent: VncUseAgent, started: RunStarted) -> Iterator[str]:
    """Yield what the run was started with and the agent lacks, and how to give it again."""
    settings, run_id = agent.settings, started.run_id
    for name in sorted(set(started.secrets) - set(agent._secrets.values)):
        yield f"its secret {name!r} is missing. Pass it again with --secret {name} (secrets={{{name!r}: …}})"
    if functions := sorted(set(started.functions) - set(agent._functions)):
        yield f"its functions {', '.join(functions)} are missing. Pass them again as functions=[…] in Python"
    if not (agent._planners.get(run_id) or agent._custom_planner):
        yield from other_planner(started, settings, lambda: agent.planner)
    has_policy = agent._custom_policy is not None or run_id in agent._policies
    if started.custom_policy and not has_policy:
        yield "it was started with a policy object. Pass it again as policy=…"
    elif (policy := started.settings.get("policy")) and not (settings.policy or has_policy):
        yield f"its policy was {plain(str(policy))!r}. Pass it again with --policy FILE (policy=…)"
    if started.custom_judge and started.expect and agent._custom_judge is None:
        yield "it was started with a judge object. Pass it again as judge=…"


def other_planner(started: RunStarted, settings: Settings, build: Callable[[], Planner]) -> Iterator[str]:
    """Yield how the planner that `build` makes differs from the one that planned the run, or healed its replay."""
    before = live_name(started.planner)
    if before == ONLY_REPLAYED:
        yield "its planner was a recording. Run its test again, or pass a planner (planner=…, --planner NAME)"
        return
    try:
        name = build().name
    except VncUseError:  # there is none, or its key is missing; the right planner reports a missing key itself
        name = before if settings.planner and before.startswith(settings.planner) else ""
    if name != before:
        would = f"but now it would be {plain(name)!r}" if name else "but now there is none"
        yield f"its planner was {plain(before)!r}, {would}. Pass the same planner again (planner=…, --planner NAME)"
    if excluded := sorted(set(started.settings.get("exclude") or ()) - set(settings.exclude)):
        names = ", ".join(map(plain, excluded))
        yield f"its planner was not allowed to use {names}. Pass these again as excluded_actions=[…]"


class Run:
    """One run of an agent's task, or the rest of one, with its `trace` so far.

    Each node takes the graph's state and returns what it changes.
    """

    def __init__(
        self, agent: VncUseAgent, directory: RunDirectory, started: RunStarted, trace: Trace | None = None
    ) -> None:
        self._agent, self.directory, self.started, self.limits = agent, directory, started, started.limits
        self._resumes = trace is not None
        self._turns: list[Turn] = [*trace.turns] if trace else []
        self._open_step = trace.open_step.number if trace and trace.open_step else None
        """The number of a step that was unfinished at a crash."""
        self.frame_steps: tuple[Step, ...] = ()
        """The steps whose frames still show what came before the screen now; none until the run is over."""
        self._policy = agent._policies.get(started.run_id, agent._policy)
        self._logger = RunLogger(directory, agent._secrets.everything, agent._secrets.at_start)
        self._deadline = Deadline(self.limits.seconds)
        self._stopped_before = False
        self._screen_moved_on = False
        self._model_s = 0.0

    @property
    def _steps(self) -> list[Step]:
        return [step for turn in self._turns for step in turn.steps]

    def advance(
        self, approver: Approver | None, answer: bool | None = None, asked: Proposal | None = None
    ) -> RunResult:
        """Advance the run until it ends or waits. Whatever breaks it is written down."""
        from pytest_vnc_use.agent.graph import RunGraph  # LangGraph takes most of a second; who runs no task saves it

        agent, everything = self._agent, self._agent._secrets.everything
        if self.directory.path not in agent.runs:  # else the agent has observed the steps
            for step in self._steps:
                agent._review_context = agent._review_context.after(step)
        agent.runs.append(self.directory.path)
        agent._newest_run = self
        try:
            self.emit(DirectoryCreated(self.directory.path))
            self._prepare()
            graph = RunGraph(self)
            state = graph.resume(answer, asked) if self._resumes else graph.start()
            while "outcome" not in state:
                question = everything.hide_in(_question(state))
                self.emit(question)
                if approver is None:
                    break
                state = graph.resume(approver.approve(question), question.proposal)
        except BaseException as exc:  # whatever ended the run, Ctrl-C included, is written down before it continues
            error = cut(everything.hide_pieces(causes.named(exc)), MAX_TEXT_LENGTH)
            traceback_text = cut(everything.hide_pieces(traceback.format_exc()), 10 * MAX_TEXT_LENGTH)
            self.emit(RunEnded(None, "the run failed", error, traceback_text))
            raise
        return self._result(state)

    def _prepare(self) -> None:
        """Choose who plans and who acts, a recording first, and wait for the desktop's first stable screen."""
        agent, run_id = self._agent, self.started.run_id
        settings, secrets, controller = agent.settings, agent._secrets, agent.controller
        self.planner, acting = agent._planners.get(run_id) or agent.planner, controller
        if agent._recorded and run_id not in agent._planners:
            self.planner, acting = agent._recorded.begin(self.started, self.planner, acting, self.directory, self.emit)
        agent._messages.begin(self.directory.path, self.directory.started_at, secrets.everything.hide)
        agent._await_stable(acting)
        timing = Timing(settings.step_delay, {name: getattr(settings, name) for name in TIMING})

        def elements_of(action: Action) -> Any:
            """Find the elements of an action: as the recording knows them, else as the desktop's trees do."""
            elements = acting.elements_of(action) if isinstance(acting, SupportsElements) else None
            return elements_asker(settings, agent._file_desktop)(action) if elements is None else elements

        def verify(question: str) -> str:
            return answer_question(agent.judge, secrets.declared.hide(question), controller.frame(), self.emit)

        self.actor = Actor(
            acting,
            self.directory,
            {"verify": verify, "get_timing": timing.get_timing, "configure": timing.configure, **agent._functions},
            secrets.declared.reveal,
            lambda: timing.step_delay_s,
            Targets(elements_of, self.directory),
        )

    def _result(self, state: CUAState) -> RunResult:
        params: Mapping[str, Any] = {}
        if "outcome" in state:
            outcome, message = Outcome(state["outcome"]), state["message"]
            self.emit(RunEnded(outcome, message))
            drop_checkpoints(self.directory.path)
            if self._turns:
                params = self._agent._secrets.everything.hide_json(self._turns[-1].decision.params)
        else:
            outcome, message = Outcome.WAITING, _question(state).ruling.explanation
        usage = sum((turn.decision.usage for turn in self._turns), Usage())
        self.frame_steps = steps = tuple(self._steps)
        path, task = self.directory.path, self.started.task
        return RunResult(path.name, outcome, message, path, task, steps, usage, transcript(steps), params)

    def emit(self, event: RunEvent) -> None:
        """Pass an event on to the budget, the run directory and all observers."""
        agent = self._agent
        event = agent.budget.receive(event)
        if isinstance(event, StepFinished):
            agent._review_context = agent._review_context.after(event.step)
        if not isinstance(event, (ModelRequest, GateAwaited, DirectoryCreated)):  # nothing keeps these
            self._logger.observe(event)
        for observer in agent._observers:
            observer.observe(event)

    def hide(self, value: Any) -> Any:
        """Return a value without any secret."""
        return self._agent._secrets.everything.hide_in(value)

    def continue_after(self, elapsed_s: float) -> None:
        """Continue a run that stopped after `elapsed_s`. The screen may have changed."""
        self._deadline = Deadline(self.limits.seconds, elapsed_s)
        self._stopped_before = True

    def observe(self, state: CUAState) -> CUAState:
        """Look at the first frame; the planner's first turn is about it."""
        frame = self.actor.capture_first()
        self.emit(replace(self.started, screen=frame, planner=self.planner.name))
        return CUAState(first_frame=to_json(frame), frame=to_json(frame), turn=0, step=0, pending=[], fingerprints=[])

    def propose(self, state: CUAState) -> CUAState:
        """Ask the planner for its next turn."""
        if not self._deadline.remaining_s:
            return self._out_of_time()
        frame = self._frame_to_act_on(state)
        self._screen_moved_on = False
        started = clock.monotonic()
        try:
            decision, frame, cut_short = self._timely_answer(frame, state)
        except RUN_ENDS as exc:
            return self.cut_short(exc)
        self._model_s = clock.monotonic() - started
        number, decision = state["turn"] + 1, _readable(decision)
        self._turns[number - 1 :] = [Turn(decision)]  # it replaces one from before a crash that was not performed
        self.emit(TurnDecided(number, decision, self._model_s))
        if cut_short:
            after = self.cut_short(cut_short)
        elif decision.kind == "act":
            to_placeholders = self._agent._secrets.declared.hide_in  # the actor reveals them again
            pending = [to_json(to_placeholders(proposal)) for proposal in decision.proposals]
            after = self._next(pending, steps=state["step"])
        else:
            if decision.kind == "finished":
                self._check_program(state["step"])
            after = self._end(Outcome.DONE if decision.kind == "finished" else Outcome.GAVE_UP, decision.text)
        first = to_json(frame) if number == 1 else state["first_frame"]
        return CUAState(turn=number, first_frame=first, frame=to_json(frame)) | after

    def act(self, state: CUAState) -> CUAState:
        """Perform the first pending action, or deny it, or run out of time."""
        if not self._deadline.remaining_s:
            return self._out_of_time()
        number = state["step"] + 1
        step = next((step for step in self._steps if step.number == number), None) or self._new_step(state)
        self._check_program(number)
        max_repeats = self.limits.repeats
        fingerprints = [*state["fingerprints"], fingerprint(step)][-8 * max_repeats :]
        after = CUAState(step=number, frame=to_json(step.frame_after), fingerprints=fingerprints)
        if step.ruling.kind != "allow" and step.ruling.ends_run:
            return after | self._end(Outcome.DENIED, step.ruling.explanation)
        if repeats(step, state) > max_repeats:
            return after | self._end(Outcome.GAVE_UP, "it kept repeating the same action on the same screen")
        return after | self._next(state["pending"][1:], steps=number)

    def cut_short(self, reason: Exception) -> CUAState:
        """Return the state of a run that ends early: because of a refused answer, the budget, or else the time."""
        outcomes = {AnswerRefused: Outcome.BLOCKED, BudgetExceeded: Outcome.BUDGET}
        outcome = next((outcome for kind, outcome in outcomes.items() if isinstance(reason, kind)), None)
        return self._end(outcome, str(reason)) if outcome else self._out_of_time(str(reason))

    def _frame_to_act_on(self, state: CUAState) -> FrameRef:
        """Return the last frame; or, the first time after the run stopped, the screen now."""
        last = from_json(FrameRef, state["frame"])
        if not self._stopped_before:
            return last
        self._stopped_before = False
        now = self.actor.capture()
        self._screen_moved_on = not same_screen(self.directory.load_png(last), self.directory.load_png(now))
        return now

    def _timely_answer(self, frame: FrameRef, state: CUAState) -> tuple[Decision, FrameRef, Exception | None]:
        """Return a decision about the current screen, the screen, and why the run ends although one was due.

        If the screen changed while a model answered, the model is asked again. The decision's usage is that of all
        answers. Raises what the planner raises, if there is no answer.
        """
        answers: list[Decision] = []

        def last() -> Decision:
            usage = sum((decision.usage for decision in answers), Usage())
            return replace(answers[-1], usage=usage, repeated_requests=len(answers) - 1)

        while True:
            ask = (lambda seen: lambda: self._ask(state, seen))(frame)
            try:
                answers.append(self._deadline.call(ask, meanwhile=self.actor.watch))
            except RUN_ENDS as exc:
                if not answers:
                    raise
                return last(), frame, exc
            proposals, is_model = answers[-1].proposals, bool(answers[-1].model)
            only_waits = all(isinstance(proposal.action, (Wait, TakeScreenshot)) for proposal in proposals)
            # A changed screen matters to a model's answer, unless it only waits or takes a screenshot.
            matters = self._agent.settings.watch and is_model and not (answers[-1].kind == "act" and only_waits)
            newer = self.actor.other_than(frame) if matters else None
            if newer is None or len(answers) > MAX_REPLANS:
                return replace(last(), stale=newer is not None), frame, None
            frame = newer

    def _ask(self, state: CUAState, frame: FrameRef) -> Decision:
        _vnc_asks = "planner"
        request_s = self._agent.settings.request_seconds
        observation = Observation(
            task=state["task"],
            first_frame=from_json(FrameRef, state["first_frame"]),
            frame=frame,
            turns=tuple(self._turns[: state["turn"]]),
            load_png=self.directory.load_png,
            report=self.emit,
            request_s=None if request_s == self._agent._request_s_at_first else request_s,
        )
        if not isinstance(self.planner, Replaying):  # else it is resumed: what was replayed is not its own
            observation = seen_by_live(observation)
        try:
            answer = self.planner.decide(observation, timeout_s=self._deadline.remaining_s)
        except ModelUnavailable as exc:
            if self._deadline.remaining_s:
                raise
            raise DeadlineExceeded from exc  # the service had as long as the run: it is the run's limit that is up
        return decision_of(answer, f"an answer of {self.planner.name}")

    def _next(self, pending: list[dict[str, Any]], *, steps: int) -> CUAState:
        """Return the state for the pending calls, with a ruling on the first."""
        if pending and steps >= self.limits.steps:
            return self._end(Outcome.STEP_LIMIT, f"the limit of {self.limits.steps} steps was reached")
        ruling = to_json(self.rule_on(from_json(Proposal, pending[0]))) if pending else None
        return CUAState(pending=pending, ruling=ruling, elapsed_s=self._deadline.spent_s)

    def rule_on(self, proposal: Proposal) -> Ruling:
        """Return the ruling on the next action."""
        return Ruling("allow", HALTED) if self._is_halted(proposal) else self._review(proposal)

    def _is_halted(self, proposal: Proposal) -> bool:
        """Return whether to leave out a call of a turn that failed. Keys and buttons are still released."""
        turn = self._turns[-1]
        failed = turn.decision.stop_at_error and any(step.error for step in turn.steps)
        return failed and not isinstance(proposal.action, (KeyUp, MouseUp))

    def _review(self, proposal: Proposal, *, is_approved: bool = False) -> Ruling:
        """Have the policy rule on a proposal, knowing all earlier typing in all runs of the agent.

        With `is_approved`, a user has approved it.
        """
        agent, controller = self._agent, self._agent.controller
        page_url = controller.page_url if isinstance(controller, SupportsUrl) else str
        context = replace(
            agent._review_context, test_id=self.started.test_id, task=self.started.task, page_url=page_url
        )
        ruling = self._policy.review(proposal, context)
        return ruling if agent._hitl_mode or is_approved or ruling.kind != "ask" else deny_unasked(ruling)

    def _new_step(self, state: CUAState) -> Step:
        turn, decision = self._turns[-1], self._turns[-1].decision
        first_of_turn = not turn.steps
        frame, proposal = self._frame_to_act_on(state), from_json(Proposal, state["pending"][0])
        ruling = from_json(Ruling, state["ruling"])
        if ruling.kind == "allow" and ruling.by == "user":
            now = self._review(proposal, is_approved=True)  # the policy may deny by now what a user approved
            ruling = now if now.kind == "deny" else ruling
        step = Step(
            number=state["step"] + 1,
            turn=state["turn"],
            proposal=proposal,
            ruling=ruling,
            frame_before=frame,
            frame_after=frame,
            text=decision.text,
            model=decision.model,
            usage=decision.usage if first_of_turn else Usage(),
            note=STALE if first_of_turn and decision.stale else "",
            repeated_requests=decision.repeated_requests if first_of_turn else 0,
        )
        watched = self._agent.settings.watch and bool(decision.model) and len(state["pending"]) == 1
        step = self._perform_step(step, self._model_s if first_of_turn else 0.0, watched=watched)
        if (times := repeats(step, state)) >= self.limits.repeats:
            step = replace(step, note=REPEATED_NOTE.format(times=times))
        hidden: Step = self.hide(step)  # before it is cut: half a secret would not be recognised
        step = replace(
            hidden,
            proposal=replace(hidden.proposal, intent=cut(hidden.proposal.intent, MAX_TEXT_LENGTH)),
            ruling=replace(hidden.ruling, explanation=cut(hidden.ruling.explanation, MAX_TEXT_LENGTH)),
            text=cut(hidden.text, MAX_TEXT_LENGTH),
            output=cut(hidden.output, MAX_OUTPUT_LENGTH),
            error=cut(hidden.error, MAX_TEXT_LENGTH),
            elements=cut_names(hidden.elements),
        )
        self._turns[-1] = replace(turn, steps=(*turn.steps, step))
        self.emit(StepFinished(step))
        return step

    def _perform_step(self, step: Step, model_s: float, *, watched: bool) -> Step:
        if step.ruling.kind != "allow":
            return replace(step, error=f"denied: {step.ruling.explanation}")
        if self._is_halted(step.proposal):
            return replace(step, error=HALTED)
        if step.number == self._open_step:
            self._open_step, self._screen_moved_on = None, True
            return replace(step, error=INTERRUPTED)
        if self._screen_moved_on:
            return replace(step, error=SCREEN_CHANGED)
        self.emit(StepStarted(step.number, step.turn, step.proposal, step.ruling))
        step = self.actor.run_step(step, self._deadline, watched=watched)
        return replace(step, times=replace(step.times, model_s=model_s))

    def _check_program(self, step: int) -> None:
        desktop = self._agent._desktop
        if desktop and (crash := crash_of(desktop)):
            raise ProgramCrashed(format_program_end(crash, f" at step {step}"))

    def _end(self, outcome: Outcome, message: str) -> CUAState:
        message = cut(self.hide(message), MAX_TEXT_LENGTH)
        return CUAState(outcome=outcome.value, message=message, pending=[], elapsed_s=self._deadline.spent_s)

    def _out_of_time(self, why: str = "") -> CUAState:
        reached = f"the limit of {self.limits.seconds:g} s was reached"
        return self._end(Outcome.TIME_LIMIT, f"{reached}: {why}" if why else reached)


@dataclass
class Timing:
    """The timing of one run. `step_delay_s` may change during the run; `settings_s` are the others, in seconds."""

    step_delay_s: float
    settings_s: Mapping[str, float]

    def get_timing(self) -> str:
        """Return the times of this run, in milliseconds."""
        times_s = {**self.settings_s, "step_delay": self.step_delay_s}
        return "\n".join(f"{name}_ms: {round(seconds * 1000)}" for name, seconds in times_s.items())

    def configure(self, step_delay_ms: float | None = None, screenshot_max_side: int | None = None) -> str:
        """Set the wait after each step of this run, or the longest side of the screenshots that are sent."""
        delay_ms = self.step_delay_s * 1000 if step_delay_ms is None else step_delay_ms
        if isinstance(delay_ms, bool) or not 0 <= float(delay_ms) <= MAX_DELAY_MS:
            raise ValueError(f"step_delay_ms must be 0 to {MAX_DELAY_MS}, got {delay_ms!r}")
        side = SMALLEST_SIDE if screenshot_max_side is None else screenshot_max_side
        if type(side) is not int or side < SMALLEST_SIDE:
            raise ValueError(f"screenshot_max_side must be at least {SMALLEST_SIDE} pixels, got {side!r}")
        self.step_delay_s = float(delay_ms) / 1000
        return self.get_timing()


def fingerprint(step: Step) -> str:
    """Return a text that is the same for the same action on the same frame."""
    action = json.dumps(to_json(step.proposal.action), sort_keys=True)
    return hashlib.sha256(f"{step.frame_before.digest} {action}".encode()).hexdigest()[:16]


def repeats(step: Step, state: CUAState) -> int:
    """Return how often the step's action was proposed on this frame, this time included. Waiting does not count."""
    if isinstance(step.proposal.action, (Wait, TakeScreenshot, CallFunction)):
        return 0
    return state["fingerprints"].count(fingerprint(step)) + 1


def _question(state: CUAState) -> ApprovalRequest:
    """Return the question to a user, from the state of a run that waits."""
    proposal, ruling = from_json(Proposal, state["pending"][0]), from_json(Ruling, state["ruling"])
    return ApprovalRequest(state["step"] + 1, proposal, ruling)


def _readable(decision: Decision) -> Decision:
    """Return the decision with values that JSON readers accept. Raises AgentFailed for its `params`."""
    if not is_shallow(decision.params):
        raise AgentFailed(f"`params` of the finished planner {TOO_DEEP}")
    proposals = []
    for proposal in decision.proposals:
        action = proposal.action
        arguments = action.arguments if isinstance(action, CallFunction) else {}
        if not (is_shallow(arguments) and is_shallow(proposal.as_proposed)):
            name = str(proposal.as_proposed.get("name") or getattr(action, "name", action.kind))
            invalid = InvalidAction(name, f"the arguments of {cut(name, 100)!r} {TOO_DEEP}")
            proposal = replace(proposal, action=invalid, as_proposed={"name": name, "args": {}})
        proposals.append(proposal)
    return replace(decision, proposals=tuple(proposals))
