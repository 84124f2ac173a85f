"""The run directory: its versioned format, the code that writes it, and the removal of
old data.

    runs/<run_id>/
      trace.jsonl         a header, then one event of `types.RunEvent` a line
      exchanges.jsonl     one HTTP exchange with a model a line, complete; the trace has its line number
      screens/            the screenshot of each frame, once, as <sha256>.png
      video.webm          what the screen showed from the run's start to the end of the test's call, with vnc_video
      execution.json      the actions, to repeat them; see runs/uitask_trace.py
      messages.jsonl      the messages that were sent to the VNC server, with vnc_rfb_log; see runs/logger.py
      checkpoints.sqlite  the graph's file, which this module never opens
      logs/               the output of the desktop's processes, <role>.txt
      result.json         how the test ended that made the run
      draft.json          what a user has done by hand, until it is recorded; see demonstrate/draft.py
      index.html, page/   the page of the run; see report/pages.py

An event's `at_s` is the time since the run started, in seconds. The checkpoints of a
run that has ended are removed: it cannot be continued. `result.json` is written once
the test has ended, so a test that was killed leaves none.

A line is one write that ends in a newline. A line without a newline was cut off by the
death of its writer: readers skip it, and the next writer removes it. Readers ignore
unknown fields and unknown kinds of event; they reject a higher version.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PureWindowsPath
from threading import Lock
from typing import Any

from pydantic import NonNegativeInt

from pytest_vnc_use import clock, files
from pytest_vnc_use.errors import RunDirectoryError, RunDirectoryUnwritable
from pytest_vnc_use.runs.json_lines import (
    JsonLines,
    from_json as from_json,
    from_line,
    private,
    read_end,
    read_json,
    read_whole,
    to_json as to_json,
)
from pytest_vnc_use.runs.trace import (
    Header,
    Trace as Trace,
    open_trace as open_trace,
    read_trace as read_trace,
)
from pytest_vnc_use.types import Frame, FrameRef, JsonObject, ModelExchange, RunEvent

_REMEDY = (
    ". Set vnc_runs_dir (or --vnc-runs-dir) to a directory that this user can write"
)


def new_run_id() -> str:
    """Return a unique name for a run. It is safe as a file name and sorts by time (UTC,
    milliseconds).
    """
    now = clock.utc_now()
    return f"{now:%Y%m%d-%H%M%S}-{now.microsecond // 1000:03d}-{secrets.token_hex(4)}"


def path_of(runs_dir: Path, run_id: str) -> Path:
    """Return the path of a run directory. Raises RunDirectoryError for a run id that
    leads out of `runs_dir`.
    """
    names = {Path(run_id).name, PureWindowsPath(run_id).name}
    is_name = names == {run_id} and run_id not in ("", "..")
    if not (is_name and run_id.isprintable()):
        raise RunDirectoryError(
            f"a run id must be the name of a directory in {str(runs_dir)!r}, got"
            f" {run_id!r}"
        )
    return runs_dir / run_id


def write_atomically(
    target: Path, content: bytes, opener: Callable[[str, int], int] | None = private
) -> None:
    """Write all of the content or nothing; by default for the owner alone. Raises
    RunDirectoryUnwritable.
    """
    try:
        with files.draft_of(target) as draft:
            with open(draft, "wb", opener=opener) as file:  # Path.open takes no opener
                file.write(content)
            draft.replace(target)
    except OSError as exc:
        raise RunDirectoryUnwritable(
            f"cannot write {str(target)!r}: {files.reason_of(exc)}"
        ) from exc


class RunDirectory:
    """The directory of one run. One process at a time writes it; its threads may share
    it.

    `exchanges.jsonl` grows with the number of exchanges, not with its square: a request
    repeats the history before it, so each line has in `repeats`, for each list of the
    request, how many items equal those of the previous request of the same purpose, and
    only the other items.
    """

    def __init__(self, path: Path, started_at: float | None = None) -> None:
        self.path = path
        self._trace = JsonLines(path / "trace.jsonl")
        self._exchanges = JsonLines(path / "exchanges.jsonl")
        self._exchange_count: int | None = None
        self._requests: dict[str, JsonObject] = {}
        self._lock = Lock()
        age_s = clock.epoch() - started_at if started_at else 0.0
        self.started_at = clock.monotonic() - max(age_s, 0.0)
        """The time of the monotonic clock when the run started."""

    @classmethod
    def create(cls, runs_dir: Path, run_id: str, test_id: str = "") -> RunDirectory:
        """Return a new directory with its header, for its owner alone.

        Raises RunDirectoryUnwritable if it exists or cannot be made.
        """
        path = path_of(runs_dir, run_id)
        try:
            runs_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.mkdir(mode=0o700)
            (path / "screens").mkdir(mode=0o700)
        except OSError as exc:
            remedy = "" if os.path.lexists(path) else _REMEDY  # raises nothing
            raise RunDirectoryUnwritable(
                f"cannot make the run directory {str(path)!r}:"
                f" {files.reason_of(exc)}{remedy}"
            ) from exc
        header = Header(
            run_id,
            started_at=round(clock.epoch(), 3),
            test_id=test_id,
            inode=path.stat().st_ino,
        )
        directory = cls(path, header.started_at)
        try:
            directory._trace.append(to_json(header))
        except RunDirectoryUnwritable:
            # it is empty, and nothing else would name it
            shutil.rmtree(path, ignore_errors=True)
            raise
        return directory

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Return the directory of an earlier run, to read or to continue. Raises
        RunDirectoryError if there is none.
        """
        return cls(path, open_trace(path)[0].started_at)

    def append(self, event: RunEvent) -> None:
        """Write one event. After the return it survives a kill -9 of the process."""
        with self._lock:
            if isinstance(event, ModelExchange):
                event = self._add_exchange(event)
            at_s = round(clock.monotonic() - self.started_at, 3)
            self._trace.append({**to_json(event), "at_s": at_s})

    def _add_exchange(self, exchange: ModelExchange) -> ModelExchange:
        """Write one exchange. Return it as the trace has it: without bodies, with the
        number of its line.
        """
        line = to_json(exchange)
        request = line["request"]
        previous = self._requests.get(exchange.purpose, {})
        repeats: dict[str, int] = {}
        new_items = dict(request)
        for key, items in request.items():
            count = _count_shared(previous.get(key), items)
            if count:
                repeats[key] = count
                new_items[key] = items[count:]
        self._exchanges.append({**line, "request": new_items, "repeats": repeats})
        self._requests[exchange.purpose] = request
        if self._exchange_count is None:
            self._exchange_count = len(self._exchanges.lines())
        else:
            self._exchange_count += 1
        return replace(exchange, request={"line": self._exchange_count}, response=None)

    def store(self, frame: Frame) -> FrameRef:
        """Store a frame's screenshot, unless it is stored already."""
        target = self._screen(frame.ref)
        if not target.exists():
            write_atomically(target, frame.png)
        return frame.ref

    def load_png(self, ref: FrameRef) -> bytes:
        """Return the screenshot of a stored frame. Raises RunDirectoryError if it is
        missing or was changed.
        """
        source = self._screen(ref)
        try:
            png = read_whole(source)
        except OSError as exc:
            raise RunDirectoryError(
                f"the screen {ref.digest!r} cannot be read from {str(self.path)!r}:"
                f" {files.reason_of(exc)}"
            ) from exc
        if hashlib.sha256(png).hexdigest() != ref.digest:
            raise RunDirectoryError(
                f"{str(source)!r} is damaged: its SHA-256 is not its name"
            )
        return png

    def _screen(self, ref: FrameRef) -> Path:
        return self.path / "screens" / f"{ref.digest}.png"


