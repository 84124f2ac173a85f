"""The fixtures; a conftest.py can override each of them."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.plugin.on_demand import register_the_rest
from pytest_vnc_use.plugin.options import LAYERS
from pytest_vnc_use.settings.layers import merge
from pytest_vnc_use.settings.settings import Settings

if TYPE_CHECKING:
    from pytest_vnc_use.agent.agent import VncUseAgent
    from pytest_vnc_use.plugin.desktops import Desktops
    from pytest_vnc_use.recordings.session import RecordedTest
    from pytest_vnc_use.types.protocols import Desktop, Judge, Planner, RunObserver


@pytest.fixture
def vnc_settings(request: pytest.FixtureRequest) -> Settings:
    """Return the test's settings: defaults < ini < environment < command line < marker.

    Override to change them in code.

    Of several markers, the settings that all of them share count; a setting of only one marker holds for its own task.
    """
    from pytest_vnc_use.plugin import markers, stash

    agreed = markers.agreed(request.node.stash[stash.SPECS])
    return merge(*request.config.stash[LAYERS], (agreed, lambda name: f"vnc_task({name}=…)"))


@pytest.fixture
def vnc_app(vnc_settings: Settings) -> str | Sequence[str]:
    """Return the program under test, a command line or its words. Override if a test has to make the program first."""
    return vnc_settings.app


@pytest.fixture
def vnc_desktop(
    request: pytest.FixtureRequest, vnc_settings: Settings, vnc_app: str | Sequence[str]
) -> Iterator[Desktop]:
    """Return the test's desktop, with `.server`, `.read_file(name)`, `.write_file(name, text)` and `.run(command)`.

    With the scope `test` the desktop is the test's own, and is stopped or reset after the test. With `module` or
    `session` it is kept as it is for the next test, unless its program has ended or the next test needs another
    desktop.
    """
    from pytest_vnc_use import assembly
    from pytest_vnc_use.plugin import desktops_ahead, engine, recordings
    from pytest_vnc_use.settings.paths import absolute_desktop

    app = shlex.join(map(str, vnc_app)) if isinstance(vnc_app, (list, tuple)) else str(vnc_app)
    settings = absolute_desktop(vnc_settings, request.config.invocation_params.dir)
    settings = settings if app == vnc_settings.app else dataclasses.replace(settings, app=app)
    desktops = _desktops(request.config)
    meanwhile = (
        engine.imported_meanwhile(replays=recordings.begins_with_replay(request.node, settings))
        if "vnc_agent" in request.fixturenames
        else nullcontext()
    )
    if settings.scope == "test":
        with meanwhile:
            desktop = desktops.lease(settings, request.node.nodeid)
        request.node.stash[desktops_ahead.WANTED] = settings
        yield assembly.browsable(settings, desktop)
        try:
            desktops_ahead.start(request.node)
        finally:
            desktop.stop()
    else:
        owner = (settings.scope == "module" and request.node.getparent(pytest.Module)) or request.session
        owner.addfinalizer(functools.partial(desktops.end_shared, owner.nodeid))
        with meanwhile:
            shared = desktops.share(settings, owner.nodeid)
        yield assembly.browsable(settings, shared)


def _desktops(config: pytest.Config) -> Desktops:
    from pytest_vnc_use.plugin.stash import DESKTOPS

    if DESKTOPS not in config.stash:
        from pytest_vnc_use.plugin.desktops import Desktops

        config.stash[DESKTOPS] = Desktops()
        config.add_cleanup(config.stash[DESKTOPS].close)
    return config.stash[DESKTOPS]


@pytest.fixture
def vnc_functions(request: pytest.FixtureRequest, vnc_settings: Settings) -> Sequence[Callable[..., object]]:
    """Return Python functions that the model may call by name; docstring and type hints describe them.

    These are the functions of the module `vnc_functions`. With `vnc_cdp` there are also functions that read the
    browser's page, with `vnc_elements` one that lists what programs show.
    """
    if not (vnc_settings.cdp or vnc_settings.elements or vnc_settings.functions):
        return ()
    from pytest_vnc_use import assembly

    return assembly.desktop_functions(vnc_settings, request.getfixturevalue("vnc_desktop"))


@pytest.fixture
def vnc_planner(
    request: pytest.FixtureRequest, vnc_settings: Settings, vnc_functions: Sequence[Callable[..., object]]
) -> Planner:
    """Return the planner, which decides what to do. Override to plan with something else than the configured model."""
    from pytest_vnc_use import assembly
    from pytest_vnc_use.plugin import recordings

    build = functools.partial(assembly.build_planner, vnc_settings, vnc_functions)
    return recordings.planner_of(request.node, vnc_settings, build)


@pytest.fixture
def vnc_judge(request: pytest.FixtureRequest, vnc_settings: Settings) -> Judge | None:
    """Return the judge of claims; None for the judge that the settings name. Override to judge with something else."""
    from pytest_vnc_use.plugin import recordings

    return recordings.judge_of(request.node, vnc_settings)


@pytest.fixture
def vnc_agent(
    request: pytest.FixtureRequest,
    vnc_settings: Settings,
    vnc_desktop: Desktop,
    vnc_planner: Planner,
    vnc_judge: Judge | None,
    vnc_functions: Sequence[Callable[..., object]],
) -> Iterator[VncUseAgent]:
    """Return the agent: it runs tasks (`run`), judges claims (`verify`, `check`, `saw`), reads values (`extract`).

    It also looks (`screenshot`), and lends its hands: `click`, `type_text`, `key`, `scroll`, `drag`. A
    task that does not end as done fails the test; `run(task, check=False)` returns its result instead.
    """
    register_the_rest(request.config)
    from pytest_vnc_use import assembly
    from pytest_vnc_use.plugin import live_line, markers, proofs, recordings, redaction, stash
    from pytest_vnc_use.settings.paths import absolute_files

    item, secrets = request.node, markers.declared_secrets(request.node)
    vnc_settings = absolute_files(vnc_settings, request.config.invocation_params.dir)
    recorded = recordings.recorded_test(item, vnc_settings, vnc_planner, secrets, vnc_desktop)
    follower = proofs.Follower(item)
    agent = _agent(item, vnc_settings, vnc_desktop, vnc_planner, vnc_judge, vnc_functions, recorded, follower)
    item.stash[stash.RUNS], item.stash[stash.ENDS] = agent.runs, agent.ends
    redaction.secrets_of(request.config).add(assembly.ambient_secrets(vnc_settings, vnc_desktop.password))
    item.stash[stash.AGENT] = agent
    yield agent
    try:
        proofs.judge_after_teardown(item, agent)
    finally:
        del item.stash[stash.AGENT]  # pytest keeps the item to the session's end, and with it the screens
        agent.close()
        follower.close()
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
    follower: RunObserver,
) -> VncUseAgent:
    from pytest_vnc_use import assembly
    from pytest_vnc_use.agent.agent import VncUseAgent
    from pytest_vnc_use.plugin import costs, desktops_ahead, hooks, live_line, markers, redaction, reporting

    replays = recorded is not None and recorded.mode == "replay"
    if recorded:
        settings = dataclasses.replace(settings, show_secrets=not recorded.covers)
    return VncUseAgent(
        vnc_password=desktop.password,
        settings=assembly.reached_at(settings, desktop.server),
        hitl_mode=False,
        planner=planner,
        judge=judge,
        functions=functions,
        secrets={**redaction.secrets_of(item.config).given, **markers.declared_secrets(item)},
        other_secrets=redaction.secrets_of(item.config).declared,
        observers=[
            reporting.ItemObserver(item),
            desktops_ahead.LastRun(item, replays=replays),
            follower,
            *live_line.open_line(item),
            hooks.HookCalls(item),
        ],
        test_id=item.nodeid,
        check=True,
        desktop=desktop,
        budget=costs.budget_of(item, settings),
        recorded=recorded,
    )
