"""The nodes of one run: observe, propose, act, and the ruling on each action.

`graph` says in which order they run, and `run` starts and continues a run. Each run
leaves a run directory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from pytest_vnc_use import clock
from pytest_vnc_use.agent.act import (
    MAX_OUTPUT_LENGTH,
    MAX_TEXT_LENGTH,
    Actor,
    Targets,
    cut_names,
    recorded_or_shown,
)
from pytest_vnc_use.agent.build import elements_asker, with_text
from pytest_vnc_use.agent.claims import answer_question
from pytest_vnc_use.agent.session import Session
from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import (
    AgentFailed,
    AnswerRefused,
    BudgetExceeded,
    ModelUnavailable,
    ProgramCrashed,
    causes,
)
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.planners.local.callables import decision_of
from pytest_vnc_use.runs.directory import (
    RunDirectory,
    Trace,
    drop_checkpoints,
    from_json,
    to_json,
)
from pytest_vnc_use.runs.transcript import seen_by_live, transcript
from pytest_vnc_use.safety.rules import deny_unasked
from pytest_vnc_use.same_screen import same_screen
from pytest_vnc_use.settings.fallbacks import LOCAL_AGENT
from pytest_vnc_use.settings.settings import TIMING
from pytest_vnc_use.triage import crash_of, format_program_end
from pytest_vnc_use.types import (
    REPEATED_NOTE,
    ApprovalRequest,
    CallFunction,
    CUAState,
    Decision,
    FrameRef,
    InvalidAction,
    KeyUp,
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
from pytest_vnc_use.types.protocols import (
    Replaying,
    SupportsUrl,
)
from pytest_vnc_use.types.values import fill

MAX_REPLANS = 2
"""The maximum repeats of one turn. The last answer is used even if the screen changed
again.
"""
RUN_ENDS = (DeadlineExceeded, AnswerRefused, BudgetExceeded)
"""Errors that end a run with a separate outcome."""
MAX_DELAY_MS = 10_000
SMALLEST_SIDE = 100
"""The least `screenshot_max_side`, in pixels."""

STALE = (
    "the screen changed again during this decision: check whether the action still made"
    " sense"
)
INTERRUPTED = (
    "the run stopped during this action, so its effect is unknown. Look at the screen"
    " before you repeat it"
)
SCREEN_CHANGED = (
    "not performed: the screen changed while the run was stopped. Look at it and decide"
    " again"
)
HALTED = "not performed: an earlier action of this turn failed"


class Run:
    """One run of an agent's task, or the rest of one, with its `trace` so far.

    Each node takes the graph's state and returns what it changes.
    """

    def __init__(
        self,
        session: Session,
        directory: RunDirectory,
        started: RunStarted,
        trace: Trace | None = None,
    ) -> None:
        self.directory = directory
        self.started = started
        self.limits = started.limits
        self.is_resumed = trace is not None
        self._session = session
        self._policy = session.policies.get(started.run_id, session.policy)
        self._limit_s = self.limits.seconds
        self._deadline = Deadline(self._limit_s)
        self._stopped_before = False
        self._screen_moved_on = False
        self._model_s = 0.0
        self._limits_requests = False
        """Whether no request follows the last step, as a local agent counts requests.
        """
        self._turns: list[Turn] = [*trace.turns] if trace else []
        self._open_step: int | None = None
        """The number of a step that was unfinished at a crash."""
        if trace and trace.open_step:
            self._open_step = trace.open_step.number

    @property
    def _steps(self) -> list[Step]:
        return [*chain.from_iterable(turn.steps for turn in self._turns)]

    def prepare(self) -> None:
        """Become the session's newest run, and wait for the first stable screen.

        A recording plans and acts if there is one for this task. Raises InfraError,
        SettingsError.
        """
        session = self._session
        is_from_elsewhere = self.directory.path not in session.runs
        session.begin_run(self.directory, self.started)
        if is_from_elsewhere:
            for step in self._steps:
                session.review_context = session.review_context.after(step)
        own_planner = session.planners.get(self.started.run_id)
        self.planner = own_planner or session.planner
        acting = session.controller
        if session.recorded_test and not own_planner:
            self.planner, acting = session.recorded_test.begin(
                self.started,
                self.planner,
                acting,
                self.directory,
                self.emit,
            )
            self._limit_s += session.recorded_test.longer_waits_s
            self._deadline = Deadline(self._limit_s, self._deadline.spent_s)
        is_local = session.settings.toolset == LOCAL_AGENT
        self._limits_requests = is_local and self.planner is session.planner
        session.connection.messages.begin(
            self.directory.path,
            self.directory.started_at,
            session.secrets.everything.hide,
        )
        session.connection.await_stable(acting)
        settings_s = {name: getattr(session.settings, name) for name in TIMING}
        timing = Timing(session.settings.step_delay, settings_s)
        ask_desktop = elements_asker(session.settings, session.connection.files)
        functions: dict[str, Callable[..., object]] = {
            "verify": self._verify,
            "get_timing": timing.get_timing,
            "configure": timing.configure,
            **with_text(session.settings, session.functions, session.controller.frame),
        }
        self.actor = Actor(
            acting,
            self.directory,
            functions,
            session.secrets.declared.reveal,
            lambda: timing.step_delay_s,
            Targets(recorded_or_shown(acting, ask_desktop), self.directory),
        )

    def _verify(self, question: str) -> str:
        """Answer a planning model's question about the screen. It is no verdict."""
        return answer_question(
            self._session.judge,
            self._session.secrets.declared.hide(question),
            self._session.controller.frame(),
            self.emit,
        )

    def result(self, state: CUAState) -> RunResult:
        """Return the result of a run that has ended, or that waits for a user."""
        params: Mapping[str, Any] = {}
        if "outcome" in state:
            outcome = Outcome(state["outcome"])
            message = state["message"]
            self.emit(RunEnded(outcome, message))
            drop_checkpoints(self.directory.path)
            if self._turns:
                everything = self._session.secrets.everything
                params = everything.hide_json(self._turns[-1].decision.params)
        else:
            outcome = Outcome.WAITING
            message = question_in(state).ruling.explanation
        steps = tuple(self._steps)
        self._session.frame_steps = steps
        return RunResult(
            self.directory.path.name,
            outcome,
            message,
            self.directory.path,
            self.started.task,
            steps,
            sum((turn.decision.usage for turn in self._turns), Usage()),
            transcript(steps),
            params,
        )

    def emit(self, event: RunEvent) -> None:
        """Pass an event on to the budget, the run directory and all observers."""
        self._session.emit(event)

    def hide(self, value: Any) -> Any:
        """Return a value without any secret."""
        return self._session.secrets.everything.hide_in(value)

    def continue_after(self, elapsed_s: float) -> None:
        """Continue a run that stopped after `elapsed_s`. The screen may have
        changed.
        """
        self._deadline = Deadline(self._limit_s, elapsed_s)
        self._stopped_before = True

    def observe(self, state: CUAState) -> CUAState:
        """Look at the first frame; the planner's first turn is about it."""
        frame = self.actor.capture_first()
        self.emit(replace(self.started, screen=frame, planner=self.planner.name))
        return CUAState(
            first_frame=to_json(frame),
            frame=to_json(frame),
            turn=0,
            step=0,
            pending=[],
            fingerprints=[],
        )

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
        decision = _readable(decision)
        number = state["turn"] + 1
        # it replaces one from before a crash that was not performed
        self._turns[number - 1 :] = [Turn(decision)]
        self.emit(TurnDecided(number, decision, self._model_s))
        if cut_short:
            after = self.cut_short(cut_short)
        elif decision.kind == "act":
            # the actor reveals them again
            to_placeholders = self._session.secrets.declared.hide_in
            proposals = [to_placeholders(proposal) for proposal in decision.proposals]
            pending = [to_json(proposal) for proposal in proposals]
            after = self._next(pending, steps=state["step"])
        elif decision.kind == "finished":
            self._check_program(state["step"])
            after = self._end(Outcome.DONE, decision.text)
        else:
            after = self._end(Outcome.GAVE_UP, decision.text)
        first = to_json(frame) if number == 1 else state["first_frame"]
        return CUAState(turn=number, first_frame=first, frame=to_json(frame)) | after

    def act(self, state: CUAState) -> CUAState:
        """Perform the first pending action, or deny it, or run out of time."""
        if not self._deadline.remaining_s:
            return self._out_of_time()
        number = state["step"] + 1
        # After a crash it may be performed already, and only its checkpoint is missing.
        performed = [step for step in self._steps if step.number == number]
        step = performed[0] if performed else self._new_step(state)
        self._check_program(number)
        max_repeats = self.limits.repeats
        fingerprints = [*state["fingerprints"], fingerprint(step)]
        after = CUAState(
            step=number,
            frame=to_json(step.frame_after),
            fingerprints=fingerprints[-8 * max_repeats :],
        )
        if step.ruling.kind != "allow" and step.ruling.ends_run:
            return after | self._end(Outcome.DENIED, step.ruling.explanation)
        if repeats(step, state) > max_repeats:
            why = "it kept repeating the same action on the same screen"
            return after | self._end(Outcome.GAVE_UP, why)
        return after | self._next(state["pending"][1:], steps=number)

    def cut_short(self, reason: Exception) -> CUAState:
        """Return the state of a run that ends early: because of a refused answer, the
        budget, or else the time.
        """
        if isinstance(reason, AnswerRefused):
            return self._end(Outcome.BLOCKED, str(reason))
        if isinstance(reason, BudgetExceeded):
            return self._end(Outcome.BUDGET, str(reason))
        return self._out_of_time(str(reason))

    def _frame_to_act_on(self, state: CUAState) -> FrameRef:
        """Return the last frame; or, the first time after the run stopped, the screen
        now.
        """
        last = from_json(FrameRef, state["frame"])
        if not self._stopped_before:
            return last
        self._stopped_before = False
        now = self.actor.capture_to_act_on()
        before = self.directory.load_png(last)
        self._screen_moved_on = not same_screen(before, self.directory.load_png(now))
        return now

    def _timely_answer(
        self, frame: FrameRef, state: CUAState
    ) -> tuple[Decision, FrameRef, Exception | None]:
        """Return a decision about the current screen, the screen, and why the run ends
        although one was due.

        If the screen changed while a model answered, the model is asked again. The
        decision's usage is that of all answers. Raises what the planner raises, if
        there is no answer.
        """
        answers: list[Decision] = []
        while True:
            ask = (lambda seen: lambda: self._ask(state, seen))(frame)
            try:
                answers.append(self._deadline.call(ask, meanwhile=self.actor.watch))
            except RUN_ENDS as exc:
                if not answers:
                    raise
                return _last_of(answers), frame, exc
            # A changed screen matters to a model's answer.
            matters = self._session.settings.watch and answers[-1].model
            newer = None
            if matters and not _only_looks(answers[-1]):
                newer = self.actor.other_than(frame)
            if newer is None or len(answers) > MAX_REPLANS:
                decision = replace(_last_of(answers), stale=newer is not None)
                return decision, frame, None
            frame = newer

    def _ask(self, state: CUAState, frame: FrameRef) -> Decision:
        request_s = self._session.settings.request_seconds
        is_changed = request_s != self._session.request_s_at_first
        observation = Observation(
            task=fill(state["task"], self.started.values),
            first_frame=from_json(FrameRef, state["first_frame"]),
            frame=frame,
            turns=tuple(self._turns[: state["turn"]]),
            load_png=self.directory.load_png,
            report=self.emit,
            request_s=request_s if is_changed else None,
        )
        # A live planner may continue a run whose first steps were replayed.
        if not isinstance(self.planner, Replaying):
            observation = seen_by_live(observation)
        try:
            with causes.users_errors("planner", self.planner):
                answer = self.planner.decide(
                    observation, timeout_s=self._deadline.remaining_s
                )
        except ModelUnavailable as exc:
            if self._deadline.remaining_s:
                raise
            # the service had all the time of the run, so the run's limit has passed
            raise DeadlineExceeded from exc
        return decision_of(answer, f"an answer of {self.planner.name}")

    def _next(self, pending: list[dict[str, Any]], *, steps: int) -> CUAState:
        """Return the state for the pending calls, with a ruling on the first."""
        if steps >= self.limits.steps and (pending or self._limits_requests):
            why = f"the limit of {self.limits.steps} steps was reached"
            return self._end(Outcome.STEP_LIMIT, why)
        ruling = None
        if pending:
            ruling = to_json(self.rule_on(from_json(Proposal, pending[0])))
        return CUAState(
            pending=pending,
            ruling=ruling,
            elapsed_s=self._deadline.spent_s,
        )

    def rule_on(self, proposal: Proposal) -> Ruling:
        """Return the ruling on the next action."""
        if self._is_halted(proposal):
            return Ruling("allow", HALTED)
        return self._review(proposal)

    def _is_halted(self, proposal: Proposal) -> bool:
        """Return whether to leave out a call of a turn that failed. Keys and buttons
        are still released.
        """
        turn = self._turns[-1]
        failed = turn.decision.stop_at_error and any(step.error for step in turn.steps)
        return failed and not isinstance(proposal.action, (KeyUp, MouseUp))

    def _review(self, proposal: Proposal, *, is_approved: bool = False) -> Ruling:
        """Have the policy rule on a proposal, knowing all earlier typing in all runs of
        the agent.

        With `is_approved`, a user has approved it.
        """
        controller = self._session.controller
        page_url = controller.page_url if isinstance(controller, SupportsUrl) else str
        context = replace(
            self._session.review_context,
            test_id=self.started.test_id,
            task=fill(self.started.task, self.started.values),
            page_url=page_url,
        )
        ruling = self._policy.review(proposal, context)
        if ruling.kind == "ask" and not (self._session.can_ask or is_approved):
            return deny_unasked(ruling)
        return ruling

    def _new_step(self, state: CUAState) -> Step:
        turn = self._turns[-1]
        decision = turn.decision
        first_of_turn = not turn.steps
        frame = self._frame_to_act_on(state)
        proposal = from_json(Proposal, state["pending"][0])
        ruling = from_json(Ruling, state["ruling"])
        if ruling.kind == "allow" and ruling.by == "user":
            # the policy may deny by now what a user approved
            now = self._review(proposal, is_approved=True)
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
        is_last = len(state["pending"]) == 1
        watched = self._session.settings.watch and bool(decision.model) and is_last
        model_s = self._model_s if first_of_turn else 0.0
        step = self._perform_step(step, model_s, watched=watched)
        if (times := repeats(step, state)) >= self.limits.repeats:
            step = replace(step, note=REPEATED_NOTE.format(times=times))
        # before it is cut: half a secret would not be recognised
        step = _cut_texts(self.hide(step))
        self._turns[-1] = replace(turn, steps=(*turn.steps, step))
        self.emit(StepFinished(step))
        return step

    def _perform_step(
        self,
        step: Step,
        model_s: float,
        *,
        watched: bool,
    ) -> Step:
        if step.ruling.kind != "allow":
            return replace(step, error=f"denied: {step.ruling.explanation}")
        if self._is_halted(step.proposal):
            return replace(step, error=HALTED)
        if step.number == self._open_step:
            self._open_step = None
            self._screen_moved_on = True
            return replace(step, error=INTERRUPTED)
        if self._screen_moved_on:
            return replace(step, error=SCREEN_CHANGED)
        self.emit(
            StepStarted(
                step.number,
                step.turn,
                step.proposal,
                step.ruling,
            )
        )
        step = self.actor.run_step(step, self._deadline, watched=watched)
        return replace(step, times=replace(step.times, model_s=model_s))

    def _check_program(self, step: int) -> None:
        desktop = self._session.connection.desktop
        if desktop and (crash := crash_of(desktop)):
            raise ProgramCrashed(format_program_end(crash, f" at step {step}"))

    def _end(self, outcome: Outcome, message: str) -> CUAState:
        message = cut(self.hide(message), MAX_TEXT_LENGTH)
        return CUAState(
            outcome=outcome.value,
            message=message,
            pending=[],
            elapsed_s=self._deadline.spent_s,
        )

    def _out_of_time(self, why: str = "") -> CUAState:
        reached = f"the limit of {self._limit_s:g} s was reached"
        return self._end(Outcome.TIME_LIMIT, f"{reached}: {why}" if why else reached)