def _count_shared(previous: Any, items: Any) -> int:
    """Return how many items at the start of two lists are equal."""
    if not (isinstance(previous, list) and isinstance(items, list)):
        return 0
    count = 0
    for old, new in zip(previous, items, strict=False):
        if old != new:
            break
        count += 1
    return count


def read_exchanges(path: Path) -> Iterator[ModelExchange]:
    """Yield the exchanges with models in order, each with its whole request. Raises
    RunDirectoryError at damage.
    """
    file = JsonLines(path / "exchanges.jsonl")
    requests: dict[str, JsonObject] = {}
    for line in file.read():
        exchange: ModelExchange = from_line(file.path, ModelExchange, line)
        repeats = from_line(
            file.path, dict[str, NonNegativeInt], line.get("repeats", {})
        )
        previous = requests.get(exchange.purpose, {})
        request = dict(exchange.request)
        for key, count in repeats.items():
            if key in request:
                repeated = _list(previous.get(key))[:count]
                request[key] = [*repeated, *_list(request[key])]
        requests[exchange.purpose] = request
        yield replace(exchange, request=request)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


_MAX_LOG_BYTES = 400_000
RESULT_FORMAT = "pytest-vnc-use result"
RESULT_VERSION = 1
RESULT_FILE = "result.json"
DRAFT_FILE = "draft.json"
VIDEO_FILE = "video.webm"
FINE = frozenset({"passed", "skipped", "xfailed", "xpassed"})
"""The results with which pytest itself passes."""


