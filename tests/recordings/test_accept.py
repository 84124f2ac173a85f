"""A closed gate under `--vnc-record=accept`: a reviewer accepts, masks, calls it a bug,
or continues by hand.
"""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from pytest_vnc_use import Outcome, RunResult
from pytest_vnc_use.errors import RecordingDrifted, RecordingError
from pytest_vnc_use.recordings import Mode
from pytest_vnc_use.recordings.accept import Review
from pytest_vnc_use.recordings.course import Allowances, Course, gate_to
from pytest_vnc_use.recordings.format import (
    Evidence,
    RecordedStep,
    Recording,
    Screen,
    Segment,
    dynamic_region,
    held,
    named_screens,
)
from pytest_vnc_use.recordings.gates import mask_of
from pytest_vnc_use.recordings.images import (
    Pixels,
    differing,
    frame_of,
    pixels_in,
    pixels_of,
)
from pytest_vnc_use.recordings.life import AnswerKind, Life, ReviewerAnswered, State
from pytest_vnc_use.recordings.manual import ByHand, Locations
from pytest_vnc_use.recordings.question import NO, NO_MODEL, Answer, Question
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.recordings.replay import Replay
from pytest_vnc_use.recordings.reviewer import ReviewedTest, Reviewer
from pytest_vnc_use.recordings.store import Key, load
from pytest_vnc_use.report.run_view import show_run
from pytest_vnc_use.runs.directory import RunDirectory, read_trace
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    Action,
    Click,
    DesktopAction,
    Frame,
    FrameRef,
    KeyCombo,
    Region,
    Wait,
)
from pytest_vnc_use.types.actions import points
from pytest_vnc_use.types.elements import Element
from pytest_vnc_use.types.protocols import Controller
from pytest_vnc_use.types.verdicts import end_state_claim
from support import vnc_servers
from support.agents import agent_of
from support.images import SIZE, numbers
from support.json_server import Reply
from support.judges import CLAIM, Says
from support.memory_desktop import PaintedController, painted, replayed
from support.tills import ADD_WHEN_MOVED, PAY, STEPS, Steps, Tills
from support.witness_programs import chromium, element, openbox, serving_pages


class User:
    """A reviewer with prepared answers; then it is no. `questions` are those that were
    asked.
    """

    def __init__(self, *answers: AnswerKind) -> None:
        self.questions: list[Question] = []
        self._answers = iter(answers)
        self.reviewer = Reviewer(self._answer)

    def _answer(self, question: Question) -> Answer:
        self.questions.append(question)
        kind = next(self._answers, None)
        return Answer(kind) if kind else NO

    def review(
        self,
        tills: Tills,
        fault: str,
        planner: Steps | None = None,
        *,
        claims: bool = False,
        gate_s: float = 1.0,
    ) -> str:
        """Replay a till with a fault, as a test does; return how it failed, "" if it
        passed.
        """
        refused = {} if planner else {"model": NO_MODEL}
        name = "test_till.py::test_till"
        reviewed = ReviewedTest(self.reviewer, name, refused=refused)
        with tills.agent(
            "replay",
            planner,
            f"--fault={fault}",
            gate_s=gate_s,
            judge=Says(),
            reviewed=reviewed,
        ) as played:
            try:
                assert played.run().outcome is Outcome.DONE
                assert not claims or played.agent.assess(CLAIM).kind == "holds"
                played.agent.end_body()
            except (AssertionError, RecordingDrifted) as exc:
                return f"{type(exc).__name__}: {exc}"
            played.recorded.write()
        return ""


def review_of(
    reviewer: Reviewer, runs: Path, recording: Recording | None = None
) -> Review:
    """Return the review of a test that runs."""
    directory = RunDirectory.create(runs, "run")
    return Review(ReviewedTest(reviewer, "test_it", directory=directory), recording)


def segment_of(screen: Screen, *steps: RecordedStep) -> Segment:
    """Return a segment that ends with a screen."""
    return Segment(task="Click", steps=steps, end=screen)


def recording_of(segment: Segment) -> Recording:
    return Recording(test="test_it", screen_size=(200, 100), segments=(segment,))


