"""The states of a segment: each walk of legal moves ends passed or reported, and a
replay makes no other move.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.errors import TaskFailed
from pytest_vnc_use.planners.local.scripted import NoPlanner
from pytest_vnc_use.recordings import Mode, record, waiting
from pytest_vnc_use.recordings.format import (
    RecordedStep,
    Recording,
    Screen,
    Segment,
)
from pytest_vnc_use.recordings.images import Pixels, pixels_in
from pytest_vnc_use.recordings.life import (
    FIRST,
    LAST,
    MOVES,
    AnswerKind,
    IllegalMove,
    Life,
    Moved,
    ReviewerAnswered,
    SegmentEvent,
    State,
)
from pytest_vnc_use.recordings.manual import ByHand, Locations
from pytest_vnc_use.recordings.question import Answer, Question
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.recordings.reviewer import ReviewedTest, Reviewer
from pytest_vnc_use.recordings.store import Key, save
from pytest_vnc_use.safety.rules import Policy, ReviewContext
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    ApprovalRequest,
    Decision,
    Frame,
    KeyCombo,
    KeyDown,
    Observation,
    Proposal,
    Ruling,
    RunEvent,
    StepStarted,
)
from pytest_vnc_use.types.protocols import Controller
from support.agents import agent_of
from support.served_screen import SIZE, ServedScreen, served_screen

_LONGEST = 200
"""The moves of the longest walk: a replay waits and acts in turn, so walks have no end
of their own.
"""
_CALM = (State.PASSED, State.REPORTED)


class Heard:
    """A listener that keeps the moves."""

    def __init__(self) -> None:
        self.moves: list[Moved] = []

    def notice(self, event: SegmentEvent) -> None:
        assert isinstance(event, Moved)
        self.moves.append(event)


def exits() -> dict[State, int]:
    """Return the least number of moves from each state to one that settles it."""
    distances = dict.fromkeys(LAST, 0)
    for distance in range(1, len(State)):
        for state in State:
            if state not in distances and distances.keys() & set(MOVES[state]):
                distances[state] = distance
    return distances


@settings(derandomize=True, database=None, max_examples=300, deadline=None)
@given(st.data())
def test_walk_of_legal_moves_ends_passed_or_reported(data: Any) -> None:
    heard = Heard()
    life = Life(data.draw(st.sampled_from(FIRST)), heard)
    for _ in range(_LONGEST):
        if not MOVES[life.state]:
            break
        life.move(data.draw(st.sampled_from(MOVES[life.state])))
    else:  # then it is led out by the shortest way
        distances = exits()
        while life.state not in LAST:
            life.move(min(MOVES[life.state], key=distances.__getitem__))
    assert [life.has_been(state) for state in _CALM].count(True) == 1
    assert heard.moves[0].before in FIRST
    assert heard.moves[-1].after is life.state
    assert all(one.after is other.before for one, other in pairwise(heard.moves))


def test_states_lead_to_an_end_and_are_reached() -> None:
    assert exits().keys() == set(State)
    reached = set(FIRST)
    for _ in State:
        for state in tuple(reached):
            reached.update(MOVES[state])
    assert reached == set(State)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (before, after)
        for before, after in product(State, State)
        if after not in MOVES[before]
    ],
    ids=lambda state: state.title,
)
def test_illegal_move_is_refused(before: State, after: State) -> None:
    heard = Heard()
    life = Life(before, heard)
    with pytest.raises(IllegalMove, match=f"from '{before.title}' to '{after.title}'"):
        life.move(after)
    assert life.state is before
    assert heard.moves == []


@pytest.mark.parametrize("state", [*LAST, State.MOVED_ON, State.FINISHED])
def test_nothing_is_performed_after_end(state: State) -> None:
    assert State.ACTING not in MOVES[state]


@pytest.mark.parametrize("state", [State.DRIFTED, State.BUG])
def test_nothing_is_performed_or_passed_after_drift(state: State) -> None:
    assert not {State.WAITING, State.ACTING, State.PASSED} & set(MOVES[state])


PRESS = KeyCombo(("a",))
ANSWERS: tuple[AnswerKind, ...] = ("accept", "mask", "bug", "model", "hand", "no")
OTHER = 0xC03030
SEEDS = (16, 19, 22, 23, 30, 33, 35, 58, 69)
"""Together these walks have each answer, and each state that a replay may have."""


class Walk:
    """A recording of one or two tasks whose screens differ, from a step on, from those
    that are served; and what a reviewer, a planner and a body do with it, by chance.

    `presses` counts those that no replay made, `told` what was announced. It
    `must_fail` where a screen differs, and no one may continue.
    """

    name = "presses"

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.presses = 0
        self.told: list[tuple[Life, SegmentEvent]] = []
        self.must_fail = False
        self.recording = self._recording()

    def _recording(self) -> Recording:
        lengths = [self.chance.randint(1, 3) for _ in range(self.chance.randint(1, 2))]
        differs_from = self.chance.randint(0, sum(lengths) + 2)
        self.must_fail = differs_from <= sum(lengths)
        segments = []
        number = 0
        for length in lengths:
            screens = [
                Screen(pixels=partial(shown, count, count >= differs_from))
                for count in range(number, number + length + 1)
            ]
            steps = [RecordedStep(action=PRESS, screen=it) for it in screens[:-1]]
            segments.append(
                Segment(
                    task=f"Press from {number} on",
                    planner=self.name,
                    steps=tuple(steps),
                    end=screens[-1],
                    stays=self.chance.random() < 0.5,
                )
            )
            number += length
        return Recording(test="test_it", screen_size=SIZE, segments=tuple(segments))

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """The planner: press once more, or finish."""
        if self.chance.random() < 0.5:
            return Decision("finished", "pressed")
        self.presses += 1
        return Decision("act", proposals=(Proposal(PRESS),))

    def answer(self, question: Question) -> Answer:
        return Answer(self.chance.choice(ANSWERS))

    def show(self, key: Key, segment: Segment) -> None:
        pass

    def stops_before(self, screen: Screen) -> bool:
        return False

    def take_over(self, task: str, due: Locations, desktop: Controller) -> ByHand | str:
        before = desktop.frame()
        if self.chance.random() < 0.3:
            return "nothing was done"
        self.presses += 1
        desktop.perform(PRESS)
        screen = Screen(pixels=partial(pixels_in, before))
        step = RecordedStep(action=PRESS, screen=screen)
        end = Screen(pixels=partial(pixels_in, desktop.frame()))
        return ByHand(Segment(task=task, steps=(step,), end=end))

    def choose(self, title: str, now: Frame, choices: Locations) -> int | None:
        return self.chance.choice([None, *choices])

    def reviewed(self) -> ReviewedTest:
        return ReviewedTest(Reviewer(self.answer), "test_it", refused={}, user=self)

    def run(self, directory: Path) -> bool:
        """Replay the recording as a test does; return whether the test passed."""
        key = Key(directory / "test_it.py", "test_it")
        save(key.path, self.recording)
        mode: Mode = self.chance.choice(["auto", "replay"])
        reviewed = None
        if mode == "replay" and self.chance.random() < 0.7:
            reviewed = self.reviewed()
        self.must_fail &= mode == "replay" and reviewed is None
        recorded = RecordedTest(key, mode, reviewed=reviewed, redacts=False)
        with served_screen() as screen:
            options = Settings(
                server=screen.address,
                runs_dir=str(directory / "runs"),
                watch=False,
                gate_seconds=0.2,
                watch_seconds=0.0,
                step_delay=0.0,
            )
            with agent_of(options, planner=self, recorded_test=recorded) as agent:
                has_passed = self._play(agent)
            recorded.finish(has_passed=has_passed)
            assert screen.presses <= self.moves_to(State.ACTING) + self.presses
        return has_passed

    def _play(self, agent: VncUseAgent) -> bool:
        try:
            for segment in self.recording.segments:
                agent.run(segment.task, expect=None, check=True)
                if self.chance.random() < 0.2:
                    self.presses += 1
                    agent.perform(PRESS)
            agent.end_body()
        except TaskFailed:
            return False
        return True

    def moves_to(self, state: State) -> int:
        return sum(
            isinstance(event, Moved) and event.after is state for _, event in self.told
        )

    def answers(self, *kinds: AnswerKind) -> int:
        return sum(
            isinstance(event, ReviewerAnswered) and event.kind in kinds
            for _, event in self.told
        )


def shown(presses: int, differs: bool) -> Pixels:
    """Return what is served after so many presses; `differs`: as recorded otherwise."""
    screen = ServedScreen(0x2070B0, forgets=False, resets=False, size=SIZE)
    for _ in range(presses):
        list(screen.receive(KeyDown("a")))
    if differs:
        screen.pixels[200:220, 200:220] = OTHER
    return screen.pixels


class Asks(Policy):
    """A policy that lets nothing happen without a user's approval."""

    def review(self, proposal: Proposal, context: ReviewContext) -> Ruling:
        return replace(super().review(proposal, context), kind="ask")


