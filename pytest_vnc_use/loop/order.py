"""The order of a run's nodes, and who carries it out.

    start -> observe -> propose -> act -> (act while calls are pending) -> propose -> … -> end
                            \\-> hitl_gate -> act      where the next call waits for a person

A run may wait for a person, or go on in another process, so LangGraph carries out its nodes (`graph`). A replay needs
neither: its turns come from a file, and its test can replay them again. A plain loop carries out its nodes, so that a
session of replays does not import LangGraph, which takes most of a second. As soon as a model plans, or a person must
be asked, LangGraph goes on with the run.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pytest_vnc_use.errors import BudgetExceeded
from pytest_vnc_use.loop.history import History
from pytest_vnc_use.loop.nodes import Nodes, Parts
from pytest_vnc_use.runs.folder import from_json, to_json
from pytest_vnc_use.safety import rulings
from pytest_vnc_use.types import ApprovalAsked, CUAState, Proposal, Ruling
from pytest_vnc_use.types.protocols import Replaying

if TYPE_CHECKING:
    from pytest_vnc_use.loop.graph import TaskGraph

NodeName = Literal["observe", "propose", "hitl_gate", "act", "__end__"]


class TaskRun:
    """The run of a task: `start`, and after an interrupt or a crash `resume`."""

    def __init__(self, parts: Parts, history: History) -> None:
        self._parts = parts
        self._nodes = Nodes(parts, history)

    @cached_property
    def _graph(self) -> TaskGraph:
        from pytest_vnc_use.loop.graph import TaskGraph

        return TaskGraph(self._parts, self._nodes)

    def start(self, task: str) -> CUAState:
        """Run until an outcome or an interrupt; the state then says which."""
        state = CUAState(run_id=self._parts.actor.folder.path.name, task=task, elapsed_s=0.0)
        planner = self._parts.planner
        if not isinstance(planner, Replaying):
            return self._graph.start(state)
        state, last = self._replay(state, planner)
        return state if "outcome" in state else self._graph.take_over(state, last)

    def resume(self, answer: bool | None = None) -> CUAState:
        """Go on from the last checkpoint; `answer` is a person's yes or no where the run waits for one.

        Raises RunFolderError where there is nothing to go on with, or nobody was asked.
        """
        return self._graph.resume(answer)

    def _replay(self, state: CUAState, planner: Replaying) -> tuple[CUAState, NodeName]:
        """Carry out nodes as long as the recording plans. Return the state, and the last node."""
        node: NodeName = "observe"
        while True:
            state = state | self._result_of(node, state)
            following = node_after(node, state)
            if following in ("__end__", "hitl_gate") or planner.is_live:
                return state, node
            node = following

    def _result_of(self, node: NodeName, state: CUAState) -> CUAState:
        try:
            result: CUAState = getattr(self._nodes, node)(state)
            return result
        except BudgetExceeded as exc:
            return self._nodes.cut_short(exc)


def node_after(node: NodeName, state: CUAState) -> NodeName:
    """Return the node that comes after this one."""
    match node:
        case "observe":
            return "propose"
        case "hitl_gate":
            return "act"
    return next_node(state)


def next_node(state: CUAState) -> NodeName:
    """Return the node after propose and act."""
    if state.get("outcome"):
        return "__end__"
    if not state["pending"]:
        return "propose"
    ruling = state["ruling"]
    return "hitl_gate" if ruling and ruling["kind"] == "ask" else "act"


def answered(state: CUAState, answer: bool) -> dict[str, Any]:
    """Return the ruling on the next call after a person's yes or no, as JSON."""
    ruling = from_json(Ruling, state["ruling"])
    after: dict[str, Any] = to_json(rulings.approve(ruling) if answer else rulings.deny(ruling))
    return after


def was_answered(state: CUAState) -> bool:
    """Return whether a person has answered about the next call. Their last answer counts."""
    ruling = state["ruling"]
    return bool(state["pending"] and ruling and ruling["by"] == "person")


def question_in(state: CUAState) -> ApprovalAsked:
    """Return the question to a person, from the state of a run that waits."""
    proposal, ruling = from_json(Proposal, state["pending"][0]), from_json(Ruling, state["ruling"])
    return ApprovalAsked(state["step"] + 1, proposal, ruling)
