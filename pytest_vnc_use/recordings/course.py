"""What is compared in a replay: where it is in its segment, what the screen must show
there, and what else lets a gate open.

Nothing here waits, and nothing here decides what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pytest_vnc_use import clock
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.recordings.accept import Review
from pytest_vnc_use.recordings.drift import explained
from pytest_vnc_use.recordings.format import (
    DynamicRegion,
    RecordedStep,
    Screen,
    Segment,
    ShownValue,
    dynamic_region,
)
from pytest_vnc_use.recordings.gates import (
    BlinkWatch,
    Gate,
    Mismatch,
    gate,
    mask_of,
    surroundings,
)
from pytest_vnc_use.recordings.images import Pixels
from pytest_vnc_use.recordings.life import GateOpened, Life, State
from pytest_vnc_use.recordings.painting import (
    Passage,
    cleared_place,
    has_text_at,
    is_drawn_beside,
    unknown_parts,
)
from pytest_vnc_use.recordings.rehearse import Rehearsal
from pytest_vnc_use.recordings.values import Values, other_values, with_names
from pytest_vnc_use.runs.transcript import format_caption
from pytest_vnc_use.types import (
    Click,
    Frame,
    FrameRef,
    MouseDown,
    Region,
    Step,
    TypeText,
)
from pytest_vnc_use.types.actions import Point, points

_MAX_CAPTION = 80
"""The maximum characters of a step's caption in the first line of a message."""
_AT_END = "at the end"
_MAX_UNKNOWN = 8
"""The most parts that are named of one frame: to look for the text of each in all
screens takes seconds.
"""


def gate_to(
    segment: Segment,
    number: int,
    masks: tuple[Region, ...] = (),
    earlier: Screen | None = None,
) -> Gate:
    """Return the gate to the screen after `number` steps of a segment, with `masks`
    beside those of the screen; `earlier` is the screen before the segment's first.
    """
    screen = segment.screens[number]
    screen_before = earlier
    step = "the step before"
    pressed: tuple[Point, ...] = ()
    if number:
        screen_before = segment.screens[number - 1]
        step = _format_step(segment, number - 1)
        action = segment.steps[number - 1].action
        if isinstance(action, (Click, MouseDown)):
            pressed = points(action)
    expected = screen.pixels()
    targets: tuple[Region, ...] = ()
    if number < len(segment.steps):
        due = segment.steps[number]
        height, width = expected.shape
        targets = surroundings(due.action, (width, height))
    return gate(
        expected,
        screen.dynamic,
        before=screen_before.pixels() if screen_before else None,
        parts_before=screen_before.dynamic if screen_before else (),
        masks=(*masks, *screen.not_compared),
        targets=targets,
        step=step,
        pressed=pressed,
        accepted=screen_before.accepted_after(screen) if screen_before else (),
    )


def _format_step(segment: Segment, number: int) -> str:
    """Return a step as in `step 3 of 5, click "Pay" (button)`; steps count from 0."""
    step = segment.steps[number]
    caption = line(format_caption(step.action, step.elements))
    if len(caption) > _MAX_CAPTION:
        caption = f"{caption[:_MAX_CAPTION]}…"
    return f"step {number + 1} of {len(segment.steps)}, {caption}"


