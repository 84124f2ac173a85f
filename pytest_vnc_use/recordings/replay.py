"""The replay of a recorded run, and of what was judged: without a model, and with a check of the screen first.

Before each step, and at the end, the screen must be as recorded (a gate, see `gates`). If a gate stays closed, the live
planner takes over. Without a live planner the run ends with RecordingDrifted, and nothing more is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from pytest_vnc_use import clock
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import ProductFailed, RecordingDrifted, TaskFailed
from pytest_vnc_use.plain_text import got
from pytest_vnc_use.recordings.accept import Review
from pytest_vnc_use.recordings.drift import remedies
from pytest_vnc_use.recordings.format import DynamicRegion, RecordedRun, RecordedStep, Screen, dynamic_region
from pytest_vnc_use.recordings.gates import (
    BACK_S,
    LOOK_FOR_BLINK_S,
    BlinkWatch,
    Gate,
    Mismatch,
    gate,
    is_recoloured,
    surroundings,
    unknown_parts,
)
from pytest_vnc_use.recordings.images import Pixels, changed_tiles, frame_of, pixels_in, pixels_of
from pytest_vnc_use.recordings.moving import STABLE_S
from pytest_vnc_use.recordings.rehearse import Rehearsal
from pytest_vnc_use.runs.transcript import ONLY_REPLAYED, REPLAYED, format_caption, replaying_name, seen_by_live
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Decision,
    DesktopAction,
    Drag,
    Frame,
    FrameRef,
    GateAwaited,
    KeyCombo,
    MouseDown,
    MouseUp,
    Observation,
    RawFrame,
    Region,
    Settled,
    Step,
    TypeText,
    Wait,
)
from pytest_vnc_use.types.actions import Point, points
from pytest_vnc_use.types.protocols import ClickRules, Controller, ForwardingController, Planner

_LOOK_AGAIN_S = 0.25
"""The longest time between two comparisons of the screen, because a moving part such as a caret does not end a wait for
a change."""
_LOOK_FOR_CARET_S = 0.02
"""The same where a gate waits for a caret. Its change ends no wait where a caret was known to blink nearby."""
_MOVES = tuple(KeyCombo((key,)) for key in ("down", "up"))
_CHOOSES = (*(KeyCombo((key,)) for key in ("enter", "return")), *_MOVES)
"""After a text, these choose from a list that may come late, or off the screen: suggestions, GTK's file dialog."""
_LIST_S = 0.5
"""The time for a list that the screen does not show, before a key moves in it: jQuery UI asks for it after 0.3 s."""
_OTHER_S, _OTHER_REST_S, _SLOWER, _OTHER_SHARE = 3.5, 3.0, 5.0, 0.05
"""When a first screen is another one and stays so: after this time, if it has been stable for so long, if the recorded
one came so many times sooner, and if the tiles that differ are this share of the screen or more.

A machine with a load of 8 on two cores is four to five times slower than a quiet one. A program that takes long to
start may rest on a splash screen for long; its recording says so.
"""
_LONG_S = 2.0
"""The time after which observers learn that the run waits for a gate."""
_NEAR_PX = 20
"""The distance within which two clicks are near each other. For programs that is 5 of their own pixels: 10 on a screen
on which they draw everything twice as large."""
_APART_S, _ELSEWHERE_S = 0.52, 0.28
"""The least time between sending a release and the next press, near the same place and elsewhere.

A release may reach the program a little late, the press not: hence 20 ms more than the times below.

The recorded user was slower. Qt, GTK and browsers take two clicks for a double click if they come within 0.4 to
0.5 s and a few pixels; xterm if they come within 0.25 s, at any place. Only time separates clicks in all of them: a key
between two clicks does so in none, a click elsewhere does not in GTK 4 and xterm, moving the pointer away and back does
in Qt only (measured with Qt 6, GTK 3 and 4, Chromium and xterm). Where all programs use Qt, a click elsewhere need not
wait (`ClickRules`). Near the same place Qt needs 0.35 s: the rest is for a program that receives the first click late,
as on a busy machine.
"""
ButtonRelease = tuple[Point | None, float]
"""The point where a button was released last, None where it is unknown, and the time on the monotonic clock."""


