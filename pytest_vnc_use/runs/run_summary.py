"""A run folder as lines of text, for readers without a web browser."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_vnc_use.errors import RunFolderError, SettingsError
from pytest_vnc_use.runs.folder import Trace, read_trace
from pytest_vnc_use.runs.transcript import plain, step_line
from pytest_vnc_use.types import Outcome


@dataclass(frozen=True)
class RunEntry:
    """One run in a list. `test` is the id of the pytest test that made it, if one did."""

    run_id: str
    outcome: str
    task: str
    test: str


@dataclass(frozen=True)
class RunSummary:
    """The content of a run folder as text: one line for each verdict, one line for each step."""

    run_id: str
    outcome: str
    message: str
    verdicts: tuple[str, ...]
    steps: tuple[str, ...]
    task: str
    test: str


def line_of(path: Path) -> RunEntry:
    """Return the list entry of the run in the folder `path`. If it cannot be read, its outcome says why."""
    try:
        trace = read_trace(path)
    except RunFolderError as exc:
        return RunEntry(path.name, f"unreadable: {plain(str(exc))}", "", "")
    return RunEntry(path.name, outcome_of(trace), plain(trace.started.task), plain(trace.started.test_id))


def only_waiting(paths: Iterable[Path]) -> str:
    """Return the id of the only run in these directories that waits for approval.

    Raises SettingsError, which lists them if there are several.
    """
    waiting = [path.name for path in paths if line_of(path).outcome == str(Outcome.WAITING)]
    if len(waiting) != 1:
        found = (
            f"{len(waiting)} runs wait for approval: {', '.join(waiting)}" if waiting else "no run waits for approval"
        )
        raise SettingsError(f"{found}. Name the run")
    return waiting[0]


def summary_of(trace: Trace) -> RunSummary:
    """Return the run as it stands now, finished or not."""
    ended = [trace.ended.message, trace.ended.error] if trace.ended else []
    return RunSummary(
        run_id=trace.path.name,
        outcome=outcome_of(trace),
        message=plain(": ".join(filter(None, ended))),
        verdicts=tuple(plain(str(verdict)) for verdict in trace.verdicts),
        steps=tuple(map(step_line, trace.steps)),
        task=plain(trace.started.task),
        test=plain(trace.started.test_id),
    )


def outcome_of(trace: Trace) -> str:
    """Return an `Outcome`, or `broke`, or `unfinished` if the run still goes on or was killed."""
    if trace.ended is None:
        return str(Outcome.WAITING) if trace.asked else "unfinished"
    return str(trace.ended.outcome) if trace.ended.outcome and not trace.ended.error else "broke"
