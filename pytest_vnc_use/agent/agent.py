"""`VncUseAgent`: runs tasks on a desktop, judges claims about it, and performs a test's own actions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypedDict, TypeVar, Union

from typing_extensions import Unpack

from pytest_vnc_use.agent import build
from pytest_vnc_use.agent.act import check_declared, functions_by_name, perform_text
from pytest_vnc_use.agent.budget import Budget
from pytest_vnc_use.agent.build import (
    build_judge,
    build_planner,
    connect,
    elements_asker,
    given_desktop,
    given_planner,
    no_planner,
    same_connection,
    settings_at,
)
from pytest_vnc_use.agent.claims import (
    ClaimContext,
    Claims,
    check_asked,
    format_end_state,
    format_verdicts,
    verify_function,
)
from pytest_vnc_use.agent.run import DesktopAccess, RunContext, Runner
from pytest_vnc_use.errors import AgentFailed, Inconclusive, InfraError, ProductFailed, SettingsError, TaskFailed
from pytest_vnc_use.plain_text import without_query
from pytest_vnc_use.planners.local.scripted import Reenactment
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.runs.folder import RunFolder
from pytest_vnc_use.runs.messages import MessageLog
from pytest_vnc_use.runs.secrets import Secrets
from pytest_vnc_use.runs.transcript import format_run_failure
from pytest_vnc_use.runs.uitask_trace import read_execution, secrets_of
from pytest_vnc_use.safety.rules import Policy
from pytest_vnc_use.settings.paths import absolute_files
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.triage import failure_text
from pytest_vnc_use.triage.rules import error_for_run
from pytest_vnc_use.types import (
    Action,
    Button,
    Click,
    DesktopAction,
    Direction,
    Drag,
    Frame,
    KeyCombo,
    Limits,
    Observation,
    Outcome,
    Region,
    RunResult,
    Scroll,
    TypeText,
    Verdict,
    button_of,
    error_for_verdicts,
)
from pytest_vnc_use.types.elements import Elements
from pytest_vnc_use.types.protocols import Approver, Controller, Desktop, EndsRun, Judge, Planner, RunObserver

if TYPE_CHECKING:
    from pytest_vnc_use.backends.redaction import Redactions


@dataclass(frozen=True)
class ManualActions:
    """Actions of a test on a desktop. Each returns the screen once it has answered.

    The first action waits until the program's first screen is at rest. `leaves_replay` is called before that wait,
    `acted` right after the action.
    """

    desktop: DesktopAccess
    secrets: Secrets
    leaves_replay: Callable[[], None]
    acted: Callable[[], None]

    def perform(self, action: DesktopAction) -> Frame:
        """Carry out one action. Raises ActionError, DesktopError."""
        self._begin()
        self.desktop.controller.perform(action)
        return self._settled_frame()

    def type_text(self, text: str, *, press_enter: bool, clear_first: bool) -> Frame:
        """Type at the focus. A secret's placeholder is typed as its value. Raises ActionError, DesktopError."""
        check_declared(text, self.secrets.declared.reveal)
        self._begin()
        revealed = self.secrets.declared.reveal(text)
        action = TypeText(revealed, press_enter=press_enter, clear_first=clear_first)
        perform_text(self.desktop.controller, action)
        return self._settled_frame()

    def click(self, x: int, y: int, button: Button | int, count: int) -> Frame:
        """Click at a point of the screen, in pixels. Raises ActionError, DesktopError."""
        return self.perform(Click(x, y, button_of(button), count))

    def key(self, combination: str) -> Frame:
        """Press keys together. Raises ActionError, DesktopError."""
        return self.perform(KeyCombo((combination,)))

    def scroll(self, x: int, y: int, direction: Direction, clicks: int) -> Frame:
        """Turn the wheel at a point. Raises ActionError, DesktopError."""
        return self.perform(Scroll(x, y, direction, clicks))

    def drag(self, x: int, y: int, to_x: int, to_y: int) -> Frame:
        """Drag with the left button from one point to another. Raises ActionError, DesktopError."""
        return self.perform(Drag(x, y, to_x, to_y))

    def _begin(self) -> None:
        self.leaves_replay()
        self.desktop.await_rest(self.desktop.controller)

    def _settled_frame(self) -> Frame:
        self.acted()
        self.desktop.controller.settle()
        return self.desktop.controller.frame()


