"""The replay of a recorded run, and of what was judged: without a model, and with a check of the screen first.

Before each step, and at the end, the screen must be as recorded (a gate, see `gates`). If a gate stays closed, the live
planner takes over. Without a live planner the run ends with RecordingDrifted, and nothing more is done.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pytest_vnc_use import clock
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.errors import ProductFailed, RecordingDrifted, TaskFailed
from pytest_vnc_use.plain_text import got
from pytest_vnc_use.recordings import AGAIN
from pytest_vnc_use.recordings.accept import Review, offered_masks
from pytest_vnc_use.recordings.format import (
    DynamicRegion,
    RecordedRun,
    RecordedStep,
    Screen,
    dynamic_region,
)
from pytest_vnc_use.recordings.gates import (
    BACK_S,
    LOOK_FOR_BLINK_S,
    QUIET_S,
    BlinkWatch,
    Gate,
    Mismatch,
    gate,
    is_maskable,
    is_recoloured,
    mask_command,
    mask_of,
    surroundings,
    unknown_parts,
)
from pytest_vnc_use.recordings.images import Pixels, changed_tiles, frame_of, pixels_in, pixels_of
from pytest_vnc_use.recordings.rehearse import Rehearsal
from pytest_vnc_use.runs.transcript import ONLY_REPLAYED, REPLAYED, action_in_words, replaying_name, seen_by_live
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Click,
    Decision,
    DesktopAction,
    Drag,
    Frame,
    FrameRef,
    Glance,
    KeyCombo,
    MouseDown,
    MouseUp,
    Observation,
    Region,
    Settled,
    Step,
    TypeText,
    Wait,
)
from pytest_vnc_use.types.actions import Point, points
from pytest_vnc_use.types.protocols import ClickRules, Controller, ForwardingController, Planner

_REMEDIES = (
    "If the screen is right now, accept it: --vnc-record=accept --vnc-ui (without --vnc-ui, at a terminal).",
    "Or record the test again: --vnc-record=manual by hand, --vnc-record=rewrite with a planner;",
    "--vnc-record=auto lets a planner continue from here.",
)
_ON = "or do the steps from here by hand on the page: --vnc-record=accept --vnc-ui, Continue by hand."
_BUG = "If it is wrong, the product has a bug: the report shows both screens."
_NO_MASK = "If the screen is empty or another one, check that the program, or the server of its page, is running."
_LEARN = "The difference is tiny: if the product is the same, record again with vnc_rehearse=2, which learns it."
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

Whoever was recorded was slower. Qt, GTK and browsers take two clicks for a double click if they come within 0.4 to
0.5 s and a few pixels; xterm if they come within 0.25 s, at any place. Only time separates clicks in all of them: a key
between two clicks does so in none, a click elsewhere does not in GTK 4 and xterm, moving the pointer away and back does
in Qt only (measured with Qt 6, GTK 3 and 4, Chromium and xterm). Where all programs use Qt, a click elsewhere need not
wait (`ClickRules`). Near the same place Qt needs 0.35 s: the rest is for a program that receives the first click late,
as on a busy machine.
"""
ButtonRelease = tuple[Point | None, float]
"""The place where a button was let go last, None where it is not known, and the moment on the monotonic clock."""


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


