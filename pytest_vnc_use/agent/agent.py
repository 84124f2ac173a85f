"""`VncUseAgent`: carries out a task on a desktop, judges claims about it, and lends its hands to a test."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import lru_cache, partial
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from pytest_vnc_use import assembly, faults
from pytest_vnc_use.agent import resume
from pytest_vnc_use.agent.claims import Claims
from pytest_vnc_use.agent.manual_actions import Hands
from pytest_vnc_use.agent.resume import Again, AnyPlanner, Given, GoesOn
from pytest_vnc_use.agent.reviewer import Reviewer
from pytest_vnc_use.body_checks.code_places import places_now
from pytest_vnc_use.costs.budget import Budget
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.loop import graph
from pytest_vnc_use.loop.actor import LONGEST_TOLD, Actor, check_known, functions_by_name, page_url_of
from pytest_vnc_use.loop.history import History
from pytest_vnc_use.loop.lock import only_driver
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.planners.local.reenact import Reenactment
from pytest_vnc_use.recordings.session import RecordedTest
from pytest_vnc_use.runs.folder import RunFolder, new_run_id, read_trace, to_json
from pytest_vnc_use.runs.logger import Redactor, RunLogger
from pytest_vnc_use.runs.transcript import transcript
from pytest_vnc_use.runs.uitask_trace import read_execution, secrets_of
from pytest_vnc_use.safety.rules import Policy, ReviewContext
from pytest_vnc_use.settings.paths import absolute_files
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.triage import failure_text
from pytest_vnc_use.triage.rules import RunEnd, broken_end, end_of, error_for_run
from pytest_vnc_use.types import (
    NO_FRAME,
    CUAState,
    Extracted,
    Frame,
    Judged,
    Limits,
    ModelAsked,
    Outcome,
    Report,
    RunEnded,
    RunEvent,
    RunResult,
    RunStarted,
    Step,
    Usage,
    Verdict,
)
from pytest_vnc_use.types.protocols import Approver, Controller, Desktop, Judge, Planner, RunObserver
from pytest_vnc_use.verification.verifier import check_asked, verify_function

Self = TypeVar("Self", bound="VncUseAgent")


class VncUseAgent(Claims, Hands, GoesOn):
    """Drives one VNC desktop. Connects on first use; close it, or use it in a `with` statement.

    `vnc_server` is `host::port`, `host:display` or the path of a unix socket. `excluded_actions` are names of the
    model's actions that it may not use. With `hitl_mode`, an action that the policy file does not decide, or says to
    ask about, makes `run` return `Outcome.WAITING`; without, it is denied. A `policy` given as an object decides as its
    own `unmatched` says. `functions` are Python callables with a docstring and type hints that the model may call by
    name; where None, those that the settings `cdp` and `elements` stand for. `secrets` maps a name to its value: in a
    task, write `<secret:NAME>`, which is also what the model, the run folder and the reports see. With `check`, a run
    that does not end as done raises the class of its triage.

    `desktop` is what is driven, where that is known: it is connected to where it is then, also after its `reset()`, and
    once it or its program has ended, a lost connection is not made anew. `planner` may also be a callable, see
    callables.py; it, `judge` and `controller` replace what would be built from the other arguments. `settings`
    may be replaced: all but `start_seconds` and `lease_seconds` holds from the next run, look or claim on.
    `recorded` is replayed, or recorded anew.
    """

    _connected_as: Settings | None = None
    _logger: RunLogger | None = None
    _newest_steps: tuple[Step, ...] = ()

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
        observers: Sequence[RunObserver] = (),
        test_id: str = "",
        check: bool = False,
        desktop: Desktop | None = None,
        budget: Budget | None = None,
        recorded: RecordedTest | None = None,
    ) -> None:
        super().__init__()
        given = {"server": vnc_server, "screen_size": screen_size, "steps": step_limit, "seconds": seconds_timeout}
        settings = settings or assembly.settings_of({**given, "exclude": excluded_actions, "planner": "gemini"})
        self.settings = absolute_files(settings, Path.cwd())
        self._password, self._secrets = vnc_password, dict(secrets or {})
        self._request_s_at_first = self.settings.request_seconds
        self._declared = Redactor(self._secrets, numbers=False)
        self._start_redactor = Redactor({**self._secrets, **assembly.api_keys()})
        self._redactor = Redactor({**self._secrets, **assembly.ambient_secrets(self.settings, vnc_password)})
        self._reviewer = Reviewer(hitl_mode=hitl_mode)
        self._policy, self._has_policy = policy or assembly.build_policy(self.settings, ask=hitl_mode), bool(policy)
        self._own_policies: dict[str, Policy] = {}
        self._own_planners: dict[str, Planner] = {}
        self._place = desktop or assembly.given_desktop(self.settings)
        offered = assembly.desktop_functions(self.settings, self._place) if functions is None else functions
        self._functions = functions_by_name(offered)
        self._planner = assembly.given_planner(planner) if planner is not None else None
        self._build_planner = lru_cache(1)(assembly.build_planner)
        self._build_judge = lru_cache(1)(assembly.build_judge)
        self._judge, self._controller, self._recorded = judge, controller, recorded
        self._observers = [*observers, recorded] if recorded else [*observers]
        self._test_id, self._check, self._desktop = test_id, check, desktop
        self.budget = budget or assembly.build_budget(self.settings)
        """What this agent's models have used so far, and may use."""
        self.runs: list[Path] = []
        self.ends: list[RunEnd] = []
        """Run folders of this agent, and how its runs ended, oldest first."""

    # --- tasks -------------------------------------------------------------------------------------------------------

    def run(
        self,
        task: str,
        *,
        expect: Sequence[str] | None = (),
        limits: Limits | None = None,
        policy: Policy | None = None,
        planner: AnyPlanner | None = None,
        approver: Approver | None = None,
        check: bool | None = None,
        run_id: str | None = None,
    ) -> RunResult:
        """Carry out a task. The result's outcome says how the run ended, not that the task was achieved: `verify` does.

        `expect` is written down with the run, None where the test itself checks what comes of it; nothing judges it
        here. `limits`, `policy`, `planner` and `check` hold for this run in place of the agent's. `approver` is asked
        where an action waits for a person; without one the run returns as `WAITING`. Raises TaskFailed where `check`
        asks for it, InfraError where a tool cannot be used, SettingsError for a task or a claim that is none.
        """
        if not task.strip():
            raise SettingsError(f"the task must be a sentence, got {task!r}")
        for claim in expect or ():
            check_asked(claim, votes=1)
        folder = RunFolder.create(Path(self.settings.runs_dir), run_id or new_run_id())
        started = RunStarted(
            run_id=folder.path.name,
            task=self._declared.hide(task),
            started_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            planner="",
            screen=NO_FRAME,
            server=self.server,
            test_id=self._test_id,
            limits=limits or Limits(self.settings.steps, self.settings.seconds, self.settings.stall),
            expect=tuple(expect or ()),
            body_checks=expect is None,
            settings=to_json(self.settings),
            own_policy=policy is not None or self._has_policy,
            own_judge=self._judge is not None,
            secrets=tuple(self._secrets),
            functions=tuple(self._functions),
        )
        self._keep_own(folder.path.name, policy, planner)
        with only_driver(folder):
            result = self._drive(folder, started, History(), approver, lambda run: run.start(started.task))
        return self._checked(result, check)

    def reenact(self, path: Path, *, approver: Approver | None = None, check: bool | None = None) -> RunResult:
        """Carry out the actions of a run folder or its execution.json again, unchecked, up to the first that fails.

        Nothing is judged. Raises as `run` does, and SettingsError where a secret of the trace is none of the agent's.
        """
        execution = read_execution(path)
        secrets_of(execution, self._secrets)
        again = Reenactment(execution, self._functions)
        limits = again.limits(self.settings.seconds)
        return self.run(again.task, limits=limits, planner=again, approver=approver, check=check)

    def _go_on(
        self, run_id: str, answer: bool | None, step: int | None, approver: Approver | None, again: Again
    ) -> RunResult:
        folder, trust = RunFolder.open(Path(self.settings.runs_dir, run_id)), again.get("trust", False)
        with only_driver(folder):
            trace = read_trace(folder.path)
            resume.check_origin(trace, trust=trust)
            resume.check_step(trace, step)
            ends_here = answer is False and trace.asked is not None and trace.asked.ruling.ends_run
            self._keep_own(run_id, again.get("policy"), assembly.no_planner() if ends_here else again.get("planner"))
            if not ends_here and folder.path not in self.runs:
                has_policy = self._has_policy or run_id in self._own_policies
                planner, has_judge = self._own_planners.get(run_id) or self._planner, self._judge is not None
                given = Given(self._secrets, self._functions, planner, lambda: self.planner, has_policy, has_judge)
                resume.check_needs(trace.started, self.settings, given)
                self.budget.recall(trace.exchanges, len(trace.steps))
            history = History.of(trace)
            result = self._drive(folder, trace.started, history, approver, lambda run: run.resume(answer), trust=trust)
        return self._checked(result, None)

    def _keep_own(self, run_id: str, policy: Policy | None, planner: AnyPlanner | None) -> None:
        """What holds for one run in place of the agent's."""
        if policy:
            self._own_policies[run_id] = policy
        if planner is not None:
            self._own_planners[run_id] = assembly.given_planner(planner)

    def _checked(self, result: RunResult, check: bool | None) -> RunResult:
        if (self._check if check is None else check) and result.outcome is not Outcome.DONE:
            raise error_for_run(result)
        return result

    def _drive(
        self,
        folder: RunFolder,
        started: RunStarted,
        history: History,
        approver: Approver | None,
        advance: Callable[[graph.TaskGraph], CUAState],
        *,
        trust: bool = False,
    ) -> RunResult:
        """Advance a run until it ends or waits; whatever breaks it is written down."""
        self._logger = RunLogger(folder, self._redactor, self._start_redactor)
        self.runs.append(folder.path)
        self._newest_steps, result = (), None
        emit = partial(self._tell, self._logger)
        try:
            run = graph.TaskGraph(dataclasses.replace(self._parts(folder, started, emit), trust=trust), history)
            self._reviewer.begin(folder.path.name, self.controller, history.steps)
            state = advance(run)
            while "outcome" not in state:
                question = self._redactor.hide_in(graph.asked(state))
                emit(question)
                if approver is None:
                    break
                state = run.resume(approver.approve(question))
        except BaseException as exc:  # whatever ended the run, Ctrl-C included, is written down before it goes on
            told = cut(self._redactor.hide(faults.named(exc)), LONGEST_TOLD)
            way = cut(self._redactor.hide(traceback.format_exc()), 10 * LONGEST_TOLD)
            emit(RunEnded(None, "the run broke", told, way))
            self.ends.append(broken_end(exc, history.steps))
            self._redactor.hide_in_error(exc)
            raise
        else:
            return (result := self._result(state, folder, started.task, history, emit))
        finally:
            self._end(len(self.runs), started, result, places_now() if self._test_id else ())

    def _parts(self, folder: RunFolder, started: RunStarted, emit: Callable[[RunEvent], None]) -> graph.Parts:
        policy = self._own_policies.get(started.run_id, self._policy)
        context = ReviewContext(test_id=started.test_id, task=started.task)
        planner, controller = self._own_planners.get(started.run_id) or self.planner, self.controller
        if self._recorded and started.run_id not in self._own_planners:
            planner, controller = self._recorded.begin(started, planner, controller, folder, emit)
        self._await_rest(controller)
        verify = verify_function(lambda: self.judge, self.controller.frame, emit, self._declared.hide)
        functions = {"verify": verify, **self._functions}
        return graph.Parts(
            actor=Actor(
                controller,
                folder,
                functions,
                self._declared.reveal,
                self.settings.step_delay,
                page_url_of(self.controller),
            ),
            planner=planner,
            review=partial(self._reviewer.review, policy, context),
            announce=lambda screen: emit(dataclasses.replace(started, screen=screen, planner=planner.name)),
            emit=emit,
            limits=started.limits,
            to_placeholders=self._declared.hide_in,
            hide=self._redactor.hide_in,
            crash=lambda: failure_text.crash_of(self._desktop) if self._desktop else "",
            watch=self.settings.watch,
            request_s=self._request_s,
        )

    def _result(
        self, state: CUAState, folder: RunFolder, task: str, history: History, emit: Callable[[RunEvent], None]
    ) -> RunResult:
        if "outcome" in state:
            outcome, message = Outcome(state["outcome"]), state["message"]
            emit(RunEnded(outcome, message))
            params = self._redactor.hide_json(history.turns[-1].decision.params) if history.turns else {}
        else:
            outcome, message, params = Outcome.WAITING, graph.asked(state).ruling.explanation, {}
        usage = sum((turn.decision.usage for turn in history.turns), Usage())
        self._newest_steps = steps = tuple(history.steps)
        run = RunResult(folder.path.name, outcome, message, folder.path, task, steps, usage, transcript(steps), params)
        self.ends.append(end_of(run, replayed=bool(self._recorded and self._recorded.has_replayed(run.run_id))))
        return run

    def _tell(self, logger: RunLogger | None, event: RunEvent) -> None:
        event = self.budget.hear(event)
        if isinstance(event, ModelAsked):
            return
        self._reviewer.hear(event)
        if logger:
            logger.observe(event)
        for observer in self._observers:
            observer.observe(event)

    # --- claims and hands --------------------------------------------------------------------------------------------

    @property
    def _report(self) -> Report:
        return partial(self._tell, self._logger)

    def _record(self, event: Judged | Extracted, frames: Sequence[Frame]) -> None:
        if self._logger:
            for frame in frames:
                self._logger.folder.store(frame)
        self._tell(self._logger, self._redactor.hide_in(event))

    def _hidden(self, verdict: Verdict) -> Verdict:
        return self._redactor.hide_in(verdict)  # type: ignore[no-any-return]  # of the same class

    def _frames_of_run(self, steps: int) -> Iterator[Frame]:
        for step in reversed(self._newest_steps[-steps:]):
            for ref in (step.frame_after, *reversed(step.passed)):
                yield Frame(ref, RunFolder(self.runs[-1]).load_png(ref))

    def _concealed(self, text: str) -> str:
        return self._declared.hide(text)

    def _typed(self, text: str) -> str:
        check_known(text, self._declared.reveal)
        return self._declared.reveal(text)

    def _will_act(self) -> None:
        if self._recorded:
            self._recorded.leave()

    def _will_judge(self) -> None:
        if self._recorded:
            self._recorded.conclude()

    def end_body(self) -> None:
        """Say that the test's body is over: a replay's end must still be on the screen. Raises RecordingDrifted."""
        if self._recorded:
            self._recorded.end_body(self.controller)

    def _acted(self) -> None:
        self._newest_steps = ()
        self.ends[-1:] = [dataclasses.replace(end, did=end.did + 1) for end in self.ends[-1:]]

    # --- parts, built on first use -----------------------------------------------------------------------------------

    @property
    def controller(self) -> Controller:
        there = dataclasses.replace(self.settings, server=self.server)
        if self._connected_as and not assembly.same_connection(self._connected_as, there):
            self.close()
            self._controller = None
        if self._controller is None:
            self._connected_as, self._is_at_rest = there, False
            read_file = self._place.read_file
            self._controller = assembly.connect(there, self._password, program_fault=self._fault, read_file=read_file)
        return self._controller

    def _fault(self) -> str:
        return failure_text.fault_of(self._desktop).text if self._desktop else ""

    @property
    def server(self) -> str:
        """Where the desktop is that is driven."""
        return self._desktop.server if self._desktop else self.settings.server

    @property
    def planner(self) -> Planner:
        """The one that was given, or what the settings say by now."""
        if self._planner is not None:
            return self._planner
        return self._build_planner(self.settings, tuple(self._functions.values()))

    @property
    def _request_s(self) -> float | None:
        """How long one request may take, where the settings say another time than when the planner was given."""
        now = self.settings.request_seconds
        return now if now != self._request_s_at_first else None

    @property
    def judge(self) -> Judge:
        """The one that was given, or what the settings say by now."""

        def live() -> Judge:
            return self._judge if self._judge is not None else self._build_judge(self.settings)

        return self._recorded.judge(live, lambda: self.controller, self._redactor.hide) if self._recorded else live()

    def __repr__(self) -> str:
        return f"<VncUseAgent at {self.server}>"

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
