"""`VncUseAgent`: carries out a task on a desktop, judges claims about it, and lends its hands to a test."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from filelock import FileLock, Timeout

from pytest_vnc_use import assembly, graph
from pytest_vnc_use.acting import Actor, perform_text
from pytest_vnc_use.errors import RunFolderError, SettingsError, TaskFailed, VncUseError
from pytest_vnc_use.history import History
from pytest_vnc_use.logging_utils import Redactor, RunLogger
from pytest_vnc_use.ports import Approver, Controller, Judge, Planner, RunObserver
from pytest_vnc_use.safety import Policy, ReviewContext, deny_unasked
from pytest_vnc_use.settings import Settings
from pytest_vnc_use.trace import RunFolder, new_run_id, read_trace, to_json
from pytest_vnc_use.transcript import told_end, transcript
from pytest_vnc_use.types import (
    Button,
    Click,
    CUAState,
    DesktopAction,
    Direction,
    Drag,
    Frame,
    FrameRef,
    Judged,
    KeyCombo,
    Limits,
    Outcome,
    Proposal,
    Ruling,
    RunEnded,
    RunEvent,
    RunResult,
    RunStarted,
    Scroll,
    TypeText,
    Usage,
    Verdict,
)
from pytest_vnc_use.verification import Verifier, end_state_claim

Self = TypeVar("Self", bound="VncUseAgent")


class VncUseAgent:
    """Drives one VNC desktop. Connects on first use; close it, or use it in a `with` statement.

    `vnc_server` is `host::port`, `host:display` or the path of a unix socket. `excluded_actions` are names of the
    model's actions that it may not use. With `hitl_mode`, an action that the policy file does not decide, or says to
    ask about, makes `run` return `Outcome.WAITING`; without, it is denied. A `policy` given as an object decides as its
    own `unmatched` says. `functions` are Python callables with a docstring and type hints that the model may call by
    name. `secrets` maps a name to its value: in a task, write `<secret:NAME>`, which is also what the model, the run
    folder and the reports see. With `check`, a run that does not end as done raises TaskFailed.

    `planner`, `judge` and `controller` replace what would be built from the other arguments.
    """

    def __init__(
        self,
        vnc_server: str = "localhost::5901",
        vnc_password: str | None = None,
        screen_size: tuple[int, int] = (1440, 900),
        excluded_actions: Sequence[str] | None = None,
        step_limit: int = 40,
        seconds_timeout: float = 300,
        hitl_mode: bool = True,
        *,
        settings: Settings | None = None,
        policy: Policy | None = None,
        planner: Planner | None = None,
        judge: Judge | None = None,
        controller: Controller | None = None,
        functions: Sequence[Callable[..., object]] = (),
        secrets: Mapping[str, str] | None = None,
        observers: Sequence[RunObserver] = (),
        test_id: str = "",
        check: bool = False,
    ) -> None:
        self.settings = settings or assembly.settings_of(
            {
                "server": vnc_server,
                "screen_size": screen_size,
                "exclude": tuple(excluded_actions or ()),
                "steps": step_limit,
                "seconds": seconds_timeout,
                "planner": "gemini",
            }
        )
        self._password = vnc_password
        self._declared = Redactor(secrets or {}, numbers=False)
        self._start_redactor = Redactor({**(secrets or {}), **assembly.api_keys()})
        self._redactor = Redactor({**(secrets or {}), **assembly.ambient_secrets(self.settings, vnc_password)})
        self._hitl_mode = hitl_mode
        self._policy = policy or assembly.build_policy(self.settings, ask=hitl_mode)
        self._own_policies: dict[str, Policy] = {}
        self._functions = _by_name(functions)
        self._planner = planner
        self._judge = judge
        self._controller = controller
        self._observers = list(observers)
        self._test_id = test_id
        self._check = check
        self._logger: RunLogger | None = None
        self.runs: list[Path] = []
        """Run folders of this agent, oldest first."""

    # --- tasks -------------------------------------------------------------------------------------------------------

    def run(
        self,
        task: str,
        *,
        expect: Sequence[str] = (),
        limits: Limits | None = None,
        policy: Policy | None = None,
        approver: Approver | None = None,
        check: bool | None = None,
        run_id: str | None = None,
    ) -> RunResult:
        """Carry out a task. The result's outcome says how the run ended, not that the task was achieved: `verify` does.

        `expect` is written down with the run; nothing judges it here. `limits`, `policy` and `check` hold for this run
        in place of the agent's. `approver` is asked where an action waits for a person; without one the run returns as
        `WAITING`. Raises TaskFailed where `check` asks for it, InfraError where desktop or model cannot be used.
        """
        folder = RunFolder.create(Path(self.settings.runs_dir), run_id or new_run_id())
        started = RunStarted(
            run_id=folder.path.name,
            task=self._declared.hide(task),
            started_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            planner="",
            screen=NO_FRAME,
            server=self.settings.server,
            test_id=self._test_id,
            limits=limits or self._limits(),
            expect=tuple(expect),
            settings=to_json(self.settings),
            own_policy=policy is not None,
        )
        if policy:
            self._own_policies[folder.path.name] = policy
        with only_driver(folder):
            result = self._drive(folder, started, History(), approver, lambda run: run.start(started.task))
        return self._checked(result, check)

    def approve(
        self, run_id: str, *, step: int | None = None, approver: Approver | None = None, policy: Policy | None = None
    ) -> RunResult:
        """Carry out the action that a run waits with, and go on; also in another process than the run's first.

        With `step`, only if it is that step's action that the run waits with. A run that was started with a `policy` of
        its own goes on under that; another process must give it again. Raises RunFolderError, SettingsError.
        """
        return self._go_on(run_id, True, step, approver, policy)

    def deny(self, run_id: str, *, step: int | None = None, policy: Policy | None = None) -> RunResult:
        """Refuse the action that a run waits with; the run ends as `denied`, or goes on where the policy says so."""
        return self._go_on(run_id, False, step, None, policy)

    def resume(self, run_id: str, *, approver: Approver | None = None, policy: Policy | None = None) -> RunResult:
        """Go on with a run that was interrupted or killed, from its last step; a waiting one still waits."""
        return self._go_on(run_id, None, None, approver, policy)

    def _go_on(
        self, run_id: str, answer: bool | None, step: int | None, approver: Approver | None, policy: Policy | None
    ) -> RunResult:
        folder = RunFolder.open(Path(self.settings.runs_dir, run_id))
        if policy:
            self._own_policies[run_id] = policy
        with only_driver(folder):
            trace = read_trace(folder.path)
            if trace.started.own_policy and run_id not in self._own_policies:
                raise SettingsError(f"run {run_id!r} was started with a policy of its own; give it again as policy=…")
            if step is not None and (trace.asked is None or trace.asked.number != step):
                raise RunFolderError(f"run {run_id!r} does not wait with step {step!r}; look at what it waits with now")
            history = History.of(trace)
            result = self._drive(folder, trace.started, history, approver, lambda run: run.resume(answer))
        return self._checked(result, None)

    def _checked(self, result: RunResult, check: bool | None) -> RunResult:
        if (self._check if check is None else check) and result.outcome is not Outcome.DONE:
            raise TaskFailed(told_end(result))
        return result

    def _drive(
        self,
        folder: RunFolder,
        started: RunStarted,
        history: History,
        approver: Approver | None,
        advance: Callable[[graph.TaskGraph], CUAState],
    ) -> RunResult:
        """Advance a run until it ends or waits; whatever breaks it is written down."""
        self._logger = RunLogger(folder, self._redactor, self._start_redactor)
        self.runs.append(folder.path)
        emit = partial(self._tell, self._logger)
        try:
            run = graph.TaskGraph(self._parts(folder, started, emit), history)
            state = advance(run)
            while "outcome" not in state:
                question = self._redactor.hide_in(graph.asked(state))
                emit(question)
                if approver is None:
                    break
                state = run.resume(approver.approve(question))
        except BaseException as exc:
            # whatever ended the run, Ctrl-C included, is written down before it goes on its way
            emit(RunEnded(None, "the run broke", error=f"{type(exc).__name__}: {exc}"))
            if isinstance(exc, VncUseError):
                exc.args = (self._redactor.hide(str(exc)),)
            raise
        return self._result(state, folder, started.task, history, emit)

    def _parts(self, folder: RunFolder, started: RunStarted, emit: Callable[[RunEvent], None]) -> graph.Parts:
        policy = self._own_policies.get(started.run_id, self._policy)
        context = ReviewContext(test_id=started.test_id, task=started.task)
        return graph.Parts(
            actor=Actor(self.controller, folder, self._functions, self._declared.reveal),
            planner=self.planner,
            review=partial(self._review, policy, context),
            announce=lambda screen: emit(dataclasses.replace(started, screen=screen, planner=self.planner.name)),
            emit=emit,
            limits=started.limits,
            conceal=self._declared.hide_in,
            hide=self._redactor.hide_in,
        )

    def _result(
        self,
        state: CUAState,
        folder: RunFolder,
        task: str,
        history: History,
        emit: Callable[[RunEvent], None],
    ) -> RunResult:
        if "outcome" in state:
            outcome, message = Outcome(state["outcome"]), state["message"]
            emit(RunEnded(outcome, message))
        else:
            outcome, message = Outcome.WAITING, graph.asked(state).ruling.explanation
        usage = sum((turn.decision.usage for turn in history.turns), Usage())
        steps = tuple(history.steps)
        return RunResult(folder.path.name, outcome, message, folder.path, task, steps, usage, transcript(steps))

    def _review(self, policy: Policy, context: ReviewContext, proposal: Proposal) -> Ruling:
        ruling = policy.review(proposal, context)
        return ruling if self._hitl_mode or ruling.kind != "ask" else deny_unasked(ruling)

    def _limits(self) -> Limits:
        return Limits(self.settings.steps, self.settings.seconds, self.settings.stall)

    def _tell(self, logger: RunLogger | None, event: RunEvent) -> None:
        if logger:
            logger.observe(event)
        for observer in self._observers:
            observer.observe(event)

    # --- claims ------------------------------------------------------------------------------------------------------

    def verify(self, claim: str) -> Verdict:
        """Judge a claim about the screen as it is now. The verdict is true only where it holds; unsure is false."""
        emit = partial(self._tell, self._logger)
        frame = self.controller.frame()
        verdict = Verifier(self.judge, emit).verify(claim, frame, timeout_s=self.settings.seconds)
        if self._logger:
            self._logger.folder.store(frame)
        hidden: Verdict = self._redactor.hide_in(verdict)
        emit(Judged(hidden))
        return hidden

    def verify_end_state(self, task: str) -> Verdict:
        """Judge whether the end state of a task is on the screen."""
        return self.verify(end_state_claim(self._declared.hide(task)))

    # --- hands -------------------------------------------------------------------------------------------------------

    def perform(self, action: DesktopAction) -> Frame:
        """Carry out one action and wait for the screen to answer. Raises ActionError, DesktopError."""
        self.controller.perform(action)
        return self._settled_frame()

    def _settled_frame(self) -> Frame:
        self.controller.settle()
        return self.controller.frame()

    def click(self, x: int, y: int, button: Button = "left", count: int = 1) -> Frame:
        """Click at a point of the screen, in pixels."""
        return self.perform(Click(x, y, button, count))

    def type_text(self, text: str, *, press_enter: bool = False, clear_first: bool = False) -> Frame:
        """Type at the focus."""
        shown = self._declared.reveal(text)
        action = TypeText(shown, press_enter=press_enter, clear_first=clear_first)
        perform_text(self.controller, action, holds_secret=shown != text)
        return self._settled_frame()

    def key(self, combination: str) -> Frame:
        """Press keys together: `enter`, `ctrl+a`."""
        return self.perform(KeyCombo((combination,)))

    def scroll(self, x: int, y: int, direction: Direction, clicks: int = 3) -> Frame:
        """Turn the wheel at a point."""
        return self.perform(Scroll(x, y, direction, clicks))

    def drag(self, x: int, y: int, to_x: int, to_y: int) -> Frame:
        """Drag with the left button from one point to another."""
        return self.perform(Drag(x, y, to_x, to_y))

    def screenshot(self) -> bytes:
        """The screen now, as PNG."""
        return self.controller.frame().png

    # --- parts, built on first use -----------------------------------------------------------------------------------

    @property
    def controller(self) -> Controller:
        if self._controller is None:
            self._controller = assembly.connect(self.settings, self._password)
        return self._controller

    @property
    def planner(self) -> Planner:
        if self._planner is None:
            self._planner = assembly.build_planner(self.settings, tuple(self._functions.values()))
        return self._planner

    @property
    def judge(self) -> Judge:
        if self._judge is None:
            self._judge = assembly.build_judge(self.settings)
        return self._judge

    def close(self) -> None:
        """End the connection; a second call does nothing."""
        if self._controller is not None:
            self._controller.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


NO_FRAME = FrameRef("", 0, 0)
"""Stands in a run's start until its first frame is there."""


def _by_name(functions: Sequence[Callable[..., object]]) -> dict[str, Callable[..., object]]:
    names = [getattr(function, "__name__", "") for function in functions]
    if not all(names) or len(set(names)) != len(names):
        raise SettingsError(f"functions must have names of their own, got {names!r}")
    return dict(zip(names, functions, strict=True))


@contextmanager
def only_driver(folder: RunFolder) -> Iterator[None]:
    """Drive a run as the only one, in this process and others. Raises RunFolderError where somebody does already."""
    lock = FileLock(folder.path / "driver.lock", thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RunFolderError(
            f"run {folder.path.name!r} is being driven right now, by this or another process"
        ) from None
    try:
        yield
    finally:
        lock.release()
