"""A screen that changed on purpose: a reviewer accepts it, masks it or calls it a bug,
while the replay waits. The recording gets what was accepted once the whole test has
passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pytest_vnc_use import clock
from pytest_vnc_use.interactive import user_name
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.recordings.drift import (
    offered_masks,
    parts_around,
    places_of_value,
    value_cell,
)
from pytest_vnc_use.recordings.format import (
    MAX_SHOWN,
    Accepted,
    Evidence,
    RecordedStep,
    Recording,
    Screen,
    Segment,
    ShownValue,
    held,
    share_of,
    with_screens,
)
from pytest_vnc_use.recordings.gates import Gate, Mismatch, mask_of
from pytest_vnc_use.recordings.images import Pixels, frame_of, pixels_in
from pytest_vnc_use.recordings.life import (
    AnswerKind,
    GateOpened,
    ReviewerAnswered,
    SegmentEvent,
)
from pytest_vnc_use.recordings.masks import (
    format_concerned,
    joined,
    stated,
    with_places,
)
from pytest_vnc_use.recordings.question import (
    NO,
    OVER,
    Answer,
    Offer,
    Question,
    image_of,
    images_of,
)
from pytest_vnc_use.recordings.reviewer import (
    Change,
    ReviewedTest,
    changes_of,
    painted,
)
from pytest_vnc_use.recordings.targets import why_moved
from pytest_vnc_use.recordings.values import values_typed
from pytest_vnc_use.runs.transcript import format_caption
from pytest_vnc_use.types import Frame, Region
from pytest_vnc_use.types.actions import Point, points
from pytest_vnc_use.types.verdicts import end_state_claim

_OVER = {"model": OVER, "hand": OVER}
"""Why a task that is over cannot be continued, by the answer."""


@dataclass(frozen=True)
class ChangedTarget:
    """A recorded action at a point within a changed cell, and what shows that its
    target has moved; "" if nothing does.
    """

    step: str
    point: Point
    moved: str


class Review:
    """What a reviewer decides about one recording that a test replays, and what is then
    written into it.

    Args:
        test: The test, and whom it asks.
        recording: What is replayed; None where nothing can be masked.
    """

    def __init__(self, test: ReviewedTest, recording: Recording | None = None) -> None:
        self.test = test
        self.recording = recording
        self.masks: tuple[Region, ...] = ()
        """The masks that the reviewer added to the test."""
        self.masks_at: dict[str, tuple[Region, ...]] = {}
        """The masks that the reviewer added to one screenshot, by its `Screen.gate`."""
        self.values_at: dict[str, tuple[ShownValue, ...]] = {}
        """Where one screenshot shows a value, as the reviewer has stated, likewise."""
        self.replaced: list[Accepted] = []
        """Who let what take the place of recorded steps."""
        self.former_tasks: dict[str, str] = {}
        """The recorded text of each task whose text has changed, by the claim that it is
        done.
        """
        self.transients: dict[str, list[Screen]] = {}
        """The transients that may show after a step, by its `id`."""
        self._used: dict[int, list[Change]] = {}
        """What was accepted on each screen of the recording, by the screen's `id`."""
        self._confirmed: dict[str, datetime] = {}
        """The claims without evidence that the reviewer has confirmed, and when."""

    @property
    def has_accepted(self) -> bool:
        """Whether the reviewer has accepted what the recording does not have yet."""
        masks = self.masks or self.masks_at
        changes = self._used or self._confirmed or self.values_at or self.replaced
        return bool(masks or changes or self.transients)

    def with_accepted(
        self, gate: Gate, seen: Pixels, due_at: Sequence[Point] = ()
    ) -> Gate:
        """Return the gate with all accepted changes that this screen shows; the next
        step acts at the points `due_at`.
        """
        changes = self._fitting(gate, seen, due_at)
        if not changes:
            return gate
        return replace(gate, expected=painted(gate.expected, changes))

    def notice(self, event: SegmentEvent) -> None:
        """Remember what opened a gate, and what took the place of recorded steps."""
        match event:
            case GateOpened():
                self.note(event.screen, event.gate, event.seen, event.due_at)
            case ReviewerAnswered(steps=steps) if steps:
                at = clock.utc_now().replace(microsecond=0)
                self.replaced.append(Accepted(by=user_name(), at=at, steps=steps))
            case _:
                pass

    def note(
        self, screen: Screen, gate: Gate, seen: Pixels, due_at: Sequence[Point] = ()
    ) -> None:
        """Remember which accepted changes opened the gate to a screen of the
        recording.
        """
        changes = self._fitting(gate, seen, due_at)
        if changes:
            self._used[id(screen)] = changes

    def _fitting(
        self, gate: Gate, seen: Pixels, due_at: Sequence[Point]
    ) -> list[Change]:
        """Return the accepted changes that a screen shows where the gate has the old
        pixels, and that hold for a step at the points `due_at`.
        """
        fitting = []
        for accepted in self.test.reviewer.accepted:
            is_shown = accepted.change.is_in(gate.expected, seen, gate.ignored)
            if is_shown and accepted.covers(due_at):
                fitting.append(accepted.change)
        return fitting

    def has_changed(self, step: RecordedStep) -> bool:
        """Return whether a change was accepted of what a step acts on, such as another
        label of its button.
        """
        targets = points(step.action)
        changes = self._used.get(id(step.screen), ())
        return any(change.cell.holds_any(targets) for change in changes)

    def known(self, screen: Pixels) -> Pixels:
        """Return a recorded screen as the product has it now, as far as that was
        accepted.
        """
        changes = []
        for accepted in self.test.reviewer.accepted:
            if accepted.change.is_in(screen):
                changes.append(accepted.change)
        return painted(screen, changes)

    def ask(
        self,
        gate: Gate,
        frame: Frame,
        mismatch: Mismatch,
        segment: Segment,
        number: int,
        *,
        values: Mapping[str, str] | None = None,
        is_over: bool = False,
    ) -> Answer:
        """Return the answer about a screen at which the gate after `number` steps of a
        segment stays closed: an earlier answer that holds, or the reviewer's.

        The `values` are those that are other than recorded, with what they are. Once
        the task `is_over`, it cannot be continued.
        """
        seen = pixels_in(frame)
        screen = segment.screens[number]
        values = values_typed(values or {}, segment.steps[:number])
        if values and mismatch.boxes:
            # One difference after the other: each may show another value.
            first = mismatch.boxes[0]
            mismatch = replace(mismatch, region=first, boxes=(first,))
        # No compared pixel differs where a caret is missing.
        is_caret = gate.caret in mismatch.boxes
        changes = [] if is_caret else changes_of(gate, seen, mismatch.boxes)
        targets = _changed_targets(changes, segment, seen)
        moved = tuple(target.moved for target in targets if target.moved)
        first_moved = moved[0] if moved else ""
        due_at = segment.points_at(number)
        earlier = self._earlier_answer(changes, gate, screen, seen, values, due_at)
        if earlier:
            return replace(earlier, moved=first_moved)

        masks: tuple[Region, ...] = ()
        places: tuple[Region, ...] = ()
        if not moved:
            masks = offered_masks(mismatch, gate, seen, due_at)
        if values and not moved:
            places = places_of_value(mismatch, gate, seen, due_at)
        offer = Offer(
            moved,
            masks,
            masked_px=int(mask_of(masks, seen.shape).sum()),
            concerned=self._concerned(masks, screen),
            values=values if _may_show_value(screen, places, seen) else {},
            refused=_OVER if is_over else self.test.refused,
        )
        at = tuple(target.point for target in targets)
        directory = self.test.directory_of_images()
        question = Question(
            self.test.name,
            mismatch.problem,
            mismatch.boxes,
            images_of(directory, gate.expected, frame, mismatch.boxes, at),
            acts=tuple(target.step for target in targets),
            offer=offer,
        )
        answer = self.test.reviewer.ask(question, changes, at)
        self._add_masks(answer.kind, screen, masks)
        if is_caret and answer.kind == "accept":
            # No pixels of a caret can be accepted, so this gate compares none there.
            self._add_masks("mask_gate", screen, mismatch.boxes)
        self._add_values(answer, screen, places)
        return replace(answer, moved=first_moved)

    def _earlier_answer(
        self,
        changes: Iterable[Change],
        gate: Gate,
        screen: Screen,
        seen: Pixels,
        values: Mapping[str, str],
        due_at: Sequence[Point],
    ) -> Answer | None:
        """Return the answer that holds for the changes of a screen already, and add the
        masks or values that it asks for; None for none, as where these would hide a
        point at which the next step acts. One that closes the gate comes first.
        """
        held: list[tuple[Change, Answer]] = []
        for change in changes:
            answer = self.test.reviewer.answer_to(change, gate, seen)
            if answer is None:
                continue
            # Another test may show the same, and have no such value.
            if answer.kind == "value" and answer.text not in values:
                continue
            held.append((change, answer))
        for kind in ("bug", "no"):
            for _, answer in held:
                if answer.kind == kind:
                    return answer
        for change, _ in held:
            parts = parts_around(change.box, gate, seen)
            if any(part.holds_any(due_at) for part in parts):
                return None
        last = None
        for change, answer in held:
            masks = parts_around(change.box, gate, seen)
            self._add_masks(answer.kind, screen, masks)
            place = value_cell(change.box, gate.expected, seen)
            self._add_values(answer, screen, [place])
            last = answer
        return last

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

    def _add_masks(
        self, kind: AnswerKind, screen: Screen, masks: Sequence[Region]
    ) -> None:
        """Add masks where the answer asks for it: to the test, or to one screenshot."""
        if kind == "mask":
            self.masks = joined(self.masks, masks)
        elif kind == "mask_gate":
            added = self.masks_at.get(screen.gate, ())
            self.masks_at[screen.gate] = joined(added, masks)

    def _add_values(
        self, answer: Answer, screen: Screen, places: Iterable[Region]
    ) -> None:
        """Note that one screenshot shows a value in these places, where the answer says
        so.
        """
        if answer.kind == "value":
            added = self.values_at.get(screen.gate, ())
            new = stated(answer.text, places)
            self.values_at[screen.gate] = with_places(added, new)

    def keeps(self, evidence: Evidence, gate: Gate, seen: Pixels) -> bool:
        """Return whether a screen shows the evidence again, but for accepted changes
        that the claim is not about.
        """
        if self.with_accepted(gate, seen).mismatch(seen):
            return False
        if not evidence.is_end and self._concerns(evidence.region, gate, seen):
            return False
        self.note(evidence.screen, gate, seen)
        return True

    def _concerns(self, about: Region | None, gate: Gate, seen: Pixels) -> bool:
        """Return whether a claim may be about an accepted change: one without a region
        may be about any.
        """
        if about is None:
            return True
        changes = self._fitting(gate, seen, ())
        return any(about.meets(change.cell) for change in changes)

    def ask_claim(
        self, evidence: Evidence, gate: Gate, frame: Frame, mismatch: Mismatch
    ) -> Answer:
        """Return whether a claim still holds on a screen that differs from its
        evidence.
        """
        seen = pixels_in(frame)
        claim = evidence.claim
        directory = self.test.directory
        is_resized = seen.shape != gate.expected.shape
        if evidence.is_end or directory is None or is_resized:
            return NO
        boxes = mismatch.boxes
        changes = changes_of(gate, seen, boxes)
        earlier = self.test.reviewer.about(claim, gate, seen)
        cells = [answered.change.cell for answered in earlier]
        is_asked = all(change.box.is_part_of_any(cells) for change in changes)
        if earlier and is_asked:
            answer = earlier[-1].answer
            changes = [answered.change for answered in earlier]
        else:
            images = images_of(directory, gate.expected, frame, boxes, ())
            question = Question(self.test.name, mismatch.problem, boxes, images, claim)
            answer = self.test.reviewer.ask(question, changes)
        if answer.kind == "accept":
            self._used[id(evidence.screen)] = changes
        return answer

    def ask_new_claim(self, claim: str, frame: Frame, problem: str) -> Answer:
        """Return whether a claim that has no evidence holds on a screen: "accept" if it
        does, "bug" if not. It is asked once a session for each screen.
        """
        judged = self.test.reviewer.judged
        key = (claim, frame.ref.digest)
        if key not in judged:
            former = self.former_tasks.get(claim)
            if former is not None:
                problem = f"the recording is of the task {former!r}"
            image = image_of(self.test.directory_of_images(), frame)
            question = Question(self.test.name, problem, (), (image,), claim)
            judged[key] = self.test.reviewer.ask(question, ())
        answer = judged[key]
        if answer.kind == "accept":
            self._confirmed[claim] = clock.utc_now().replace(microsecond=0)
        return answer

    def ask_transient(
        self,
        step: str,
        after: Screen,
        seen: Pixels,
        region: Region,
        problem: str,
    ) -> Answer:
        """Return whether what a frame shows in a region may show between the step with
        an id and the recorded screen `after` it.
        """
        directory = self.test.directory_of_images()
        boxes = (region,)
        images = images_of(directory, after.pixels(), frame_of(seen), boxes, ())
        question = Question(self.test.name, problem, boxes, images, is_transient=True)
        answer = self.test.reviewer.ask_transient(question, seen)
        if answer.kind == "accept":
            self.accept_transient(step, seen, region)
        return answer

    def accept_transient(self, step: str, seen: Pixels, region: Region) -> None:
        """Note that what a frame shows in a region may show after the step with an
        id.
        """
        at = clock.utc_now().replace(microsecond=0)
        accepted = Accepted(by=user_name(), at=at, region=region)
        transient = Screen(pixels=held(seen), history=(accepted,))
        self.transients.setdefault(step, []).append(transient)

    def accepted(self, recording: Recording) -> Recording:
        """Return the recording with what was accepted, with who accepted it and when,
        and with the new masks.
        """
        passed = self._accepted_in_passing(recording)
        confirmed = self._confirmed_on(recording)
        taken_over = _screen_taken_over(recording)

        def with_changes(screen: Screen) -> Screen:
            changes = self._used.get(id(screen), [])
            history = [*screen.history, *self._history(changes)]
            history += confirmed.get(id(screen), ())
            if screen is taken_over:
                history += self.replaced
            added = self.masks_at.get(screen.gate, ())
            values = self.values_at.get(screen.gate, ())
            fields: dict[str, object] = {
                "history": tuple(history),
                "masks": joined(screen.masks, added),
                "values": with_places(screen.values, values),
            }
            shown = changes or passed.get(id(screen), [])
            if shown:
                fields["pixels"] = lambda: painted(screen.pixels(), shown)
            return screen.model_copy(update=fields)

        accepted = with_screens(recording, with_changes)
        segments = tuple(map(self._with_transients, accepted.segments))
        masks = joined(recording.masks, self.masks)
        return accepted.model_copy(update={"masks": masks, "segments": segments})

    def _with_transients(self, segment: Segment) -> Segment:
        """Return a segment in which the accepted transients may show."""
        steps = []
        for step in segment.steps:
            transients = (*step.transients, *self.transients.get(step.id, ()))
            steps.append(step.model_copy(update={"transients": transients}))
        return segment.model_copy(update={"steps": tuple(steps)})

    def _history(self, changes: Sequence[Change]) -> list[Accepted]:
        """Return who accepted these changes of a screen, and when."""
        history = []
        for answered in self.test.reviewer.answered:
            if answered.change in changes:
                accepted = Accepted(
                    by=user_name(),
                    at=answered.at,
                    region=answered.change.cell,
                    claim=answered.claim,
                )
                history.append(accepted)
        return history

    def _confirmed_on(self, recording: Recording) -> dict[int, list[Accepted]]:
        """Return who confirmed which new claims, and when, by the `id` of the screen
        that shows each.
        """
        shown: list[tuple[str, Screen]] = []
        for segment in recording.segments:
            shown.append((end_state_claim(segment.task), segment.end))
            shown += [(judged.claim, judged.screen) for judged in segment.claims]
        shown += [(judged.claim, judged.screen) for judged in recording.claims]
        confirmed: dict[int, list[Accepted]] = {}
        for claim, screen in shown:
            if at := self._confirmed.get(claim):
                accepted = Accepted(by=user_name(), at=at, claim=claim)
                confirmed.setdefault(id(screen), []).append(accepted)
        return confirmed

    def _accepted_in_passing(self, recording: Recording) -> dict[int, list[Change]]:
        """Return what was accepted at gates that evidence and transients show too, by
        the screen's `id`.
        """
        passed: dict[int, list[Change]] = {}
        for segment in recording.segments:
            for evidence in segment.claims:
                changes = self._accepted_beside(evidence, segment)
                passed[id(evidence.screen)] = changes
            for step, after in zip(segment.steps, segment.screens[1:], strict=True):
                # a transient shows what was accepted before and after it
                used = [*self._used.get(id(step.screen), ())]
                used += self._used.get(id(after), ())
                if not used:
                    continue
                for transient in step.transients:
                    pixels = transient.pixels()
                    shown = [change for change in used if change.is_in(pixels)]
                    passed[id(transient)] = shown
        return passed

    def _accepted_beside(self, evidence: Evidence, segment: Segment) -> list[Change]:
        """Return what was accepted at a segment's end that its evidence shows too, but
        does not rest on. So evidence and end stay one image.
        """
        is_end = evidence.claim == end_state_claim(segment.task)
        pixels = evidence.screen.pixels()
        beside = []
        for change in self._used.get(id(segment.end), ()):
            is_beside = is_end or not evidence.is_about(change.box)
            if is_beside and change.is_in(pixels):
                beside.append(change)
        return beside