_REDACTIONS: dict[str, Redactions] = {}
"""The redactions on desktops that several tests use one after the other, by address, for the time of this process."""


class Connection:
    """The controller of a desktop, connected on first use.

    It reconnects if the settings or the reset `desktop` have another address. A given `controller` is used first.
    `hide` takes secrets out of what is typed: with it, frames are redacted where one was typed, and in the `masks`,
    unless the settings say otherwise.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        password: str | None,
        desktop: Desktop | None,
        controller: Controller | None,
        hide: Callable[[str], str] | None = None,
        masks: tuple[Region, ...] = (),
    ) -> None:
        self._settings, self._password, self._desktop = settings, password, desktop
        self.place = desktop or given_desktop(settings())
        """The desktop whose files and commands are used."""
        self._hide, self._masks = hide, masks
        self._controller = self._redacted(controller) if controller else None
        self._messages = MessageLog()
        self._connected_as: Settings | None = None
        self._is_at_rest = False

    @property
    def server(self) -> str:
        """The address of the desktop."""
        return self._desktop.server if self._desktop else self._settings().server

    @property
    def controller(self) -> Controller:
        """Return the controller for the current settings. Raises DesktopError."""
        there = settings_at(self._settings(), self.server)
        if self._connected_as and not same_connection(self._connected_as, there):
            self.close()
            self._controller = None
        if self._controller is None:
            self._connected_as, self._is_at_rest = there, False
            read_file = self.place.read_file
            tap = self._messages if there.keep_messages else None
            eyes = connect(there, self._password, program_fault=self._fault, read_file=read_file, tap=tap)
            shared = there.server if there.scope != "test" else ""
            self._controller = self._redacted(eyes, shared)
        return self._controller

    def _redacted(self, eyes: Controller, shared: str = "") -> Controller:
        """Return the controller with redaction; on a `shared` desktop, other tests' secrets are redacted too."""
        from pytest_vnc_use.backends.redaction import RedactingController, Redactions

        if self._hide is None or self._settings().show_secrets:
            return eyes
        redactions = _REDACTIONS.setdefault(shared, Redactions()) if shared else Redactions()
        return RedactingController(eyes, self._hide, redactions, self._masks)

    def await_rest(self, acting: Controller) -> None:
        """Wait before the first action until the screen is quiet, as after any action. Raises DesktopError.

        A replay or a person that is `acting` waits by itself.
        """
        if acting is self.controller and not self._is_at_rest:
            acting.settle()
            self._is_at_rest = True

    def keep_messages(self, folder: RunFolder, hide: Callable[[str], str]) -> None:
        """Write all further messages to the server into this run folder, if the settings want it."""
        self._messages.begin(folder.path, folder.began_s, hide)

    def crash(self) -> str:
        """Return how a signal ended the program under test; "" while it runs."""
        return failure_text.crash_of(self._desktop) if self._desktop else ""

    def elements_of(self, action: Action) -> Elements:
        """Find the elements that an action will act on. It may be slow, and may raise any exception."""
        return elements_asker(self._settings(), self.place)(action)

    def _fault(self) -> str:
        return failure_text.fault_of(self._desktop).text if self._desktop else ""

    def close(self) -> None:
        """End the connection. A second call does nothing."""
        if self._controller is not None:
            self._controller.close()


class LiveModels:
    """The planner and the judge that were given, or those that the settings name by now."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        functions: Mapping[str, Callable[..., object]],
        planner: object | None,
        judge: Judge | None,
    ) -> None:
        self._settings, self._functions = settings, functions
        self._request_s_at_first = settings().request_seconds
        if judge is not None and not callable(getattr(judge, "judge", None)):
            raise SettingsError(
                "a judge must be an object with the method `judge(claim, frame, *, timeout_s, report) -> Verdict`, "
                f"got {judge!r}"
            )
        self.given_planner = self.as_planner(planner) if planner is not None else None
        self.given_judge = judge
        self._newest: Planner | None = None
        self._build_planner, self._build_judge = lru_cache(1)(build_planner), lru_cache(1)(build_judge)

    @property
    def planner(self) -> Planner:
        """The planner of a run that has none of its own. Raises SettingsError."""
        self._newest = self.given_planner
        if self._newest is None:
            self._newest = self._build_planner(self._settings(), tuple(self._functions.values()))
        return self._newest

    def close(self) -> None:
        """Close what the planner keeps open, if anything."""
        if isinstance(self._newest, EndsRun):
            self._newest.end_run()

    @property
    def judge(self) -> Judge:
        """The judge of claims. Raises SettingsError."""
        return self.given_judge if self.given_judge is not None else self._build_judge(self._settings())

    @property
    def request_s(self) -> float | None:
        """The seconds of one request, if the settings have changed since the planner was given."""
        now_s = self._settings().request_seconds
        return now_s if now_s != self._request_s_at_first else None

    def as_planner(self, thing: object) -> Planner:
        """Return a user's planner as it is, or a callable as a planner. Raises SettingsError."""
        return given_planner(thing)

    def nobody(self) -> Planner:
        """Return the planner of a run that ends without a planner's answer."""
        return no_planner()


