"""The desktops of one pytest process: one for each test, or one for all tests of a module or a session."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest

from pytest_vnc_use.agent import build
from pytest_vnc_use.errors import DesktopRefused
from pytest_vnc_use.errors.faults import blocked
from pytest_vnc_use.plugin import engine
from pytest_vnc_use.plugin.repeat import authored_name
from pytest_vnc_use.plugin.stash import DESKTOPS
from pytest_vnc_use.settings.paths import absolute_desktop
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types.protocols import Desktop


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
    meanwhile = engine.imported_meanwhile() if "vnc_agent" in request.fixturenames else nullcontext()
    if desktop_settings.scope == "test":
        with meanwhile:
            item = request.node
            desktop = desktops.lease(desktop_settings, item.nodeid, f"{item.path.name}::{authored_name(item)[0]}")
        yield build.browsable(desktop_settings, desktop)
        desktop.stop()
    else:
        owner = (desktop_settings.scope == "module" and request.node.getparent(pytest.Module)) or request.session
        owner.addfinalizer(partial(desktops.end_shared, owner.nodeid))
        with meanwhile:
            shared = desktops.share(desktop_settings, owner.nodeid)
        yield build.browsable(desktop_settings, shared)


def _of_process(config: pytest.Config) -> Desktops:
    if DESKTOPS not in config.stash:
        config.stash[DESKTOPS] = Desktops()
        config.add_cleanup(config.stash[DESKTOPS].close)
    return config.stash[DESKTOPS]