def _may_show_value(screen: Screen, places: Sequence[Region], seen: Pixels) -> bool:
    """Return whether a screenshot may be stated to show a value in more places."""
    shown = [*places, *(value.region for value in screen.values)]
    is_small = share_of(shown, seen.shape) <= MAX_SHOWN
    return bool(places and screen.gate) and is_small


def _changed_targets(
    changes: Sequence[Change], segment: Segment, seen: Pixels
) -> list[ChangedTarget]:
    """Return the recorded actions within the changed cells."""
    targets = []
    for number, step in enumerate(segment.steps, 1):
        caption = f"step {number}, {line(format_caption(step.action, step.elements))}"
        for point in points(step.action):
            inside = [change for change in changes if change.cell.holds(point)]
            if not inside:
                continue
            recorded = step.screen.pixels()
            if not any(change.is_in(recorded) for change in inside):
                continue
            moved = why_moved(point, recorded, seen)
            if moved:
                moved = f"the target of {caption}, {moved}"
            targets.append(ChangedTarget(caption, point, moved))
    return targets


def _screen_taken_over(recording: Recording) -> Screen | None:
    """Return the screen from which a user or a model continued: before the first step
    that is not in the recording yet, else the last end.
    """
    for step in recording.steps:
        if not step.id:
            return step.screen
    return recording.segments[-1].end if recording.segments else None