AnyPlanner = Union[Planner, Callable[[Observation], object]]

NO_JUDGE = (
    "Nobody can judge the end of the task {!r}: {}. Set a judge (--vnc-judge=gemini with its key, or the fixture "
    "vnc_judge), record the test (--vnc-record=auto with a judge, or demonstrate), or say expect=None (in .vnc.toml "
    "expect = false) if the test's body alone checks it."
)
"""The error for a task that no judge and no recording can judge: the task, and why."""


class Again(TypedDict, total=False):
    """The objects of one run, which its caller must give again."""

    policy: Policy | None
    planner: AnyPlanner | None


@dataclass
class Tasks:
    """The tasks of an agent, one after the other.

    With `check`, a run that does not end as done raises. `why_unjudged` takes a task and its claims and returns why
    nobody can judge them, "" if somebody can; it is None outside a test, where nothing is judged.
    """

    runner: Runner
    models: LiveModels
    secrets: Secrets
    functions: Mapping[str, Callable[..., object]]
    claims: Claims
    check: bool
    why_unjudged: Callable[[str, Sequence[str]], str] | None
    broken: InfraError | None = None
    """The error of the tool that ended a task, until a later task is done and judged."""

    def run(
        self,
        task: str,
        expect: str | Sequence[str] | None,
        limits: Limits | None,
        policy: Policy | None,
        planner: AnyPlanner | None,
        approver: Approver | None,
        check: bool | None,
        run_id: str | None,
        votes: int | None,
    ) -> RunResult:
        """Carry out a task, as `VncUseAgent.run` says."""
        if not task.strip():
            raise SettingsError(f"the task must be a sentence, got {task!r}")
        expect = (expect,) if isinstance(expect, str) else expect
        if not isinstance(expect, (list, tuple, type(None))):
            raise SettingsError(f"expect must be a claim, a list of claims, or None, got {expect!r}")
        for claim in expect or ():
            check_asked(claim, votes=1)
        if self.why_unjudged and expect is not None and (why := self.why_unjudged(task, expect)):
            raise SettingsError(NO_JUDGE.format(task, why))
        if self.why_unjudged and check is False:
            raise SettingsError(
                "check=False does not work in a test, where a task that does not end as done raises: catch its error, "
                "as with pytest.raises(PolicyDenied)"
            )
        own = self._own(planner)
        try:
            return self._carry_out(
                lambda: self.runner.run(
                    task, expect=expect, limits=limits, policy=policy, planner=own, approver=approver, run_id=run_id
                ),
                check,
                votes,
            )
        finally:
            if isinstance(own, EndsRun):
                own.end_run()

    def reenactment(self, path: Path) -> Reenactment:
        """Return the planner that repeats the actions of a run. Raises SettingsError if a secret is missing."""
        execution = read_execution(path)
        secrets_of(execution, self.secrets.values)
        return Reenactment(execution, self.functions)

    def go_on(
        self, run_id: str, answer: bool | None, *, step: int | None, approver: Approver | None, **again: Unpack[Again]
    ) -> RunResult:
        """Continue a run, as `VncUseAgent.approve`, `deny` and `resume` say."""
        policy, planner = again.get("policy"), self._own(again.get("planner"))
        return self._carry_out(
            lambda: self.runner.go_on(run_id, answer, step=step, policy=policy, planner=planner, approver=approver),
            None,
            None,
        )

    def _own(self, planner: AnyPlanner | None) -> Planner | None:
        return None if planner is None else self.models.as_planner(planner)

    def _carry_out(self, advance: Callable[[], RunResult], check: bool | None, votes: int | None) -> RunResult:
        """Advance a run to its end, and judge it if a test carries it out."""
        runs = len(self.runner.folders)
        try:
            result = advance()
            if self.why_unjudged and result.outcome is Outcome.DONE:
                self._judge(result, votes)
        except BaseException as exc:
            if len(self.runner.folders) > runs:
                self.secrets.everything.hide_in_error(exc)
                if isinstance(exc, InfraError) and not isinstance(exc, ProductFailed):
                    self.broken = exc
            raise
        if (self.check if check is None else check) and result.outcome is not Outcome.DONE:
            raise error_for_run(result)
        return result

    def _judge(self, result: RunResult, votes: int | None) -> None:
        """Judge the claims of a task that is done, or that it is done. Raises TaskFailed, InfraError."""
        started = self.runner.started
        if started is None or started.body_checks:
            return
        if started.expect:
            verdicts = [self.claims.assess(claim, votes=votes) for claim in started.expect]
            if not all(verdict.holds for verdict in verdicts):
                kind = error_for_verdicts([verdict.kind for verdict in verdicts])
                raise kind(format_run_failure(format_verdicts(verdicts), result))
        else:
            end = self.claims.verify_end_state(result.task, votes=votes)
            if not end.holds:
                kind = AgentFailed if end.kind == "fails" else Inconclusive
                raise kind(format_run_failure(format_end_state(end, result.task), result))
        self.broken = None


