"""The base of controllers that wrap another one."""

from __future__ import annotations

from pytest_vnc_use.types.actions import DesktopAction
from pytest_vnc_use.types.frames import Frame, Glance, Settled
from pytest_vnc_use.types.protocols import Controller


class ForwardingController:
    """A Controller that does everything through another one, `desktop`. Override what is to be different."""

    def __init__(self, desktop: Controller) -> None:
        self.desktop = desktop

    def frame(self) -> Frame:
        """Return the screen now. Raises DesktopError."""
        return self.desktop.frame()

    def perform(self, action: DesktopAction) -> None:
        """Carry out one action. Raises ActionError if it cannot be done, DesktopError if the desktop is gone."""
        self.desktop.perform(action)

    def settle(self, *, briefly: bool = False) -> Settled:
        """Wait until the screen is quiet. Raises DesktopError."""
        return self.desktop.settle(briefly=briefly)

    def changed_since(self, moment: float) -> bool:
        """Return whether the screen changed after `moment`, outside moving regions. Raises DesktopError."""
        return self.desktop.changed_since(moment)

    def wait_changed(self, moment: float, timeout_s: float) -> bool:
        """Wait at most `timeout_s` until `changed_since` is true; return whether it is. Raises DesktopError."""
        return self.desktop.wait_changed(moment, timeout_s)

    def glance(self) -> Glance:
        """Return the pixels of the screen now, without taking a frame. Raises DesktopError."""
        return self.desktop.glance()

    def transient_frames(self) -> tuple[Frame, ...]:
        """Return the transient frames since the last call, oldest first."""
        return self.desktop.transient_frames()

    def close(self) -> None:
        """End the connection; a second call does nothing."""
        self.desktop.close()
