"""The desktops of one process of pytest: a test's own, or one for all tests of a module or a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vnc_use import assembly
from pytest_vnc_use.ports import Desktop
from pytest_vnc_use.settings import Settings

if TYPE_CHECKING:
    from pytest_vnc_use.desktops.managed import ManagedDesktops


class Desktops:
    """Leases desktops, and keeps those that several tests share. Owners are named by their node ids."""

    def __init__(self) -> None:
        self._shared: dict[str, tuple[Settings, Desktop]] = {}
        self._managed: tuple[Settings, ManagedDesktops] | None = None

    def lease(self, settings: Settings, holder: str) -> Desktop:
        """A desktop for `holder` alone, with its program, until its `stop()`. Raises DesktopError, SettingsError."""
        return assembly.lease_desktop(settings, holder, self._managed_for(settings) if settings.desktops else None)

    def share(self, settings: Settings, owner: str) -> Desktop:
        """The desktop of all tests of `owner`, as the test before left it.

        Another one takes its place where its program has ended, or where these settings ask for another desktop.
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
        """Stop the desktop of an owner whose tests are over; does nothing where there is none."""
        if owner in self._shared:
            self._shared.pop(owner)[1].stop()

    def close(self) -> None:
        """Stop all that is shared, or kept for the next test."""
        for owner in list(self._shared):
            self.end_shared(owner)
        if self._managed:
            self._managed[1].close()

    def _managed_for(self, settings: Settings) -> ManagedDesktops:
        """Those of the test before, unless this one wants other desktops."""
        if self._managed and not assembly.same_start(self._managed[0], settings):
            self._managed[1].close()
            self._managed = None
        if not self._managed:
            self._managed = settings, assembly.managed_desktops(settings)
        return self._managed[1]
