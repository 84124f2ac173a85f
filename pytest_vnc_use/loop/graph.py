"""The loop of one run as a LangGraph graph; the only file that knows langgraph. `order` says in which order nodes run.

The graph's state holds counters and what is pending, and stays small; what has happened stands in the run folder, from
which a run in another process goes on. `hitl_gate` interrupts the graph; the SQLite checkpointer beside the trace keeps
it until somebody answers.
"""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, cast

with warnings.catch_warnings():
    # langsmith uses at its import what Python 3.14 deprecates: where warnings are errors, nobody could import it
    warnings.filterwarnings("ignore", ".*iscoroutinefunction", DeprecationWarning, module=r"langsmith\.")
    import langsmith
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.errors import GraphBubbleUp
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Command, StateSnapshot, interrupt

from pytest_vnc_use.errors import BudgetExceeded, RunFolderError
from pytest_vnc_use.loop.checkpoints import CHECKPOINTS, NO_CHECKPOINT, SealedCheckpoints, damage_as_error
from pytest_vnc_use.loop.nodes import Nodes, Parts
from pytest_vnc_use.loop.order import NodeName, answered, next_node, was_answered
from pytest_vnc_use.runs.folder import from_json
from pytest_vnc_use.types import CUAState, Ruling


class NodeBroke(Exception):
    """Stands for a node's error where LangGraph sees it."""


class TaskGraph:
    """A run on its checkpoints: `start`, `take_over`, and after an interrupt or a crash `resume`."""

    def __init__(self, parts: Parts, nodes: Nodes) -> None:
        self._parts = parts
        self._nodes = nodes
        self._answer: bool | None = None
        self._broke: BaseException | None = None

    @property
    def _run_id(self) -> str:
        return self._parts.actor.folder.path.name

    def start(self, state: CUAState) -> CUAState:
        """Run until an outcome or an interrupt; the state then says which."""
        return self._run(state)

    def take_over(self, state: CUAState, last: NodeName) -> CUAState:
        """Go on with a run from the state after its `last` node, as `start` does."""
        with self._compiled() as (graph, config):
            graph.update_state(config, state, as_node=last)
        return self._run(None)

    def resume(self, answer: bool | None) -> CUAState:
        """Go on from the last checkpoint, as `TaskRun.resume` does."""
        with damage_as_error(self._run_id), self._compiled() as (graph, config):
            snapshot = graph.get_state(config)
            self._check_resumable(snapshot, answered=answer is not None)
            if answer is not None and not snapshot.interrupts:
                graph.update_state(config, {"ruling": answered(snapshot.values, answer)}, as_node="hitl_gate")
                answer = None
            self._nodes.go_on(snapshot.values["elapsed_s"])
            self._answer = answer
        return self._run(Command(resume=answer) if answer is not None else None)

    def _check_resumable(self, snapshot: StateSnapshot, *, answered: bool) -> None:
        run_id = self._run_id
        if not snapshot.values:
            raise RunFolderError(NO_CHECKPOINT.format(run_id))
        if outcome := snapshot.values.get("outcome"):
            raise RunFolderError(f"run {run_id!r} is over, it ended as {outcome!r}; only an unfinished run goes on")
        if answered and not snapshot.interrupts and not was_answered(cast(CUAState, snapshot.values)):
            raise RunFolderError(f"run {run_id!r} does not wait for approval; `resume` goes on with it")

    def _run(self, given: CUAState | Command[Any] | None) -> CUAState:
        with self._compiled() as (graph, config):
            with suppress(NodeBroke):
                graph.invoke(given, config, durability="sync")
            if self._broke is None:
                return cast(CUAState, graph.get_state(config).values)
        raise self._broke  # here, where nothing is handled: what led to it stays as it was

    @contextmanager
    def _compiled(self) -> Iterator[tuple[Any, Any]]:
        """Yield the graph on the run's checkpoints, and the config that names the run.

        Within, LangSmith's tracing is off: with LANGSMITH_TRACING=true it would send the state away, texts included.
        """
        graph = StateGraph(CUAState)
        for node in (self._nodes.observe, self._nodes.propose, self.hitl_gate, self._nodes.act):
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
        with closing(database), langsmith.tracing_context(enabled=False):
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
                return self._nodes.cut_short(exc)
            except BaseException as exc:  # noqa: BLE001  # raised again, whatever it is, `pytest.fail` too, by _run
                self._broke = exc
            raise NodeBroke(type(self._broke).__name__)

        return run

    def hitl_gate(self, state: CUAState) -> CUAState:
        """Wait for a person."""
        ruling = from_json(Ruling, state["ruling"])
        resumed_with = interrupt({"step": state["step"] + 1, "proposal": state["pending"][0], "rule": ruling.rule})
        # LangGraph repeats the first answer it was given, were this node to fail; the person's last one counts
        answer = resumed_with if self._answer is None else self._answer
        return CUAState(ruling=answered(state, answer))