def gate_to(run: RecordedRun, number: int, masks: tuple[Region, ...] = (), earlier: Screen | None = None) -> Gate:
    """Return the gate to the screen after so many steps of a run; `earlier` is the screen before its first."""
    steps = run.steps
    screen, due = (steps[number].screen, steps[number]) if number < len(steps) else (run.end, None)
    screen_before = steps[number - 1].screen if number else earlier
    before, expected = screen_before.pixels() if screen_before else None, screen.pixels()
    return gate(
        expected,
        screen.dynamic,
        before=before,
        parts_before=screen_before.dynamic if screen_before else (),
        masks=(*masks, *screen.redacted),
        targets=surroundings(due.action, (expected.shape[1], expected.shape[0])) if due else (),
    )


class _Position:
    """A position in a replay, before a step or at the end: its gate, and what was seen there so far."""

    def __init__(self, gate: Gate, passing: Sequence[tuple[float, DynamicRegion]] = ()) -> None:
        self.gate = gate
        self.passing = passing
        """What the recording saw come and go after the newest steps, and until when it may still be there."""
        self.blinks = BlinkWatch(gate.blinking)
        self.is_awaited = False
        """True once the gate was waited for: that is done once, also where it stayed closed."""
        self.frame: Frame | None = None
        """The newest frame that was compared; None once it was handed on, or something was done."""
        self.opening: FrameRef | None = None
        """The frame to which the gate was open."""
        self.seen: Pixels | None = None
        """The pixels of that frame."""
        self.opened_at = self.left_at = 0.0


