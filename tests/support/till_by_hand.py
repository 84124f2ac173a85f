"""The till whose task a user does by hand at the page: the tests, what the user does,
and the recording of it.
"""

from __future__ import annotations

from pathlib import Path

from pytest_vnc_use.types import Action, Click, TypeText
from support.page_user import User
from support.tills import NAME, PAY, TASK, Tills

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
ADD = ((130, 224), (150, 224))
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


def actions(directory: Path, run: int = 0) -> list[Action]:
    return [step.action for step in Tills(directory).recording.segments[run].steps]


def files_with(directory: Path, text: str) -> list[Path]:
    """Return the files that contain a text."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return [file for file in files if text.encode() in file.read_bytes()]