class Replay(ForwardingController):
    """The ports Planner and Controller for one run of a recording.

    As a planner it reads its decisions from the recording, as a controller it waits for the recorded screens. A gate is
    waited for up to `limit_s`, and the end watched for `watch_s`, if it became stable when it was recorded. `earlier`
    is the screen before the last step of the test's run before, `let_go` the last click before the replay, which its
    first click must not join. `masks` are left out of all comparisons; the command that adds one names `test`. A
    `rehearsal` learns harmless differences; a `review` asks about each difference that stays. `awaited` receives the
    time that a long wait may still take; `blame` adds to a drift's message what the machine has to do with it; `closed`
    receives, of a gate that stayed closed, the expected pixels, the difference, the message and the frame that was
    seen, and whether a model continues. `let_model` lets one, at the reviewer's wish, and returns it.
    """

    def __init__(
        self,
        desktop: Controller,
        run: RecordedRun,
        live: Planner | None = None,
        *,
        limit_s: float = 0.0,
        watch_s: float = QUIET_S,
        earlier: Screen | None = None,
        masks: tuple[Region, ...] = (),
        test: str = "",
        rehearsal: Rehearsal | None = None,
        review: Review | None = None,
        let_go: ButtonRelease | None = None,
        awaited: Callable[[float], None] = lambda _: None,
        blame: Callable[[str], str] = str,
        closed: Callable[[Pixels, Mismatch, str, FrameRef, bool], None] = lambda *_: None,
        let_model: Callable[[], Planner] | None = None,
    ) -> None:
        super().__init__(desktop)
        self._run, self._live, self._limit_s = run, live, limit_s
        self._watch_s = watch_s if run.end.quiet_s else 0.0
        self._earlier, self._masks, self._test, self._rehearsal = earlier, masks, test, rehearsal
        self._review, self._let_model = review, let_model
        self._tell_awaited, self._blame, self._tell_closed = awaited, blame, closed
        self.let_go = let_go
        self._next, self._is_over = 0, False
        self._by_hand = range(0)
        """The steps that a reviewer has performed already: their screens are shown again, and nothing is done."""
        self._made: Gate | None = None
        """The gate to the next screen, once it was used."""
        self._awaited: Gate | None = None
        """The gate that was waited for last."""
        self._blinks = BlinkWatch(())
        self._passing: list[tuple[float, DynamicRegion]] = []
        """What the recording saw come and go after the newest steps, and until when it may still be there."""
        self._frame: Frame | None = None
        """The newest frame that was compared; None once it was handed on, or something was done."""
        self._opened: FrameRef | None = None
        """The frame to which the gate was open."""
        self._seen: Pixels | None = None
        self._opened_at = self._acted_at = 0.0
        self._acted_on: Pixels | None = None
        self._before: Pixels | None = None
        """The screen on which the newest step acted, as it was and as it was recorded."""
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

        That needs two things: in the recording the body did not change the end, and there is no live planner, because
        it would need the screen before the body to take over.
        """
        return self._run.stays and self._live is None

    @property
    def newest_step(self) -> RecordedStep | None:
        """Return the step that was performed last; None before the first."""
        return self._run.steps[self._next - 1] if self._next else None

    @property
    def last_screen(self) -> Screen | None:
        """Return the screen before the last step, with which the test's next run begins."""
        steps = self._run.steps
        return steps[-1].screen if steps else self._earlier

    @property
    def last_frame(self) -> Frame:
        """Return the newest frame that was compared; without one, a new frame."""
        return self._frame or self.desktop.frame()

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the next recorded step where its gate is open; else the live planner's decision.

        Raises RecordingDrifted where there is no live planner.
        """
        if not self.is_live and (problem := self._problem(observation)):
            message = self._blame(f"drift {self._format_next()}: {problem.problem}")
            self._tell_closed(self._gate.expected, problem, message, observation.frame, self._live is not None)
            last = _last_step(observation)
            has_failed = last is not None and bool(last.error)
            if self._live is None:
                seen = pixels_of(observation.load_png(observation.frame))
                raise self.error(message, problem, seen, performed=not has_failed)
            self.taken_over_at = self._next
            self.carried_out = self._run.steps[: self._next - has_failed]
        if self._live is not None and self.is_live:
            return self._live.decide(seen_by_live(observation), timeout_s=timeout_s)
        if self._at_end:
            self._is_over = True
            return Decision("finished", "all recorded steps were performed, and the screen is as at their end")
        step = self._run.steps[self._next]
        self._before = self._gate.expected
        self._next += 1
        self._made, self._opened = None, None
        self._acted_on, self._seen, self._acted_at = self._seen, None, clock.monotonic()
        return Decision("act", step.intent, (step.proposal,), provider_details={REPLAYED: True})

    def _problem(self, observation: Observation) -> Mismatch | None:
        last, recorded, (height, width) = _last_step(observation), self.newest_step, self._gate.expected.shape
        if last and last.error:
            return Mismatch(f"the step before failed: {last.error}", Region(0, 0, width, height))
        action, answer = (recorded.action, recorded.answer) if recorded else (None, None)
        if last and isinstance(action, CallFunction) and answer not in (None, last.output):
            answers = f"answered {got(last.output)}, but in the recording {got(answer)}"
            return Mismatch(f"{action.name} {answers}", Region(0, 0, width, height))
        return self._mismatch(observation.frame, lambda: pixels_of(observation.load_png(observation.frame)))

    def error(self, message: str, problem: Mismatch, seen: Pixels, *, performed: bool = True) -> TaskFailed:
        """Return the error for a drift: the reviewer's words where it is a bug, else a line for each remedy."""
        review = self._review
        if review and review.bug is not None:
            return ProductFailed(f"{review.bug or 'it is a bug'} (said the reviewer)\n{message}")
        lines = [message, *_REMEDIES, _BUG]
        if review and review.moved:
            lines[1:] = [f"It cannot be accepted, because {review.moved}. If it is right, {AGAIN},", _ON, _BUG]
        elif review and review.unasked:
            lines.insert(1, f"No user was asked whether the screen is right: {review.unasked}.")
        if problem.boxes and Rehearsal.opened(self._gate, seen, self._acted_on):
            lines.append(_LEARN)
        if problem.boxes and not is_maskable(problem.masks, seen.shape):
            lines.append(_NO_MASK)
        elif problem.boxes and (masks := offered_masks(self._gate, problem.masks, seen)):
            claims = self._run.claims_hidden_by(masks)
            lost = f"; {claims[0]!r} then needs a judge each time" if claims else ""
            hidden = int(mask_of(masks, seen.shape).sum())
            lines.append(f"If that region changes on its own, mask it ({hidden:,} px{lost}):")
            lines.append(f"  {mask_command(self._test, masks)}")
        drift = RecordingDrifted("\n".join(lines))
        drift.at_end = self._at_end and performed
        return drift

    @property
    def _at_end(self) -> bool:
        return self._next == len(self._run.steps)

    @property
    def _due(self) -> tuple[Point, ...]:
        """The points at which the next step acts."""
        return () if self._at_end else tuple(points(self._run.steps[self._next].action))

    def _format_next(self) -> str:
        return "at the end" if self._at_end else f"before step {self._next + 1} of {len(self._run.steps)}"

    @property
    def _screen(self) -> Screen:
        return self._run.end if self._at_end else self._run.steps[self._next].screen

    @property
    def _gate(self) -> Gate:
        """Return the gate to the next screen. It is made on first use, while the program reacts to the last action."""
        if self._made is None:
            due = None if self._at_end else self._run.steps[self._next]
            made = gate_to(self._run, self._next, self._masks, self._earlier)
            self._made = self._rehearsal.widened(made, self._screen) if self._rehearsal else made
            self._blinks = BlinkWatch(self._made.blinking)
            newest, self._passing = self.newest_step, self._passing if due else []
            if newest and due and (passed := (*newest.transients, *due.transients)):
                # the frames that passed while the planner was asked are recorded with the step that it then took
                known, until_s = [newest.screen.pixels(), due.screen.pixels()], self._acted_at + newest.took_s
                for transient in (each.pixels() for each in passed):
                    for box in unknown_parts(transient, known, made.ignored):
                        part = dynamic_region(box, "unstable", box.part_of(transient))
                        self._passing = [*self._passing, (until_s, part)]
        return self._made

    def _look(self, seen: Pixels) -> Mismatch | None:
        """Return the difference from the gate; None where it is open."""
        now, targets = clock.monotonic(), self._gate.targets
        passing = (part for until, part in self._passing if now < until and not any(map(part.region.meets, targets)))
        gate = self._review.opened(self._gate, seen, self._due) if self._review else self._gate
        return gate.mismatch(seen, self._acted_on, passing) or self._blinks.note(seen)

    def _mismatch(self, frame: FrameRef, load: Callable[[], Pixels]) -> Mismatch | None:
        """Return a frame's difference from the gate. A frame to which it was open is not compared again."""
        if frame == self._opened:
            return None
        seen = load()
        found = self._look(seen)
        self._opened, self._seen = (None, None) if found else (frame, seen)
        if not found and self._rehearsal:
            self._rehearsal.note(self._screen, self._gate, seen)
        if not found and self._review:
            self._review.note(self._screen, self._gate, seen, self._due)
        return found

    def is_accepted(self, found: Mismatch | None) -> bool:
        """Have a difference from the gate reviewed, where that can be asked; return whether to look again."""
        if self._review is None or self.is_live or found is None or not found.boxes:
            return False
        problem = self._blame(f"drift {self._format_next()}: {found.problem}")
        answer = self._review.ask(self._gate, self.last_frame, problem, self._run, self._due, is_over=self._is_over)
        if answer.kind == "model" and self._let_model:
            self._live = self._let_model()
            self._review.note_steps(f"{self._live.name} continued {self._format_next()}")
        if answer.kind == "hand":
            return self._continue_by_hand()
        if answer.kind not in ("accept", "mask"):
            return False
        if answer.kind == "mask":
            self._masks, self._made = (*dict.fromkeys((*self._masks, *self._review.masks)),), None
        self._frame, self._opened, self._opened_at = None, None, clock.monotonic()
        return True

    def _continue_by_hand(self) -> bool:
        """Have the reviewer perform steps, which replace recorded ones up to the gate that is then open.

        Where none or several are, the reviewer chooses. Return whether to continue. Raises DesktopError, SettingsError.
        """
        assert self._review is not None
        steps = self._run.steps
        captions = [
            f"step {number}: {action_in_words(step.action, step.elements)}" for number, step in enumerate(steps, 1)
        ]
        done = self._review.hand(self._run.task, captions[self._next :], self.desktop)
        self.desktop.transient_frames()  # what passed meanwhile, the reviewer saw
        self.let_go, self._frame, self._opened = (None, clock.monotonic()), None, None
        if isinstance(done, str):
            self._review.unasked = done
            return False
        places = [*(f"before {caption}" for caption in captions), "at the end"]
        screens = [*(step.screen for step in steps), self._run.end]
        due = {number: (places[number], screens[number]) for number in range(self._next, len(places))}
        seen = pixels_in(self.desktop.frame())
        choices = {number: place for number, place in due.items() if self._is_open(number, seen)}
        title = "Several recorded screens are shown" if choices else "The screen is not as recorded anywhere"
        chosen = next(iter(choices)) if len(choices) == 1 else self._review.choose(title, choices or due)
        if chosen not in due:
            self._review.unasked = "it was not chosen where the recording continues"
            return False
        self._run = self._run.model_copy(update={"steps": (*steps[: self._next], *done.steps, *steps[chosen:])})
        count = len(done.steps)
        self._review.note_steps(f"{count} by hand for {chosen - self._next} recorded from step {self._next + 1}")
        self._by_hand = range(self._next, self._next + count)
        self._made, self._opened_at = None, clock.monotonic()
        return True

    def _is_open(self, number: int, seen: Pixels) -> bool:
        """Return whether the gate after so many recorded steps is open to a screen, but for what was accepted."""
        made = gate_to(self._run, number, self._masks, self._earlier)
        due = points(self._run.steps[number].action) if number < len(self._run.steps) else ()
        return (self._review.opened(made, seen, tuple(due)) if self._review else made).mismatch(seen) is None

    @property
    def run(self) -> RecordedRun:
        """The recorded run, with the steps that a reviewer has performed by hand in place of others."""
        return self._run

    def unknown_parts(self, transient: Pixels) -> list[Region]:
        """Return where a transient frame differs from all that this run's recording shows there.

        A slow program shows an earlier screen with a part of a later one: of the next gate's, or of the one after it.
        What comes on its own, such as a notification, may come at another step than when it was recorded.
        It shows a step's target for longer in other colours and with another border: pressed, or losing the focus.
        """
        if self.is_live:
            return []
        left_out, beside = self._gate.ignored, [self._gate.expected]
        beside += [] if self._before is None else [self._before]
        if self._review:
            beside += [*map(self._review.known, beside)]
        if not unknown_parts(transient, beside, left_out):
            return []
        known = [*beside, *(each.pixels() for step in self._run.steps for each in step.transients)]
        shown = [*(step.screen for step in self._run.steps), self._run.end]
        known += [each.pixels() for each in shown[self._next + 1 : self._next + 2]]
        targets = [point for step in self._run.steps[: self._next] for point in points(step.action)]
        found = [
            part
            for part in unknown_parts(transient, known, left_out)
            if not any(is_recoloured(part, targets, each, transient) for each in beside)
        ]
        for each in shown if found else ():
            unlike = unknown_parts(transient, [*known, each.pixels()], left_out)
            found = [part for part in found if any(map(part.meets, unlike))]
        return found

    def elements_of(self, action: Action) -> Any:
        """Return the elements that the recorded step acted on; None once the live planner has taken over."""
        step = None if self.is_live else self.newest_step
        return step.elements if step else None

    def frame(self) -> Frame:
        """Return the screen once the gate is open, or once its time is up. Each gate is waited for once."""
        if not self.is_live and self._next not in self._by_hand and self._gate is not self._awaited:
            self._reach(self._gate)
        if self._next in self._by_hand:
            return frame_of(self._screen.pixels())
        seen, self._frame = self._frame, None
        return seen or self.desktop.frame()

    def shows_end(self, seen: Pixels) -> bool:
        """Return whether a screen is the recorded end, once all steps were performed."""
        return self._at_end and self._look(seen) is None

    def settle(self, *, briefly: bool = False) -> Settled:
        """Wait for the next gate. Where that gate cannot show the action's effect, wait for quiet too.

        The wait for quiet is brief: then the same gate is waited for again, and the next wait sees any later change.
        """
        if self.is_live:
            return self.desktop.settle(briefly=briefly)
        if self._next in self._by_hand:
            return Settled("settled", 0.0)
        started_s, gate = clock.monotonic(), self._gate
        if self._reach(gate) and not self._at_end and self._next not in self._by_hand:
            typed, due = self.newest_step, self._run.steps[self._next].action
            chooses = typed is not None and isinstance(typed.action, TypeText) and due in _CHOOSES
            if chooses or not gate.tells:
                self.desktop.settle(briefly=not chooses)
                if chooses and due in _MOVES:
                    self.desktop.perform(Wait(_LIST_S))
                self._await(self._gate, self._limit_s)
        return Settled("settled", clock.monotonic() - started_s)

    def _reach(self, gate: Gate) -> bool:
        """Wait until a gate is open, at the end also until it has stayed open; return whether it is."""
        is_open = self._await(gate, self._limit_s)
        while not is_open and self._frame and self.is_accepted(self._look(pixels_in(self._frame))):
            is_open = self._next in self._by_hand or self._await(self._gate, self._limit_s)
        if is_open and self._at_end and not self.is_watched_later:
            return self.watch_end() is None
        return is_open

    def _await(self, gate: Gate, limit_s: float) -> bool:
        """Wait until a gate is open; return whether it is. A rehearsal may accept the screen after the time limit."""
        deadline, self._awaited, is_reported = Deadline(limit_s), gate, False
        again_s = _LOOK_FOR_CARET_S if gate.caret else LOOK_FOR_BLINK_S if gate.blinking else _LOOK_AGAIN_S
        while True:
            seen = self.desktop.glance()
            found = self._look(pixels_in(seen))
            is_late = not deadline.remaining_s or (found is not None and self._is_other(gate, seen, deadline.spent_s))
            if not found or is_late:
                frame = self._frame = self.desktop.frame()
                is_open = not self._mismatch(frame.ref, partial(pixels_in, frame))
                learns = is_late and not is_open and self._rehearsal is not None  # a lasting difference
                opened = Rehearsal.opened(self._gate, pixels_in(frame), self._acted_on) if learns else None
                if opened:
                    self._awaited = self._made = opened
                    is_open = not self._mismatch(frame.ref, partial(pixels_in, frame))
                if is_open or is_late:
                    self._opened_at = frame.taken_at if is_open else self._opened_at
                    return is_open
            if deadline.spent_s > _LONG_S and not is_reported:
                is_reported = True
                self._tell_awaited(deadline.remaining_s)
            self.desktop.wait_changed(seen.taken_at, min(again_s, deadline.remaining_s))

    def _is_other(self, gate: Gate, seen: Glance, spent_s: float) -> bool:
        """Return whether the first screen is plainly another one, and would have changed by now if it were to."""
        first_s, now = self._run.first_s, clock.monotonic()
        if not gate.is_first or first_s is None or spent_s < max(_OTHER_S, _SLOWER * first_s):
            return False
        if self.desktop.changed_since(now - _OTHER_REST_S):
            return False
        pixels = pixels_in(seen)
        return pixels.shape != gate.expected.shape or changed_tiles(gate.expected, pixels).mean() >= _OTHER_SHARE

    def watch_end(self) -> Mismatch | None:
        """Watch the end, and have what differs then reviewed; return what still differs. Raises DesktopError."""
        found = self._watch_end()
        while self.is_accepted(found):
            found = None if self._next in self._by_hand else self._watch_end()
        return found

    def _watch_end(self) -> Mismatch | None:
        """Watch until the end has stayed unchanged for its time; return what differs then.

        After a brief difference the time starts again. A blinking caret does not close the end's gate. Raises
        DesktopError.
        """
        quiet_s = self._watch_s
        deadline, seen_at = Deadline(quiet_s + self._limit_s), self._opened_at
        if quiet_s > _LONG_S:
            self._tell_awaited(quiet_s)
        while deadline.remaining_s:
            left_s = max(0.0, self._opened_at + quiet_s - clock.monotonic())
            if not self.desktop.wait_changed(seen_at, left_s):
                break
            seen = self.desktop.glance()
            seen_at = seen.taken_at
            if self._look(pixels_in(seen)):
                if not self._await(self._gate, BACK_S):
                    break
                seen_at = self._opened_at
        return self.look_at_end()

    def look_at_end(self) -> Mismatch | None:
        """Return what differs from the recorded end now, if it does not go away within `BACK_S`.

        Raises DesktopError.
        """
        self._opened, self._blinks = None, BlinkWatch(self._gate.blinking)
        self._await(self._gate, BACK_S)
        frame = self.last_frame
        return self._mismatch(frame.ref, partial(pixels_in, frame))

    def perform(self, action: DesktopAction) -> None:
        """Perform an action on the desktop.

        A click waits first, so that it does not join the last one as a double click.
        """
        if self._next - 1 in self._by_hand:
            return
        self._frame = None
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


def _last_step(observation: Observation) -> Step | None:
    steps = observation.turns[-1].steps if observation.turns else ()
    return steps[-1] if steps else None
