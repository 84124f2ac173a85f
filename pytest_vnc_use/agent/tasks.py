"""The tasks of an agent: it carries them out, continues those that wait, and judges those of a test when they end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Union

from typing_extensions import Unpack

from pytest_vnc_use.agent.claims import Claims, format_end_state, format_verdicts
from pytest_vnc_use.assembly import LiveModels
from pytest_vnc_use.errors import AgentFailed, Inconclusive, InfraError, ProductFailed, SettingsError
from pytest_vnc_use.loop.runner import Runner
from pytest_vnc_use.planners.local.scripted import Reenactment
from pytest_vnc_use.runs.secrets import Secrets
from pytest_vnc_use.runs.transcript import format_run_failure
from pytest_vnc_use.runs.uitask_trace import read_execution, secrets_of
from pytest_vnc_use.safety.rules import Policy
from pytest_vnc_use.triage.rules import error_for_run
from pytest_vnc_use.types import Limits, Observation, Outcome, RunResult, error_for_verdicts
from pytest_vnc_use.types.protocols import Approver, EndsRun, Planner
from pytest_vnc_use.verification.verifier import check_asked

AnyPlanner = Union[Planner, Callable[[Observation], object]]

NO_JUDGE = (
    "Nobody can judge the end of the task {!r}: {}. Set a judge (--vnc-judge=gemini with its key, or the fixture "
    "vnc_judge), record the test (--vnc-record=auto with a judge, or demonstrate), or say expect=None (in .vnc.toml "
    "expect = false) if the test's body alone checks it."
)
"""The error for a task that no judge and no recording can judge: the task, and why."""


class Again(TypedDict, total=False):
    """The objects of one run, which its caller must give again."""

    policy: Policy | None
    planner: AnyPlanner | None


@dataclass
class Tasks:
    """The tasks of an agent, one after the other.

    With `check`, a run that does not end as done raises. `why_unjudged` takes a task and its claims and returns why
    nobody can judge them, "" if somebody can; it is None outside a test, where nothing is judged.
    """

    runner: Runner
    models: LiveModels
    secrets: Secrets
    functions: Mapping[str, Callable[..., object]]
    claims: Claims
    check: bool
    why_unjudged: Callable[[str, Sequence[str]], str] | None
    broken: InfraError | None = None
    """The error of the tool that ended a task, until a later task is done and judged."""

    def run(
        self,
        task: str,
        expect: str | Sequence[str] | None,
        limits: Limits | None,
        policy: Policy | None,
        planner: AnyPlanner | None,
        approver: Approver | None,
        check: bool | None,
        run_id: str | None,
        votes: int | None,
    ) -> RunResult:
        """Carry out a task, as `VncUseAgent.run` says."""
        if not task.strip():
            raise SettingsError(f"the task must be a sentence, got {task!r}")
        expect = (expect,) if isinstance(expect, str) else expect
        if not isinstance(expect, (list, tuple, type(None))):
            raise SettingsError(f"expect must be a claim, a list of claims, or None, got {expect!r}")
        for claim in expect or ():
            check_asked(claim, votes=1)
        if self.why_unjudged and expect is not None and (why := self.why_unjudged(task, expect)):
            raise SettingsError(NO_JUDGE.format(task, why))
        if self.why_unjudged and check is False:
            raise SettingsError(
                "check=False does not work in a test, where a task that does not end as done raises: catch its error, "
                "as with pytest.raises(PolicyDenied)"
            )
        own = self._own(planner)
        try:
            return self._carry_out(
                lambda: self.runner.run(
                    task, expect=expect, limits=limits, policy=policy, planner=own, approver=approver, run_id=run_id
                ),
                check,
                votes,
            )
        finally:
            if isinstance(own, EndsRun):
                own.end_run()

    def reenactment(self, path: Path) -> Reenactment:
        """Return the planner that repeats the actions of a run. Raises SettingsError if a secret is missing."""
        execution = read_execution(path)
        secrets_of(execution, self.secrets.values)
        return Reenactment(execution, self.functions)

    def go_on(
        self, run_id: str, answer: bool | None, *, step: int | None, approver: Approver | None, **again: Unpack[Again]
    ) -> RunResult:
        """Continue a run, as `VncUseAgent.approve`, `deny` and `resume` say."""
        policy, planner = again.get("policy"), self._own(again.get("planner"))
        return self._carry_out(
            lambda: self.runner.go_on(run_id, answer, step=step, policy=policy, planner=planner, approver=approver),
            None,
            None,
        )

    def _own(self, planner: AnyPlanner | None) -> Planner | None:
        return None if planner is None else self.models.as_planner(planner)

    def _carry_out(self, advance: Callable[[], RunResult], check: bool | None, votes: int | None) -> RunResult:
        """Advance a run to its end, and judge it if a test carries it out."""
        runs = len(self.runner.folders)
        try:
            result = advance()
            if self.why_unjudged and result.outcome is Outcome.DONE:
                self._judge(result, votes)
        except BaseException as exc:
            if len(self.runner.folders) > runs:
                self.secrets.everything.hide_in_error(exc)
                if isinstance(exc, InfraError) and not isinstance(exc, ProductFailed):
                    self.broken = exc
            raise
        if (self.check if check is None else check) and result.outcome is not Outcome.DONE:
            raise error_for_run(result)
        return result

    def _judge(self, result: RunResult, votes: int | None) -> None:
        """Judge the claims of a task that is done, or that it is done. Raises TaskFailed, InfraError."""
        started = self.runner.started
        if started is None or started.body_checks:
            return
        if started.expect:
            verdicts = [self.claims.assess(claim, votes=votes) for claim in started.expect]
            if not all(verdict.holds for verdict in verdicts):
                kind = error_for_verdicts([verdict.kind for verdict in verdicts])
                raise kind(format_run_failure(format_verdicts(verdicts), result))
        else:
            end = self.claims.verify_end_state(result.task, votes=votes)
            if not end.holds:
                kind = AgentFailed if end.kind == "fails" else Inconclusive
                raise kind(format_run_failure(format_end_state(end, result.task), result))
        self.broken = None
