"""A closed gate under `--vnc-record=accept`: a reviewer accepts, masks, calls it a bug, or continues by hand."""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from pytest_vnc_use import Outcome
from pytest_vnc_use.errors import RecordingDrifted, RecordingError
from pytest_vnc_use.recordings.accept import NO, NO_MODEL, Answer, AnswerKind, Question, Review, Reviewer
from pytest_vnc_use.recordings.format import RecordedRun, RecordedStep, Screen
from pytest_vnc_use.recordings.images import frame_of, pixels_in
from pytest_vnc_use.recordings.replay import Replay, gate_to
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.types import Action, Click, DesktopAction, Observation, Wait
from pytest_vnc_use.types.actions import points
from pytest_vnc_use.types.protocols import Controller
from support.judges import CLAIM, Says
from support.memory_desktop import PaintedController, painted
from support.tills import ADD_WHEN_MOVED, PAY, STEPS, Steps, Tills


class User:
    """A reviewer with prepared answers; then it is no. `questions` are those that were asked."""

    def __init__(self, *answers: AnswerKind) -> None:
        self.questions: list[Question] = []
        self._answers = iter(answers)
        self.reviewer = Reviewer(self._answer)

    def _answer(self, question: Question) -> Answer:
        self.questions.append(question)
        return Answer(kind) if (kind := next(self._answers, None)) else NO

    def review(self, tills: Tills, fault: str, planner: Steps | None = None, *, claims: bool = False) -> str:
        """Replay a till with a fault, as a test does; return how it failed, "" if it passed."""
        refused = {} if planner else {"model": NO_MODEL}
        review = Review(self.reviewer, "test_till.py::test_till", refused=refused)
        with tills.agent("replay", planner, f"--fault={fault}", gate_s=1.0, judge=Says(), review=review) as played:
            try:
                assert played.run().outcome is Outcome.DONE
                assert not claims or played.agent.assess(CLAIM).kind == "holds"
                played.agent.end_body()
            except (AssertionError, RecordingDrifted) as exc:
                return f"{type(exc).__name__}: {exc}"
            played.recorded.keep()
        return ""


def files_of(tills: Tills) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in tills.key.path.parent.rglob("*") if file.is_file()}


@pytest.mark.slow
def test_accepted_and_masked_changes_are_asked_once(recorded: Tills) -> None:
    before, user = files_of(recorded), User("accept", "mask")
    assert user.review(recorded, "wrong total") == ""
    assert all(image.read_bytes().startswith(b"\x89PNG") for image in user.questions[0].images)
    assert user.questions[1].masked_px > 500
    after, recording = files_of(recorded), recorded.recording
    changed = {name.rpartition("-")[0] for name in before.keys() ^ after.keys()}
    changed -= {"1-04-transient1", "1-last"}  # a busy machine may have drawn the end in two parts
    assert changed == {"1-03-screen", "1-04-screen", "1-end", "accepted"}
    assert [change.by for change in recording.history] == [getpass.getuser()]
    assert recording.masks
    assert User().review(recorded, "wrong total") == ""
    assert files_of(recorded) == after


def test_answer_after_recording_changed_is_not_written(recorded: Tills) -> None:
    user, file = User(), recorded.key.path

    def answer(question: Question) -> Answer:
        file.write_bytes(b"edited")
        return Answer("accept")

    user.reviewer = Reviewer(answer)
    with pytest.raises(RecordingError, match="has changed since this test began"):
        user.review(recorded, "spelling")
    assert file.read_bytes() == b"edited"


@pytest.mark.slow
def test_claim_whose_evidence_changed_is_asked(judged: Tills) -> None:
    before = files_of(judged)
    for answers in (["accept"] * 2, ["accept"] * 3):
        # the total is another one after each apple; at the end it is as after the second
        user = User(*answers)  # type: ignore[arg-type]
        failure = user.review(judged, "wrong total", claims=True)
        assert [question.claim for question in user.questions] == ["", "", CLAIM]
        holds = len(answers) == 3
        assert (failure == "", files_of(judged) == before) == (holds, not holds)


