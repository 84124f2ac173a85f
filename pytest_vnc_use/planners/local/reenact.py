"""A planner that carries out the actions of an action trace again; no model is asked, and nothing is checked."""

from __future__ import annotations

from collections.abc import Collection

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.runs.uitask_trace import Execution, ExecutionStep
from pytest_vnc_use.types import CallFunction, Decision, Limits, Observation

UNJUDGED = "nothing was judged"


class Reenactment:
    """Answers turn n with the n-th action that was carried out, and gives up after the first that fails.

    Calls of functions that are none of `functions` are left out, which its last words tell. Every action passes the
    policy like a model's. Raises RunFolderError where there is no action to carry out.
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
        return f"re-enacted ({self._of})"

    def limits(self, seconds: float) -> Limits:
        """As many steps as there are actions, on the same screen too."""
        return Limits(steps=len(self._steps), seconds=seconds, stall=len(self._steps))

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """The next action, by the number of turns that are behind."""
        done, total = len(observation.turns), len(self._steps)
        last = observation.turns[-1].steps if observation.turns else ()
        if error := next((step.error for step in last if step.error), ""):
            return Decision("gave_up", f"step {self._steps[done - 1].number} failed: {error}; {UNJUDGED}")
        if done == total:
            return Decision("finished", f"carried out {total} actions again{self._without}; {UNJUDGED}")
        return Decision("act", proposals=(self._steps[done].proposal,))


def _called(step: ExecutionStep) -> str:
    return step.action.name if isinstance(step.action, CallFunction) else ""
