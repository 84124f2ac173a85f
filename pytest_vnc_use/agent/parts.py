"""Build the parts of an agent from its settings and from the objects that it was given."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from pytest_vnc_use import assembly
from pytest_vnc_use.agent.claims import ClaimContext, Claims
from pytest_vnc_use.agent.manual_actions import ManualActions
from pytest_vnc_use.agent.tasks import AnyPlanner, Tasks
from pytest_vnc_use.costs.budget import Budget
from pytest_vnc_use.loop.actor import functions_by_name
from pytest_vnc_use.loop.runner import RunContext, Runner
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.runs.secrets import Secrets
from pytest_vnc_use.safety.rules import Policy
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Frame, Report, RunStarted
from pytest_vnc_use.types.protocols import Controller, Desktop, Judge, RunObserver
from pytest_vnc_use.verification.verifier import end_state_claim, failed_claim, verify_function


@dataclass(frozen=True)
class Own:
    """The objects that an agent is given in place of what its settings name, as `VncUseAgent` says."""

    policy: Policy | None
    planner: AnyPlanner | None
    judge: Judge | None
    controller: Controller | None
    functions: Sequence[Callable[..., object]] | None
    secrets: Mapping[str, str]
    other_secrets: Collection[tuple[str, str]]
    observers: Sequence[RunObserver]
    desktop: Desktop | None
    recorded: RecordedTest | None


class AgentParts:
    """The parts of an agent. Each has one purpose and gets what it needs. `settings` returns the current settings."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        budget: Budget,
        own: Own,
        password: str | None,
        *,
        hitl_mode: bool,
        test_id: str,
        check: bool,
    ) -> None:
        self._settings, self._own = settings, own
        ambient = assembly.ambient_secrets(settings(), password)
        self.secrets = Secrets.of(own.secrets, assembly.api_keys(), ambient, own.other_secrets)
        hide = self.secrets.everything.hide if own.secrets or own.other_secrets else None
        masks = own.recorded.masks if own.recorded else ()
        self.connection = assembly.Connection(settings, password, own.desktop, own.controller, hide, masks)
        functions = own.functions
        if functions is None:
            functions = assembly.desktop_functions(settings(), self.connection.place)
        self.functions = functions_by_name(functions)
        self.models = assembly.LiveModels(settings, self.functions, own.planner, own.judge)
        self.runner = self._new_runner(budget, test_id, hitl_mode=hitl_mode)
        self.claims = self._new_claims()
        why_unjudged = self._why_unjudged if test_id else None
        self.tasks = Tasks(self.runner, self.models, self.secrets, self.functions, self.claims, check, why_unjudged)
        self.actions = self._new_actions()

    def end_body(self) -> None:
        """Note the end of the test's body: the last screen of a replay must still be there. Raises RecordingDrifted."""
        if self._own.recorded:
            self._own.recorded.end_body(self.connection.controller)

    def judge(self) -> Judge:
        """Return the judge that was given, or the one that the settings name now; recorded evidence is used first."""
        recorded = self._own.recorded
        if recorded is None:
            return self.models.judge
        return recorded.judge(lambda: self.models.judge, self._controller, self.secrets.everything.hide)

    def _why_unjudged(self, task: str, claims: Sequence[str]) -> str:
        hide, recorded = self.secrets.declared.hide, self._own.recorded
        if recorded and (run := recorded.known_run(hide(task))):
            why = run.why_unjudged([hide(claim) for claim in claims])
            if not why or recorded.mode == "replay":
                return why and f"{why}, and a replay asks no judge"
        elif recorded and recorded.mode == "replay":
            return ""  # the run says that its recording is missing
        if not (self._own.judge or assembly.judge_of(self._settings())):
            return "no judge is set"
        _ = self.models.judge  # raises KeyMissing
        return ""

    def _controller(self) -> Controller:
        return self.connection.controller

    def _new_runner(self, budget: Budget, test_id: str, *, hitl_mode: bool) -> Runner:
        own, hide = self._own, self.secrets.declared.hide
        context = RunContext(
            settings=self._settings,
            desktop=self.connection,
            models=self.models,
            verify=lambda look, emit: verify_function(self.judge, look, emit, hide),
            failed_claim=self._failed_claim,
            secrets=self.secrets,
            functions=self.functions,
            policy=own.policy or assembly.build_policy(self._settings(), ask=hitl_mode),
            given_policy=bool(own.policy),
            hitl_mode=hitl_mode,
            budget=budget,
            observers=[*own.observers, own.recorded] if own.recorded else [*own.observers],
            recorded=own.recorded,
            test_id=test_id,
        )
        return Runner(context)

    def _failed_claim(self, started: RunStarted, frame: Frame, report: Report) -> str:
        claims = () if started.body_checks else started.expect or (end_state_claim(started.task),)
        return failed_claim(self.judge, [self.secrets.declared.hide(each) for each in claims], frame, report)

    def _new_claims(self) -> Claims:
        recorded = self._own.recorded
        context = ClaimContext(
            settings=self._settings,
            controller=self._controller,
            judge=self.judge,
            runner=self.runner,
            secrets=self.secrets,
            will_judge=lambda: recorded.conclude() if recorded else None,
        )
        return Claims(context)

    def _new_actions(self) -> ManualActions:
        recorded = self._own.recorded
        return ManualActions(
            self.connection,
            self.secrets,
            leaves_replay=lambda: recorded.leave() if recorded else None,
            acted=self.runner.forget_frames,
        )
