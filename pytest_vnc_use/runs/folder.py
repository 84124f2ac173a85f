"""The run folder: its versioned format, and the only code that writes and reads it.

    runs/<run_id>/
      trace.jsonl         a header, then one event of `types.RunEvent` a line, each complete by itself
      exchanges.jsonl     one HTTP exchange with a model a line, complete; the trace has its line number
      screens/            the picture of each frame, once, as <sha256>.png
      checkpoints.sqlite  the graph's own file, which this module never opens
      logs/               the output of the desktop's processes, see runs/program_logs.py
      result.json         how the test ended that made the run, see runs/ended_test.py

An event's `at_s` is the time since the run began, in seconds; older traces do not have it. The checkpoints of a run
that has ended are removed: nobody can go on with it.

Each line of the trace is sealed together with the line before it (see seal.py). The seals show whether this user wrote
all of it. A line is one write that ends in a newline. A line without a newline was cut off by the death of its writer:
readers skip it, and the next writer removes it. Readers ignore unknown fields and unknown kinds of event; they refuse a
higher version.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import takewhile
from pathlib import Path, PureWindowsPath
from threading import Lock
from typing import Annotated, Any, get_args

from pydantic import Field
from typing_extensions import assert_never

from pytest_vnc_use import atomic_file
from pytest_vnc_use.errors import RunFolderError, RunFolderUnwritable
from pytest_vnc_use.runs.json_lines import JsonLines, from_json as from_json, private, to_json as to_json
from pytest_vnc_use.runs.reading import LARGEST, read_whole
from pytest_vnc_use.runs.seal import are_sealed, sealed
from pytest_vnc_use.types import (
    ApprovalAsked,
    Decision,
    Drifted,
    Extracted,
    Frame,
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

# --- the folder ------------------------------------------------------------------------------------------------------


def new_run_id() -> str:
    """Return a unique name for a run. It is safe as a file name and sorts by time (UTC, milliseconds)."""
    now = datetime.now(timezone.utc)
    return f"{now:%Y%m%d-%H%M%S}-{now.microsecond // 1000:03d}-{secrets.token_hex(4)}"


def path_of(runs_dir: Path, run_id: str) -> Path:
    """Return the path of a run folder. Raises RunFolderError for a run id that leads elsewhere."""
    is_name = Path(run_id).name == run_id == PureWindowsPath(run_id).name and run_id not in ("", "..")
    if not (is_name and run_id.isprintable()):
        raise RunFolderError(f"a run id must be the name of a folder in {str(runs_dir)!r}, got {run_id!r}")
    return runs_dir / run_id


@dataclass(frozen=True)
class Header:
    """The first line of a trace. `began_at` is Unix time; older traces do not have it."""

    run_id: str
    format: str = FORMAT
    version: int = VERSION
    began_at: float | None = None


class RunFolder:
    """The folder of one run. One process at a time writes it; its threads may share it."""

    def __init__(self, path: Path, began_at: float | None = None) -> None:
        self.path = path
        self._trace = JsonLines(path / "trace.jsonl", sealed)
        self._exchanges = Exchanges(path)
        self._lock = Lock()
        self._began_s = None if began_at is None else time.monotonic() - max(time.time() - began_at, 0.0)

    @classmethod
    def create(cls, runs_dir: Path, run_id: str) -> RunFolder:
        """Return a new folder with its header, for its owner alone.

        Raises RunFolderUnwritable if it exists or cannot be made.
        """
        path = path_of(runs_dir, run_id)
        try:
            runs_dir.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700)
            (path / "screens").mkdir(mode=0o700)
        except OSError as exc:
            raise RunFolderUnwritable(f"cannot make the run folder {str(path)!r}: {exc}") from exc
        header = Header(run_id, began_at=round(time.time(), 3))
        folder = cls(path, header.began_at)
        folder._trace.append(to_json(header))
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Return the folder of an earlier run, to read or to continue. Raises RunFolderError if there is none."""
        header, _, _ = _open_trace(path)
        return cls(path, header.began_at)

    def append(self, event: RunEvent) -> None:
        """Write one event. After the return it survives a kill -9 of the process."""
        with self._lock:
            line = to_json(self._exchanges.append(event) if isinstance(event, ModelExchange) else event)
            at = {} if self._began_s is None else {"at_s": round(time.monotonic() - self._began_s, 3)}
            self._trace.append({**line, **at})

    def store(self, frame: Frame) -> FrameRef:
        """Store a frame's picture, unless it is there already."""
        target = _screen_path(self.path, frame.ref)
        if not target.exists():
            write_atomically(target, frame.png)
        return frame.ref

    def load_png(self, ref: FrameRef) -> bytes:
        """Return the picture of a stored frame. Raises RunFolderError if it is missing or was changed."""
        source = _screen_path(self.path, ref)
        try:
            png = read_whole(source, LARGEST)
        except OSError as exc:
            raise RunFolderError(f"the screen {ref.digest!r} cannot be read from {str(self.path)!r}: {exc}") from exc
        if hashlib.sha256(png).hexdigest() != ref.digest:
            raise RunFolderError(f"{str(source)!r} is damaged: its SHA-256 is not its name")
        return png


def _screen_path(path: Path, ref: FrameRef) -> Path:
    return path / "screens" / f"{ref.digest}.png"


def write_atomically(target: Path, content: bytes, opener: Callable[[str, int], int] | None = private) -> None:
    """Write all of the content or nothing; by default for the owner alone. Raises RunFolderUnwritable."""
    try:
        with atomic_file.draft_of(target) as draft:
            with open(draft, "wb", opener=opener) as file:  # Path.open takes no opener
                file.write(content)
            draft.replace(target)
    except OSError as exc:
        raise RunFolderUnwritable(f"cannot write {str(target)!r}: {exc}") from exc


