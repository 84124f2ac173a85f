"""One turn of the planner, and the screen that it is about: an answer about a screen that is gone is thrown away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_vnc_use.deadline import DeadlineExceeded
from pytest_vnc_use.errors import AnswerRefused, BudgetExceeded
from pytest_vnc_use.types import Decision, FrameRef, TakeScreenshot, Usage, Wait

MOST_AGAIN = 2
"""So often one turn is asked for again; then its answer is taken, whatever the screen shows by then."""
RUN_ENDS = (DeadlineExceeded, AnswerRefused, BudgetExceeded)
"""With one of these a run ends with an outcome of its own."""
STALE = "the screen changed again during this decision: check whether the action still made sense"


@dataclass(frozen=True)
class TimelyAnswer:
    """A decision about a frame. `cut_short` is why the planner could not be asked again, though it had to be."""

    decision: Decision
    frame: FrameRef
    cut_short: Exception | None = None


def answer_about(
    frame: FrameRef, *, ask: Callable[[FrameRef], Decision], other_than: Callable[[FrameRef], FrameRef | None]
) -> TimelyAnswer:
    """Return the planner's answer about the screen as it is when the answer comes, at first about `frame`.

    `other_than` says what the screen shows by now, where that is another one than a frame. Asked again are models only,
    and only where they want to act or to end. The decision's usage is that of all answers. Where there is none, raises
    what `ask` does.
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
    """Return whether it may be stale: not if no model said it, nor for a wait, after which there is a new look."""
    waits = all(isinstance(proposal.action, (Wait, TakeScreenshot)) for proposal in decision.proposals)
    return bool(decision.model) and not (decision.kind == "act" and waits)


def _last_of(answers: Sequence[Decision]) -> Decision:
    usage = sum((decision.usage for decision in answers), Usage())
    return replace(answers[-1], usage=usage, asked_again=len(answers) - 1)
