"""One test and its recording: what is replayed, what is recorded of a run as it happens, and what is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from pytest_vnc_use import clock
from pytest_vnc_use.errors import RecordingError
from pytest_vnc_use.recordings import AGAIN, ALWAYS_WRITES, RECORD_IT, TAKE_OUT, Mode
from pytest_vnc_use.recordings.accept import Review
from pytest_vnc_use.recordings.drift import difference
from pytest_vnc_use.recordings.evidence import Comparison, RecordedJudge
from pytest_vnc_use.recordings.format import (
    MANUAL,
    Evidence,
    Live,
    RecordedRun,
    RecordedStep,
    Recording,
    Screen,
    merged,
)
from pytest_vnc_use.recordings.gates import Mismatch, evidence_gate, mask_of, unknown_parts
from pytest_vnc_use.recordings.images import Pixels, frame_of, pixels_in, pixels_of
from pytest_vnc_use.recordings.manual import ManualRun, Show
from pytest_vnc_use.recordings.moving import STABLE_S, screen_of, stable_screen
from pytest_vnc_use.recordings.rehearse import Rehearsal
from pytest_vnc_use.recordings.replay import Replay
from pytest_vnc_use.recordings.store import Key, check_writable, load, load_of, save
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.runs.json_lines import to_json
from pytest_vnc_use.types import (
    CallFunction,
    Drift,
    Extracted,
    FrameRef,
    Judged,
    ModelExchange,
    Outcome,
    Proposal,
    Reading,
    Region,
    RunEnded,
    RunEvent,
    RunStarted,
    StepFinished,
    StepStarted,
    TakeScreenshot,
    Transient,
    Usage,
    Verdict,
    Wait,
)
from pytest_vnc_use.types.protocols import Controller, Judge, Planner
from pytest_vnc_use.types.verdicts import USER_VERDICT, end_state_claim

_READING = frozenset({"get_browser_state", "list_elements"})
"""The functions by which a model reads a page or a desktop, through `vnc_cdp` and `vnc_elements`."""
_REHEARSED_SHARE = 0.8
"""The share of the limit of a gate that a rehearsal waits: what needs more would drift now and then."""
_MAX_TRANSIENTS = 4
"""The most frames kept with a step as possible transient frames."""


class Meter:
    """The seconds and dollars of one run. `dollars` is None if they are not known."""

    def __init__(self) -> None:
        self.started_at, self.seconds, self.calls = clock.monotonic(), 0.0, 0
        self.dollars: float | None = 0.0

    def add(self, exchange: ModelExchange) -> None:
        """Count a call of a model."""
        self.calls += 1
        if exchange.uncounted or (exchange.dollars is None and exchange.usage != Usage()):
            self.dollars = None
        elif self.dollars is not None:
            self.dollars += exchange.dollars or 0.0

    def live(self) -> Live:
        """Return the figures for the recording."""
        dollars = None if self.dollars is None or not self.calls else round(self.dollars, 6)
        return Live(seconds=round(self.seconds, 1), dollars=dollars)


def saved_by(runs: Iterable[tuple[Live | None, Meter]]) -> tuple[float, float | None] | None:
    """Return the seconds and dollars that replayed runs saved, from each run's figures when recorded and now.

    None for no run, or if a recording has no figures. Dollars are None if they are not known for each of the runs.
    """
    pairs = [(then, now) for then, now in runs]
    if not pairs or any(then is None for then, _ in pairs):
        return None
    seconds = sum(then.seconds - now.seconds for then, now in pairs if then)
    dollars = [
        then.dollars - now.dollars
        for then, now in pairs
        if then and then.dollars is not None and now.dollars is not None
    ]
    return seconds, sum(dollars) if len(dollars) == len(pairs) else None


@dataclass(eq=False)
class _Run:
    """One run of the test: what is replayed of it, and what is recorded as it happens.

    `screen` waits until the screen is stable. `recorded_run` is the one that is replayed, if any.
    """

    started: RunStarted
    planner: str
    directory: RunDirectory
    emit: Callable[[RunEvent], None]
    screen: Callable[[], Screen]
    recorded_run: RecordedRun | None = None
    replay: Replay | None = None
    claims: list[Evidence] = field(default_factory=list)
    ended: RecordedRun | None = None
    meter: Meter = field(default_factory=Meter)
    holds_secret: bool = False
    """True if a step had a secret that no replay could insert: the desktop's password, or a key."""
    is_done: bool = False
    """True if its outcome is `done`."""
    is_over: bool = False
    """True if the test's body ended after it."""
    is_left: bool = False
    """True if something acted on the desktop after the run."""
    is_watched: bool = False
    """True if the end was watched for the recorded time."""
    _steps: list[RecordedStep] = field(default_factory=list)
    _started: tuple[Proposal, Screen] | None = None
    _first: tuple[FrameRef, float] | None = None
    """The first frame that the planner saw, and when that was, in seconds after the run began."""
    _first_screen_s: float | None = None
    _acted_at: float = 0.0

    @property
    def expected(self) -> Sequence[str]:
        """The claims that are judged at the run's end; none with `expect=None`."""
        return () if self.started.body_checks else self.started.expect or (end_state_claim(self.started.task),)

    @property
    def is_live(self) -> bool:
        """Return whether a planner decides: nothing is replayed, or the live planner has taken over."""
        return self.replay is None or self.replay.is_live

    @property
    def is_replayed(self) -> bool:
        """Return whether the whole run was replayed."""
        return self.is_done and not self.is_live

    def load(self, frame: FrameRef) -> Pixels:
        """Return the pixels of a stored frame."""
        return pixels_of(self.directory.load_png(frame))

    def observe(self, event: RunEvent) -> None:
        """Record the steps of a planner; before each, wait for the screen to be stable.

        Waits and looks are left out, as gates take their place, and so are failed steps.
        """
        match event:
            case RunStarted(screen=frame):
                self._first = frame, clock.monotonic() - self.meter.started_at
            case StepStarted(proposal=Proposal(action=Wait() | TakeScreenshot() | CallFunction(name="verify"))):
                pass  # a model asks a judge by `verify`: it changes nothing, and is not repeated in a replay
            case StepStarted(proposal=proposal):
                screen, self._acted_at = self._next_screen(), clock.monotonic()
                if self._first:  # else at the latest when it had been stable for so long
                    frame, first_screen_s = self._first
                    is_first = not evidence_gate(screen).mismatch(self.load(frame))
                    rested_s = self._acted_at - self.meter.started_at - screen.stable_s
                    self._first_screen_s = round(first_screen_s if is_first else rested_s, 1)
                self._started, self._first = (proposal, screen), None
            case StepFinished(step=step):
                if self._started and not step.error:
                    proposal, screen = self._started
                    self.holds_secret |= step.proposal.action != proposal.action
                    action, call = step.proposal.action, str(step.proposal.as_proposed.get("name", ""))
                    answers = isinstance(action, CallFunction) and action.name not in _READING
                    fields = {
                        "action": to_json(action),
                        "intent": step.proposal.intent or step.text,
                        "call": "" if call == action.kind else call,
                        "confirmation": step.proposal.confirmation,
                        "screen": screen,
                        "answer": step.output if answers else None,
                        "elements": step.elements,
                    }
                    self._steps.append(RecordedStep.model_validate(fields))
                self._started = None
                if self._steps:  # a toast may still be there after the step
                    newest, frames = self._steps[-1], (step.frame_after, *step.transient_frames)[:_MAX_TRANSIENTS]
                    passed = [Screen(pixels=partial(self.load, frame)) for frame in frames]
                    self._steps[-1] = newest.model_copy(update={"transients": (*newest.transients, *passed)})
            case _:
                pass

    def _next_screen(self) -> Screen:
        """Return the stable screen after the newest step, and note how long after it that is. Raises DesktopError."""
        screen = self.screen()
        if self._steps:
            duration_s = round(clock.monotonic() - self._acted_at, 1)
            self._steps[-1] = self._steps[-1].model_copy(update={"duration_s": duration_s})
        return screen

    def report(
        self, expected: Pixels, mismatch: Mismatch, problem: str, seen: FrameRef, *, is_healed: bool = False
    ) -> None:
        """Report a screen that differs from the recorded one. It is healed where a model or a judge continues."""
        self.emit(Drift(problem, self.directory.store(frame_of(expected)), seen, mismatch.region, is_healed))

    def complete(self) -> None:
        """Complete the recorded run: the replayed one if it was replayed completely, else one with the live steps.

        Transient frames that only show the way from one screen to the next are left out. Raises DesktopError.
        """
        if self.replay and not self.is_live:
            self.ended = self.replay.run
            return
        end = self._next_screen()
        steps = [*(self.replay.carried_out if self.replay else ()), *self._steps]
        left_out = mask_of((), end.pixels().shape)
        following = [*(step.screen for step in steps[1:]), end]  # without steps, only the end
        for number, (step, after) in enumerate(zip(steps, following, strict=False)):
            screens = [step.screen.pixels(), after.pixels()] if step.transients else []
            kept = [screen for screen in step.transients if unknown_parts(screen.pixels(), screens, left_out)]
            steps[number] = step.model_copy(update={"transients": tuple(kept)})
        for number, step in enumerate(steps):
            if not any(near.transients for near in steps[number : number + 2]):  # nothing passed whose time matters
                steps[number] = step.model_copy(update={"duration_s": 0.0})
        first_screen_s = self.recorded_run.first_screen_s if self.recorded_run else self._first_screen_s
        self.ended = RecordedRun(
            task=self.started.task, planner=self.planner, steps=tuple(steps), end=end, first_screen_s=first_screen_s
        )

    def recorded(self) -> RecordedRun | None:
        """Return the run with what was judged of its end; None if the run is not recorded.

        Of a run that was replayed with `expect=None`, what was judged of its end stays. A manual run and a healed run
        have no figures.
        """
        if self.ended is None:
            return None
        run = None if self.is_live else self.recorded_run
        live = run.live if run else None if self.replay or self.planner == MANUAL else self.meter.live()
        claims, confirmed_by = tuple(self.claims), "body"
        held = {evidence.claim: evidence for evidence in self.claims if evidence.verdict == "holds"}
        if run and not self.expected:
            claims = (*run.claims, *(evidence for evidence in self.claims if evidence not in run.claims))
            confirmed_by = run.confirmed_by
        elif self.expected and held.keys() >= set(self.expected):
            confirmed_by = "user" if held[self.expected[0]].reason.startswith(USER_VERDICT) else "judge"
        return self.ended.model_copy(update={"claims": claims, "live": live, "confirmed_by": confirmed_by})


