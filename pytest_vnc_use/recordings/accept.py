"""A screen that changed on purpose: a reviewer accepts it, masks it or calls it a bug,
while the replay waits.

Each difference is asked about once a session: where the same pixels were recorded and
the same ones are there now, at the same place, the same answer holds. The recording
gets what was accepted once the whole test has passed.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol

import numpy as np
from typing_extensions import assert_never

from pytest_vnc_use import clock
from pytest_vnc_use.deadline import uncounted
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.recordings.drift import (
    cell_around,
    offered_masks,
    parts_around,
)
from pytest_vnc_use.recordings.format import (
    Accepted,
    Evidence,
    RecordedStep,
    Recording,
    Screen,
    Segment,
    with_screens,
)
from pytest_vnc_use.recordings.gates import Gate, Mismatch, mask_of
from pytest_vnc_use.recordings.images import (
    Mask,
    Pixels,
    differing,
    frame_of,
    pixels_in,
)
from pytest_vnc_use.recordings.life import (
    AnswerKind,
    GateOpened,
    ReviewerAnswered,
    SegmentEvent,
)
from pytest_vnc_use.recordings.masks import format_concerned, joined
from pytest_vnc_use.recordings.store import Key
from pytest_vnc_use.recordings.targets import why_moved
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.runs.transcript import format_caption
from pytest_vnc_use.types import REDACTED_COLOUR, Frame, Region
from pytest_vnc_use.types.actions import Point, points
from pytest_vnc_use.types.protocols import Controller
from pytest_vnc_use.types.verdicts import end_state_claim

_SAME_TARGET_PX = 20
"""The distance within which two recorded points of one changed cell are one target."""
_CROSS_PX = 8
"""How far the arms of a cross at an action reach."""
_BORDER_PX = 3
"""How far the boxes in the image of a difference are from it."""


@dataclass(frozen=True)
class Question:
    """What a reviewer decides: whether a screen is right now; with a `claim`, whether
    it holds there.

    `boxes` is what differs. `masks` are what a mask would hide, `masked_px` pixels;
    there are none where that is not offered. `concerned` says which gates and claims
    that concerns, by the answer. `acts` are the recorded actions within the changed cells;
    `moved` says which of their targets have moved, and then the screen cannot be
    accepted. `images` are the files of the recorded screen, of the one now, and of the
    difference; of a claim that was not judged before, only of the one now. `refused`
    says of an answer why it is not possible.
    """

    test: str
    problem: str
    boxes: tuple[Region, ...]
    images: tuple[Path, ...]
    masks: tuple[Region, ...] = ()
    masked_px: int = 0
    concerned: Mapping[str, str] = field(default_factory=dict)
    acts: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    claim: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_new_claim(self) -> bool:
        """Return whether its claim was not judged before on a screen to compare."""
        return bool(self.claim) and not self.boxes


@dataclass(frozen=True)
class Answer:
    """A reviewer's answer, with the text about a bug, or why no user could be asked; for
    a claim that holds, where on the screen they see that.
    """

    kind: AnswerKind
    text: str = ""
    region: Region | None = None


Locations = Mapping[int, tuple[str, Screen]]
"""Where a replay can continue, by the number of steps before: its name, as `before step 3:
click "Pay" (button)`, and the recorded screen.
"""


class ByHand(NamedTuple):
    """What a user at the page did by hand: the steps, and the number of the location
    with which they want the replay to continue; None for the one whose screen is shown.
    """

    done: Segment
    until: int | None = None


class ReplayUser(Protocol):
    """A user at the page, who may act by hand in a replay."""

    def show(self, key: Key, segment: Segment) -> None:
        """Show what is replayed from now on."""

    def stops_before(self, screen: Screen) -> bool:
        """Return whether they want to act once this recorded screen is shown; they are
        asked once.
        """

    def take_over(self, task: str, due: Locations, desktop: Controller) -> ByHand | str:
        """Have them act, with the locations that are left, the next one first; return
        what they did, or why they did nothing. Raises DesktopError, SettingsError.
        """

    def choose(self, title: str, now: Frame, choices: Locations) -> int | None:
        """Have them choose where to continue from the screen now; return the number of
        the choice, None for none.
        """


MASKING = ("mask", "mask_gate")
"""The kinds of answers that add masks."""
NO = Answer("no")
OVER = "the task is over: only its last screen is left to check"
NO_MODEL = "no planner is set (--vnc-planner=gemini)"
NO_PAGE = "only the page shows the desktop (--vnc-ui)"
Ask = Callable[[Question], Answer]


@dataclass(frozen=True, eq=False)
class Change:
    """A difference in a `box`, with the recorded pixels and the ones now of the whole
    `cell` around it.
    """

    box: Region
    cell: Region
    size: tuple[int, ...]
    old: Pixels
    new: Pixels
    compared: Mask

    def is_in(
        self, recorded: Pixels, seen: Pixels | None = None, ignored: Mask | None = None
    ) -> bool:
        """Return whether a recorded screen has the old pixels here, and the screen now
        the new ones.
        """
        if recorded.shape != self.size:
            return False
        compared = self.compared
        if ignored is not None:
            compared = compared & ~self.cell.part_of(ignored)
        pairs = [(self.old, recorded)]
        if seen is not None:
            pairs.append((self.new, seen))
        return not any(
            (differing(known, self.cell.part_of(screen)) & compared).any()
            for known, screen in pairs
        )


def changes_of(gate: Gate, seen: Pixels, boxes: Iterable[Region]) -> list[Change]:
    """Return the differences of a screen from a gate, one for each box."""
    changes = []
    for box in boxes:
        cell = cell_around(box, gate.expected, seen)
        old = cell.part_of(gate.expected).copy()
        new = cell.part_of(seen).copy()
        compared = ~cell.part_of(gate.ignored)
        changes.append(Change(box, cell, seen.shape, old, new, compared))
    return changes


def painted(screen: Pixels, changes: Iterable[Change]) -> Pixels:
    """Return a copy of a screen with these changes. What is redacted now stays as it
    was.
    """
    painted_screen: Pixels = screen.copy()
    for change in changes:
        # a pixel around it too, as its box may be that much larger at another gate
        near = mask_of([change.box.grown(1, *screen.shape[::-1])], screen.shape)
        shown = change.cell.part_of(near) & change.compared
        shown &= change.new != REDACTED_COLOUR
        change.cell.part_of(painted_screen)[shown] = change.new[shown]
    return painted_screen


@dataclass(frozen=True)
class _Answered:
    """An answer about one change, when it came, the points that it was given for, and
    the claim that it is about.
    """

    change: Change
    answer: Answer
    at: datetime
    points: tuple[Point, ...] = ()
    claim: str = ""

    def covers(self, due: Iterable[Point]) -> bool:
        """Return whether the answer holds for actions at these points: none is in the
        changed cell, or it was asked.
        """
        return all(
            self._was_asked(point) for point in due if self.change.cell.holds(point)
        )

    def _was_asked(self, point: Point) -> bool:
        x, y = point
        return any(
            abs(x - asked_x) <= _SAME_TARGET_PX and abs(y - asked_y) <= _SAME_TARGET_PX
            for asked_x, asked_y in self.points
        )


class Reviewer:
    """The reviewer of a session. `ask` is how the question is put; waiting for the
    answer counts in no time limit.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.answered: list[_Answered] = []
        self.judged: dict[tuple[str, str], Answer] = {}
        """The answers about claims that had no evidence, by the claim and the digest of
        the screen.
        """

    @property
    def accepted(self) -> list[_Answered]:
        """The changes of screens that were accepted."""
        return [
            answered
            for answered in self.answered
            if answered.answer.kind == "accept" and not answered.claim
        ]

    def ask(
        self,
        question: Question,
        changes: Iterable[Change],
        covered: tuple[Point, ...] = (),
    ) -> Answer:
        """Return the answer to a question about changes, and keep it for all tests of
        the session.
        """
        with uncounted():
            answer = self._ask(question)
        match answer.kind:
            case "accept":
                answer = NO if question.moved else answer
            case "mask" | "mask_gate":
                answer = answer if answer.kind in question.concerned else NO
            case "model" | "hand":  # it holds for this test alone
                is_refused = bool(question.claim) or answer.kind in question.refused
                return NO if is_refused else answer
            case "no" if answer.text:  # no user was asked, so no later one has answered
                return answer
            case "bug" | "no":
                pass
            case _:
                assert_never(answer.kind)
        at = clock.utc_now().replace(microsecond=0)
        self.answered += [
            _Answered(change, answer, at, covered, question.claim) for change in changes
        ]
        return answer


