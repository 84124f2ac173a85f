"""A desktop that somebody else started, known by its address only."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.ports import Ran


class AddressDesktop:
    """The desktop whose VNC server listens at `server`; files and programs are out of reach; it is never stopped."""

    def __init__(self, server: str) -> None:
        self._server = server

    @property
    def server(self) -> str:
        """The address as it was given."""
        return self._server

    @property
    def password(self) -> None:
        """None: only the user knows it."""
        return None

    def read_file(self, name: str) -> str:
        """Raises DesktopError: only a VNC connection leads to this desktop."""
        raise self._out_of_reach(f"read the file {name!r}")

    def write_file(self, name: str, text: str) -> None:
        """Raises DesktopError: only a VNC connection leads to this desktop."""
        raise self._out_of_reach(f"write the file {name!r}")

    def run(self, command: Sequence[str], *, timeout_s: float = 60.0) -> Ran:
        """Raises DesktopError: only a VNC connection leads to this desktop."""
        raise self._out_of_reach(f"run {shlex.join(command)!r}")

    def program_fault(self) -> str:
        """Always "": no program was started here."""
        return ""

    def stop(self) -> None:
        """Does nothing: what this test did not start it does not end."""

    def _out_of_reach(self, wish: str) -> DesktopError:
        return DesktopError(
            f"cannot {wish}: the desktop at {self._server!r} is reached through VNC only; "
            "a desktop that the test starts itself (--vnc-server=xvnc or --vnc-server=qt) has a working folder"
        )