class RecordedTest:
    """A RunObserver that gives an agent the run to replay, and collects the recording of the test.

    The recording is written once the test has passed. In the mode `manual`, `show` has a user do each task. A
    `rehearsal` holds the recording to replay, and learns from the replay; a `review` has a reviewer accept what
    differs. `redacts` says whether the settings want typed secrets redacted, `marked_off` that the marker has
    `record="off"`, `left_over` which recording of a test that is gone may be this test's, `follows` which test had
    the shared desktop before, `describe_machine` what draws the screens here. Raises RecordingError if it is unusable.
    """

    def __init__(
        self,
        key: Key,
        mode: Mode,
        show: Show | None = None,
        rehearsal: Rehearsal | None = None,
        *,
        review: Review | None = None,
        redacts: bool = True,
        marked_off: bool = False,
        left_over: str = "",
        follows: str = "",
        describe_machine: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.key, self.mode, self._show, self._rehearsal, self._review = key, mode, show, rehearsal, review
        self._marked_off, self._left_over, self._describe_machine = marked_off, left_over, describe_machine
        self._follows = follows
        self._records = mode in ("auto", "rewrite", "manual")
        self.healed: list[str] = []
        """The differences from the recording at which a planner or a judge continued: healed if the test passes."""
        self.healed_in: Path | None = None
        """The run directory of the first of them."""
        self.transients: list[str] = []
        """Messages about transient frames of a replay that its recording does not have."""
        self.unrecorded = ""
        """Why the test cannot be recorded, such as that a task of it ended as denied; "" if it can."""
        self._text = key.path.read_bytes() if review and key.path.exists() else b""
        self._recording = rehearsal.recording if rehearsal else load_of(key) if mode in ("auto", "replay") else None
        self.redacts = self._recording.redacts_secrets(redacts) if self._recording else redacts
        """True if typed secrets are redacted in all images of this test; a replay does as its recording does."""
        former = self._recording
        if former is None:
            with suppress(RecordingError):  # what cannot be read is replaced
                former = load(key.path)
        self._masks = former.masks if former else ()
        self._history = former.history if former else ()
        self._claims: list[Evidence] = []
        """What was judged before the first run."""
        self._runs: list[_Run] = []
        self._current: _Run | None = None
        self._acts_unseen = False
        """True if something acted on the desktop since the newest run began, outside its controller."""
        self._reported: list[Region] = []
        self._compared: dict[str, Comparison] = {}
        """What each claim was compared with, from the judge until the event with its verdict."""
        self._watch_s = STABLE_S
        self.task_follows = False
        """True if the test's next task begins right after this one: its gates then watch the screen in place of a wait.
        """
        self._controller: Callable[[], Controller] | None = None

    @property
    def is_reviewed(self) -> bool:
        """Return whether a reviewer is asked about what differs."""
        return self._review is not None

    def add_masks(self, masks: Iterable[Region]) -> None:
        """Add what a user has drawn to the masks."""
        self._masks = (*self._masks, *masks)

    @property
    def masks(self) -> tuple[Region, ...]:
        """The parts of the screen that no comparison looks at. They are redacted too once a secret was typed."""
        return (*self._masks, *(self._review.masks if self._review else ()))

    def begin(
        self,
        started: RunStarted,
        planner: Planner,
        desktop: Controller,
        directory: RunDirectory,
        emit: Callable[[RunEvent], None],
    ) -> tuple[Planner, Controller]:
        """Return the planner and the controller for a run that begins now. Raises RecordingError, DesktopError."""
        before, acts_unseen, self._acts_unseen = self._newest, self._acts_unseen, False
        self._watch_s = started.settings["watch_seconds"]
        if before:
            self._report_end(before, desktop)
            before.is_left = True
        elif self.mode in ALWAYS_WRITES:
            check_writable(self.key.path)
        if self._records and self._recording is None:
            _ = self._machine  # the desktop may be gone once the recording is written
        if self._show:
            expected = () if started.body_checks else started.expect
            user = ManualRun(partial(self._show, started.task, expected, desktop), desktop)
            self._runs.append(_Run(started, user.name, directory, emit, user.screen))
            return user, user
        recorded_run = self._run_to_replay(started.task, desktop)
        stable = partial(stable_screen, desktop, max(STABLE_S, self._watch_s))
        run = _Run(started, planner.name, directory, emit, stable, recorded_run)
        self._runs.append(run)
        if recorded_run is None:
            return planner, desktop
        if self._review:
            self._review.directory = directory
        earlier = before.replay if before else None
        let_go = earlier.let_go if earlier else None
        if acts_unseen or (before and earlier is None):  # only a replay knows where a button was released last
            let_go = None, clock.monotonic()
        run.replay = Replay(
            desktop,
            recorded_run,
            None if self.mode == "replay" or self._review else planner,
            limit_s=started.settings["gate_seconds"] * (_REHEARSED_SHARE if self._rehearsal else 1.0),
            watch_s=self._watch_s,
            earlier=earlier.last_screen if earlier else None,
            masks=self.masks,
            test=self.key.node_id,
            rehearsal=self._rehearsal,
            review=self._review,
            let_go=let_go,
            emit=emit,
            blame=self._blame,
            closed=run.report,
            let_model=partial(self._let_model, planner),
            unlike=self._unlike,
        )
        return run.replay, run.replay

    @property
    def _unlike(self) -> str:
        """Why the desktop begins in another state than the recording; "" if nothing is known to."""
        after = self._recording.after if self._recording else ""
        if after in ("", self._follows):
            return ""
        now = f"this desktop had {self._follows} before" if self._follows else "this desktop is fresh"
        order = f"Run {after} before it (--vnc-scope), or record it as it begins here (--vnc-record=rewrite)."
        return f"The test was recorded after {after}, but {now}. {order} "

    def _let_model(self, planner: Planner) -> Planner:
        """Let a model continue the newest run, as in the mode `auto`; return it."""
        self.mode, self._records = "auto", True
        for run in self._runs[:-1]:
            run.complete()
        return planner

    @property
    def _newest(self) -> _Run | None:
        return self._runs[-1] if self._runs else None

    def recorded_run(self, task: str) -> RecordedRun | None:
        """Return the run that is recorded in this place of the test, if it is of this task."""
        runs = self._recording.runs if self._recording else ()
        run = runs[len(self._runs)] if len(self._runs) < len(runs) else None
        return run if run and run.task == task else None

    def _run_to_replay(self, task: str, desktop: Controller) -> RecordedRun | None:
        """Return the run to replay; None where none is recorded. Raises RecordingError, DesktopError."""
        where, run = repr(str(self.key.path)), self.recorded_run(task)
        if run and self._recording:
            (height, width), size = pixels_in(desktop.raw_frame()).shape, self._recording.screen_size
            if size != (width, height):
                raise RecordingError(
                    f"{where} was recorded on a screen of {'x'.join(map(str, size))} pixels, but this one has "
                    f"{width}x{height}: give the desktop that size (--vnc-screen-size), or {AGAIN}"
                )
        elif self.mode == "replay" and self._recording:
            others = [run.task for run in self._recording.runs[len(self._runs) :]]
            raise RecordingError(
                f"{where} has no recording of the task {task!r}; at this place it has "
                f"{repr(others[0]) if others else 'nothing'}; record the test again with --vnc-record=auto or rewrite, "
                "and a planner, or with --vnc-record=manual"
            )
        elif self.mode == "replay":
            how = TAKE_OUT + RECORD_IT if self._marked_off else RECORD_IT
            missing = f"there is no recording of {self.key.test!r} at {where}: {how}"
            raise RecordingError(f"{missing}. {self._left_over}" if self._left_over else missing)
        return run

    def observe(self, event: RunEvent) -> None:
        """Take in an event of a run: keep steps and answers, report transient frames."""
        match event:
            case RunStarted():  # a run with its own planner did not call `begin`
                started = self._newest and self._newest.directory.path.name == event.run_id
                self._current = self._newest if started else None
                self._acts_unseen |= not started
                if self._records and self._current and self._current.is_live and len(self._runs) == 1:
                    self._current.observe(event)
            case RunEnded():
                self._note_outcome(event)
            case ModelExchange() if self._newest:
                self._newest.meter.add(event)
            case Drift(problem, healed=True) if self._newest:
                self.healed.append(problem)
                self.healed_in = self.healed_in or self._newest.directory.path
            case Judged(verdict=verdict):
                self._keep(verdict.claim, verdict)
            case Extracted(reading=reading, problem=""):
                self._keep(reading.question, reading)
            case _:
                run = self._current
                if isinstance(event, StepFinished) and run and run.recorded_run and not run.is_live:
                    when = f"after step {event.step.number} of {len(run.recorded_run.steps)}"
                    self._report_transients(run, when, event.step.transient_frames)
                if self._records and run and run.is_live:
                    run.observe(event)

    def _note_outcome(self, event: RunEnded) -> None:
        run, self._current = self._current, None
        if run is None:
            return
        run.meter.seconds = clock.monotonic() - run.meter.started_at  # judges may be asked after that
        run.is_done = event.outcome is Outcome.DONE
        run.is_watched = run.replay is not None and not run.replay.is_watched_later
        if not self._records:
            return
        if not run.is_done:
            how = f"ended as {event.outcome.value}" if event.outcome else "failed with an error"
            self.unrecorded = f"the task {run.started.task!r} {how}, and only a task that is done can be replayed"
        elif run.holds_secret:
            self.unrecorded = f"in the task {run.started.task!r} a secret was typed that the test does not declare"
        else:
            run.complete()

    def conclude(self) -> None:
        """Watch the newest run's end for its full time, if that was postponed and no task follows.

        Raises RecordingDrifted, DesktopError.
        """
        run = self._newest
        if run and run.replay and run.is_replayed and not (run.is_watched or self.task_follows):
            run.is_watched = True
            self._check_end(run, run.replay.watch_end())

    def leave(self) -> None:
        """Watch the end of the newest run, then note that the test acts on its own from now on.

        Raises as `conclude` does.
        """
        self.conclude()
        self._acts_unseen = True
        if self._newest:
            self._newest.is_left = True

    def end_body(self, desktop: Controller) -> None:
        """Check, once the test's body is over, that the screen still shows the newest run's end.

        For a run that is being recorded, note whether it does. Raises as `conclude` does.
        """
        run = self._newest
        if run is None or run.is_over:
            return
        run.is_over = True
        self.conclude()
        if run.replay and run.is_replayed and run.recorded_run and run.recorded_run.stays and not run.is_left:
            mismatch = run.replay.look_at_end()
            self._check_end(run, run.replay.watch_end() if run.replay.is_accepted(mismatch) else mismatch)
        self._report_end(run, desktop)

    def _report_end(self, run: _Run, desktop: Controller) -> None:
        """Report what passed after the last step of a replay, or note whether the recorded end stays."""
        if run.ended and run.is_live and not run.is_left:
            stays = evidence_gate(run.ended.end).mismatch(pixels_in(desktop.raw_frame())) is None
            run.ended = run.ended.model_copy(update={"stays": stays})
        if run.is_replayed:
            passed = map(run.directory.store, desktop.transient_frames())
            self._report_transients(run, "after the last step", passed)

    @cached_property
    def _machine(self) -> dict[str, str]:
        return dict(self._describe_machine())

    def _blame(self, problem: str) -> str:
        """Return the message of a drift; first how this machine differs from the recording's, where it does."""
        differs = difference(self._recording.machine, self._machine) if self._recording else ""
        return f"{differs} {problem}" if differs else problem

    def _check_end(self, run: _Run, mismatch: Mismatch | None) -> None:
        if mismatch and run.replay and run.recorded_run:
            problem = self._blame(f"drift at the end: {mismatch.problem}; the screen did not stay as recorded")
            frame = run.replay.last_frame
            run.report(run.recorded_run.end.pixels(), mismatch, problem, run.directory.store(frame))
            raise run.replay.error(problem, mismatch, pixels_in(frame))

    def _report_transients(self, run: _Run, when: str, passed: Iterable[FrameRef]) -> None:
        """Report each unknown region of the transient frames once; a rehearsal learns them."""
        replay = run.replay
        for frame in passed:
            for region in replay.unknown_parts(run.load(frame)) if replay else ():
                if region in self._reported:
                    continue
                self._reported.append(region)
                if self._rehearsal and replay and replay.newest_step:
                    transient = Screen(pixels=partial(run.load, frame))
                    self._rehearsal.note_transient(replay.newest_step, transient)
                    continue
                problem = f"{when} the screen showed an unrecorded transient frame, {region}"
                run.emit(Transient(problem, frame, region))
                self.transients.append(problem)

    def judge(
        self, live: Callable[[], Judge], controller: Callable[[], Controller], hide: Callable[[str], str]
    ) -> Judge:
        """Return the judge: the recorded evidence and, unless this is a replay, the live judge.

        `hide` takes secrets out of a claim.
        """
        self._controller = controller
        evidence: list[tuple[Evidence, Screen | None]] = []
        if self._recording:
            is_left = self._newest is None or self._newest.is_left
            runs = self._recording.runs
            evidence += [(answer, None) for answer in self._recording.claims]
            evidence += [(answer, None if is_left else run.end) for run in runs for answer in run.evidence]
        return RecordedJudge(
            evidence,
            None if self.mode == "replay" else live,
            masks=self.masks,
            rehearsal=self._rehearsal,
            review=self._review,
            controller=controller,
            hide=hide,
            compared=self._compared,
            watch_s=self._watch_s,
            is_watched=self._is_watched,
        )

    def _is_watched(self, seen: Pixels) -> bool:
        """Return whether a screen is the newest run's end, which was watched or is watched by the next task's gates."""
        run = self._newest
        if run is None or run.replay is None or run.is_left or not (run.is_watched or self.task_follows):
            return False
        return run.is_replayed and run.replay.shows_end(seen)

    def _keep(self, claim: str, judged: Verdict | Reading) -> None:
        """Keep a judge's answer with its evidence: the recorded evidence if the answer came from it, else new evidence.

        New evidence has the parts that move now. If the screen still shows the run's end, the parts that moved there
        belong to it too, because carets come to rest while a judge thinks.
        """
        frame, evidence, mismatch = self._compared.pop(claim, (None, None, None))
        if frame is None:
            return
        run = self._newest
        answers = run.claims if run else self._claims
        if evidence and not mismatch:
            claims = run.recorded_run.claims if run and run.recorded_run and evidence.is_end else ()
            answers.append(next((recorded for recorded in claims if recorded.claim == claim), evidence))
            return
        if evidence and mismatch:
            problem = f"the evidence for {claim!r} is not on the screen again: {mismatch.problem}"
            if run:
                shown, is_healed = run.directory.store(frame), self.mode != "replay"
                run.report(evidence.screen.pixels(), mismatch, problem, shown, is_healed=is_healed)
            elif self.mode != "replay":  # no run directory for the images before the first run
                self.healed.append(problem)
        if not self._records or self._controller is None or (isinstance(judged, Verdict) and judged.kind == "unsure"):
            return
        seen, stable = pixels_in(frame), stable_screen(self._controller())
        end = run.ended.end if run and run.ended else None
        shows_end = end is not None and evidence_gate(end).mismatch(seen) is None
        dynamic = merged((*stable.dynamic, *(end.dynamic if end and shows_end else ())))
        stable, screen = (screen.model_copy(update={"dynamic": dynamic}) for screen in (stable, screen_of(frame)))
        if evidence_gate(stable).mismatch(seen) is None:
            screen = screen.model_copy(update={"stable_s": stable.stable_s})
        answer = {"verdict": judged.kind} if isinstance(judged, Verdict) else {"verdict": "read", "value": judged.value}
        region, model = judged.region, judged.model
        answers.append(Evidence(claim=claim, reason=judged.reason, region=region, model=model, screen=screen, **answer))

    def keep(self, path: Path | None = None) -> bool:
        """Write the recording where it has changed, once the test has passed; return whether the file changed.

        It is written to `path` if that is given. Nothing is written where there is nothing to record, or a run is not
        recorded. Raises as `store.save` does.
        """
        if self._review and self._recording and not self._records:
            replayed = [run.replay.run for run in self._runs if run.replay]
            replayed += self._recording.runs[len(replayed) :]
            accepted = self._review.accepted(self._recording.model_copy(update={"runs": tuple(replayed)}))
            if accepted != self._recording and self.key.path.read_bytes() != self._text:
                raise RecordingError(
                    f"{str(self.key.path)!r} has changed since this test began, so what was accepted is not written: "
                    "run the test again"
                )
            return accepted != self._recording and save(self.key.path, accepted)
        runs = tuple(filter(None, [run.recorded() for run in self._runs]))
        screens = [answer.screen for answer in self._claims] + [run.end for run in runs]
        if not self._records or self.unrecorded or not screens or len(runs) < len(self._runs):
            return False
        (height, width), previous = screens[0].pixels().shape, self._recording
        unchanged = None if any(run.is_live for run in self._runs) else previous
        recording = Recording(
            test=self.key.test,
            after=unchanged.after if unchanged else self._follows,
            parameters=self.key.parameters,
            secrets=self.key.secrets,
            screen_size=(width, height),
            machine=unchanged.machine if unchanged else self._machine,
            masks=self.masks,
            claims=tuple(self._claims),
            runs=runs,
            history=self._history,
        )
        recording = recording.model_copy(update={"redacts": self.redacts and recording.types_secrets})
        recording = self._review.accepted(recording) if self._review else recording
        return recording != previous and save(path or self.key.path, recording)

    def saved(self) -> tuple[float, float | None] | None:
        """Return the seconds and dollars that the replayed runs saved (see `saved_by`)."""
        return saved_by(
            (run.recorded_run.live if run.recorded_run else None, run.meter) for run in self._runs if run.is_replayed
        )

    def release(self) -> None:
        """Release the screens, because others may keep the test, or its error, and thereby this object."""
        self._runs.clear()
        self._claims.clear()
        self._current = self._recording = None
