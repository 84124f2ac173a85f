"""Start and continue runs of a session.

A run that waits or was interrupted continues from its directory, in this process or
another. The directory holds names of secrets and functions, never their values, and no
planner, policy or judge object: they are given again to continue the run.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from pytest_vnc_use import clock
from pytest_vnc_use.agent.act import MAX_TEXT_LENGTH
from pytest_vnc_use.agent.graph import CHECKPOINTS, NO_CHECKPOINT, RunGraph
from pytest_vnc_use.agent.nodes import Run, question_in
from pytest_vnc_use.agent.session import Session
from pytest_vnc_use.errors import (
    RunDirectoryError,
    SettingsError,
    VncUseError,
    causes,
)
from pytest_vnc_use.plain_text import cut, plain, without_query
from pytest_vnc_use.planners.local.scripted import NoPlanner
from pytest_vnc_use.runs.directory import (
    RunDirectory,
    new_run_id,
    path_of,
    read_trace,
    to_json,
)
from pytest_vnc_use.runs.transcript import ONLY_REPLAYED, live_name
from pytest_vnc_use.safety.rules import Policy
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import (
    NO_FRAME,
    Limits,
    Proposal,
    RunEnded,
    RunResult,
    RunStarted,
)
from pytest_vnc_use.types.protocols import Approver, Planner


def run_task(
    session: Session,
    task: str,
    expect: Sequence[str] | None,
    limits: Limits | None,
    run_id: str | None,
    policy: Policy | None,
    planner: Planner | None,
    approver: Approver | None,
    recording: str,
    values: Mapping[str, str],
) -> RunResult:
    """Run a task from its start. `policy` and `planner` hold for this run, `recording`
    is the name of the recording to replay. Raises InfraError, SettingsError.
    """
    settings = session.settings
    directory = RunDirectory.create(
        Path(settings.runs_dir), run_id or new_run_id(), session.test_id
    )
    started = RunStarted(
        run_id=directory.path.name,
        task=session.secrets.declared.hide(task),
        started_at=clock.utc_now().isoformat(timespec="seconds"),
        planner="",
        screen=NO_FRAME,
        server=without_query(session.server),
        test_id=session.test_id,
        limits=limits or Limits(settings.max_steps, settings.max_seconds),
        expect=tuple(expect or ()),
        body_checks=expect is None,
        recording=recording,
        settings={**to_json(settings), "server": without_query(settings.server)},
        custom_policy=policy is not None or session.has_custom_policy,
        custom_judge=session.models.custom_judge is not None,
        secrets=tuple(session.secrets.values),
        functions=tuple(session.functions),
        values=values,
    )
    _keep_for_run(
        session,
        started.run_id,
        policy,
        planner,
    )
    with _only_driver(directory):
        return _advance(Run(session, directory, started), session, approver)


def continue_run(
    session: Session,
    run_id: str,
    answer: bool | None,
    step: int | None,
    policy: Policy | None,
    planner: Planner | None,
    approver: Approver | None,
) -> RunResult:
    """Continue a run; `answer` approves or denies, if it waits for that. Raises
    RunDirectoryError, SettingsError.
    """
    directory = RunDirectory.open(path_of(Path(session.settings.runs_dir), run_id))
    with _only_driver(directory):
        trace = read_trace(directory.path)
        outcome = trace.ended.outcome if trace.ended else None
        if outcome is not None:  # a run that failed has none
            raise RunDirectoryError(
                f"run {run_id!r} is finished, with {str(outcome)!r}. Only an unfinished"
                " run can continue"
            )
        if step is not None and (
            trace.open_approval is None or trace.open_approval.number != step
        ):
            raise RunDirectoryError(
                f"run {run_id!r} does not wait for an answer about step {step!r}. Check"
                " which step it waits for now"
            )
        if not (directory.path / CHECKPOINTS).exists():
            raise RunDirectoryError(NO_CHECKPOINT.format(run_id))
        ends_now = (
            answer is False
            and trace.open_approval is not None
            and trace.open_approval.ruling.ends_run
        )
        _keep_for_run(
            session,
            run_id,
            policy,
            NoPlanner() if ends_now else planner,
        )
        if not ends_now and directory.path not in session.runs:
            if missing := "; ".join(_missing(session, trace.started)):
                raise SettingsError(
                    f"run {run_id!r} cannot continue as it was started: {missing}"
                )
            session.budget.recall(trace.exchanges, len(trace.steps))
        asked = trace.open_approval.proposal if trace.open_approval else None
        run = Run(
            session,
            directory,
            trace.started,
            trace,
        )
        return _advance(
            run,
            session,
            approver,
            answer,
            asked,
        )


def _advance(
    run: Run,
    session: Session,
    approver: Approver | None,
    answer: bool | None = None,
    asked: Proposal | None = None,
) -> RunResult:
    """Advance a run until it ends or waits.

    Whatever ends it, Ctrl-C included, is written down before it is raised.
    """
    try:
        run.prepare()
        graph = RunGraph(run)
        state = graph.resume(answer, asked) if run.is_resumed else graph.start()
        while "outcome" not in state:
            question = run.hide(question_in(state))
            run.emit(question)
            if approver is None:
                break
            state = graph.resume(approver.approve(question), question.proposal)
    except BaseException as exc:
        hide = session.secrets.everything.hide_pieces
        error = cut(hide(causes.named(exc)), MAX_TEXT_LENGTH)
        traceback_text = cut(hide(traceback.format_exc()), 10 * MAX_TEXT_LENGTH)
        run.emit(
            RunEnded(
                None,
                "the run failed",
                error,
                traceback_text,
            )
        )
        raise
    return run.result(state)


def _keep_for_run(
    session: Session,
    run_id: str,
    policy: Policy | None,
    planner: Planner | None,
) -> None:
    """Keep what holds for one run instead of the agent's."""
    if policy:
        session.policies[run_id] = policy
    if planner is not None:
        session.planners[run_id] = planner


