"""One test and its recording: what is replayed, what is recorded of a run as it happens, and what is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Literal

from pytest_vnc_use import clock
from pytest_vnc_use.errors import RecordingError
from pytest_vnc_use.recordings import AGAIN, ALWAYS_WRITES, RECORD_IT, TAKE_OUT, Mode
from pytest_vnc_use.recordings.accept import Review
from pytest_vnc_use.recordings.format import (
    PERSON,
    Evidence,
    Live,
    RecordedRun,
    RecordedStep,
    Recording,
    Screen,
    merged,
)
from pytest_vnc_use.recordings.gates import Mismatch, evidence_gate, mask_of, screen_at_rest, screen_of, unknown_parts
from pytest_vnc_use.recordings.images import Pixels, frame_of, pixels_in, pixels_of
from pytest_vnc_use.recordings.machine import difference
from pytest_vnc_use.recordings.rehearse import Rehearsal
from pytest_vnc_use.recordings.replay import Question, RecordedJudge, Replay
from pytest_vnc_use.recordings.store import Key, check_writable, former_of, load_of, save
from pytest_vnc_use.runs.folder import RunFolder
from pytest_vnc_use.runs.json_lines import to_json
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    Decision,
    DesktopAction,
    Drifted,
    Extracted,
    Frame,
    FrameRef,
    GateAwaited,
    Glance,
    Judged,
    ModelExchange,
    Observation,
    Outcome,
    Proposal,
    Reading,
    Region,
    RunEnded,
    RunEvent,
    RunStarted,
    Settled,
    Step,
    StepFinished,
    StepStarted,
    TakeScreenshot,
    Transient,
    Usage,
    Verdict,
    Wait,
)
from pytest_vnc_use.types.elements import Elements
from pytest_vnc_use.types.forwarding import ForwardingController
from pytest_vnc_use.types.protocols import Controller, Judge, Planner
from pytest_vnc_use.types.verdicts import PERSON_SAID, end_state_claim

NOTHING_DONE = "the viewer was closed before anything was done there, so nothing is recorded"


@dataclass(frozen=True)
class DemonstratedStep:
    """An action that a person did, the screen before it, and the elements that it acted on, if they are known."""

    action: Action
    screen: Screen
    elements: Elements = ()


@dataclass(frozen=True)
class DemonstratedTask:
    """A demonstration without secrets: its steps, and the screen at its end."""

    steps: tuple[DemonstratedStep, ...]
    end: Screen


Show = Callable[[str, Controller, float], DemonstratedTask]
"""A function that has a person do a task. It takes the task, the desktop and a limit in seconds.

