"""The tasks of an agent: it carries them out, continues those that wait, and notes how each ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, Union

from typing_extensions import Unpack

from pytest_vnc_use.agent.claims import Claims
from pytest_vnc_use.assembly import LiveModels
from pytest_vnc_use.body_checks.code_places import places_now
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.loop.runner import Runner
from pytest_vnc_use.planners.local.reenact import Reenactment
from pytest_vnc_use.recordings.session import RecordedTest
from pytest_vnc_use.runs.secrets import Secrets
from pytest_vnc_use.runs.uitask_trace import read_execution, secrets_of
from pytest_vnc_use.safety.rules import Policy
from pytest_vnc_use.triage.rules import RunEnd, broken_end, end_of, error_for_run
from pytest_vnc_use.types import Limits, Observation, Outcome, RunResult
from pytest_vnc_use.types.protocols import Approver, Planner
from pytest_vnc_use.verification.verifier import check_asked

AnyPlanner = Union[Planner, Callable[[Observation], object]]


class Again(TypedDict, total=False):
    """The objects of one run, which its caller must give again. `trust` also continues a run from elsewhere."""

    policy: Policy | None
    planner: AnyPlanner | None
    trust: bool


@dataclass
class Tasks:
    """The tasks of an agent, one after the other.

    With `check`, a run that does not end as done raises. `follows_code` says that a test runs the tasks; then the
    test's place in the code is noted. `ends` are the outcomes, oldest first.
    """

    runner: Runner
    models: LiveModels
    secrets: Secrets
    functions: Mapping[str, Callable[..., object]]
    recorded: RecordedTest | None
    claims: Claims
    check: bool
    follows_code: bool
    ends: list[RunEnd] = field(default_factory=list)

    def run(
        self,
        task: str,
        expect: Sequence[str] | None,
        limits: Limits | None,
        policy: Policy | None,
        planner: AnyPlanner | None,
        approver: Approver | None,
        check: bool | None,
        run_id: str | None,
    ) -> RunResult:
        """Carry out a task, as `VncUseAgent.run` says."""
        if not task.strip():
            raise SettingsError(f"the task must be a sentence, got {task!r}")
        for claim in expect or ():
            check_asked(claim, votes=1)
        own = self._own(planner)
        return self._note_end(
            lambda: self.runner.run(
                task, expect=expect, limits=limits, policy=policy, planner=own, approver=approver, run_id=run_id
            ),
            check,
        )

    def reenactment(self, path: Path) -> Reenactment:
        """Return the planner that repeats the actions of a run. Raises SettingsError if a secret is missing."""
        execution = read_execution(path)
        secrets_of(execution, self.secrets.values)
        return Reenactment(execution, self.functions)

    def go_on(
        self, run_id: str, answer: bool | None, *, step: int | None, approver: Approver | None, **again: Unpack[Again]
    ) -> RunResult:
        """Continue a run, as `VncUseAgent.approve`, `deny` and `resume` say."""
        policy, planner, trust = again.get("policy"), self._own(again.get("planner")), again.get("trust", False)
        return self._note_end(
            lambda: self.runner.go_on(
                run_id, answer, step=step, policy=policy, planner=planner, approver=approver, trust=trust
            ),
            None,
        )

    def _own(self, planner: AnyPlanner | None) -> Planner | None:
        return None if planner is None else self.models.as_planner(planner)

    def _note_end(self, advance: Callable[[], RunResult], check: bool | None) -> RunResult:
        """Advance a run, and note how it ended."""
        runs, result = self.runner.folders, None
        runs_before = len(runs)
        try:
            result = advance()
        except BaseException as exc:
            if len(runs) > runs_before:
                self.ends.append(broken_end(exc, self.runner.history.steps))
                self.secrets.everything.hide_in_error(exc)
            raise
        else:
            replayed = bool(self.recorded and self.recorded.has_replayed(result.run_id))
            shown = bool(self.recorded and self.recorded.has_shown(result.run_id))
            self.ends.append(end_of(result, replayed=replayed, shown=shown))
        finally:
            if len(runs) > runs_before and self.runner.started:
                places = places_now() if self.follows_code else ()
                self.claims.task_ended(len(runs), self.runner.started, result, places)
        if (self.check if check is None else check) and result.outcome is not Outcome.DONE:
            raise error_for_run(result)
        return result

    def acted(self) -> None:
        """Note that the test itself acted after its newest run."""
        self.runner.forget_frames()
        self.ends[-1:] = [dataclasses.replace(end, did=end.did + 1) for end in self.ends[-1:]]
