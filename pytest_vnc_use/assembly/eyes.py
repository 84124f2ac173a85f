"""Connections to a desktop: VNC, with the protection that the settings ask for, and the browser's DevTools."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types.wire import Wire

if TYPE_CHECKING:
    from pytest_vnc_use.backends.browser import BrowsableDesktop
    from pytest_vnc_use.backends.vnc import VNCController

PROTECT = "use a server with TLS (vnc_tls=require), wss://, or a tunnel (ssh -L)"
_warned: set[str] = set()
"""The servers of which the user was warned in this process."""


def wire_of(settings: Settings) -> Wire:
    """Return the rules for the connection to a given desktop. Raises SettingsError if they contradict each other."""
    return Wire(settings.username, settings.tls, settings.tls_ca, settings.tls_fingerprint)


def connect_bare(server: str, password: str | None) -> VNCController:
    """Return a connection to a desktop that was started here."""
    from pytest_vnc_use.backends import vnc

    return vnc.connect(server, password, encoding="raw")


def devtools_url(settings: Settings, desktop: BrowsableDesktop) -> str:
    """Return where the DevTools of the desktop's browser listen, once they do. Raises DesktopError, SettingsError."""
    from pytest_vnc_use.backends.browser import await_devtools

    def is_over() -> bool:
        return bool(desktop.fault() or desktop.program_fault())

    return await_devtools(lambda: desktop.browser, settings.start_seconds, is_over)


def connect_to(settings: Settings, server: str, password: str | None, **given: Any) -> VNCController:
    """Return a connection as the settings want it; warn once of a server without encryption.

    `given` are further arguments of `vnc.connect`. Raises DesktopError, SettingsError.
    """
    from pytest_vnc_use.backends import vnc

    eyes = vnc.connect(server, password, type_by=settings.typing, wire=wire_of(settings), **given)
    if eyes.exposure and server not in _warned:
        _warned.add(server)
        try:
            warnings.warn(
                f"the VNC connection to {eyes.server!r} is not encrypted: {eyes.exposure}; {PROTECT}", stacklevel=2
            )
        except Warning:  # the user wants errors of warnings
            eyes.close()
            raise
    return eyes