def ask(review: Review, segment: Segment, number: int, now: Pixels) -> AnswerKind:
    """Ask about a gate that a screen does not open, and return the answer."""
    gate = gate_to(segment, number)
    differs = gate.mismatch(now)
    assert differs
    return review.ask(gate, frame_of(now), differs, segment, number).kind


def files_of(tills: Tills) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes()
        for file in tills.key.path.parent.rglob("*")
        if file.is_file()
    }


@pytest.mark.slow
def test_accepted_and_masked_changes_are_asked_once(recorded: Tills) -> None:
    before = files_of(recorded)
    user = User("accept", "mask")
    assert user.review(recorded, "wrong total") == ""
    first, second = user.questions
    assert all(image.read_bytes().startswith(b"\x89PNG") for image in first.images)
    assert second.offer.masked_px > 500

    after = files_of(recorded)
    recording = recorded.recording
    changed = {name for name in after if after[name] != before.get(name)}
    # a busy machine may have drawn a screen in two parts
    kept = {name for name in changed if "transient" not in name}
    assert kept == {"recording.json", "s3.webp", "s4.webp", "end1.webp"}
    assert [change.by for change in recording.history] == [getpass.getuser()]
    assert recording.masks
    assert User().review(recorded, "wrong total") == ""
    assert files_of(recorded) == after


@pytest.mark.slow
def test_reviewer_is_asked_once_screen_rests(recorded: Tills) -> None:
    user = User("accept", "mask")
    # a gate waited for would take longer than a test may
    assert user.review(recorded, "wrong total", gate_s=3600.0) == ""
    assert len(user.questions) == 2


@pytest.mark.slow
def test_mask_at_gate_hides_nothing_elsewhere(recorded: Tills) -> None:
    user = User("mask_gate", "accept", "accept")
    assert user.review(recorded, "wrong total") == ""
    recording = recorded.recording
    assert recording.masks == ()
    offer = user.questions[0].offer
    (masked,) = (named for named in named_screens(recording) if named.screen.masks)
    assert masked.screen.masks == offer.masks
    assert masked.name == offer.concerned["mask_gate"]
    assert offer.concerned["mask"].startswith("all 5 gates")
    assert User().review(recorded, "wrong total") == ""


def test_answer_after_recording_changed_is_not_written(recorded: Tills) -> None:
    user = User()
    file = recorded.key.path

    def answer(question: Question) -> Answer:
        file.write_bytes(b"edited")
        return Answer("accept")

    user.reviewer = Reviewer(answer)
    with pytest.raises(RecordingError, match="has changed since this test began"):
        user.review(recorded, "spelling")
    assert file.read_bytes() == b"edited"


@pytest.mark.slow
@pytest.mark.parametrize("holds", [False, True], ids=["denied", "accepted"])
def test_claim_whose_evidence_changed_is_asked(judged: Tills, holds: bool) -> None:
    before = files_of(judged)
    # the total is another one after each apple; at the end it is as after the second
    user = User(*["accept"] * (3 if holds else 2))  # type: ignore[arg-type]
    failure = user.review(judged, "wrong total", claims=True)
    assert [question.claim for question in user.questions] == ["", "", CLAIM]
    assert (failure == "") == holds
    assert (files_of(judged) == before) != holds


def test_moved_target_cannot_be_accepted(recorded: Tills) -> None:
    before = files_of(recorded)
    user = User("accept")
    failure = user.review(recorded, "moved button")
    assert failure.startswith("RecordingDrifted: drift before step 2 of 4, click at ")
    (question,) = user.questions
    assert question.acts[0] == "step 2, click at (140, 224)"
    cannot = "cannot be accepted, because the target of step 2, click at (140, 224), is"
    assert f"{cannot} at (240, 224) now" in failure
    assert "accept it: --vnc-record=accept" not in failure
    assert files_of(recorded) == before


WHITE = np.full((100, 200), 0xFFFFFF, np.uint32)
Buttons = Mapping[str, tuple[int, int]]
"""The left and right edge of each button, by its label."""
OPEN_AND_SAVE: Buttons = {"Open": (40, 76), "Save": (100, 136), "Exit": (240, 276)}
SAVE = Click(118, 112)


