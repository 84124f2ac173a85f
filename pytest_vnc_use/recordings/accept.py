"""A screen that changed on purpose: a reviewer accepts it, masks it or calls it a bug, while the replay waits.

Each difference is asked about once a session: where the same pixels were recorded and the same ones are there now, at
the same place, the same answer holds. The recording gets what was accepted once the whole test has passed.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

import numpy as np

from pytest_vnc_use import clock
from pytest_vnc_use.backends.pixels import boxes_of
from pytest_vnc_use.deadline import uncounted
from pytest_vnc_use.recordings.drift import cell_around, offered_masks
from pytest_vnc_use.recordings.format import (
    Accepted,
    Evidence,
    RecordedRun,
    Recording,
    Screen,
    held,
    with_screens,
)
from pytest_vnc_use.recordings.gates import Gate, mask_of
from pytest_vnc_use.recordings.images import Mask, Pixels, differing, frame_of, pixels_in
from pytest_vnc_use.recordings.same_text import really_differing
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.types import REDACTED_COLOUR, Frame, Region
from pytest_vnc_use.types.actions import Point, points
from pytest_vnc_use.types.protocols import Controller

_SAME_TARGET_PX = 20
"""The distance within which two recorded points of one changed cell are one target."""
_TARGET_PX = (48, 24)
"""The size of the part of a target that is looked for elsewhere, to see that the target has moved."""
_MAX_PLACES = 4_000
"""The most places at which a moved target is looked for."""
_BORDER_PX = 3
"""How far the boxes in the image of a difference are from it."""


@dataclass(frozen=True)
class Question:
    """What a reviewer decides: whether a screen is right now; with a `claim`, whether it holds there.

    `boxes` is what differs. `masks` are what "mask" would hide; there are none where that is not offered. `acts` are
    the recorded actions within the changed cells; `moved` says which of their targets have moved, and then the screen
    cannot be accepted. `images` are the files of the recorded screen, of the one now, and of the difference. `refused`
    says of an answer why it is not possible.
    """

    test: str
    problem: str
    boxes: tuple[Region, ...]
    images: tuple[Path, Path, Path]
    masks: tuple[Region, ...] = ()
    masked_px: int = 0
    acts: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    claim: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)


AnswerKind = Literal["accept", "mask", "bug", "model", "hand", "no"]


@dataclass(frozen=True)
class Answer:
    """A reviewer's answer, with the text about a bug, or why no user could be asked."""

    kind: AnswerKind
    text: str = ""


NO = Answer("no")
OVER = "the task is over: only its last screen is left to check"
NO_MODEL = "no planner is set (--vnc-planner=gemini)"
NO_PAGE = "only the page shows the desktop (--vnc-ui)"
Ask = Callable[[Question], Answer]


@dataclass(frozen=True, eq=False)
class Change:
    """A difference in a `box`, with the recorded pixels and the ones now of the whole `cell` around it."""

    box: Region
    cell: Region
    size: tuple[int, ...]
    old: Pixels
    new: Pixels
    compared: Mask

    def is_in(self, recorded: Pixels, seen: Pixels | None = None, ignored: Mask | None = None) -> bool:
        """Return whether a recorded screen has the old pixels here, and the screen now the new ones."""
        if recorded.shape != self.size:
            return False
        compared = self.compared if ignored is None else self.compared & ~self.cell.part_of(ignored)
        pairs = [(self.old, recorded)] + ([] if seen is None else [(self.new, seen)])
        return not any((differing(known, self.cell.part_of(screen)) & compared).any() for known, screen in pairs)


def changes_of(gate: Gate, seen: Pixels, opened: Gate | None = None) -> list[Change]:
    """Return the differences of a screen from a gate, one for each box; those only that `opened` is closed to."""
    changes = []
    for box in boxes_of(really_differing((opened or gate).expected, seen) & ~gate.ignored):
        cell = cell_around(box, gate.expected, seen)
        old, new = (cell.part_of(screen).copy() for screen in (gate.expected, seen))
        changes.append(Change(box, cell, seen.shape, old, new, ~cell.part_of(gate.ignored)))
    return changes


def painted(screen: Pixels, changes: Iterable[Change]) -> Pixels:
    """Return a copy of a screen with these changes. What is redacted now stays as it was."""
    painted_screen: Pixels = screen.copy()
    for change in changes:
        (x, y), box = (change.cell.left, change.cell.top), change.box
        inside = Region(box.left - x, box.top - y, box.right - x, box.bottom - y)
        new = inside.part_of(change.new)
        shown = inside.part_of(change.compared) & (new != REDACTED_COLOUR)
        box.part_of(painted_screen)[shown] = new[shown]
    return painted_screen


