"""The agent of a test: made for the fixture, and closed after the test."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import pytest

from pytest_vnc_use.agent import build
from pytest_vnc_use.agent.agent import VncUseAgent
from pytest_vnc_use.plugin import (
    costs,
    hooks,
    live_line,
    markers,
    recordings,
    redaction,
    reporting,
    stash,
)
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.settings.paths import absolute_files
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types.protocols import Desktop, Judge, Planner


def agent_of_test(
    request: pytest.FixtureRequest,
    settings: Settings,
    desktop: Desktop,
    planner: Planner,
    judge: Judge | None,
    functions: Sequence[Callable[..., object]],
) -> Iterator[VncUseAgent]:
    """Yield the agent of the requesting test. Raises the first check that failed outside the test's call."""
    item, secrets = request.node, markers.declared_secrets(request.node)
    settings = absolute_files(settings, request.config.invocation_params.dir)
    recorded = recordings.recorded_test(item, settings, planner, judge, secrets, desktop)
    agent = _agent(item, settings, desktop, planner, judge, functions, recorded)
    item.stash[stash.RUNS] = agent.runs
    redaction.secrets_of(request.config).add(build.ambient_secrets(settings, desktop.password))
    item.stash[stash.AGENT] = agent
    yield agent
    try:
        if item.stash.get(recordings.PASSED, False):
            agent.end_body()  # of a run that a fixture made meanwhile
    finally:
        del item.stash[stash.AGENT]  # pytest keeps the item to the session's end, and with it the screens
        agent.close()
        live_line.close_line(item.config)
    if failed := agent.unmet():
        raise failed  # of a check made outside the test's call


def _agent(
    item: pytest.Item,
    settings: Settings,
    desktop: Desktop,
    planner: Planner,
    judge: Judge | None,
    functions: Sequence[Callable[..., object]],
    recorded: RecordedTest | None,
) -> VncUseAgent:
    if recorded:
        settings = dataclasses.replace(settings, show_secrets=not recorded.redacts)
    return VncUseAgent(
        vnc_password=desktop.password,
        settings=build.settings_at(settings, desktop.server),
        hitl_mode=False,
        planner=planner,
        judge=judge,
        functions=functions,
        secrets={**redaction.secrets_of(item.config).given, **markers.declared_secrets(item)},
        other_secrets=redaction.secrets_of(item.config).declared,
        observers=[
            reporting.ItemObserver(item),
            *live_line.open_line(item),
            hooks.HookCalls(item),
        ],
        test_id=item.nodeid,
        check=True,
        desktop=desktop,
        budget=costs.budget_of(item, settings),
        recorded=recorded,
    )
