"""`VncUseAgent`: runs tasks on a desktop, judges claims about it, and performs a test's actions.

What a task is performed by is in `run`, what judges in `claims`, and what chooses concrete classes in `build`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypedDict, TypeVar, Union

from typing_extensions import Unpack

from pytest_vnc_use.agent import build, claims
from pytest_vnc_use.agent.act import check_declared, perform_text
from pytest_vnc_use.agent.budget import Budget
from pytest_vnc_use.agent.run import Run, continue_run, run_task
from pytest_vnc_use.backends.redaction import RedactingController, Redactions
from pytest_vnc_use.errors import AgentFailed, Inconclusive, InfraError, ProductFailed, SettingsError, TaskFailed
from pytest_vnc_use.plain_text import without_query
from pytest_vnc_use.planners.local.callables import as_planner
from pytest_vnc_use.planners.local.scripted import Reenactment
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.runs.logger import MessageLog
from pytest_vnc_use.runs.redaction import Secrets
from pytest_vnc_use.runs.transcript import format_run_failure, only_waiting
from pytest_vnc_use.runs.uitask_trace import read_execution, secrets_of
from pytest_vnc_use.safety.rules import Policy, ReviewContext
from pytest_vnc_use.settings.layers import absolute_files
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.triage import error_for_run, failure_of
from pytest_vnc_use.types import (
    Button,
    Click,
    DesktopAction,
    Direction,
    Drag,
    Extracted,
    Frame,
    Judged,
    KeyCombo,
    Limits,
    Observation,
    Outcome,
    Reading,
    RunEvent,
    RunResult,
    Scroll,
    TypeText,
    Verdict,
    VerdictKind,
    button_of,
    error_for_verdicts,
)
from pytest_vnc_use.types.protocols import Approver, Controller, Desktop, EndsRun, Judge, Planner, RunObserver

if TYPE_CHECKING:
    from pytest_vnc_use.backends.screen import Framebuffer

T = TypeVar("T")
P = ParamSpec("P")
AnyPlanner = Union[Planner, Callable[[Observation], object]]

NO_JUDGE = (
    "No judge for the end of the task {!r}: {}. Record the test (--vnc-record=manual by hand, or auto with a judge), "
    "set a judge (--vnc-judge=gemini with its key, or the fixture vnc_judge), or set expect=None (in .vnc.toml "
    "expect = false) if the test's body alone checks it."
)
"""The error for a task that no judge and no recording can judge: the task, and why."""


class Again(TypedDict, total=False):
    """The objects of one run, which its caller must give again."""

    policy: Policy | None
    planner: AnyPlanner | None


_REDACTIONS: dict[str, Redactions] = {}
"""The redactions on desktops that several tests use one after the other, by address, for the time of this process."""


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
    `run` return `Outcome.WAITING`; without, it is denied. A `policy` object decides as its `unmatched` says. The
    model may call `functions` by name: they have a docstring and type hints; None stands for those of the settings
    `cdp` and `elements`. `secrets` maps names to values: write `<secret:NAME>` in a task. The model, the run directory
    and the reports see only that name. With `check`, a run that does not end as done raises the class of its triage.

    The agent connects to the current address of `desktop`, also after `reset()`. Once the desktop or its program has
    ended, the agent does not reconnect. `planner` (or a callable), `judge` and `controller` replace what other
    arguments name. `settings` may be replaced: all but `lease_seconds` hold from the next run, look
    or claim on. `recorded` is replayed, or recorded again. `other_secrets` are hidden too. `approver` is asked where an
    action waits for a user, unless a method gets its own.
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
        include_initial_screenshot: bool | None = None,
        include_thoughts: bool | None = None,
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
        approver: Approver | None = None,
    ) -> None:
        if settings is None:
            options = {"include_initial_screenshot": include_initial_screenshot, "include_thoughts": include_thoughts}
            planner_options = [f"{name}={str(value).lower()}" for name, value in options.items() if value is not None]
            named = {"server": vnc_server, "screen_size": screen_size, "max_steps": step_limit, "model": model}
            named |= {"max_seconds": seconds_timeout, "exclude": excluded_actions, "planner": "gemini"}
            settings = build.settings_of({**named, "planner_options": planner_options or None})
        self.settings = absolute_files(settings, Path.cwd())
        self.budget = budget or build.build_budget(self.settings)
        """The limits of this agent's models, and their use so far."""
        self.runs: list[Path] = []
        """The run directories of this agent, oldest first."""
        self.tool_failures: list[InfraError] = []
        """Each InfraError that a method of this agent raised, oldest first; the test may have caught it."""
        self.verdicts: list[Verdict] = []
        """Every verdict so far, oldest first. If `holds` is false, the claim fails or the judge is unsure."""
        self.extracted: list[Reading] = []
        """All values read so far, oldest first, each with its reason and region."""
        self._hitl_mode, self._test_id, self._check = hitl_mode, test_id, check
        self._recorded, self._approver = recorded, approver
        self._observers = [*observers, recorded] if recorded else [*observers]
        ambient = build.ambient_secrets(self.settings, vnc_password)
        self._secrets = Secrets.of(secrets or {}, build.api_keys(), ambient, other_secrets)
        self._hides_typed = bool(secrets or other_secrets)

        self._desktop, self._password = desktop, vnc_password
        # The desktop whose files and commands are used.
        self._file_desktop = desktop or build.external_desktop(self.settings)
        self._controller = self._redacted(controller) if controller is not None else None
        self._connected_as: Settings | None = None
        self._messages = MessageLog()
        self._is_stable = False

        if functions is None:
            functions = build.desktop_functions(self.settings, self._file_desktop)
        names = [getattr(function, "__name__", "") for function in functions]
        if not all(names) or len(set(names)) != len(names):
            raise SettingsError(f"each function must have a unique name, got {names!r}")
        self._functions = dict(zip(names, functions, strict=True))
        if judge is not None and not callable(getattr(judge, "judge", None)):
            raise SettingsError(
                "a judge must be an object with the method `judge(claim, frame, *, timeout_s, report) -> Verdict`, "
                f"got {judge!r}"
            )
        self._custom_planner = None if planner is None else as_planner(planner)
        self._custom_judge = judge
        self._newest_planner: Planner | None = None
        self._build_planner = functools.lru_cache(1)(build.build_planner)
        self._build_judge = functools.lru_cache(1)(build.build_judge)
        self._request_s_at_first = self.settings.request_seconds

        self._custom_policy = policy
        self._policy = policy or build.build_policy(self.settings, ask=hitl_mode)
        self._review_context = ReviewContext()
        self._policies: dict[str, Policy] = {}
        self._planners: dict[str, Planner] = {}
        self._newest_run: Run | None = None
        self.failed_task: InfraError | None = None
        """The InfraError that ended a task, unless a later task was done and judged."""
        self._soft_checks: list[tuple[VerdictKind, str]] = []

    @property
    def can_ask(self) -> bool:
        """Return whether a user can be asked about an action."""
        return self._hitl_mode

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
        """Perform a task; in a test, judge it when it is done.

        The fixture's agent has each claim of `expect` judged, or without any, that the task is done; with None, the
        test's body alone checks it. Another agent keeps `expect` in the run directory and judges nothing: the outcome
        says how the run ended, not that the task was achieved. `limits`, `policy`, `planner`, `check` and `votes` hold
        for this run instead of the agent's. `approver` is asked if an action waits for a user; without one the run
        returns as `WAITING`. Raises TaskFailed if a claim or the end does not hold, or the judge is unsure, or if
        `check` asks for it and the run does not end as done; InfraError if a tool cannot be used; SettingsError if the
        task or a claim is empty, or if there is no judge.
        """
        if not task.strip():
            raise SettingsError(f"the task must be non-empty text, got {task!r}")
        expect = (expect,) if isinstance(expect, str) else expect
        if not isinstance(expect, (list, tuple, type(None))):
            raise SettingsError(f"expect must be a claim, a list of claims, or None, got {expect!r}")
        for claim in expect or ():
            claims.check_asked(claim, votes=1)
        if self._test_id and expect is not None and (why := self._why_unjudged(task, expect)):
            raise SettingsError(NO_JUDGE.format(task, why))
        if self._test_id and check is False:
            raise SettingsError(
                "check=False does not work in a test, where a task that does not end as done raises. Catch its error, "
                "such as pytest.raises(PolicyDenied)"
            )
        custom_planner = None if planner is None else as_planner(planner)
        overrides = policy, custom_planner, approver or self._approver
        try:
            return self._advance(lambda: run_task(self, task, expect, limits, run_id, *overrides), check, votes)
        finally:
            if isinstance(custom_planner, EndsRun):
                custom_planner.end_run()

    def reenact(self, path: Path, *, approver: Approver | None = None, check: bool | None = None) -> RunResult:
        """Perform the actions of a run directory or its execution.json again, unchecked, up to the first that fails.

        Nothing is judged. Raises as `run` does, and SettingsError if the agent lacks a secret of the trace.
        """
        execution = read_execution(path)
        secrets_of(execution, self._secrets.values)
        again = Reenactment(execution, self._functions)
        limits = again.limits(self.settings.max_seconds)
        return self.run(again.task, expect=None, limits=limits, planner=again, approver=approver, check=check)

    @_noting_tool_failures
    def approve(
        self, run_id: str = "", *, step: int | None = None, approver: Approver | None = None, **again: Unpack[Again]
    ) -> RunResult:
        """Perform the action for which the run waits, and continue; also in another process.

        Without `run_id` it is the only waiting run of this agent; SettingsError lists them where there are several.
        With `step`, only if the run waits for an answer about that step. Another process must get the same policy,
        planner, functions and secrets; pass those of the run itself. Nothing of them is taken from the run
        directory. Raises RunDirectoryError, SettingsError.
        """
        return self._continue(run_id or only_waiting(self.runs), True, step, approver, again)

    @_noting_tool_failures
    def deny(self, run_id: str = "", *, step: int | None = None, **again: Unpack[Again]) -> RunResult:
        """Deny the action for which the run waits; the run ends as `denied`, or continues if the policy says so."""
        return self._continue(run_id or only_waiting(self.runs), False, step, None, again)

    @_noting_tool_failures
    def resume(self, run_id: str, *, approver: Approver | None = None, **again: Unpack[Again]) -> RunResult:
        """Continue a run that was interrupted or killed, from its last step; a waiting one still waits."""
        return self._continue(run_id, None, None, approver, again)

    def _continue(
        self, run_id: str, answer: bool | None, step: int | None, approver: Approver | None, again: Again
    ) -> RunResult:
        planner = again.get("planner")
        overrides = again.get("policy"), None if planner is None else as_planner(planner), approver or self._approver
        return self._advance(lambda: continue_run(self, run_id, answer, step, *overrides))

    def _advance(
        self, advance: Callable[[], RunResult], check: bool | None = None, votes: int | None = None
    ) -> RunResult:
        """Advance a run to its end, and judge it in a test."""
        runs = len(self.runs)
        try:
            result = advance()
            if self._test_id and result.outcome is Outcome.DONE:
                self._judge_task(result, votes)
        except BaseException as exc:
            if len(self.runs) > runs:
                self._secrets.everything.hide_in_error(exc)
                if isinstance(exc, InfraError) and not isinstance(exc, ProductFailed):
                    self.failed_task = exc
            raise
        if (self._check if check is None else check) and result.outcome is not Outcome.DONE:
            raise error_for_run(result)
        return result

    def _judge_task(self, result: RunResult, votes: int | None) -> None:
        """Judge the claims of a task that is done, or that it is done. Raises TaskFailed, InfraError."""
        started = self._newest_run.started if self._newest_run else None
        if started is None or started.body_checks:
            return
        if started.expect:
            verdicts = [self.assess(claim, votes=votes) for claim in started.expect]
            if not all(verdict.holds for verdict in verdicts):
                kind = error_for_verdicts([verdict.kind for verdict in verdicts])
                raise kind(format_run_failure(claims.format_verdicts(verdicts), result))
        else:
            end = self.verify_end_state(result.task, votes=votes)
            if not end.holds:
                kind = AgentFailed if end.kind == "fails" else Inconclusive
                raise kind(format_run_failure(claims.format_end_state(end, result.task), result))
        self.failed_task = None

    def _why_unjudged(self, task: str, expect: Sequence[str]) -> str:
        """Return why no judge can decide a task and its claims; "" if one can."""
        hide, recorded = self._secrets.declared.hide, self._recorded
        if recorded and (run := recorded.recorded_run(hide(task))):
            why = run.why_unjudged([hide(claim) for claim in expect])
            if not why or recorded.mode == "replay":
                return why and f"{why}, and a replay asks no judge"
        elif recorded and recorded.mode == "replay":
            return ""  # the run says that its recording is missing
        if not (self._custom_judge or build.judge_of(self.settings)):
            return "no judge is set"
        if not self._custom_judge:
            self._build_judge(self.settings)  # raises KeyMissing
        return ""

    def end_body(self) -> None:
        """Note the end of the test's body: a replay's last screen must still be shown. Raises RecordingDrifted."""
        if self._recorded:
            self._recorded.end_body(self.controller)

    def _emit(self, event: RunEvent) -> None:
        """Pass an event on to the newest run; before the first, to the budget and all observers."""
        if self._newest_run:
            self._newest_run.emit(event)
            return
        event = self.budget.receive(event)
        for observer in self._observers:
            observer.observe(event)

    def _record(self, event: Judged | Extracted, frames: Sequence[Frame]) -> None:
        """Keep the frames of a verdict or a value in the newest run directory, and emit it without secrets."""
        if self._newest_run:
            for frame in frames:
                self._newest_run.directory.store(frame)
        self._emit(self._secrets.everything.hide_in(event))

    @_noting_tool_failures
    def verify(self, claim: str, *, within_s: float = 0.0, votes: int | None = None) -> Verdict:
        """Judge a claim about the screen; raise an error unless it holds.

        To check that something is absent, claim its absence: "no error is shown". With `within_s`, the claim is judged
        again whenever the screen has changed and become stable, until it holds or the seconds are over. `votes` is odd:
        the judge is asked until a majority of that many votes agrees. Raises ProductFailed if the claim fails,
        Inconclusive if the judge is unsure; SettingsError before the judge is asked; InfraError if the judge or the
        desktop is not there.
        """
        return claims.held(claims.assess(self, claim, within_s=within_s, votes=votes))

    @_noting_tool_failures
    def assess(self, claim: str, *, within_s: float = 0.0, votes: int | None = None) -> Verdict:
        """Judge a claim as `verify` does, and return any verdict: branch on its `kind`. Raises no TaskFailed."""
        return claims.assess(self, claim, within_s=within_s, votes=votes)

    @_noting_tool_failures
    def saw(self, claim: str, *, steps: int = 1, votes: int | None = None) -> Verdict:
        """Judge whether a claim held at any time in the last `steps` steps; raise an error unless it did.

        The judge looks at the screen now and at up to `claims.MAX_FRAMES` kept frames, newest first, transient frames
        too. If the claim seems to hold on one, `claims.CONFIRMING_VOTES` votes must confirm it. Raises Inconclusive if
        it holds on none and the judge is unsure about one, else ProductFailed, and as `verify` does.
        """
        return claims.saw(self, claim, steps=steps, votes=votes)

    @_noting_tool_failures
    def check(self, claim: str | object, message: str = "", *, within_s: float = 0.0, votes: int | None = None) -> bool:
        """Note a soft check, which fails the test only at its end. Return whether it is met.

        A string is a claim, as in `assess`. A verdict is taken as it is. Anything else is a condition, and `message`
        says what it means.
        """
        if isinstance(claim, str):
            claim = self.assess(claim, within_s=within_s, votes=votes)
        if not message and not isinstance(claim, Verdict):
            raise SettingsError(
                f"`check` needs a `message` for the condition {claim!r}, got {message!r}. Write, for example, "
                'check(total == 3, "the total is 3")'
            )
        kind: VerdictKind = claim.kind if isinstance(claim, Verdict) else "holds" if claim else "fails"
        line = ": ".join(filter(None, [message, str(claim) if isinstance(claim, Verdict) else ""]))
        self._soft_checks.append((kind, line))
        return kind == "holds"

    def unmet(self) -> TaskFailed | None:
        """Return one error for all unmet soft checks, once: ProductFailed if one fails, else Inconclusive."""
        checks, self._soft_checks = self._soft_checks, []
        failed = [(kind, line) for kind, line in checks if kind != "holds"]
        if not failed:
            return None
        lines = [f"{len(failed)} of {len(checks)} checks not met", *(line for _, line in failed)]
        return error_for_verdicts([kind for kind, _ in failed])("\n  ".join(lines))

    @_noting_tool_failures
    def extract(self, model: type[T], question: str) -> T:
        """Read a value off the screen: a pydantic model, or any other type that pydantic can make from JSON.

        The newest of `extracted` has the reason and the region. Raises SettingsError, before the judge is asked, for a
        type without a JSON Schema; Inconclusive if no value of the type was read; InfraError.
        """
        return claims.extract(self, model, question)

    @_noting_tool_failures
    def verify_end_state(self, task: str, *, votes: int | None = None) -> Verdict:
        """Judge whether the screen shows that a task is done, and return any verdict."""
        return claims.verify_end_state(self, task, votes=votes)

    @_noting_tool_failures
    def perform(self, action: DesktopAction) -> Frame:
        """Perform one action. Raises ActionError, DesktopError."""
        return self._act(self.controller.perform, action)

    @_noting_tool_failures
    def click(self, x: int, y: int, button: Button | int = "left", count: int = 1) -> Frame:
        """Click at a point of the screen, in pixels. A button may be its number, 1 to 3."""
        return self.perform(Click(x, y, button_of(button), count))

    @_noting_tool_failures
    def type_text(self, text: str, *, press_enter: bool = False, clear_first: bool = False) -> Frame:
        """Type at the focus. `<secret:NAME>` is typed as the secret's value."""
        check_declared(text, self._secrets.declared.reveal)
        revealed = self._secrets.declared.reveal(text)
        action = TypeText(revealed, press_enter=press_enter, clear_first=clear_first)
        return self._act(functools.partial(perform_text, self.controller), action)

    @_noting_tool_failures
    def key(self, combination: str) -> Frame:
        """Press keys together: `enter`, `ctrl+a`."""
        return self.perform(KeyCombo((combination,)))

    @_noting_tool_failures
    def scroll(self, x: int, y: int, direction: Direction, clicks: int = 3) -> Frame:
        """Turn the wheel at a point."""
        return self.perform(Scroll(x, y, direction, clicks))

    @_noting_tool_failures
    def drag(self, x: int, y: int, to_x: int, to_y: int) -> Frame:
        """Drag with the left button from one point to another."""
        return self.perform(Drag(x, y, to_x, to_y))

    def _act(self, perform: Callable[..., None], action: DesktopAction) -> Frame:
        """Perform an action of the test; the first one waits until the program's first screen is stable."""
        if self._recorded:
            self._recorded.leave()
        self._await_stable(self.controller)
        perform(action)
        if self._newest_run:
            self._newest_run.frame_steps = ()
        self.controller.settle()
        return self.controller.frame()

    @_noting_tool_failures
    def screenshot(self) -> bytes:
        """Return the screen now, as PNG."""
        return self.controller.frame().png

    @property
    def server(self) -> str:
        """The address of the desktop."""
        return self._desktop.server if self._desktop else self.settings.server

    @property
    def controller(self) -> Controller:
        """The desktop's controller, connected on first use. Raises DesktopError."""
        settings = build.settings_at(self.settings, self.server)
        if self._connected_as and not build.agree(self._connected_as, settings, build.CONNECTION_SETTINGS):
            if self._controller is not None:
                self._controller.close()
            self._controller = None
        if self._controller is None:
            self._connected_as, self._is_stable = settings, False
            controller = build.connect(
                settings,
                self._password,
                may_stay_blank=self._desktop is None,
                program_exit_reason=lambda: failure_of(self._desktop).text if self._desktop else "",
                read_file=self._file_desktop.read_file,
                tap=self._messages if settings.rfb_log else None,
            )
            self._controller = self._redacted(controller, settings.server if settings.scope != "test" else "")
        return self._controller

    @property
    def live_screen(self) -> Framebuffer | None:
        """The pixels as the desktop sends them; None while it is not connected, or if secrets may be on them."""
        screen: Framebuffer | None = None
        if self._controller is not None and (not self._hides_typed or self.settings.show_secrets):
            screen = getattr(self._controller, "screen", None)  # a user's own controller may have none
        return screen

    def _redacted(self, controller: Controller, shared: str = "") -> Controller:
        """Return the controller with redaction, if the test has secrets; on a `shared` desktop, also of others'."""
        if not self._hides_typed or self.settings.show_secrets:
            return controller
        redactions = _REDACTIONS.setdefault(shared, Redactions()) if shared else Redactions()
        masks = self._recorded.masks if self._recorded else ()
        return RedactingController(controller, self._secrets.everything.hide, redactions, masks)

    def _await_stable(self, acting: Controller) -> None:
        """Wait before the first action until the screen is stable, as after any action. Raises DesktopError.

        A replay or a user that is `acting` waits on its own.
        """
        if acting is self.controller and not self._is_stable:
            acting.settle()
            self._is_stable = True

    @property
    def planner(self) -> Planner:
        """The given planner, or the one that the settings name. Raises SettingsError."""
        self._newest_planner = self._custom_planner
        if self._newest_planner is None:
            self._newest_planner = self._build_planner(self.settings, tuple(self._functions.values()))
        return self._newest_planner

    @property
    def judge(self) -> Judge:
        """The given judge, or the one that the settings name. Recorded evidence takes precedence."""

        def live() -> Judge:
            return self._custom_judge if self._custom_judge is not None else self._build_judge(self.settings)

        if self._recorded is None:
            return live()
        return self._recorded.judge(live, lambda: self.controller, self._secrets.everything.hide)

    def __repr__(self) -> str:
        return f"<VncUseAgent at {without_query(self.server)}>"

    def close(self) -> None:
        """End the connection; a second call does nothing."""
        if isinstance(self._newest_planner, EndsRun):
            self._newest_planner.end_run()
        if self._controller is not None:
            self._controller.close()

    def __exit__(self, *error: object) -> None:
        self.close()