@contextmanager
def _only_driver(directory: RunDirectory) -> Iterator[None]:
    """Drive a run as the only one, in this process and others. Raises RunDirectoryError
    if another one drives it.
    """
    lock = FileLock(directory.path / "driver.lock", mode=0o600, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RunDirectoryError(
            f"run {directory.path.name!r} is being performed by this or another"
            " process. Wait until it ends, or end that process"
        ) from None
    try:
        yield
    finally:
        lock.release()


def _missing(session: Session, started: RunStarted) -> Iterator[str]:
    """Yield what the run was started with and the agent lacks, and how to give it
    again.
    """
    settings = session.settings
    run_id = started.run_id
    for name in sorted(set(started.secrets) - set(session.secrets.values)):
        yield (
            f"its secret {name!r} is missing. Pass it again with --secret {name}"
            f" (secrets={{{name!r}: …}})"
        )
    if functions := sorted(set(started.functions) - set(session.functions)):
        yield (
            f"its functions {', '.join(functions)} are missing. Pass them again as"
            " functions=[…] in Python"
        )
    if not (session.planners.get(run_id) or session.models.custom_planner):
        yield from _other_planner(started, settings, lambda: session.planner)
    has_policy = session.has_custom_policy or run_id in session.policies
    if started.custom_policy and not has_policy:
        yield "it was started with a policy object. Pass it again as policy=…"
    elif (policy := started.settings.get("policy")) and not (
        settings.policy or has_policy
    ):
        yield (
            f"its policy was {plain(str(policy))!r}. Pass it again with --policy FILE"
            " (policy=…)"
        )
    if started.custom_judge and started.expect and session.models.custom_judge is None:
        yield "it was started with a judge object. Pass it again as judge=…"


def _other_planner(
    started: RunStarted,
    settings: Settings,
    build: Callable[[], Planner],
) -> Iterator[str]:
    """Yield how the planner that `build` makes differs from the one that planned the
    run, or healed its replay.
    """
    before = live_name(started.planner)
    if before == ONLY_REPLAYED:
        yield (
            "its planner was a recording. Run its test again, or pass a planner"
            " (planner=…, --planner NAME)"
        )
        return
    try:
        name = build().name
    except VncUseError:
        # there is none, or its key is missing; the right planner reports a missing key
        # itself
        name = (
            before if settings.planner and before.startswith(settings.planner) else ""
        )
    if name != before:
        would = (
            f"but now it would be {plain(name)!r}" if name else "but now there is none"
        )
        yield (
            f"its planner was {plain(before)!r}, {would}. Pass the same planner again"
            " (planner=…, --planner NAME)"
        )
    if excluded := sorted(
        set(started.settings.get("exclude") or ()) - set(settings.exclude)
    ):
        names = ", ".join(map(plain, excluded))
        yield (
            f"its planner was not allowed to use {names}. Pass these again as"
            " excluded_actions=[…]"
        )