def test_moved_target_cannot_be_accepted(recorded: Tills) -> None:
    before, user = files_of(recorded), User("accept")
    failure = user.review(recorded, "moved button")
    assert failure.startswith("RecordingDrifted: drift before step 2 of 4: ")
    assert [question.acts[0] for question in user.questions] == ["step 2, click at (140, 224)"]
    assert "cannot be accepted, because the target of step 2 at (140, 224) is at (240, 224) now" in failure
    assert "accept it: --vnc-record=accept" not in failure
    assert files_of(recorded) == before


def test_model_continues_where_reviewer_lets_it(recorded: Tills) -> None:
    user = User("model")
    steps = (Click(*ADD_WHEN_MOVED), Click(*ADD_WHEN_MOVED), Click(*PAY))
    assert user.review(recorded, "moved button", Steps(*steps)) == ""
    recording = recorded.recording
    assert [step.action for step in recording.runs[0].steps] == [STEPS[0], *steps]
    (history,) = recording.history
    assert (history.by, history.steps) == (getpass.getuser(), "steps continued before step 2 of 4")


@pytest.mark.parametrize(("at", "is_offered"), [((55, 52), False), ((150, 20), True)])
def test_answer_not_offered_is_no(tmp_path: Path, at: tuple[int, int], *, is_offered: bool) -> None:
    before, now = np.full((100, 200), 0xFFFFFF, np.uint32), np.full((100, 200), 0xFFFFFF, np.uint32)
    before[48:56, 50:60:2] = now[48:56, 51:60:2] = 0
    screen = Screen(pixels=lambda: before)
    steps = tuple(RecordedStep(action=action, screen=screen) for action in (Click(150, 20), Click(*at)))
    run, user = RecordedRun(task="Click", steps=steps, end=screen), User("model", "mask")
    review = Review(user.reviewer, "test_it", RunDirectory.create(tmp_path, "run"))
    answers = [review.ask(gate_to(run, 1), frame_of(now), "it differs", run, [at]).kind for _ in range(2)]
    assert answers == ["no", "mask" if is_offered else "no"]
    assert [bool(question.masks) for question in user.questions] == [is_offered] * 2


def test_accepted_screen_is_asked_again_for_other_target(tmp_path: Path) -> None:
    before, now = np.full((200, 400), 0xFFFFFF, np.uint32), np.full((200, 400), 0xFFFFFF, np.uint32)
    before[20:180:2, 20:380:2] = now[20:180:3, 20:380:3] = 0
    recorded, user = Screen(pixels=lambda: before), User("accept")
    runs = [
        RecordedRun(task="Click", steps=(RecordedStep(action=Click(*at), screen=recorded),), end=recorded)
        for at in ((60, 60), (300, 150))
    ]
    reviews = [Review(user.reviewer, name, RunDirectory.create(tmp_path, name)) for name in ("test_one", "test_other")]
    assert reviews[0].ask(gate_to(runs[0], 0), frame_of(now), "it differs", runs[0], [(60, 60)]).kind == "accept"
    opened = [
        review.opened(gate_to(run, 0), now, points(run.steps[0].action)).mismatch(now) is None
        for review, run in zip(reviews, runs, strict=True)
    ]
    assert opened == [True, False]


FIRST, SECOND, THIRD, BY_HAND = Click(1, 1), Click(2, 2), Click(3, 3), Click(9, 9)
CHANGED, SAME, END = 90, 40, 200


def screen(shade: int) -> Screen:
    return Screen(pixels=lambda: pixels_in(painted(shade)))


SHADES = {FIRST: 10, SECOND: SAME, THIRD: SAME}
STEPS_DUE = tuple(RecordedStep(action=action, screen=screen(shade)) for action, shade in SHADES.items())
RUN = RecordedRun(task="Click", steps=STEPS_DUE, end=screen(END))


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
        assert [*due] == ["step 1: click at (1, 1)", "step 2: click at (2, 2)", "step 3: click at (3, 3)"]
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