def toolbar(buttons: Buttons, colours: tuple[str, str, str]) -> Pixels:
    """Draw buttons; `colours` are of the window, of a button, and of ink."""
    window, fill, ink = colours
    image = Image.new("RGB", SIZE, window)
    draw = ImageDraw.Draw(image)
    for label, (left, right) in buttons.items():
        draw.rectangle((left, 100, right - 1, 123), fill, ink)
        middle = (left + right) / 2, 112
        draw.text(middle, label, ink, anchor="mm")
    return numbers(image)


RAISED = ("#e0e0e0", "#ffffff", "#000000")
FLAT = ("#ffffff", "#ffffff", "#000000")
DARK = ("#202020", "#404040", "#ffffff")


class Toolbar(PaintedController):
    """A desktop that shows these pixels, whatever is clicked."""

    def __init__(self, shown: Pixels) -> None:
        super().__init__()
        self.shown = shown

    def frame(self) -> Frame:
        return frame_of(self.shown)


@pytest.mark.parametrize("colours", [RAISED, FLAT], ids=["raised", "flat"])
@pytest.mark.parametrize(
    ("now", "why"),
    [
        ({"Save": (200, 236)}, "is at (218, 112) now"),
        # "Exit" is 12 pixels from the click, and as near to where "Save" is now
        ({"Exit": (130, 166), "Save": (170, 206)}, "is at (188, 112) now"),
        ({"Exit": (130, 166), "Save": None}, "is not there now"),
        ({"Exit": (100, 136), "Save": None}, "has what was at (258, 112) in its place"),
        ({"Save": None, "Open": (88, 112)}, "is not there now"),
        ({"Save": None, "Keep": (100, 136)}, ""),
        ({"Save": None, "Save as": (88, 148)}, ""),
        ({"Save": None, "Save as": (100, 160)}, ""),
    ],
    ids=[
        "moved",
        "beside neighbour",
        "gone and neighbour near",
        "neighbour in its place",
        "gone and half of neighbour",
        "renamed",
        "renamed and wider",
        "renamed and wider to one side",
    ],
)
def test_replay_clicks_no_target_that_moved(
    tmp_path: Path,
    now: Mapping[str, tuple[int, int] | None],
    why: str,
    colours: tuple[str, str, str],
) -> None:
    recorded = Screen(pixels=held(toolbar(OPEN_AND_SAVE, colours)))
    save = Element("button", "Save", Region(100, 100, 136, 124))
    step = RecordedStep(action=SAVE, screen=recorded, elements=(save,))
    run = segment_of(recorded, step)
    buttons = {name: at for name, at in {**OPEN_AND_SAVE, **now}.items() if at}
    desktop = Toolbar(toolbar(buttons, colours))
    user = User("accept")
    review = review_of(user.reviewer, tmp_path)
    course = Course(run, Allowances(review=review))
    cannot = 'It cannot be accepted, because the target of step 1, click "Save" '

    with pytest.raises(RecordingDrifted, match=cannot) if why else nullcontext():
        replayed(Replay(desktop, course, watch_s=0.0))
    assert desktop.performed == ([] if why else [SAVE])
    moved = (f'the target of step 1, click "Save" (button), {why}',) if why else ()
    assert user.questions[0].offer.moved == moved


def test_replay_clicks_target_that_is_two_pixels_lower(tmp_path: Path) -> None:
    def link(y: int) -> Pixels:
        image = Image.new("RGB", SIZE, "white")
        ImageDraw.Draw(image).text((118, y), "Save", "navy", anchor="mm")
        return numbers(image)

    recorded = Screen(pixels=held(link(112)))
    run = segment_of(recorded, RecordedStep(action=SAVE, screen=recorded))
    review = review_of(User("accept", "accept").reviewer, tmp_path)
    course = Course(run, Allowances(review=review))
    assert replayed(Replay(Toolbar(link(114)), course, watch_s=0.0)) == [SAVE]


def test_replay_accepts_other_theme(tmp_path: Path) -> None:
    recorded = Screen(pixels=held(toolbar(OPEN_AND_SAVE, RAISED)))
    run = segment_of(recorded, RecordedStep(action=SAVE, screen=recorded))
    desktop = Toolbar(toolbar(OPEN_AND_SAVE, DARK))
    review = review_of(User("accept", "accept").reviewer, tmp_path)
    course = Course(run, Allowances(review=review))
    assert replayed(Replay(desktop, course, watch_s=0.0)) == [SAVE]