Raises DeadlineExceeded, DesktopError, and SettingsError where the demonstration cannot be recorded.
"""


class DemonstratedRun(ForwardingController):
    """The ports Planner and Controller for a run that a person does in a single turn.

    The run then goes through the demonstrated steps one by one, with the screens as they were. Nothing is done again.
    """

    name = PERSON

    def __init__(self, show: Callable[[float], DemonstratedTask], desktop: Controller) -> None:
        super().__init__(desktop)
        self._show = show
        self._done: DemonstratedTask | None = None
        self._next = 0

    def elements_of(self, action: Action) -> Elements:
        """Return the elements of the next step."""
        return self._done.steps[self._next].elements if self._done else ()

    def screen(self) -> Screen:
        """Return the screen before the next step, or at the end. There is none before the demonstration."""
        if self._done is None:
            raise IndexError("there is no screen before the demonstration")
        return self._done.steps[self._next].screen if self._next < len(self._done.steps) else self._done.end

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        """Have the person do the task, and return all their actions as one decision. Raises as `Show` does.

        The next call ends the run. It gives up if the policy refused a step: it would refuse a replay too.
        """
        if self._done:
            steps = [step for turn in observation.turns for step in turn.steps]
            if refused := next((step for step in steps if step.error), None):
                why = f"step {refused.number} was shown, but must not be carried out: {refused.error}"
                return Decision("gave_up", why)
            return Decision("finished", f"{PERSON} did it, in {len(steps)} {'step' if len(steps) == 1 else 'steps'}")
        done = self._show(timeout_s)
        if not done.steps:
            return Decision("gave_up", NOTHING_DONE)
        self._done = done
        actions = (step.action for step in done.steps)
        proposals = (Proposal(action, as_proposed={"name": action.kind, "args": {}}) for action in actions)
        return Decision("act", proposals=tuple(proposals))

    def frame(self) -> Frame:
        """Return the screen now; after the demonstration, the screen as it was after the newest step."""
        return frame_of(self.screen().pixels()) if self._done else self.desktop.frame()

    def glance(self) -> Glance:
        """Return the pixels of the screen that `frame` shows."""
        return Glance(self.screen().pixels()) if self._done else self.desktop.glance()

    def perform(self, action: DesktopAction) -> None:
        """Count the step, and do nothing on the desktop."""
        if not isinstance(action, Wait):  # a person does no waits: this one is the delay after each step
            self._next += 1

    def settle(self, *, briefly: bool = False) -> Settled:
        """Return at once: the screens of a demonstration are known."""
        return Settled("settled", 0.0)

    def changed_since(self, moment: float) -> bool:
        """Return False: only the person acts on the desktop, and sees if it is gone."""
        return False

    def wait_changed(self, moment: float, timeout_s: float) -> bool:
        """Return False at once."""
        return False

    def transient_frames(self) -> tuple[Frame, ...]:
        """Return no frames."""
        return ()


_MOST_TRANSIENTS = 4
"""The most frames kept with a step as possible transient frames."""
_READING = frozenset({"get_browser_state", "list_elements"})
"""The functions by which a model reads a page or a desktop, through `vnc_cdp` and `vnc_elements`."""
VERIFY = "verify"
"""The function by which a model asks a judge. It changes nothing, and is not repeated in a replay."""


class Recorder:
    """The steps of one run that are carried out live.

    `screen` returns the screen at rest, `load` a frame's pixels. Waits and looks are left out, as gates take their
    place. Failed steps are left out too. `holds_secret` is true if a step contained a secret that no recording may
    contain and that no replay could insert: the desktop's password, or a key.
    """

    def __init__(self, screen: Callable[[], Screen], load: Callable[[FrameRef], Pixels]) -> None:
        self.screen = screen
        self._load = load
        self.steps: list[RecordedStep] = []
        self.holds_secret = False
        self._begun: tuple[Proposal, Screen] | None = None
        self._acted_at = 0.0

    def observe(self, event: RunEvent) -> None:
        """Take in an event of the run; before a step, wait for the screen to be at rest."""
        match event:
            case StepStarted(proposal=proposal) if not _is_look(proposal):
                self._begun = proposal, self.next_screen()
                self._acted_at = clock.monotonic()
            case StepFinished(step=step):
                if self._begun and not step.error:
                    proposal, screen = self._begun
                    self.steps.append(_step_of(step, screen))
                    self.holds_secret |= step.proposal.action != proposal.action
                self._begun = None
                if self.steps:  # a toast may still be there after the step
                    frames = (step.frame_after, *step.passed)[:_MOST_TRANSIENTS]
                    passed = tuple(Screen(pixels=partial(self._load, frame)) for frame in frames)
                    transients = (*self.steps[-1].transients, *passed)
                    self.steps[-1] = self.steps[-1].model_copy(update={"transients": transients})
            case _:
                pass

    def next_screen(self) -> Screen:
        """Return the screen at rest after the newest step, and note how long after it that is. Raises DesktopError."""
        screen = self.screen()
        if self.steps:
            took_s = round(clock.monotonic() - self._acted_at, 1)
            self.steps[-1] = self.steps[-1].model_copy(update={"took_s": took_s})
        return screen


def _is_look(proposal: Proposal) -> bool:
    action = proposal.action
    return isinstance(action, (Wait, TakeScreenshot)) or (isinstance(action, CallFunction) and action.name == VERIFY)


def _step_of(step: Step, screen: Screen) -> RecordedStep:
    proposal = step.proposal
    call = str(proposal.as_proposed.get("name", ""))
    is_answered = isinstance(proposal.action, CallFunction) and proposal.action.name not in _READING
    return RecordedStep.model_validate(
        {
            "action": to_json(proposal.action),
            "intent": proposal.intent or step.words,
            "call": "" if call == proposal.action.kind else call,
            "confirmation": proposal.confirmation,
            "screen": screen,
            "answer": step.output if is_answered else None,
            "elements": step.elements,
        }
    )


@dataclass
class Meter:
    """The seconds and dollars of one run. `dollars` is None if they are not known."""

    began_s: float = field(default_factory=clock.monotonic)
    seconds: float = 0.0
    dollars: float | None = 0.0
    calls: int = 0

    def hear(self, exchange: ModelExchange) -> None:
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


@dataclass(frozen=True)
class Savings:
    """The savings of the replayed runs of a test. `dollars` is None if they are not known for each of the runs."""

    seconds: float
    dollars: float | None


def saved_by(runs: Iterable[tuple[Live | None, Meter]]) -> Savings | None:
    """Return what replayed runs saved, from the figures of each when it was recorded and when it was replayed.

    None for no run, or if a recording has no figures.
    """
    pairs = [*runs]
    known = [(live, meter) for live, meter in pairs if live]
    if not pairs or len(known) < len(pairs):
        return None
    dollars = [(live.dollars, meter.dollars) for live, meter in known]
    saved = [then - now for then, now in dollars if then is not None and now is not None]
    seconds = sum(live.seconds - meter.seconds for live, meter in known)
    return Savings(seconds, sum(saved) if len(saved) == len(pairs) else None)


@dataclass
class _Run:
    """A run of the test: its replay, its recorder, and the receiver of its events."""

    task: str
    planner: str
    folder: RunFolder
    emit: Callable[[RunEvent], None]
    recorder: Recorder
    expected: tuple[str, ...] = ()
    """The claims that are judged at the run's end; none with `expect=None`."""
    known: RecordedRun | None = None
    replay: Replay | None = None
    is_watched: bool = False
    """True if the end was watched for the recorded time."""
    is_left: bool = False
    """True if something acted on the desktop after the run."""
    is_done: bool = False
    is_over: bool = False
    """True if the test's body ended after the run."""
    claims: list[Evidence] = field(default_factory=list)
    ended: RecordedRun | None = None
    meter: Meter = field(default_factory=Meter)

    @property
    def is_live(self) -> bool:
        """Return whether a planner decides: nothing is replayed, or the live planner has taken over."""
        return self.replay is None or self.replay.is_live

    @property
    def is_replayed(self) -> bool:
        """Return whether the whole run was replayed."""
        return self.is_done and not self.is_live

    def end(self) -> RecordedRun:
        """Return the recorded run: the known one if it was replayed completely, else one with the live steps.

        Raises DesktopError.
        """
        if self.known and not self.is_live:
            return self.known
        steps = [*(self.replay.carried_out if self.replay else ()), *self.recorder.steps]
        end = self.recorder.next_screen()
        following = [*(step.screen for step in steps[1:]), end]  # without steps, only the end
        kept = [_with_known_transients(step, after) for step, after in zip(steps, following, strict=False)]
        passed = [bool(step.transients) for step in (*kept, *steps[-1:])]
        for number, step in enumerate(kept):
            if not any(passed[number : number + 2]):  # nothing passed then whose time matters
                kept[number] = step.model_copy(update={"took_s": 0.0})
        return RecordedRun(task=self.task, planner=self.planner, steps=tuple(kept), end=end)

    def recorded(self) -> RecordedRun | None:
        """Return the run with what was judged of its end; None if the run is not recorded.

        Of a run that was replayed with `expect=None`, what was judged of its end stays. A person's run and a healed run
        have no figures.
        """
        if self.ended is None:
            return None
        known = None if self.is_live else self.known
        kept = known if not self.expected else None
        claims = (*kept.claims, *(each for each in self.claims if each not in kept.claims)) if kept else self.claims
        live = known.live if known else None if self.replay or self.planner == PERSON else self.meter.live()
        vouched_by = kept.vouched_by if kept else self._vouched_by()
        return self.ended.model_copy(update={"claims": tuple(claims), "live": live, "vouched_by": vouched_by})

    def _vouched_by(self) -> Literal["judge", "user", "body"]:
        held = {each.claim: each for each in self.claims if each.verdict == "holds"}
        if not self.expected or not held.keys() >= set(self.expected):
            return "body"
        return "user" if held[self.expected[0]].reason.startswith(PERSON_SAID) else "judge"

    def leave(self, desktop: Controller) -> None:
        """Note, if the run was recorded just now, whether the screen still shows its end."""
        if self.ended and self.is_live and not self.is_left:
            stays = evidence_gate(self.ended.end).mismatch(pixels_in(desktop.glance())) is None
            self.ended = self.ended.model_copy(update={"stays": stays})


