"""One segment in this session: its run, what is replayed or recorded of it, and what was
judged at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_vnc_use.errors import TaskFailed
from pytest_vnc_use.recordings.build import Meter, SegmentBuilder
from pytest_vnc_use.recordings.course import Course
from pytest_vnc_use.recordings.drift import offered_masks
from pytest_vnc_use.recordings.format import MANUAL, Evidence, Live, Segment
from pytest_vnc_use.recordings.gates import Mismatch, evidence_gate
from pytest_vnc_use.recordings.images import Pixels, frame_of, pixels_in, pixels_of
from pytest_vnc_use.recordings.life import (
    CLOSED,
    LAST,
    GateClosed,
    Life,
    Listener,
    SegmentEvent,
    State,
)
from pytest_vnc_use.recordings.replay import Replay
from pytest_vnc_use.recordings.values import check_vouched
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.types import (
    Drift,
    FrameRef,
    GateAwaited,
    Outcome,
    Region,
    RunEvent,
    RunStarted,
)
from pytest_vnc_use.types.protocols import Controller
from pytest_vnc_use.types.verdicts import USER_VERDICT, end_state_claim


class SegmentRun:
    """One segment in this session. `life` says where it is.

    Args:
        started: How its run was started.
        directory: The run directory.
        emit: Passes an event on to the run directory, the report and the page.
        builder: Makes the segment of what a planner or a user does.
        first: Whether the segment is recorded, or ready to be replayed.
        listeners: Others that receive what happens to it.
    """

    def __init__(
        self,
        started: RunStarted,
        directory: RunDirectory,
        emit: Callable[[RunEvent], None],
        builder: SegmentBuilder,
        first: State,
        listeners: Sequence[Listener],
    ) -> None:
        self.started = started
        self.directory = directory
        self.emit = emit
        self.builder = builder
        self.life = Life(first, self, *listeners)
        self.meter = Meter()
        self.replay: Replay | None = None
        """None where nothing is replayed."""
        self.is_running = False
        """True from the run's first event to its last."""
        self.is_followed = False
        """True if the test's next task begins right after this one: its gates then
        watch the screen in place of a wait.
        """
        self.claims: list[Evidence] = []
        """What was judged at its end."""
        self.ended: Segment | None = None
        """The segment to record; None until the task is done."""
        self.unrecorded = ""
        """Why its run cannot be recorded, such as that it ended as denied; "" if it
        can.
        """

    @property
    def expected(self) -> Sequence[str]:
        """The claims that are judged at the end; none with `expect=None`."""
        if self.started.body_checks:
            return ()
        return self.started.expect or (end_state_claim(self.started.task),)

    @property
    def is_live(self) -> bool:
        """Whether a planner or a user decides, from the start or since a drift."""
        life = self.life
        return life.has_been(State.RECORDING) or life.has_been(State.BY_MODEL)

    @property
    def is_replayed(self) -> bool:
        """Whether the whole segment was replayed."""
        return self.life.has_been(State.FINISHED) and not self.is_live

    @property
    def replayed(self) -> Segment | None:
        """The segment that is replayed; None for none."""
        return self.replay.course.segment if self.replay else None

    @property
    def watched(self) -> Course | None:
        """The replay whose end was watched, or is by the next task's gates, and is not
        left; None for none.
        """
        if self.replay is None or self.is_live:
            return None
        is_watched = self.is_followed or self.life.has_been(State.WATCHING)
        is_there = self.life.state is State.FINISHED
        return self.replay.course if is_watched and is_there else None

    def load(self, frame: FrameRef) -> Pixels:
        """Return the pixels of a stored frame."""
        return pixels_of(self.directory.load_png(frame))

    def notice(self, event: SegmentEvent) -> None:
        """Pass on what the run directory, the report and the page show."""
        match event:
            case GateAwaited():
                self.emit(event)
            case GateClosed():
                self.emit(self._drift(event))
            case _:
                pass

    def _drift(self, event: GateClosed) -> Drift:
        mismatch = event.mismatch
        masks: tuple[Region, ...] = ()
        if not event.claim:
            due_at = self.replay.course.due_at if self.replay else ()
            masks = offered_masks(mismatch, event.gate, self.load(event.seen), due_at)
        return Drift(
            event.problem,
            self.directory.store(frame_of(event.gate.expected)),
            event.seen,
            mismatch.region,
            event.is_healed,
            mismatch.boxes,
            masks,
            event.claim,
        )

    def end_run(self, outcome: Outcome | None) -> None:
        """Note how the run ended; None for an error."""
        self.is_running = False
        self.meter.stop()
        if self.life.state not in LAST:
            is_done = outcome is Outcome.DONE
            self.life.move(State.FINISHED if is_done else State.REPORTED)

    def record(self, outcome: Outcome | None) -> None:
        """Complete the segment to record, if a replay can repeat the run. Raises
        DesktopError.
        """
        task = self.started.task
        if outcome is not Outcome.DONE:
            how = "failed with an error"
            if outcome:
                how = f"ended as {outcome.value}"
            self.unrecorded = (
                f"the task {task!r} {how}, and only a task that is done can be replayed"
            )
        elif self.builder.holds_secret:
            self.unrecorded = (
                f"in the task {task!r} a secret was typed that the test does not"
                " declare"
            )
        else:
            self.complete()

    def complete(self) -> None:
        """Complete the segment to record: the replayed one if it was replayed
        completely, else one with the live steps. Raises DesktopError, SettingsError.
        """
        if self.replay is None:
            self.ended = self.builder.complete()
        elif self.is_live:
            built = self.builder.complete(self.replay.carried_out)
            replayed = self.replay.course.segment
            kept = {
                "id": replayed.id,
                "first_screen_s": replayed.first_screen_s,
                "first_stays_s": replayed.first_stays_s,
            }
            self.ended = built.model_copy(update=kept)
        else:
            self.ended = self.replay.course.segment
        started = self.started
        check_vouched(self.ended, started.expect, body_checks=started.body_checks)

    def watch_end(self) -> None:
        """Watch the end of a replay for its full time, unless that was done, or the
        next task's gates do so. Raises RecordingDrifted, DesktopError.
        """
        if self.is_followed or self.life.has_been(State.WATCHING):
            return
        is_there = self.life.state is State.FINISHED
        if self.replay and self.is_replayed and is_there:
            self._check_end(self.replay, self.replay.watch_end())

    def check_stays(self) -> None:
        """Check that the end is still there after the test's body, if it was in the
        recording. Raises RecordingDrifted, DesktopError.
        """
        replay = self.replay
        if replay is None or not self.is_replayed:
            return
        # A body that caught the error of a drift is checked too.
        is_comparable = self.life.state in (State.FINISHED, *CLOSED)
        if is_comparable and replay.course.segment.stays:
            self._check_end(replay, replay.look_at_end())

    def _check_end(self, replay: Replay, mismatch: Mismatch | None) -> None:
        if mismatch is None:
            self.life.move(State.FINISHED)
            return
        raise self._end_error(replay, mismatch)

    def _end_error(self, replay: Replay, mismatch: Mismatch) -> TaskFailed:
        """Return the error for an end that did not stay. Its traceback has no screen."""
        frame = replay.last_frame
        seen = self.directory.store(frame)
        problem = replay.closed.close_end(mismatch, seen)
        return replay.closed.error(problem, mismatch, pixels_in(frame))

    def note_stays(self, desktop: Controller) -> None:
        """Note whether a segment's end is still on the screen that is being
        recorded.
        """
        is_comparable = self.life.state is State.FINISHED
        if self.ended and self.is_live and is_comparable:
            seen = pixels_in(desktop.raw_frame())
            stays = evidence_gate(self.ended.end).mismatch(seen) is None
            self.ended = self.ended.model_copy(update={"stays": stays})

    def move_on(self) -> None:
        """Note that the test acts on its own from now on."""
        if self.life.state is State.FINISHED:
            self.life.move(State.MOVED_ON)
        elif self.life.state in CLOSED:
            self.life.move(State.REPORTED)

    def leave(self, *, has_passed: bool = True) -> None:
        """Note that nothing of it is left to check."""
        state = self.life.state
        if state in LAST:
            return
        is_right = state in (State.FINISHED, State.MOVED_ON)
        self.life.move(State.PASSED if has_passed and is_right else State.REPORTED)

    def release(self) -> None:
        """Drop the screens of the replay, which the traceback of an error may keep."""
        self.life.end()
        if self.replay:
            self.replay.course.release()

    def reviewed(self) -> Segment | None:
        """Return the replayed segment; with what was judged at its end, if a reviewer
        has answered what had no evidence.
        """
        is_new = any(not answer.screen.image for answer in self.claims)
        return self.result() if is_new else self.replayed

    def result(self) -> Segment | None:
        """Return the segment with what was judged at its end; None if it is not
        recorded.

        Of one that was replayed with `expect=None`, what was judged at its end stays.
        """
        if self.ended is None:
            return None
        replayed = None if self.is_live else self.replayed
        claims = tuple(self.claims)
        confirmed_by = self.confirmed_by
        if replayed and not self.expected:
            others = (claim for claim in claims if claim not in replayed.claims)
            claims = (*replayed.claims, *others)
            confirmed_by = replayed.confirmed_by
        live = replayed.live if replayed else self._figures(self.ended)
        judged = {"claims": claims, "live": live, "confirmed_by": confirmed_by}
        return self.ended.model_copy(update=judged)

    def _figures(self, ended: Segment) -> Live | None:
        """Return what the live run took. One by hand and a healed one have no
        figures.
        """
        if self.replay or ended.planner == MANUAL:
            return None
        return self.meter.live()

    @property
    def confirmed_by(self) -> str:
        """Who has vouched for the end: the judge, a user, or the test's body."""
        expected = self.expected
        held = {
            evidence.claim: evidence
            for evidence in self.claims
            if evidence.verdict == "holds"
        }
        if not expected or not held.keys() >= set(expected):
            return "body"
        reason = held[expected[0]].reason
        return "user" if reason.startswith(USER_VERDICT) else "judge"