def _only_looks(decision: Decision) -> bool:
    """Return whether a turn only waits or takes screenshots, on any screen."""
    looks = (Wait, TakeScreenshot)
    actions = [proposal.action for proposal in decision.proposals]
    return decision.kind == "act" and all(
        isinstance(action, looks) for action in actions
    )


def _last_of(answers: Sequence[Decision]) -> Decision:
    """Return the last answer of one turn, with the usage of all."""
    usage = sum((answer.usage for answer in answers), Usage())
    return replace(answers[-1], usage=usage, repeated_requests=len(answers) - 1)


def _cut_texts(step: Step) -> Step:
    """Return a step with texts of bounded length."""
    intent = cut(step.proposal.intent, MAX_TEXT_LENGTH)
    explanation = cut(step.ruling.explanation, MAX_TEXT_LENGTH)
    return replace(
        step,
        proposal=replace(step.proposal, intent=intent),
        ruling=replace(step.ruling, explanation=explanation),
        text=cut(step.text, MAX_TEXT_LENGTH),
        output=cut(step.output, MAX_OUTPUT_LENGTH),
        error=cut(step.error, MAX_TEXT_LENGTH),
        elements=cut_names(step.elements),
    )


@dataclass
class Timing:
    """The timing of one run. `step_delay_s` may change during the run; `settings_s` are
    the others, in seconds.
    """

    step_delay_s: float
    settings_s: Mapping[str, float]

    def get_timing(self) -> str:
        """Return the times of this run, in milliseconds."""
        times_s = {**self.settings_s, "step_delay": self.step_delay_s}
        return "\n".join(
            f"{name}_ms: {round(seconds * 1000)}" for name, seconds in times_s.items()
        )

    def configure(
        self, step_delay_ms: float | None = None, screenshot_max_side: int | None = None
    ) -> str:
        """Set the wait after each step of this run, or the longest side of the
        screenshots that are sent.
        """
        delay_ms = self.step_delay_s * 1000 if step_delay_ms is None else step_delay_ms
        if isinstance(delay_ms, bool) or not 0 <= float(delay_ms) <= MAX_DELAY_MS:
            raise ValueError(
                f"step_delay_ms must be 0 to {MAX_DELAY_MS}, got {delay_ms!r}"
            )
        side = SMALLEST_SIDE if screenshot_max_side is None else screenshot_max_side
        if type(side) is not int or side < SMALLEST_SIDE:
            raise ValueError(
                f"screenshot_max_side must be at least {SMALLEST_SIDE} pixels, got"
                f" {side!r}"
            )
        self.step_delay_s = float(delay_ms) / 1000
        return self.get_timing()


