"""The connection of an agent to its desktop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_vnc_use.assembly.desktops import connect, elements_asker, given_desktop, same_connection, settings_at
from pytest_vnc_use.runs.folder import RunFolder
from pytest_vnc_use.runs.messages import MessageLog
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.triage import failure_text
from pytest_vnc_use.types import Action, Region
from pytest_vnc_use.types.elements import Elements
from pytest_vnc_use.types.protocols import Controller, Desktop

if TYPE_CHECKING:
    from pytest_vnc_use.backends.redaction import Redactions

_REDACTIONS: dict[str, Redactions] = {}
"""The redactions on desktops that several tests use one after the other, by address, for the time of this process."""


class Connection:
    """The controller of a desktop, connected on first use.

    It reconnects if the settings or the reset `desktop` have another address. A given `controller` is used first.
    `hide` takes secrets out of what is typed: with it, frames are redacted where one was typed, and in the `masks`,
    unless the settings say otherwise.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        password: str | None,
        desktop: Desktop | None,
        controller: Controller | None,
        hide: Callable[[str], str] | None = None,
        masks: tuple[Region, ...] = (),
    ) -> None:
        self._settings, self._password, self._desktop = settings, password, desktop
        self.place = desktop or given_desktop(settings())
        """The desktop whose files and commands are used."""
        self._hide, self._masks = hide, masks
        self._controller = self._redacted(controller) if controller else None
        self._messages = MessageLog()
        self._connected_as: Settings | None = None
        self._is_at_rest = False

    @property
    def server(self) -> str:
        """The address of the desktop."""
        return self._desktop.server if self._desktop else self._settings().server

    @property
    def controller(self) -> Controller:
        """Return the controller for the current settings. Raises DesktopError."""
        there = settings_at(self._settings(), self.server)
        if self._connected_as and not same_connection(self._connected_as, there):
            self.close()
            self._controller = None
        if self._controller is None:
            self._connected_as, self._is_at_rest = there, False
            read_file = self.place.read_file
            tap = self._messages if there.keep_messages else None
            eyes = connect(there, self._password, program_fault=self._fault, read_file=read_file, tap=tap)
            shared = there.server if there.scope != "test" else ""
            self._controller = self._redacted(eyes, shared)
        return self._controller

    def _redacted(self, eyes: Controller, shared: str = "") -> Controller:
        """Return the controller with redaction; on a `shared` desktop, other tests' secrets are redacted too."""
        from pytest_vnc_use.backends.redaction import RedactingController, Redactions

        if self._hide is None or self._settings().show_secrets:
            return eyes
        redactions = _REDACTIONS.setdefault(shared, Redactions()) if shared else Redactions()
        return RedactingController(eyes, self._hide, redactions, self._masks)

    def await_rest(self, acting: Controller) -> None:
        """Wait before the first action until the screen is quiet, as after any action. Raises DesktopError.

        A replay or a person that is `acting` waits by itself.
        """
        if acting is self.controller and not self._is_at_rest:
            acting.settle()
            self._is_at_rest = True

    def keep_messages(self, folder: RunFolder, hide: Callable[[str], str]) -> None:
        """Write all further messages to the server into this run folder, if the settings want it."""
        self._messages.begin(folder.path, folder.began_s, hide)

    def crash(self) -> str:
        """Return how a signal ended the program under test; "" while it runs."""
        return failure_text.crash_of(self._desktop) if self._desktop else ""

    def elements_of(self, action: Action) -> Elements:
        """Find the elements that an action will act on. It may be slow, and may raise any exception."""
        return elements_asker(self._settings(), self.place)(action)

    def _fault(self) -> str:
        return failure_text.fault_of(self._desktop).text if self._desktop else ""

    def close(self) -> None:
        """End the connection. A second call does nothing."""
        if self._controller is not None:
            self._controller.close()
