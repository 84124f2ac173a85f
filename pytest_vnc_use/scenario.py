"""The tasks of one test: carried out in order, their claims judged, and what to say where one fails."""

from __future__ import annotations

import dis
from collections.abc import Callable, Sequence

from pytest_vnc_use.agent import VncUseAgent, transcript
from pytest_vnc_use.errors import VncUseError
from pytest_vnc_use.settings import TaskSpec, merge
from pytest_vnc_use.types import Limits, Outcome, RunResult, Verdict

LAST_STEPS = 5


class TaskFailed(VncUseError):
    """A task did not end as done, or one of its claims does not hold; the message is for the person who reads it."""


def _nothing() -> None: ...


def checks_nothing(function: Callable[..., object]) -> bool:
    """Whether a test function's body is empty: a docstring, `pass` or `...`.

    Compared by byte code, so that neither the source nor pytest's rewriting of asserts matters.
    """
    return _operations(function) == _operations(_nothing)


def _operations(function: Callable[..., object]) -> list[str]:
    return [instruction.opname for instruction in dis.get_instructions(function)]


def limits_of(agent: VncUseAgent, spec: TaskSpec) -> Limits:
    """The limits of the agent's settings, with what the marker says over them."""
    own = merge((vars(agent.settings), str), (spec.settings, str))
    return Limits(own.steps, own.seconds, own.stall)


def carry_out(agent: VncUseAgent, specs: Sequence[TaskSpec], *, judge_end_state: bool) -> None:
    """Run each task and judge its claims; with `judge_end_state`, a task without claims is judged by its end state.

    Raises TaskFailed at the first that fails, InfraError where the tool broke.
    """
    for spec in specs:
        result = agent.run(spec.task, limits=limits_of(agent, spec))
        if result.outcome is not Outcome.DONE:
            raise TaskFailed(told(spec, result, f"the task ended as {result.outcome}: {result.message}"))
        verdicts = [agent.verify(claim) for claim in spec.expect]
        if judge_end_state and not verdicts:
            verdicts = [agent.verify_end_state(spec.task)]
        if not all(verdicts):
            raise TaskFailed(told(spec, result, told_verdicts(verdicts)))


def told(spec: TaskSpec, result: RunResult, headline: str) -> str:
    """A failure in a few lines: what, the task, the last steps with their reasons, where the run folder is."""
    lines = transcript(result.steps[-LAST_STEPS:]).splitlines()
    steps = [f"last steps of {len(result.steps)}:", *(f"  {line}" for line in lines)] if lines else ["no step was made"]
    return "\n  ".join([headline, f"task: {spec.task}", *steps, f"run folder: {result.run_folder}"])


def told_verdicts(verdicts: Sequence[Verdict]) -> str:
    """How many claims do not hold, and a line for each claim."""
    failed = sum(not verdict for verdict in verdicts)
    return "\n  ".join([f"{failed} of {len(verdicts)} claims not shown to hold", *map(str, verdicts)])