@dataclass
class Allowances:
    """What lets the gates of a test open though the screen is not as recorded: its
    masks, what a rehearsal may learn, and what a reviewer accepts.
    """

    recorded_masks: tuple[Region, ...] = ()
    rehearsal: Rehearsal | None = None
    review: Review | None = None

    @property
    def masks(self) -> tuple[Region, ...]:
        """The regions of each screen that no comparison looks at, with those that a
        reviewer added.
        """
        added = self.review.masks if self.review else ()
        return (*self.recorded_masks, *added)

    def masks_on(self, screen: Screen) -> tuple[Region, ...]:
        """Return `masks`, with those that a reviewer added to this screenshot alone, and
        where it shows a value, as they stated.
        """
        if self.review is None:
            return self.masks
        added = self.review.masks_at.get(screen.gate, ())
        shown = self.review.values_at.get(screen.gate, ())
        return (*self.masks, *added, *(value.region for value in shown))

    def places_on(self, screen: Screen) -> tuple[Region, ...]:
        """Return where this screen shows values, also as a reviewer has stated."""
        added: Sequence[ShownValue] = ()
        if self.review:
            added = self.review.values_at.get(screen.gate, ())
        return tuple(value.region for value in (*screen.values, *added))

    def widened(self, made: Gate, screen: Screen) -> Gate:
        """Return the gate to a screen, with what other screens have taught."""
        if self.rehearsal is None:
            return made
        return self.rehearsal.widened(made, screen)

    def with_accepted(self, made: Gate, seen: Pixels, due_at: Sequence[Point]) -> Gate:
        """Return the gate with each accepted change that this screen shows."""
        if self.review is None:
            return made
        return self.review.with_accepted(made, seen, due_at)

    def with_learned(
        self, made: Gate, seen: Pixels, acted_on: Pixels | None
    ) -> Gate | None:
        """Return the gate that a rehearsal opens to this screen; None where it may
        not.
        """
        if self.rehearsal is None:
            return None
        return Rehearsal.with_learned(made, seen, acted_on)


class SeenFrame(NamedTuple):
    """A stored frame, with its pixels."""

    ref: FrameRef
    pixels: Pixels


class GatePosition:
    """A position in a replay, before a step or at the end: its gate, and what was seen
    there so far.

    Args:
        gate: The gate.
        passing: What the recording saw come and go after the newest steps, and until
            when it may still be there.
    """

    def __init__(
        self, gate: Gate, passing: Sequence[tuple[float, DynamicRegion]]
    ) -> None:
        self.gate = gate
        self.passing = passing
        self.blinks = BlinkWatch(gate.blinking)
        self.frame: Frame | None = None
        """The newest frame that was compared; None once it was handed on, or something
        was done.
        """
        self.opening: SeenFrame | None = None
        """The frame to which the gate was open."""
        self.mismatch: Mismatch | None = None
        """What the reviewer was asked about in vain."""
        self.opened_at = 0.0
        """When the gate was open last, on the monotonic clock; 0.0 for not yet."""
        self.left_at = 0.0
        """When the step was decided on."""
        self.longer_wait_s = 0.0
        """How long it was waited for the gate, where that is longer than the setting;
        else 0.0.
        """

    def watch_blinks(self) -> None:
        """Have each blinking part show all its variants from now on."""
        self.blinks = BlinkWatch(self.gate.blinking)

    def passing_now(self) -> Iterator[DynamicRegion]:
        """Yield what may still be there of what the recording saw come and go, except
        where the next step acts.
        """
        now = clock.monotonic()
        for until, part in self.passing:
            is_on_target = part.region.meets_any(self.gate.targets)
            if now < until and not is_on_target:
                yield part

    def look_again(self) -> None:
        """Forget what was compared, as another screen counts as recorded now."""
        self.frame = None
        self.opening = None
        self.mismatch = None
        self.opened_at = clock.monotonic()


