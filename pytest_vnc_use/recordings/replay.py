"""The replay of a recorded segment, without a model, and with a check of the screen
first: what decides.

Before each step, and at the end, the screen must be as recorded (a gate, see `gates`).
If a gate stays closed, a reviewer is asked, or the live planner takes over. Without
either the run ends with RecordingDrifted, and nothing more is done.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_vnc_use import clock
from pytest_vnc_use.errors import causes
from pytest_vnc_use.plain_text import got
from pytest_vnc_use.recordings.closed import Circumstances, ClosedGates
from pytest_vnc_use.recordings.course import Course
from pytest_vnc_use.recordings.format import RecordedStep
from pytest_vnc_use.recordings.gates import Mismatch
from pytest_vnc_use.recordings.images import Pixels, frame_of, pixels_of
from pytest_vnc_use.recordings.life import State
from pytest_vnc_use.recordings.moving import STABLE_S
from pytest_vnc_use.recordings.values import filled
from pytest_vnc_use.recordings.waiting import (
    ButtonRelease,
    GateWaiter,
    SeparateClicks,
    longest_wait_s,
)
from pytest_vnc_use.runs.transcript import (
    ONLY_REPLAYED,
    REPLAYED,
    replaying_name,
    seen_by_live,
)
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Decision,
    DesktopAction,
    Frame,
    Observation,
    Region,
    Settled,
    Step,
)
from pytest_vnc_use.types.protocols import Controller, ForwardingController, Planner

FINISHED = "all recorded steps were performed, and the screen is as at their end"


class Replay(ForwardingController):
    """The ports Planner and Controller for one segment of a recording.

    As a planner it reads its decisions from the recording, as a controller it waits for
    the recorded screens. A step takes four calls: `decide` returns it, `perform` does
    it, `settle` waits for the gate to the next screen, and `frame` returns the screen
    that opened it, or the last one where it stayed closed; then `decide` stops the
    replay. Before the first step, and after a call of a function, `frame` waits.

    Args:
        desktop: What the steps are performed on.
        course: The segment, and what its gates let through.
        planner: Takes over at a gate that stays closed, or where a reviewer asks for
            it; None where the segment is only replayed.
        limit_s: The longest wait for a gate that came soon when it was recorded, in
            seconds.
        watch_s: How long the end is watched, in seconds.
        circumstances: What explains a drift.
        released: The last click before the replay, which its first must not join.
    """

    def __init__(
        self,
        desktop: Controller,
        course: Course,
        planner: Planner | None = None,
        *,
        limit_s: float = 0.0,
        watch_s: float = STABLE_S,
        circumstances: Circumstances | None = None,
        released: ButtonRelease | None = None,
    ) -> None:
        super().__init__(desktop)
        self.course = course
        self.clicks = SeparateClicks(desktop, released)
        self.carried_out: tuple[RecordedStep, ...] = ()
        """The steps before the takeover, without one that failed."""
        self.closed = ClosedGates(course, circumstances or Circumstances(), planner)
        self._limit_s = limit_s
        self._waiter = GateWaiter(desktop, course, limit_s, watch_s)

    @property
    def name(self) -> str:
        """The name of the planner, for the report."""
        live = self.closed.live
        return replaying_name(live.name) if live else ONLY_REPLAYED

    @property
    def is_live(self) -> bool:
        """Whether the live planner has taken over."""
        return self.course.life.has_been(State.BY_MODEL)

    @property
    def is_watched_later(self) -> bool:
        """Whether the end may be watched while the test's body runs.

        That has two conditions: in the recording the body did not change the end, and
        there is no live planner, because it would need the screen before the body to
        take over.
        """
        return self.course.segment.stays and self.closed.live is None

    @property
    def last_frame(self) -> Frame:
        """The newest frame that was compared; without one, a new frame."""
        return self.course.position.frame or self.desktop.frame()

    @property
    def longer_waits_s(self) -> float:
        """The seconds that the gates may take beyond the limit of each, as they did
        when they were recorded.
        """
        waits_s = [self._waiter.limit_s]
        for screen in self.course.segment.screens[1:]:
            waits_s.append(longest_wait_s(screen.appeared_s, self._limit_s))
        return sum(waits_s) - len(waits_s) * self._limit_s

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Return the next recorded step where its gate is open; else the live planner's
        decision.

        Raises RecordingDrifted where there is no live planner.
        """
        course = self.course
        if not self.is_live:
            self._arrive()
            self._check(observation)
        live = self.closed.live
        if live and self.is_live:
            with causes.users_errors("planner", live):
                return live.decide(seen_by_live(observation), timeout_s=timeout_s)
        if course.due is None:
            if course.life.state is State.WAITING:
                course.life.move(State.AT_END)
            return Decision("finished", FINISHED)
        course.life.move(State.ACTING)
        step = course.advance()
        action = filled(step.action, course.values)
        proposal = replace(step.proposal, action=action)
        details = {REPLAYED: True}
        return Decision("act", step.intent, (proposal,), provider_details=details)

    def _arrive(self) -> bool:
        """Arrive before the next gate; return whether it is still to be waited for."""
        life = self.course.life
        is_new = life.state in (State.READY, State.ACTING)
        if is_new:
            life.move(State.WAITING)
        return is_new

    def _problem(self, observation: Observation) -> Mismatch | None:
        """Return why the next step must not be performed; None if its gate is open."""
        course = self.course
        problem = self._problem_of_step(_last_step(observation))
        if problem:
            height, width = course.position.gate.expected.shape
            return Mismatch(problem, Region(0, 0, width, height))
        difference = course.compare(observation.frame, lambda: _seen(observation))
        return difference or course.position.mismatch

    def _problem_of_step(self, last: Step | None) -> str:
        """Return how the newest step ended otherwise than in the recording; "" if it
        did not.
        """
        if last and last.error:
            return f"the step before failed: {last.error}"
        recorded = self.course.newest_step
        if last is None or recorded is None:
            return ""
        action = recorded.action
        is_same = recorded.answer in (None, last.output)
        if is_same or not isinstance(action, CallFunction):
            return ""
        return (
            f"{action.name} answered {got(last.output)}, but in the recording"
            f" {got(recorded.answer)}"
        )

    def _check(self, observation: Observation) -> None:
        """Have a planner take over where the gate is closed. Raises RecordingDrifted
        where none does.
        """
        course = self.course
        mismatch = self._problem(observation)
        if mismatch is None:
            return
        last = _last_step(observation)
        has_failed = last is not None and bool(last.error)
        self.carried_out = course.segment.steps[: course.number - has_failed]
        message = self.closed.close(mismatch, observation.frame)
        if not self.is_live:
            course.life.move(State.REPORTED)
            raise self.closed.error(
                message, mismatch, _seen(observation), performed=not has_failed
            )

    def frame(self) -> Frame:
        """Return the screen once the gate is open, or once its time is up. Each gate is
        waited for once.
        """
        if self.is_live:
            return self.desktop.frame()
        course = self.course
        if self._arrive() and not course.is_by_hand:
            self._pass_gate()
        if course.is_by_hand:
            return frame_of(course.screen.pixels())
        frame = course.position.frame
        course.position.frame = None
        return frame or self.desktop.frame()

    def frame_to_act_on(self) -> Frame:
        """Return the screen now, on which a step acts whose gate was open: a user may
        have approved it since.
        """
        step = self.course.newest_step
        if self.course.life.state is not State.ACTING or step is None:
            return self.frame()
        if self.course.was_by_hand:
            return frame_of(step.screen.pixels())
        return self.desktop.frame()

    def settle(self, *, briefly: bool = False) -> Settled:
        """Wait for the next gate. Where that gate cannot show the action's effect, wait
        for a stable screen too.
        """
        if self.is_live:
            return self.desktop.settle(briefly=briefly)
        course = self.course
        started_at = clock.monotonic()
        self._arrive()
        if course.is_by_hand:
            return Settled("settled", 0.0)
        mismatch = self._pass_gate()
        if mismatch is None and course.due and not course.is_by_hand:
            self._waiter.await_effect()
        return Settled("settled", clock.monotonic() - started_at)

    def perform(self, action: DesktopAction) -> None:
        """Perform an action on the desktop, unless a reviewer has done so."""
        if not self.course.was_by_hand:
            self.course.forget_frame()
            self.clicks.perform(action)

    def _pass_gate(self) -> Mismatch | None:
        """Wait for the gate, and have a difference that stays reviewed; at the end, and
        at a first screen that must stay, watch that it stays open.

        Return what still differs; None where the gate is open.
        """
        course = self.course
        mismatch = self._waiter.await_gate()
        while self._ask_reviewer(mismatch):
            course.life.move(State.WAITING)
            if course.is_by_hand:
                return None
            mismatch = self._waiter.await_gate()
        if mismatch is None and course.position.gate.is_first and course.first_stays_s:
            mismatch = self._waiter.watch_first()
        if mismatch or course.due:
            return mismatch
        course.life.move(State.AT_END)
        return None if self.is_watched_later else self.watch_end()

    def watch_end(self) -> Mismatch | None:
        """Watch the end, and have what differs then reviewed; return what still
        differs. Raises DesktopError.
        """
        mismatch = self._waiter.watch_end()
        while self._ask_reviewer(mismatch):
            if self.course.is_by_hand:
                self.course.life.move(State.WAITING)
                return None
            mismatch = self._waiter.watch_end()
        return mismatch

    def look_at_end(self) -> Mismatch | None:
        """Return what differs from the end now, unless a reviewer accepts it and it
        then stays. Raises DesktopError.
        """
        self.course.life.move(State.WATCHING)
        mismatch = self._waiter.look_again()
        return self.watch_end() if self._ask_reviewer(mismatch) else mismatch

    def _ask_reviewer(self, mismatch: Mismatch | None) -> bool:
        """Return whether to look again, as `ClosedGates.ask_reviewer` does."""
        return self.closed.ask_reviewer(mismatch, self.desktop)

    def elements_of(self, action: Action) -> Any:
        """Return the elements that the recorded step acted on; None where the desktop
        knows better: once the live planner has taken over, or where a reviewer has
        accepted that the step's target changed.
        """
        step = None if self.is_live else self.course.newest_step
        review = self.course.allowances.review
        if step is None or (review and review.has_changed(step)):
            return None
        return step.elements


def _seen(observation: Observation) -> Pixels:
    return pixels_of(observation.load_png(observation.frame))


def _last_step(observation: Observation) -> Step | None:
    if not observation.turns:
        return None
    steps = observation.turns[-1].steps
    return steps[-1] if steps else None