BOOKED = """<!doctype html><title>Tickets</title>
<style>button {{ width: 200px; height: 60px; font-size: 20px }}</style>
<button onclick="done.textContent = 'Thank you'">{label}</button><p id=done>No ticket"""


@pytest.mark.browser
def test_accepted_label_is_name_of_recorded_step(tmp_path: Path) -> None:
    label = "Book"

    def page(path: str) -> Reply:
        return Reply(
            BOOKED.format(label=label).encode(), headers={"Content-Type": "text/html"}
        )

    with (
        serving_pages(page, print) as url,
        vnc_servers.tigervnc((800, 600)) as server,
        openbox(server),
        chromium(server, url) as browser,
    ):
        key = Key(tmp_path / "test_it.py", "test_it.py::test_it")
        settings = Settings(
            server=server.address,
            cdp=browser.address,
            runs_dir=str(tmp_path / "runs"),
        )

        def play(mode: Mode, reviewed: ReviewedTest | None = None) -> RunResult:
            browser.navigate(url)
            planner = Steps(Click(*element(browser, label).centre))
            recorded_test = RecordedTest(key, mode, reviewed=reviewed)
            with agent_of(
                settings,
                planner=planner,
                judge=Says(),
                recorded_test=recorded_test,
                can_ask=False,
            ) as agent:
                result = agent.run("Book a ticket")
                agent.end_body()
                assert recorded_test.write()
                return result

        play("rewrite")
        label = "Reserve"
        user = User("accept", "accept")
        replayed_run = play("replay", ReviewedTest(user.reviewer, key.test))
    recording = load(key.path)
    assert recording
    (element_now,) = recording.segments[0].steps[0].elements
    assert element_now
    assert element_now.name == "Reserve"
    assert user.questions[0].acts == ('step 1, click "Book" (button)',)
    assert 'click "Reserve" (button)' in replayed_run.transcript


def test_model_continues_where_reviewer_lets_it(recorded: Tills) -> None:
    user = User("model")
    steps = (Click(*ADD_WHEN_MOVED), Click(*ADD_WHEN_MOVED), Click(*PAY))
    assert user.review(recorded, "moved button", Steps(*steps)) == ""
    recording = recorded.recording
    assert [step.action for step in recording.segments[0].steps] == [STEPS[0], *steps]
    (history,) = recording.history
    assert history.by == getpass.getuser()
    assert history.steps == "steps continued before step 2 of 4, click at (140, 224)"


def test_task_that_model_finished_without_steps_is_accepted() -> None:
    screen = Screen(pixels=held(WHITE))
    recording = recording_of(segment_of(screen))
    review = Review(ReviewedTest(User().reviewer, "test_it"))
    review.notice(ReviewerAnswered("model", steps="steps continued at the end"))
    accepted = review.accepted(recording)
    (segment,) = accepted.segments
    assert segment.steps == ()
    assert segment.end.pixels == screen.pixels
    (change,) = accepted.history
    assert change.steps == "steps continued at the end"


def test_accepted_end_stays_one_image_with_evidence_beside_it(tmp_path: Path) -> None:
    """A new image of the old end would be one more file to commit."""
    now = WHITE.copy()
    now[10:20, 10:40] = 0

    def evidence(claim: str, region: Region | None) -> Evidence:
        shown = Screen(pixels=held(WHITE))
        return Evidence(claim=claim, verdict="holds", region=region, screen=shown)

    claims = (
        evidence(end_state_claim("Click"), None),
        evidence("the total is right", Region(100, 60, 150, 90)),
        evidence("the name is right", Region(10, 10, 40, 20)),
    )
    end = Screen(pixels=held(WHITE))
    done = Segment(task="Click", end=end, claims=claims, confirmed_by="user")
    recording = recording_of(done)
    review = review_of(User("accept").reviewer, tmp_path)
    assert ask(review, done, 0, now) == "accept"
    review.note(end, gate_to(done, 0), now, ())
    (segment,) = review.accepted(recording).segments
    shown = [claim.screen.pixels() for claim in segment.claims]
    assert np.array_equal(segment.end.pixels(), now)
    assert [np.array_equal(pixels, now) for pixels in shown] == [True, True, False]


