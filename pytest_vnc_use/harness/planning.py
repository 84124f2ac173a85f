"""The planner of tests that a class of agents makes. `act` runs in a thread, which waits
while an action is performed.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

from pytest_vnc_use.errors import (
    ActionError,
    AgentFailed,
    InfraError,
    PlannerError,
    SettingsError,
)
from pytest_vnc_use.planners.local.callables import finish, import_path_of
from pytest_vnc_use.types import (
    Decision,
    DesktopAction,
    Observation,
    Proposal,
    TakeScreenshot,
)

_LATE_S = 1.0
"""The extra time that the planner waits for `act`, so that the loop's limit comes
first.
"""

_thread = threading.local()
"""The current thread's run, in `acting`, until the thread ends."""


def current_acting() -> Acting | None:
    """Return the run that this thread belongs to, which may have ended; None in a
    script.
    """
    return getattr(_thread, "acting", None)


class HarnessPlanner:
    """A Planner that performs each task by a new agent of a class, which is a dataclass
    with `act`.

    If a run continues after an interruption, a new agent starts over; the actions that
    were done are not performed again.
    """

    def __init__(self, agent: type[Any]) -> None:
        """Raise SettingsError if a field other than `output_dir` and `task` has no
        default.
        """
        self._agent = agent
        self._acting: Acting | None = None
        self.name = f"harness ({import_path_of(agent)})"
        """The name in the report, with the class's address."""
        missing = []
        for field in fields(agent):
            has_default = (field.default, field.default_factory) != (MISSING, MISSING)
            is_given = field.name in ("output_dir", "task")
            if field.init and not has_default and not is_given:
                missing.append(field.name)
        if missing:
            raise SettingsError(
                f"{import_path_of(agent)} cannot plan tests, because these fields have"
                f" no default: {', '.join(missing)}. Give each a default."
            )

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the next action of `act`. Raises what `act` raises, and PlannerError
        if it takes too long.
        """
        acting = self._acting
        if acting and acting.awaits(observation):
            acting.observations.put(observation)
        else:
            self.end_run()
            acting = Acting(self._agent, observation)
            self._acting = acting
            acting.thread.start()
        try:
            decision = acting.decisions.get(timeout=timeout_s + _LATE_S)
        except Empty:
            raise PlannerError(
                f"{self.name} did not decide within {timeout_s:.1f} s"
            ) from None
        if isinstance(decision, BaseException):
            raise decision
        return decision

    def end_run(self) -> None:
        """End the thread of `act`: now if it waits for the result of an action,
        otherwise at its next action.
        """
        if self._acting is not None:
            self._acting.is_over = True
            self._acting.observations.put(None)
            self._acting = None


class _RunOver(BaseException):
    """The error that the run has ended: `act` must do nothing more."""


class Acting:
    """One agent's calls of `act` in one run, in a thread. For turns that the run has
    already, it gets their results again.
    """

    def __init__(self, agent: type[Any], observation: Observation) -> None:
        self._class = agent
        self._observation = observation
        self._frame = observation.frame
        if observation.turns:
            self._frame = observation.first_frame
        self.proposed = 0
        self.is_over = False
        self.decisions: SimpleQueue[Decision | BaseException] = SimpleQueue()
        self.observations: SimpleQueue[Observation | None] = SimpleQueue()
        """The results of the actions, in order; None ends the run."""
        self.params: Mapping[str, Any] | None = None
        """The result that the agent finished with."""
        self.thread = threading.Thread(
            target=self._run, daemon=True, name="vnc-use harness"
        )

    def awaits(self, observation: Observation) -> bool:
        """Return whether the thread waits for the result in this observation."""
        return self.thread.is_alive() and len(observation.turns) == self.proposed

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the screen after the last action."""
        return self._frame.width, self._frame.height

    def png(self) -> bytes:
        """Return the screen after the last action."""
        return self._observation.load_png(self._frame)

    def perform(self, action: DesktopAction) -> None:
        """Have an action performed, and wait for it. Raises ActionError if it could not
        be done.
        """
        if self.is_over:
            raise _RunOver
        number = self.proposed
        self.proposed += 1
        if number >= len(self._observation.turns):
            self.decisions.put(Decision("act", proposals=(Proposal(action),)))
            observation = self.observations.get()
            if observation is None:
                raise _RunOver
            self._observation = observation
        [step] = self._observation.turns[number].steps
        if type(step.proposal.action) is not type(action):
            raise PlannerError(
                f"{import_path_of(self._class)} must repeat what it did before the run"
                f" was interrupted: {step.proposal.action!r}, got {action!r}"
            )
        is_newest = self.proposed == len(self._observation.turns)
        self._frame = self._observation.frame if is_newest else step.frame_after
        if step.error:
            raise ActionError(step.error)

    def _run(self) -> None:
        _thread.acting = self
        try:
            with TemporaryDirectory(prefix="vnc-use-") as directory:
                values: dict[str, Any] = {"output_dir": Path(directory)}
                names = [field.name for field in fields(self._class) if field.init]
                if "task" in names:
                    values["task"] = self._observation.task
                agent = self._class(**values)
                while not self._act(agent):
                    pass
            self.decisions.put(finish(self.params))
        except _RunOver:
            pass
        except ActionError as exc:
            error: Exception = exc
            if not isinstance(exc, InfraError):
                error = AgentFailed(f"{import_path_of(self._class)} failed: {exc}")
                error.__cause__ = exc
            self.decisions.put(error)
        except BaseException as exc:  # noqa: BLE001  # whatever the user's code raises is raised in the loop
            self.decisions.put(exc)

    def _act(self, agent: Any) -> bool:
        before = self.proposed
        done = bool(agent.act())
        if not done and self.proposed == before:
            # so that the run's limits end an agent without actions
            self.perform(TakeScreenshot())
        return done