@dataclass(frozen=True)
class Own:
    """The objects that an agent is given in place of what its settings name, as `VncUseAgent` says."""

    policy: Policy | None
    planner: AnyPlanner | None
    judge: Judge | None
    controller: Controller | None
    functions: Sequence[Callable[..., object]] | None
    secrets: Mapping[str, str]
    other_secrets: Collection[tuple[str, str]]
    observers: Sequence[RunObserver]
    desktop: Desktop | None
    recorded: RecordedTest | None


class AgentParts:
    """The parts of an agent. Each has one purpose and gets what it needs. `settings` returns the current settings."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        budget: Budget,
        own: Own,
        password: str | None,
        *,
        hitl_mode: bool,
        test_id: str,
        check: bool,
    ) -> None:
        self._settings, self._own = settings, own
        ambient = build.ambient_secrets(settings(), password)
        self.secrets = Secrets.of(own.secrets, build.api_keys(), ambient, own.other_secrets)
        hide = self.secrets.everything.hide if own.secrets or own.other_secrets else None
        masks = own.recorded.masks if own.recorded else ()
        self.connection = Connection(settings, password, own.desktop, own.controller, hide, masks)
        functions = own.functions
        if functions is None:
            functions = build.desktop_functions(settings(), self.connection.place)
        self.functions = functions_by_name(functions)
        self.models = LiveModels(settings, self.functions, own.planner, own.judge)
        self.runner = self._new_runner(budget, test_id, hitl_mode=hitl_mode)
        self.claims = self._new_claims()
        why_unjudged = self._why_unjudged if test_id else None
        self.tasks = Tasks(self.runner, self.models, self.secrets, self.functions, self.claims, check, why_unjudged)
        self.actions = self._new_actions()

    def end_body(self) -> None:
        """Note the end of the test's body: the last screen of a replay must still be there. Raises RecordingDrifted."""
        if self._own.recorded:
            self._own.recorded.end_body(self.connection.controller)

    def judge(self) -> Judge:
        """Return the judge that was given, or the one that the settings name now; recorded evidence is used first."""
        recorded = self._own.recorded
        if recorded is None:
            return self.models.judge
        return recorded.judge(lambda: self.models.judge, self._controller, self.secrets.everything.hide)

    def _why_unjudged(self, task: str, claims: Sequence[str]) -> str:
        hide, recorded = self.secrets.declared.hide, self._own.recorded
        if recorded and (run := recorded.known_run(hide(task))):
            why = run.why_unjudged([hide(claim) for claim in claims])
            if not why or recorded.mode == "replay":
                return why and f"{why}, and a replay asks no judge"
        elif recorded and recorded.mode == "replay":
            return ""  # the run says that its recording is missing
        if not (self._own.judge or build.judge_of(self._settings())):
            return "no judge is set"
        _ = self.models.judge  # raises KeyMissing
        return ""

    def _controller(self) -> Controller:
        return self.connection.controller

    def _new_runner(self, budget: Budget, test_id: str, *, hitl_mode: bool) -> Runner:
        own, hide = self._own, self.secrets.declared.hide
        context = RunContext(
            settings=self._settings,
            desktop=self.connection,
            models=self.models,
            verify=lambda look, emit: verify_function(self.judge, look, emit, hide),
            secrets=self.secrets,
            functions=self.functions,
            policy=own.policy or build.build_policy(self._settings(), ask=hitl_mode),
            given_policy=bool(own.policy),
            hitl_mode=hitl_mode,
            budget=budget,
            observers=[*own.observers, own.recorded] if own.recorded else [*own.observers],
            recorded=own.recorded,
            test_id=test_id,
        )
        return Runner(context)

    def _new_claims(self) -> Claims:
        recorded = self._own.recorded
        context = ClaimContext(
            settings=self._settings,
            controller=self._controller,
            judge=self.judge,
            runner=self.runner,
            secrets=self.secrets,
            will_judge=lambda: recorded.conclude() if recorded else None,
        )
        return Claims(context)

    def _new_actions(self) -> ManualActions:
        recorded = self._own.recorded
        return ManualActions(
            self.connection,
            self.secrets,
            leaves_replay=lambda: recorded.leave() if recorded else None,
            acted=self.runner.forget_frames,
        )