class Yes:
    def approve(self, question: ApprovalRequest) -> bool:
        return True


def test_approved_step_acts_before_next_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screens = [Screen(pixels=partial(shown, count, False)) for count in range(3)]
    steps = tuple(RecordedStep(action=PRESS, screen=it) for it in screens[:2])
    segment = Segment(task="Press twice", steps=steps, end=screens[2])
    recording = Recording(test="test_it", screen_size=SIZE, segments=(segment,))
    key = Key(tmp_path / "test_it.py", "test_it")
    save(key.path, recording)
    announce = Life.announce
    order: list[str] = []

    class Steps:
        def observe(self, event: RunEvent) -> None:
            if isinstance(event, StepStarted):
                order.append(f"step {event.number}")

    def note(life: Life, event: SegmentEvent) -> None:
        if isinstance(event, Moved) and event.before is State.ACTING:
            order.append("gate")
        announce(life, event)

    monkeypatch.setattr(Life, "announce", note)
    with served_screen() as screen:
        options = Settings(
            server=screen.address, runs_dir=str(tmp_path / "runs"), gate_seconds=5.0
        )
        with agent_of(
            options,
            planner=NoPlanner(),
            recorded_test=RecordedTest(key, "replay", redacts=False),
            policy=Asks(),
            approver=Yes(),
            observers=[Steps()],
        ) as agent:
            result = agent.run(segment.task, expect=None, check=True)
    assert [step.ruling.by for step in result.steps] == ["user", "user"]
    assert order == ["step 1", "gate", "step 2", "gate"]


@pytest.mark.parametrize("seed", SEEDS)
def test_replay_acts_at_open_gates_and_reaches_an_end(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = Walk(seed)
    announce = Life.announce

    def note(life: Life, event: SegmentEvent) -> None:
        walk.told.append((life, event))
        announce(life, event)

    monkeypatch.setattr(Life, "announce", note)
    monkeypatch.setattr(waiting, "BACK_S", 0.1)
    monkeypatch.setattr(record, "STABLE_S", 0.0)
    has_passed = walk.run(tmp_path)
    lives = {life for life, _ in walk.told}
    ends = {life.state for life in lives}
    assert not (walk.must_fail and has_passed)
    assert ends <= {*LAST}
    assert (State.REPORTED in ends) is not has_passed
    assert walk.moves_to(State.ACCEPTED) == walk.answers("accept", "mask")
    assert walk.moves_to(State.BY_USER) == walk.answers("hand")
    assert walk.moves_to(State.BUG) == walk.answers("bug")
