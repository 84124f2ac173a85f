"""Somebody who works as fast as they can, and a caret that blinks meanwhile."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import pytest

from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.demonstrate.gestures import AGAIN_S
from pytest_vnc_use.demonstrate.session import ManualSession
from pytest_vnc_use.types import (
    Click,
    DesktopAction,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    TypeText,
)
from pytest_vnc_use.types.protocols import ForwardingController
from support import vnc_servers
from support.vnc_servers import VncServer

pytestmark = pytest.mark.desktop


@pytest.mark.parametrize(("painted", "texts"), [(True, ["c", "hi"]), (False, ["chi"])], ids=["changed", "unchanged"])
def test_text_after_changed_screen_is_its_own_action(tigervnc: VncServer, painted: bool, texts: list[str]) -> None:
    """The person presses a key that opens something, sees it, and types on."""
    with closing(connect(tigervnc.address)) as eyes:
        session = ManualSession(eyes, print)
        person = threading.Thread(target=types_chi, args=(session, tigervnc if painted else None))
        person.start()
        session.run()
        person.join()
    assert [step.action for step in session.demonstration.steps] == [TypeText(text) for text in texts]


def types_chi(session: ManualSession, server: VncServer | None) -> None:
    strike(session, "c")
    vnc_servers.wait_for(lambda: session.demonstration.steps and session.demonstration.steps[0].screen, "the first key")
    if server:
        server.paint(7)
    time.sleep(0.7)  # the person looks
    strike(session, "h")
    strike(session, "i")
    session.receive(None, 0.0)


def strike(session: ManualSession, key: str) -> None:
    session.receive(KeyDown(key), 0.0)
    session.receive(KeyUp(key), 0.0)


class Timed(ForwardingController):
    """Notes when buttons were pressed and released."""

    def perform(self, action: DesktopAction) -> None:
        self.desktop.perform(action)
        if isinstance(action, (MouseDown, MouseUp)):
            self.times = [*getattr(self, "times", []), time.monotonic()]


def test_two_recorded_clicks_are_no_double_click(tigervnc: VncServer) -> None:
    """The person clicks slowly, but the session has the second click ready when it has performed the first."""
    with closing(connect(tigervnc.address)) as desktop:
        eyes = Timed(desktop)
        session = ManualSession(desktop, print, eyes=eyes)
        for at_s in (0.0, AGAIN_S + 0.1):
            session.receive(MouseDown(140, 224), at_s)
            session.receive(MouseUp(140, 224), at_s)
        session.receive(None, 1.0)
        session.run()
    assert [step.action for step in session.demonstration.steps] == [Click(140, 224), Click(140, 224)]
    assert eyes.times[2] - eyes.times[1] >= AGAIN_S