class Course:
    """The course of one replay through its segment, and the comparisons on the way.

    Args:
        segment: What is replayed. A reviewer may replace steps of it.
        allowances: What else lets its gates open.
        earlier: The screen before the last step of the segment before, with which this
            one begins.
        life: Where the segment is, and who listens.
        values: The values of the run, which take the places of the recorded ones.
    """

    def __init__(
        self,
        segment: Segment,
        allowances: Allowances | None = None,
        earlier: Screen | None = None,
        life: Life | None = None,
        values: Values | None = None,
    ) -> None:
        self.segment = segment
        self.values = values or {}
        self.allowances = allowances or Allowances()
        self.life = life or Life(State.READY)
        self.before: GatePosition | None = None
        """The position before the newest step."""
        self._earlier = earlier
        self._next = 0
        self._position: GatePosition | None = None
        self._by_hand = range(0)
        """The steps that a reviewer has performed already: their screens are shown
        again, and nothing is done.
        """

    @property
    def other_values(self) -> dict[str, str]:
        """The values that differ from the recorded ones: for each name, both as text."""
        return other_values(self.segment.values, self.values)

    @property
    def number(self) -> int:
        """The number of steps so far."""
        return self._next

    @property
    def due(self) -> RecordedStep | None:
        """The next step; None at the end."""
        if self._next == len(self.segment.steps):
            return None
        return self.segment.steps[self._next]

    @property
    def due_at(self) -> tuple[Point, ...]:
        """The points at which the next step acts."""
        return self.segment.points_at(self._next)

    @property
    def screen(self) -> Screen:
        """The recorded screen before the next step, or at the end."""
        return self.segment.screens[self._next]

    @property
    def appeared_s(self) -> float:
        """How long that screen took when it was recorded, in seconds; 0 if unknown."""
        if self.position.gate.is_first:
            return self.segment.first_screen_s or 0.0
        return self.screen.appeared_s

    @property
    def first_stays_s(self) -> float:
        """How long the first screen must stay before the first step, in seconds."""
        rehearsal = self.allowances.rehearsal
        rehearsed_s = rehearsal.first_stays_s if rehearsal else 0.0
        return max(self.segment.first_stays_s, rehearsed_s)

    @property
    def newest_step(self) -> RecordedStep | None:
        """The step that was performed last; None before the first."""
        if self._next == 0:
            return None
        return self.segment.steps[self._next - 1]

    @property
    def pointer(self) -> Point | None:
        """Where the steps of this segment have left the pointer; None if they have not
        moved it, or if a button is held.
        """
        for step in reversed(self.segment.steps[: self._next]):
            if isinstance(step.action, MouseDown):
                return None
            if where := points(step.action):
                return where[-1]
        return None

    @property
    def last_screen(self) -> Screen | None:
        """The screen before the last step, with which the test's next segment
        begins.
        """
        steps = self.segment.steps
        return steps[-1].screen if steps else self._earlier

    @property
    def is_by_hand(self) -> bool:
        """Whether a reviewer has performed the next step already."""
        return self._next in self._by_hand

    @property
    def was_by_hand(self) -> bool:
        """Whether a reviewer had performed the newest step already."""
        return self._next - 1 in self._by_hand

    @property
    def acted_on(self) -> Pixels | None:
        """The screen on which the newest step was performed."""
        opening = self.before.opening if self.before else None
        return opening.pixels if opening else None

    @property
    def location(self) -> str:
        """Where the replay is, such as `before step 3 of 5, click "Pay" (button)`."""
        if self.due is None:
            return _AT_END
        return f"before {_format_step(self.segment, self._next)}"

    @property
    def newest_location(self) -> str:
        """The newest step, such as `after step 2 of 5, press return`; without one, as
        `location`.
        """
        if self._next == 0:
            return self.location
        return f"after {_format_step(self.segment, self._next - 1)}"

    @property
    def position(self) -> GatePosition:
        """The position now. It is made on first use, while the program reacts to the
        newest step.
        """
        if self._position is None:
            made = self._gate_to(self._next)
            made = self.allowances.widened(made, self.screen)
            self._position = GatePosition(made, [*self._passing_by(made)])
        return self._position

    def _gate_to(self, number: int) -> Gate:
        """Return the gate to the screen after `number` steps, with all masks."""
        screen = self.segment.screens[number]
        masks = self.allowances.masks_on(screen)
        made = gate_to(self.segment, number, masks, self._earlier)
        return replace(made, values=self.allowances.places_on(screen))

    def _passing_by(self, made: Gate) -> Iterator[tuple[float, DynamicRegion]]:
        """Yield what may still be there of what the recording saw come and go, and
        until when; nothing at the end.
        """
        newest = self.newest_step
        due = self.due
        if not newest or not due or not self.before:
            return
        yield from self.before.passing
        # The frames that passed while the planner was asked are recorded with the step
        # that it then took.
        passed = (*newest.transients, *due.transients)
        if not passed:
            return
        known = [newest.screen.pixels(), due.screen.pixels()]
        until = self.before.left_at + newest.duration_s
        for screen in passed:
            pixels = screen.pixels()
            for box in unknown_parts(pixels, known, made.ignored):
                yield until, dynamic_region(box, "unstable", box.part_of(pixels))

    def advance(self) -> RecordedStep:
        """Leave the position, and return its step."""
        step = self.segment.steps[self._next]
        self.position.left_at = clock.monotonic()
        self.before = self.position
        self._position = None
        self._next += 1
        return step

    def take_elements(self, performed: Step) -> None:
        """Give the newest step the elements that it acted on today, if they are known
        and a reviewer has accepted that its target changed.
        """
        step = self.newest_step
        review = self.allowances.review
        if step is None or review is None or not performed.elements:
            return
        if review.has_changed(step):
            steps = list(self.segment.steps)
            named = step.model_copy(update={"elements": performed.elements})
            steps[self._next - 1] = named
            self._replace_steps(steps)

    def forget_frame(self) -> None:
        """Note that something is done, so that no earlier frame is handed on."""
        if self._position:
            self._position.frame = None

    def remake(self) -> None:
        """Make the gate again, with the masks that a reviewer has added."""
        self._position = None

    def release(self) -> None:
        """Drop the gates, and what was seen at them."""
        self.before = None
        self._position = None

    def replace_steps(self, until: int, performed: Sequence[RecordedStep]) -> None:
        """Put the steps that a reviewer has performed in the place of the recorded ones
        from here to a number. Raises SettingsError for a value that none types alone.
        """
        first = self._next
        before = self.segment.steps[:first]
        after = self.segment.steps[until:]
        values = {name: self.values[name] for name in self.segment.values}
        named = with_names(performed, values, (*before, *after))
        self._replace_steps([*before, *named, *after])
        self._by_hand = range(first, first + len(named))
        self._position = None
        self.position.opened_at = clock.monotonic()

    def _replace_steps(self, steps: Sequence[RecordedStep]) -> None:
        self.segment = self.segment.model_copy(update={"steps": tuple(steps)})

    def difference(self, seen: Pixels) -> Mismatch | None:
        """Return what differs from the gate: from its screen, from what was accepted,
        or from what must blink.
        """
        # The screen before a step by hand is shown as the user has acted on it.
        if self.is_by_hand:
            return None
        position = self.position
        made = self.allowances.with_accepted(position.gate, seen, self.due_at)
        # The user saw where a step by hand moved the caret.
        acted_on = None if self.was_by_hand else self.acted_on
        mismatch = made.mismatch(seen, acted_on, position.passing_now())
        return mismatch or position.blinks.note(seen)

    def shows_end(self, seen: Pixels) -> bool:
        """Return whether a screen is the recorded end, once all steps were
        performed.
        """
        return self.due is None and self.difference(seen) is None

    def compare(self, frame: FrameRef, load: Callable[[], Pixels]) -> Mismatch | None:
        """Return how a frame differs from the gate. A frame to which it was open is not
        compared again.
        """
        position = self.position
        if position.opening and frame == position.opening.ref:
            return None
        seen = load()
        mismatch = self.difference(seen)
        if mismatch is None:
            position.opening = SeenFrame(frame, seen)
            self.life.announce(
                GateOpened(self.screen, position.gate, seen, self.due_at)
            )
            return None
        position.opening = None
        # A screen that was as recorded, and is as before the step again, has changed.
        if position.opened_at:
            return mismatch
        return explained(mismatch, position.gate, seen, self.acted_on)

    def learn(self, seen: Pixels) -> bool:
        """Open the gate to a screen as far as a rehearsal may; return whether it is."""
        position = self.position
        learned = self.allowances.with_learned(position.gate, seen, self.acted_on)
        if learned:
            position.gate = learned
        return learned is not None

    def locations(self) -> dict[int, tuple[str, Screen]]:
        """Return each position from here on, by its number: its name and its screen."""
        names = [f"before {caption}" for caption in self.captions()]
        names.append(_AT_END)
        locations = {}
        for number, screen in enumerate(self.segment.screens):
            if number >= self._next:
                locations[number] = (names[number], screen)
        return locations

    def captions(self) -> list[str]:
        """Return the caption of each step, such as `step 3: click "Pay" (button)`."""
        return [
            f"step {number}: {format_caption(step.action, step.elements)}"
            for number, step in enumerate(self.segment.steps, 1)
        ]

    def is_open(self, number: int, seen: Pixels) -> bool:
        """Return whether the gate after `number` recorded steps is open to a screen,
        but for what was accepted.
        """
        made = self._gate_to(number)
        due_at = self.segment.points_at(number)
        made = self.allowances.with_accepted(made, seen, due_at)
        return made.mismatch(seen) is None

    def unknown_parts(self, transient: Pixels) -> list[Region]:
        """Return where a transient frame differs from all that this segment shows
        there, and from what is seen on the way from one screen to the next.

        A slow program shows an earlier screen with a part of a later one: of the next
        gate's, or of the one after it. What comes on its own, such as a notification,
        may come at another step than when it was recorded. Any of these screens may
        show another value than recorded. Of many parts only the first `_MAX_UNKNOWN` are
        returned.
        """
        left_out = self.position.gate.ignored
        left_out = left_out | mask_of(self._places_of_values(), left_out.shape)
        beside = self._screens_beside()
        if not unknown_parts(transient, beside, left_out):
            return []
        cleared = cleared_place(transient, beside, left_out)
        passing = self._screens_passing()
        known = [*beside, *passing]
        parts = unknown_parts(transient, known, left_out)
        is_drawn = is_drawn_beside(parts, beside, transient, left_out)
        passage = Passage(beside, passing, self._typed_at(), is_drawn)
        regions: list[Region] = []
        for part in parts:
            if len(regions) == _MAX_UNKNOWN:
                break
            if cleared is not None and part.meets(cleared):
                continue
            new = passage.new_lines(part, transient)
            if not all(self._has_text_at(line, transient) for line in new):
                regions.append(part)
        return regions

    def _has_text_at(self, line: Region, seen: Pixels) -> bool:
        """Return whether any recorded screen of this segment has a line of text in its
        place, such as one that a list has covered.
        """
        screens = [screen.pixels() for screen in self.segment.screens]
        return has_text_at(line, screens, seen)

    def _typed_at(self) -> list[Region] | None:
        """Return where the text of the newest step may begin that Enter has taken away:
        left of its point, or at a caret before or after it, also beside other parts
        that blink. None if the step has typed nothing.
        """
        step = self.newest_step
        if step is None or not isinstance(step.action, TypeText):
            return None
        if not step.action.press_enter and "\n" not in step.action.text:
            return []
        places = [Region(0, y, x + 1, y + 1) for x, y in points(step.action)]
        for part in (*step.screen.dynamic, *self.screen.dynamic):
            if part.kind in ("caret", "blinks"):
                places.append(part.region)
        return places

    def _places_of_values(self) -> Iterator[Region]:
        """Yield where the screens from the one before the newest step to the one after
        the next gate's show values.
        """
        first = max(0, self._next - 1)
        for screen in self.segment.screens[first : self._next + 2]:
            yield from self.allowances.places_on(screen)

    def _screens_beside(self) -> list[Pixels]:
        """Return the recorded screens before and after the newest step, also as a
        reviewer has accepted them, and the one on which the step was performed, with
        what is masked there.
        """
        beside = [self.position.gate.expected]
        if self.before:
            beside.append(self.before.gate.expected)
        review = self.allowances.review
        if review:
            beside += [review.known(screen) for screen in beside]
        if self.acted_on is not None:
            beside.append(self.acted_on)
        return beside

    def _screens_passing(self) -> list[Pixels]:
        """Return what was seen to pass at any step, and the screen after the next
        gate's.
        """
        screens: list[Screen] = []
        for step in self.segment.steps:
            screens += step.transients
        after = self._next + 1
        screens += self.segment.screens[after : after + 1]
        return [screen.pixels() for screen in screens]