# --- exchanges with a model ------------------------------------------------------------------------------------------


class Exchanges:
    """The exchanges.jsonl of a run folder. It grows with the number of exchanges, not with its square.

    A request repeats the history before it. `repeats` holds, for each list of the request, how many items equal those
    of the previous request of the same purpose. Only the other items are written, and reading puts them together again.
    """

    def __init__(self, path: Path) -> None:
        self._lines = JsonLines(path / "exchanges.jsonl")
        self._written: int | None = None
        self._requests: dict[str, JsonObject] = {}

    def append(self, exchange: ModelExchange) -> ModelExchange:
        """Write one exchange. Return it as the trace has it: without bodies, with the number of its line."""
        line = to_json(exchange)
        request, previous = line["request"], self._requests.get(exchange.purpose, {})
        repeats = {key: count for key, items in request.items() if (count := _shared(previous.get(key), items))}
        rest = {key: items[repeats[key] :] if key in repeats else items for key, items in request.items()}
        self._lines.append({**line, "request": rest, "repeats": repeats})
        self._requests[exchange.purpose] = request
        return replace(exchange, request={"line": self._next_number()}, response=None)

    def read(self) -> Iterator[ModelExchange]:
        """Yield all exchanges in order, each with its whole request. Raises RunFolderError at a damaged line."""
        requests: dict[str, JsonObject] = {}
        for line in self._lines.read():
            exchange: ModelExchange = _parse(self._lines.path, ModelExchange, line)
            previous = requests.get(exchange.purpose, {})
            repeated = {key: previous.get(key, [])[:count] for key, count in line.get("repeats", {}).items()}
            request = {key: [*repeated[key], *v] if key in repeated else v for key, v in exchange.request.items()}
            requests[exchange.purpose] = request
            yield replace(exchange, request=request)

    def _next_number(self) -> int:
        self._written = self._lines.count() if self._written is None else self._written + 1
        return self._written


def _shared(before: Any, now: Any) -> int:
    if not (isinstance(before, list) and isinstance(now, list)):
        return 0
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False)))


def read_exchanges(path: Path) -> Iterator[ModelExchange]:
    """Return the exchanges with models in the run folder `path`. Raises RunFolderError at a damaged line."""
    return Exchanges(path).read()


# --- reading a trace -------------------------------------------------------------------------------------------------

_EVENT = Annotated[RunEvent, Field(discriminator="kind")]
_KINDS = {event.kind for event in get_args(RunEvent)}


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
    header, events, is_own = _open_trace(path)
    return trace_of(path, header, events, is_own=is_own)


def trace_of(path: Path, header: Header, events: Iterable[TimedEvent], *, is_own: bool) -> Trace:
    """Return the events of a run put together. Raises RunFolderError if the run never saw a screen."""
    events = tuple(events)
    story = _Story()
    for each in events:
        story.hear(each.event)
    if story.started is None:
        ended = f"; it ended so: {story.ended.error or story.ended.message}" if story.ended else ""
        raise RunFolderError(f"the run in {str(path)!r} never started, it has no first frame{ended}")
    return Trace(
        path,
        header,
        story.started,
        turns=story.turns(),
        steps=tuple(story.steps.values()),
        open_step=story.open_step,
        asked=story.asked,
        exchanges=tuple(story.exchanges),
        verdicts=tuple(story.verdicts),
        extracted=tuple(story.extracted),
        drifts=tuple(story.drifts),
        transients=tuple(story.transients),
        ended=story.ended,
        is_own=is_own,
        events=events,
    )


@dataclass
class _Story:
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

    def hear(self, event: RunEvent) -> None:
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
            case ModelAsked() | GateAwaited():  # observers get them, the trace does not
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


def _open_trace(path: Path) -> tuple[Header, Iterator[TimedEvent], bool]:
    file, written = trace_lines(path)
    lines = file.parsed(written)
    header = header_of(file.path, next(lines, {}))
    events = (event_of(file.path, line) for line in lines if is_event(line))
    return header, events, are_sealed(written) and header.run_id == path.name


def trace_lines(path: Path) -> tuple[JsonLines, list[bytes]]:
    """Return the trace's file and its whole lines. Raises RunFolderError if there is no trace."""
    file = JsonLines(path / "trace.jsonl")
    if not os.path.isfile(file.path):  # isfile raises no error for an impossible file name
        raise RunFolderError(f"{str(path)!r} is not a run folder: it has no {file.path.name}")
    return file, file.lines()


def event_of(path: Path, line: JsonObject) -> TimedEvent:
    """Return the event of a line. Raises RunFolderError if it is none."""
    at_s = line.get("at_s")
    return TimedEvent(_parse(path, _EVENT, line), at_s if isinstance(at_s, (int, float)) and 0 <= at_s < 1e9 else None)


def is_event(line: JsonObject) -> bool:
    """Return whether a line is of a kind of event that this version knows."""
    return line.get("kind") in _KINDS


def header_of(path: Path, line: JsonObject) -> Header:
    """Return the header of a trace. Raises RunFolderError if it is none, or of a newer version."""
    if line.get("format") != FORMAT:
        raise RunFolderError(f"{str(path)!r} is damaged: it must begin with the header of a {FORMAT}, got {line!r}")
    header: Header = _parse(path, Header, line)
    if header.version > VERSION:
        raise RunFolderError(
            f"{str(path)!r} was written by a newer pytest-vnc-use: its version is {header.version}, "
            f"this one reads up to {VERSION}; upgrade pytest-vnc-use"
        )
    return header


def _parse(path: Path, form: Any, line: JsonObject) -> Any:
    try:
        return from_json(form, line)
    except RunFolderError as exc:
        raise RunFolderError(f"{str(path)!r} is damaged: {exc}") from exc
