"""The tasks of one test: they are carried out in order, and their claims are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pytest_vnc_use import assembly
from pytest_vnc_use.agent.agent import VncUseAgent
from pytest_vnc_use.agent.claims import LastTask
from pytest_vnc_use.errors import Inconclusive, ProductFailed, TaskFailed
from pytest_vnc_use.plugin.task_spec import TaskSpec
from pytest_vnc_use.runs.transcript import format_run_failure, plain
from pytest_vnc_use.safety.rules import Policy
from pytest_vnc_use.settings.layers import merge
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.triage import rules
from pytest_vnc_use.types import Limits, Outcome, RunResult, Verdict, error_for_verdicts

WAYS_OUT = (
    "no check shows that the task is done. Add an assertion after it, in the test's body, on what the program shows or "
    'wrote; or a claim, expect="…" or vnc_agent.verify(…); or expect=None if the body checks it in another way'
)
"""The advice for a test that has none of these, if no judge can say that its task is done."""


def carry_out(agent: VncUseAgent, specs: Sequence[TaskSpec], *, judge_end_state: bool) -> None:
    """Run each task and judge its claims; with `judge_end_state`, a task without claims is judged by its end state.

    Stops at the first failure. Raises ProductFailed if a claim fails, Inconclusive if the judge is only unsure, another
    TaskFailed if the run did not end as done, InfraError if the tool broke.
    """
    for spec in specs:
        own = settings_of(agent, spec)
        limits, expect = Limits(own.steps, own.seconds, own.stall), None if spec.body_checks else spec.expect
        result = agent.run(spec.task, expect=expect, limits=limits, policy=policy_of(own, spec), check=True)
        verdicts = [agent.verify(claim, votes=own.votes) for claim in spec.expect]
        _check_hold(verdicts, result)
        if not verdicts and spec.needs_judge(judge_end_state):
            judge_end(agent, result, own.votes)


def judge_last_task(agent: VncUseAgent, is_proven: Callable[[LastTask], bool]) -> None:
    """Have the end state of a test's last task judged, unless something independent says that the task is done.

    Independent is a claim that has held since, or a proof that `is_proven` finds. Raises the errors of `carry_out`. No
    judge is asked for the end state of a run that did not end as done.
    """
    last = agent.take_unproven()
    if last is None or is_proven(last):
        return
    if last.result is None:
        raise Inconclusive(f"the last task broke, and the test went on\n  task: {plain(last.task)}\n  {WAYS_OUT}")
    if last.result.outcome is not Outcome.DONE:
        headline = f"the last task ended as {last.result.outcome.value}, and the test went on"
        raise type(rules.error_for_run(last.result))(f"{format_run_failure(headline, last.result)}\n  {WAYS_OUT}")
    judge_end(agent, last.result, agent.settings.votes)


def judge_end(agent: VncUseAgent, result: RunResult, votes: int) -> None:
    """Have a run's end state judged. Raises ProductFailed, Inconclusive, InfraError."""
    verdict = agent.verify_end_state(result.task, votes=votes)
    if verdict.holds:
        return
    text = format_run_failure(_format_end_state(verdict, result.task), result)
    if verdict.kind == "unsure":
        raise Inconclusive(f"{text}\n  {WAYS_OUT}")
    raise ProductFailed(text)


def _check_hold(verdicts: Sequence[Verdict], result: RunResult) -> None:
    if not all(verdict.holds for verdict in verdicts):
        raise error_for_verdicts([verdict.kind for verdict in verdicts])(
            format_run_failure(format_verdicts(verdicts), result)
        )


@contextmanager
def checks_failed(
    agent: VncUseAgent, tell: Callable[[str], None], *, skips: tuple[type[BaseException], ...] = ()
) -> Iterator[None]:
    """Raise, at the end, the failure of the agent's soft checks, also in the place of one of `skips`.

    If any other error is raised, pass the failed checks to `tell` instead.
    """
    unmet: Callable[[], TaskFailed | None] = getattr(agent, "unmet", lambda: None)  # a user's agent may have no checks
    try:
        yield
    except BaseException as exc:
        # the failed checks belong in the report, whatever ended the test
        if failed := unmet():
            if isinstance(exc, skips):
                raise failed from exc
            tell(str(failed))
        raise
    if failed := unmet():
        raise failed


def settings_of(agent: VncUseAgent, spec: TaskSpec) -> Settings:
    """Return the agent's settings, overridden by the settings of the task's own marker."""
    return merge((vars(agent.settings), str), (spec.settings, str))


def policy_of(settings: Settings, spec: TaskSpec) -> Policy | None:
    """Return the policy that the task's own marker names, or None to use the agent's."""
    return assembly.build_policy(settings) if "policy" in spec.settings else None


def format_verdicts(verdicts: Sequence[Verdict]) -> str:
    """Return the claim that decides, with the judge's reason, and a line for each claim.

    At least one of the verdicts must not hold.
    """
    failed = [verdict for verdict in verdicts if not verdict.holds]
    decisive = next((verdict for verdict in failed if verdict.kind == "fails"), failed[0])
    count = f"{len(failed)} of {len(verdicts)} claims do not surely hold: " if len(verdicts) > 1 else ""
    what = "fails" if decisive.kind == "fails" else "is unsure"
    headline = f"{count}claim {plain(decisive.claim)!r} {what}: {plain(decisive.reason)}"
    return "\n  ".join([headline, *(plain(str(verdict)) for verdict in verdicts)])


def _format_end_state(verdict: Verdict, task: str) -> str:
    """Return whether the task is done, with the judge's reason, and a line for the judged claim."""
    named = f"the task {plain(task)!r} is"
    what = f"{named} not done" if verdict.kind == "fails" else f"it is unsure whether {named} done"
    return f"{what}: {plain(verdict.reason)}\n  {plain(str(verdict))}"
