"""The loop of one run as a LangGraph graph; the only file that knows langgraph.

    start -> observe -> propose -> act -> (act while calls are pending) -> propose -> … -> end
                            \\-> hitl_gate -> act      where the next call waits for a person

The graph's state holds counters and what is pending, and stays small; what has happened stands in the run folder, from
which a run in another process goes on. `hitl_gate` interrupts the graph; the SQLite checkpointer beside the trace keeps
it until somebody answers.
"""

from __future__ import annotations

import dataclasses
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

import langsmith
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import GraphBubbleUp
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, StateSnapshot, interrupt
from typing_extensions import assert_never

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import AnswerRefused, BudgetExceeded, PlannerError, ProgramCrashed, RunFolderError
from pytest_vnc_use.loop.actor import LONGEST_TOLD, Actor, readable, truncated
from pytest_vnc_use.loop.checkpoints import SealedCheckpoints, damage_as_error
from pytest_vnc_use.loop.history import History
from pytest_vnc_use.loop.staleness import RUN_ENDS, STALE, TimelyAnswer, answer_about
from pytest_vnc_use.loop.stall import STALLED, fingerprint, repeats
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.runs.folder import from_json, to_json
from pytest_vnc_use.safety import rules
from pytest_vnc_use.same_screen import same_screen
from pytest_vnc_use.types import (
    ApprovalAsked,
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
from pytest_vnc_use.types.protocols import Planner

CHECKPOINTS = "checkpoints.sqlite"
INTERRUPTED = (
    "the run was interrupted while this action was being carried out; whether it took effect is unknown, "
    "look at the screen before repeating it"
)
SCREEN_CHANGED = (
    "not carried out: the run stood still, and since then the screen is another one than this action was meant for; "
    "look at it and decide anew"
)
HALTED = "not carried out: an earlier action of this turn failed"


@dataclass
class Parts:
    """The parts that a run works with.

    `announce` is told the first frame. `to_placeholders` takes declared secrets out of what will be acted on; the actor
    reveals them again. `hide` takes all secrets out of what is told and kept. `crash` says that a signal ended the
    program under test, and which. With `watch`, a model whose answer comes when the screen has changed is asked again.
    `request_s` as in Observation. `trust` also a checkpoint that another wrote.
    """

    actor: Actor
    planner: Planner
    review: Callable[[Proposal], Ruling]
    announce: Callable[[FrameRef], None]
    emit: Callable[[RunEvent], None]
    limits: Limits
    to_placeholders: Callable[[Any], Any]
    hide: Callable[[Any], Any]
    crash: Callable[[], str] = str
    watch: bool = True
    request_s: float | None = None
    trust: bool = False


class NodeBroke(Exception):
    """Stands for a node's error where LangGraph sees it."""


class TaskGraph:
    """The nodes of one run, and the run itself: `start`, and after an interrupt or a crash `resume`."""

    def __init__(self, parts: Parts, history: History) -> None:
        self._parts = parts
        self.history = history
        self._deadline = Deadline(parts.limits.seconds)
        self._answer: bool | None = None
        self._stood_still = False
        self._moved_on = False
        self._model_s = 0.0
        self._broke: BaseException | None = None

    # --- running -----------------------------------------------------------------------------------------------------

    @property
    def _run_id(self) -> str:
        return self._parts.actor.folder.path.name

    def start(self, task: str) -> CUAState:
        """Run until an outcome or an interrupt; the state then says which."""
        return self._run(CUAState(run_id=self._run_id, task=task, elapsed_s=0.0))

    def resume(self, answer: bool | None = None) -> CUAState:
        """Go on from the last checkpoint; `answer` is a person's yes or no where the run waits for one.

        Raises RunFolderError where there is nothing to go on with, or nobody was asked.
        """
        with damage_as_error(self._run_id), self._compiled() as (graph, config):
            snapshot = graph.get_state(config)
            self._check_resumable(snapshot, answered=answer is not None)
            if answer is not None and not snapshot.interrupts:
                graph.update_state(config, {"ruling": self._answered(snapshot.values, answer)}, as_node="hitl_gate")
                answer = None
            self._deadline = Deadline(self._parts.limits.seconds, snapshot.values["elapsed_s"])
            self._answer, self._stood_still = answer, True
        return self._run(Command(resume=answer) if answer is not None else None)

    def _check_resumable(self, snapshot: StateSnapshot, *, answered: bool) -> None:
        run_id = self._run_id
        if not snapshot.values:
            raise RunFolderError(f"run {run_id!r} left no checkpoint to go on from")
        if outcome := snapshot.values.get("outcome"):
            raise RunFolderError(f"run {run_id!r} is over, it ended as {outcome!r}; only an unfinished run goes on")
        if answered and not snapshot.interrupts and not was_answered(cast(CUAState, snapshot.values)):
            raise RunFolderError(f"run {run_id!r} does not wait for approval; `resume` goes on with it")

    def _run(self, given: CUAState | Command[Any] | None) -> CUAState:
        with self._compiled() as (graph, config), langsmith.tracing_context(enabled=False):
            with suppress(NodeBroke):
                graph.invoke(given, config, durability="sync")
            if self._broke is None:
                return cast(CUAState, graph.get_state(config).values)
        raise self._broke  # here, where nothing is handled: what led to it stays as it was

    @contextmanager
    def _compiled(self) -> Iterator[tuple[Any, Any]]:
        """Yield the graph on the run's checkpoints, and the config that names the run."""
        graph = StateGraph(CUAState)
        for node in (self.observe, self.propose, self.hitl_gate, self.act):
            graph.add_node(node.__name__, cast(Any, self._kept_to_itself(node)))
        graph.add_edge(START, "observe")
        graph.add_edge("observe", "propose")
        graph.add_edge("hitl_gate", "act")
        for node_name in ("propose", "act"):
            graph.add_conditional_edges(node_name, next_node, ["propose", "hitl_gate", "act", END])
        checkpoints = self._parts.actor.folder.path / CHECKPOINTS
        checkpoints.touch(mode=0o600)  # SQLite gives its other files the same rights
        database = sqlite3.connect(checkpoints, check_same_thread=False)
        config = {
            "configurable": {"thread_id": self._run_id},
            "recursion_limit": 10 * self._parts.limits.steps + 100,
        }
        own = SealedCheckpoints(JsonPlusSerializer(allowed_msgpack_modules=None), self._run_id, self._parts.trust)
        with closing(database):
            # what is committed outlives this process, as the run's other files do; the disk is not waited for
            database.execute("PRAGMA synchronous=NORMAL")
            yield graph.compile(checkpointer=SqliteSaver(database, serde=own)), config

    def _kept_to_itself(self, node: Callable[[CUAState], CUAState]) -> Callable[[CUAState], CUAState]:
        """Keep a node's errors from LangGraph: it would write their text, secrets too, into a checkpoint."""

        def run(state: CUAState) -> CUAState:
            try:
                return node(state)
            except (GraphBubbleUp, KeyboardInterrupt):  # an interrupt is no error
                raise
            except BudgetExceeded as exc:
                return self._cut_short(exc)
            except BaseException as exc:  # noqa: BLE001  # raised again, whatever it is, `pytest.fail` too, by _run
                self._broke = exc
            raise NodeBroke(type(self._broke).__name__)

        return run

    # --- nodes -------------------------------------------------------------------------------------------------------

    def observe(self, state: CUAState) -> CUAState:
        """Look at the first frame; the planner's first turn is about it."""
        frame = self._parts.actor.first_look()
        self._parts.announce(frame)
        return CUAState(first_frame=to_json(frame), frame=to_json(frame), turn=0, step=0, pending=[], fingerprints=[])

    def propose(self, state: CUAState) -> CUAState:
        """One turn of the planner."""
        if not self._deadline.remaining_s:
            return self._out_of_time()
        frame = self._frame_to_act_on(state)
        self._moved_on = False
        started = time.monotonic()
        try:
            answer = self._answer_about(frame, state)
        except RUN_ENDS as exc:
            return self._cut_short(exc)
        self._model_s = time.monotonic() - started
        number, decision = state["turn"] + 1, readable(answer.decision)
        self.history.decided(number, decision)
        self._parts.emit(TurnDecided(number, decision, self._model_s))
        decided = self._cut_short(answer.cut_short) if answer.cut_short else self._decided(decision, state)
        frame_json = to_json(answer.frame)
        first = frame_json if number == 1 else state["first_frame"]
        return CUAState(turn=number, first_frame=first, frame=frame_json) | decided

    def hitl_gate(self, state: CUAState) -> CUAState:
        """Wait for a person."""
        ruling = from_json(Ruling, state["ruling"])
        resumed_with = interrupt({"step": state["step"] + 1, "proposal": state["pending"][0], "rule": ruling.rule})
        # LangGraph repeats the first answer it was given, were this node to fail; the person's last one counts
        answer = resumed_with if self._answer is None else self._answer
        return CUAState(ruling=self._answered(state, answer))

    def _answered(self, state: CUAState, answer: bool) -> dict[str, Any]:
        ruling = from_json(Ruling, state["ruling"])
        answered: dict[str, Any] = to_json(rules.approve(ruling) if answer else rules.deny(ruling))
        return answered

    def act(self, state: CUAState) -> CUAState:
        """Carry out the first pending action, or refuse it, or run out of time."""
        if not self._deadline.remaining_s:
            return self._out_of_time()
        step = self.history.finished(state["step"] + 1) or self._new_step(state)
        return self._after(step, state)

    # --- proposing ---------------------------------------------------------------------------------------------------

    def _frame_to_act_on(self, state: CUAState) -> FrameRef:
        """Return the last frame; or the screen now, the first time after the run stood still."""
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
        return self._parts.planner.decide(observation, timeout_s=self._deadline.remaining_s)

    def _decided(self, decision: Decision, state: CUAState) -> CUAState:
        match decision.kind:
            case "finished":
                self._check_program(state["step"])
                return self._ended(Outcome.DONE, decision.words)
            case "gave_up":
                return self._ended(Outcome.GAVE_UP, decision.words)
            case "act":
                if not decision.proposals:
                    raise PlannerError(f"{self._parts.planner.name} decided to act, and proposed nothing to do")
                pending = [to_json(self._parts.to_placeholders(proposal)) for proposal in decision.proposals]
                return self._next(pending, steps=state["step"])
            case _:
                assert_never(decision.kind)

    def _next(self, pending: list[dict[str, Any]], *, steps: int) -> CUAState:
        """Return the state for the calls that are pending, with a ruling on the first."""
        if pending and steps >= self._parts.limits.steps:
            return self._ended(Outcome.STEP_LIMIT, f"the limit of {self._parts.limits.steps} steps was reached")
        ruling = self._ruling_on(from_json(Proposal, pending[0])) if pending else None
        return CUAState(pending=pending, ruling=to_json(ruling) if ruling else None, elapsed_s=self._deadline.spent_s)

    def _ruling_on(self, proposal: Proposal) -> Ruling:
        return Ruling("allow", HALTED) if self._is_halted(proposal) else self._parts.review(proposal)

    def _is_halted(self, proposal: Proposal) -> bool:
        """Return whether a call of a turn that failed is left out. Keys and buttons are still released."""
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
            ruling=rules.final_ruling(proposal, from_json(Ruling, state["ruling"])),
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
        told = truncated(self._parts.hide(step))  # in this order: half a secret would not be known as one
        self.history.add(told)
        self._parts.emit(StepFinished(told))
        return told

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
            return after | self._ended(Outcome.DENIED, step.ruling.explanation)
        if repeats(step, state) > self._parts.limits.stall:
            return after | self._ended(Outcome.GAVE_UP, "it kept repeating the same action on the same screen")
        return after | self._next(state["pending"][1:], steps=step.number)

    def _check_program(self, step: int) -> None:
        if crash := self._parts.crash():
            headline, *output = crash.splitlines()
            raise ProgramCrashed("\n".join([f"the program under test ended: {headline} at step {step}", *output]))

    def _ended(self, outcome: Outcome, message: str) -> CUAState:
        told = cut(self._parts.hide(message), LONGEST_TOLD)
        return CUAState(outcome=outcome.value, message=told, pending=[], elapsed_s=self._deadline.spent_s)

    def _cut_short(self, reason: Exception) -> CUAState:
        match reason:
            case AnswerRefused():
                return self._ended(Outcome.BLOCKED, str(reason))
            case BudgetExceeded():
                return self._ended(Outcome.BUDGET, str(reason))
            case _:
                return self._out_of_time()

    def _out_of_time(self) -> CUAState:
        return self._ended(Outcome.TIME_LIMIT, f"the limit of {self._parts.limits.seconds:g} s was reached")


def next_node(state: CUAState) -> str:
    """Return the node after propose and act."""
    if state.get("outcome"):
        return END
    if not state["pending"]:
        return "propose"
    ruling = state["ruling"]
    return "hitl_gate" if ruling and ruling["kind"] == "ask" else "act"


def was_answered(state: CUAState) -> bool:
    """Return whether a person has answered about the next call. Their last answer counts."""
    ruling = state["ruling"]
    return bool(state["pending"] and ruling and ruling["by"] == "person")


def asked(state: CUAState) -> ApprovalAsked:
    """Return the question to a person, from the state of a run that waits."""
    proposal, ruling = from_json(Proposal, state["pending"][0]), from_json(Ruling, state["ruling"])
    return ApprovalAsked(state["step"] + 1, proposal, ruling)
