"""Planners that ask no model: a script, an action trace. What stands for a planner or a
judge where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Union

from pytest_vnc_use.errors import PlannerError, RunDirectoryError
from pytest_vnc_use.planners.local.callables import decision_of
from pytest_vnc_use.runs.uitask_trace import Execution, ExecutionStep
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Decision,
    Frame,
    Limits,
    Observation,
    Proposal,
    Report,
    Verdict,
    ignore_report,
)

ScriptedTurn = Union[Decision, Sequence[Union[Action, Proposal]]]
"""One turn: a whole decision, or just the actions."""

Script = Union[Iterable[ScriptedTurn], Callable[[Observation], ScriptedTurn]]

AT_ITS_END = Decision("finished", "the script is at its end")


class ScriptedPlanner:
    """A planner that answers turn n with turn n of the script. After the last turn, the
    task is finished.

    `script` is a list or a generator of turns, or a function that gets the observation
    of each turn. `name` is for the report. The planner's name begins with `scripted`,
    so that the run is not taken for a model's.
    """

    def __init__(self, script: Script, *, name: str = "") -> None:
        self._script = script if callable(script) else _index_turns(script)
        self._name = f"scripted ({name})" if name else "scripted"

    @property
    def name(self) -> str:
        """The planner's name, which begins with `scripted`."""
        return self._name

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the script's turn for this observation. Raises AgentFailed if it is
        none.
        """
        return decision_of(self._script(observation), "a scripted turn")


def _index_turns(
    turns: Iterable[ScriptedTurn],
) -> Callable[[Observation], ScriptedTurn]:
    """Return a function that gives the turn of an observation, so that a resumed run
    continues.
    """
    source = iter(turns)
    drawn: list[ScriptedTurn] = []

    def turn_of(observation: Observation) -> ScriptedTurn:
        number = len(observation.turns)
        while len(drawn) <= number:
            drawn.append(next(source, AT_ITS_END))
        return drawn[number]

    return turn_of


class NoPlanner:
    """The planner of an agent that needs none: a recording is replayed, or a test has no
    task.

    If it is asked nevertheless, it raises the error `why`.
    """

    name = "none"

    def __init__(self, why: Exception | None = None) -> None:
        self.why = why

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Raise `why`, or PlannerError if it is None."""
        if self.why is not None:
            raise self.why
        raise PlannerError(
            f"no planner is configured for {observation.task!r}. Pass"
            " --vnc-planner=gemini"
        )


UNJUDGED = "nothing was judged"


class Reenactment:
    """A planner that answers turn n with the n-th action of the trace, and gives up
    after the first that fails.

    It leaves out calls of functions that are not in `functions`, and states so at the
    end. Every action passes the policy like a model's. Raises RunDirectoryError if
    there is no action to perform.
    """

    def __init__(self, execution: Execution, functions: Collection[str] = ()) -> None:
        missing = {_called(step) for step in execution.steps} - {"", *functions}
        self._steps = [step for step in execution.steps if _called(step) not in missing]
        self._without = (
            f" without calls of {', '.join(sorted(missing))}" if missing else ""
        )
        self._of = execution.run_id or "an action trace"
        if not self._steps:
            raise RunDirectoryError(
                f"{self._of!r} holds no action to perform, got {len(execution.steps)}"
                " actions"
            )
        self.task = execution.task or f"Do again what {self._of} did"

    @property
    def name(self) -> str:
        """The planner's name with the run's id."""
        return f"re-enacted ({self._of})"

    def limits(self, limit_s: float) -> Limits:
        """Return limits that allow all actions, even the same one on the same screen."""
        return Limits(steps=len(self._steps), seconds=limit_s, repeats=len(self._steps))

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the next action, by the number of turns so far."""
        done = len(observation.turns)
        total = len(self._steps)
        last = observation.turns[-1].steps if observation.turns else ()
        if error := next((step.error for step in last if step.error), ""):
            return Decision(
                "gave_up",
                f"step {self._steps[done - 1].number} failed: {error}; {UNJUDGED}",
            )
        if done == total:
            return Decision(
                "finished",
                f"performed {total} actions again{self._without}; {UNJUDGED}",
            )
        return Decision("act", proposals=(self._steps[done].proposal,))


def _called(step: ExecutionStep) -> str:
    return step.action.name if isinstance(step.action, CallFunction) else ""


class NoJudge:
    """The judge of a run without a configured model. Its verdict is always unsure."""

    def judge(
        self,
        claim: str,
        frame: Frame,
        *,
        timeout_s: float,
        report: Report = ignore_report,
    ) -> Verdict:
        """Return unsure, with the advice to configure a model."""
        reason = (
            "no model is configured to judge claims. Set GOOGLE_API_KEY and pass"
            " --vnc-planner=gemini, or check the program's own state in the test's body"
        )
        return Verdict(claim, "unsure", reason, frame=frame.ref)
