"""What one agent has: its desktop, models, policy, secrets, budget, and newest run.

An agent is the public face of a session. Its runs, its claims and the graph share the
session, and none of them knows the agent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_vnc_use.agent import build
from pytest_vnc_use.agent.budget import Budget
from pytest_vnc_use.agent.connection import Connection
from pytest_vnc_use.agent.models import Models
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.runs.logger import RunLogger
from pytest_vnc_use.runs.redactor import Secrets
from pytest_vnc_use.safety.rules import Policy, ReviewContext
from pytest_vnc_use.settings.layers import absolute_files
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    DirectoryCreated,
    Extracted,
    Frame,
    GateAwaited,
    Judged,
    ModelRequest,
    Reading,
    RecordingAwaited,
    RunEvent,
    RunStarted,
    Step,
    StepFinished,
    Verdict,
)
from pytest_vnc_use.types.protocols import (
    Approver,
    Controller,
    Judge,
    Planner,
    RunObserver,
)

_PASSING = (ModelRequest, GateAwaited, RecordingAwaited, DirectoryCreated)
"""The events of which nothing is kept."""


class Session:
    """What one agent has.

    Args:
        settings: Read again at each run, look and claim, so they may be replaced.
        secrets: The values that tasks may use, and what hides them.
        connection: The agent's desktop.
        models: The agent's planner and judge.
        policy: Rules on actions; None for those of the settings.
        functions: What the model may call; None for what the settings name.
        observers: Receive each event of a run, in this order.
        budget: The limits of the models, and their use; None for a new one.
        can_ask: Whether an action that the policy does not decide waits for a user.
            Otherwise it is denied.
        approver: Asked where an action waits, unless a method gets its own.
        test_id: The pytest id of the test. Its tasks are judged, and raise an error
            where they do not end as done. "" outside a test.
        recorded_test: What is replayed, or recorded again.

    Raises:
        SettingsError: A function has no unique name, or the policy cannot be read.
    """

    def __init__(
        self,
        settings: Settings,
        secrets: Secrets,
        connection: Connection,
        models: Models,
        *,
        policy: Policy | None = None,
        functions: Sequence[Callable[..., object]] | None = None,
        observers: Sequence[RunObserver] = (),
        budget: Budget | None = None,
        can_ask: bool = True,
        approver: Approver | None = None,
        test_id: str = "",
        recorded_test: RecordedTest | None = None,
    ) -> None:
        self.settings = absolute_files(settings, Path.cwd())
        self.secrets = secrets
        self.of_test: Mapping[str, object] = {}
        """The parameters and fixtures of the test by name, which may be values."""
        self.connection = connection
        self.models = models
        self.budget = budget or build.build_budget(self.settings)
        self.can_ask = can_ask
        self.approver = approver
        self.test_id = test_id
        self.recorded_test = recorded_test
        self.observers = [*observers]
        if recorded_test:
            self.observers.append(recorded_test)
        if functions is None:
            functions = build.desktop_functions(self.settings, connection.files)
        self.functions = _by_name(functions)
        self.has_custom_policy = policy is not None
        self.policy = policy or build.build_policy(self.settings, ask=can_ask)
        self.request_s_at_first = self.settings.request_seconds

        self.policies: dict[str, Policy] = {}
        """The policies of runs that got one of their own, by run id."""
        self.planners: dict[str, Planner] = {}
        """The planners of runs that got one of their own, by run id."""
        self.review_context = ReviewContext()
        """What the policy knows of all earlier runs of this agent."""

        self.runs: list[Path] = []
        """The run directories, oldest first."""
        self.verdicts: list[Verdict] = []
        self.extracted: list[Reading] = []

        self.started: RunStarted | None = None
        """How the newest run was started; None before the first."""
        self.directory: RunDirectory | None = None
        """The directory of the newest run; None before the first."""
        self.frame_steps: tuple[Step, ...] = ()
        """The steps whose frames still show what came before the screen now; none until
        the newest run is over.
        """
        self._logger: RunLogger | None = None

    @property
    def server(self) -> str:
        """The address of the desktop."""
        return self.connection.server(self.settings)

    @property
    def controller(self) -> Controller:
        """The desktop's controller, connected on first use. Raises DesktopError."""
        return self.connection.controller(self.settings)

    @property
    def planner(self) -> Planner:
        """The given planner, or the one of the settings. Raises SettingsError."""
        return self.models.planner(self.settings, self.functions)

    @property
    def judge(self) -> Judge:
        """The given judge, or the one of the settings. Recorded evidence comes first."""
        if self.recorded_test is None:
            return self.models.judge(self.settings)
        return self.recorded_test.judge(
            lambda: self.models.judge(self.settings),
            lambda: self.controller,
            self.secrets.everything.hide,
        )

    @property
    def values(self) -> Mapping[str, str]:
        """The values of the newest run by name."""
        return self.started.values if self.started else {}

    def begin_run(self, directory: RunDirectory, started: RunStarted) -> None:
        """Make this the newest run, which keeps the events from now on."""
        self.started = started
        self.directory = directory
        self.frame_steps = ()
        self._logger = RunLogger(
            directory, self.secrets.everything, self.secrets.at_start
        )
        self.runs.append(directory.path)
        self.emit(DirectoryCreated(directory.path))

    def emit(self, event: RunEvent) -> None:
        """Pass an event on: to the budget, the newest run directory, all observers."""
        event = self.budget.receive(event)
        if isinstance(event, StepFinished):
            self.review_context = self.review_context.after(event.step)
        is_passing = isinstance(event, _PASSING)
        if self._logger and not is_passing:
            self._logger.observe(event)
        for observer in self.observers:
            observer.observe(event)

    def record(self, event: Judged | Extracted, frames: Sequence[Frame]) -> None:
        """Emit a verdict or a value without secrets, and keep its frames."""
        if self.directory:
            for frame in frames:
                self.directory.store(frame)
        self.emit(self.secrets.everything.hide_in(event))

    def watch_end(self) -> None:
        """Have a replay watch its end before the screen is captured for a judge."""
        if self.recorded_test:
            self.recorded_test.watch_end()


def _by_name(
    functions: Sequence[Callable[..., object]],
) -> dict[str, Callable[..., object]]:
    names = [getattr(function, "__name__", "") for function in functions]
    if not all(names) or len(set(names)) != len(names):
        raise SettingsError(f"each function must have a unique name, got {names!r}")
    return dict(zip(names, functions, strict=True))
