"""`VncUseAgent`: carries out a task on a desktop, judges claims about it, and lends its hands to a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from pytest_vnc_use import assembly, graph
from pytest_vnc_use.logging_utils import Redactor, RunLogger
from pytest_vnc_use.ports import Approver, Controller, Judge, Planner, RunObserver
from pytest_vnc_use.safety import Policy, ReviewContext, deny_unasked
from pytest_vnc_use.settings import Settings
from pytest_vnc_use.trace import RunFolder, new_run_id, read_trace
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
    Step,
    TypeText,
    Usage,
    Verdict,
)
from pytest_vnc_use.verification import Verifier, end_state_claim

Self = TypeVar("Self", bound="VncUseAgent")


class VncUseAgent:
    """Drives one VNC desktop. Connects on first use; close it, or use it in a `with` statement.

    `vnc_server` is `host::port`, `host:display` or the path of a unix socket. `excluded_actions` are names of the
    model's actions that it may not use. With `hitl_mode`, an action the model wants confirmed, and no rule of `policy`
    decides, makes `run` return `Outcome.WAITING`; without, it is denied. `functions` are Python callables with a
    docstring and type hints that the model may call by name. `secrets` maps a name to its value: in a task, write
    `<secret:NAME>`, which is also what the model, the run folder and the reports see.

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
    ) -> None:
        given = {
            "server": vnc_server,
            "screen_size": screen_size,
            "exclude": tuple(excluded_actions or ()),
            "steps": step_limit,
            "seconds": seconds_timeout,
            "planner": "gemini",
        }
        self.settings = settings or assembly.settings_of(given)
        self._password = vnc_password
        self._secrets = dict(secrets or {})
        self._redactor = Redactor(self._secrets | assembly.ambient_secrets(self.settings, vnc_password))
        self._hitl_mode = hitl_mode
        self._policy = policy or assembly.build_policy(self.settings, ask=hitl_mode)
        self._functions = {function.__name__: function for function in functions}
        self._planner = planner
        self._judge = judge
        self._controller = controller
        self._observers = list(observers)
        self._test_id = test_id
        self._logger: RunLogger | None = None
        self.runs: list[Path] = []
        """Run folders of this agent, oldest first."""

    # --- tasks -------------------------------------------------------------------------------------------------------

    def run(
        self, task: str, *, limits: Limits | None = None, approver: Approver | None = None, run_id: str | None = None
    ) -> RunResult:
        """Carry out a task. The result's outcome says how the run ended, not that the task was achieved: `verify` does.

        `approver` is asked where an action waits for a person; without one the run returns as `WAITING`.
        Raises InfraError where the desktop or the model cannot be reached.
        """
        limits = limits or self._limits()
        folder = RunFolder.create(Path(self.settings.runs_dir), run_id or new_run_id())
        hidden_task = self._redactor.hide(task)
        task_graph = self._task_graph(folder, graph.History(), limits, hidden_task)
        return self._finish(task_graph, folder, partial(task_graph.start, hidden_task), approver)

    def approve(self, run_id: str, *, approver: Approver | None = None) -> RunResult:
        """Carry out the action that a run waits with, and go on; also in another process than the run's first."""
        return self._go_on(run_id, True, approver)

    def deny(self, run_id: str) -> RunResult:
        """Refuse the action that a run waits with; the run then ends as `denied`."""
        return self._go_on(run_id, False, None)

    def resume(self, run_id: str, *, approver: Approver | None = None) -> RunResult:
        """Go on with a run that was interrupted or killed, from its last step; a waiting one still waits."""
        return self._go_on(run_id, None, approver)

    def _go_on(self, run_id: str, answer: bool | None, approver: Approver | None) -> RunResult:
        folder = RunFolder.open(Path(self.settings.runs_dir, run_id))
        trace = read_trace(folder.path)
        task_graph = self._task_graph(folder, graph.History.of(trace), trace.started.limits, trace.started.task)
        return self._finish(task_graph, folder, partial(task_graph.resume, answer), approver)

    def _task_graph(self, folder: RunFolder, history: graph.History, limits: Limits, task: str) -> graph.TaskGraph:
        self._logger = RunLogger(folder, self._redactor)
        self.runs.append(folder.path)
        context = ReviewContext(test_id=self._test_id, task=task)
        parts = graph.Parts(
            controller=self.controller,
            planner=self.planner,
            review=partial(self._review, context),
            folder=folder,
            announce=partial(self._announce, folder.path.name, task, limits),
            emit=self._emit,
            limits=limits,
            functions=self._functions,
            hide=self._redactor.hide_in,
            reveal=self._redactor.reveal,
        )
        return graph.TaskGraph(parts, history)

    def _finish(
        self,
        task_graph: graph.TaskGraph,
        folder: RunFolder,
        advance: Callable[[], CUAState],
        approver: Approver | None,
    ) -> RunResult:
        try:
            state = advance()
            while "outcome" not in state:
                question = graph.asked(state)
                self._emit(question)
                if approver is None:
                    break
                state = task_graph.resume(approver.approve(question))
        except BaseException as exc:
            # whatever ended the run, Ctrl-C included, is written down before it goes on its way
            self._emit(RunEnded(None, "the run broke", error=f"{type(exc).__name__}: {exc}"))
            raise
        return self._result(state, folder, task_graph.history)

    def _result(self, state: CUAState, folder: RunFolder, history: graph.History) -> RunResult:
        if "outcome" in state:
            outcome, message = Outcome(state["outcome"]), state["message"]
            self._emit(RunEnded(outcome, message))
        else:
            outcome, message = Outcome.WAITING, graph.asked(state).ruling.explanation
        usage = sum((turn.decision.usage for turn in history.turns), Usage())
        steps = tuple(history.steps)
        return RunResult(folder.path.name, outcome, message, folder.path, steps, usage, transcript(steps))

    def _review(self, context: ReviewContext, proposal: Proposal) -> Ruling:
        ruling = self._policy.review(proposal, context)
        return ruling if self._hitl_mode or ruling.kind != "ask" else deny_unasked(ruling)

    def _limits(self) -> Limits:
        return Limits(self.settings.steps, self.settings.seconds, self.settings.stall)

    def _announce(self, run_id: str, task: str, limits: Limits, screen: FrameRef) -> None:
        started_at = datetime.now(timezone.utc).isoformat(timespec="seconds")
        server, planner = self.settings.server, self.planner.name
        self._emit(RunStarted(run_id, task, started_at, planner, screen, server, self._test_id, limits))

    def _emit(self, event: RunEvent) -> None:
        if self._logger:
            self._logger.observe(event)
        for observer in self._observers:
            observer.observe(event)

    # --- claims ------------------------------------------------------------------------------------------------------

    def verify(self, claim: str) -> Verdict:
        """Judge a claim about the screen as it is now. The verdict is true only where it holds; unsure is false."""
        frame = self.controller.frame()
        verdict = Verifier(self.judge, self._emit).verify(claim, frame, timeout_s=self.settings.seconds)
        if self._logger:
            self._logger.folder.store(frame)
        self._emit(Judged(verdict))
        return verdict

    def verify_end_state(self, task: str) -> Verdict:
        """Judge whether the end state of a task is on the screen."""
        return self.verify(end_state_claim(self._redactor.hide(task)))

    # --- hands -------------------------------------------------------------------------------------------------------

    def perform(self, action: DesktopAction) -> Frame:
        """Carry out one action and wait for the screen to answer. Raises ActionError, DesktopError."""
        self.controller.perform(action)
        self.controller.settle()
        return self.controller.frame()

    def click(self, x: int, y: int, button: Button = "left", count: int = 1) -> Frame:
        """Click at a point of the screen, in pixels."""
        return self.perform(Click(x, y, button, count))

    def type_text(self, text: str, *, press_enter: bool = False, clear_first: bool = False) -> Frame:
        """Type at the focus."""
        return self.perform(TypeText(self._redactor.reveal(text), press_enter=press_enter, clear_first=clear_first))

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


def transcript(steps: Sequence[Step]) -> str:
    """The steps in readable lines."""
    return "\n".join(step_line(step) for step in steps)


def step_line(step: Step) -> str:
    """`3 click(x=10, y=20): open the basket` and, where there is one, the error."""
    values: dict[str, Any] = {name: value for name, value in vars(step.proposal.action).items() if name != "kind"}
    given = ", ".join(f"{name}={value!r}" for name, value in values.items() if value is not None and value is not False)
    reason = step.proposal.intent or step.words
    line = f"{step.number} {step.proposal.action.kind}({given})" + (f": {reason}" if reason else "")
    return line + (f"\n  failed: {step.error}" if step.error else "")
