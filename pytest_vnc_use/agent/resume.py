"""Whether an agent may go on with a run: it is the user's own, and the agent has all that the run was started with.

A run folder holds the names of secrets and functions, never themselves; nor a planner, a policy or a judge that was an
object. What is missing must be given again: without it, it would be another run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TypedDict, Union

from typing_extensions import Unpack

from pytest_vnc_use.errors import RunFolderError, SettingsError, VncUseError
from pytest_vnc_use.runs.folder import Trace
from pytest_vnc_use.runs.transcript import plain
from pytest_vnc_use.safety.rules import Policy
from pytest_vnc_use.settings.settings import FIELDS, Settings
from pytest_vnc_use.types import Observation, RunResult, RunStarted
from pytest_vnc_use.types.protocols import Approver, Planner

_HARMLESS = frozenset(
    {"server", "screen_size", "runs_dir", "steps", "seconds", "scope", "results", "repeat", "record", "healed"}
)


AnyPlanner = Union[Planner, Callable[[Observation], object]]


class Again(TypedDict, total=False):
    """What was a run's own, and is given again; and whether one from elsewhere is trusted."""

    policy: Policy | None
    planner: AnyPlanner | None
    trust: bool


class GoesOn(ABC):
    """The part of an agent that goes on with a run."""

    @abstractmethod
    def _go_on(
        self, run_id: str, answer: bool | None, step: int | None, approver: Approver | None, again: Again
    ) -> RunResult:
        """Go on with a run; `answer` is a person's yes or no where it waits for one."""

    def approve(
        self, run_id: str, *, step: int | None = None, approver: Approver | None = None, **again: Unpack[Again]
    ) -> RunResult:
        """Carry out the action that a run waits with, and go on; also in another process than the run's first.

        With `step`, only if it is that step's action that the run waits with. Another process must be given again all
        that the run was started with; what was the run's own, as `policy` or `planner` here. `trust=True` goes on also
        with a run that this user did not make on this machine. Raises RunFolderError, SettingsError.
        """
        return self._go_on(run_id, True, step, approver, again)

    def deny(self, run_id: str, *, step: int | None = None, **again: Unpack[Again]) -> RunResult:
        """Refuse the action that a run waits with; the run ends as `denied`, or goes on where the policy says so."""
        return self._go_on(run_id, False, step, None, again)

    def resume(self, run_id: str, *, approver: Approver | None = None, **again: Unpack[Again]) -> RunResult:
        """Go on with a run that was interrupted or killed, from its last step; a waiting one still waits."""
        return self._go_on(run_id, None, None, approver, again)


@dataclass(frozen=True)
class Given:
    """What an agent has: names of secrets and functions, and the planner it was given; else `would_plan` makes one."""

    secrets: Collection[str]
    functions: Collection[str]
    planner: Planner | None
    would_plan: Callable[[], Planner]
    has_policy: bool
    has_judge: bool


def check_origin(trace: Trace, *, trust: bool) -> None:
    """Raises SettingsError for a run that came from elsewhere, or was changed, where that is not to be trusted."""
    if trace.is_own or trust:
        return
    named = ", ".join(_named_settings(trace.started)) or "nothing beside its task"
    raise SettingsError(
        f"run {plain(trace.path.name)!r} was not made by you on this machine, or was changed since; it names {named}; "
        "where you trust that, and what it is about to do, say --trust (trust=True)"
    )


def _named_settings(started: RunStarted) -> Iterator[str]:
    """The settings that it would go on with, where they are not the defaults."""
    if started.server:
        yield f"server={plain(started.server)!r}"
    for name, value in started.settings.items():
        default = FIELDS[name].default if name in FIELDS else None
        if name not in _HARMLESS and value and value not in (default, list(default) if default == () else default):
            yield f"{plain(name)}={plain(str(value))[:200]!r}"


def check_step(trace: Trace, step: int | None) -> None:
    """Raises RunFolderError where it is not this step that the run waits with."""
    if step is not None and (trace.asked is None or trace.asked.number != step):
        run_id = trace.path.name
        raise RunFolderError(f"run {run_id!r} does not wait with step {step!r}; look at what it waits with now")


def check_needs(started: RunStarted, settings: Settings, given: Given) -> None:
    """Raises SettingsError that names all that the run was started with and is not given again, and how to give it."""
    missing = "; ".join(_missing(started, settings, given))
    if missing:
        raise SettingsError(f"run {started.run_id!r} cannot go on as it was started: {missing}")


def _missing(started: RunStarted, settings: Settings, given: Given) -> Iterator[str]:
    for name in sorted(set(started.secrets) - set(given.secrets)):
        yield f"its secret {name!r} is not given; give it again with --secret {name} (secrets={{{name!r}: …}})"
    if functions := sorted(set(started.functions) - set(given.functions)):
        yield f"its functions {', '.join(functions)} are not given; give them again as functions=[…] in Python"
    if given.planner is None:
        yield from _other_planner(started, settings, given.would_plan)
    if started.own_policy and not given.has_policy:
        yield "it was started with a policy of its own; give it again as policy=…"
    elif (policy := started.settings.get("policy")) and not (settings.policy or given.has_policy):
        yield f"it was ruled by the policy {plain(str(policy))!r}; give it again as policy=…"
    if started.own_judge and started.expect and not given.has_judge:
        yield "its claims were for a judge of its own; give it again as judge=…"


def _other_planner(started: RunStarted, settings: Settings, would_plan: Callable[[], Planner]) -> Iterator[str]:
    """What is other of the planner that the settings name; the run was planned by who is named in `started`."""
    try:
        name = would_plan().name
    except VncUseError:  # there is none, or its key is missing, which is told as such where it is the right one
        name = started.planner if settings.planner and started.planner.startswith(settings.planner) else ""
    if name != started.planner:
        would = f"and would be by {plain(name)!r} now" if name else "and now nobody could"
        yield f"it was planned by {plain(started.planner)!r}, {would}; give it again as planner=… (--planner NAME)"
    if excluded := sorted(set(started.settings.get("exclude") or ()) - set(settings.exclude)):
        yield f"its planner was not to use {', '.join(map(plain, excluded))}; give that again as excluded_actions=[…]"
