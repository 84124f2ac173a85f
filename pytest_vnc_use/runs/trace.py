"""Reading a trace: the events of a run directory, put together."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import Field

from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.files import explain_unreadable
from pytest_vnc_use.plain_text import got
from pytest_vnc_use.runs.json_lines import (
    COPY_AGAIN,
    JsonLines,
    from_line,
    read_whole,
)
from pytest_vnc_use.types import (
    ApprovalRequest,
    Decision,
    Drift,
    Extracted,
    FrameRef,
    Judged,
    ModelExchange,
    RunEnded,
    RunEvent,
    RunStarted,
    Step,
    StepFinished,
    StepStarted,
    Transient,
    Turn,
    TurnDecided,
    Usage,
    Verdict,
)

FORMAT = "pytest-vnc-use trace"
VERSION = 1
UNFINISHED = "started and never finished: whether it took effect is unknown"

_MAX_NAMED = 20
"""The maximum damaged lines that are named one by one."""
_EVENT = Annotated[RunEvent, Field(discriminator="kind")]
_KINDS = [event.kind for event in get_args(RunEvent)]


@dataclass(frozen=True)
class Header:
    """The first line of a trace. `started_at` is Unix time, `test_id` that of the test,
    `inode` the number of the run directory in its file system.
    """

    run_id: str
    format: str = FORMAT
    version: int = VERSION
    started_at: float = 0.0
    test_id: str = ""
    inode: int = 0


@dataclass(frozen=True)
class TimedEvent:
    """An event, and the seconds since the run started."""

    event: RunEvent
    at_s: float = 0.0


@dataclass(frozen=True)
class Trace:
    """The content of a run directory.

    `turns` hold the same steps as `steps`. `open_step` was started and never finished:
    it is unknown whether its action was performed. `open_approval` waits for a user's
    answer. `exchanges` are without their bodies (see `read_exchanges`). `ended` is None
    during a run, and after it was killed. `events` are all events in order, with their
    times.
    """

    path: Path
    header: Header
    started: RunStarted
    turns: tuple[Turn, ...] = ()
    steps: tuple[Step, ...] = ()
    open_step: StepStarted | None = None
    open_approval: ApprovalRequest | None = None
    exchanges: tuple[ModelExchange, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    extracted: tuple[Extracted, ...] = ()
    drifts: tuple[Drift, ...] = ()
    transients: tuple[Transient, ...] = ()
    ended: RunEnded | None = None
    events: tuple[TimedEvent, ...] = ()

    @property
    def is_own(self) -> bool:
        """Whether this user made the run directory, and it is no copy.

        What is unpacked from an archive belongs to the user who unpacks it, but has
        another inode than the one in its header.
        """
        status = self.path.stat()
        is_owner = sys.platform == "win32" or status.st_uid == os.getuid()
        return is_owner and status.st_ino == self.header.inode

    @property
    def is_replay(self) -> bool:
        """Whether a recording chose the steps, perhaps until it drifted."""
        return self.started.planner.startswith("recording")

    @property
    def is_healed(self) -> bool:
        """Whether a model continued after a drift."""
        return any(drift.healed for drift in self.drifts)

    @property
    def last_frame(self) -> FrameRef:
        """The newest frame that the run acted on or ended at."""
        return self.steps[-1].frame_after if self.steps else self.started.screen

    @property
    def seconds(self) -> float:
        """The time of the last event since the run started."""
        return max((timed.at_s for timed in self.events), default=0.0)

    @property
    def all_steps(self) -> tuple[Step, ...]:
        """The finished steps, and the one that was started or waits for an answer."""
        if approval := self.open_approval:
            return *self.steps, self._step_at_end(approval, len(self.turns))
        if step := self.open_step:
            return *self.steps, self._step_at_end(step, step.turn, UNFINISHED)
        return self.steps

    def _step_at_end(
        self, event: ApprovalRequest | StepStarted, turn: int, error: str = ""
    ) -> Step:
        frame = self.last_frame
        return Step(
            event.number,
            turn,
            event.proposal,
            event.ruling,
            frame,
            frame,
            error=error,
        )

    @property
    def usage(self) -> Usage:
        """Return the tokens of all answers, the planner's and the judge's."""
        usages = [turn.decision.usage for turn in self.turns]
        usages += [verdict.usage for verdict in self.verdicts]
        usages += [event.reading.usage for event in self.extracted]
        return sum(usages, Usage())

    @property
    def dollars(self) -> float | None:
        """Return the cost of all model calls; None if there were none, or if a price is
        unknown.
        """
        prices = [
            exchange.dollars
            for exchange in self.exchanges
            if exchange.uncounted or exchange.usage != Usage()
        ]
        if not prices or None in prices:
            return None
        return sum(filter(None, prices))


def read_trace(path: Path, damage: list[str] | None = None) -> Trace:
    """Return the content of a run directory, finished or not.

    With `damage`, damaged lines are left out and named there. Raises RunDirectoryError
    if it is missing, damaged, of a newer version, or of a run that never saw a screen.
    """
    header, file, lines = open_trace(path)
    events: list[TimedEvent] = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            parsed = next(file.parsed([line], number))
            if parsed.get("kind") in _KINDS:
                event = from_line(file.path, _EVENT, parsed)
                at_s = from_line(file.path, float, parsed.get("at_s", 0.0))
                events.append(TimedEvent(event, at_s))
        except RunDirectoryError:
            if damage is None:
                raise
            damage.append(
                f"line {number} of {file.path.name} is damaged: it is left out"
            )
    if damage is not None:
        if file.path.stat().st_size > sum(len(line) + 1 for line in lines):
            damage.append(
                f"{file.path.name} ends in the middle of line {len(lines) + 1}: that"
                " line is left out"
            )
        if damage[_MAX_NAMED:]:
            damage[_MAX_NAMED:] = [f"and {len(damage) - _MAX_NAMED} more damaged lines"]
    return _trace_of(path, header, events)


def _trace_of(path: Path, header: Header, events: Sequence[TimedEvent]) -> Trace:
    """Return the trace of these events. If a resumed run repeated something, the last
    time counts. Raises RunDirectoryError if the run never saw a screen.
    """
    started: RunStarted | None = None
    ended: RunEnded | None = None
    approval: ApprovalRequest | None = None
    open_step: StepStarted | None = None
    decisions: dict[int, Decision] = {}
    steps: dict[int, Step] = {}
    by_type = defaultdict[type[Any], list[Any]](list)
    for timed in events:
        event = timed.event
        match event:
            case RunStarted():
                started = event
            case RunEnded():
                ended = event
            case TurnDecided():
                decisions[event.number] = event.decision
                ended = None
            case ApprovalRequest():
                approval = event
                ended = None
            case StepStarted():
                open_step = event
                approval = None
                ended = None
            case StepFinished(step=step):
                steps[step.number] = step
                open_step = None
                approval = None
                ended = None
            case _:
                by_type[type(event)].append(event)
    if started is None:
        reason = (ended.error or ended.message) if ended else ""
        suffix = f"; it ended so: {reason}" if reason else ""
        error = RunDirectoryError(
            f"the run in {str(path)!r} never started, it has no first frame{suffix}"
        )
        error.never_started = reason
        raise error
    by_turn = defaultdict[int, list[Step]](list)
    for step in steps.values():
        by_turn[step.turn].append(step)
    return Trace(
        path,
        header,
        started,
        turns=tuple(
            Turn(decision, tuple(by_turn[number]))
            for number, decision in decisions.items()
        ),
        steps=tuple(steps.values()),
        open_step=open_step,
        open_approval=approval,
        exchanges=tuple(by_type[ModelExchange]),
        verdicts=tuple(judged.verdict for judged in by_type[Judged]),
        extracted=tuple(by_type[Extracted]),
        drifts=tuple(by_type[Drift]),
        transients=tuple(by_type[Transient]),
        ended=ended,
        events=tuple(events),
    )


def open_trace(path: Path) -> tuple[Header, JsonLines, list[bytes]]:
    """Return the header of a trace, its file, and its whole lines. Raises
    RunDirectoryError.
    """
    file = JsonLines(path / "trace.jsonl")
    # isfile raises no error for an impossible file name
    if not os.path.isfile(file.path):
        if not os.path.isdir(path):  # noqa: PTH112  # Path.is_dir may raise
            raise RunDirectoryError(f"there is no run directory {str(path)!r}")
        raise RunDirectoryError(
            f"{str(path)!r} is not a run directory: it has no {file.path.name}"
        )
    lines = file.lines()
    if not (lines and lines[0].startswith(b"{")):
        problem = explain_unreadable(read_whole(file.path), "a trace", COPY_AGAIN)
        if problem:
            raise RunDirectoryError(f"{str(file.path)!r} {problem}")
    first = next(file.parsed(lines[:1]), {})
    if first.get("format") != FORMAT:
        raise RunDirectoryError(
            f"{str(file.path)!r} is damaged: it must begin with the header of a"
            f" {FORMAT}, got {got(first)}"
        )
    header: Header = from_line(file.path, Header, first)
    if header.version > VERSION:
        raise RunDirectoryError(
            f"{str(file.path)!r} was written by a newer pytest-vnc-use: its version is"
            f" {header.version}, this one reads up to {VERSION}. Upgrade pytest-vnc-use"
        )
    return header, file, lines
