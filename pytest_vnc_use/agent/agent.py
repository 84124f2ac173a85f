"""`VncUseAgent`: runs tasks on a desktop, judges claims about it, and performs a test's
actions.

It is the public face of a `session`. `run` starts and continues runs, `claims` judges.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypedDict, TypeVar

from typing_extensions import Unpack

from pytest_vnc_use.agent import build, claims, credentials
from pytest_vnc_use.agent.act import check_declared, perform_text
from pytest_vnc_use.agent.budget import Budget
from pytest_vnc_use.agent.connection import Connection
from pytest_vnc_use.agent.models import AnyPlanner, Models, end_run
from pytest_vnc_use.agent.session import Session
from pytest_vnc_use.errors import (
    AgentFailed,
    Inconclusive,
    InfraError,
    SettingsError,
    TaskFailed,
)
from pytest_vnc_use.plain_text import without_query
from pytest_vnc_use.planners.local.callables import as_planner
from pytest_vnc_use.planners.local.scripted import Reenactment
from pytest_vnc_use.recordings import ANSWER_IT
from pytest_vnc_use.recordings.names import check_name
from pytest_vnc_use.runs.transcript import format_run_failure, only_waiting
from pytest_vnc_use.runs.uitask_trace import read_execution, secrets_of
from pytest_vnc_use.safety.rules import Policy
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.triage import error_for_run
from pytest_vnc_use.types import (
    Button,
    Click,
    DesktopAction,
    Direction,
    Drag,
    Frame,
    KeyCombo,
    Limits,
    Outcome,
    Reading,
    RunResult,
    Scroll,
    TypeText,
    Verdict,
    VerdictKind,
    button_of,
    error_for_verdicts,
)
from pytest_vnc_use.types.protocols import (
    Approver,
    Controller,
    Judge,
    Planner,
    RunObserver,
)
from pytest_vnc_use.types.values import values_of

if TYPE_CHECKING:
    from pytest_vnc_use.backends.screen import Framebuffer

T = TypeVar("T")
P = ParamSpec("P")

NO_JUDGE = (
    "No judge for the end of the task {!r}: {}. Record the test (--vnc-record=manual by"
    " hand, or auto with a judge), set a judge (--vnc-judge=gemini with its key, or the"
    " fixture vnc_judge), or set expect=None (in .vnc.toml expect = false) if the"
    " test's body alone checks it."
)
"""The error for a task that no judge and no recording can judge: the task, and why."""


class Again(TypedDict, total=False):
    """The objects of one run, which its caller must give again."""

    policy: Policy | None
    planner: AnyPlanner | None


def _noting_tool_failures(
    method: Callable[Concatenate[VncUseAgent, P], T],
) -> Callable[Concatenate[VncUseAgent, P], T]:
    """Note on the agent each error of the tool that a method raises."""

    @functools.wraps(method)
    def call(self: VncUseAgent, /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        try:
            return method(self, *args, **kwargs)
        except InfraError as exc:
            self.tool_failures.append(exc)
            raise

    return call


class VncUseAgent(AbstractContextManager["VncUseAgent"]):
    """An agent for one VNC desktop.

    It connects on first use. Close it, or use it in a `with` statement.

    Args:
        vnc_server: `host::port`, `host:display`, or the path of a unix socket.
        vnc_password: The password of the VNC server; None for the one in the
            environment.
        screen_size: Width and height in pixels of a desktop that is started.
        excluded_actions: Actions that the model may not use.
        step_limit: The maximum number of actions of a run.
        seconds_timeout: The maximum seconds of a run.
        hitl_mode: Whether an action that the policy does not decide, or says to ask
            about, makes `run` return `Outcome.WAITING`. Otherwise it is denied.
        settings: All settings, in place of the parameters above and of
            `planner_options`. They may be replaced; the new ones apply to the next
            run, look or claim.
        policy: Rules on actions, in place of the policy file of the settings.
        planner: A planner, or a function of the observation, in place of a model.
        judge: Judges claims, in place of the planner's service.
        controller: Captures the screen and acts, in place of a VNC connection.
        functions: What the model may call by name. They have a docstring and type
            hints. None for those of the settings `cdp` and `elements`.
        secrets: Values by name. A task has `<secret:NAME>`; the model, the run
            directory and the reports see only that.
        planner_options: Further arguments of the Gemini planner, such as `model`,
            `include_thoughts` and `include_initial_screenshot`.

    Raises:
        SettingsError: An argument is invalid.
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
        planner: AnyPlanner | None = None,
        judge: Judge | None = None,
        controller: Controller | None = None,
        functions: Sequence[Callable[..., object]] | None = None,
        secrets: Mapping[str, str] | None = None,
        **planner_options: object,
    ) -> None:
        if settings is None:
            settings = build.settings_of(
                {
                    "server": vnc_server,
                    "screen_size": screen_size,
                    "max_steps": step_limit,
                    "model": planner_options.pop("model", None),
                    "max_seconds": seconds_timeout,
                    "exclude": excluded_actions,
                    "planner": "gemini",
                    "planner_options": _as_options(planner_options),
                }
            )
        declared = credentials.build_secrets(settings, secrets or {}, vnc_password)
        connection = Connection(
            settings,
            declared,
            password=vnc_password,
            controller=controller,
        )
        session = Session(
            settings,
            declared,
            connection,
            Models(planner, judge),
            policy=policy,
            functions=functions,
            can_ask=hitl_mode,
        )
        self._begin(session)

    @classmethod
    def of(cls, session: Session) -> VncUseAgent:
        """Return the agent of a session, such as a test's."""
        agent = cls.__new__(cls)
        agent._begin(session)
        return agent

    def _begin(self, session: Session) -> None:
        self._session = session
        self.tool_failures: list[InfraError] = []
        """Each InfraError that a method of this agent raised, oldest first; the test
        may have caught it.
        """
        self.failed_task: InfraError | None = None
        """The InfraError that ended a task, unless a later task was done and judged."""
        self._soft_checks: list[tuple[VerdictKind, str]] = []

    @property
    def settings(self) -> Settings:
        """The settings. They may be replaced."""
        return self._session.settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self._session.settings = settings

    @property
    def budget(self) -> Budget:
        """The limits of this agent's models, and their use so far."""
        return self._session.budget

    @property
    def runs(self) -> list[Path]:
        """The run directories of this agent, oldest first."""
        return self._session.runs

    @property
    def verdicts(self) -> list[Verdict]:
        """Every verdict so far, oldest first. If `holds` is false, the claim fails or
        the judge is unsure.
        """
        return self._session.verdicts

    @property
    def extracted(self) -> list[Reading]:
        """All values read so far, oldest first, each with its reason and region."""
        return self._session.extracted

    @property
    def observers(self) -> list[RunObserver]:
        """What receives each event of a run, in this order."""
        return self._session.observers

    @property
    def can_ask(self) -> bool:
        """Whether a user can be asked about an action."""
        return self._session.can_ask

    @_noting_tool_failures
    def run(
        self,
        task: str,
        *,
        expect: str | Sequence[str] | None = (),
        limits: Limits | None = None,
        policy: Policy | None = None,
        planner: AnyPlanner | None = None,
        approver: Approver | None = None,
        check: bool | None = None,
        run_id: str | None = None,
        votes: int | None = None,
        recording: str = "",
        values: Mapping[str, str | float] | None = None,
    ) -> RunResult:
        """Perform a task; in a test, judge it when it is done.

        The fixture's agent has each claim of `expect` judged, or without any, that the
        task is done; with None, the test's body alone checks it. Another agent keeps
        `expect` in the run directory and judges nothing: the outcome says how the run
        ended, not that the task was achieved. `recording` is the name of a recording
        that this task has in all tests. `values` are those of `<value:NAME>` in the task
        and its claims; a test's parameters and fixtures are values too. `limits`,
        `policy`, `planner`, `check` and `votes` replace the agent's in this run.
        `approver` is asked if an action waits for a user; without one the run returns
        as `WAITING`. Raises TaskFailed if a claim or the end does not hold, or the
        judge is unsure, or if `check` asks for it and the run does not end as done;
        InfraError if a tool cannot be used; SettingsError if the task or a claim is
        empty, if a value is missing or of no use, or if there is no judge.
        """
        if not task.strip():
            raise SettingsError(f"the task must be non-empty text, got {task!r}")
        expect = (expect,) if isinstance(expect, str) else expect
        if not isinstance(expect, (list, tuple, type(None))):
            raise SettingsError(
                f"expect must be a claim, a list of claims, or None, got {expect!r}"
            )
        for claim in expect or ():
            claims.check_asked(claim, votes=1)
        if recording and not self._session.test_id:
            raise SettingsError(
                f"recording={recording!r} works in a test only, whose directory has it"
            )
        check_name(recording)
        secrets = self._session.secrets
        values = values_of(
            (task, *(expect or ())),
            values or {},
            self._session.of_test,
            secrets=secrets.values,
            hide=secrets.everything.hide,
        )
        is_judged = self._session.test_id and expect is not None
        if is_judged and (why := self._why_unjudged(task, expect or (), recording)):
            raise SettingsError(NO_JUDGE.format(task, why))
        if self._session.test_id and check is False:
            raise SettingsError(
                "check=False does not work in a test, where a task that does not end as"
                " done raises. Catch its error, such as pytest.raises(PolicyDenied)"
            )
        # LangGraph takes most of a second to import. Who runs no task saves it.
        from pytest_vnc_use.agent.run import run_task

        own_planner = None if planner is None else as_planner(planner)
        approver = approver or self._session.approver
        try:
            return self._advance(
                lambda: run_task(
                    self._session,
                    task,
                    expect,
                    limits,
                    run_id,
                    policy,
                    own_planner,
                    approver,
                    recording,
                    values,
                ),
                check,
                votes,
            )
        finally:
            end_run(own_planner)

    def reenact(
        self,
        path: Path,
        *,
        approver: Approver | None = None,
        check: bool | None = None,
    ) -> RunResult:
        """Perform the actions of a run directory or its execution.json again,
        unchecked, up to the first that fails.

        Nothing is judged. Raises as `run` does, and SettingsError if the agent lacks a
        secret of the trace.
        """
        execution = read_execution(path)
        secrets_of(execution, self._session.secrets.values)
        again = Reenactment(execution, self._session.functions)
        limits = again.limits(self.settings.max_seconds)
        return self.run(
            again.task,
            expect=None,
            limits=limits,
            planner=again,
            approver=approver,
            check=check,
        )

    @_noting_tool_failures
    def approve(
        self,
        run_id: str = "",
        *,
        step: int | None = None,
        approver: Approver | None = None,
        **again: Unpack[Again],
    ) -> RunResult:
        """Perform the action for which the run waits, and continue; also in another
        process.

        Without `run_id` it is the only waiting run of this agent; SettingsError lists
        them where there are several. With `step`, only if the run waits for an answer
        about that step. Another process must get the same policy, planner, functions
        and secrets; pass those of the run itself. Nothing of them is taken from the run
        directory. Raises RunDirectoryError, SettingsError.
        """
        return self._continue(
            run_id or only_waiting(self.runs),
            True,
            step,
            approver,
            again,
        )

    @_noting_tool_failures
    def deny(
        self, run_id: str = "", *, step: int | None = None, **again: Unpack[Again]
    ) -> RunResult:
        """Deny the action for which the run waits; the run ends as `denied`, or
        continues if the policy says so.
        """
        return self._continue(
            run_id or only_waiting(self.runs),
            False,
            step,
            None,
            again,
        )

    @_noting_tool_failures
    def resume(
        self, run_id: str, *, approver: Approver | None = None, **again: Unpack[Again]
    ) -> RunResult:
        """Continue a run that was interrupted or killed, from its last step; a waiting
        one still waits.
        """
        return self._continue(
            run_id,
            None,
            None,
            approver,
            again,
        )

    def _continue(
        self,
        run_id: str,
        answer: bool | None,
        step: int | None,
        approver: Approver | None,
        again: Again,
    ) -> RunResult:
        from pytest_vnc_use.agent.run import continue_run  # as in `run`

        planner = again.get("planner")
        own_planner = None if planner is None else as_planner(planner)
        return self._advance(
            lambda: continue_run(
                self._session,
                run_id,
                answer,
                step,
                again.get("policy"),
                own_planner,
                approver or self._session.approver,
            )
        )

    def _advance(
        self,
        advance: Callable[[], RunResult],
        check: bool | None = None,
        votes: int | None = None,
    ) -> RunResult:
        """Advance a run to its end, and judge it in a test."""
        is_test = bool(self._session.test_id)
        runs = len(self.runs)
        try:
            result = advance()
            if is_test and result.outcome is Outcome.DONE:
                self._judge_task(result, votes)
        except BaseException as exc:
            if len(self.runs) > runs:
                self._session.secrets.everything.hide_in_error(exc)
                if isinstance(exc, InfraError):
                    self.failed_task = exc
            raise
        raises = is_test if check is None else check
        if raises and result.outcome is not Outcome.DONE:
            raise error_for_run(result)
        return result

    def _judge_task(self, result: RunResult, votes: int | None) -> None:
        """Judge the claims of a task that is done, or that it is done. Raises
        TaskFailed, InfraError.
        """
        started = self._session.started
        if started is None:
            return
        recorded_test = self._session.recorded_test
        is_reworded = recorded_test is not None and recorded_test.is_reworded
        if started.body_checks and not is_reworded:
            return
        if started.expect:
            verdicts = [self.assess(claim, votes=votes) for claim in started.expect]
            if not all(verdict.holds for verdict in verdicts):
                kind = error_for_verdicts([verdict.kind for verdict in verdicts])
                why = claims.format_verdicts(verdicts)
                raise kind(format_run_failure(why, result))
        if is_reworded or not started.expect:
            end = self.verify_end_state(result.task, votes=votes)
            if not end.holds:
                kind = AgentFailed if end.kind == "fails" else Inconclusive
                why = claims.format_end_state(end, result.task)
                raise kind(format_run_failure(why, result))
        self.failed_task = None

    def _why_unjudged(self, task: str, expect: Sequence[str], recording: str) -> str:
        """Return why no judge can decide a task and its claims; "" if one can."""
        hide = self._session.secrets.declared.hide
        recorded_test = self._session.recorded_test
        segment = None
        if recorded_test:
            segment = recorded_test.segment_of(hide(task), recording)
        if segment and recording:
            return ""  # its claims are compared as it begins
        if recorded_test and segment:
            why = segment.why_unjudged([hide(claim) for claim in expect])
            if not why or recorded_test.is_reviewed:
                return ""
            if recorded_test.mode == "replay":
                return f"{why}, and a replay asks no judge: {ANSWER_IT}"
        elif recorded_test and recorded_test.mode == "replay":
            return ""  # the run says that its recording is missing
        has_judge = self._session.models.has_judge(self.settings)
        return "" if has_judge else "no judge is set"

    def end_body(self) -> None:
        """Note the end of the test's body: a replay's last screen must still be shown.
        Raises RecordingDrifted.
        """
        if self._session.recorded_test:
            self._session.recorded_test.end_body(self.controller)

    @_noting_tool_failures
    def verify(
        self,
        claim: str,
        *,
        within_s: float = 0.0,
        votes: int | None = None,
    ) -> Verdict:
        """Judge a claim about the screen; raise an error unless it holds.

        To check that something is absent, claim its absence: "no error is shown". With
        `within_s`, the claim is judged again whenever the screen has changed and become
        stable, until it holds or the seconds are over. `votes` is odd: the judge is
        asked until a majority of that many votes agrees. Raises ProductFailed if the
        claim fails, Inconclusive if the judge is unsure; SettingsError before the judge
        is asked; InfraError if the judge or the desktop is not there.
        """
        verdict = claims.assess(
            self._session,
            claim,
            within_s=within_s,
            votes=votes,
        )
        return claims.held(verdict)

    @_noting_tool_failures
    def assess(
        self,
        claim: str,
        *,
        within_s: float = 0.0,
        votes: int | None = None,
    ) -> Verdict:
        """Judge a claim as `verify` does, and return any verdict: branch on its `kind`.
        Raises no TaskFailed.
        """
        return claims.assess(
            self._session,
            claim,
            within_s=within_s,
            votes=votes,
        )

    @_noting_tool_failures
    def saw(
        self,
        claim: str,
        *,
        steps: int = 1,
        votes: int | None = None,
    ) -> Verdict:
        """Judge whether a claim held at any time in the last `steps` steps; raise an
        error unless it did.

        The judge looks at the screen now and at up to `claims.MAX_FRAMES` kept frames,
        newest first, transient frames too. If the claim seems to hold on one,
        `claims.CONFIRMING_VOTES` votes must confirm it. Raises Inconclusive if it holds
        on none and the judge is unsure about one, else ProductFailed, and as `verify`
        does.
        """
        verdict = claims.saw(
            self._session,
            claim,
            steps=steps,
            votes=votes,
        )
        return claims.held(verdict)

    @_noting_tool_failures
    def check(
        self,
        claim: str | object,
        message: str = "",
        *,
        within_s: float = 0.0,
        votes: int | None = None,
    ) -> bool:
        """Note a soft check, which fails the test only at its end. Return whether it is
        met.

        A string is a claim, as in `assess`. A verdict is taken as it is. Anything else
        is a condition, and `message` says what it means.
        """
        if isinstance(claim, str):
            claim = self.assess(claim, within_s=within_s, votes=votes)
        if not message and not isinstance(claim, Verdict):
            raise SettingsError(
                f"`check` needs a `message` for the condition {claim!r}, got"
                f' {message!r}. Write, for example, check(total == 3, "the total is 3")'
            )
        kind: VerdictKind
        if isinstance(claim, Verdict):
            kind = claim.kind
            line = f"{message}: {claim}" if message else str(claim)
        else:
            kind = "holds" if claim else "fails"
            line = message
        self._soft_checks.append((kind, line))
        return kind == "holds"

    def unmet(self) -> TaskFailed | None:
        """Return one error for all unmet soft checks, once: ProductFailed if one fails,
        else Inconclusive.
        """
        checks = self._soft_checks
        self._soft_checks = []
        failed = [(kind, line) for kind, line in checks if kind != "holds"]
        if not failed:
            return None
        count = f"{len(failed)} of {len(checks)} checks not met"
        lines = [line for _, line in failed]
        error = error_for_verdicts([kind for kind, _ in failed])
        return error("\n  ".join([count, *lines]))

    @_noting_tool_failures
    def extract(self, model: type[T], question: str) -> T:
        """Read a value off the screen: a pydantic model, or any other type that
        pydantic can make from JSON.

        The newest of `extracted` has the reason and the region. Raises SettingsError,
        before the judge is asked, for a type without a JSON Schema; Inconclusive if no
        value of the type was read; InfraError.
        """
        return claims.extract(self._session, model, question)

    @_noting_tool_failures
    def verify_end_state(self, task: str, *, votes: int | None = None) -> Verdict:
        """Judge whether the screen shows that a task is done, and return any
        verdict.
        """
        return claims.verify_end_state(self._session, task, votes=votes)

    @_noting_tool_failures
    def perform(self, action: DesktopAction) -> Frame:
        """Perform one action. Raises ActionError, DesktopError."""
        return self._act(self.controller.perform, action)

    @_noting_tool_failures
    def click(
        self,
        x: int,
        y: int,
        button: Button | int = "left",
        count: int = 1,
    ) -> Frame:
        """Click at a point of the screen, in pixels. A button may be its number, 1 to
        3.
        """
        return self.perform(
            Click(
                x,
                y,
                button_of(button),
                count,
            )
        )

    @_noting_tool_failures
    def type_text(
        self,
        text: str,
        *,
        press_enter: bool = False,
        clear_first: bool = False,
    ) -> Frame:
        """Type at the focus. `<secret:NAME>` is typed as the secret's value."""
        check_declared(text, self._session.secrets.declared.reveal)
        revealed = self._session.secrets.declared.reveal(text)
        action = TypeText(revealed, press_enter=press_enter, clear_first=clear_first)
        return self._act(functools.partial(perform_text, self.controller), action)

    @_noting_tool_failures
    def key(self, combination: str) -> Frame:
        """Press keys together: `enter`, `ctrl+a`."""
        return self.perform(KeyCombo((combination,)))

    @_noting_tool_failures
    def scroll(
        self,
        x: int,
        y: int,
        direction: Direction,
        clicks: int = 3,
    ) -> Frame:
        """Turn the wheel at a point."""
        return self.perform(
            Scroll(
                x,
                y,
                direction,
                clicks,
            )
        )

    @_noting_tool_failures
    def drag(
        self,
        x: int,
        y: int,
        to_x: int,
        to_y: int,
    ) -> Frame:
        """Drag with the left button from one point to another."""
        return self.perform(
            Drag(
                x,
                y,
                to_x,
                to_y,
            )
        )

    def _act(self, perform: Callable[..., None], action: DesktopAction) -> Frame:
        """Perform an action of the test; the first one waits until the program's first
        screen is stable.
        """
        if self._session.recorded_test:
            self._session.recorded_test.watch_end(acts=True)
        self._session.connection.await_stable(self.controller)
        perform(action)
        self._session.frame_steps = ()
        self.controller.settle()
        return self.controller.frame()

    @_noting_tool_failures
    def screenshot(self) -> bytes:
        """Return the screen now, as PNG."""
        return self.controller.frame().png

    @property
    def server(self) -> str:
        """The address of the desktop."""
        return self._session.server

    @property
    def controller(self) -> Controller:
        """The desktop's controller, connected on first use. Raises DesktopError."""
        return self._session.controller

    @property
    def live_screen(self) -> Framebuffer | None:
        """The pixels as the desktop sends them; None while it is not connected, or if
        secrets may be on them.
        """
        return self._session.connection.live_screen(self.settings)

    @property
    def planner(self) -> Planner:
        """The given planner, or the one that the settings name. Raises
        SettingsError.
        """
        return self._session.planner

    @property
    def judge(self) -> Judge:
        """The given judge, or the one that the settings name. Recorded evidence takes
        precedence.
        """
        return self._session.judge

    def __repr__(self) -> str:
        return f"<VncUseAgent at {without_query(self.server)}>"

    def close(self) -> None:
        """End the connection; a second call does nothing."""
        try:
            self._session.models.close()
        finally:  # a planner is the user's code
            self._session.connection.close()

    def __exit__(self, *error: object) -> None:
        self.close()


def _as_options(arguments: Mapping[str, object]) -> list[str] | None:
    """Return keyword arguments as the setting `planner_options` has them."""
    options = []
    for name, value in arguments.items():
        if value is None:
            continue
        match value:
            case bool():
                text = str(value).lower()
            case list() | tuple():
                text = ",".join(map(str, value))
            case _:
                text = str(value)
        options.append(f"{name}={text}")
    return options or None
