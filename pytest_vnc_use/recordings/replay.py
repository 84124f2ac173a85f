"""The replay of a recorded run: a planner that reads its decisions from the recording, and checks the screen first.

Before each step, and at the end, the screen must be as recorded (a gate, see `gates`). The replay waits for that (see
`patient_eyes`). If a gate stays closed, the live planner takes over. Without a live planner the run ends with
RecordingDrifted, and nothing more is carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pytest_vnc_use import clock
from pytest_vnc_use.errors import RecordingDrifted
from pytest_vnc_use.recordings.demonstrated import PERSON
from pytest_vnc_use.recordings.format import RecordedRun, RecordedStep, Screen, Volatile, volatile
from pytest_vnc_use.recordings.gates import (
    BlinkWatch,
    Gate,
    Mismatch,
    gate,
    is_maskable,
    mask_of,
    masks_entry,
    surroundings,
    unknown_parts,
)
from pytest_vnc_use.recordings.pictures import Mask, Pixels, pixels_of
from pytest_vnc_use.recordings.rehearsal import Rehearsal
from pytest_vnc_use.runs.takeover import ONLY_REPLAYED, REPLAYED, replaying_name, seen_by_live
from pytest_vnc_use.types import CallFunction, Decision, FrameRef, Observation, Region, Step
from pytest_vnc_use.types.protocols import Planner

_WITH_A_PLANNER = (
    "If this change is intended, record the test again (--vnc-record=rewrite), or let a model continue from here "
    "(--vnc-record=auto); both need a planner. If not, the product has a fault. Both pictures are in the report."
)
_BY_HAND = (
    "If this change is intended, record the test again by hand (--vnc-record=demonstrate); with a planner, "
    "--vnc-record=rewrite does it, or --vnc-record=auto lets a model continue from here. If not, the product has a "
    "fault. Both pictures are in the report."
)
_NO_MASK = (
    "A mask of what differs would hide {:.0f} % of the screen, so none is offered: look first whether the program, or "
    "the server of its page, is running."
)
_LONGEST_ANSWER = 80


@dataclass(frozen=True)
class ClosedGate:
    """A gate that stayed closed: the problem in words, the gate, the frame that was seen, and where it differs."""

    problem: str
    gate: Gate
    seen: FrameRef
    region: Region


class Replay:
    """The port Planner for one run of a recording; it counts the steps.

    `earlier` is the screen before the last step of the test's run before. `masks` are left out of all comparisons; they
    are kept in `file`. A `rehearsal` learns harmless differences.
    `closed` receives the gate that stayed closed.
    """

    def __init__(
        self,
        run: RecordedRun,
        live: Planner | None,
        *,
        earlier: Screen | None = None,
        masks: tuple[Region, ...] = (),
        file: str = "",
        rehearsal: Rehearsal | None = None,
        closed: Callable[[ClosedGate], None],
    ) -> None:
        self._run = run
        self._live = live
        self._earlier = earlier
        self._masks = masks
        self._file = file
        self._rehearsal = rehearsal
        self._tell = closed
        self._next = 0
        self._made: Gate | None = None
        self._blinks = BlinkWatch(())
        self._opened: FrameRef | None = None
        self._seen: Pixels | None = None
        self._acted_on: Pixels | None = None
        self._before: Pixels | None = None
        self._acted_at = 0.0
        self._passing: list[tuple[float, Volatile]] = []
        """What the recording saw come and go after the newest steps, and until when it may still be there."""
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

    # --- for the eyes ------------------------------------------------------------------------------------------------

    @property
    def gate(self) -> Gate | None:
        """Return the next gate; None once the live planner has taken over."""
        return None if self.is_live else self._gate

    @property
    def at_end(self) -> bool:
        """Return whether no recorded step is left."""
        return self._next == len(self._run.steps)

    @property
    def quiet_s(self) -> float:
        """The time, in seconds, for which the recorded end stayed unchanged."""
        return self._run.end.quiet_s

    @property
    def is_watched_later(self) -> bool:
        """Return whether the end may be watched while the test's body runs.

        That needs two things: in the recording the body did not change the end, and there is no live planner, because
        it would need the screen before the body to take over.
        """
        return self._run.stays and self._live is None

    def look(self, seen: Pixels) -> Mismatch | None:
        """Return the difference from the gate; None where it is open."""
        now, targets = clock.monotonic(), self._gate.targets
        passing = (part for until, part in self._passing if now < until and not any(map(part.region.meets, targets)))
        return self._gate.mismatch(seen, self._acted_on, passing) or self._blinks.look(seen)

    def look_anew(self) -> None:
        """Forget what the gate has seen so far."""
        self._opened, self._blinks = None, BlinkWatch(self._gate.blinking)

    def mismatch(self, frame: FrameRef, load: Callable[[], Pixels]) -> Mismatch | None:
        """Return a frame's difference from the gate; None where the gate is open.

        The same frame is not compared again.
        """
        if frame == self._opened:
            return None
        seen = load()
        found = self.look(seen)
        self._opened, self._seen = (None, None) if found else (frame, seen)
        if not found and self._rehearsal:
            self._rehearsal.note(self._screen, self._gate, seen)
        return found

    def accept(self, frame: FrameRef, load: Callable[[], Pixels]) -> bool:
        """In a rehearsal, learn a lasting difference of a frame; return whether the gate is now open to it."""
        if self._rehearsal is None:
            return False
        opened = self._rehearsal.opened(self._gate, load(), self._acted_on)
        self._made = opened or self._made
        return opened is not None and self.mismatch(frame, load) is None

    @property
    def newest_step(self) -> RecordedStep | None:
        """Return the step that was carried out last; None before the first."""
        return self._run.steps[self._next - 1] if self._next else None

    def unknown_parts(self, transient: Pixels) -> list[Region]:
        """Return where a transient frame differs from all that this run's recording shows there.

        A slow program shows an earlier screen with a part of a later one: of the next gate's, or of the one after it.
        """
        left_out, known = self._gate.ignored, [self._gate.expected]
        known += [] if self._before is None else [self._before]
        if not (found := unknown_parts(transient, known, left_out)):
            return []
        known += [each.pixels() for step in self._run.steps for each in step.transients]
        shown = [*(step.screen for step in self._run.steps), self._run.end]
        known += [each.pixels() for each in shown[self._next + 1 : self._next + 2]]
        if found := unknown_parts(transient, known, left_out):
            earlier = (each.pixels() for each in shown[: max(0, self._next - 1)])
            others = (unknown_parts(transient, [*known, each], left_out) for each in earlier)
            return found if all(others) else []
        return found

    @property
    def last_screen(self) -> Screen | None:
        """Return the screen before the last step, with which the test's next run begins."""
        steps = self._run.steps
        return steps[-1].screen if steps else self._earlier

    # --- the port ----------------------------------------------------------------------------------------------------

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the next recorded step where its gate is open; else the live planner's decision.

        Raises RecordingDrifted where there is no live planner.
        """
        if not self.is_live and (problem := self._problem(observation)):
            self._close(problem, observation)
        if self._live is not None and self.is_live:
            return self._live.decide(seen_by_live(observation), timeout_s=timeout_s)
        if self.at_end:
            return Decision("finished", "all recorded steps were carried out, and the screen is as at their end")
        step = self._run.steps[self._next]
        self._before = self._gate.expected
        self._next += 1
        self._made, self._opened = None, None
        self._acted_on, self._seen, self._acted_at = self._seen, None, clock.monotonic()
        return Decision("act", step.intent, (step.proposal,), provider_details={REPLAYED: True})

    @property
    def _gate(self) -> Gate:
        """Return the gate to the next screen. It is made on first use, while the program reacts to the last action."""
        if self._made is None:
            made = self._gate_to(self._next)
            self._made = self._rehearsal.widened(made, self._screen) if self._rehearsal else made
            self._blinks = BlinkWatch(self._made.blinking)
            self._passing = [] if self.at_end else [*self._passing, *self._came_and_went(self._made.ignored)]
        return self._made

    @property
    def _screen(self) -> Screen:
        return self._run.end if self.at_end else self._run.steps[self._next].screen

    def _gate_to(self, number: int) -> Gate:
        steps = self._run.steps
        screen_before = steps[number - 1].screen if number else self._earlier
        before = screen_before.pixels() if screen_before else None
        screen = steps[number].screen if number < len(steps) else self._run.end
        expected = screen.pixels()
        size = expected.shape[1], expected.shape[0]
        return gate(
            expected,
            screen.volatile,
            before=before,
            parts_before=screen_before.volatile if screen_before else (),
            masks=self._masks,
            targets=surroundings(steps[number].action, size) if number < len(steps) else (),
        )

    def _came_and_went(self, ignored: Mask) -> Iterator[tuple[float, Volatile]]:
        """Yield what the recording saw come and go since the newest step, and until when it may still be there.

        The frames that passed while the planner was asked are recorded with the step that it then took.
        """
        newest, due = self.newest_step, self._run.steps[self._next : self._next + 1]
        if newest is None or not any(step.transients for step in (newest, *due)):
            return
        until = self._acted_at + newest.took_s
        known = [screen.pixels() for screen in (newest.screen, self._screen)]
        for transient in (each.pixels() for step in (newest, *due) for each in step.transients):
            for box in unknown_parts(transient, known, ignored):
                yield until, volatile(box, "unstable", box.part_of(transient))

    def _problem(self, observation: Observation) -> Mismatch | None:
        last = _last_step(observation)
        if last and last.error:
            return Mismatch(f"the step before failed: {last.error}", self._all)
        if last and (problem := self._other_answer(last)):
            return Mismatch(problem, self._all)
        return self.mismatch(observation.frame, lambda: pixels_of(observation.load_png(observation.frame)))

    def _other_answer(self, last: Step) -> str:
        """Return how the answer of a user's function differs from the recorded one; "" where it does not."""
        recorded, action = self._run.steps[self._next - 1], last.proposal.action
        if recorded.answer is None or not isinstance(action, CallFunction) or recorded.answer == last.output:
            return ""
        return f"{action.name} answered {_short(last.output)}, but in the recording {_short(recorded.answer)}"

    @property
    def _all(self) -> Region:
        height, width = self._gate.expected.shape
        return Region(0, 0, width, height)

    def _close(self, problem: Mismatch, observation: Observation) -> None:
        total = len(self._run.steps)
        where = "at the end" if self.at_end else f"before step {self._next + 1} of {total}"
        message = f"drift {where}: {problem.problem}"
        last = _last_step(observation)
        failed = 1 if last and last.error else 0
        self._tell(ClosedGate(message, self._gate, observation.frame, problem.region))
        if self._live is None:
            raise RecordingDrifted("\n".join(filter(None, [message, what_to_do(self._run), self.mask_for(problem)])))
        self.taken_over_at = self._next
        self.carried_out = self._run.steps[: self._next - failed]

    def mask_for(self, problem: Mismatch) -> str:
        """Return a hint: all masks for the file if the part changes by itself, and how many pixels its mask hides.

        Propose no mask of most of the screen. Return "" where the difference has no place.
        """
        if not problem.boxes:
            return ""
        masks, shape = problem.masks, self._gate.expected.shape
        hidden = mask_of(masks, shape)
        if not is_maskable(masks, shape):
            return _NO_MASK.format(100 * hidden.mean())
        pixels = int(hidden.sum())
        claims = [each.claim for each in self._run.claims if each.region is None or any(map(each.region.meets, masks))]
        lost = f"; {claims[0]!r} then needs a judge each time" if claims else ""
        return (
            f"If that part changes by itself, mask it: {masks_entry((*self._masks, *masks))} at the top level of "
            f"{self._file!r}, in place of any masks there. Then its {pixels:,} pixels are not compared{lost}."
        )


def what_to_do(run: RecordedRun) -> str:
    """Return what to do at a drift of a run; who recorded it by hand may have no planner."""
    return _BY_HAND if run.planner == PERSON else _WITH_A_PLANNER


def _short(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_ANSWER else f"{text[:_LONGEST_ANSWER]}…")


def _last_step(observation: Observation) -> Step | None:
    steps = observation.turns[-1].steps if observation.turns else ()
    return steps[-1] if steps else None
