"""Somebody who works at a viewer as fast as they can, and a caret that blinks meanwhile."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count

import pytest

from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.demonstrate.viewer_session import HOVER_S, ViewerSession
from pytest_vnc_use.recordings.recorder import QUIET_S
from pytest_vnc_use.types import Action, Frame, KeyDown, KeyUp, MouseDown, MouseUp, Move, Region
from pytest_vnc_use.types.elements import Element, Elements
from support import vnc_servers
from support.qt_desktop import QtDesktop
from support.tills import TILL

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
def test_a_caret_is_one_however_fast_somebody_works(till: VNCController) -> None:
    asked: list[Action] = []

    def elements_of(action: Action) -> Elements:
        asked.append(action)
        return (Element("button", f"{len(asked)}", Region(0, 0, 9, 9)),)

    session = ViewerSession(till, print, 60, elements_of)
    for at_s, key in zip(count(), ("a", "l", "tab"), strict=False):
        session.hear(KeyDown(key), at_s)
        session.hear(KeyUp(key), at_s)
    for at_s in (5.0, 10.0):
        session.hear(MouseDown(140, 224), at_s)
        session.hear(MouseUp(140, 224), at_s)
    session.hear(None, 15.0)
    end = session.run()
    screens = [step.screen for step in session.demonstration.steps if step.screen]
    assert len(screens) == 4
    assert {part.kind for screen in (*screens, end) for part in screen.volatile} == {"caret"}
    assert screens[0].volatile
    names = [each.name for step in session.demonstration.steps for each in step.elements if each]
    assert names == ["1", "2", "3"]
    assert [each.kind for each in asked] == ["type_text", "mouse_down", "mouse_down"]


@pytest.mark.slow
def test_the_end_is_watched_where_the_pointer_came_to_rest_before_it_too(till: VNCController) -> None:
    session = ViewerSession(till, print, 60)
    session.hear(MouseDown(140, 224), 0.0)
    session.hear(MouseUp(140, 224), 0.0)
    session.hear(Move(600, 350), 1.0)
    closes = threading.Timer(4 * HOVER_S, session.hear, (None, 5.0))
    closes.start()
    assert session.run().quiet_s == QUIET_S
    closes.join()
