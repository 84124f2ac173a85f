"""Values that a user types and marks on the page, and of which a reviewer says there
where they show.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.types import Region
from support.page_user import Recorder, User
from support.vnc_servers import require_package

require_package("starlette")
pytestmark = [pytest.mark.desktop, pytest.mark.slow]

FIELD = [63, 43, 357, 77]
SOURCE = """
import pytest

@pytest.mark.parametrize("name", [{name!r}])
@pytest.mark.vnc_task("Enter <value:name> and pay", expect=None)
def test_till(name, vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == f"{{name}} pays 0.00"
"""
ALICE = SOURCE.format(name="alice")
BOB = SOURCE.format(name="Böb the 2nd")


def enter_and_pay(user: User) -> None:
    user.click(200, 60)
    user.type("alice")
    user.click(380, 224)
    user.until(lambda question: len(question["steps"]) == 3)


def by_hand(start: Callable[..., Recorder], **answers: object) -> str:
    """Return the output of a session in which alice is recorded by hand."""
    session = start(ALICE, "manual", "-ovnc_rehearse=0")
    with session.user() as user:
        assert user.question["task"] == "Enter alice and pay"
        assert user.question["values"] == {"name": "alice"}
        enter_and_pay(user)
        assert 'type "<value:name>"' in user.page.questions[user.id]["steps"][1]
        user.done(**answers)
    done = session.ended()
    assert done.code == 0, done.out
    return done.out


def test_value_marked_by_hand_replays_with_another(
    start: Callable[..., Recorder], tmp_path: Path
) -> None:
    mark = {"box": FIELD, "claim": "", "value": "name", "after": 2}
    output = by_hand(start, values=[mark])
    assert "NOT REPEATED" not in output
    file = tmp_path / "__vnc_recordings__/test_till/test_till/recording.json"
    recording = load(file)
    assert recording
    (segment,) = recording.segments
    assert getattr(segment.steps[1].action, "text", "") == "<value:name>"
    *before, typed, end = [screen.values for screen in segment.screens]
    assert before == [(), ()]
    assert [value.region for value in typed] == [Region(*FIELD)]
    assert [value.region for value in end] == [Region(*FIELD)]
    done = start(BOB, "replay").ended()
    assert done.code == 0, done.out


def test_value_said_on_page_replays_with_another(
    start: Callable[..., Recorder],
) -> None:
    assert "no user has stated yet where the screen shows" in by_hand(start)
    said = {"kind": "value", "text": "name"}
    session = start(BOB, "accept", "--vnc-ui", "-ovnc_gate_seconds=2")
    questions = session.page.answer(said, said, said)
    done = session.ended()
    assert done.code == 0, done.out
    values = {"name": "'Böb the 2nd', recorded as 'alice'"}
    assert all(question["values"] == values for question in questions)
    again = start(SOURCE.format(name="Eve"), "replay").ended()
    assert again.code == 0, again.out


def test_next_set_is_asked_in_same_session(start: Callable[..., Recorder]) -> None:
    """One set is recorded by hand; the others are replayed, and asked about."""
    sets = SOURCE.replace("[{name!r}]", "['alice', 'Bob', 'Eve Li']")
    session = start(sets.format(name=""), "manual", "-ovnc_rehearse=0")
    with session.user() as user:
        enter_and_pay(user)
    said = {"kind": "value", "text": "name"}
    questions = session.page.answer(said, said, said)
    done = session.ended()
    assert "3 passed" in done.out
    assert "NOT REPEATED" not in done.out
    assert len(questions) in (2, 3)


NEW_EACH_TIME = """
import uuid, pytest

@pytest.fixture
def name():
    return uuid.uuid4().hex[:8]

@pytest.mark.vnc_task("Enter <value:name> and pay", expect=None)
def test_till(name, vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == f"{name} pays 0.00"
"""


def test_undo_repeats_step_with_new_value(
    start: Callable[..., Recorder], tmp_path: Path
) -> None:
    session = start(NEW_EACH_TIME, "manual", "-ovnc_rehearse=0")
    with session.user() as user:
        user.click(200, 60)
        user.type(user.question["values"]["name"])
        user.click(140, 224)
        user.until(lambda question: len(question["steps"]) == 3)
        user.undo()
    with session.user() as user:
        user.until(lambda question: len(question["steps"]) == 2)
        user.until(lambda question: "repeating" not in question["notice"])
        user.click(380, 224)
    done = session.ended()
    assert done.code == 0, done.out
    file = tmp_path / "__vnc_recordings__/test_till/test_till/recording.json"
    assert '"text": "<value:name>"' in file.read_text("utf-8")


def test_value_on_too_much_of_screen_is_error(start: Callable[..., Recorder]) -> None:
    session = start(ALICE, "manual", "-ovnc_rehearse=0")
    with session.user() as user:
        enter_and_pay(user)
        box = [0, 0, 800, 300]
        user.done(values=[{"box": box, "claim": "", "value": "name", "after": 3}])
    done = session.ended()
    assert done.code == 1
    assert "would be 75% of a screen, the maximum is 25%" in done.out
