"""The checks before a run continues: everything that it was started with is there again.

A run folder holds the names of secrets and functions, never their values. It holds no planner, policy or judge object.
These must be given again: without them it would be another run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from pytest_vnc_use.errors import RunFolderError, SettingsError, VncUseError
from pytest_vnc_use.runs.folder import Trace
from pytest_vnc_use.runs.takeover import ONLY_REPLAYED, live_name
from pytest_vnc_use.runs.transcript import plain
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import RunStarted
from pytest_vnc_use.types.protocols import Planner


@dataclass(frozen=True)
class Given:
    """The objects that an agent was given. `would_plan` makes the planner if none was given."""

    secrets: Collection[str]
    functions: Collection[str]
    planner: Planner | None
    would_plan: Callable[[], Planner]
    has_policy: bool
    has_judge: bool


def check_unfinished(trace: Trace) -> None:
    """Raise RunFolderError if the run is over; one that broke is not."""
    outcome = trace.ended.outcome if trace.ended else None
    if outcome is not None:
        run_id = trace.path.name
        raise RunFolderError(
            f"run {run_id!r} is over, it ended as {str(outcome)!r}; only an unfinished run can continue"
        )


def check_step(trace: Trace, step: int | None) -> None:
    """Raise RunFolderError if the run does not wait for an answer about this step."""
    if step is not None and (trace.asked is None or trace.asked.number != step):
        run_id = trace.path.name
        raise RunFolderError(
            f"run {run_id!r} does not wait for an answer about step {step!r}; look which step it waits for now"
        )


def check_needs(started: RunStarted, settings: Settings, given: Given) -> None:
    """Raise SettingsError if something is missing that the run was started with. It says how to give it again."""
    missing = "; ".join(_missing(started, settings, given))
    if missing:
        raise SettingsError(f"run {started.run_id!r} cannot continue as it was started: {missing}")


def _missing(started: RunStarted, settings: Settings, given: Given) -> Iterator[str]:
    for name in sorted(set(started.secrets) - set(given.secrets)):
        yield f"its secret {name!r} is missing: give it again with --secret {name} (secrets={{{name!r}: …}})"
    if functions := sorted(set(started.functions) - set(given.functions)):
        yield f"its functions {', '.join(functions)} are missing: give them again as functions=[…] in Python"
    if given.planner is None:
        yield from _other_planner(started, settings, given.would_plan)
    if started.own_policy and not given.has_policy:
        yield "it was started with a policy object: give it again as policy=…"
    elif (policy := started.settings.get("policy")) and not (settings.policy or given.has_policy):
        yield f"its policy was {plain(str(policy))!r}: give it again with --policy FILE (policy=…)"
    if started.own_judge and started.expect and not given.has_judge:
        yield "it was started with a judge object: give it again as judge=…"


def _other_planner(started: RunStarted, settings: Settings, would_plan: Callable[[], Planner]) -> Iterator[str]:
    """Yield how the current planner differs from the one that planned the run, or went on where its replay drifted."""
    before = live_name(started.planner)
    if before == ONLY_REPLAYED:
        yield "its planner was a recording. Run its test again, or pass a planner (planner=…, --planner NAME)"
        return
    try:
        name = would_plan().name
    except VncUseError:  # there is none, or its key is missing; the right planner reports a missing key itself
        name = before if settings.planner and before.startswith(settings.planner) else ""
    if name != before:
        would = f"but now it would be {plain(name)!r}" if name else "but now there is none"
        yield (f"its planner was {plain(before)!r}, {would}. Pass the same planner again (planner=…, --planner NAME)")
    if excluded := sorted(set(started.settings.get("exclude") or ()) - set(settings.exclude)):
        yield (
            f"its planner was not allowed to use {', '.join(map(plain, excluded))}: give that again as "
            "excluded_actions=[…]"
        )
