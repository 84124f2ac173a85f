"""The segment of a run that is recorded.

A planner's steps are built of the run's events as they come. A step needs two of them.
When it starts, the screen is waited for, and is the one that a gate will expect; when
it has finished, it is known whether it succeeded, what it acted on, and what appeared
briefly. A user's steps are finished before they pass the graph (see `manual`), and are
taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pytest_vnc_use import clock
from pytest_vnc_use.recordings.format import Live, RecordedStep, Screen, Segment
from pytest_vnc_use.recordings.gates import evidence_gate, mask_of
from pytest_vnc_use.recordings.images import Pixels, pixels_of
from pytest_vnc_use.recordings.painting import unknown_parts
from pytest_vnc_use.recordings.values import Values, with_names
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.runs.json_lines import to_json
from pytest_vnc_use.types import (
    CallFunction,
    FrameRef,
    ModelExchange,
    Proposal,
    RunEvent,
    RunStarted,
    Step,
    StepFinished,
    StepStarted,
    TakeScreenshot,
    Usage,
    Wait,
)
from pytest_vnc_use.types.values import value_names

_READING = frozenset({"get_browser_state", "list_elements"})
"""The functions by which a model reads a page or a desktop, through `vnc_cdp` and
`vnc_elements`.
"""
_MAX_TRANSIENTS = 4
"""The maximum frames kept with a step as possible transient frames."""


class Meter:
    """The seconds and dollars of one run. `dollars` is None if they are not known."""

    def __init__(self) -> None:
        self.started_at = clock.monotonic()
        self.seconds = 0.0
        self.calls = 0
        self.dollars: float | None = 0.0

    def add(self, exchange: ModelExchange) -> None:
        """Count a call of a model."""
        self.calls += 1
        is_unpriced = exchange.dollars is None and exchange.usage != Usage()
        if exchange.uncounted or is_unpriced:
            self.dollars = None
        elif self.dollars is not None:
            self.dollars += exchange.dollars or 0.0

    def stop(self) -> None:
        """Note that the run has ended; judges may still be asked."""
        self.seconds = clock.monotonic() - self.started_at

    def live(self) -> Live:
        """Return the figures for the recording."""
        is_known = self.calls and self.dollars is not None
        dollars = round(self.dollars or 0.0, 6) if is_known else None
        return Live(seconds=round(self.seconds, 1), dollars=dollars)


@dataclass(frozen=True)
class _FirstFrame:
    """The first frame that the planner saw, `seconds` after the run began."""

    frame: FrameRef
    seconds: float


@dataclass(frozen=True)
class _StartedStep:
    """A step that has not finished: what was proposed, the screen then, and when it
    started, on the monotonic clock.
    """

    proposal: Proposal
    screen: Screen
    at: float


class SegmentBuilder:
    """The segment of one run, built from the run's events in order.

    `stable_screen` waits until the screen is stable, and returns it; it takes when the
    newest step was performed. `directory` holds the frames that events name. `values` are
    those of the task.
    """

    def __init__(
        self,
        task: str,
        planner: str,
        directory: RunDirectory,
        stable_screen: Callable[[float | None], Screen],
        values: Values | None = None,
    ) -> None:
        self.holds_secret = False
        """True if a step had a secret that no replay could insert: the desktop's
        password, or a key.
        """
        self._task = task
        self._planner = planner
        self._directory = directory
        self._stable_screen = stable_screen
        self._values = values or {}
        self._began_at = clock.monotonic()
        self._first: _FirstFrame | None = None
        """None once the first step has started."""
        self._first_screen_s: float | None = None
        self._started: _StartedStep | None = None
        self._acted_at = 0.0
        """When the newest step was started."""
        self._steps: list[RecordedStep] = []
        self._done: Segment | None = None
        """What a user has done by hand."""

    def observe(self, event: RunEvent) -> None:
        """Take in an event of the run. Raises DesktopError.

        Waits and looks are left out, as gates take their place, and so are failed
        steps. A model asks a judge by `verify`: that changes nothing, and no replay
        repeats it.
        """
        match event:
            case StepStarted() if self._done:
                pass
            case StepFinished(step=step) if self._done:
                done = self._done.steps[step.number - 1]
                self.holds_secret |= step.proposal.action != done.action
            case RunStarted(screen=frame):
                self._first = _FirstFrame(frame, clock.monotonic() - self._began_at)
            case StepStarted(
                proposal=Proposal(
                    action=Wait() | TakeScreenshot() | CallFunction(name="verify")
                )
            ):
                pass
            case StepStarted(proposal=proposal):
                self._start(proposal)
            case StepFinished(step=step):
                self._finish(step)
            case _:
                pass

    def take(self, done: Segment) -> None:
        """Take what a user has done by hand as the run's segment."""
        first = self._first
        first_screen_s = None
        if first and self._shows(done.steps[0].screen, first.frame):
            first_screen_s = round(first.seconds, 1)
        self._done = done.model_copy(update={"first_screen_s": first_screen_s})

    def _start(self, proposal: Proposal) -> None:
        screen = self._next_screen()
        started = _StartedStep(proposal, screen, clock.monotonic())
        if self._first:
            appeared_s = self._appeared_s(started, self._first)
            self._first_screen_s = round(appeared_s, 1)
            self._first = None
        self._started = started

    def _appeared_s(self, started: _StartedStep, first: _FirstFrame) -> float:
        """Return when the screen of the first step was there, in seconds after the run
        began.

        If the planner's first frame did not show it yet, it was there at the latest
        when it had been stable for its time.
        """
        screen = started.screen
        if self._shows(screen, first.frame):
            return first.seconds
        return started.at - self._began_at - screen.stable_s

    def _shows(self, screen: Screen, frame: FrameRef) -> bool:
        return evidence_gate(screen).mismatch(self._load(frame)) is None

    def _finish(self, step: Step) -> None:
        started = self._started
        self._started = None
        if started and not step.error:
            self.holds_secret |= step.proposal.action != started.proposal.action
            self._steps.append(_recorded_step(step, started.screen))
            self._acted_at = started.at
        if self._steps:
            # A toast of an earlier step may still be there after a wait.
            transients = list(self._steps[-1].transients)
            frames = (step.frame_after, *step.transient_frames)
            for frame in frames[:_MAX_TRANSIENTS]:
                transients.append(Screen(pixels=partial(self._load, frame)))
            self._update_newest(transients=tuple(transients))

    def _next_screen(self) -> Screen:
        """Return the stable screen after the newest step, and note how long after it
        that is. Raises DesktopError.
        """
        screen = self._stable_screen(self._acted_at if self._steps else None)
        if self._steps:
            duration_s = clock.monotonic() - self._acted_at
            self._update_newest(duration_s=round(duration_s, 1))
        return screen

    def _update_newest(self, **fields: object) -> None:
        newest = self._steps[-1]
        self._steps[-1] = newest.model_copy(update=fields)

    def _load(self, frame: FrameRef) -> Pixels:
        return pixels_of(self._directory.load_png(frame))

    def complete(self, replayed: Sequence[RecordedStep] = ()) -> Segment:
        """Return the segment that ends on the screen now; the `replayed` steps came
        before the live ones. Raises DesktopError; SettingsError for a value that was
        not typed alone.
        """
        values = {name: self._values[name] for name in value_names(self._task)}
        if self._done:
            named = with_names(self._done.steps, values)
            fields = {"task": self._task, "values": values, "steps": named}
            return self._done.model_copy(update=fields)
        end = self._next_screen()
        steps = [*replayed, *with_names(self._steps, values, replayed)]
        return Segment(
            task=self._task,
            values=values,
            planner=self._planner,
            steps=_without_passages(steps, end),
            end=end,
            first_screen_s=self._first_screen_s,
        )