def keep_logs(run_dir: Path, logs: Mapping[str, str]) -> None:
    """Write the logs over earlier ones; empty logs are left out. Raises
    RunDirectoryUnwritable.
    """
    directory = run_dir / "logs"
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        for role, text in logs.items():
            if text:
                name = re.sub(r"[^\w.-]+", "-", role)
                with open(directory / f"{name}.txt", "wb", opener=private) as file:
                    file.write(text.encode("utf-8", "replace"))
    except OSError as exc:
        raise RunDirectoryUnwritable(
            f"cannot keep the desktop's logs in {str(directory)!r}:"
            f" {files.reason_of(exc)}"
        ) from exc


def read_logs(run_dir: Path) -> dict[str, str]:
    """Return text by role, in alphabetical order; empty if no logs were kept.

    Of a long log it is the end, which the role states. Of one that cannot be read it is
    the reason.
    """
    logs: dict[str, str] = {}
    for path in sorted((run_dir / "logs").glob("*.txt")):
        try:
            end, size = read_end(path, _MAX_LOG_BYTES)
        except OSError as exc:
            logs[path.stem] = f"(cannot be read: {exc.strerror})"
            continue
        role = path.stem
        if size > len(end):
            role += f" (the last {len(end)} of {size} bytes)"
        logs[role] = end.decode("utf-8", "replace").replace("\r\n", "\n")
    return logs


@dataclass(frozen=True)
class FinishedTest:
    """The result of a test, by pytest's name: `passed, failed, error, skipped, xfailed`
    or `xpassed`.

    `phase` is the phase that decided it: setup, call or teardown. `triage`, `rule` and
    `message` explain a failure; `failure` is pytest's text about it. `attempt` counts
    from 1. `worker` is that of pytest-xdist. `is_rehearsal` is true if the run
    rehearsed a recording that the test had just made. `screenshots` states why the run
    directory holds none; it is empty if it does. `video` states why a video that was
    asked for is missing.
    """

    test: str
    result: str
    phase: str = "call"
    triage: str = ""
    rule: str = ""
    message: str = ""
    failure: str = ""
    attempt: int = 1
    worker: str = ""
    seconds: float = 0.0
    dollars: float | None = None
    is_rehearsal: bool = False
    screenshots: str = ""
    video: str = ""
    format: str = RESULT_FORMAT
    version: int = RESULT_VERSION

    @property
    def is_bad(self) -> bool:
        """Return whether the test failed or raised an error; a result unknown to pytest
        is no pass.
        """
        return self.result not in FINE


