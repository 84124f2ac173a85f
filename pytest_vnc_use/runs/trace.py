"""Reading a trace: the events of a run folder, put together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, get_args

from pydantic import Field
from typing_extensions import assert_never

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.plain_text import got
from pytest_vnc_use.runs.json_lines import JsonLines, from_line
from pytest_vnc_use.runs.seal import are_sealed
from pytest_vnc_use.types import (
    ApprovalAsked,
    Decision,
    Drifted,
    Extracted,
    FolderMade,
    FrameRef,
    GateAwaited,
    JsonObject,
    Judged,
    ModelAsked,
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
UNFINISHED = "begun and never finished: whether it took effect is unknown"

_EVENT = Annotated[RunEvent, Field(discriminator="kind")]
_KINDS = {event.kind for event in get_args(RunEvent)}


@dataclass(frozen=True)
class Header:
    """The first line of a trace. `began_at` is Unix time; older traces do not have it."""

    run_id: str
    format: str = FORMAT
    version: int = VERSION
    began_at: float | None = None


@dataclass(frozen=True)
class TimedEvent:
    """An event, and the seconds since the run began; None in older traces."""

    event: RunEvent
    at_s: float | None = None


@dataclass(frozen=True)
class Trace:
    """The content of a run folder.

    `turns` hold the same steps as `steps`. `open_step` was begun and never finished: nobody knows whether its action
    was carried out. `asked` is a question that waits for a person's answer. `exchanges` are without their bodies (see
    `read_exchanges`). `ended` is None while a run goes on, and after it was killed. `is_own` is true if this user wrote
    all of it on this machine, and nobody changed it since. `events` are all events as they came, with their times.
    """

    path: Path
    header: Header
    started: RunStarted
    turns: tuple[Turn, ...] = ()
    steps: tuple[Step, ...] = ()
    open_step: StepStarted | None = None
    asked: ApprovalAsked | None = None
    exchanges: tuple[ModelExchange, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    extracted: tuple[Extracted, ...] = ()
    drifts: tuple[Drifted, ...] = ()
    transients: tuple[Transient, ...] = ()
    ended: RunEnded | None = None
    is_own: bool = False
    events: tuple[TimedEvent, ...] = ()

    @property
    def last_frame(self) -> FrameRef:
        """The newest frame that the run acted on or ended at."""
        return self.steps[-1].frame_after if self.steps else self.started.screen

    @property
    def all_steps(self) -> tuple[Step, ...]:
        """The finished steps, and the one that was begun or waits for an answer."""
        frame = self.last_frame
        if asked := self.asked:
            return *self.steps, Step(asked.number, len(self.turns), asked.proposal, asked.ruling, frame, frame)
        if begun := self.open_step:
            open_step = Step(begun.number, begun.turn, begun.proposal, begun.ruling, frame, frame, error=UNFINISHED)
            return *self.steps, open_step
        return self.steps

    @property
    def usage(self) -> Usage:
        """Return the tokens of all answers, the planner's and the judge's."""
        judged = [verdict.usage for verdict in self.verdicts] + [each.reading.usage for each in self.extracted]
        return sum([turn.decision.usage for turn in self.turns] + judged, Usage())

    @property
    def dollars(self) -> float | None:
        """Return the cost of all model calls; None if there were none, or if a price is unknown."""
        paid = [each.dollars for each in self.exchanges if each.uncounted or each.usage != Usage()]
        return None if not paid or None in paid else sum(filter(None, paid))


def read_trace(path: Path) -> Trace:
    """Return the content of a run folder, finished or not.

    Raises RunFolderError if it is missing, damaged, of a newer version, or of a run that never saw a screen.
    """
    header, events, is_own = open_trace(path)
    return trace_of(path, header, events, is_own=is_own)


def trace_of(path: Path, header: Header, events: Iterable[TimedEvent], *, is_own: bool) -> Trace:
    """Return the events of a run put together. Raises RunFolderError if the run never saw a screen."""
    events = tuple(events)
    contents = _Contents()
    for each in events:
        contents.add(each.event)
    if contents.started is None:
        reason = (contents.ended.error or contents.ended.message) if contents.ended else ""
        ended = f"; it ended so: {reason}" if reason else ""
        error = RunFolderError(f"the run in {str(path)!r} never started, it has no first frame{ended}")
        error.never_started = reason
        raise error
    return Trace(
        path,
        header,
        contents.started,
        turns=contents.turns(),
        steps=tuple(contents.steps.values()),
        open_step=contents.open_step,
        asked=contents.asked,
        exchanges=tuple(contents.exchanges),
        verdicts=tuple(contents.verdicts),
        extracted=tuple(contents.extracted),
        drifts=tuple(contents.drifts),
        transients=tuple(contents.transients),
        ended=contents.ended,
        is_own=is_own,
        events=events,
    )


@dataclass
class _Contents:
    """The events of a trace put together. If a resumed run repeated something, the last time counts."""

    started: RunStarted | None = None
    decisions: dict[int, Decision] = field(default_factory=dict)
    steps: dict[int, Step] = field(default_factory=dict)
    open_step: StepStarted | None = None
    asked: ApprovalAsked | None = None
    exchanges: list[ModelExchange] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    extracted: list[Extracted] = field(default_factory=list)
    drifts: list[Drifted] = field(default_factory=list)
    transients: list[Transient] = field(default_factory=list)
    ended: RunEnded | None = None

    def add(self, event: RunEvent) -> None:
        """Add one event."""
        match event:
            case RunStarted():
                self.started = event
            case TurnDecided():
                self.decisions[event.number] = event.decision
                self.ended = None
            case ApprovalAsked():
                self.asked, self.ended = event, None
            case StepStarted():
                self.open_step, self.asked, self.ended = event, None, None
            case StepFinished(step=step):
                self.steps[step.number] = step
                self.open_step, self.asked, self.ended = None, None, None
            case ModelExchange():
                self.exchanges.append(event)
            case ModelAsked() | GateAwaited() | FolderMade():  # observers get them, the trace does not
                pass
            case Judged(verdict=verdict):
                self.verdicts.append(verdict)
            case Extracted():
                self.extracted.append(event)
            case Drifted():
                self.drifts.append(event)
            case Transient():
                self.transients.append(event)
            case RunEnded():
                self.ended = event
            case _:
                assert_never(event)

    def turns(self) -> tuple[Turn, ...]:
        """Return the turns with their steps, in order."""
        steps: dict[int, list[Step]] = {}
        for step in self.steps.values():
            steps.setdefault(step.turn, []).append(step)
        return tuple(Turn(decision, tuple(steps.get(number, ()))) for number, decision in self.decisions.items())


def open_trace(path: Path) -> tuple[Header, Iterator[TimedEvent], bool]:
    """Return the header of a trace, its events, and whether this user wrote all of it. Raises RunFolderError."""
    file, written = trace_lines(path)
    lines = file.parsed(written)
    header = header_of(file.path, next(lines, {}))
    events = (event_of(file.path, line) for line in lines if is_event(line))
    return header, events, are_sealed(written) and header.run_id == path.name


def trace_lines(path: Path) -> tuple[JsonLines, list[bytes]]:
    """Return the trace's file and its whole lines. Raises RunFolderError if there is no trace."""
    file = JsonLines(path / "trace.jsonl")
    if not os.path.isfile(file.path):  # isfile raises no error for an impossible file name
        if not os.path.isdir(path):  # noqa: PTH112  # Path.is_dir may raise
            raise RunFolderError(f"there is no run folder {str(path)!r}")
        raise RunFolderError(f"{str(path)!r} is not a run folder: it has no {file.path.name}")
    return file, file.lines()


def event_of(path: Path, line: JsonObject) -> TimedEvent:
    """Return the event of a line. Raises RunFolderError if it is none."""
    at_s = line.get("at_s")
    return TimedEvent(
        from_line(path, _EVENT, line), at_s if isinstance(at_s, (int, float)) and 0 <= at_s < 1e9 else None
    )


def is_event(line: JsonObject) -> bool:
    """Return whether a line is of a kind of event that this version knows."""
    kind = line.get("kind")
    return isinstance(kind, str) and kind in _KINDS


def header_of(path: Path, line: JsonObject) -> Header:
    """Return the header of a trace. Raises RunFolderError if it is none, or of a newer version."""
    if line.get("format") != FORMAT:
        raise RunFolderError(f"{str(path)!r} is damaged: it must begin with the header of a {FORMAT}, got {got(line)}")
    header: Header = from_line(path, Header, line)
    if header.version > VERSION:
        raise RunFolderError(
            f"{str(path)!r} was written by a newer pytest-vnc-use: its version is {header.version}, "
            f"this one reads up to {VERSION}; upgrade pytest-vnc-use"
        )
    return header
