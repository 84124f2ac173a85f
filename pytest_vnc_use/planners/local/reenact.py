"""A planner that repeats the actions of an action trace. It asks no model and checks nothing."""

from __future__ import annotations

from collections.abc import Collection

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.runs.uitask_trace import Execution, ExecutionStep
from pytest_vnc_use.types import CallFunction, Decision, Limits, Observation

UNJUDGED = "nothing was judged"


class Reenactment:
    """A planner that answers turn n with the n-th action of the trace, and gives up after the first that fails.

    It leaves out calls of functions that are not in `functions`, and says so in its last words. Every action passes the
    policy like a model's. Raises RunFolderError if there is no action to carry out.
    """

    def __init__(self, execution: Execution, functions: Collection[str] = ()) -> None:
        missing = {_called(step) for step in execution.steps} - {"", *functions}
        self._steps = [step for step in execution.steps if _called(step) not in missing]
        self._without = f" without calls of {', '.join(sorted(missing))}" if missing else ""
        self._of = execution.run_id or "an action trace"
        if not self._steps:
            raise RunFolderError(f"{self._of!r} holds no action to carry out, got {len(execution.steps)} actions")
        self.task = execution.task or f"Do again what {self._of} did"

    @property
    def name(self) -> str:
        """The planner's name with the run's id."""
        return f"re-enacted ({self._of})"

    def limits(self, limit_s: float) -> Limits:
        """Return limits with as many steps as there are actions, even if all are on the same screen."""
        return Limits(steps=len(self._steps), seconds=limit_s, stall=len(self._steps))

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the next action, by the number of turns so far."""
        done, total = len(observation.turns), len(self._steps)
        last = observation.turns[-1].steps if observation.turns else ()
        if error := next((step.error for step in last if step.error), ""):
            return Decision("gave_up", f"step {self._steps[done - 1].number} failed: {error}; {UNJUDGED}")
        if done == total:
            return Decision("finished", f"carried out {total} actions again{self._without}; {UNJUDGED}")
        return Decision("act", proposals=(self._steps[done].proposal,))


def _called(step: ExecutionStep) -> str:
    return step.action.name if isinstance(step.action, CallFunction) else ""
