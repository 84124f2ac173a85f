"""The call of a test: its tasks, its body, then the judging."""

from __future__ import annotations

import functools
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.plugin.collecting import check_markers, has_the_rest

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Run the marker's tasks in the call phase, before the body; report soft checks after it."""
    check_markers(pyfuncitem)
    if "vnc_agent" not in pyfuncitem.funcargs:
        result = yield
        check_markers(pyfuncitem)  # the body may have added one, whose task nobody carried out
        if has_the_rest(pyfuncitem.config):
            _judge_fetched(pyfuncitem)
        return result
    from unittest import SkipTest

    from pytest_vnc_use.plugin import markers, proofs, recordings, stash, tasks

    agent: VncUseAgent = pyfuncitem.funcargs["vnc_agent"]  # type: ignore[assignment]  # the fixture's type
    tell = functools.partial(pyfuncitem.add_report_section, "call", "checks")
    with tasks.checks_failed(agent, tell, skips=(pytest.skip.Exception, SkipTest)):
        if specs := markers.tasks_of(pyfuncitem):
            judge_end_state = not proofs.body_asserts(pyfuncitem)
            recordings.check_keyboard(pyfuncitem, any(spec.needs_judge(judge_end_state) for spec in specs))
            tasks.carry_out(agent, specs, judge_end_state=judge_end_state)
        pyfuncitem.stash[stash.BEFORE_BODY] = len(agent.runs)
        result = yield
        check_markers(pyfuncitem)
        _judge(pyfuncitem, agent)
        return result


def _judge_fetched(item: pytest.Function) -> None:
    """Judge by the agent that the body fetched by itself, if it did."""
    from pytest_vnc_use.plugin import stash

    if stash.AGENT in item.stash:
        _judge(item, item.stash[stash.AGENT])


def _judge(item: pytest.Function, agent: object) -> None:
    """Have the end state judged if nothing else proves it; a user's own agent need not support that."""
    from pytest_vnc_use.agent.agent import VncUseAgent
    from pytest_vnc_use.plugin import broken_calls, proofs

    broken_calls.of_test(item.config).check()
    if isinstance(agent, VncUseAgent):
        proofs.judge_after_call(item, agent)
        agent.end_body()
