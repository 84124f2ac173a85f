"""One test and its recording: what each of its runs replays or records, and what is
left of it at its end.

A test calls `begin` for each task, `watch_end` before anything else looks or acts,
`end_body` once its body is over, and `finish` at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pytest_vnc_use import clock
from pytest_vnc_use.errors import RecordingError, VncUseError
from pytest_vnc_use.recordings import ALWAYS_WRITES, Mode
from pytest_vnc_use.recordings.accept import Review
from pytest_vnc_use.recordings.build import SegmentBuilder
from pytest_vnc_use.recordings.closed import Circumstances
from pytest_vnc_use.recordings.course import Course
from pytest_vnc_use.recordings.evidence import Answers, RecordedJudge
from pytest_vnc_use.recordings.format import (
    MANUAL,
    Evidence,
    RecordedStep,
    Recording,
    Segment,
)
from pytest_vnc_use.recordings.images import pixels_in
from pytest_vnc_use.recordings.keeping import KeptRecording, saved_by
from pytest_vnc_use.recordings.life import LAST, Listener, Moved, SegmentEvent, State
from pytest_vnc_use.recordings.manual import ManualRun, PerformByHand
from pytest_vnc_use.recordings.moving import STABLE_S, stable_screen
from pytest_vnc_use.recordings.named import NamedRecordings, check_use, hold
from pytest_vnc_use.recordings.rehearse import Rehearsal
from pytest_vnc_use.recordings.replay import Replay
from pytest_vnc_use.recordings.reviewer import ReviewedTest
from pytest_vnc_use.recordings.segment_run import SegmentRun
from pytest_vnc_use.recordings.store import Key, check_writable, load_of
from pytest_vnc_use.recordings.transients import UnknownTransients
from pytest_vnc_use.recordings.values import check_vouched
from pytest_vnc_use.recordings.waiting import ButtonRelease
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.types import (
    Drift,
    Extracted,
    Judged,
    ModelExchange,
    Outcome,
    Reading,
    Region,
    RunEnded,
    RunEvent,
    RunStarted,
    StepFinished,
    Verdict,
)
from pytest_vnc_use.types.protocols import Controller, Judge, Planner
from pytest_vnc_use.types.verdicts import end_state_claim

_REHEARSED_SHARE = 0.8
"""The share of the limit of a gate that a rehearsal waits: what needs more would drift
now and then.
"""
_RECORDS: tuple[Mode, ...] = ("auto", "rewrite", "manual")
"""The modes that record what is done."""


@dataclass(frozen=True)
class Finished:
    """What is left of a test at its end.

    Args:
        written: The files of its recording and of named ones, or of proposals, that
            have changed.
        problem: Why a file could not be written; "" if all could.
        unrecorded: Why the test cannot be recorded, such as that a task of it ended as
            denied; "" if it can.
        saved: The seconds and dollars that its replays saved, see `saved_by`.
        dropped: Whether a reviewer's answers are not written, as the test failed.
    """

    written: tuple[Path, ...] = ()
    problem: str = ""
    unrecorded: str = ""
    saved: tuple[float, float | None] | None = None
    dropped: bool = False


class RecordedTest:
    """A RunObserver that gives an agent the segment to replay, and collects the
    recording of the test, and the named ones that it uses.

    Args:
        key: The test, and the file of its recording.
        mode: What happens, see `mode_of`. A named recording is replayed in each mode.
        show: Has a user do each task, in the mode `manual`.
        rehearsal: Holds the recordings to replay, and learns from the replay.
        reviewed: Has a reviewer accept what differs.
        redacts: Whether the settings want typed secrets redacted.
        circumstances: On what the test runs.
        named: Where the named recordings are.

    Raises:
        RecordingError: The recording is unusable.
    """

    def __init__(
        self,
        key: Key,
        mode: Mode,
        show: PerformByHand | None = None,
        rehearsal: Rehearsal | None = None,
        *,
        reviewed: ReviewedTest | None = None,
        redacts: bool = True,
        circumstances: Circumstances | None = None,
        named: NamedRecordings | None = None,
    ) -> None:
        recording = None
        if rehearsal and key.test in rehearsal.recordings:
            recording = rehearsal.recordings[key.test]
        elif mode in ("auto", "replay"):
            recording = load_of(key)
        self.key = key
        self.mode = mode
        self.redacts = recording.redacts_secrets(redacts) if recording else redacts
        """True if typed secrets are redacted in all images of this test; a replay does
        as its recording does.
        """
        self.healed: list[str] = []
        """The differences from the recording at which a planner or a judge continued:
        healed if the test passes.
        """
        self.healed_in: Path | None = None
        """The run directory of the first of them."""
        self.transients = UnknownTransients()
        self._show = show
        self._own = KeptRecording(
            key,
            recording,
            circumstances,
            rehearsal=rehearsal,
            reviewed=reviewed,
        )
        self._reviewed = reviewed
        self._named = named or NamedRecordings(key.module.parent)
        self._others: list[KeptRecording] = []
        """The named recordings, one for each run of one, in order."""
        self._answers = Answers()
        self._runs: list[SegmentRun] = []
        self._written: list[Path] = []
        """The files that were written so far, of recordings or proposals."""
        self._queued = 0
        """How many tasks begin from now on, one right after the other."""
        self._acts_unseen = False
        """True if something acted on the desktop since the newest run began, outside
        its controller.
        """

    @property
    def _review(self) -> Review | None:
        """The review of the newest run's recording."""
        kept = self._recording_of(self._newest) if self._newest else self._own
        return kept.allowances.review

    @property
    def is_reworded(self) -> bool:
        """Return whether the newest run's task has another text than its recording: the
        reviewer says at its end whether it is done.
        """
        run = self._newest
        if run is None or self._review is None:
            return False
        return end_state_claim(run.started.task) in self._review.former_tasks

    @property
    def is_reviewed(self) -> bool:
        """Return whether a reviewer is asked about what differs."""
        return self._reviewed is not None

    @property
    def masks(self) -> tuple[Region, ...]:
        """The regions that no comparison looks at. They are redacted too once a secret
        was typed.
        """
        masks = [*self._own.allowances.masks]
        for kept in self._others:
            masks += kept.allowances.masks
        return tuple(masks)

    @property
    def drifted_in(self) -> str:
        """The name of the recording in which the newest run drifted; "" if it is the
        test's own, or none did.
        """
        run = self._newest
        if run is None or not run.life.has_been(State.DRIFTED):
            return ""
        return self._recording_of(run).key.name

    @property
    def due(self) -> RecordedStep | None:
        """The next step of the newest run's replay; None at its end, or without one."""
        replay = self._newest_replay
        return replay.course.due if replay else None

    @property
    def _records(self) -> bool:
        return self.mode in _RECORDS

    @property
    def is_recorded_anew(self) -> bool:
        """Whether a task of the test had no recording, and is being recorded."""
        return self._records and any(run.replay is None for run in self._runs)

    @property
    def _newest(self) -> SegmentRun | None:
        return self._runs[-1] if self._runs else None

    @property
    def _newest_replay(self) -> Replay | None:
        return self._newest.replay if self._newest else None

    @property
    def _unrecorded(self) -> str:
        """Why the test cannot be recorded, by its newest run that cannot be."""
        reasons = [run.unrecorded for run in self._own.runs if run.unrecorded]
        return reasons[-1] if reasons else ""

    def add_masks(self, masks: Iterable[Region]) -> None:
        """Add what a user has drawn in the newest run to the masks of its recording."""
        if self._newest:
            allowances = self._recording_of(self._newest).allowances
            allowances.recorded_masks += tuple(masks)

    def queue_tasks(self, count: int) -> None:
        """Note that `count` tasks follow one another without a pause: the gates of each
        watch the end of the one before, in place of a wait.
        """
        self._queued = count

    def segment_of(self, task: str, name: str = "") -> Segment | None:
        """Return the recorded segment of the test's next run, if it is of this task;
        with a `name`, that of the named recording. Raises RecordingError.
        """
        if not name:
            return self._own.segment_of(task)
        recording = self._named.load(self._named.key(name, self.key.module))
        return recording.segments[0] if recording else None

    def _recording_for(
        self, started: RunStarted, emit: Callable[[RunEvent], None]
    ) -> KeptRecording:
        """Return the recording of a run: the test's own, or the named one that the run
        uses. Raises RecordingError.
        """
        own = self._own
        name = started.recording
        if not name:
            # Sets of parameters that have values share the test's recording.
            is_shared = not started.test_id.endswith(self.key.test)
            is_new = own.recording is None and not own.runs
            if is_new and is_shared and self.mode == "auto":
                self._own = self._shared_recording(self.key, load_of, emit)
            return self._own
        key = self._named.key(name, self.key.module)
        rehearsal = own.allowances.rehearsal
        if rehearsal and key.test in rehearsal.recordings:
            kept = KeptRecording(
                key,
                rehearsal.recordings[key.test],
                own.circumstances,
                rehearsal=rehearsal,
                reviewed=self._reviewed,
            )
        else:
            # Another test has recorded it: a rehearsal of this one learns nothing of it.
            kept = self._shared_recording(key, self._named.load, emit)
        self._others.append(kept)
        return kept

    def _shared_recording(
        self,
        key: Key,
        load: Callable[[Key], Recording | None],
        emit: Callable[[RunEvent], None],
    ) -> KeptRecording:
        """Return a recording that other tests replay too. Where there is none yet, wait
        until no other process makes it, and keep others from making it. Raises
        RecordingError.
        """
        recording = load(key)
        lock = None
        if recording is None and self._records:
            lock = hold(key, emit)
            recording = load(key)
            if recording:
                # Another process has made it meanwhile.
                lock.release()
                lock = None
        return KeptRecording(
            key,
            recording,
            self._own.circumstances,
            reviewed=self._reviewed,
            lock=lock,
        )

    def _recording_of(self, run: SegmentRun) -> KeptRecording:
        """Return the recording of a run."""
        for kept in self._others:
            if run in kept.runs:
                return kept
        return self._own

    def begin(
        self,
        started: RunStarted,
        planner: Planner,
        desktop: Controller,
        directory: RunDirectory,
        emit: Callable[[RunEvent], None],
    ) -> tuple[Planner, Controller]:
        """Return the planner and the controller for a run that begins now. Raises
        RecordingError, DesktopError.
        """
        before = self._newest
        replay_before = self._newest_replay
        released = self._last_release()
        self._acts_unseen = False
        if before:
            self._note_end(before, desktop)
            before.leave()
        elif self.mode in ALWAYS_WRITES:
            check_writable(self.key.path)
        kept = self._recording_for(started, emit)
        if self._records and kept.recording is None:
            # It is cached: the desktop may be gone once the recording is written.
            _ = kept.circumstances.machine

        segment = self._segment_to_replay(kept, started, desktop)
        name = MANUAL if self._show else planner.name
        watch_s = max(STABLE_S, started.settings["watch_seconds"])
        stable = partial(stable_screen, desktop, watch_s)
        builder = SegmentBuilder(started.task, name, directory, stable, started.values)
        first = State.READY if segment else State.RECORDING
        listeners = self._listeners(kept)
        run = SegmentRun(started, directory, emit, builder, first, listeners)
        self._queued = max(0, self._queued - 1)
        run.is_followed = self._queued > 0
        self._runs.append(run)
        kept.runs.append(run)

        if self._show and segment is None:
            user = self._by_hand(run, self._show, desktop)
            return user, user
        if segment is None:
            return planner, desktop
        earlier = replay_before.course.last_screen if replay_before else None
        course = Course(segment, kept.allowances, earlier, run.life, started.values)
        run.replay = self._new_replay(run, course, planner, desktop, released)
        if self._reviewed and self._reviewed.user:
            self._reviewed.user.show(kept.key, segment)
        return run.replay, run.replay

    @property
    def longer_waits_s(self) -> float:
        """The seconds by which the newest run's replay may take longer than its time
        limit, because its recording did.
        """
        replay = self._newest_replay
        return replay.longer_waits_s if replay else 0.0

    def _last_release(self) -> ButtonRelease | None:
        """Return where and when a button was released last; None if none was. After
        anything but a replay, that may have been anywhere, and just now.
        """
        replay = self._newest_replay
        is_replayed = self._newest is None or replay is not None
        if self._acts_unseen or not is_replayed:
            return None, clock.monotonic()
        return replay.clicks.released if replay else None

    def _segment_to_replay(
        self, kept: KeptRecording, started: RunStarted, desktop: Controller
    ) -> Segment | None:
        """Return the segment to replay; None where none is recorded. Raises
        RecordingError, SettingsError, DesktopError.
        """
        if kept.key.name and kept.segments and not self.is_reviewed:
            expect = None if started.body_checks else started.expect
            check_use(kept.key, kept.segments[0], started.task, expect)
        if kept.key.name:
            kept.check_redaction(is_redacted=self.redacts)
        segment = kept.segment_of(started.task)
        review = kept.allowances.review
        if segment is None and review:
            number = len(kept.runs)
            segment = kept.reworded(started.task, number)
            if segment:
                former = kept.segments[number].task
                review.former_tasks[end_state_claim(started.task)] = former
        if segment:
            check_vouched(segment, started.expect, body_checks=started.body_checks)
            height, width = pixels_in(desktop.raw_frame()).shape
            kept.check_size(width, height)
        elif self.mode == "replay":
            missing = kept.format_missing(started.task, len(kept.runs))
            raise RecordingError(missing)
        return segment

    def _listeners(self, kept: KeptRecording) -> list[Listener]:
        """Return what else receives what happens to a segment."""
        others = (kept.allowances.rehearsal, kept.allowances.review)
        return [self, *(listener for listener in others if listener)]

    @staticmethod
    def _by_hand(
        run: SegmentRun, show: PerformByHand, desktop: Controller
    ) -> ManualRun:
        started = run.started
        claims = () if started.body_checks else started.expect
        return ManualRun(
            partial(show, started.task, claims, started.values, desktop),
            desktop,
            run.builder,
        )

    def _new_replay(
        self,
        run: SegmentRun,
        course: Course,
        planner: Planner,
        desktop: Controller,
        released: ButtonRelease | None,
    ) -> Replay:
        settings = run.started.settings
        share = 1.0
        allowances = course.allowances
        if allowances.rehearsal:
            share = _REHEARSED_SHARE
        if self._reviewed:
            self._reviewed.directory = run.directory
        # A user who records by hand performs what has no recording, and no more.
        may_continue = self.mode in ("auto", "rewrite") or self.is_reviewed
        return Replay(
            desktop,
            course,
            planner if may_continue else None,
            limit_s=settings["gate_seconds"] * share,
            watch_s=settings["watch_seconds"],
            circumstances=self._recording_of(run).circumstances,
            released=released,
        )

    def notice(self, event: SegmentEvent) -> None:
        """Record from here on, if a reviewer has let a model continue."""
        is_taken_over = isinstance(event, Moved) and event.after is State.BY_MODEL
        if is_taken_over and not self._records:
            self.mode = "auto"
            for run in self._runs[:-1]:
                run.complete()

    def observe(self, event: RunEvent) -> None:
        """Take in an event of a run: keep steps and answers, report transient
        frames.
        """
        run = self._newest
        match event:
            case RunStarted():
                self._note_start(event)
            case ModelExchange() if run:
                run.meter.add(event)
            case Drift(problem, healed=True) if run:
                self.healed.append(problem)
                self.healed_in = self.healed_in or run.directory.path
            case Judged(verdict=verdict):
                self._note_answer(verdict.claim, verdict)
            case Extracted(reading=reading, problem=""):
                self._note_answer(reading.question, reading)
            case _ if run and run.is_running:
                self._note_progress(event, run)
            case _:
                pass

    def _note_start(self, event: RunStarted) -> None:
        run = self._newest
        if run is None or run.directory.path.name != event.run_id:
            # A run with its own planner did not call `begin`.
            self._acts_unseen = True
            return
        run.is_running = True
        is_first = len(self._runs) == 1
        if self._records and run.is_live and is_first:
            run.builder.observe(event)

    def _note_progress(self, event: RunEvent, run: SegmentRun) -> None:
        if isinstance(event, RunEnded):
            run.end_run(event.outcome)
            if self._records:
                run.record(event.outcome)
            elif self.is_reviewed and event.outcome is Outcome.DONE:
                run.complete()
        elif run.is_live:
            if self._records:
                run.builder.observe(event)
        elif isinstance(event, StepFinished):
            if run.replay and not event.step.error:
                run.replay.course.take_elements(event.step)
            test = self._recording_of(run).key.node_id
            self.transients.note_step(run, test, event)

    def _note_answer(self, claim: str, judged: Verdict | Reading) -> None:
        run = self._newest
        is_healed = self.mode != "replay"
        problem = self._answers.announce(claim, run, is_healed=is_healed)
        if problem and is_healed and run is None:
            # There is no run directory for the images before the first run.
            self.healed.append(problem)
        answers = self._answers_beside(claim)
        is_recorded = self._records or self.is_reviewed
        self._answers.keep(claim, judged, run, answers, is_recorded=is_recorded)

    def _answers_beside(self, claim: str) -> list[Evidence]:
        """Return the answers to which one about a claim is added. A named recording
        gets those about its task; all others belong to the test's own recording.
        """
        run = self._newest
        if run:
            of_task = [*run.expected, end_state_claim(run.started.task)]
            if claim in of_task or run in self._own.runs:
                return run.claims
        if self._own.runs:
            return self._own.runs[-1].claims
        return self._answers.before

    def judge(
        self,
        live: Callable[[], Judge],
        controller: Callable[[], Controller],
        hide: Callable[[str], str],
    ) -> Judge:
        """Return the judge: the recorded evidence and, unless this is a replay, the
        live judge.

        `hide` takes secrets out of a claim.
        """
        run = self._newest
        with_ends = run is not None and not self._acts_unseen
        known = self._own.answers(with_ends=with_ends)
        for kept in self._others:
            known += kept.answers(with_ends=with_ends)
        self._answers.controller = controller
        return RecordedJudge(
            known,
            None if self.mode == "replay" else live,
            self.masks,
            controller,
            hide,
            self._answers.compared,
            run,
            self._review,
        )

    def watch_end(self, *, acts: bool = False) -> None:
        """Watch the end of the newest run for its full time, unless that was done or
        the next task's gates do so.

        If the test then `acts` on its own, the end is compared no more. Raises
        RecordingDrifted, DesktopError.
        """
        run = self._newest
        if run:
            run.watch_end()
        if acts:
            self._acts_unseen = True
            if run:
                run.move_on()

    def end_body(self, desktop: Controller) -> None:
        """Check, once the test's body is over, that the screen still shows the newest
        run's end.

        For a run that is being recorded, note whether it does. Raises as `watch_end`
        does.
        """
        run = self._newest
        if run is None or run.life.state in LAST:
            return
        try:
            run.watch_end()
            run.check_stays()
            self._note_end(run, desktop)
        finally:
            run.leave()

    def _note_end(self, run: SegmentRun, desktop: Controller) -> None:
        """Note whether the end of a run is still shown, and what came by after its last
        step.
        """
        run.note_stays(desktop)
        test = self._recording_of(run).key.node_id
        self.transients.note_end(run, test, desktop)

    def write(self, proposed_in: Path | None = None) -> Path | None:
        """Write the test's own recording where it has changed; return the file if it
        changed.

        Nothing is written where there is nothing to record, or a run is not recorded.
        With `proposed_in`, a proposal is written into that run directory instead, beside
        the text of the recording. Raises as `store.save` does.
        """
        if self.is_reviewed and not self._records:
            return self._own.accept(self._answers.before)
        if not self._records or self._unrecorded:
            return None
        return self._own.write(
            self._answers.before,
            self._others,
            redacts=self.redacts,
            proposed_in=proposed_in,
        )

    def keep_accepted(self) -> bool:
        """Write what a reviewer has accepted in a test that fails although its task and
        its body have passed; return whether there is any. Raises as `write` does.
        """
        path = self.write() if self.is_reviewed else None
        if path:
            self._written.append(path)
        return path is not None

    def _write_named(
        self, kept: KeptRecording, *, is_proposed: bool, has_passed: bool
    ) -> Path | None:
        """Write a named recording where it has changed, whatever became of the test
        after its task; return the file if it changed. Raises as `store.save` does.
        """
        run = kept.runs[0] if kept.runs else None
        if run is None or not run.life.has_been(State.FINISHED):
            return None
        if self.is_reviewed and not self._records:
            return kept.accept()
        if not self._records or not run.is_live or run.unrecorded:
            return None
        if run.confirmed_by == "body" and not has_passed:
            return None
        path = kept.write(
            redacts=self.redacts,
            proposed_in=run.directory.path if is_proposed else None,
        )
        if path and not is_proposed:
            self._named.note_recorded(kept.key)
        return path

    def finish(self, proposed_in: Path | None = None, *, has_passed: bool) -> Finished:
        """End the test: write the named recordings whose task is done and, if it has
        passed, its own as `write` does.

        Their screens are released, because pytest may keep the test, or its error, and
        thereby this object. A segment that is still open has failed with the test.
        """
        problem = ""
        try:
            for path in self._write_all(proposed_in, has_passed=has_passed):
                if path:
                    self._written.append(path)
        except (OSError, UnicodeError, VncUseError) as exc:
            # UnicodeError: the name of the test's file is not text
            problem = str(exc)
        written = tuple(self._written)
        if has_passed:
            finished = Finished(written, problem, self._unrecorded, self._saved())
        else:
            finished = Finished(written, problem, dropped=self._has_dropped)
        self._end_lives(has_passed=has_passed, is_written=bool(written))
        self._release()
        return finished

    def _write_all(
        self, proposed_in: Path | None, *, has_passed: bool
    ) -> Iterator[Path | None]:
        """Write one recording after the other, and yield the file of each that changed.
        Raises as `write` does.
        """
        for kept in self._others:
            yield self._write_named(
                kept,
                is_proposed=proposed_in is not None,
                has_passed=has_passed,
            )
        if has_passed:
            yield self.write(proposed_in)

    @property
    def _has_dropped(self) -> bool:
        """Whether a reviewer has accepted what is not written."""
        for kept in (self._own, *self._others):
            review = kept.allowances.review
            is_written = kept.key.path in self._written
            if review and review.has_accepted and not is_written:
                return True
        return False

    def discard(self) -> None:
        """End an attempt at the test that is made again: nothing is written."""
        self._end_lives(has_passed=False, is_written=False)
        self._release()

    def _release(self) -> None:
        for kept in (self._own, *self._others):
            kept.forget()
        for run in self._runs:
            run.release()
        self._runs.clear()
        self._others.clear()
        self._answers = Answers()

    def _saved(self) -> tuple[float, float | None] | None:
        """Return what the replays saved, see `saved_by`."""
        figures = []
        for run in self._runs:
            if run.is_replayed and run.replayed:
                figures.append((run.replayed.live, run.meter))
        return saved_by(figures)

    def _end_lives(self, *, has_passed: bool, is_written: bool) -> None:
        """Move each segment to its last state."""
        for run in self._runs:
            is_over = has_passed and run.life.state is State.PASSED
            if is_over and is_written:
                run.life.move(State.KEPT)
            elif is_over and self._own.allowances.rehearsal:
                run.life.move(State.REHEARSED)
            elif is_over and self._unrecorded:
                run.life.move(State.NOT_RECORDED)
            run.leave(has_passed=False)