@dataclass
class Review:
    """A reviewer's answers about one test's replay, and the changes that they
    accept.
    """

    reviewer: Reviewer
    test: str
    directory: RunDirectory | None = None
    """The run directory of the newest run, for the images of a question."""
    recording: Recording | None = None
    """What is replayed; None where nothing can be masked."""
    masks: tuple[Region, ...] = ()
    """The masks that the reviewer added to the test."""
    masks_at: dict[str, tuple[Region, ...]] = field(default_factory=dict)
    """The masks that the reviewer added to one screenshot, by its `Screen.gate`."""
    bug: str | None = None
    """The reviewer's text about a bug; None while there is none."""
    moved: str = ""
    """Which target of the newest screen has moved, so that it cannot be accepted; "" if
    none has.
    """
    unasked: str = ""
    """Why no user could be asked about the newest screen; "" if that was possible."""
    refused: dict[str, str] = field(
        default_factory=lambda: {"model": NO_MODEL, "hand": NO_PAGE}
    )
    """Why an answer is not possible in this test, by its kind."""
    user: ReplayUser | None = None
    """The user at the page, who may act by hand; None for a reviewer elsewhere."""
    replaced: list[Accepted] = field(default_factory=list)
    """Who let what take the place of recorded steps."""
    former_tasks: dict[str, str] = field(default_factory=dict)
    """The recorded text of each task whose text has changed, by the claim that it is
    done.
    """
    _temporary: TemporaryDirectory[str] | None = None
    """The directory for images of claims that are judged before the first run."""
    _used: dict[int, list[Change]] = field(default_factory=dict)
    """What was accepted on each screen of the recording, by the screen's `id`."""

    def beside(self) -> Review:
        """Return the review of another recording that the same test replays."""
        return Review(
            self.reviewer,
            self.test,
            refused=self.refused,
            user=self.user,
        )

    def with_accepted(
        self, gate: Gate, seen: Pixels, due: Sequence[Point] = ()
    ) -> Gate:
        """Return the gate with all accepted changes that this screen shows; a step then
        acts at the `due` points.
        """
        changes = self._fitting(gate, seen, due)
        return (
            replace(gate, expected=painted(gate.expected, changes)) if changes else gate
        )

    def notice(self, event: SegmentEvent) -> None:
        """Remember what opened a gate, and what was answered at a closed one."""
        match event:
            case GateOpened():
                self.note(event.screen, event.gate, event.seen, event.due_at)
            case ReviewerAnswered(kind="bug"):
                self.bug = event.text
            case ReviewerAnswered(kind="no"):
                self.unasked = event.text
            case ReviewerAnswered(steps=steps) if steps:
                at = clock.utc_now().replace(microsecond=0)
                self.replaced.append(Accepted(by=user_name(), at=at, steps=steps))
            case _:
                pass

    def note(
        self, screen: Screen, gate: Gate, seen: Pixels, due: Sequence[Point] = ()
    ) -> None:
        """Remember which accepted changes opened the gate to a screen of the
        recording.
        """
        if changes := self._fitting(gate, seen, due):
            self._used[id(screen)] = changes

    def _fitting(self, gate: Gate, seen: Pixels, due: Sequence[Point]) -> list[Change]:
        shown = (gate.expected, seen, gate.ignored)
        fitting = [
            accepted
            for accepted in self.reviewer.accepted
            if accepted.change.is_in(*shown)
        ]
        return [accepted.change for accepted in fitting if accepted.covers(due)]

    def has_changed(self, step: RecordedStep) -> bool:
        """Return whether a change was accepted of what a step acts on, such as another
        label of its button.
        """
        changes = self._used.get(id(step.screen), ())
        targets = points(step.action)
        return any(any(map(change.cell.holds, targets)) for change in changes)

    def known(self, screen: Pixels) -> Pixels:
        """Return a recorded screen as the product has it now, as far as that was
        accepted.
        """
        changes = [accepted.change for accepted in self.reviewer.accepted]
        return painted(screen, [change for change in changes if change.is_in(screen)])

    def ask(
        self,
        gate: Gate,
        frame: Frame,
        mismatch: Mismatch,
        run: Segment,
        number: int,
        *,
        is_over: bool = False,
    ) -> Answer:
        """Return the answer about a screen that the gate after so many steps of a run
        is closed to: one that holds already, or the reviewer's.

        Once the task `is_over`, it cannot be continued.
        """
        seen = pixels_in(frame)
        screen = run.screens[number]
        changes = changes_of(gate, seen, mismatch.boxes)
        acts, moved = self._acts(changes, run, seen)
        self.moved = moved[0] if moved else ""
        held = self._held(changes, gate, seen)
        for kind in ("bug", "no"):
            for answer, _ in held:
                if answer.kind == kind:
                    return answer
        masking = [(answer, box) for answer, box in held if answer.kind in MASKING]
        for answer, box in masking:
            self._mask(answer.kind, screen, parts_around(box, gate, seen))
        if masking:
            return masking[-1][0]
        due = run.points_at(number)
        masks = () if moved else offered_masks(mismatch, gate, seen, due)
        question = Question(
            self.test,
            mismatch.problem,
            mismatch.boxes,
            self._images(gate, frame, mismatch.boxes, [point for _, point in acts]),
            masks,
            int(mask_of(masks, seen.shape).sum()),
            self._concerned(masks, screen),
            tuple(text for text, _ in acts),
            tuple(moved),
            refused={"model": OVER, "hand": OVER} if is_over else self.refused,
        )
        covered = tuple(point for _, point in acts)
        answer = self.reviewer.ask(question, changes, covered)
        self._mask(answer.kind, screen, masks)
        return answer

    def _concerned(self, masks: Sequence[Region], screen: Screen) -> dict[str, str]:
        """Return which gates and claims masks would concern, by the answer that adds
        them; nothing where none are offered.
        """
        if not masks or self.recording is None:
            return {}
        concerned = {"mask": format_concerned(self.recording, masks)}
        if screen.gate:
            at_gate = format_concerned(self.recording, masks, screen.gate)
            concerned["mask_gate"] = at_gate
        return concerned

    def _mask(self, kind: AnswerKind, screen: Screen, masks: Sequence[Region]) -> None:
        """Add masks where the answer asks for it: to the test, or to one screenshot."""
        if kind == "mask":
            self.masks = joined(self.masks, masks)
        elif kind == "mask_gate":
            added = self.masks_at.get(screen.gate, ())
            self.masks_at[screen.gate] = joined(added, masks)

    def _held(
        self, changes: Iterable[Change], gate: Gate, seen: Pixels
    ) -> list[tuple[Answer, Region]]:
        """Return for each change that an earlier answer holds for, other than one that
        accepts, that answer and the change's box.
        """
        answered = [
            earlier
            for earlier in self.reviewer.answered
            if earlier.answer.kind != "accept"
            and not earlier.claim
            and earlier.change.is_in(gate.expected, seen, gate.ignored)
        ]
        held = []
        for change in changes:
            for earlier in answered:
                if change.box.is_part_of(earlier.change.cell):
                    held.append((earlier.answer, change.box))
                    break
        return held

    def _acts(
        self, changes: Sequence[Change], run: Segment, seen: Pixels
    ) -> tuple[list[tuple[str, Point]], list[str]]:
        """Return the recorded actions within the changed cells, and which of their
        targets have moved.
        """
        acts: list[tuple[str, Point]] = []
        moved = []
        for number, step in enumerate(run.steps, 1):
            caption = line(format_caption(step.action, step.elements))
            for point in points(step.action):
                inside = [change for change in changes if change.cell.holds(point)]
                recorded = step.screen.pixels() if inside else seen
                if not any(change.is_in(recorded) for change in inside):
                    continue
                acts.append((f"step {number}, {caption}", point))
                if why := why_moved(point, recorded, seen):
                    moved.append(f"the target of step {number}, {caption}, {why}")
        return acts, moved

    def _images(
        self,
        gate: Gate,
        frame: Frame,
        boxes: Sequence[Region],
        at: Sequence[Point],
    ) -> tuple[Path, Path, Path]:
        assert self.directory is not None
        return images_of(self.directory, gate.expected, frame, boxes, at)

    def keeps(self, evidence: Evidence, gate: Gate, seen: Pixels) -> bool:
        """Return whether a screen shows the evidence again, but for accepted changes
        that the claim is not about.
        """
        if self.with_accepted(gate, seen).mismatch(seen):
            return False
        about = evidence.region
        is_other = about and not any(
            about.meets(change.cell) for change in self._fitting(gate, seen, ())
        )
        if not (evidence.is_end or is_other):
            return False
        self.note(evidence.screen, gate, seen)
        return True

    def ask_claim(
        self, evidence: Evidence, gate: Gate, frame: Frame, mismatch: Mismatch
    ) -> Answer:
        """Return whether a claim still holds on a screen that differs from its
        evidence.
        """
        seen, claim = pixels_in(frame), evidence.claim
        if (
            evidence.is_end
            or self.directory is None
            or seen.shape != gate.expected.shape
        ):
            return NO
        changes = changes_of(gate, seen, mismatch.boxes)
        answers = [
            answered for answered in self.reviewer.answered if answered.claim == claim
        ]
        answers = [
            answered
            for answered in answers
            if answered.change.is_in(gate.expected, seen, gate.ignored)
        ]
        answered_changes = [answered.change for answered in answers]
        if answers and all(
            any(new.box.is_part_of(old.cell) for old in answered_changes)
            for new in changes
        ):
            answer, changes = answers[-1].answer, answered_changes
        else:
            boxes = mismatch.boxes
            images = self._images(gate, frame, boxes, ())
            answer = self.reviewer.ask(
                Question(self.test, mismatch.problem, boxes, images, claim=claim),
                changes,
            )
        if answer.kind == "accept":
            self._used[id(evidence.screen)] = changes
        return answer

    def ask_new_claim(self, claim: str, frame: Frame, problem: str) -> Answer:
        """Return whether a claim that has no evidence holds on a screen: "accept" if it
        does, "bug" if not. It is asked once a session for each screen.
        """
        asked = claim, frame.ref.digest
        answer = self.reviewer.judged.get(asked)
        if answer is None:
            former = self.former_tasks.get(claim)
            if former is not None:
                problem = f"the recording is of the task {former!r}"
            directory = self._directory_of_images()
            image = directory.path / "screens" / f"{directory.store(frame).digest}.png"
            question = Question(self.test, problem, (), (image,), claim=claim)
            answer = self.reviewer.ask(question, ())
            self.reviewer.judged[asked] = answer
        return answer

    def _directory_of_images(self) -> RunDirectory:
        """Return the run directory; before the first run, a temporary one."""
        if self.directory is None:
            self._temporary = TemporaryDirectory(prefix="vnc-use-accept-")
            self.directory = RunDirectory.create(Path(self._temporary.name), "claims")
        return self.directory

    def accepted(self, recording: Recording) -> Recording:
        """Return the recording with what was accepted, with who accepted it and when,
        and with the new masks.
        """
        passed: dict[int, list[Change]] = {}
        """What was accepted of transients and of evidence, by the screen's `id`."""
        for run in recording.segments:
            for evidence in run.claims:
                passed[id(evidence.screen)] = self._accepted_beside(evidence, run)
            for step, after in zip(run.steps, run.screens[1:], strict=True):
                used = [
                    *self._used.get(id(step.screen), ()),
                    *self._used.get(id(after), ()),
                ]
                # it shows what was accepted before and after it
                for passing in step.transients if used else ():
                    pixels = passing.pixels()
                    passed[id(passing)] = [
                        change for change in used if change.is_in(pixels)
                    ]

        by = user_name()
        taken_over = next(
            (step.screen for step in recording.steps if not step.id),
            recording.segments[-1].end if recording.segments else None,
        )

        def with_changes(screen: Screen) -> Screen:
            changes = self._used.get(id(screen), [])
            accepted = [
                Accepted(
                    by=by,
                    at=answered.at,
                    region=answered.change.cell,
                    claim=answered.claim,
                )
                for answered in self.reviewer.answered
                if any(answered.change is change for change in changes)
            ]
            if screen is taken_over:
                accepted += self.replaced
            fields: dict[str, object] = {"history": (*screen.history, *accepted)}
            if added := self.masks_at.get(screen.gate):
                fields["masks"] = joined(screen.masks, added)
            if painted_in := changes or passed.get(id(screen), []):
                fields["pixels"] = lambda: painted(screen.pixels(), painted_in)
            return screen.model_copy(update=fields)

        masks = joined(recording.masks, self.masks)
        return with_screens(recording, with_changes).model_copy(update={"masks": masks})

    def _accepted_beside(self, evidence: Evidence, run: Segment) -> list[Change]:
        """Return what was accepted at a segment's end that its evidence shows too, but
        does not rest on. So evidence and end stay one image.
        """
        is_end = evidence.claim == end_state_claim(run.task)
        pixels = evidence.screen.pixels()
        return [
            change
            for change in self._used.get(id(run.end), ())
            if (is_end or not evidence.is_about(change.box)) and change.is_in(pixels)
        ]


