"""The tasks of one test: they are carried out in order, and each is judged before the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from unittest import SkipTest

import pytest

from pytest_vnc_use.agent import build
from pytest_vnc_use.agent.agent import VncUseAgent
from pytest_vnc_use.errors import RecordingDrifted, TaskFailed
from pytest_vnc_use.plugin.task_spec import TaskSpec
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.settings.layers import merge
from pytest_vnc_use.triage.rules import rule_for
from pytest_vnc_use.types import Limits


def carry_out(
    agent: VncUseAgent, specs: Sequence[TaskSpec], recorded: RecordedTest | None = None
) -> RecordingDrifted | None:
    """Run each task, up to the first that fails. Raises as `VncUseAgent.run` does.

    Where the last one drifts only at its end, its error is returned: the test's body can still tell what is wrong.
    """
    for number, spec in enumerate(specs, 1):
        if recorded:
            recorded.task_follows = number < len(specs)
        own = merge((vars(agent.settings), str), (spec.settings, str))
        policy = build.build_policy(own) if "policy" in spec.settings else None
        expect = None if spec.body_checks else spec.expect
        limits = Limits(own.steps, own.seconds, own.stall)
        try:
            agent.run(spec.task, expect=expect, limits=limits, policy=policy, votes=own.votes)
        except RecordingDrifted as drift:
            if drift.at_end and number == len(specs):
                return drift
            raise
    return None


def decides(error: BaseException) -> bool:
    """Return whether an error of the body says more than a drift at the end: a skip and an xfail do not."""
    is_outcome = isinstance(error, (pytest.skip.Exception, pytest.xfail.Exception, SkipTest))
    return not is_outcome and (not _is_of_test(error) or rule_for(error).triage != "inconclusive")


def _is_of_test(error: BaseException) -> bool:
    """Return whether an error ends the test, and not the session."""
    return isinstance(error, (Exception, pytest.fail.Exception)) and not isinstance(error, pytest.exit.Exception)


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
