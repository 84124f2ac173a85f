"""A closed gate that a reviewer continues by hand: the steps replace recorded ones up to the gate that is then open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pytest_vnc_use.errors import RecordingDrifted
from pytest_vnc_use.recordings.accept import Answer, Review, Reviewer
from pytest_vnc_use.recordings.format import RecordedRun, RecordedStep, Screen
from pytest_vnc_use.recordings.images import pixels_in
from pytest_vnc_use.recordings.replay import Replay
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.types import Action, Click, DesktopAction, Observation, Wait
from pytest_vnc_use.types.protocols import Controller
from support.memory_desktop import PaintedController, painted

FIRST, SECOND, THIRD, BY_HAND = Click(1, 1), Click(2, 2), Click(3, 3), Click(9, 9)
CHANGED, SAME, END = 90, 40, 200


def screen(shade: int) -> Screen:
    return Screen(pixels=lambda: pixels_in(painted(shade)))


RUN = RecordedRun(
    task="Click",
    steps=(
        RecordedStep(action=FIRST, screen=screen(10)),
        RecordedStep(action=SECOND, screen=screen(SAME)),
        RecordedStep(action=THIRD, screen=screen(SAME)),
    ),
    end=screen(END),
)


class Changed(PaintedController):
    """A desktop whose first screen is not as recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.other_than_painted = CHANGED

    def perform(self, action: DesktopAction) -> None:
        super().perform(action)
        self.other_than_painted = {FIRST: SAME, THIRD: END}.get(action, self.other_than_painted)  # type: ignore[call-overload]


def reviewed(tmp_path: Path, shade: int, choice: int | None) -> tuple[Review, list[list[int]]]:
    """Return a review by a user who continues by hand until a screen is shown, and the choices that were offered."""
    offered = []

    def hand(task: str, due: Sequence[str], desktop: Controller) -> RecordedRun | str:
        assert isinstance(desktop, Changed)
        desktop.other_than_painted = shade
        return RecordedRun(task="", steps=(RecordedStep(action=BY_HAND, screen=screen(CHANGED)),), end=screen(shade))

    def choose(title: str, choices: Mapping[int, tuple[str, Screen]]) -> int | None:
        offered.append([*choices])
        return choice

    review = Review(Reviewer(lambda question: Answer("hand")), "test_it", refused={}, hand=hand, choose=choose)
    review.directory = RunDirectory.create(tmp_path, "run")
    return review, offered


def replayed(replay: Replay) -> list[Action]:
    """Return the actions of a replay, as a run goes through them."""
    actions: list[Action] = []
    while True:
        frame = replay.frame()
        seen = Observation("Click", frame.ref, frame.ref, (), lambda _, png=frame.png: png)  # type: ignore[misc]
        decision = replay.decide(seen, timeout_s=1.0)
        if decision.kind == "finished":
            return actions
        action = decision.proposals[0].action
        actions.append(action)
        replay.perform(action)  # type: ignore[arg-type]  # it is one of a desktop
        replay.settle()


@pytest.mark.parametrize(
    ("shade", "choice", "offered", "actions"),
    [
        (10, None, [], [BY_HAND, FIRST, SECOND, THIRD]),
        (SAME, 2, [[1, 2]], [BY_HAND, THIRD]),
        (END, None, [], [BY_HAND]),
    ],
    ids=["closed gate opens", "two gates open", "end is reached"],
)
def test_replay_continues_at_gate_that_opens(
    tmp_path: Path, shade: int, choice: int | None, offered: list[list[int]], actions: list[Action]
) -> None:
    review, seen = reviewed(tmp_path, shade, choice)
    desktop = Changed()
    replay = Replay(desktop, RUN, review=review, watch_s=0.0)
    assert replayed(replay) == actions
    performed = [action for action in desktop.performed if not isinstance(action, Wait)]
    assert performed == [action for action in actions if action != BY_HAND]
    assert seen == offered
    assert [step.action for step in replay.run.steps] == actions
    (history,) = review.replaced
    assert history.steps == f"1 by hand for {4 - len(actions)} recorded from step 1"


def test_replay_without_choice_drifts(tmp_path: Path) -> None:
    review, seen = reviewed(tmp_path, 123, None)
    with pytest.raises(RecordingDrifted, match="it was not chosen where the recording continues"):
        replayed(Replay(Changed(), RUN, review=review))
    assert seen == [[0, 1, 2, 3]]
