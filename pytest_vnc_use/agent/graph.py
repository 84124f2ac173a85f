"""The loop of one run, live or replayed, as a LangGraph graph; the only file that knows
langgraph.

    start -> observe -> propose -> act -> (act while calls are pending) -> propose -> …
    -> end
                            \\-> hitl_gate -> act      where the next call waits for a user

The graph's state holds counters and what is pending, and stays small. What has happened
is in the run directory, from which a run in another process continues. `hitl_gate`
interrupts the graph; the SQLite checkpointer beside the trace keeps it until a user
answers.
"""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, cast

with warnings.catch_warnings():
    # langsmith uses at its import what Python 3.14 deprecates: where warnings are
    # errors, no test could import it
    warnings.filterwarnings(
        "ignore",
        ".*iscoroutinefunction",
        DeprecationWarning,
        module=r"langsmith\.",
    )
    import langsmith
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.errors import GraphBubbleUp
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Command, interrupt

from pytest_vnc_use.agent.nodes import Run
from pytest_vnc_use.errors import BudgetExceeded, RunDirectoryError, VncUseError
from pytest_vnc_use.runs.directory import from_json, to_json
from pytest_vnc_use.safety import rules
from pytest_vnc_use.types import CUAState, Proposal, Ruling
from pytest_vnc_use.types.protocols import Replaying

CHECKPOINTS = "checkpoints.sqlite"
"""The file of the checkpoints in the run directory."""
NO_CHECKPOINT = "run {!r} left no checkpoint to continue from. Start its task again"


class NodeFailed(Exception):
    """Stands for a node's error where LangGraph sees it."""


