"""One test and its recording: what to replay, what to record again, and what to report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pytest_vnc_use import clock
from pytest_vnc_use.errors import RecordingDrifted, RecordingError
from pytest_vnc_use.recordings.demonstrated import DemonstratedRun, Show
from pytest_vnc_use.recordings.format import Evidence, RecordedRun, Recording, Screen, Volatile, merged
from pytest_vnc_use.recordings.gates import Mismatch, other_than
from pytest_vnc_use.recordings.modes import AGAIN, ALWAYS_WRITES, RECORD_IT, TAKE_OUT, Mode
from pytest_vnc_use.recordings.patient_eyes import ButtonRelease, PatientEyes
from pytest_vnc_use.recordings.pictures import Pixels, frame_of, pixels_in, pixels_of
from pytest_vnc_use.recordings.recorded_judge import RecordedJudge
from pytest_vnc_use.recordings.recorder import Recorder, screen_at_rest
from pytest_vnc_use.recordings.rehearsal import Rehearsal
from pytest_vnc_use.recordings.replay import ClosedGate, Earlier, Replay, what_to_do
from pytest_vnc_use.recordings.run_state import RunState, frame_pixels, mark_staying
from pytest_vnc_use.recordings.savings import Savings, saved_by
from pytest_vnc_use.recordings.store import Key, check_writable, load_of, masks_of, save
from pytest_vnc_use.recordings.transients import TransientWatch
from pytest_vnc_use.runs.folder import RunFolder
from pytest_vnc_use.types import (
    Drifted,
    Extracted,
    Frame,
    FrameRef,
    GateAwaited,
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
from pytest_vnc_use.verification.verifier import end_state_claim


@dataclass
class _Question:
    """The newest question to a judge: the compared frame, the evidence for it, and how the frame differs from that."""

    frame: Frame
    evidence: Evidence | None
    mismatch: Mismatch | None


class RecordedTest:
    """A RunObserver that gives an agent the run to replay, and collects the recording of the test.

    The recording is written once the test has passed. In the mode `demonstrate`, `show` has a person do each task. A
    `rehearsal` holds the recording to replay, and learns from the replay. `covers` says whether the settings want
    typed secrets redacted, `marked_off` that the marker has `record="off"`, `left_over` which recording of a test
    that is gone may be this test's. Raises RecordingError if it is unusable.
    """

    def __init__(
        self,
        key: Key,
        mode: Mode,
        show: Show | None = None,
        rehearsal: Rehearsal | None = None,
        *,
        covers: bool = True,
        marked_off: bool = False,
        left_over: str = "",
    ) -> None:
        self.key, self._marked_off, self._left_over = key, marked_off, left_over
        self._rehearsal = rehearsal
        self._show = show
        self.mode = mode
        self._records = mode in ("auto", "rewrite", "demonstrate")
        self.healed: list[str] = []
        """The differences from the recording at which a planner or a judge went on: healed if the test passes."""
        self._watched = TransientWatch(rehearsal)
        self._recording = rehearsal.recording if rehearsal else load_of(key) if mode in ("auto", "replay") else None
        self.covers = self._recording.has_covers(covers) if self._recording else covers
        """True if typed secrets are redacted in all pictures of this test; a replay does as its recording does."""
        self.masks = self._recording.masks if self._recording else masks_of(key)
        """The parts of the screen that no comparison looks at. They are redacted too once a secret was typed."""
        self._eyes: Callable[[], Controller] | None = None
        self._opening: list[Evidence] = []
        self._runs: list[RunState] = []
        self._current: RunState | None = None
        self._questions: dict[str, _Question] = {}
        self.unrecorded = ""
        """Why the test cannot be recorded, such as that a task of it ended as denied; "" if it can."""
        self._acts_unseen = False
        """True if something acted on the desktop since the newest run began, outside its controller."""

    @property
    def transients(self) -> list[str]:
        """Messages about transient frames of a replay that its recording does not have."""
        return self._watched.messages

    # --- for the agent -----------------------------------------------------------------------------------------------

    def begin(
        self,
        started: RunStarted,
        planner: Planner,
        desktop: Controller,
        folder: RunFolder,
        emit: Callable[[RunEvent], None],
    ) -> tuple[Planner, Controller]:
        """Return the planner and the controller for a run that begins now. Raises RecordingError, DesktopError."""
        task, load = started.task, partial(frame_pixels, folder)
        expected = () if started.body_checks else started.expect or (end_state_claim(task),)
        if self._runs:
            self._begin_next(desktop)
        elif self.mode in ALWAYS_WRITES:
            check_writable(self.key.path)
        if self._show:
            person = DemonstratedRun(partial(self._show, task, desktop), desktop)
            self._runs.append(RunState(task, person.name, folder, emit, Recorder(person.screen, load), expected))
            return person, person
        recorder = Recorder(partial(screen_at_rest, desktop), load)
        run = RunState(task, planner.name, folder, emit, recorder, expected, self._known(task, desktop))
        before, let_go = self._runs[-1].replay if self._runs else None, self._let_go()
        self._runs.append(run)
        if run.known is None:
            return planner, desktop
        live = None if self.mode == "replay" else planner
        on_closed, earlier = partial(self._report_closed, run), before.touched() if before else Earlier()
        file = str(self.key.path)
        run.replay = Replay(
            run.known, live, earlier=earlier, masks=self.masks, file=file, rehearsal=self._rehearsal, closed=on_closed
        )
        limit_s = started.settings["gate_seconds"]
        run.eyes = PatientEyes(desktop, run.replay, limit_s, let_go, lambda left_s: emit(GateAwaited(left_s)))
        return run.replay, run.eyes

    def _let_go(self) -> ButtonRelease | None:
        """Return where a button was released last; None before the first action.

        Only the newest run's controller knows the place. If something else acted, the place is None.
        """
        eyes, acts_unseen, self._acts_unseen = self._runs[-1].eyes if self._runs else None, self._acts_unseen, False
        if acts_unseen or (self._runs and eyes is None):
            return None, clock.monotonic()
        return eyes.let_go if eyes else None

    def known_run(self, task: str) -> RecordedRun | None:
        """Return the run that is recorded in this place of the test, if it is of this task."""
        runs = self._recording.runs if self._recording else ()
        known = runs[len(self._runs)] if len(self._runs) < len(runs) else None
        return known if known and known.task == task else None

    def judge(self, live: Callable[[], Judge], eyes: Callable[[], Controller], hide: Callable[[str], str]) -> Judge:
        """Return the judge: the recorded evidence and, unless this is a replay, the live judge.

        `hide` takes secrets out of a claim.
        """
        self._eyes = eyes
        recording = self._recording
        evidence = [*recording.claims, *(each for run in recording.runs for each in run.evidence)] if recording else []
        live_judge = None if self.mode == "replay" else live
        return RecordedJudge(
            evidence,
            live_judge,
            masks=self.masks,
            rehearsal=self._rehearsal,
            eyes=eyes,
            hide=hide,
            on_question=self._note_question,
        )

    def _known(self, task: str, desktop: Controller) -> RecordedRun | None:
        """Return the run that is recorded in this place of the test; None where none is.

        Raises RecordingError, DesktopError.
        """
        if known := self.known_run(task):
            self._check_size(desktop.frame().ref)
            return known
        if self.mode == "replay":
            raise RecordingError(self._missing(task))
        return None

    def _missing(self, task: str) -> str:
        where = repr(str(self.key.path))
        if self._recording is None:
            how = TAKE_OUT + RECORD_IT if self._marked_off else RECORD_IT
            missing = f"there is no recording of {self.key.test!r} at {where}: {how}"
            return f"{missing}. {self._left_over}" if self._left_over else missing
        others = [run.task for run in self._recording.runs[len(self._runs) :]]
        there = repr(others[0]) if others else "nothing"
        return (
            f"{where} has no recording of the task {task!r}; at this place it has {there}; record the test again with "
            "--vnc-record=auto or rewrite, and a planner, or with --vnc-record=demonstrate"
        )

    def _check_size(self, screen: FrameRef) -> None:
        size = self._recording.screen_size if self._recording else ()
        if size != (screen.width, screen.height):
            raise RecordingError(
                f"{str(self.key.path)!r} was recorded on a screen of {'x'.join(map(str, size))} pixels, but this one "
                f"has {screen.width}x{screen.height}: give the desktop that size (--vnc-screen-size), or {AGAIN}"
            )

    # --- events ------------------------------------------------------------------------------------------------------

    def observe(self, event: RunEvent) -> None:
        """Take in an event of a run: keep steps and answers, report transient frames."""
        match event:
            case RunStarted():  # a run with its own planner did not call `begin`
                begun = [run for run in self._runs[-1:] if run.folder.path.name == event.run_id]
                self._current = begun[0] if begun else None
                self._acts_unseen |= not begun
            case RunEnded():
                self._end(event)
            case ModelExchange() if self._runs:
                self._runs[-1].meter.hear(event)
            case Judged(verdict=verdict):
                self._keep(verdict.claim, verdict)
            case Extracted(reading=reading, problem=""):
                self._keep(reading.question, reading)
            case _:
                if isinstance(event, StepFinished) and self._current and not self._current.is_live:
                    self._watched.look_after(self._current, event.step)
                if self._records and self._current and self._current.is_live:
                    self._current.recorder.observe(event)

    def _end(self, event: RunEnded) -> None:
        run, self._current = self._current, None
        if run is None:
            return
        run.meter.end()
        run.is_done = event.outcome is Outcome.DONE
        run.is_watched = run.replay is not None and not run.replay.is_watched_later
        if not self._records:
            return
        if event.outcome is not Outcome.DONE:
            how = f"ended as {event.outcome.value}" if event.outcome else "broke"
            self.unrecorded = f"the task {run.task!r} {how}, and only a task that is done can be replayed"
        elif run.recorder.holds_secret:
            self.unrecorded = f"in the task {run.task!r} a secret was typed that the test does not declare"
        else:
            run.ended = run.end()

    def _report_closed(self, run: RunState, closed: ClosedGate) -> None:
        """Report a gate that stayed closed."""
        healed = self.mode != "replay"
        self._tell(run, closed.problem, closed.gate.expected, closed.seen, closed.region, healed=healed)

    def _tell(
        self, run: RunState, problem: str, expected: Pixels, seen: FrameRef, region: Region, *, healed: bool
    ) -> None:
        recorded = run.folder.store(frame_of(expected))
        run.emit(Drifted(problem, recorded, seen, region, healed))
        if healed:
            self.healed.append(problem)

    # --- after a run -------------------------------------------------------------------------------------------------

    def conclude(self) -> None:
        """Watch the newest run's end for its full time, if that was postponed.

        Raises RecordingDrifted, DesktopError.
        """
        run = self._runs[-1] if self._runs else None
        if run and run.eyes and run.is_replayed and not run.is_watched:
            run.is_watched = True
            self._check_end(run, run.eyes, run.eyes.watch_end())

    def leave(self) -> None:
        """Watch the end of the newest run, then note that the test acts by itself from now on.

        Raises as `conclude` does.
        """
        self.conclude()
        self._acts_unseen = True
        if self._runs:
            self._runs[-1].is_left = True

    def end_body(self, desktop: Controller) -> None:
        """Check, once the test's body is over, that the screen still shows the newest run's end.

        For a run that is being recorded, note whether it does. Raises as `conclude` does.
        """
        run = self._runs[-1] if self._runs else None
        if run is None or run.is_over:
            return
        run.is_over = True
        self.conclude()
        if run.eyes and run.is_replayed and run.known and run.known.stays and not run.is_left:
            self._check_end(run, run.eyes, run.eyes.look_at_end())
        if run.is_replayed:
            self._watched.look_at_end(run, desktop)
        else:
            mark_staying(run, desktop)

    def _begin_next(self, desktop: Controller) -> None:
        """Finish the newest run before the next one begins. The next run compares the whole screen at its start."""
        run = self._runs[-1]
        if run.is_replayed:
            self._watched.look_at_end(run, desktop)
        else:
            mark_staying(run, desktop)
        run.is_left = True

    def _check_end(self, run: RunState, eyes: PatientEyes, mismatch: Mismatch | None) -> None:
        if mismatch is None or run.known is None or run.replay is None:
            return
        problem = f"drift at the end: {mismatch.problem}; the screen did not stay as recorded"
        seen = run.folder.store(eyes.last_frame)
        self._tell(run, problem, run.known.end.pixels(), seen, mismatch.region, healed=False)
        raise RecordingDrifted("\n".join(filter(None, [problem, what_to_do(run.known), run.replay.mask_for(mismatch)])))

    # --- claims ------------------------------------------------------------------------------------------------------

    def _note_question(self, claim: str, frame: Frame, evidence: Evidence | None, mismatch: Mismatch | None) -> None:
        self._questions[claim] = _Question(frame, evidence, mismatch)

    def _keep(self, claim: str, judged: Verdict | Reading) -> None:
        """Keep a judge's answer with its evidence: the known evidence if the answer came from it, else new evidence."""
        question = self._questions.pop(claim, None)
        if question is None:
            return
        if question.evidence and question.mismatch:
            self._tell_missed(claim, question.evidence, question.mismatch, question.frame)
        if question.evidence and not question.mismatch:
            known = self._runs[-1].known if self._runs and question.evidence.is_end else None
            judged_then = [each for each in (known.claims if known else ()) if each.claim == claim]
            self._add(judged_then[0] if judged_then else question.evidence)
        elif self._records and not (isinstance(judged, Verdict) and judged.kind == "unsure"):
            self._add(self._evidence(claim, judged, question.frame))

    def _tell_missed(self, claim: str, evidence: Evidence, mismatch: Mismatch, frame: Frame) -> None:
        problem = f"the evidence for {claim!r} is not on the screen again: {mismatch.problem}"
        healed = self.mode != "replay"
        if self._runs:
            seen = self._runs[-1].folder.store(frame)
            self._tell(self._runs[-1], problem, evidence.screen.pixels(), seen, mismatch.region, healed=healed)
        elif healed:  # no run folder for the pictures before the first run
            self.healed.append(problem)

    def _add(self, evidence: Evidence) -> None:
        (self._runs[-1].claims if self._runs else self._opening).append(evidence)

    def _evidence(self, claim: str, judged: Verdict | Reading, frame: Frame) -> Evidence:
        details = (
            {"verdict": judged.kind} if isinstance(judged, Verdict) else {"verdict": "read", "value": judged.value}
        )
        rest = screen_at_rest(self._eyes()) if self._eyes else Screen()
        parts, quiet_s = self._volatile(frame, rest.volatile), 0.0
        if self._eyes and other_than(rest.pixels(), pixels_in(frame), parts) is None:
            quiet_s = rest.quiet_s
        screen = Screen(volatile=parts, quiet_s=quiet_s, pixels=partial(pixels_of, frame.png))
        region, model = judged.region, judged.model
        return Evidence(claim=claim, reason=judged.reason, region=region, model=model, screen=screen, **details)

    def _volatile(self, frame: Frame, moving: tuple[Volatile, ...]) -> tuple[Volatile, ...]:
        """Return the parts that move now; if the screen still shows the run's end, also the parts that moved there.

        The reason: carets come to rest while a judge thinks.
        """
        end = self._runs[-1].ended.end if self._runs and self._runs[-1].ended else None
        if end is None or other_than(end.pixels(), pixels_in(frame), end.volatile):
            return moving
        return merged((*moving, *end.volatile))

    # --- the end -----------------------------------------------------------------------------------------------------

    def keep(self) -> bool:
        """Write the recording where it has changed, once the test has passed; return whether the file changed.

        Raises as `store.save` does.
        """
        recording = self._whole_recording() if self._records and not self.unrecorded else None
        if recording is None or recording == self._recording:
            return False
        return save(self.key.path, recording)

    def saved(self) -> Savings | None:
        """Return what the replayed runs saved; None if nothing was replayed, or if the recording has no figures."""
        return saved_by(run for run in self._runs if run.is_replayed)

    def release(self) -> None:
        """Release the screens, because others may keep the test, or its error, and thereby this object."""
        self._runs.clear()
        self._opening.clear()
        self._current = self._recording = None

    def _whole_recording(self) -> Recording | None:
        """Return the recording of the whole test; None where there is nothing to record, or a run is not recorded."""
        runs = tuple(
            run.ended.model_copy(update={"claims": run.recorded_claims, "live": run.live, "vouched_by": run.vouched_by})
            for run in self._runs
            if run.ended
        )
        seen = [each.screen for each in self._opening] + [run.end for run in runs]
        if not seen or len(runs) < len(self._runs):
            return None
        height, width = seen[0].pixels().shape
        recording = Recording(
            test=self.key.test,
            parameters=self.key.parameters,
            secrets=self.key.secrets,
            screen_size=(width, height),
            masks=self.masks,
            claims=tuple(self._opening),
            runs=runs,
        )
        return recording.model_copy(update={"covered": self.covers and recording.types_secrets})
