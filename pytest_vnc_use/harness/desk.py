"""The desktop of a script: its connection, its secrets, and the recording of what both
sides send.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pytest_vnc_use.agent import build, credentials, leasing
from pytest_vnc_use.agent.act import check_declared, perform_text
from pytest_vnc_use.backends.rfb_connection import RfbConnection
from pytest_vnc_use.backends.typed_secrets import RedactingController
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.harness.recording import RecordedFactory, Recorder
from pytest_vnc_use.runs.redactor import Secrets
from pytest_vnc_use.types import SECRET_MARK, DesktopAction, TypeText
from pytest_vnc_use.types.protocols import Controller


class HarnessDesktop:
    """A connected desktop. With a directory for it, all that goes over the connection
    is recorded.
    """

    def __init__(
        self, server: str, secrets: Mapping[str, str], recording: Path | None
    ) -> None:
        """Connect with the settings in the environment. Raises DesktopError,
        SettingsError.
        """
        settings = build.settings_of({"server": server})
        password = credentials.desktop_password(settings)
        self._declared = Secrets.of(secrets, {}, {}).declared
        self.recorder = Recorder(recording) if recording else None
        options: dict[str, Any] = {"wire": leasing.wire_of(settings)}
        if self.recorder:
            options["new_factory"] = partial(RecordedFactory, self.recorder)
            # a full screen is 4 MB raw, 20 kB tight
            options["encoding"] = "tight"
        try:
            self._connection = RfbConnection(
                server, password, settings.start_seconds, **options
            )
        except BaseException:
            if self.recorder:
                self.recorder.close()
            raise
        self._vnc = VNCController(scroll_by=settings.scroll, type_by=settings.typing)
        self._vnc.attach(self._connection)
        self._controller: Controller = self._vnc
        if secrets and not settings.show_secrets:
            self._controller = RedactingController(self._vnc, self._declared.hide)
        # What was drawn before this is no effect of an action.
        self._controller.settle()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the screen in pixels."""
        return self._vnc.size

    def png(self) -> bytes:
        """Return the screen now, without typed secrets. Raises DesktopError."""
        return self._controller.frame().png

    def perform(self, action: DesktopAction) -> None:
        """Perform an action, and wait for the screen's answer. Raises ActionError,
        DesktopError.
        """
        if isinstance(action, TypeText):
            self._type(action.text)
        else:
            self._controller.perform(action)
        self._controller.settle()

    def _type(self, text: str) -> None:
        check_declared(text, self._declared.reveal)
        hidden = self._declared.hide(text)
        marks = [mark.group() for mark in SECRET_MARK.finditer(hidden)]
        if self.recorder and marks:
            self._connection.send(self.recorder.withhold, marks)
        try:
            perform_text(self._controller, TypeText(self._declared.reveal(text)))
        finally:
            if self.recorder and marks:
                self._connection.send(self.recorder.withhold, ())

    def screen(self) -> dict[str, Any]:
        """Return the time in the recording, and the number of the server's bytes that
        were drawn until now; {} without a recording.
        """
        if not self.recorder:
            return {}
        return {"at_s": self.recorder.seconds, "server_bytes": self.recorder.drawn}

    def close(self) -> None:
        """End the connection, then the recording. Raises RunDirectoryUnwritable if that
        is not whole.
        """
        with suppress(DesktopError):  # it has ended already
            self._vnc.close()
        if self.recorder:
            self.recorder.close()
