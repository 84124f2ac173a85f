"""The connection of an agent to its desktop.

It is made on first use, and made again where the settings that decide it have changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_vnc_use.agent import leasing
from pytest_vnc_use.backends.typed_secrets import RedactingController, Redactions
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.runs.logger import MessageLog
from pytest_vnc_use.runs.redactor import Secrets
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.triage import failure_of
from pytest_vnc_use.types.protocols import Controller, Desktop

if TYPE_CHECKING:
    from pytest_vnc_use.backends.screen import Framebuffer

_SHARED_REDACTIONS: dict[str, Redactions] = {}
"""The redactions on desktops that several tests use one after the other, by address,
for the time of this process.
"""


class Connection:
    """The controller of an agent's desktop.

    The connection follows `desktop` to its current address, also after `reset()`. Once
    the desktop or its program has ended, nothing connects again.

    Args:
        settings: Where the desktop is, if there is no `desktop`, and how its files are
            read.
        secrets: What is typed redacted, and hidden in the log of messages.
        password: The VNC password; None for the one in the environment.
        desktop: The desktop that a test has; None for the server of the settings.
        controller: Replaces the connection over VNC.
        recorded_test: The recording whose masks are redacted too.
    """

    def __init__(
        self,
        settings: Settings,
        secrets: Secrets,
        *,
        password: str | None = None,
        desktop: Desktop | None = None,
        controller: Controller | None = None,
        recorded_test: RecordedTest | None = None,
    ) -> None:
        self.desktop = desktop
        self.files = desktop or leasing.external_desktop(settings)
        """The desktop whose files and commands are used."""
        self.messages = MessageLog()
        self._secrets = secrets
        self._password = password
        self._recorded_test = recorded_test
        self._custom = controller
        self._controller: Controller | None = None
        self._made_with: Settings | None = None
        self._is_stable = False

    def server(self, settings: Settings) -> str:
        """Return the address of the desktop."""
        return self.desktop.server if self.desktop else settings.server

    def controller(self, settings: Settings) -> Controller:
        """Return the controller, connected as the settings say. Raises DesktopError."""
        if self._custom is not None:
            if self._controller is None:
                self._controller = self._redacted(self._custom, settings)
            return self._controller
        settings = leasing.settings_at(settings, self.server(settings))
        if self._made_with and not leasing.agree(
            self._made_with, settings, leasing.CONNECTION_SETTINGS
        ):
            self.close()
            self._controller = None
        if self._controller is None:
            self._made_with = settings
            self._is_stable = False
            self._controller = self._redacted(self._connect(settings), settings)
        return self._controller

    def _connect(self, settings: Settings) -> Controller:
        return leasing.connect(
            settings,
            self._password,
            may_stay_blank=self.desktop is None,
            program_exit_reason=self._exit_reason,
            read_file=self.files.read_file,
            tap=self.messages if settings.rfb_log else None,
        )

    def _exit_reason(self) -> str:
        return failure_of(self.desktop).text if self.desktop else ""

    def _redacted(self, controller: Controller, settings: Settings) -> Controller:
        """Return the controller with redaction, if secrets were declared.

        On a desktop that several tests share, the redactions are shared too: an earlier
        test's secret may still be on the screen.
        """
        if not self._redacts(settings):
            return controller
        redactions = Redactions()
        if self._custom is None and settings.scope != "test":
            redactions = _SHARED_REDACTIONS.setdefault(settings.server, redactions)
        masks = self._recorded_test.masks if self._recorded_test else ()
        hide = self._secrets.everything.hide
        return RedactingController(
            controller,
            hide,
            redactions,
            masks,
        )

    def _redacts(self, settings: Settings) -> bool:
        return self._secrets.are_declared and not settings.show_secrets

    def live_screen(self, settings: Settings) -> Framebuffer | None:
        """Return the pixels as the desktop sends them.

        None while it is not connected, or if secrets may be on them.
        """
        if self._controller is None or self._redacts(settings):
            return None
        return _screen_of(self._controller)

    def filmed_screen(self) -> Framebuffer | None:
        """Return the pixels as the desktop sends them, for a video that is thrown away
        if a secret is typed.

        None while the desktop is not connected, or once a secret was typed on it.
        """
        controller = self._controller
        if controller is None or self.has_typed_secret:
            return None
        if isinstance(controller, RedactingController):
            controller = controller.desktop
        return _screen_of(controller)

    @property
    def has_typed_secret(self) -> bool:
        """Whether a secret was typed on the desktop, by whatever test uses it."""
        controller = self._controller
        if not isinstance(controller, RedactingController):
            return False
        return controller.has_typed_secret

    def await_stable(self, controller: Controller) -> None:
        """Wait before the first action until the screen is stable, as after any action.

        A replay or a user who acts through another `controller` waits on its own.
        Raises DesktopError.
        """
        if controller is self._controller and not self._is_stable:
            controller.settle()
            self._is_stable = True

    def close(self) -> None:
        """End the connection; a second call does nothing."""
        if self._controller is not None:
            self._controller.close()


def _screen_of(controller: Controller) -> Framebuffer | None:
    """Return the live pixels of a controller; a custom one may have none."""
    screen: Framebuffer | None = getattr(controller, "screen", None)
    return screen
