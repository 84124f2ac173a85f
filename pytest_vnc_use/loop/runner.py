"""The runner: it carries out tasks one after the other, and writes each down in a run folder."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pytest_vnc_use import clock
from pytest_vnc_use.costs.budget import Budget
from pytest_vnc_use.errors import RunFolderError, faults
from pytest_vnc_use.loop import resume
from pytest_vnc_use.loop.actor import LONGEST_TEXT, Actor, page_url_of
from pytest_vnc_use.loop.checkpoints import CHECKPOINTS, NO_CHECKPOINT
from pytest_vnc_use.loop.history import History
from pytest_vnc_use.loop.lock import only_driver
from pytest_vnc_use.loop.nodes import Parts
from pytest_vnc_use.loop.reviewer import Reviewer
from pytest_vnc_use.loop.targets import Targets, elements_of
from pytest_vnc_use.loop.timing import Timing
from pytest_vnc_use.plain_text import cut, without_query
from pytest_vnc_use.runs.folder import RunFolder, from_json, new_run_id, path_of, read_trace, to_json
from pytest_vnc_use.runs.logger import RunLogger
from pytest_vnc_use.runs.secrets import Secrets
from pytest_vnc_use.runs.tidying import drop_checkpoints
from pytest_vnc_use.runs.transcript import transcript
from pytest_vnc_use.safety.rules import Policy, ReviewContext
from pytest_vnc_use.settings.settings import TIMING, Settings
from pytest_vnc_use.types import (
    NO_FRAME,
    Action,
    ApprovalAsked,
    CUAState,
    Extracted,
    FolderMade,
    Frame,
    GateAwaited,
    Judged,
    Limits,
    ModelAsked,
    Outcome,
    Proposal,
    Report,
    Ruling,
    RunEnded,
    RunEvent,
    RunResult,
    RunStarted,
    Step,
    Usage,
)
from pytest_vnc_use.types.elements import Elements
from pytest_vnc_use.types.protocols import Approver, Checked, Controller, Judge, Planner, RunObserver

if TYPE_CHECKING:
    from pytest_vnc_use.loop.graph import TaskRun


class DesktopAccess(Protocol):
    """The desktop of an agent, as `assembly.Connection` gives it."""

    @property
    def server(self) -> str:
        """The address of the desktop."""

    @property
    def controller(self) -> Controller:
        """The eyes and hands. Raises DesktopError."""

    def await_rest(self, acting: Controller) -> None:
        """Wait before the first action until the screen is quiet."""

    def keep_messages(self, folder: RunFolder, hide: Callable[[str], str]) -> None:
        """Write what is sent to the server from now on into this run folder, if the settings want it."""

    def crash(self) -> str:
        """Return how a signal ended the program under test; "" while it runs."""

    def elements_of(self, action: Action) -> Elements:
        """Ask the page, or the programs, what an action will act on. It may be slow, and may raise anything."""


class ModelAccess(Protocol):
    """The planner and the judge of an agent, as `assembly.LiveModels` gives them."""

    given_planner: Planner | None
    given_judge: Judge | None

    @property
    def planner(self) -> Planner:
        """The planner of a run that brings none of its own."""

    @property
    def request_s(self) -> float | None:
        """The seconds of one request, if the settings have changed since the planner was given."""

    def nobody(self) -> Planner:
        """Return the planner of a run that ends without being asked."""


class RunRecorder(Protocol):
    """The recording of a test: it replays a run, or watches one to record it."""

    def begin(
        self,
        started: RunStarted,
        planner: Planner,
        desktop: Controller,
        folder: RunFolder,
        emit: Callable[[RunEvent], None],
    ) -> tuple[Planner, Controller]:
        """Return who plans a run that begins now, and its eyes and hands."""


@dataclass(frozen=True)
class RunContext:
    """The things that all runs of an agent share.

    `settings` returns those that hold by now. `verify` makes the function by which a model asks the judge; it takes how
    to look and whom to report to. `failed_claim` returns which claim of a run fails on a frame, and why; "" where none
    does. Where a policy was given as an object (`given_policy`), a run that goes on in another process must be given it
    again.
    """

    settings: Callable[[], Settings]
    desktop: DesktopAccess
    models: ModelAccess
    verify: Callable[[Callable[[], Frame], Report], Callable[..., object]]
    failed_claim: Callable[[RunStarted, Frame, Report], str]
    secrets: Secrets
    functions: Mapping[str, Callable[..., object]]
    policy: Policy
    given_policy: bool
    hitl_mode: bool
    budget: Budget
    observers: Sequence[RunObserver]
    recorded: RunRecorder | None
    test_id: str


class Runner:
    """Carries out tasks on one desktop. `folders` are those of its runs, oldest first."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._reviewer = Reviewer(hitl_mode=context.hitl_mode)
        self._logger: RunLogger | None = None
        self._own_policies: dict[str, Policy] = {}
        self._own_planners: dict[str, Planner] = {}
        self._newest_steps: tuple[Step, ...] = ()
        self.folders: list[Path] = []
        self.started: RunStarted | None = None
        """The beginning of the newest run."""
        self.history = History()
        """The turns of the newest run."""

    # --- runs --------------------------------------------------------------------------------------------------------

    def run(
        self,
        task: str,
        *,
        expect: Sequence[str] | None,
        limits: Limits | None,
        policy: Policy | None,
        planner: Planner | None,
        approver: Approver | None,
        run_id: str | None,
    ) -> RunResult:
        """Carry out a task. `policy` and `planner` hold for this run. Raises InfraError, SettingsError."""
        context, settings = self._context, self._context.settings()
        folder = RunFolder.create(Path(settings.runs_dir), run_id or new_run_id())
        started = RunStarted(
            run_id=folder.path.name,
            task=context.secrets.declared.hide(task),
            started_at=clock.utc_now().isoformat(timespec="seconds"),
            planner="",
            screen=NO_FRAME,
            server=without_query(context.desktop.server),
            test_id=context.test_id,
            limits=limits or Limits(settings.steps, settings.seconds, settings.stall),
            expect=tuple(expect or ()),
            body_checks=expect is None,
            settings={**to_json(settings), "server": without_query(settings.server)},
            own_policy=policy is not None or context.given_policy,
            own_judge=context.models.given_judge is not None,
            secrets=tuple(context.secrets.values),
            functions=tuple(context.functions),
        )
        self._keep_own(started.run_id, policy, planner)
        with only_driver(folder):
            return self._drive(folder, started, History(), approver, lambda run: run.start(started.task))

    def go_on(
        self,
        run_id: str,
        answer: bool | None,
        *,
        step: int | None,
        policy: Policy | None,
        planner: Planner | None,
        approver: Approver | None,
    ) -> RunResult:
        """Go on with a run. `answer` is a person's yes or no, if it waits for one. Raises as `resume.check_…` do."""
        context = self._context
        folder = RunFolder.open(path_of(Path(context.settings().runs_dir), run_id))
        with only_driver(folder):
            trace = read_trace(folder.path)
            resume.check_unfinished(trace)
            resume.check_step(trace, step)
            if not (folder.path / CHECKPOINTS).exists():
                raise RunFolderError(NO_CHECKPOINT.format(run_id))
            ends_here = answer is False and trace.asked is not None and trace.asked.ruling.ends_run
            self._keep_own(run_id, policy, context.models.nobody() if ends_here else planner)
            if not ends_here and folder.path not in self.folders:
                resume.check_needs(trace.started, context.settings(), self._given(run_id))
                context.budget.recall(trace.exchanges, len(trace.steps))
            history = History.of(trace)
            asked = trace.asked.proposal if trace.asked else None
            return self._drive(folder, trace.started, history, approver, lambda run: run.resume(answer, asked))

    def _given(self, run_id: str) -> resume.Given:
        context, models = self._context, self._context.models
        return resume.Given(
            context.secrets.values,
            context.functions,
            self._own_planners.get(run_id) or models.given_planner,
            lambda: models.planner,
            context.given_policy or run_id in self._own_policies,
            models.given_judge is not None,
        )

    def _keep_own(self, run_id: str, policy: Policy | None, planner: Planner | None) -> None:
        if policy:
            self._own_policies[run_id] = policy
        if planner is not None:
            self._own_planners[run_id] = planner

    def _drive(
        self,
        folder: RunFolder,
        started: RunStarted,
        history: History,
        approver: Approver | None,
        advance: Callable[[TaskRun], CUAState],
    ) -> RunResult:
        """Advance a run until it ends or waits. Whatever breaks it is written down."""
        from pytest_vnc_use.loop.graph import TaskRun  # LangGraph takes most of a second; who runs no task saves it

        hide = self._context.secrets.everything
        self._logger = RunLogger(folder, hide, self._context.secrets.at_start)
        self.folders.append(folder.path)
        self.started, self.history, self._newest_steps = started, history, ()
        emit = partial(self._emit, self._logger)
        try:
            emit(FolderMade(folder.path))
            run = TaskRun(self._parts(folder, started, emit), history)
            self._reviewer.begin(folder.path.name, self._context.desktop.controller, history.steps)
            state = advance(run)
            while "outcome" not in state:
                question = hide.hide_in(question_in(state))
                emit(question)
                if approver is None:
                    break
                state = run.resume(approver.approve(question), question.proposal)
        except BaseException as exc:  # whatever ended the run, Ctrl-C included, is written down before it goes on
            error = cut(hide.hide_pieces(faults.named(exc)), LONGEST_TEXT)
            way = cut(hide.hide_pieces(traceback.format_exc()), 10 * LONGEST_TEXT)
            emit(RunEnded(None, "the run broke", error, way))
            raise
        return self._result(state, folder, started.task, history, emit)

    def _parts(self, folder: RunFolder, started: RunStarted, emit: Callable[[RunEvent], None]) -> Parts:
        context = self._context
        secrets, settings, controller = context.secrets, context.settings(), context.desktop.controller
        policy = self._own_policies.get(started.run_id, context.policy)
        review_context = ReviewContext(test_id=started.test_id, task=started.task)
        planner, acting = self._own_planners.get(started.run_id) or context.models.planner, controller
        if isinstance(planner, Checked):
            planner = planner.checked_by(
                lambda seen: context.failed_claim(started, Frame(seen.frame, seen.load_png(seen.frame)), emit)
            )
        if context.recorded and started.run_id not in self._own_planners:
            planner, acting = context.recorded.begin(started, planner, controller, folder, emit)
        context.desktop.keep_messages(folder, secrets.everything.hide)
        context.desktop.await_rest(acting)
        timing = Timing(settings.step_delay, {name: getattr(settings, name) for name in TIMING})
        verify = context.verify(controller.frame, emit)
        functions = {"verify": verify, **timing.functions(), **context.functions}
        reveal, page_url = secrets.declared.reveal, page_url_of(controller)
        targets = Targets(elements_of(acting, context.desktop.elements_of), folder)
        return Parts(
            actor=Actor(acting, folder, functions, reveal, lambda: timing.step_delay_s, page_url, targets),
            planner=planner,
            review=partial(self._reviewer.review, policy, review_context),
            announce=lambda screen: emit(dataclasses.replace(started, screen=screen, planner=planner.name)),
            emit=emit,
            limits=started.limits,
            to_placeholders=secrets.declared.hide_in,
            hide=secrets.everything.hide_in,
            crash=context.desktop.crash,
            watch=settings.watch,
            request_s=context.models.request_s,
        )

    def _result(
        self, state: CUAState, folder: RunFolder, task: str, history: History, emit: Callable[[RunEvent], None]
    ) -> RunResult:
        if "outcome" in state:
            outcome, message = Outcome(state["outcome"]), state["message"]
            emit(RunEnded(outcome, message))
            drop_checkpoints(folder.path)
            params = history.turns[-1].decision.params if history.turns else {}
            params = self._context.secrets.everything.hide_json(params)
        else:
            outcome, message, params = Outcome.WAITING, question_in(state).ruling.explanation, {}
        usage = sum((turn.decision.usage for turn in history.turns), Usage())
        self._newest_steps = steps = tuple(history.steps)
        return RunResult(folder.path.name, outcome, message, folder.path, task, steps, usage, transcript(steps), params)

    # --- events ------------------------------------------------------------------------------------------------------

    def emit(self, event: RunEvent) -> None:
        """Pass an event on to the budget, to the newest run folder and to all observers."""
        self._emit(self._logger, event)

    def _emit(self, logger: RunLogger | None, event: RunEvent) -> None:
        event = self._context.budget.hear(event)
        if not isinstance(event, (ModelAsked, GateAwaited, FolderMade)):  # these are of the moment: nothing keeps them
            self._reviewer.observe(event)
            if logger:
                logger.observe(event)
        for observer in self._context.observers:
            observer.observe(event)

    def record(self, event: Judged | Extracted, frames: Sequence[Frame]) -> None:
        """Keep the frames of a verdict or a value in the newest run folder, and emit it without secrets."""
        if self._logger:
            for frame in frames:
                self._logger.folder.store(frame)
        self.emit(self._context.secrets.everything.hide_in(event))

    # --- frames ------------------------------------------------------------------------------------------------------

    def newest_frames(self, steps: int) -> Iterator[Frame]:
        """Yield the kept frames of the last steps of the newest run, newest first; none after `forget_frames`."""
        for step in reversed(self._newest_steps[-steps:]):
            for ref in (step.frame_after, *reversed(step.passed)):
                yield Frame(ref, RunFolder(self.folders[-1]).load_png(ref))

    def forget_frames(self) -> None:
        """Take the kept frames as old: something was done after the newest run."""
        self._newest_steps = ()


def question_in(state: CUAState) -> ApprovalAsked:
    """Return the question to a person, from the state of a run that waits."""
    proposal, ruling = from_json(Proposal, state["pending"][0]), from_json(Ruling, state["ruling"])
    return ApprovalAsked(state["step"] + 1, proposal, ruling)