T = TypeVar("T")
P = ParamSpec("P")


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
            if not isinstance(exc, ProductFailed):
                self.tool_failures.append(exc)
            raise

    return call


class VncUseAgent(AbstractContextManager["VncUseAgent"]):
    """An agent for one VNC desktop. It connects on first use; close it, or use it in a `with` statement.

    `vnc_server` is `host::port`, `host:display` or the path of a unix socket. The model may not use the actions of
    `excluded_actions`. With `hitl_mode`, an action that the policy file does not decide, or says to ask about, makes
    `run` return `Outcome.WAITING`; without, it is denied. A `policy` object decides as its own `unmatched` says. The
    model may call `functions` by name: they have a docstring and type hints; None stands for those of the settings
    `cdp` and `elements`. `secrets` maps names to values: write `<secret:NAME>` in a task. The model, the run folder and
    the reports see only that name. With `check`, a run that does not end as done raises the class of its triage.

    The agent connects to the current address of `desktop`, also after `reset()`. Once the desktop or its program has
    ended, the agent does not reconnect. `planner` (or a callable), `judge` and `controller` replace what other
    arguments name. `settings` may be replaced: all but `start_seconds` and `lease_seconds` hold from the next run, look
    or claim on. `recorded` is replayed, or recorded again. `other_secrets` are hidden too.
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
        model: str | None = None,
        settings: Settings | None = None,
        policy: Policy | None = None,
        planner: AnyPlanner | None = None,
        judge: Judge | None = None,
        controller: Controller | None = None,
        functions: Sequence[Callable[..., object]] | None = None,
        secrets: Mapping[str, str] | None = None,
        other_secrets: Collection[tuple[str, str]] = (),
        observers: Sequence[RunObserver] = (),
        test_id: str = "",
        check: bool = False,
        desktop: Desktop | None = None,
        budget: Budget | None = None,
        recorded: RecordedTest | None = None,
    ) -> None:
        named = {"server": vnc_server, "screen_size": screen_size, "steps": step_limit, "seconds": seconds_timeout}
        named |= {"exclude": excluded_actions, "planner": "gemini", "model": model}
        self.settings = absolute_files(settings or build.settings_of(named), Path.cwd())
        self.budget = budget or build.build_budget(self.settings)
        """The limits of this agent's models, and their use so far."""
        all_secrets = secrets or {}, other_secrets
        own = Own(policy, planner, judge, controller, functions, *all_secrets, observers, desktop, recorded)
        self._parts = AgentParts(
            lambda: self.settings, self.budget, own, vnc_password, hitl_mode=hitl_mode, test_id=test_id, check=check
        )
        self._connection, self._models = self._parts.connection, self._parts.models
        self.runs = self._parts.runner.folders
        """The run folders of this agent, oldest first."""
        self.tool_failures: list[InfraError] = []
        """Each error of the tool that a method of this agent raised, oldest first; the test may have caught it."""
        self.verdicts = self._parts.claims.verdicts
        """Every verdict so far, oldest first. If `holds` is false, the claim fails or the judge is unsure."""
        self.extracted = self._parts.claims.extracted
        """All values read so far, oldest first, each with its reason and the region that it came from."""
        self.end_body = self._parts.end_body

    @property
    def broken_task(self) -> InfraError | None:
        """The error of the tool that ended a task, unless a later task was done and judged."""
        return self._parts.tasks.broken

    # --- tasks -------------------------------------------------------------------------------------------------------

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
    ) -> RunResult:
        """Carry out a task; in a test, judge it when it is done.

        The fixture's agent has each claim of `expect` judged, or without any, that the task is done; with None, the
        test's body alone checks it. Another agent keeps `expect` in the run folder and judges nothing: the outcome says
        how the run ended, not that the task was achieved. `limits`, `policy`, `planner`, `check` and `votes` hold for
        this run in place of the agent's. `approver` is asked if an action waits for a person; without one the run
        returns as `WAITING`. Raises TaskFailed if a claim or the end does not surely hold, or if `check` asks for it
        and the run does not end as done; InfraError if a tool cannot be used; SettingsError if the task or a claim is
        not a sentence, or if nobody can judge it.
        """
        return self._parts.tasks.run(task, expect, limits, policy, planner, approver, check, run_id, votes)

    def reenact(self, path: Path, *, approver: Approver | None = None, check: bool | None = None) -> RunResult:
        """Carry out the actions of a run folder or its execution.json again, unchecked, up to the first that fails.

        Nothing is judged. Raises as `run` does, and SettingsError if the agent lacks a secret of the trace.
        """
        again = self._parts.tasks.reenactment(path)
        limits = again.limits(self.settings.seconds)
        return self.run(again.task, expect=None, limits=limits, planner=again, approver=approver, check=check)

    @_noting_tool_failures
    def approve(
        self, run_id: str, *, step: int | None = None, approver: Approver | None = None, **again: Unpack[Again]
    ) -> RunResult:
        """Carry out the action for which the run waits, and continue; also in another process than the run's first.

        With `step`, only if the run waits for an answer about that step. Another process must get the same policy,
        planner, functions and secrets; pass those of the run itself here. Nothing of them is taken from the run folder.
        Raises RunFolderError, SettingsError.
        """
        return self._parts.tasks.go_on(run_id, True, step=step, approver=approver, **again)

    @_noting_tool_failures
    def deny(self, run_id: str, *, step: int | None = None, **again: Unpack[Again]) -> RunResult:
        """Refuse the action for which the run waits; the run ends as `denied`, or continues if the policy says so."""
        return self._parts.tasks.go_on(run_id, False, step=step, approver=None, **again)

    @_noting_tool_failures
    def resume(self, run_id: str, *, approver: Approver | None = None, **again: Unpack[Again]) -> RunResult:
        """Continue a run that was interrupted or killed, from its last step; a waiting one still waits."""
        return self._parts.tasks.go_on(run_id, None, step=None, approver=approver, **again)

    # --- claims ------------------------------------------------------------------------------------------------------

    @_noting_tool_failures
    def verify(self, claim: str, *, within_s: float = 0.0, votes: int | None = None) -> Verdict:
        """Judge a claim about the screen, and return a verdict that holds.

        To check that something is absent, claim its absence: "no error is shown". With `within_s`, the claim is judged
        again whenever the screen has changed and come to rest, until it holds or the seconds are over. `votes` is odd:
        the judge is asked until a majority of that many votes agrees. Raises ProductFailed if the claim fails,
        Inconclusive if the judge is unsure; SettingsError before the judge is asked; InfraError if the judge or the
        desktop is not there.
        """
        return self._parts.claims.verify(claim, within_s=within_s, votes=votes)

    @_noting_tool_failures
    def assess(self, claim: str, *, within_s: float = 0.0, votes: int | None = None) -> Verdict:
        """Judge a claim as `verify` does, and return any verdict: branch on its `kind`. Raises no TaskFailed."""
        return self._parts.claims.assess(claim, within_s=within_s, votes=votes)

    @_noting_tool_failures
    def saw(self, claim: str, *, steps: int = 1, votes: int | None = None) -> Verdict:
        """Judge whether a claim held at any time in the last `steps` steps, and return a verdict that holds.

        The judge looks at the screen now and at up to `claims.MOST_FRAMES` kept frames, newest first, transient frames
        too. If the claim seems to hold on one, `claims.CONFIRMING_VOTES` votes must confirm it. Raises Inconclusive if
        it holds on none and the judge is unsure about one, else ProductFailed, and as `verify` does.
        """
        return self._parts.claims.saw(claim, steps=steps, votes=votes)

    @_noting_tool_failures
    def check(self, claim: str | object, message: str = "", *, within_s: float = 0.0, votes: int | None = None) -> bool:
        """Note a soft check, which fails the test only at its end. Return whether it is met.

        A string is a claim, as in `assess`. A verdict is taken as it is. Anything else is a condition, and `message`
        says what it means.
        """
        return self._parts.claims.check(claim, message, within_s=within_s, votes=votes)

    def unmet(self) -> TaskFailed | None:
        """Return one error for all unmet soft checks, once: ProductFailed if one fails, else Inconclusive."""
        return self._parts.claims.unmet()

    @_noting_tool_failures
    def extract(self, model: type[T], question: str) -> T:
        """Read a value off the screen: a pydantic model, or any other type that pydantic can make from JSON.

        The newest of `extracted` has the reason and the region. Raises SettingsError, before the judge is asked, for a
        type without a JSON Schema; Inconclusive if no value of the type was read; InfraError.
        """
        return self._parts.claims.extract(model, question)

    @_noting_tool_failures
    def verify_end_state(self, task: str, *, votes: int | None = None) -> Verdict:
        """Judge whether the screen shows that a task is done, and return any verdict."""
        return self._parts.claims.verify_end_state(task, votes=votes)

    # --- manual actions: each waits for the screen to answer and returns it ------------------------------------------

    @_noting_tool_failures
    def perform(self, action: DesktopAction) -> Frame:
        """Carry out one action. Raises ActionError, DesktopError."""
        return self._parts.actions.perform(action)

    @_noting_tool_failures
    def click(self, x: int, y: int, button: Button | int = "left", count: int = 1) -> Frame:
        """Click at a point of the screen, in pixels. A button may be its number, 1 to 3."""
        return self._parts.actions.click(x, y, button, count)

    @_noting_tool_failures
    def type_text(self, text: str, *, press_enter: bool = False, clear_first: bool = False) -> Frame:
        """Type at the focus. `<secret:NAME>` is typed as the secret's value."""
        return self._parts.actions.type_text(text, press_enter=press_enter, clear_first=clear_first)

    @_noting_tool_failures
    def key(self, combination: str) -> Frame:
        """Press keys together: `enter`, `ctrl+a`."""
        return self._parts.actions.key(combination)

    @_noting_tool_failures
    def scroll(self, x: int, y: int, direction: Direction, clicks: int = 3) -> Frame:
        """Turn the wheel at a point."""
        return self._parts.actions.scroll(x, y, direction, clicks)

    @_noting_tool_failures
    def drag(self, x: int, y: int, to_x: int, to_y: int) -> Frame:
        """Drag with the left button from one point to another."""
        return self._parts.actions.drag(x, y, to_x, to_y)

    @_noting_tool_failures
    def screenshot(self) -> bytes:
        """Return the screen now, as PNG."""
        return self.controller.frame().png

    @property
    def controller(self) -> Controller:
        """The eyes and hands on the desktop, connected on first use. Raises DesktopError."""
        return self._connection.controller

    @property
    def server(self) -> str:
        """The address of the desktop."""
        return self._connection.server

    @property
    def planner(self) -> Planner:
        """The planner that was given, or the one that the settings name now. Raises SettingsError."""
        return self._models.planner

    @property
    def judge(self) -> Judge:
        """The judge that was given, or the one that the settings name now; recorded evidence is used before it."""
        return self._parts.judge()

    def __repr__(self) -> str:
        return f"<VncUseAgent at {without_query(self.server)}>"

    def close(self) -> None:
        """End the connection; a second call does nothing."""
        self._models.close()
        self._connection.close()

    def __exit__(self, *error: object) -> None:
        self.close()
