"""`VncUseAgent`: carries out tasks on a desktop, judges claims about it, and carries out a test's own actions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from typing_extensions import Unpack

from pytest_vnc_use import assembly
from pytest_vnc_use.agent.parts import AgentParts, Own
from pytest_vnc_use.agent.tasks import Again as Again, AnyPlanner as AnyPlanner
from pytest_vnc_use.costs.budget import Budget
from pytest_vnc_use.errors import InfraError, ProductFailed, TaskFailed
from pytest_vnc_use.plain_text import without_query
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.safety.rules import Policy
from pytest_vnc_use.settings.paths import absolute_files
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Button, DesktopAction, Direction, Frame, Limits, RunResult, Verdict
from pytest_vnc_use.types.protocols import Approver, Controller, Desktop, Judge, Planner, RunObserver

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
        self.settings = absolute_files(settings or assembly.settings_of(named), Path.cwd())
        self.budget = budget or assembly.build_budget(self.settings)
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