@dataclass(frozen=True)
class _Answered:
    """An answer about one change, when it came, the points that it was given for, and the claim that it is about."""

    change: Change
    answer: Answer
    at: datetime
    points: tuple[Point, ...] = ()
    claim: str = ""

    def covers(self, due: Iterable[Point]) -> bool:
        """Return whether the answer holds for actions at these points: none is in the changed cell, or it was asked."""
        return all(
            any(max(abs(x - px), abs(y - py)) <= _SAME_TARGET_PX for px, py in self.points)
            for x, y in due
            if self.change.cell.holds((x, y))
        )


class Reviewer:
    """The reviewer of a session. `ask` is how the question is put; waiting for the answer counts in no time limit."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.answered: list[_Answered] = []

    @property
    def accepted(self) -> list[_Answered]:
        """The changes of screens that were accepted."""
        return [answered for answered in self.answered if answered.answer.kind == "accept" and not answered.claim]

    def ask(self, question: Question, changes: Iterable[Change], covered: tuple[Point, ...] = ()) -> Answer:
        """Return the answer to a question about changes, and keep it for all tests of the session."""
        with uncounted():
            answer = self._ask(question)
        if (answer.kind == "accept" and question.moved) or (answer.kind == "mask" and not question.masks):
            answer = NO
        if answer.kind in ("model", "hand"):  # it holds for this test alone
            return NO if question.claim or answer.kind in question.refused else answer
        at = clock.utc_now().replace(microsecond=0)
        self.answered += [_Answered(change, answer, at, covered, question.claim) for change in changes]
        return answer


@dataclass
class Review:
    """A reviewer's answers about one test's replay, and the changes that they accept."""

    reviewer: Reviewer
    test: str
    directory: RunDirectory | None = None
    """The run directory of the newest run, for the images of a question."""
    masks: tuple[Region, ...] = ()
    """The masks that the reviewer added."""
    bug: str | None = None
    """The reviewer's text about a bug; None while there is none."""
    moved: str = ""
    """Which target of the newest screen has moved, so that it cannot be accepted; "" if none has."""
    unasked: str = ""
    """Why no user could be asked about the newest screen; "" if that was possible."""
    refused: dict[str, str] = field(default_factory=lambda: {"model": NO_MODEL, "hand": NO_PAGE})
    """Why an answer is not possible in this test, by its kind."""
    hand: Callable[[str, Sequence[str], Controller], RecordedRun | str] = lambda task, due, desktop: NO_PAGE
    """Have the reviewer continue a task by hand, of which the recorded steps `due` are left.

    Return the steps, and the screen after them, or why there are none.
    """
    choose: Callable[[str, Mapping[int, tuple[str, Screen]]], int | None] = lambda title, choices: None
    """Have the reviewer choose from texts and recorded screens; return the number of the choice, None for none."""
    replaced: list[Accepted] = field(default_factory=list)
    """Who let what take the place of recorded steps."""
    _used: dict[int, list[Change]] = field(default_factory=dict)
    """What was accepted on each screen of the recording, by the screen's `id`."""

    def opened(self, gate: Gate, seen: Pixels, due: Sequence[Point] = ()) -> Gate:
        """Return the gate with all accepted changes that this screen shows; a step then acts at the `due` points."""
        changes = self._fitting(gate, seen, due)
        return replace(gate, expected=painted(gate.expected, changes)) if changes else gate

    def note(self, screen: Screen, gate: Gate, seen: Pixels, due: Sequence[Point] = ()) -> None:
        """Remember which accepted changes opened the gate to a screen of the recording."""
        if changes := self._fitting(gate, seen, due):
            self._used[id(screen)] = changes

    def _fitting(self, gate: Gate, seen: Pixels, due: Sequence[Point]) -> list[Change]:
        shown = (gate.expected, seen, gate.ignored)
        fitting = [accepted for accepted in self.reviewer.accepted if accepted.change.is_in(*shown)]
        return [accepted.change for accepted in fitting if accepted.covers(due)]

    def known(self, screen: Pixels) -> Pixels:
        """Return a recorded screen as the product has it now, as far as that was accepted."""
        changes = [accepted.change for accepted in self.reviewer.accepted]
        return painted(screen, [change for change in changes if change.is_in(screen)])

    def ask(
        self, gate: Gate, frame: Frame, problem: str, run: RecordedRun, due: Sequence[Point], *, is_over: bool = False
    ) -> Answer:
        """Return the answer about a screen that a gate is closed to: one that holds already, or the reviewer's.

        Once the task `is_over`, it cannot be continued.
        """
        seen = pixels_in(frame)
        changes = changes_of(gate, seen, self.opened(gate, seen, due))
        acts, moved = self._acts(changes, run, seen)
        self.moved = moved[0] if moved else ""
        others = [other for other in self.reviewer.answered if other.answer.kind != "accept" and not other.claim]
        others = [other for other in others if other.change.is_in(gate.expected, seen, gate.ignored)]
        held = [
            (other.answer, change.cell)
            for change in changes
            for other in [other for other in others if change.box.is_part_of(other.change.box)][:1]
        ]
        for kind in ("bug", "no"):
            if standing := next((answer for answer, _ in held if answer.kind == kind), None):
                return self._take(standing, ())
        if held:  # masked already
            return self._take(Answer("mask"), [cell for _, cell in held])
        masks = () if moved else offered_masks(gate, [change.box for change in changes], seen)
        if any(mask.holds(point) for mask in masks for point in due):
            masks = ()  # the step would act on what no user has looked at
        question = Question(
            self.test,
            problem,
            tuple(change.box for change in changes),
            self._images(gate.expected, frame, changes, [point for _, point in acts]),
            masks,
            int(mask_of(masks, seen.shape).sum()),
            tuple(text for text, _ in acts),
            tuple(moved),
            refused={"model": OVER, "hand": OVER} if is_over else self.refused,
        )
        return self._take(self.reviewer.ask(question, changes, tuple(point for _, point in acts)), masks)

    def _take(self, answer: Answer, masks: Sequence[Region]) -> Answer:
        if answer.kind == "bug":
            self.bug = answer.text
        if answer.kind == "no":
            self.unasked = answer.text
        if answer.kind == "mask":
            self.masks = (*self.masks, *(mask for mask in masks if mask not in self.masks))
        return answer

    def _acts(
        self, changes: Sequence[Change], run: RecordedRun, seen: Pixels
    ) -> tuple[list[tuple[str, Point]], list[str]]:
        """Return the recorded actions within the changed cells, and which of their targets are elsewhere now."""
        acts: list[tuple[str, Point]] = []
        moved = []
        for number, step in enumerate(run.steps, 1):
            for point in points(step.action):
                inside = [change for change in changes if change.cell.holds(point)]
                recorded = step.screen.pixels() if inside else seen
                if not any(change.is_in(recorded) for change in inside):
                    continue
                acts.append((f"step {number}, {step.action.kind} at {point}", point))
                if now_at := _moved_to(point, recorded, seen):
                    moved.append(f"the target of step {number} at {point} is at {now_at} now")
        return acts, moved

    def _images(
        self, recorded: Pixels, frame: Frame, changes: Sequence[Change], at: Sequence[Point]
    ) -> tuple[Path, Path, Path]:
        assert self.directory is not None
        return images_of(self.directory, recorded, frame, [change.box for change in changes], at)

    def keeps(self, evidence: Evidence, gate: Gate, seen: Pixels) -> bool:
        """Return whether a screen shows the evidence again, but for accepted changes that the claim is not about."""
        if self.opened(gate, seen).mismatch(seen):
            return False
        about = evidence.region
        is_other = about and not any(about.meets(change.cell) for change in self._fitting(gate, seen, ()))
        if not (evidence.is_end or is_other):
            return False
        self.note(evidence.screen, gate, seen)
        return True

    def ask_claim(self, evidence: Evidence, gate: Gate, frame: Frame, problem: str) -> Answer:
        """Return whether a claim still holds on a screen that differs from its evidence."""
        seen, claim = pixels_in(frame), evidence.claim
        if evidence.is_end or self.directory is None or seen.shape != gate.expected.shape:
            return NO
        changes = changes_of(gate, seen)
        answers = [answered for answered in self.reviewer.answered if answered.claim == claim]
        answers = [answered for answered in answers if answered.change.is_in(gate.expected, seen, gate.ignored)]
        answered_changes = [answered.change for answered in answers]
        if answers and all(any(new.box.is_part_of(old.box) for old in answered_changes) for new in changes):
            answer, changes = answers[-1].answer, answered_changes
        else:
            boxes = tuple(change.box for change in changes)
            images = self._images(gate.expected, frame, changes, ())
            answer = self.reviewer.ask(Question(self.test, problem, boxes, images, claim=claim), changes)
        if answer.kind == "accept":
            self._used[id(evidence.screen)] = changes
        return answer

    def accepted(self, recording: Recording) -> Recording:
        """Return the recording with what was accepted, with who accepted it and when, and with the new masks."""
        for run in recording.runs:
            following = [*(step.screen for step in run.steps[1:]), run.end]
            for step, after in zip(run.steps, following, strict=True):
                used = [*self._used.get(id(step.screen), ()), *self._used.get(id(after), ())]
                for passed in step.transients if used else ():  # it shows what was accepted before and after it
                    self._used[id(passed)] = [change for change in used if change.is_in(passed.pixels())]

        def with_changes(screen: Screen) -> Screen:
            changes = self._used.get(id(screen))
            if not changes:
                return screen
            return screen.model_copy(update={"pixels": lambda: painted(screen.pixels(), changes)})

        name, places = user_name(), dict[int, str]()
        for number, run in enumerate(recording.runs, 1):
            task = f" of task {number}" if len(recording.runs) > 1 else ""
            shown = [(step.screen, f"before step {at}{task}") for at, step in enumerate(run.steps, 1)]
            for screen, place in [*shown, (run.end, f"at the end{task}")]:
                for change in self._used.get(id(screen), ()):
                    places.setdefault(id(change), place)
        used_ids = {id(change) for changes in self._used.values() for change in changes}
        accepted = [
            Accepted(
                by=name,
                at=answered.at,
                location=places.get(id(answered.change), ""),
                region=answered.change.cell,
                claim=answered.claim,
                pixels=held(answered.change.new),
            )
            for answered in self.reviewer.answered
            if id(answered.change) in used_ids
        ]
        history = (*recording.history, *accepted, *self.replaced)
        masks = (*recording.masks, *(mask for mask in self.masks if mask not in recording.masks))
        return with_screens(recording, with_changes).model_copy(update={"masks": masks, "history": history})

    def note_steps(self, steps: str) -> None:
        """Note for the recording's history what replaces recorded steps."""
        at = clock.utc_now().replace(microsecond=0)
        self.replaced.append(Accepted(by=user_name(), at=at, steps=steps))


