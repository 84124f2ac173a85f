"""A person at a viewer in bytes, before a VNC server in this process: what they do arrives, and is recorded."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from pytest_vnc_use.backends.vnc import connect
from pytest_vnc_use.demonstrate.viewer_session import Showing
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.recordings.format import RecordedRun
from pytest_vnc_use.runs.redaction import Redactor
from pytest_vnc_use.types import Click, KeyCombo, KeyDown, MouseDown, TypeText
from support.served_screen import ServedScreen, served_screen
from support.viewer_client import CONTROL, Person

SECRET, AMBIENT = "hunter2", "xyzzy-7"


def demonstrated(screen: ServedScreen, text: str, said: list[str]) -> RecordedRun:
    """Return the recording of a click, a text and ctrl+s by a person who then closes the viewer."""

    def say(line: str) -> None:
        said.append(line)
        if line.startswith("Do it"):
            threading.Thread(target=work, args=(line.rpartition(" ")[2],)).start()

    def work(address: str) -> None:
        with Person(address) as person:
            person.click(30, 40)
            person.type(text)
            person.press(CONTROL, ord("s"))

    showing = Showing(say, "Do it", Redactor({"PASSWORD": SECRET}), Redactor({"TOKEN": AMBIENT}))
    with closing(connect(screen.server.address)) as desktop:
        return showing.of(desktop, limit_s=60)


def test_demonstrated_actions_arrive_and_are_recorded() -> None:
    said: list[str] = []
    with served_screen() as screen:
        run = demonstrated(screen, f"my {SECRET}", said)
    assert [step.action for step in run.steps] == [
        Click(30, 40),
        TypeText("my <secret:PASSWORD>"),
        KeyCombo(("control", "s")),
    ]
    assert isinstance(screen.motions[1], MouseDown)
    pressed = [motion.key for motion in screen.motions if isinstance(motion, KeyDown)]
    assert [key for key in pressed if len(key) == 1] == [*f"my {SECRET}", "s"]
    assert [line.split()[0] for line in said] == ["Do", "1", "2", "3"]
    assert SECRET not in "".join(said)


def test_demonstrated_undeclared_secret_raises() -> None:
    with served_screen() as screen, pytest.raises(SettingsError, match="types the value of 'TOKEN', so nothing is"):
        demonstrated(screen, AMBIENT, [])
