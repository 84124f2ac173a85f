"""The loop of one run as a LangGraph graph; the only file that knows langgraph.

    start -> observe -> propose -> act -> (act while calls are pending) -> propose -> … -> end
                            \\-> hitl_gate -> act      where the next call waits for a person

The graph's state holds counters and what is pending, and stays small; what has happened stands in the run folder, from
which a run in another process goes on. `hitl_gate` interrupts the graph; the SQLite checkpointer beside the trace keeps
it until somebody answers.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import langsmith
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, StateSnapshot, interrupt
from typing_extensions import assert_never

from pytest_vnc_use import safety
from pytest_vnc_use.deadline import Deadline, DeadlineExceeded
from pytest_vnc_use.errors import ActionError, AnswerRefused, RunFolderError
from pytest_vnc_use.ports import Controller, Planner
from pytest_vnc_use.trace import RunFolder, Trace, from_json, to_json
from pytest_vnc_use.types import (
    Action,
    ApprovalAsked,
    CallFunction,
    Click,
    CUAState,
    Decision,
    Drag,
    FrameRef,
    InvalidAction,
    KeyCombo,
    KeyDown,
    KeyUp,
    Limits,
    MouseDown,
    MouseUp,
    Move,
    Observation,
    OpenAddress,
    Outcome,
    Proposal,
    Ruling,
    RunEvent,
    Scroll,
    SettledReason,
    Step,
    StepFinished,
    StepStarted,
    TakeScreenshot,
    Times,
    Turn,
    TurnDecided,
    TypeText,
    Usage,
    Wait,
)

CHECKPOINTS = "checkpoints.sqlite"
INTERRUPTED = (
    "the run was interrupted while this action was being carried out; whether it took effect is unknown, "
    "look at the screen before repeating it"
)
STALLED = "This same action on this same screen was proposed {times} times. Try another way, or give up."


@dataclass
class History:
    """The turns of a run so far, in memory as in the run folder."""

    turns: list[Turn] = field(default_factory=list)
    open_step: int | None = None
    """Number of a step that was begun before the process died, and never finished."""

    @classmethod
    def of(cls, trace: Trace) -> History:
        return cls(list(trace.turns), trace.open_step.number if trace.open_step else None)

    @property
    def steps(self) -> list[Step]:
        return [step for turn in self.turns for step in turn.steps]

    def decided(self, number: int, decision: Decision) -> None:
        """Turn `number` got its decision; one that was decided before a crash, and never acted on, is replaced."""
        del self.turns[number - 1 :]
        self.turns.append(Turn(decision))

    def add(self, step: Step) -> None:
        turn = self.turns[-1]
        self.turns[-1] = dataclasses.replace(turn, steps=(*turn.steps, step))

    def finished(self, number: int) -> Step | None:
        return next((step for step in self.steps if step.number == number), None)


@dataclass
class Parts:
    """What a run works with.

    `announce` is told the first frame; `hide` takes secrets out of a value, `reveal` puts them into what is typed.
    """

    controller: Controller
    planner: Planner
    review: Callable[[Proposal], Ruling]
    folder: RunFolder
    announce: Callable[[FrameRef], None]
    emit: Callable[[RunEvent], None]
    limits: Limits
    functions: Mapping[str, Callable[..., object]]
    hide: Callable[[Any], Any]
    reveal: Callable[[str], str]


class TaskGraph:
    """The nodes of one run, and the run itself: `start`, and after an interrupt or a crash `resume`."""

    def __init__(self, parts: Parts, history: History) -> None:
        self._parts = parts
        self.history = history
        self._deadline = Deadline(parts.limits.seconds)

    # --- running -----------------------------------------------------------------------------------------------------

    def start(self, task: str) -> CUAState:
        """Run until an outcome or an interrupt; the state then says which."""
        return self._run(CUAState(run_id=self._parts.folder.path.name, task=task, elapsed_s=0.0))

    def resume(self, answer: bool | None = None) -> CUAState:
        """Go on from the last checkpoint; `answer` is a person's yes or no where the run waits for one.

        Raises RunFolderError where there is nothing to go on with, or nobody was asked.
        """
        with self._compiled() as (graph, config):
            snapshot = graph.get_state(config)
            self._check_resumable(snapshot, answered=answer is not None)
            self._deadline = Deadline(self._parts.limits.seconds, snapshot.values["elapsed_s"])
        return self._run(Command(resume=answer) if answer is not None else None)

    def _check_resumable(self, snapshot: StateSnapshot, *, answered: bool) -> None:
        run_id = self._parts.folder.path.name
        if not snapshot.values:
            raise RunFolderError(f"run {run_id!r} left no checkpoint to go on from")
        if outcome := snapshot.values.get("outcome"):
            raise RunFolderError(f"run {run_id!r} is over, it ended as {outcome!r}; only an unfinished run goes on")
        if answered and not snapshot.interrupts:
            raise RunFolderError(f"run {run_id!r} does not wait for approval; `resume` goes on with it")

    def _run(self, given: CUAState | Command[Any] | None) -> CUAState:
        with self._compiled() as (graph, config), langsmith.tracing_context(enabled=False):
            graph.invoke(given, config, durability="sync")
            return cast(CUAState, graph.get_state(config).values)

    @contextmanager
    def _compiled(self) -> Iterator[tuple[Any, Any]]:
        """The graph on the run's checkpoints, and the config that names the run."""
        graph = StateGraph(CUAState)
        for node in (self.observe, self.propose, self.hitl_gate, self.act):
            graph.add_node(node.__name__, cast(Any, node))
        graph.add_edge(START, "observe")
        graph.add_edge("observe", "propose")
        graph.add_edge("hitl_gate", "act")
        for node_name in ("propose", "act"):
            graph.add_conditional_edges(node_name, next_node, ["propose", "hitl_gate", "act", END])
        database = sqlite3.connect(self._parts.folder.path / CHECKPOINTS, check_same_thread=False)
        config = {
            "configurable": {"thread_id": self._parts.folder.path.name},
            "recursion_limit": 10 * self._parts.limits.steps + 100,
        }
        with closing(database):
            yield graph.compile(checkpointer=SqliteSaver(database)), config

    # --- nodes -------------------------------------------------------------------------------------------------------

    def observe(self, state: CUAState) -> CUAState:
        """The first frame, which the planner's first turn is about."""
        frame = self.capture()
        self._parts.announce(frame)
        return CUAState(first_frame=to_json(frame), frame=to_json(frame), turn=0, step=0, pending=[], fingerprints=[])

    def propose(self, state: CUAState) -> CUAState:
        """One turn of the planner."""
        if not self._deadline.remaining_s:
            return self._out_of_time()
        started = time.monotonic()
        try:
            decision = self._deadline.call(lambda: self._ask(state))
        except DeadlineExceeded:
            return self._out_of_time()
        except AnswerRefused as exc:
            return self._ended(Outcome.BLOCKED, str(exc))
        number = state["turn"] + 1
        self.history.decided(number, decision)
        self._parts.emit(TurnDecided(number, decision, time.monotonic() - started))
        return self._decided(decision) | CUAState(turn=number)

    def hitl_gate(self, state: CUAState) -> CUAState:
        """Wait for a person; what is then acted on is the screen as it is then."""
        ruling = from_json(Ruling, state["ruling"])
        answer = interrupt({"step": state["step"] + 1, "proposal": state["pending"][0], "rule": ruling.rule})
        answered = safety.approve(ruling) if answer else safety.deny(ruling)
        return CUAState(ruling=to_json(answered), frame=to_json(self.capture()))

    def act(self, state: CUAState) -> CUAState:
        """The first pending action: carried out, refused, or out of limits."""
        number = state["step"] + 1
        if number > self._parts.limits.steps:
            return self._ended(Outcome.STEP_LIMIT, f"the limit of {self._parts.limits.steps} steps was reached")
        if not self._deadline.remaining_s:
            return self._out_of_time()
        step = self.history.finished(number) or self._new_step(state)
        return self._after(step, state)

    # --- proposing ---------------------------------------------------------------------------------------------------

    def _ask(self, state: CUAState) -> Decision:
        observation = Observation(
            task=state["task"],
            first_frame=from_json(FrameRef, state["first_frame"]),
            frame=from_json(FrameRef, state["frame"]),
            turns=tuple(self.history.turns[: state["turn"]]),
            load_png=self._parts.folder.load_png,
            report=self._parts.emit,
        )
        return self._parts.planner.decide(observation, timeout_s=self._deadline.remaining_s)

    def _decided(self, decision: Decision) -> CUAState:
        match decision.kind:
            case "finished":
                return self._ended(Outcome.DONE, decision.words)
            case "gave_up":
                return self._ended(Outcome.GAVE_UP, decision.words)
            case "act":
                return self._next([to_json(self._parts.hide(proposal)) for proposal in decision.proposals])
            case _:
                assert_never(decision.kind)

    def _next(self, pending: list[dict[str, Any]]) -> CUAState:
        """The state for what is pending now, its first call ruled on."""
        ruling = self._parts.review(from_json(Proposal, pending[0])) if pending else None
        return CUAState(pending=pending, ruling=to_json(ruling) if ruling else None, elapsed_s=self._deadline.spent_s)

    # --- acting ------------------------------------------------------------------------------------------------------

    def _new_step(self, state: CUAState) -> Step:
        decision = self.history.turns[-1].decision
        first_of_turn = not self.history.turns[-1].steps
        step = Step(
            number=state["step"] + 1,
            turn=state["turn"],
            proposal=from_json(Proposal, state["pending"][0]),
            ruling=from_json(Ruling, state["ruling"]),
            frame_before=from_json(FrameRef, state["frame"]),
            frame_after=from_json(FrameRef, state["frame"]),
            words=self._parts.hide(decision.words),
            model=decision.model,
            usage=decision.usage if first_of_turn else Usage(),
        )
        step = self._carried_out(step)
        if (times := repeats(step, state)) >= self._parts.limits.stall:
            step = dataclasses.replace(step, note=STALLED.format(times=times))
        self.history.add(step)
        self._parts.emit(StepFinished(step))
        return step

    def _carried_out(self, step: Step) -> Step:
        if step.ruling.kind != "allow":
            return dataclasses.replace(step, error=f"denied: {step.ruling.explanation}")
        if step.number == self.history.open_step:
            self.history.open_step = None
            return dataclasses.replace(step, error=INTERRUPTED, frame_after=self.capture())
        self._parts.emit(StepStarted(step.number, step.turn, step.proposal, step.ruling))
        started = time.monotonic()
        output, error = self._attempt(step.proposal.action)
        acted = time.monotonic()
        settled = self._settle(step.proposal.action, error)
        quiet = time.monotonic()
        frame = self.capture()
        times = Times(0.0, acted - started, quiet - acted, time.monotonic() - quiet)
        return dataclasses.replace(step, output=output, error=error, settled=settled, frame_after=frame, times=times)

    def _attempt(self, action: Action) -> tuple[str, str]:
        """Output and error of one action."""
        try:
            return self._deadline.call(lambda: self._do(action)), ""
        except ActionError as exc:
            return "", str(exc)
        except DeadlineExceeded:
            self._parts.controller.close()
            return "", f"not finished within the run's {self._parts.limits.seconds:g} s"

    def _do(self, action: Action) -> str:
        match action:
            case InvalidAction(problem=problem):
                raise ActionError(problem)
            case CallFunction(name=name, arguments=arguments):
                return self._call_function(name, arguments)
            case TypeText():
                self._parts.controller.perform(dataclasses.replace(action, text=self._parts.reveal(action.text)))
            case OpenAddress(address=address):
                self._parts.controller.perform(OpenAddress(self._parts.reveal(address)))
            case Wait(duration_s=duration_s):
                self._parts.controller.perform(Wait(min(duration_s, self._deadline.remaining_s)))
            case Click() | MouseDown() | MouseUp() | Move() | Drag() | Scroll():
                self._parts.controller.perform(action)
            case KeyCombo() | KeyDown() | KeyUp() | TakeScreenshot():
                self._parts.controller.perform(action)
            case _:
                assert_never(action)
        return ""

    def _call_function(self, name: str, arguments: Mapping[str, Any]) -> str:
        if name not in self._parts.functions:
            raise ActionError(f"there is no function {name!r}; there are {sorted(self._parts.functions)}")
        try:
            return str(self._parts.functions[name](**arguments))
        except Exception as exc:  # a user's function may raise anything, and the planner is told what
            raise ActionError(f"{name} raised {type(exc).__name__}: {exc}") from exc

    def _settle(self, action: Action, error: str) -> SettledReason | None:
        if error or isinstance(action, (CallFunction, TakeScreenshot)) or not self._deadline.remaining_s:
            return None
        return self._parts.controller.settle().reason

    def capture(self) -> FrameRef:
        """The screen now, stored in the run folder."""
        frame = self._parts.controller.frame()
        self._parts.folder.store(frame)
        return frame.ref

    # --- after a step ------------------------------------------------------------------------------------------------

    def _after(self, step: Step, state: CUAState) -> CUAState:
        fingerprints = [*state["fingerprints"], fingerprint(step)][-8 * self._parts.limits.stall :]
        after = CUAState(step=step.number, frame=to_json(step.frame_after), fingerprints=fingerprints)
        if step.ruling.kind != "allow" and step.ruling.ends_run:
            return after | self._ended(Outcome.DENIED, step.error)
        if repeats(step, state) > self._parts.limits.stall:
            return after | self._ended(Outcome.GAVE_UP, "it kept repeating the same action on the same screen")
        return after | self._next(state["pending"][1:])

    def _ended(self, outcome: Outcome, message: str) -> CUAState:
        return CUAState(
            outcome=outcome.value, message=self._parts.hide(message), pending=[], elapsed_s=self._deadline.spent_s
        )

    def _out_of_time(self) -> CUAState:
        return self._ended(Outcome.TIME_LIMIT, f"the limit of {self._parts.limits.seconds:g} s was reached")


def next_node(state: CUAState) -> str:
    """Where propose and act lead."""
    if state.get("outcome"):
        return END
    if not state["pending"]:
        return "propose"
    ruling = state["ruling"]
    return "hitl_gate" if ruling and ruling["kind"] == "ask" else "act"


def asked(state: CUAState) -> ApprovalAsked:
    """What a person is asked, of the state of a run that waits."""
    proposal, ruling = from_json(Proposal, state["pending"][0]), from_json(Ruling, state["ruling"])
    return ApprovalAsked(state["step"] + 1, proposal, ruling)


def fingerprint(step: Step) -> str:
    """The same for the same action on the same frame."""
    action = json.dumps(to_json(step.proposal.action), sort_keys=True)
    return hashlib.sha256(f"{step.frame_before.digest} {action}".encode()).hexdigest()[:16]


def repeats(step: Step, state: CUAState) -> int:
    """How often the step's action was proposed on the same frame, this time included; waiting is no standing still."""
    if isinstance(step.proposal.action, Wait):
        return 0
    return state["fingerprints"].count(fingerprint(step)) + 1
