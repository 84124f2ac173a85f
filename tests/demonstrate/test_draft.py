"""Drafts on disk: what is written of a user's steps, and what the next session reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vnc_use.backends.pixels import frame_of
from pytest_vnc_use.demonstrate.draft import Draft, Found, format_kept
from pytest_vnc_use.demonstrate.gestures import DemonstratedAction
from pytest_vnc_use.demonstrate.session import FramePixels
from pytest_vnc_use.recordings.format import DynamicRegion, Screen, dynamic_region
from pytest_vnc_use.runs.directory import (
    FinishedTest,
    RunDirectory,
    make_room,
    new_run_id,
    write_finished_test,
)
from pytest_vnc_use.runs.redactor import Redactor
from pytest_vnc_use.types import (
    Action,
    Click,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    Region,
    TypeText,
)

TEST = "test_shop.py::test_basket"
SECRET = "w0nder-land"
CLICK = Click(1, 1)
CTRL = KeyDown("control")
ENTER = KeyCombo(("return",))
HOLDS = {"type": "answer", "kind": "done", "is_done": "holds", "verdicts": {}}
Begin = Callable[..., Draft]


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    """`begin(number, task, …)`: the draft of a session whose task begins."""

    def begun(
        number: int = 1,
        task: str = "Pay",
        *,
        secrets: Sequence[str] = ("SHOP",),
        draft: Draft | None = None,
    ) -> Draft:
        declared = Redactor(dict.fromkeys(secrets, SECRET))
        draft = draft or Draft(tmp_path, TEST, declared, Redactor({"TOKEN": "xyzzy"}))
        directory = RunDirectory.create(tmp_path, new_run_id(), TEST)
        draft.begin(directory.path, number)
        draft.due(task)
        return draft

    return begun


def shown(colour: int, *parts: DynamicRegion) -> Screen:
    frame = frame_of(np.full((4, 4), colour, np.uint32))
    return Screen(dynamic=parts, pixels=FramePixels(frame))


def done(*actions: Action) -> list[DemonstratedAction]:
    return [
        DemonstratedAction(action, shown(number))
        for number, action in enumerate(actions)
    ]


def found(begin: Begin, **secrets: Any) -> Found:
    """Return what the next session finds."""
    draft = begin(**secrets).find()
    assert draft
    return draft


def actions(begin: Begin) -> list[Action]:
    """Return the actions that the next session finds."""
    draft = begin().find()
    steps = chain.from_iterable(task.steps for task in draft.tasks) if draft else []
    return [step.action for step in steps]


@pytest.mark.parametrize(
    ("performed", "kept"),
    [
        ([CLICK, TypeText("ali")], [CLICK]),
        ([CLICK, TypeText("ali"), TypeText("ce")], [CLICK]),
        ([TypeText("alice"), ENTER], [TypeText("alice"), ENTER]),
        ([TypeText("alice")], []),
        ([CLICK, CTRL, CLICK], [CLICK]),
        ([CTRL, CLICK, KeyUp("control")], [CTRL, CLICK, KeyUp("control")]),
        ([CLICK, MouseDown(2, 2)], [CLICK]),
        ([CLICK, TypeText("xyzzy"), ENTER], []),
    ],
    ids=[
        "growing text",
        "growing texts",
        "text before a key",
        "text alone",
        "held key",
        "released key",
        "held button",
        "undeclared secret",
    ],
)
def test_next_session_finds_finished_steps(
    begin: Begin, performed: list[Action], kept: list[Action]
) -> None:
    begin().keep(done(*performed))
    assert actions(begin) == kept


def test_draft_reads_screens_and_moving_regions(begin: Begin) -> None:
    variant = np.zeros((2, 2), np.uint32)
    caret = dynamic_region(Region(0, 0, 1, 2), "caret")
    blinking = dynamic_region(Region(1, 1, 3, 3), "blinks", variant, variant)
    begin().keep([DemonstratedAction(CLICK, shown(7, caret, blinking))])
    (step,) = found(begin).tasks[0].steps
    assert step.screen
    assert (step.screen.pixels() & 0xFFFFFF == 7).all()
    kinds = [(part.region, part.kind) for part in step.screen.dynamic]
    assert kinds == [(caret.region, "caret"), (blinking.region, "always_changing")]


def test_secret_is_revealed_or_missing(begin: Begin, tmp_path: Path) -> None:
    begin().keep(done(CLICK, TypeText(SECRET), ENTER))
    content = b"".join(path.read_bytes() for path in tmp_path.glob("*/*.json"))
    assert SECRET.encode() not in content
    assert actions(begin) == [CLICK, TypeText(SECRET), ENTER]
    draft = found(begin, secrets=())
    assert [step.action for step in draft.tasks[0].steps] == [CLICK]
    assert "Step 2 is not repeated: it types the secret 'SHOP'" in draft.problem


def test_steps_before_missing_screen_are_found(begin: Begin, tmp_path: Path) -> None:
    begin().keep(done(CLICK, ENTER, CLICK))
    newest = max(
        tmp_path.glob("*/screens/*.png"), key=lambda path: path.stat().st_mtime_ns
    )
    newest.unlink()
    assert actions(begin) == [CLICK, ENTER]
    problem = found(begin).problem
    assert problem.startswith("Step 3 is not repeated: the screen")


def test_secret_in_pieces_stops_draft(begin: Begin) -> None:
    draft = begin()
    draft.keep(done(CLICK))
    draft.keep(done(CLICK, TypeText(SECRET[:4]), ENTER, TypeText(SECRET[4:]), ENTER))
    draft.keep(done(CLICK, ENTER))
    assert actions(begin) == [CLICK]


def test_tasks_before_last_keep_their_answer(begin: Begin, tmp_path: Path) -> None:
    draft = begin()
    draft.end(done(CLICK), HOLDS)
    begin(2, "Leave", draft=draft)
    draft.end(done(ENTER), HOLDS)
    pay, leave = found(begin).tasks
    assert (pay.number, pay.task) == (1, "Pay")
    assert pay.answer
    assert (leave.number, leave.task) == (2, "Leave")
    assert not leave.answer
    assert len([*tmp_path.glob("*/draft.json")]) == 1
    assert format_kept(tmp_path, TEST).startswith("2 steps are kept: run this test")


def test_later_tasks_stay_until_they_are_repeated(begin: Begin) -> None:
    draft = begin()
    draft.end(done(CLICK), HOLDS)
    begin(2, "Leave", draft=draft)
    draft.keep(done(ENTER))
    kept = found(begin)
    draft = begin()
    draft.repeat(kept.tasks)
    assert draft.due("Pay").answer
    draft.note_repeated(done(CLICK))
    draft.keep(done(CLICK))
    draft.keep(done(CLICK, CLICK))
    assert actions(begin) == [CLICK, CLICK, ENTER]


@pytest.mark.parametrize("number", [1, 2])
def test_changed_task_is_not_due(begin: Begin, number: int) -> None:
    begin().keep(done(CLICK))
    kept = found(begin)
    draft = begin(number)
    draft.repeat(kept.tasks)
    assert not draft.due("Pay" if number == 2 else "Pay less").steps
    assert "its task 1 was 'Pay'. Start again" in draft.problem


def test_run_with_draft_outlives_limit(begin: Begin, tmp_path: Path) -> None:
    begin().keep(done(CLICK))
    (draft,) = tmp_path.glob("*/draft.json")
    large = RunDirectory.create(tmp_path, new_run_id(), TEST).path
    (large / "screens" / "large").write_bytes(bytes(2_000_000))
    for run in (draft.parent, large):
        write_finished_test(run, FinishedTest(TEST, "passed"))
    make_room(tmp_path, 1, keep=())
    assert draft.exists()
    assert not large.exists()


def test_discarded_draft_leaves_nothing(begin: Begin, tmp_path: Path) -> None:
    draft = begin()
    draft.keep(done(CLICK))
    assert len([*tmp_path.glob("*/screens/*.png")]) == 1
    draft.discard()
    draft.keep(done(CLICK, CLICK))
    assert actions(begin) == []
    assert [*tmp_path.glob("*/screens/*.png")] == []


def test_undone_text_is_repeated_but_not_written(begin: Begin) -> None:
    draft = begin()
    draft.keep(done(CLICK, TypeText("ali"), ENTER))
    (task,) = draft.undone(done(CLICK, TypeText("ali"), ENTER), 2)
    assert [step.action for step in task.steps] == [CLICK, TypeText("ali")]
    assert actions(begin) == [CLICK]
