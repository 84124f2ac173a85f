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
from pytest_vnc_use.errors import DesktopRefused
from pytest_vnc_use.errors.faults import blocked
from pytest_vnc_use.plugin import costs, live_line, markers, recordings, redaction, runtest
from pytest_vnc_use.plugin.state import state_of
from pytest_vnc_use.settings.paths import absolute_desktop, absolute_files
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types.protocols import Desktop, Judge, Planner

ENGINE = "pytest_vnc_use.agent.graph"
"""The module that imports LangGraph, which takes most of a second of processor time."""
_DESKTOPS: pytest.StashKey[Desktops] = pytest.StashKey()
"""The desktops of this process, in the stash of its config."""


class Desktops:
    """The leases of desktops, and the desktops that several tests share. Owners are named by their node ids."""

    def __init__(self) -> None:
        self._shared: dict[str, tuple[Settings, Desktop]] = {}

    def lease(self, settings: Settings, holder: str, name: str) -> Desktop:
        """Lease a desktop, with its program, for `holder` alone until its `stop()`; `name` decides its home's path.

        Raises DesktopError, SettingsError.
        """
        try:
            return build.lease_desktop(settings, holder, name)
        except (RuntimeError, Warning) as exc:
            if problem := blocked(str(exc)):
                raise DesktopRefused(f"no desktop: {problem}") from exc
            raise

    def share(self, settings: Settings, owner: str) -> Desktop:
        """Return the desktop of all tests of `owner`, in the state that the last test left.

        A new desktop replaces it if its program has ended, or if these settings ask for another desktop. Raises
        DesktopError, SettingsError.
        """
        if owner in self._shared:
            kept, desktop = self._shared[owner]
            if build.same_desktop(kept, settings) and not (desktop.fault() or desktop.program_fault()):
                return desktop
            self.end_shared(owner)
        desktop = self.lease(settings, owner or "the session", owner.rpartition("/")[2] or "the session")
        self._shared[owner] = settings, desktop
        return desktop

    def end_shared(self, owner: str) -> None:
        """Stop the desktop of an owner whose tests are over; does nothing if there is none."""
        if owner in self._shared:
            self._shared.pop(owner)[1].stop()

    def close(self) -> None:
        """Stop every desktop that is shared."""
        for owner in list(self._shared):
            self.end_shared(owner)


def lease_for_test(
    request: pytest.FixtureRequest, settings: Settings, command: str | Sequence[str]
) -> Iterator[Desktop]:
    """Yield the desktop of the requesting test, with the program `command`, within the scope of the settings."""
    app = shlex.join(map(str, command)) if isinstance(command, (list, tuple)) else str(command)
    desktop_settings = absolute_desktop(settings, request.config.invocation_params.dir)
    desktop_settings = desktop_settings if app == settings.app else replace(desktop_settings, app=app)
    desktops = _of_process(request.config)
    meanwhile = imported_meanwhile() if "vnc_agent" in request.fixturenames else nullcontext()
    if desktop_settings.scope == "test":
        with meanwhile:
            item = request.node
            desktop = desktops.lease(
                desktop_settings, item.nodeid, f"{item.path.name}::{markers.authored_name(item)[0]}"
            )
        yield build.browsable(desktop_settings, desktop)
        desktop.stop()
    else:
        owner = (desktop_settings.scope == "module" and request.node.getparent(pytest.Module)) or request.session
        owner.addfinalizer(partial(desktops.end_shared, owner.nodeid))
        with meanwhile:
            shared = desktops.share(desktop_settings, owner.nodeid)
        yield build.browsable(desktop_settings, shared)


def _of_process(config: pytest.Config) -> Desktops:
    if _DESKTOPS not in config.stash:
        config.stash[_DESKTOPS] = Desktops()
        config.add_cleanup(config.stash[_DESKTOPS].close)
    return config.stash[_DESKTOPS]


@contextmanager
def imported_meanwhile() -> Iterator[None]:
    """Import the engine in a thread, and wait for that at the end.

    So no code of a test runs while modules are imported. Meanwhile only `desktops` and `backends` may be imported here:
    the engine needs neither, so that the two threads never wait for each other. An error of the import shows where the
    engine is used.
    """
    thread = threading.Thread(target=_import, name="vnc-use-engine", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _import() -> None:
    with suppress(Exception):
        import_module(ENGINE)


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
    recorded = recordings.recorded_test(item, settings, planner, judge, declared, desktop)
    if recorded:
        settings = replace(settings, show_secrets=not recorded.redacts)
    desk = item.config.pluginmanager.get_plugin("vnc_use_ui")
    watcher = desk.watcher_of(item) if desk and not state.rehearsal else None
    agent = VncUseAgent(
        vnc_password=desktop.password,
        settings=build.settings_at(settings, desktop.server),
        hitl_mode=False,
        planner=planner,
        judge=judge,
        functions=functions,
        secrets={**secrets.given, **declared},
        other_secrets=secrets.declared,
        observers=[
            runtest.ItemObserver(item),
            *live_line.open_line(item),
            runtest.HookCalls(item),
            *filter(None, [watcher]),
        ],
        test_id=item.nodeid,
        check=True,
        desktop=desktop,
        budget=costs.budget_of(item, settings),
        recorded=recorded,
    )
    state.runs = agent.runs
    secrets.add(build.ambient_secrets(settings, desktop.password))
    state.agent = agent
    if watcher:
        desk.watch(watcher, agent)
    yield agent
    try:
        if state.has_passed:
            agent.end_body()  # of a run that a fixture made meanwhile
    finally:
        state.agent = None  # pytest keeps the item to the session's end, and with it the screens
        if watcher:
            watcher.close()
        agent.close()
        live_line.close_line(item.config)
    if failed := agent.unmet():
        raise failed  # of a check made outside the test's call