def write_finished_test(run_dir: Path, ended: FinishedTest) -> None:
    """Write the result of the test into the directory of one of its runs. Raises
    RunDirectoryUnwritable.
    """
    text = json.dumps(to_json(ended), ensure_ascii=False, indent=1)
    write_atomically(run_dir / RESULT_FILE, text.encode("utf-8", "replace"))


def read_finished_test(run_dir: Path) -> FinishedTest | None:
    """Return the result of the test that made a run; None if none is written.

    Raises RunDirectoryError if it is damaged.
    """
    try:
        content = read_json(run_dir / RESULT_FILE, "a result")
    except FileNotFoundError:
        return None
    match content:
        case {
            "format": str(name),
            "version": int(version),
        } if name == RESULT_FORMAT and version <= RESULT_VERSION:
            return from_json(FinishedTest, content)
    raise RunDirectoryError(
        f"{RESULT_FILE} must be a {RESULT_FORMAT} up to version {RESULT_VERSION}"
    )


_MEGABYTE = 1_000_000


def drop_checkpoints(run_dir: Path) -> None:
    """Remove the checkpoints of a run that has ended: it cannot be continued."""
    for path in run_dir.glob("checkpoints.sqlite*"):
        # another process may be reading it; a leftover does no harm
        with suppress(OSError):
            path.unlink()


def drop_screenshots(run_dir: Path) -> None:
    """Remove the screenshots of a run, its video, the exchanges with models, the
    messages to its server and program logs.
    """
    for name in ("screens", "logs", "page"):
        shutil.rmtree(run_dir / name, ignore_errors=True)
    for name in ("exchanges.jsonl", "messages.jsonl", VIDEO_FILE):
        (run_dir / name).unlink(missing_ok=True)


def make_room(runs_dir: Path, megabytes: int, keep: Iterable[Path]) -> str:
    """Remove runs of ended tests until the directory is small enough. Return a message,
    "" if nothing was removed.

    The oldest runs of tests that did not fail go first, then the oldest of those that
    did. A run stays if it is one of `keep`, if no test has ended that made it, or if it
    has a draft.
    """
    sizes = {
        path: _size_of(path)
        for path in runs_dir.iterdir()
        if (path / "trace.jsonl").is_file()
    }
    before = sum(sizes.values())
    max_bytes = megabytes * _MEGABYTE
    if before <= max_bytes:
        return ""
    total = before
    removed = 0
    bad = 0
    for is_bad, _, _, path in sorted(_removable(sizes, keep)):
        if total <= max_bytes:
            break
        shutil.rmtree(path, ignore_errors=True)
        total -= sizes[path]
        removed += 1
        bad += is_bad
    message = "1 run was" if removed == 1 else f"{removed} runs were"
    message += " removed, the oldest first"
    if bad:
        message += f", {bad} of them of tests that failed"
    message += f": all runs had {before / _MEGABYTE:.0f} MB of at most {megabytes}"
    message += " (vnc_max_megabytes)"
    if total > max_bytes:
        message += f"; {total / _MEGABYTE:.0f} MB are left, in runs that stay"
    return message


def _size_of(run_dir: Path) -> int:
    size = 0
    for file in run_dir.rglob("*"):
        with suppress(OSError):
            size += file.lstat().st_size
    return size


def _removable(
    runs: Iterable[Path], keep: Iterable[Path]
) -> Iterator[tuple[bool, float, str, Path]]:
    """Yield the runs that may be removed. A test that did not fail sorts before one
    that did, an older one before a newer one.
    """
    kept = {path.resolve() for path in keep}
    for path in runs:
        if path.resolve() in kept or (path / DRAFT_FILE).exists():
            continue
        with suppress(RunDirectoryError):  # a directory that is not understood stays
            ended = read_finished_test(path)
            if ended:
                ended_at = (path / RESULT_FILE).stat().st_mtime
                yield ended.is_bad, ended_at, path.name, path