def user_name() -> str:
    """Return the name of this process's user, "unknown" for one without, as in a
    container.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"


def images_of(
    directory: RunDirectory,
    recorded: Pixels,
    frame: Frame,
    boxes: Sequence[Region],
    at: Sequence[Point],
) -> tuple[Path, Path, Path]:
    """Store the images of a question: the recorded screen, the one now, and what
    differs.

    The third is the screen now in pale grey, with what differs within the boxes in red,
    the boxes around it, and crosses at actions.
    """
    seen = pixels_in(frame)
    # Half the mean of red, green and blue, from 127 on: pale, and still readable.
    total = np.zeros_like(seen)
    for shift in (0, 8, 16):
        total += seen >> shift & 0xFF
    grey = total // 6 + 127
    marked = (grey << 16 | grey << 8 | grey).astype(np.uint32)
    if recorded.shape == seen.shape:
        marked[differing(recorded, seen) & mask_of(boxes, seen.shape)] = 0xE00000
    for box in boxes:
        outer = box.grown(_BORDER_PX, seen.shape[1], seen.shape[0])
        edge = np.ones((outer.bottom - outer.top, outer.right - outer.left), np.bool_)
        edge[1:-1, 1:-1] = False
        outer.part_of(marked)[edge] = 0xE00000
    for x, y in at:
        marked[max(0, y - _CROSS_PX) : y + _CROSS_PX + 1, x] = 0x0000E0
        marked[y, max(0, x - _CROSS_PX) : x + _CROSS_PX + 1] = 0x0000E0
    was, now, differs = (
        directory.path / "screens" / f"{directory.store(image).digest}.png"
        for image in (frame_of(recorded), frame, frame_of(marked))
    )
    return was, now, differs