def _with_known_transients(step: RecordedStep, after: Screen) -> RecordedStep:
    """Return the step without transient frames that only show the way from its screen to the next one."""
    if not step.transients:
        return step
    known, left_out = [step.screen.pixels(), after.pixels()], mask_of((), after.pixels().shape)
    kept = [each for each in step.transients if unknown_parts(each.pixels(), known, left_out)]
    return step.model_copy(update={"transients": tuple(kept)})


def _frame_pixels(folder: RunFolder, frame: FrameRef) -> Pixels:
    return pixels_of(folder.load_png(frame))


class RecordedTest:
    """A RunObserver that gives an agent the run to replay, and collects the recording of the test.

    The recording is written once the test has passed. In the mode `demonstrate`, `show` has a person do each task. A
    `rehearsal` holds the recording to replay, and learns from the replay. `redacts` says whether the settings want
    typed secrets redacted, `marked_off` that the marker has `record="off"`, `left_over` which recording of a test
    that is gone may be this test's, `look_at_machine` what draws the screens here. Raises RecordingError if it is
    unusable.
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
        look_at_machine: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.key, self.mode, self._show, self._rehearsal, self._review = key, mode, show, rehearsal, review
        self._look_at_machine = look_at_machine
        self._marked_off, self._left_over = marked_off, left_over
        self._records = mode in ("auto", "rewrite", "demonstrate")
        self.healed: list[str] = []
        """The differences from the recording at which a planner or a judge went on: healed if the test passes."""
        self.transients: list[str] = []
        """Messages about transient frames of a replay that its recording does not have."""
        self._passed: list[Region] = []
        self._recording = rehearsal.recording if rehearsal else load_of(key) if mode in ("auto", "replay") else None
        self.redacts = self._recording.redacts_secrets(redacts) if self._recording else redacts
        """True if typed secrets are redacted in all pictures of this test; a replay does as its recording does."""
        former = self._recording or former_of(key)
        self._masks = former.masks if former else ()
        self._history = former.history if former else ()
        self._eyes: Callable[[], Controller] | None = None
        self._opening: list[Evidence] = []
        self._runs: list[_Run] = []
        self._current: _Run | None = None
        self._questions: dict[str, Question] = {}
        self.unrecorded = ""
        """Why the test cannot be recorded, such as that a task of it ended as denied; "" if it can."""
        self._acts_unseen = False
        """True if something acted on the desktop since the newest run began, outside its controller."""

    @cached_property
    def _machine(self) -> dict[str, str]:
        """What draws the screens here."""
        return dict(self._look_at_machine())

    def _blame(self, problem: str) -> str:
        """Return the message of a drift; first how this machine differs from the recording's, where it does."""
        differs = difference(self._recording.machine, self._machine) if self._recording else ""
        return f"{differs} {problem}" if differs else problem

    @property
    def is_reviewed(self) -> bool:
        """Return whether a reviewer is asked about what differs."""
        return self._review is not None

    @property
    def masks(self) -> tuple[Region, ...]:
        """The parts of the screen that no comparison looks at. They are redacted too once a secret was typed."""
        return (*self._masks, *(self._review.masks if self._review else ()))

    def begin(
        self,
        started: RunStarted,
        planner: Planner,
        desktop: Controller,
        folder: RunFolder,
        emit: Callable[[RunEvent], None],
    ) -> tuple[Planner, Controller]:
        """Return the planner and the controller for a run that begins now. Raises RecordingError, DesktopError."""
        task, load = started.task, partial(_frame_pixels, folder)
        expected = () if started.body_checks else started.expect or (end_state_claim(task),)
        if self._runs:
            self._finish(self._runs[-1], desktop)
            self._runs[-1].is_left = True
        elif self.mode in ALWAYS_WRITES:
            check_writable(self.key.path)
        if self._records and self._recording is None:
            _ = self._machine  # the desktop may be gone once the recording is written
        if self._show:
            person = DemonstratedRun(partial(self._show, task, desktop), desktop)
            self._runs.append(_Run(task, person.name, folder, emit, Recorder(person.screen, load), expected))
            return person, person
        recorder = Recorder(partial(screen_at_rest, desktop), load)
        run = _Run(task, planner.name, folder, emit, recorder, expected, self._known(task, desktop))
        before, acts_unseen, self._acts_unseen = self._runs[-1].replay if self._runs else None, self._acts_unseen, False
        let_go = before.let_go if before else None
        if acts_unseen or (self._runs and before is None):  # only a replay knows where a button was released last
            let_go = None, clock.monotonic()
        self._runs.append(run)
        if run.known is None:
            return planner, desktop
        if self._review:
            self._review.folder = folder
        run.replay = Replay(
            desktop,
            run.known,
            None if self.mode == "replay" else planner,
            limit_s=started.settings["gate_seconds"],
            earlier=before.last_screen if before else None,
            masks=self.masks,
            test=self.key.node_id,
            rehearsal=self._rehearsal,
            review=self._review,
            let_go=let_go,
            awaited=lambda left_s: emit(GateAwaited(left_s)),
            blame=self._blame,
            closed=partial(self._report, run),
        )
        return run.replay, run.replay

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
        return RecordedJudge(
            evidence,
            None if self.mode == "replay" else live,
            masks=self.masks,
            rehearsal=self._rehearsal,
            review=self._review,
            eyes=eyes,
            hide=hide,
            questions=self._questions,
        )

    def _known(self, task: str, desktop: Controller) -> RecordedRun | None:
        """Return the run that is recorded in this place of the test; None where none is.

        Raises RecordingError, DesktopError.
        """
        if known := self.known_run(task):
            screen, size = desktop.frame().ref, self._recording.screen_size if self._recording else ()
            if size != (screen.width, screen.height):
                raise RecordingError(
                    f"{str(self.key.path)!r} was recorded on a screen of {'x'.join(map(str, size))} pixels, but this "
                    f"one has {screen.width}x{screen.height}: give the desktop that size (--vnc-screen-size), or "
                    f"{AGAIN}"
                )
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
                run = self._current
                if isinstance(event, StepFinished) and run and run.known and not run.is_live:
                    when = f"after step {event.step.number} of {len(run.known.steps)}"
                    self._look_for_transients(run, when, event.step.passed)
                if self._records and run and run.is_live:
                    run.recorder.observe(event)

    def _end(self, event: RunEnded) -> None:
        run, self._current = self._current, None
        if run is None:
            return
        run.meter.seconds = clock.monotonic() - run.meter.began_s  # judges may be asked after that
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

    def _report(
        self, run: _Run, expected: Pixels, mismatch: Mismatch, problem: str, seen: FrameRef, *, at_end: bool = False
    ) -> None:
        """Report a screen that differs from the recorded one. Where a model may go on, it is healed."""
        is_healed = self.mode != "replay" and not at_end
        recorded = run.folder.store(frame_of(expected))
        run.emit(Drifted(problem, recorded, seen, mismatch.region, is_healed))
        self.healed += [problem] if is_healed else []

    def conclude(self) -> None:
        """Watch the newest run's end for its full time, if that was postponed.

        Raises RecordingDrifted, DesktopError.
        """
        run = self._runs[-1] if self._runs else None
        if run and run.replay and run.is_replayed and not run.is_watched:
            run.is_watched = True
            self._check_end(run, run.replay, run.replay.watch_end())

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
        if run.replay and run.is_replayed and run.known and run.known.stays and not run.is_left:
            found = run.replay.look_at_end()
            self._check_end(run, run.replay, run.replay.watch_end() if run.replay.is_accepted(found) else found)
        self._finish(run, desktop)

    def _finish(self, run: _Run, desktop: Controller) -> None:
        """Report what passed after the last step of a replay, or note whether the recorded end stays."""
        run.leave(desktop)
        if run.is_replayed:
            passed = [run.folder.store(frame) for frame in desktop.transient_frames()]
            self._look_for_transients(run, "after the last step", passed)

    def _look_for_transients(self, run: _Run, when: str, passed: Iterable[FrameRef]) -> None:
        """Report each unknown region of the transient frames once; a rehearsal learns them."""
        for ref in passed:
            for part in run.replay.unknown_parts(_frame_pixels(run.folder, ref)) if run.replay else ():
                if part in self._passed:
                    continue
                self._passed.append(part)
                if self._rehearsal and run.replay and run.replay.newest_step:
                    transient = Screen(pixels=partial(_frame_pixels, run.folder, ref))
                    self._rehearsal.note_transient(run.replay.newest_step, transient)
                    continue
                where = f"from ({part.left}, {part.top}) to ({part.right}, {part.bottom})"
                problem = f"{when} the screen showed an unrecorded transient frame, {where}"
                run.emit(Transient(problem, ref, part))
                self.transients.append(problem)

    def _check_end(self, run: _Run, replay: Replay, mismatch: Mismatch | None) -> None:
        if mismatch and run.known:
            problem = self._blame(f"drift at the end: {mismatch.problem}; the screen did not stay as recorded")
            frame = replay.last_frame
            self._report(run, run.known.end.pixels(), mismatch, problem, run.folder.store(frame), at_end=True)
            raise replay.error(problem, mismatch, pixels_in(frame))

    def _keep(self, claim: str, judged: Verdict | Reading) -> None:
        """Keep a judge's answer with its evidence: the known evidence if the answer came from it, else new evidence."""
        frame, evidence, mismatch = self._questions.pop(claim, (None, None, None))
        if frame is None:
            return
        answers = self._runs[-1].claims if self._runs else self._opening
        if evidence and not mismatch:
            known = self._runs[-1].known if self._runs and evidence.is_end else None
            judged_then = [each for each in (known.claims if known else ()) if each.claim == claim]
            answers.append(judged_then[0] if judged_then else evidence)
            return
        if evidence and mismatch:
            problem = f"the evidence for {claim!r} is not on the screen again: {mismatch.problem}"
            if self._runs:
                run, expected = self._runs[-1], evidence.screen.pixels()
                self._report(run, expected, mismatch, problem, run.folder.store(frame))
            elif self.mode != "replay":  # no run folder for the pictures before the first run
                self.healed.append(problem)
        if self._records and not (isinstance(judged, Verdict) and judged.kind == "unsure"):
            answers.append(self._evidence(claim, judged, frame))

    def _evidence(self, claim: str, judged: Verdict | Reading, frame: Frame) -> Evidence:
        """Return a judge's answer about a frame, with the parts that move now.

        If the screen still shows the run's end, the parts that moved there belong to it too, because carets come to
        rest while a judge thinks.
        """
        rest = screen_at_rest(self._eyes()) if self._eyes else Screen()
        end = self._runs[-1].ended.end if self._runs and self._runs[-1].ended else None
        shows_end = end is not None and evidence_gate(end).mismatch(pixels_in(frame)) is None
        parts = merged((*rest.dynamic, *(end.dynamic if end and shows_end else ())))
        rest, screen = (each.model_copy(update={"dynamic": parts}) for each in (rest, screen_of(frame)))
        if self._eyes and evidence_gate(rest).mismatch(pixels_in(frame)) is None:
            screen = screen.model_copy(update={"quiet_s": rest.quiet_s})
        answer = {"verdict": judged.kind} if isinstance(judged, Verdict) else {"verdict": "read", "value": judged.value}
        region, model = judged.region, judged.model
        return Evidence(claim=claim, reason=judged.reason, region=region, model=model, screen=screen, **answer)

    def keep(self) -> bool:
        """Write the recording where it has changed, once the test has passed; return whether the file changed.

        Raises as `store.save` does.
        """
        recording = self._whole_recording() if self._records and not self.unrecorded else None
        if self._review and self._recording:
            recording = self._review.accepted(self._recording)
        if recording is None or recording == self._recording:
            return False
        return save(self.key.path, recording)

    def saved(self) -> Savings | None:
        """Return what the replayed runs saved; None if nothing was replayed, or if the recording has no figures."""
        replayed = [run for run in self._runs if run.is_replayed]
        return saved_by((run.known.live if run.known else None, run.meter) for run in replayed)

    def release(self) -> None:
        """Release the screens, because others may keep the test, or its error, and thereby this object."""
        self._runs.clear()
        self._opening.clear()
        self._current = self._recording = None

    def _whole_recording(self) -> Recording | None:
        """Return the recording of the whole test; None where there is nothing to record, or a run is not recorded."""
        runs = tuple(filter(None, [run.recorded() for run in self._runs]))
        seen = [each.screen for each in self._opening] + [run.end for run in runs]
        if not seen or len(runs) < len(self._runs):
            return None
        (height, width), known = seen[0].pixels().shape, self._recording
        recording = Recording(
            test=self.key.test,
            parameters=self.key.parameters,
            secrets=self.key.secrets,
            screen_size=(width, height),
            machine=known.machine if known and not any(run.is_live for run in self._runs) else self._machine,
            masks=self.masks,
            claims=tuple(self._opening),
            runs=runs,
            history=self._history,
        )
        return recording.model_copy(update={"redacts": self.redacts and recording.types_secrets})
