"""The desktops of one pytest process: one for each test, or one for all tests of a module or a session."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_vnc_use import assembly
from pytest_vnc_use.errors import DesktopRefused
from pytest_vnc_use.errors.faults import blocked
from pytest_vnc_use.plugin import desktops_ahead, engine
from pytest_vnc_use.plugin.stash import DESKTOPS
from pytest_vnc_use.settings.paths import absolute_desktop
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types.protocols import Desktop

if TYPE_CHECKING:
    from pytest_vnc_use.desktops.sharing.ahead import StartedAhead
    from pytest_vnc_use.desktops.sharing.pool import ManagedDesktops


@dataclass(frozen=True)
class _Ahead:
    """A desktop that was started ahead for `holder`: by these settings, in this environment, from this folder."""

    holder: str
    settings: Settings
    environment: dict[str, str]
    folder: str
    started: StartedAhead

    def suits(self, settings: Settings) -> bool:
        """Return whether the holder, which leases now, would start the same desktop."""
        is_same = settings.start_ahead and assembly.same_desktop(self.settings, settings)
        return is_same and (self.environment, self.folder) == (dict(os.environ), os.getcwd())


class Desktops:
    """The leases of desktops, and the desktops that several tests share. Owners are named by their node ids."""

    def __init__(self) -> None:
        self._shared: dict[str, tuple[Settings, Desktop]] = {}
        self._managed: tuple[Settings, ManagedDesktops] | None = None
        self._ahead: _Ahead | None = None

    def lease(self, settings: Settings, holder: str) -> Desktop:
        """Lease a desktop, with its program, for `holder` alone until its `stop()`.

        Raises DesktopError, SettingsError.
        """
        try:
            if started := self._take_ahead(settings, holder):
                return started
            return assembly.lease_desktop(settings, holder, self._managed_for(settings) if settings.desktops else None)
        except (RuntimeError, Warning) as exc:
            if problem := blocked(str(exc)):
                raise DesktopRefused(f"no desktop: {problem}") from exc
            raise

    def start_ahead(self, settings: Settings, holder: str) -> None:
        """Start the desktop that `holder`, the next test, will lease if its settings are the same.

        Does nothing if the settings do not allow it, or if there is one already.
        """
        if self._ahead:
            return
        environment = {**os.environ, "PYTEST_CURRENT_TEST": f"{holder} (setup)".replace("\0", "(null)")}
        if started := assembly.start_ahead(settings, environment):
            self._ahead = _Ahead(holder, settings, environment, os.getcwd(), started)

    def drop_ahead(self, holder: str = "") -> None:
        """End the desktop that was started ahead for that holder, by default for any; does nothing if there is none."""
        if self._ahead and holder in ("", self._ahead.holder):
            ahead, self._ahead = self._ahead, None
            ahead.started.drop()

    def _take_ahead(self, settings: Settings, holder: str) -> Desktop | None:
        """Return the desktop that was started ahead for `holder`, unless `holder` needs another desktop by now."""
        if not self._ahead or self._ahead.holder != holder:
            return None
        if not self._ahead.suits(settings):
            self.drop_ahead()
            return None
        try:
            desktop = self._ahead.started.take()
        except BaseException:  # also Ctrl-C: no started desktop stays behind
            self.drop_ahead()
            raise
        self._ahead = None
        return desktop

    def share(self, settings: Settings, owner: str) -> Desktop:
        """Return the desktop of all tests of `owner`, in the state that the last test left.

        A new desktop replaces it if its program has ended, or if these settings ask for another desktop. Raises
        DesktopError, SettingsError.
        """
        if owner in self._shared:
            kept, desktop = self._shared[owner]
            if assembly.same_desktop(kept, settings) and not (desktop.fault() or desktop.program_fault()):
                return desktop
            self.end_shared(owner)
        desktop = self.lease(settings, owner or "the session")
        self._shared[owner] = settings, desktop
        return desktop

    def end_shared(self, owner: str) -> None:
        """Stop the desktop of an owner whose tests are over; does nothing if there is none."""
        if owner in self._shared:
            self._shared.pop(owner)[1].stop()

    def close(self) -> None:
        """Stop every desktop that is shared, started ahead, or kept for the next test."""
        try:
            for owner in list(self._shared):
                self.end_shared(owner)
            if self._managed:
                self._managed[1].close()
        finally:
            self.drop_ahead()

    def _managed_for(self, settings: Settings) -> ManagedDesktops:
        """Return the managed desktops of the last test, or new ones if this test needs others."""
        if self._managed and not assembly.same_start(self._managed[0], settings):
            self._managed[1].close()
            self._managed = None
        if not self._managed:
            self._managed = settings, assembly.managed_desktops(settings)
        return self._managed[1]


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
            desktop = desktops.lease(desktop_settings, request.node.nodeid)
        request.node.stash[desktops_ahead.LEASE_SETTINGS] = desktop_settings
        yield assembly.browsable(desktop_settings, desktop)
        try:
            desktops_ahead.start(request.node)
        finally:
            desktop.stop()
    else:
        owner = (desktop_settings.scope == "module" and request.node.getparent(pytest.Module)) or request.session
        owner.addfinalizer(partial(desktops.end_shared, owner.nodeid))
        with meanwhile:
            shared = desktops.share(desktop_settings, owner.nodeid)
        yield assembly.browsable(desktop_settings, shared)


def _of_process(config: pytest.Config) -> Desktops:
    if DESKTOPS not in config.stash:
        config.stash[DESKTOPS] = Desktops()
        config.add_cleanup(config.stash[DESKTOPS].close)
    return config.stash[DESKTOPS]
