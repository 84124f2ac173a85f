"""The desktop and the agent of a test, for its fixtures. Tests of a module or of a session may share a desktop."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module

import pytest

from pytest_vnc_use.agent import build
from pytest_vnc_use.agent.agent import VncUseAgent
from pytest_vnc_use.agent.budget import Ledger
from pytest_vnc_use.errors import DesktopRefused
from pytest_vnc_use.errors.causes import blocked
from pytest_vnc_use.plugin import costs, markers, recorded, redaction, runtest, terminal
from pytest_vnc_use.plugin.state import state_of
from pytest_vnc_use.settings.layers import absolute_desktop, absolute_files
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types.protocols import Desktop, Judge, Planner

ENGINE = "pytest_vnc_use.agent.graph"
"""The module that imports LangGraph, which takes most of a second of processor time."""
_SHARED: pytest.StashKey[dict[str, tuple[Settings, Desktop, list[str]]]] = pytest.StashKey()
"""The desktops that several tests share, and their tests so far, by the node id of the module or session."""


def lease_for_test(
    request: pytest.FixtureRequest, settings: Settings, command: str | Sequence[str]
) -> Iterator[Desktop]:
    """Yield the desktop of the requesting test, with the program `command`, within the scope of the settings."""
    app = shlex.join(map(str, command)) if isinstance(command, (list, tuple)) else str(command)
    desktop_settings = absolute_desktop(settings, request.config.invocation_params.dir)
    desktop_settings = desktop_settings if app == settings.app else replace(desktop_settings, app=app)
    engine_import = import_in_background() if "vnc_agent" in request.fixturenames else nullcontext()
    item = request.node
    name = f"{item.path.name}::{markers.authored_name(item)[0]}"
    if desktop_settings.scope == "test":
        with engine_import:
            desktop = _lease(desktop_settings, item.nodeid, name)
        yield build.browsable(desktop_settings, desktop)
        desktop.stop()
    else:
        owner = (desktop_settings.scope == "module" and request.node.getparent(pytest.Module)) or request.session
        owner.addfinalizer(partial(_stop_shared, request.config, owner.nodeid))
        with engine_import:
            shared, users = _share(request.config, desktop_settings, owner.nodeid)
        state_of(item).follows = next((user for user in reversed(users) if user != name), "")
        users.append(name)
        yield build.browsable(desktop_settings, shared)


def _lease(settings: Settings, holder: str, name: str) -> Desktop:
    """Lease a desktop, with its program, for `holder` until its `stop()`; `name` decides its home's path.

    Raises DesktopError, SettingsError.
    """
    try:
        return build.lease_desktop(settings, holder, name)
    except (RuntimeError, Warning) as exc:
        if problem := blocked(str(exc)):
            raise DesktopRefused(f"no desktop: {problem}") from exc
        raise


def _share(config: pytest.Config, settings: Settings, owner: str) -> tuple[Desktop, list[str]]:
    """Return the desktop of all tests of `owner`, in the state that the last test left, and those tests.

    A new desktop replaces it if its program has ended, or if these settings need another desktop. Raises
    DesktopError, SettingsError.
    """
    shared = config.stash.setdefault(_SHARED, {})
    if owner in shared:
        old, desktop, users = shared[owner]
        has_ended = desktop.exit_reason() or desktop.program_exit_reason()
        if build.agree(old, settings, build.START_SETTINGS) and not has_ended:
            return desktop, users
        _stop_shared(config, owner)
    desktop, users = _lease(settings, owner or "the session", owner.rpartition("/")[2] or "the session"), []
    shared[owner] = settings, desktop, users
    return desktop, users


def _stop_shared(config: pytest.Config, owner: str) -> None:
    if shared := config.stash[_SHARED].pop(owner, None):
        shared[1].stop()


@contextmanager
def import_in_background() -> Iterator[None]:
    """Import the engine in a thread, and wait for that at the end.

    So no code of a test runs while modules are imported. Meanwhile only `desktops` and `backends` may be imported: the
    engine needs neither, so that the two threads never wait for each other. An import error is raised again where the
    engine is used.
    """

    def import_engine() -> None:
        with suppress(Exception):
            import_module(ENGINE)

    thread = threading.Thread(target=import_engine, name="vnc-use-engine", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def agent_of_test(
    request: pytest.FixtureRequest,
    settings: Settings,
    desktop: Desktop,
    planner: Planner,
    judge: Judge | None,
    functions: Sequence[Callable[..., object]],
) -> Iterator[VncUseAgent]:
    """Yield the agent of the requesting test. Raises the first check that failed outside the test's call."""
    item, declared = request.node, markers.declared_secrets(request.node)
    secrets, state = redaction.secrets_of(item.config), state_of(item)
    settings = absolute_files(settings, request.config.invocation_params.dir)
    recording = recorded.recorded_test(item, settings, planner, judge, declared, desktop)
    if recording:
        settings = replace(settings, show_secrets=not recording.redacts)
    desk = item.config.pluginmanager.get_plugin("vnc_use_ui")
    watcher = desk.watcher_of(item) if desk and not state.rehearsal else None
    account = item.config.stash.get(costs.ACCOUNT, None)
    state.budget = build.build_budget(settings, Ledger(account) if account else None)
    agent = VncUseAgent(
        vnc_password=desktop.password,
        settings=build.settings_at(settings, desktop.server),
        hitl_mode=desk is not None,
        approver=desk.approver_of(item) if desk else None,
        planner=planner,
        judge=judge,
        functions=functions,
        secrets={**secrets.from_options, **declared},
        other_secrets=secrets.declared,
        observers=[runtest.ItemObserver(item), *terminal.open_line(item), *filter(None, [watcher])],
        test_id=item.nodeid,
        check=True,
        desktop=desktop,
        budget=state.budget,
        recorded=recording,
    )
    state.runs = agent.runs
    secrets.add(build.ambient_secrets(settings, desktop.password))
    state.agent = agent
    if watcher:
        desk.watch(watcher, agent)
    yield agent
    try:
        if state.has_passed:
            agent.end_body()  # of a run that a fixture made
    finally:
        state.agent = None  # pytest keeps the item to the session's end, and with it the screens
        if watcher:
            watcher.close()
        agent.close()
        terminal.close_line(item.config)
    if failure := agent.unmet():
        raise failure  # of a check made outside the test's call