class RunGraph:
    """A run on its checkpoints: `start`, and after an interrupt or a crash `resume`."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._run_id = run.directory.path.name
        self._answer: bool | None = None
        self._error: BaseException | None = None

    def start(self) -> CUAState:
        """Run until an outcome or an interrupt; the state then says which."""
        state = CUAState(
            run_id=self._run_id,
            task=self._run.started.task,
            elapsed_s=0.0,
        )
        return self._invoke(state)

    def resume(
        self, answer: bool | None = None, asked: Proposal | None = None
    ) -> CUAState:
        """Continue from the last checkpoint; `answer` approves or denies `asked`, where
        the run waits for that.

        The policy rules again on what was about to be done: a checkpoint allows
        nothing. Raises RunDirectoryError where there is nothing to continue with, no
        user was asked, or about another action.
        """
        with self._damage_as_error(), self._compiled() as (graph, config):
            snapshot = graph.get_state(config)
            values = snapshot.values
            waits = bool(snapshot.interrupts)
            self._check_resumable(values, answer, waits=waits)
            pending = values["pending"]
            proposal = from_json(Proposal, pending[0]) if pending else None
            if answer and self._run.hide(proposal) != asked:
                raise RunDirectoryError(
                    f"the checkpoint of run {self._run_id!r} holds another action than"
                    " the one that was asked about. Deny it, or start its task again"
                )
            if answer is None and snapshot.next == ("act",) and proposal:
                ruling = to_json(self._run.rule_on(proposal))
                graph.update_state(config, {"ruling": ruling}, as_node="propose")
            if answer is not None and not waits:
                ruling = answered(values, answer)
                graph.update_state(config, {"ruling": ruling}, as_node="hitl_gate")
                answer = None
            self._run.continue_after(values["elapsed_s"])
            self._answer = answer
        return self._invoke(None if answer is None else Command(resume=answer))

    def _check_resumable(
        self,
        values: CUAState,
        answer: bool | None,
        *,
        waits: bool,
    ) -> None:
        """Raise RunDirectoryError if a run with this checkpoint cannot continue."""
        if not values:
            raise RunDirectoryError(NO_CHECKPOINT.format(self._run_id))
        if outcome := values.get("outcome"):
            raise RunDirectoryError(
                f"run {self._run_id!r} is finished, with {outcome!r}. Only an"
                " unfinished run can continue"
            )
        ruling = values["ruling"]
        # the last answer counts
        was_answered = values["pending"] and ruling and ruling["by"] == "user"
        if answer is not None and not (waits or was_answered):
            raise RunDirectoryError(
                f"run {self._run_id!r} does not wait for approval. Continue it with"
                " `resume`"
            )

    def _invoke(self, state: CUAState | Command[Any] | None) -> CUAState:
        with self._compiled() as (graph, config):
            # a recording answers the same again, so one checkpoint is enough, written
            # when its replay stops
            durability = "exit" if isinstance(self._run.planner, Replaying) else "sync"
            with suppress(NodeFailed):
                graph.invoke(state, config, durability=durability)
            self._run.actor.release()
            if self._error is None:
                return cast(CUAState, graph.get_state(config).values)
        # here, where nothing is handled: what led to it stays as it was
        raise self._error

    @contextmanager
    def _compiled(self) -> Iterator[tuple[Any, Any]]:
        """Yield the graph on the run's checkpoints, and the config that names the run.

        Within, LangSmith's tracing is off: with LANGSMITH_TRACING=true it would send
        the state away, texts included.
        """
        graph = StateGraph(CUAState)
        run = self._run
        for node in (run.observe, run.propose, self.hitl_gate, run.act):
            graph.add_node(node.__name__, cast(Any, self._isolated(node)))
        graph.add_edge(START, "observe")
        graph.add_edge("observe", "propose")
        graph.add_edge("hitl_gate", "act")
        nexts = ["propose", "hitl_gate", "act", END]
        graph.add_conditional_edges("propose", next_node, nexts)
        graph.add_conditional_edges("act", next_node, nexts)
        checkpoints = self._run.directory.path / CHECKPOINTS
        checkpoints.touch(mode=0o600)  # SQLite gives its other files the same rights
        database = sqlite3.connect(checkpoints, check_same_thread=False)
        config = {
            "configurable": {"thread_id": self._run_id},
            "recursion_limit": 10 * self._run.limits.steps + 100,
        }
        # it makes no object that a checkpoint names
        plain = JsonPlusSerializer(allowed_msgpack_modules=None)
        with closing(database), langsmith.tracing_context(enabled=False):
            # what is committed outlives this process, as the run's other files do; the
            # disk is not waited for
            database.execute("PRAGMA synchronous=NORMAL")
            saver = SqliteSaver(database, serde=plain)
            yield graph.compile(checkpointer=saver), config

    @contextmanager
    def _damage_as_error(self) -> Iterator[None]:
        """Map errors of damaged checkpoints to RunDirectoryError; a full disk keeps its
        own error.
        """
        try:
            yield
        except VncUseError:
            raise
        except Exception as exc:
            # for a damaged file SQLite and LangGraph may raise anything
            if isinstance(exc, sqlite3.OperationalError) and "full" in str(exc):
                raise
            raise RunDirectoryError(
                f"the checkpoints of run {self._run_id!r} are damaged"
                f" ({type(exc).__name__}: {exc}), so it cannot continue. Its run"
                " directory shows what it did. Start the task again"
            ) from exc

    def _isolated(
        self, node: Callable[[CUAState], CUAState]
    ) -> Callable[[CUAState], CUAState]:
        """Keep a node's errors from LangGraph: it would write their text, secrets too,
        into a checkpoint.
        """

        def run(state: CUAState) -> CUAState:
            try:
                return node(state)
            except (GraphBubbleUp, KeyboardInterrupt):  # An interrupt is no error.
                raise
            except BudgetExceeded as exc:
                return self._run.cut_short(exc)
            except BaseException as exc:  # noqa: BLE001  # _invoke raises it again, `pytest.fail` too.
                self._error = exc
            raise NodeFailed(type(self._error).__name__)

        return run

    def hitl_gate(self, state: CUAState) -> CUAState:
        """Wait for a user."""
        ruling = from_json(Ruling, state["ruling"])
        question = {
            "step": state["step"] + 1,
            "proposal": state["pending"][0],
            "rule": ruling.rule,
        }
        resumed_with = interrupt(question)
        # After a failure of this node LangGraph repeats the first answer, but the
        # user's last one counts.
        answer = resumed_with if self._answer is None else self._answer
        return CUAState(ruling=answered(state, answer))


def next_node(state: CUAState) -> str:
    """Return the node after propose and act."""
    if state.get("outcome"):
        return END
    if not state["pending"]:
        return "propose"
    ruling = state["ruling"]
    return "hitl_gate" if ruling and ruling["kind"] == "ask" else "act"


def answered(state: CUAState, answer: bool) -> dict[str, Any]:
    """Return the ruling on the next call after a user's approval or denial, as JSON."""
    ruling = from_json(Ruling, state["ruling"])
    after: dict[str, Any] = to_json(rules.answer(ruling, yes=answer))
    return after
