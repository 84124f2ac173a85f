"""The desktop of a test, for its fixture. Tests of a module or of a session may share
one.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use.agent import leasing
from pytest_vnc_use.errors import DesktopRefused
from pytest_vnc_use.errors.causes import blocked
from pytest_vnc_use.plugin.prestart import PRESTART, desktop_name
from pytest_vnc_use.plugin.state import state_of
from pytest_vnc_use.settings.layers import absolute_desktop
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types.protocols import Desktop

if TYPE_CHECKING:
    from pytest_vnc_use.desktops.xvnc import XvncDesktop


@dataclass
class _Shared:
    """A desktop that several tests share, and those tests so far."""

    settings: Settings
    desktop: Desktop
    tests: list[str] = field(default_factory=list)


_SHARED = pytest.StashKey[dict[str, _Shared]]()
"""The shared desktops, by the node id of their module or session."""


def lease_for_test(
    request: pytest.FixtureRequest,
    settings: Settings,
    command: str | Sequence[str],
    home: str | Path,
) -> Iterator[Desktop]:
    """Yield the desktop of the requesting test, with the program `command` and its
    `home`, within the scope of the settings.
    """
    item = request.node
    if isinstance(command, (list, tuple)):
        command = shlex.join(map(str, command))
    settings = replace(settings, home=str(home))
    settings = absolute_desktop(settings, request.config.invocation_params.dir)
    settings = replace(settings, app=str(command))
    test = desktop_name(item)
    runs_tasks = "vnc_agent" in request.fixturenames
    prestart = request.config.stash[PRESTART]
    prestart.settings = settings
    if settings.scope == "test":
        prestarted = prestart.take(settings, test)
        desktop = _lease(settings, item.nodeid, test, prestarted, runs_tasks=runs_tasks)
        yield leasing.browsable(settings, desktop)
        desktop.stop()
        return
    owner: pytest.Collector = request.session
    if settings.scope == "module":
        owner = item.getparent(pytest.Module) or owner
    owner.addfinalizer(partial(_stop_shared, request.config, owner.nodeid))
    shared = _share(request.config, settings, owner.nodeid, runs_tasks=runs_tasks)
    for other in shared.tests:
        if other != test:
            state_of(item).follows = other
    shared.tests.append(test)
    yield leasing.browsable(settings, shared.desktop)


def _lease(
    settings: Settings,
    holder: str,
    name: str,
    prestarted: XvncDesktop | None = None,
    *,
    runs_tasks: bool,
) -> Desktop:
    """Lease a desktop, with its program, for `holder` until its `stop()`; `name`
    decides its home's path.

    Raises DesktopError, SettingsError.
    """
    try:
        return leasing.lease_desktop(
            settings, holder, name, prestarted, runs_tasks=runs_tasks
        )
    except (RuntimeError, Warning) as exc:
        if problem := blocked(str(exc)):
            raise DesktopRefused(f"no desktop: {problem}") from exc
        raise


def _share(
    config: pytest.Config,
    settings: Settings,
    owner: str,
    *,
    runs_tasks: bool,
) -> _Shared:
    """Return the desktop of all tests of `owner`, in the state that the last test left.

    A new desktop replaces it if its program has ended, or if these settings need
    another desktop. Raises DesktopError, SettingsError.
    """
    all_shared = config.stash.setdefault(_SHARED, {})
    shared = all_shared.get(owner)
    if shared:
        desktop = shared.desktop
        has_ended = desktop.exit_reason() or desktop.program_exit_reason()
        fits = leasing.agree(shared.settings, settings, leasing.START_SETTINGS)
        if fits and not has_ended:
            return shared
        _stop_shared(config, owner)
    holder = owner or "the session"
    name = owner.rpartition("/")[2] or "the session"
    desktop = _lease(settings, holder, name, runs_tasks=runs_tasks)
    shared = _Shared(settings, desktop)
    all_shared[owner] = shared
    return shared


def _stop_shared(config: pytest.Config, owner: str) -> None:
    shared = config.stash[_SHARED].pop(owner, None)
    if shared:
        shared.desktop.stop()
