"""The nodes of one run: each looks, asks, decides or acts. `graph` says in which order they run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from typing_extensions import assert_never

from pytest_vnc_use import clock
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import AnswerRefused, BudgetExceeded, ProgramCrashed
from pytest_vnc_use.loop.actor import LONGEST_TEXT, Actor, readable, truncated
from pytest_vnc_use.loop.decisions import decision_of
from pytest_vnc_use.loop.history import History
from pytest_vnc_use.loop.staleness import RUN_ENDS, STALE, TimelyAnswer, answer_about
from pytest_vnc_use.loop.stall import fingerprint, repeats
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.runs.folder import from_json, to_json
from pytest_vnc_use.runs.takeover import seen_by_live
from pytest_vnc_use.same_screen import same_screen
from pytest_vnc_use.triage.failure_text import format_program_end
from pytest_vnc_use.types import (
    FOLLOWED,
    HANDED_OVER,
    STALLED,
    CUAState,
    Decision,
    FrameRef,
    KeyUp,
    Limits,
    MouseUp,
    Observation,
    Outcome,
    Proposal,
    Ruling,
    RunEvent,
    Step,
    StepFinished,
    StepStarted,
    TurnDecided,
    Usage,
)
from pytest_vnc_use.types.protocols import Planner, Replaying

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
        if HANDED_OVER in decision.provider_details:
            decision = self._parts.hide(decision)  # another model gets the words of this one and of the judge
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
                afresh = CUAState(fingerprints=[]) if HANDED_OVER in decision.provider_details else CUAState()
                return afresh | self._next(pending, steps=state["step"])
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
            if FOLLOWED not in self.history.turns[-1].decision.provider_details:
                return after | self._end_run(Outcome.GAVE_UP, "it kept repeating the same action on the same screen")
            pending = [each for each in pending if isinstance(from_json(Proposal, each).action, (KeyUp, MouseUp))]
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