def striped(first: int, end: int = 60) -> Pixels:
    """Return a white screen with a field of stripes, from a column to another one."""
    pixels = WHITE.copy()
    pixels[48:56, first:end:2] = 0
    return pixels


BESIDE_STRIPES = Click(150, 20)
ON_STRIPES = Click(55, 52)


@pytest.mark.parametrize(
    ("action", "is_offered"), [(ON_STRIPES, False), (BESIDE_STRIPES, True)]
)
def test_answer_not_offered_is_no(
    tmp_path: Path, action: Click, *, is_offered: bool
) -> None:
    screen = Screen(pixels=held(striped(50)))
    first = RecordedStep(action=BESIDE_STRIPES, screen=screen)
    second = RecordedStep(action=action, screen=screen)
    run = segment_of(screen, first, second)
    user = User("model", "mask")
    review = review_of(user.reviewer, tmp_path, recording_of(run))
    now = striped(51)
    assert ask(review, run, 1, now) == "no"
    assert ask(review, run, 1, now) == ("mask" if is_offered else "no")
    offered = [bool(question.offer.masks) for question in user.questions]
    assert offered == [is_offered, is_offered]


def test_earlier_mask_hides_no_target_of_another_test(tmp_path: Path) -> None:
    screen = Screen(pixels=held(striped(50)))
    user = User("mask", "accept")
    for name, action in (("one", BESIDE_STRIPES), ("other", ON_STRIPES)):
        run = segment_of(screen, RecordedStep(action=action, screen=screen))
        review = review_of(user.reviewer, tmp_path / name, recording_of(run))
        ask(review, run, 0, striped(51))
    assert [bool(question.offer.masks) for question in user.questions] == [True, False]


@pytest.mark.parametrize("answer", ["accept", "mask", "bug"])
def test_difference_one_pixel_wider_is_asked_once(
    tmp_path: Path, answer: AnswerKind
) -> None:
    screen = Screen(pixels=held(striped(50, 61)))
    now = striped(51, 61)
    user = User(answer)
    step = RecordedStep(action=BESIDE_STRIPES, screen=screen)
    run = segment_of(screen, step, step)
    gate = gate_to(run, 1)
    review = review_of(user.reviewer, tmp_path, recording_of(run))
    differs = gate.mismatch(now)
    assert differs
    (box,) = differs.boxes
    narrow = replace(differs, boxes=(replace(box, left=box.left + 1),))
    assert review.ask(gate, frame_of(now), narrow, run, 1).kind == answer
    if review.with_accepted(gate, now).mismatch(now):
        assert review.ask(gate, frame_of(now), differs, run, 1).kind == answer
    assert len(user.questions) == 1


def test_question_and_report_show_same_boxes(recorded: Tills) -> None:
    user = User()
    assert user.review(recorded, "wrong total")
    (directory,) = recorded.runs.glob("*-*")
    (drift,) = read_trace(directory).drifts
    (question,) = user.questions
    shown = show_run(directory, compare="all").view.deciding
    assert shown
    assert question.boxes == drift.boxes
    assert shown.pair.boxes == drift.boxes
    assert question.offer.masks == drift.masks
    was, now = (pixels_of(image.read_bytes()) for image in question.images[:2])
    outside = ~mask_of(drift.boxes, now.shape)
    assert not (differing(was, now) & outside).any()


def test_question_has_no_mask_if_nothing_changed(recorded: Tills) -> None:
    user = User("mask")
    assert "nothing changed on the screen" in user.review(recorded, "stuck")
    (question,) = user.questions
    assert question.offer.masks == ()
    assert question.problem.startswith("drift: nothing changed on the screen after")


def test_accepted_screen_is_asked_again_for_other_target(tmp_path: Path) -> None:
    before = np.full((200, 400), 0xFFFFFF, np.uint32)
    now = before.copy()
    before[20:180:2, 20:380:2] = 0
    now[20:180:3, 20:380:3] = 0
    recorded = Screen(pixels=held(before))
    user = User("accept")

    def click_at(x: int, y: int) -> Segment:
        return segment_of(recorded, RecordedStep(action=Click(x, y), screen=recorded))

    def opens(review: Review, run: Segment) -> bool:
        targets = points(run.steps[0].action)
        gate = review.with_accepted(gate_to(run, 0), now, targets)
        return gate.mismatch(now) is None

    one = click_at(60, 60)
    other = click_at(300, 150)
    review_of_one = review_of(user.reviewer, tmp_path / "test_one")
    review_of_other = review_of(user.reviewer, tmp_path / "test_other")
    assert ask(review_of_one, one, 0, now) == "accept"
    assert opens(review_of_one, one)
    assert not opens(review_of_other, other)