def fingerprint(step: Step) -> str:
    """Return a text that is the same for the same action on the same frame."""
    action = json.dumps(to_json(step.proposal.action), sort_keys=True)
    text = f"{step.frame_before.digest} {action}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def repeats(step: Step, state: CUAState) -> int:
    """Return how often the step's action was proposed on this frame, this time
    included. Waiting does not count.
    """
    if isinstance(step.proposal.action, (Wait, TakeScreenshot, CallFunction)):
        return 0
    return state["fingerprints"].count(fingerprint(step)) + 1


def question_in(state: CUAState) -> ApprovalRequest:
    """Return the question to a user, from the state of a run that waits."""
    proposal = from_json(Proposal, state["pending"][0])
    ruling = from_json(Ruling, state["ruling"])
    return ApprovalRequest(state["step"] + 1, proposal, ruling)


def _readable(decision: Decision) -> Decision:
    """Return the decision with values that JSON readers accept. Raises AgentFailed for
    its `params`.
    """
    if not is_shallow(decision.params):
        raise AgentFailed(f"`params` of the finished planner {TOO_DEEP}")
    proposals = []
    for proposal in decision.proposals:
        action = proposal.action
        arguments = action.arguments if isinstance(action, CallFunction) else {}
        if not (is_shallow(arguments) and is_shallow(proposal.as_proposed)):
            called = proposal.as_proposed.get("name")
            name = str(called or getattr(action, "name", action.kind))
            problem = f"the arguments of {cut(name, 100)!r} {TOO_DEEP}"
            proposal = replace(
                proposal,
                action=InvalidAction(name, problem),
                as_proposed={"name": name, "args": {}},
            )
        proposals.append(proposal)
    return replace(decision, proposals=tuple(proposals))
