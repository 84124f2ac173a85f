"""The planner where nobody is asked."""

from __future__ import annotations

from pytest_vnc_use.errors import PlannerError
from pytest_vnc_use.types import Decision, Observation


class NoPlanner:
    """The port Planner where no planner is needed: a recording is replayed, or a test has no task.

    If it is asked nevertheless, it raises the error `why`.
    """

    name = "nobody"

    def __init__(self, why: Exception | None = None) -> None:
        self._why = why

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Raise `why`; PlannerError where it is None."""
        if self._why is not None:
            raise self._why
        raise PlannerError(f"no planner is configured for {observation.task!r}: pass --vnc-planner=gemini")