FIRST = Click(1, 1)
SECOND = Click(2, 2)
THIRD = Click(3, 3)
BY_HAND = Click(9, 9)
CHANGED = 90
SAME = 40
END = 200


def screen(shade: int) -> Screen:
    return Screen(pixels=lambda: pixels_in(painted(shade)))


SHADES = {FIRST: 10, SECOND: SAME, THIRD: SAME}
STEPS_DUE = tuple(
    RecordedStep(action=action, screen=screen(shade))
    for action, shade in SHADES.items()
)
RUN = Segment(task="Click", steps=STEPS_DUE, end=screen(END))


class Changed(PaintedController):
    """A desktop whose first screen is not as recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.other_than_painted = CHANGED

    def perform(self, action: DesktopAction) -> None:
        super().perform(action)
        self.other_than_painted = {FIRST: SAME, THIRD: END}.get(
            action, self.other_than_painted
        )  # type: ignore[call-overload]


@dataclass
class AtPage:
    """A user at the page who does a step by hand, or none, after which the desktop has
    a shade. `stop` is the gate at which they want to act, and where they then continue:
    None for where the screen is shown.
    """

    shade: int
    choice: int | None = None
    stop: tuple[Screen, int | None] | None = None
    acts: bool = True
    offered: list[list[int]] = field(default_factory=list)
    due: list[str] = field(default_factory=list)

    def show(self, key: Key, segment: Segment) -> None:
        pass

    def stops_before(self, screen: Screen) -> bool:
        return self.stop is not None and screen is self.stop[0]

    def take_over(self, task: str, due: Locations, desktop: Controller) -> ByHand:
        assert isinstance(desktop, Changed)
        self.due = [name for name, _ in due.values()]
        until = self.stop[1] if self.stop else None
        self.stop = None
        desktop.other_than_painted = self.shade
        steps: tuple[RecordedStep, ...] = ()
        if self.acts:
            steps = (RecordedStep(action=BY_HAND, screen=screen(CHANGED)),)
        return ByHand(Segment(task="", steps=steps, end=screen(self.shade)), until)

    def choose(self, title: str, now: Frame, choices: Locations) -> int | None:
        self.offered.append([*choices])
        return self.choice


def reviewed(
    tmp_path: Path, shade: int, choice: int | None
) -> tuple[Review, list[list[int]]]:
    """Return a review by a user who continues by hand until a screen is shown, and the
    choices that were offered.
    """
    user = AtPage(shade, choice)
    test = ReviewedTest(
        Reviewer(lambda question: Answer("hand")),
        "test_it",
        refused={},
        user=user,
        directory=RunDirectory.create(tmp_path, "run"),
    )
    return Review(test), user.offered


def assert_replayed(desktop: Changed, actions: list[Action]) -> None:
    """Assert that the replay performed these actions, but what was done by hand."""
    performed = [action for action in desktop.performed if not isinstance(action, Wait)]
    assert performed == [action for action in actions if action != BY_HAND]


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
    tmp_path: Path,
    shade: int,
    choice: int | None,
    offered: list[list[int]],
    actions: list[Action],
) -> None:
    review, seen = reviewed(tmp_path, shade, choice)
    desktop = Changed()
    replay = Replay(desktop, course_of(review), watch_s=0.0)
    assert replayed(replay) == actions
    assert_replayed(desktop, actions)
    assert seen == offered
    assert [step.action for step in replay.course.segment.steps] == actions
    (history,) = review.replaced
    assert history.steps == f"1 by hand for {4 - len(actions)} recorded from step 1"


def test_replay_without_choice_drifts(tmp_path: Path) -> None:
    review, seen = reviewed(tmp_path, 123, None)
    with pytest.raises(
        RecordingDrifted, match="it was not chosen where the recording continues"
    ):
        replayed(Replay(Changed(), course_of(review)))
    assert seen == [[0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("stop", "acts", "actions", "history"),
    [
        ((1, 1), True, [FIRST, BY_HAND, SECOND, THIRD], ["1 by hand for 0"]),
        ((1, None), True, [FIRST, BY_HAND, SECOND, THIRD], ["1 by hand for 0"]),
        ((1, 2), False, [FIRST, THIRD], ["0 by hand for 1"]),
        ((1, 2), True, [FIRST, BY_HAND, THIRD], ["1 by hand for 1"]),
        ((0, 0), False, [FIRST, SECOND, THIRD], []),
    ],
    ids=["insert", "insert where shown", "skip", "replace", "nothing"],
)
def test_user_acts_where_replay_stops(
    tmp_path: Path,
    stop: tuple[int, int | None],
    acts: bool,
    actions: list[Action],
    history: list[str],
) -> None:
    review, offered = reviewed(tmp_path, SAME, 1)
    user = review.test.user
    assert isinstance(user, AtPage)
    number, until = stop
    user.stop = RUN.screens[number], until
    user.acts = acts
    desktop = Changed()
    desktop.other_than_painted = SHADES[FIRST]
    user.shade = [SHADES[FIRST], SAME][number]
    replay = Replay(desktop, course_of(review), watch_s=0.0)
    assert replayed(replay) == actions
    assert_replayed(desktop, actions)
    assert len(user.due) == 4 - number
    assert user.due[-1] == "at the end"
    assert offered == ([[1, 2]] if until is None else [])
    kept = [step for step in replay.course.segment.steps if step.action != BY_HAND]
    assert {id(step) for step in kept} <= {id(step) for step in STEPS_DUE}
    noted = [each.steps.partition(" recorded")[0] for each in review.replaced]
    assert noted == history


def course_of(review: Review) -> Course:
    """Return a course of `RUN`, to which a reviewer listens."""
    life = Life(State.READY, review)
    return Course(RUN, Allowances(review=review), life=life)


AFTER_WORD = Region(60, 10, 61, 29)
NEXT_LINE = Region(10, 29, 11, 48)
LAST_LINE = Region(10, 48, 11, 67)


def returns(*carets: Region) -> Segment:
    """Return a segment that presses Return between screens with these carets, which
    were off.
    """
    screens = []
    for number, caret in enumerate(carets, 1):
        parts = (dynamic_region(caret, "caret"),)
        screens.append(
            Screen(
                image=f"s{number}.webp",
                digest="0" * 12,
                dynamic=parts,
                pixels=lambda: WHITE,
            )
        )
    steps = [
        RecordedStep(action=KeyCombo(("return",)), screen=before)
        for before in screens[:-1]
    ]
    return Segment(task="Type", steps=tuple(steps), end=screens[-1])


def test_steps_by_hand_are_trusted_with_caret_off() -> None:
    course = Course(returns(AFTER_WORD, NEXT_LINE))
    by_hand = returns(AFTER_WORD, NEXT_LINE, LAST_LINE).steps
    course.replace_steps(0, by_hand)
    for number in range(3):
        assert course.number == number
        frame = FrameRef(str(number), 200, 100)
        assert course.compare(frame, course.screen.pixels) is None
        course.advance()
    # the recorded step that follows must move its caret
    assert course.compare(FrameRef("end", 200, 100), lambda: WHITE)


def test_caret_elsewhere_is_asked_and_recorded(tmp_path: Path) -> None:
    run = returns(AFTER_WORD, NEXT_LINE)
    with pytest.raises(RecordingDrifted, match="nothing changed on the screen after"):
        replayed(Replay(Toolbar(WHITE), Course(run)))

    user = User("accept")
    recording = recording_of(run)
    review = review_of(user.reviewer, tmp_path, recording)
    course = Course(run, Allowances(review=review), life=Life(State.READY, review))
    replayed(Replay(Toolbar(WHITE), course, watch_s=0.0))
    (question,) = user.questions
    assert question.boxes == (NEXT_LINE,)
    (accepted,) = review.accepted(recording).segments
    assert [screen.masks for screen in accepted.screens] == [(), (NEXT_LINE,)]
    replayed(Replay(Toolbar(WHITE), Course(accepted), watch_s=0.0))
