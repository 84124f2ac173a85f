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
from pytest_vnc_use.backends.client import DesktopFactory
from pytest_vnc_use.backends.rfb_connection import RfbConnection
from pytest_vnc_use.backends.typed_secrets import RedactingController
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.harness.recording import RecordedFactory, Recorder
from pytest_vnc_use.runs.redactor import Secrets
from pytest_vnc_use.types import SECRET_MARK, DesktopAction, TypeText


class HarnessDesktop:
    """A connected desktop. With a directory for it, all that goes over the connection
    is recorded.
    """

    def __init__(
        self, server: str, secrets: Mapping[str, str], recording: Path | None = None
    ) -> None:
        """Connect, with what the environment says of the connection. Raises
        DesktopError, SettingsError.
        """
        settings = build.settings_of({"server": server})
        password = credentials.desktop_password(settings)
        self._declared = Secrets.of(secrets, {}, {}).declared
        self.recorder = Recorder(recording) if recording else None
        factory = (
            partial(RecordedFactory, self.recorder) if self.recorder else DesktopFactory
        )
        options: dict[str, Any] = {
            # a full screen is 4 MB raw, 20 kB tight
            "encoding": "tight" if self.recorder else None,
            "wire": leasing.wire_of(settings),
            "new_factory": factory,
        }
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
        redacts = secrets and not settings.show_secrets
        self._controller = (
            RedactingController(self._vnc, self._declared.hide)
            if redacts
            else self._vnc
        )
        # What is drawn until now is no response to an action.
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
        marks = [
            mark.group() for mark in SECRET_MARK.finditer(self._declared.hide(text))
        ]
        if self.recorder and marks:
            self._connection.send(self.recorder.withhold, marks)
        try:
            perform_text(self._controller, TypeText(self._declared.reveal(text)))
        finally:
            if self.recorder and marks:
                self._connection.send(self.recorder.withhold, ())

    def screen(self) -> dict[str, Any]:
        """Return the time in the recording, and the bytes of the server's that make
        this screen; {} without one.
        """
        return (
            {"at_s": self.recorder.seconds, "server_bytes": self.recorder.drawn}
            if self.recorder
            else {}
        )

    def close(self) -> None:
        """End the connection, then the recording. Raises RunDirectoryUnwritable if that
        is not whole.
        """
        with suppress(DesktopError):  # it has ended already
            self._vnc.close()
        if self.recorder:
            self.recorder.close()
