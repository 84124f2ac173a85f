"""A user's events, before a VNC server in this process: what they do arrives, and is recorded."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from pytest_vnc_use import clock
from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.demonstrate.session import ManualSession, recorded_steps
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.recordings.format import RecordedStep
from pytest_vnc_use.runs.redaction import Redactor
from pytest_vnc_use.types import Click, KeyCombo, KeyDown, KeyUp, MouseDown, MouseUp, Move, Scroll, TypeText
from support.served_screen import ServedScreen, served_screen
from support.vnc_servers import wait_for

SECRET, AMBIENT = "hunter2", "xyzzy-7"


def demonstrated(screen: ServedScreen, text: str) -> tuple[RecordedStep, ...]:
    """Return the recording of a click, a text and ctrl+s."""
    typed = [event for key in text for event in (KeyDown(key), KeyUp(key))]
    chord = [KeyDown("control"), KeyDown("s"), KeyUp("s"), KeyUp("control")]
    with closing(connect(screen.address)) as desktop:
        session = ManualSession(desktop, print)
        for event in (MouseDown(30, 40), MouseUp(30, 40), *typed, *chord, None):
            session.receive(event, clock.monotonic())
        session.run()
    return recorded_steps(session.demonstration.steps, Redactor({"PASSWORD": SECRET}), Redactor({"TOKEN": AMBIENT}))


def test_demonstrated_actions_arrive_and_are_recorded() -> None:
    with served_screen() as screen:
        steps = demonstrated(screen, f"my {SECRET}")
    assert [step.action for step in steps] == [
        Click(30, 40),
        TypeText("my <secret:PASSWORD>"),
        KeyCombo(("control", "s")),
    ]
    assert isinstance(screen.motions[1], MouseDown)
    pressed = [motion.key for motion in screen.motions if isinstance(motion, KeyDown)]
    assert [key for key in pressed if len(key) == 1] == [*f"my {SECRET}", "s"]


def test_pointer_that_rests_is_moved_back_before_click() -> None:
    with served_screen() as screen, closing(connect(screen.address)) as desktop:
        session = ManualSession(desktop, print)
        for motion in (MouseDown(30, 40), MouseUp(30, 40), Move(200, 150)):
            session.receive(motion, clock.monotonic())
        person = threading.Thread(target=until_moved, args=(screen, session))
        person.start()
        session.run()
        person.join()
    assert [step.action for step in session.demonstration.steps] == [Click(30, 40), Click(90, 40)]


def until_moved(screen: ServedScreen, session: ManualSession) -> None:
    """Click elsewhere once the pointer has rested."""
    wait_for(lambda: Move(200, 150) in screen.motions, "a move to where the pointer rests")
    for motion in (MouseDown(90, 40), MouseUp(90, 40), None):
        session.receive(motion, clock.monotonic())


def test_repeated_actions_arrive_on_fresh_desktop() -> None:
    events = (MouseDown(30, 40), MouseUp(30, 40), MouseDown(90, 40), MouseUp(90, 40), Scroll(90, 40, "down", 1), None)
    pressed = []
    with served_screen() as screen, closing(connect(screen.address)) as desktop:
        session = ManualSession(desktop, print)
        for event in events:
            session.receive(event, clock.monotonic())
        session.run()
        pressed.append([motion for motion in screen.motions if isinstance(motion, (MouseDown, Scroll))])
    with served_screen() as screen, closing(connect(screen.address)) as desktop:
        again = ManualSession(desktop, print)
        assert again.repeat(session.demonstration.steps)
        pressed.append([motion for motion in screen.motions if isinstance(motion, (MouseDown, Scroll))])
    assert pressed[0] == pressed[1]
    assert len(pressed[0]) == 3


def test_demonstrated_undeclared_secret_raises() -> None:
    with served_screen() as screen, pytest.raises(SettingsError, match="types the value of 'TOKEN', so nothing is"):
        demonstrated(screen, AMBIENT)
