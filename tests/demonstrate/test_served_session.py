"""A user's events, before a VNC server in this process: what they do arrives, and is recorded."""

from __future__ import annotations

from contextlib import closing

import pytest

from pytest_vnc_use import clock
from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.demonstrate.session import ManualSession, recorded_steps
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.recordings.format import RecordedStep
from pytest_vnc_use.runs.redaction import Redactor
from pytest_vnc_use.types import Click, KeyCombo, KeyDown, KeyUp, MouseDown, MouseUp, TypeText
from support.served_screen import ServedScreen, served_screen

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


def test_demonstrated_undeclared_secret_raises() -> None:
    with served_screen() as screen, pytest.raises(SettingsError, match="types the value of 'TOKEN', so nothing is"):
        demonstrated(screen, AMBIENT)