class Replay(ForwardingController):
    """The ports Planner and Controller for one run of a recording.

    As a planner it reads its decisions from the recording, as a controller it waits for the recorded screens. A step
    takes four calls: `decide` returns it, `perform` does it, `settle` waits for the gate to the next screen, and
    `frame` returns the screen that opened it, or the last one where it stayed closed; then `decide` stops the replay.
    Before the first step, `frame` waits.

    A gate is waited for up to `limit_s`, and the end watched for `watch_s`, if it became stable when it was recorded.
    `earlier` is the screen before the last step of the test's run before, `let_go` the last click before the replay,
    which its first click must not join. `masks` are left out of all comparisons; the command that adds one names
    `test`. A `rehearsal` learns harmless differences; a `review` asks about each difference that stays. `emit`
    receives the time that a long wait may still take; `blame` adds to a drift's message what the machine has to do with
    it; `closed` receives, of a gate that stayed closed, the expected pixels, the difference, the message, the frame
    that was seen, and whether a model continues. `let_model` lets one, at the reviewer's request, and returns it.
    `unlike` says why the first screen may be another one here: then nothing is healed there.
    """

    def __init__(
        self,
        desktop: Controller,
        run: RecordedRun,
        live: Planner | None = None,
        *,
        limit_s: float = 0.0,
        watch_s: float = STABLE_S,
        earlier: Screen | None = None,
        masks: tuple[Region, ...] = (),
        test: str = "",
        rehearsal: Rehearsal | None = None,
        review: Review | None = None,
        let_go: ButtonRelease | None = None,
        emit: Callable[[GateAwaited], None] = lambda _: None,
        blame: Callable[[str], str] = str,
        closed: Callable[..., None] = lambda *_, **__: None,
        let_model: Callable[[], Planner] | None = None,
        unlike: str = "",
    ) -> None:
        super().__init__(desktop)
        self.run, self.let_go = run, let_go
        self._live, self._limit_s = live, limit_s
        self._watch_s = watch_s if run.end.stable_s else 0.0
        self._earlier, self._masks, self._test, self._rehearsal = earlier, masks, test, rehearsal
        self._review, self._let_model, self._unlike = review, let_model, unlike
        self._emit, self._blame, self._report = emit, blame, closed
        self._next, self._is_over = 0, False
        self._made: _Position | None = None
        self._left: _Position | None = None
        """The place before the newest step."""
        self._by_hand = range(0)
        """The steps that a reviewer has performed already: their screens are shown again, and nothing is done."""
        self.taken_over_at: int | None = None
        """The number of turns after which the live planner took over; None while it has not."""
        self.carried_out: tuple[RecordedStep, ...] = ()
        """The steps before the takeover, without one that failed."""

    @property
    def name(self) -> str:
        """The name of the planner, for the report."""
        return replaying_name(self._live.name) if self._live else ONLY_REPLAYED

    @property
    def is_live(self) -> bool:
        """Return whether the live planner has taken over."""
        return self.taken_over_at is not None

    @property
    def is_watched_later(self) -> bool:
        """Return whether the end may be watched while the test's body runs.

        That has two conditions: in the recording the body did not change the end, and there is no live planner, because
        it would need the screen before the body to take over.
        """
        return self.run.stays and self._live is None

    @property
    def newest_step(self) -> RecordedStep | None:
        """Return the step that was performed last; None before the first."""
        return self.run.steps[self._next - 1] if self._next else None

    @property
    def last_screen(self) -> Screen | None:
        """Return the screen before the last step, with which the test's next run begins."""
        steps = self.run.steps
        return steps[-1].screen if steps else self._earlier

    @property
    def last_frame(self) -> Frame:
        """Return the newest frame that was compared; without one, a new frame."""
        return self._place.frame or self.desktop.frame()

    @property
    def _due(self) -> RecordedStep | None:
        """The next step; None at the end."""
        return self.run.steps[self._next] if self._next < len(self.run.steps) else None

    @property
    def _due_at(self) -> tuple[Point, ...]:
        """The points at which the next step acts."""
        return tuple(points(self._due.action)) if self._due else ()

    @property
    def _screen(self) -> Screen:
        return self._due.screen if self._due else self.run.end

    @property
    def _is_by_hand(self) -> bool:
        return self._next in self._by_hand

    def _format_place(self) -> str:
        return f"before step {self._next + 1} of {len(self.run.steps)}" if self._due else "at the end"

    def _format_drift(self, mismatch: Mismatch) -> str:
        unlike = self._unlike if self._place.gate.is_first else ""
        return self._blame(f"{unlike}drift {self._format_place()}: {mismatch.problem}")

    @property
    def _place(self) -> _Position:
        """The place where the replay is. It is made on first use, while the program reacts to the last action."""
        if self._made is None:
            gate = gate_to(self.run, self._next, self._masks, self._earlier)
            gate = self._rehearsal.widened(gate, self._screen) if self._rehearsal else gate
            self._made = _Position(gate, [*self._passing_by(gate)])
        return self._made

    def _passing_by(self, gate: Gate) -> Iterator[tuple[float, DynamicRegion]]:
        """Yield what may still be there of what the recording saw come and go, and until when; nothing at the end."""
        newest, due = self.newest_step, self._due
        if not newest or not due or not self._left:
            return
        yield from self._left.passing
        # the frames that passed while the planner was asked are recorded with the step that it then took
        passed = (*newest.transients, *due.transients)
        known = [newest.screen.pixels(), due.screen.pixels()] if passed else []
        for pixels in (screen.pixels() for screen in passed):
            for box in unknown_parts(pixels, known, gate.ignored):
                yield self._left.left_at + newest.duration_s, dynamic_region(box, "unstable", box.part_of(pixels))

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the next recorded step where its gate is open; else the live planner's decision.

        Raises RecordingDrifted where there is no live planner.
        """
        if not self.is_live and (mismatch := self._problem(observation)):
            message, is_first = self._format_drift(mismatch), self._place.gate.is_first
            live = None if is_first and self._unlike else self._live
            expected, is_healed = self._place.gate.expected, live is not None
            self._report(expected, mismatch, message, observation.frame, is_healed=is_healed)
            last = _last_step(observation)
            has_failed = last is not None and bool(last.error)
            if live is None:
                seen = pixels_of(observation.load_png(observation.frame))
                raise self.error(message, mismatch, seen, performed=not has_failed)
            self.taken_over_at = self._next
            self.carried_out = self.run.steps[: self._next - has_failed]
        if self._live is not None and self.is_live:
            return self._live.decide(seen_by_live(observation), timeout_s=timeout_s)
        if self._due is None:
            self._is_over = True
            return Decision("finished", "all recorded steps were performed, and the screen is as at their end")
        step = self._due
        self._place.left_at = clock.monotonic()
        self._left, self._made, self._next = self._place, None, self._next + 1
        return Decision("act", step.intent, (step.proposal,), provider_details={REPLAYED: True})

    def _problem(self, observation: Observation) -> Mismatch | None:
        """Return why the next step must not be performed; None if its gate is open."""
        last, recorded, (height, width) = _last_step(observation), self.newest_step, self._place.gate.expected.shape
        if last and last.error:
            return Mismatch(f"the step before failed: {last.error}", Region(0, 0, width, height))
        action, answer = (recorded.action, recorded.answer) if recorded else (None, None)
        if last and isinstance(action, CallFunction) and answer not in (None, last.output):
            answers = f"answered {got(last.output)}, but in the recording {got(answer)}"
            return Mismatch(f"{action.name} {answers}", Region(0, 0, width, height))
        return self._compare(observation.frame, lambda: pixels_of(observation.load_png(observation.frame)))

    def error(self, message: str, mismatch: Mismatch, seen: Pixels, *, performed: bool = True) -> TaskFailed:
        """Return the error for a drift: the reviewer's text where it is a bug, else a line for each remedy."""
        review, place = self._review, self._place
        if review and review.bug is not None:
            return ProductFailed(f"{review.bug or 'it is a bug'} (according to the reviewer)\n{message}")
        asked = {"moved": review.moved, "unasked": review.unasked} if review else {}
        acted_on = self._left.seen if self._left else None
        lines = remedies(mismatch, place.gate, seen, self.run, self._test, acted_on=acted_on, **asked)
        drift = RecordingDrifted("\n".join([message, *lines]))
        drift.at_end = self._due is None and performed
        return drift

    def frame(self) -> Frame:
        """Return the screen once the gate is open, or once its time is up. Each gate is waited for once."""
        if self.is_live:
            return self.desktop.frame()
        if not self._is_by_hand and not self._place.is_awaited:
            self._pass_gate()
        if self._is_by_hand:
            return frame_of(self._screen.pixels())
        seen, self._place.frame = self._place.frame, None
        return seen or self.desktop.frame()

    def settle(self, *, briefly: bool = False) -> Settled:
        """Wait for the next gate. Where that gate cannot show the action's effect, wait for a stable screen too.

        The wait for a stable screen is brief: then the same gate is waited for again, and the next wait sees any
        later change.
        """
        if self.is_live:
            return self.desktop.settle(briefly=briefly)
        if self._is_by_hand:
            return Settled("settled", 0.0)
        started_s, place = clock.monotonic(), self._place
        if not self._pass_gate() and self._due and not self._is_by_hand:
            typed, due = self.newest_step, self._due.action
            chooses = typed is not None and isinstance(typed.action, TypeText) and due in _CHOOSES
            if chooses or not place.gate.shows_effect:
                self.desktop.settle(briefly=not chooses)
                if chooses and due in _MOVES:
                    self.desktop.perform(Wait(_LIST_S))
                self._await_gate(self._limit_s)
        return Settled("settled", clock.monotonic() - started_s)

    def perform(self, action: DesktopAction) -> None:
        """Perform an action on the desktop.

        A click waits first, so that it does not join the last one as a double click.
        """
        if self._next - 1 in self._by_hand:
            return
        if self._made:
            self._made.frame = None
        where = points(action) if isinstance(action, (Click, Drag, MouseDown, MouseUp, TypeText)) else ()
        if where and self.let_go and not isinstance(action, MouseUp):
            (x, y), (before, let_go_s) = where[0], self.let_go
            near = before is None or max(abs(x - before[0]), abs(y - before[1])) <= _NEAR_PX
            if near or not (isinstance(self.desktop, ClickRules) and self.desktop.doubles_only_near):
                due_s = let_go_s + (_APART_S if near else _ELSEWHERE_S) - clock.monotonic()
                if due_s > 0:
                    self.desktop.perform(Wait(due_s))
        self.desktop.perform(action)
        if where:
            self.let_go = where[-1], clock.monotonic()

    def _pass_gate(self) -> Mismatch | None:
        """Wait for the gate, and have a difference that stays reviewed; at the end, watch that it stays open.

        Return what still differs; None where the gate is open.
        """
        mismatch = self._await_gate(self._limit_s)
        while self.is_accepted(mismatch):
            mismatch = None if self._is_by_hand else self._await_gate(self._limit_s)
        return self.watch_end() if mismatch is None and not self._due and not self.is_watched_later else mismatch

    def _await_gate(self, limit_s: float) -> Mismatch | None:
        """Wait until the gate is open; return None then, else what differs. A rehearsal learns what it may of that."""
        place, deadline, is_reported = self._place, Deadline(limit_s), False
        place.is_awaited = True
        again_s = _LOOK_FOR_CARET_S if place.gate.caret else LOOK_FOR_BLINK_S if place.gate.blinking else _LOOK_AGAIN_S
        while True:
            seen = self.desktop.raw_frame()
            mismatch = self._difference(pixels_in(seen))
            is_late = not deadline.remaining_s or (mismatch is not None and self._is_other(seen, deadline.spent_s))
            if mismatch is None or is_late:
                frame = place.frame = self.desktop.frame()
                mismatch = self._compare(frame.ref, partial(pixels_in, frame))
                if mismatch and is_late and self._rehearsal:
                    acted_on = self._left.seen if self._left else None
                    if opened := Rehearsal.opened(place.gate, pixels_in(frame), acted_on):
                        place.gate = opened
                        mismatch = self._compare(frame.ref, partial(pixels_in, frame))
                if mismatch is None:
                    place.opened_at = frame.taken_at
                if mismatch is None or is_late:
                    return mismatch
            if deadline.spent_s > _LONG_S and not is_reported:
                is_reported = True
                self._emit(GateAwaited(deadline.remaining_s))
            self.desktop.wait_changed(seen.taken_at, min(again_s, deadline.remaining_s))

    def _difference(self, seen: Pixels) -> Mismatch | None:
        """Return what differs from the gate: from its screen, from what was accepted, or from what must blink."""
        place, now, acted_on = self._place, clock.monotonic(), self._left.seen if self._left else None
        targets = place.gate.targets
        passing = (part for until, part in place.passing if now < until and not any(map(part.region.meets, targets)))
        gate = self._review.opened(place.gate, seen, self._due_at) if self._review else place.gate
        return gate.mismatch(seen, acted_on, passing) or place.blinks.note(seen)

    def _compare(self, frame: FrameRef, load: Callable[[], Pixels]) -> Mismatch | None:
        """Return how a frame differs from the gate. A frame to which it was open is not compared again."""
        place = self._place
        if frame == place.opening:
            return None
        seen = load()
        mismatch = self._difference(seen)
        place.opening, place.seen = (None, None) if mismatch else (frame, seen)
        if not mismatch and self._rehearsal:
            self._rehearsal.note(self._screen, place.gate, seen)
        if not mismatch and self._review:
            self._review.note(self._screen, place.gate, seen, self._due_at)
        return mismatch

    def _is_other(self, seen: RawFrame, spent_s: float) -> bool:
        """Return whether the first screen is plainly another one, and would have changed by now if it were to."""
        gate, first_screen_s = self._place.gate, self.run.first_screen_s
        if not gate.is_first or first_screen_s is None or spent_s < max(_OTHER_S, _SLOWER * first_screen_s):
            return False
        if self.desktop.changed_since(clock.monotonic() - _OTHER_REST_S):
            return False
        pixels = pixels_in(seen)
        return pixels.shape != gate.expected.shape or changed_tiles(gate.expected, pixels).mean() >= _OTHER_SHARE

    def watch_end(self) -> Mismatch | None:
        """Watch the end, and have what differs then reviewed; return what still differs. Raises DesktopError."""
        mismatch = self._watch_end()
        while self.is_accepted(mismatch):
            mismatch = None if self._is_by_hand else self._watch_end()
        return mismatch

    def _watch_end(self) -> Mismatch | None:
        """Watch until the end has stayed unchanged for its time; return what differs then.

        After a brief difference the time starts again. A blinking caret does not close the end's gate. Raises
        DesktopError.
        """
        place, deadline = self._place, Deadline(self._watch_s + self._limit_s)
        seen_at = place.opened_at
        if self._watch_s > _LONG_S:
            self._emit(GateAwaited(self._watch_s))
        while deadline.remaining_s:
            left_s = max(0.0, place.opened_at + self._watch_s - clock.monotonic())
            if not self.desktop.wait_changed(seen_at, left_s):
                break
            seen = self.desktop.raw_frame()
            seen_at = seen.taken_at
            if self._difference(pixels_in(seen)):
                if self._await_gate(BACK_S):
                    break
                seen_at = place.opened_at
        return self.look_at_end()

    def look_at_end(self) -> Mismatch | None:
        """Return what differs from the recorded end now, if it does not go away within `BACK_S`.

        Raises DesktopError.
        """
        self._place.opening, self._place.blinks = None, BlinkWatch(self._place.gate.blinking)
        return self._await_gate(BACK_S)

    def shows_end(self, seen: Pixels) -> bool:
        """Return whether a screen is the recorded end, once all steps were performed."""
        return self._due is None and self._difference(seen) is None

    def is_accepted(self, mismatch: Mismatch | None) -> bool:
        """Have a difference from the gate reviewed, where that can be asked; return whether to look again."""
        if self._review is None or self.is_live or mismatch is None or not mismatch.boxes:
            return False
        problem = self._format_drift(mismatch)
        gate, frame = self._place.gate, self.last_frame
        answer = self._review.ask(gate, frame, problem, self.run, self._due_at, is_over=self._is_over)
        if answer.kind == "model" and self._let_model:
            self._live = self._let_model()
            self._review.note_steps(f"{self._live.name} continued {self._format_place()}")
        if answer.kind == "hand":
            return self._continue_by_hand(self._review)
        if answer.kind not in ("accept", "mask"):
            return False
        if answer.kind == "mask":
            self._masks, self._made = (*dict.fromkeys((*self._masks, *self._review.masks)),), None
        self._place.frame, self._place.opening, self._place.opened_at = None, None, clock.monotonic()
        return True

    def _continue_by_hand(self, review: Review) -> bool:
        """Have the reviewer perform steps, which replace recorded ones up to the gate that is then open.

        Where none or several are, the reviewer chooses. Return whether to continue. Raises DesktopError, SettingsError.
        """
        steps = self.run.steps
        captions = [
            f"step {number}: {format_caption(step.action, step.elements)}" for number, step in enumerate(steps, 1)
        ]
        done = review.hand(self.run.task, captions[self._next :], self.desktop)
        self.desktop.transient_frames()  # what passed meanwhile, the reviewer saw
        self.let_go, self._place.frame, self._place.opening = (None, clock.monotonic()), None, None
        if isinstance(done, str):
            review.unasked = done
            return False
        seen = pixels_in(self.desktop.frame())
        places = [*(f"before {caption}" for caption in captions), "at the end"]
        screens = [*(step.screen for step in steps), self.run.end]
        due = {number: (places[number], screens[number]) for number in range(self._next, len(places))}
        choices = {number: place for number, place in due.items() if self._is_open(number, seen)}
        title = "Several recorded screens are shown" if choices else "The screen is not as recorded anywhere"
        chosen = next(iter(choices)) if len(choices) == 1 else review.choose(title, choices or due)
        if chosen not in due:
            review.unasked = "it was not chosen where the recording continues"
            return False
        self.run = self.run.model_copy(update={"steps": (*steps[: self._next], *done.steps, *steps[chosen:])})
        count = len(done.steps)
        review.note_steps(f"{count} by hand for {chosen - self._next} recorded from step {self._next + 1}")
        self._by_hand, self._made = range(self._next, self._next + count), None
        self._place.opened_at = clock.monotonic()
        return True

    def _is_open(self, number: int, seen: Pixels) -> bool:
        """Return whether the gate after so many recorded steps is open to a screen, but for what was accepted."""
        made = gate_to(self.run, number, self._masks, self._earlier)
        due = points(self.run.steps[number].action) if number < len(self.run.steps) else ()
        return (self._review.opened(made, seen, tuple(due)) if self._review else made).mismatch(seen) is None

    def unknown_parts(self, transient: Pixels) -> list[Region]:
        """Return where a transient frame differs from all that this run's recording shows there.

        A slow program shows an earlier screen with a part of a later one: of the next gate's, or of the one after it.
        What comes on its own, such as a notification, may come at another step than when it was recorded.
        It shows a step's target for longer in other colours and with another border: pressed, or losing the focus.
        """
        if self.is_live:
            return []
        left_out, beside = self._place.gate.ignored, [self._place.gate.expected]
        beside += [self._left.gate.expected] if self._left else []
        if self._review:
            beside += [*map(self._review.known, beside)]
        if not unknown_parts(transient, beside, left_out):
            return []
        steps = self.run.steps
        shown = [*(step.screen for step in steps), self.run.end]
        known = [*beside, *(screen.pixels() for step in steps for screen in step.transients)]
        known += [screen.pixels() for screen in shown[self._next + 1 : self._next + 2]]
        targets = [point for step in steps[: self._next] for point in points(step.action)]
        regions = [
            part
            for part in unknown_parts(transient, known, left_out)
            if not any(is_recoloured(part, targets, screen, transient) for screen in beside)
        ]
        for screen in shown if regions else ():
            unlike = unknown_parts(transient, [*known, screen.pixels()], left_out)
            regions = [part for part in regions if any(map(part.meets, unlike))]
        return regions

    def elements_of(self, action: Action) -> Any:
        """Return the elements that the recorded step acted on; None once the live planner has taken over."""
        step = None if self.is_live else self.newest_step
        return step.elements if step else None


def _last_step(observation: Observation) -> Step | None:
    steps = observation.turns[-1].steps if observation.turns else ()
    return steps[-1] if steps else None
