"""One turn of the planner, and the screen that it is about. An answer about an old screen is thrown away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_vnc_use.deadline import DeadlineExceeded
from pytest_vnc_use.errors import AnswerRefused, BudgetExceeded
from pytest_vnc_use.types import Decision, FrameRef, TakeScreenshot, Usage, Wait

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
