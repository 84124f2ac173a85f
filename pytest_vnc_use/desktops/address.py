"""A desktop that somebody else started, known by its address only."""

from __future__ import annotations

from pytest_vnc_use.errors import DesktopError


class AddressDesktop:
    """The desktop whose VNC server listens at `server`; its files are out of reach, and it is never stopped."""

    def __init__(self, server: str) -> None:
        self._server = server

    @property
    def server(self) -> str:
        """The address as it was given."""
        return self._server

    def read_file(self, name: str) -> str:
        """Raises DesktopError: only a VNC connection leads to this desktop."""
        raise self._out_of_reach("read", name)

    def write_file(self, name: str, text: str) -> None:
        """Raises DesktopError: only a VNC connection leads to this desktop."""
        raise self._out_of_reach("write", name)

    def stop(self) -> None:
        """Does nothing: what this test did not start it does not end."""

    def _out_of_reach(self, verb: str, name: str) -> DesktopError:
        return DesktopError(
            f"cannot {verb} the file {name!r}: the desktop at {self._server!r} is reached through VNC only; "
            "a desktop that the test starts itself (--vnc-server=qt) has a working folder"
        )
