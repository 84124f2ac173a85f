"""The till whose task a user does by hand at the page: the tests, what the user does,
and the recording of it.
"""

from __future__ import annotations

from pathlib import Path

from pytest_vnc_use.recordings.format import Recording
from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.types import Action, Click, TypeText
from support.page_user import User

TASK = "Enter alice, add two apples and pay"
CLAIM = "the till says paid"
HEAD = "import pytest\n"
PAID = f"""{HEAD}
@pytest.mark.vnc_task("{TASK}", expect=None)
def test_till(vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == "alice pays 5.00"
"""
CLAIMED = f"""{HEAD}
@pytest.mark.vnc_task("{TASK}", expect="{CLAIM}")
def test_till():
    pass
"""
SECRET = "w0nder-land"
NAME = (200, 60)
ADD = ((130, 224), (150, 224))
PAY = (380, 224)
ALICE = [Click(*NAME), TypeText("alice")]
PAYING = [*(Click(*point) for point in ADD), Click(*PAY)]
DONE = [*ALICE, *PAYING]
"""The actions of the whole task."""


def enter(user: User, name: str = "alice") -> None:
    user.click(*NAME)
    user.type(name)


def add(user: User) -> None:
    for point in ADD:
        user.click(*point)


def pay(user: User) -> None:
    user.click(*PAY)


def file_in(directory: Path) -> Path:
    """Return the file of the till's recording."""
    return directory / "__vnc_recordings__/test_till/test_till/recording.json"


def recording_in(directory: Path) -> Recording:
    recording = load(file_in(directory))
    assert recording
    return recording


def actions(directory: Path, run: int = 0) -> list[Action]:
    return [step.action for step in recording_in(directory).segments[run].steps]


def files_with(directory: Path, text: str) -> list[Path]:
    """Return the files that contain a text."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return [file for file in files if text.encode() in file.read_bytes()]