def _recorded_step(step: Step, screen: Screen) -> RecordedStep:
    """Return a finished step as it is recorded; `screen` is the one before it."""
    action = step.proposal.action
    call = str(step.proposal.as_proposed.get("name", ""))
    has_answer = isinstance(action, CallFunction) and action.name not in _READING
    fields = {
        "action": to_json(action),
        "intent": step.proposal.intent or step.text,
        "call": "" if call == action.kind else call,
        "confirmation": step.proposal.confirmation,
        "screen": screen,
        "answer": step.output if has_answer else None,
        "elements": step.elements,
    }
    return RecordedStep.model_validate(fields)


def _without_passages(
    steps: Sequence[RecordedStep], end: Screen
) -> tuple[RecordedStep, ...]:
    """Return the steps without transient frames that only show the way from one screen
    to the next.

    A duration is kept only where a transient frame was: after the step, or after the
    one that follows.
    """
    if not steps:
        return ()
    following = [step.screen for step in steps[1:]]
    following.append(end)
    pruned = []
    for step, after in zip(steps, following, strict=True):
        kept = tuple(_off_the_way(step, after))
        pruned.append(step.model_copy(update={"transients": kept}))
    for number, step in enumerate(pruned):
        near = pruned[number : number + 2]
        if not any(beside.transients for beside in near):
            pruned[number] = step.model_copy(update={"duration_s": 0.0})
    return tuple(pruned)


def _off_the_way(step: RecordedStep, after: Screen) -> Iterator[Screen]:
    """Yield the transient frames of a step that neither its screen nor the one after it
    shows.
    """
    if not step.transients:
        return
    beside = [step.screen.pixels(), after.pixels()]
    left_out = mask_of((), beside[0].shape)
    for screen in step.transients:
        if unknown_parts(screen.pixels(), beside, left_out):
            yield screen
