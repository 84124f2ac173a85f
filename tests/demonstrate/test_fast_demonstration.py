"""Somebody who works as fast as they can, and a caret that blinks meanwhile."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.demonstrate.gestures import AGAIN_S
from pytest_vnc_use.demonstrate.session import ManualSession
from pytest_vnc_use.types import (
    Action,
    Click,
    DesktopAction,
    Frame,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Region,
    TypeText,
)
from pytest_vnc_use.types.elements import Element, Elements
from pytest_vnc_use.types.protocols import ForwardingController
from support import vnc_servers
from support.qt_desktop import QtDesktop
from support.tills import TILL
from support.vnc_servers import VncServer

pytestmark = pytest.mark.desktop


@pytest.fixture
def till() -> Iterator[VNCController]:
    """With its field focused, and the caret in it known to blink."""
    vnc_servers.require_pyside()
    desktop = QtDesktop(size=(800, 400))
    try:
        desktop.launch([sys.executable, str(TILL)])
        with closing(connect(desktop.server)) as eyes:
            until_s = time.monotonic() + 30
            while not known_to_blink(eyes.frame()) and time.monotonic() < until_s:
                eyes.wait_changed(time.monotonic(), 0.5)
            yield eyes
    finally:
        desktop.stop()


def known_to_blink(frame: Frame) -> bool:
    return bool(frame.moving)


@pytest.mark.slow
def test_caret_is_one_however_fast_somebody_works(till: VNCController) -> None:
    asked: list[Action] = []

    def elements_of(action: Action) -> Elements:
        asked.append(action)
        return (Element("button", f"{len(asked)}", Region(0, 0, 9, 9)),)

    session = ManualSession(till, print, elements_of)
    for at_s, key in ((0.0, "a"), (0.2, "l"), (0.4, "tab")):
        session.receive(KeyDown(key), at_s)
        session.receive(KeyUp(key), at_s)
    for at_s in (5.0, 10.0):
        session.receive(MouseDown(140, 224), at_s)
        session.receive(MouseUp(140, 224), at_s)
    session.receive(None, 15.0)
    end = session.run()
    screens = [step.screen for step in session.demonstration.steps if step.screen]
    assert len(screens) == 4
    assert {part.kind for screen in (*screens, end) for part in screen.dynamic} == {"caret"}
    assert screens[0].dynamic
    names = [each.name for step in session.demonstration.steps for each in step.elements if each]
    assert names == ["1", "2", "3"]
    assert [each.kind for each in asked] == ["type_text", "mouse_down", "mouse_down"]


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