def user_name() -> str:
    """Return the name of this process's user, "unknown" for one without, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"


def _moved_to(point: Point, recorded: Pixels, seen: Pixels) -> Point | None:
    """Return where the recorded target of an action is now, if it is nowhere else in the recording."""
    (width, height), (x, y) = _TARGET_PX, point
    near = Region(max(0, x - width // 2), max(0, y - height // 2), x + width // 2, y + height // 2)
    target = near.part_of(recorded)
    colours, counts = np.unique(target, return_counts=True)
    if len(colours) < 2 or not differing(target, near.part_of(seen)).any():
        return None
    rarest = colours[counts.argmin()]
    down, across = np.argwhere(target == rarest)[0]
    places = np.argwhere(seen == rarest) - [down, across]
    for top, left in places[:_MAX_PLACES].tolist():
        place = Region(left, top, left + target.shape[1], top + target.shape[0])
        now = place.part_of(seen) if left >= 0 and top >= 0 else target[:0]
        if now.shape == target.shape and (now == target).all() and differing(place.part_of(recorded), target).any():
            return x + left - near.left, y + top - near.top
    return None


def images_of(
    directory: RunDirectory, recorded: Pixels, frame: Frame, boxes: Sequence[Region], at: Sequence[Point]
) -> tuple[Path, Path, Path]:
    """Store the images of a question: the recorded screen, the one now, and what differs.

    The third is the screen now in pale grey, with what differs in red, boxes around it, and crosses at actions.
    """
    seen = pixels_in(frame)
    grey = sum((seen >> shift & 0xFF for shift in (0, 8, 16)), np.zeros_like(seen)) // 6 + 127
    marked = (grey << 16 | grey << 8 | grey).astype(np.uint32)
    if recorded.shape == seen.shape:
        marked[differing(recorded, seen)] = 0xE00000
    for box in boxes:
        outer = box.grown(_BORDER_PX, seen.shape[1], seen.shape[0])
        edge = np.ones((outer.bottom - outer.top, outer.right - outer.left), np.bool_)
        edge[1:-1, 1:-1] = False
        outer.part_of(marked)[edge] = 0xE00000
    for x, y in at:
        marked[max(0, y - 8) : y + 9, x] = marked[y, max(0, x - 8) : x + 9] = 0x0000E0
    stored = [directory.store(image) for image in (frame_of(recorded), frame, frame_of(marked))]
    was, now, differs = (directory.path / "screens" / f"{ref.digest}.png" for ref in stored)
    return was, now, differs
