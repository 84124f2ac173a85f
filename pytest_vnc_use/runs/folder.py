"""The run folder: its versioned format, and the code that writes it. `trace` and `exchanges` read it.

    runs/<run_id>/
      trace.jsonl         a header, then one event of `types.RunEvent` a line, each complete by itself
      exchanges.jsonl     one HTTP exchange with a model a line, complete; the trace has its line number
      screens/            the picture of each frame, once, as <sha256>.png
      messages.jsonl      the messages that were sent to the VNC server, with vnc_rfb_log; see runs/messages.py
      checkpoints.sqlite  the graph's own file, which this module never opens
      logs/               the output of the desktop's processes, see runs/program_logs.py
      result.json         how the test ended that made the run, see runs/ended_test.py

An event's `at_s` is the time since the run began, in seconds; older traces do not have it. The checkpoints of a run
that has ended are removed: nobody can go on with it.

A line is one write that ends in a newline. A line without a newline was cut off by the death of its writer:
readers skip it, and the next writer removes it. Readers ignore unknown fields and unknown kinds of event; they refuse a
higher version.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path, PureWindowsPath
from threading import Lock

from pytest_vnc_use import clock, files
from pytest_vnc_use.errors import RunFolderError, RunFolderUnwritable
from pytest_vnc_use.runs.exchanges import Exchanges, read_exchanges as read_exchanges
from pytest_vnc_use.runs.json_lines import JsonLines, from_json as from_json, private, to_json as to_json
from pytest_vnc_use.runs.reading import LARGEST, read_whole
from pytest_vnc_use.runs.trace import Header, Trace as Trace, open_trace, read_trace as read_trace
from pytest_vnc_use.types import Frame, FrameRef, ModelExchange, RunEvent


def new_run_id() -> str:
    """Return a unique name for a run. It is safe as a file name and sorts by time (UTC, milliseconds)."""
    now = clock.utc_now()
    return f"{now:%Y%m%d-%H%M%S}-{now.microsecond // 1000:03d}-{secrets.token_hex(4)}"


def path_of(runs_dir: Path, run_id: str) -> Path:
    """Return the path of a run folder. Raises RunFolderError for a run id that leads elsewhere."""
    is_name = Path(run_id).name == run_id == PureWindowsPath(run_id).name and run_id not in ("", "..")
    if not (is_name and run_id.isprintable()):
        raise RunFolderError(f"a run id must be the name of a folder in {str(runs_dir)!r}, got {run_id!r}")
    return runs_dir / run_id


class RunFolder:
    """The folder of one run. One process at a time writes it; its threads may share it."""

    def __init__(self, path: Path, began_at: float | None = None) -> None:
        self.path = path
        self._trace = JsonLines(path / "trace.jsonl")
        self._exchanges = Exchanges(path)
        self._lock = Lock()
        self._began_s = None if began_at is None else clock.monotonic() - max(clock.epoch() - began_at, 0.0)

    @property
    def began_s(self) -> float:
        """The moment of the monotonic clock when the run began; now, if its trace does not have it."""
        return clock.monotonic() if self._began_s is None else self._began_s

    @classmethod
    def create(cls, runs_dir: Path, run_id: str) -> RunFolder:
        """Return a new folder with its header, for its owner alone.

        Raises RunFolderUnwritable if it exists or cannot be made.
        """
        path = path_of(runs_dir, run_id)
        try:
            runs_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.mkdir(mode=0o700)
            (path / "screens").mkdir(mode=0o700)
        except OSError as exc:
            raise RunFolderUnwritable(f"cannot make the run folder {str(path)!r}: {exc}") from exc
        header = Header(run_id, began_at=round(clock.epoch(), 3))
        folder = cls(path, header.began_at)
        try:
            folder._trace.append(to_json(header))
        except RunFolderUnwritable:
            shutil.rmtree(path, ignore_errors=True)  # it is empty, and nothing else would name it
            raise
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Return the folder of an earlier run, to read or to continue. Raises RunFolderError if there is none."""
        return cls(path, open_trace(path)[0].began_at)

    def append(self, event: RunEvent) -> None:
        """Write one event. After the return it survives a kill -9 of the process."""
        with self._lock:
            line = to_json(self._exchanges.append(event) if isinstance(event, ModelExchange) else event)
            at = {} if self._began_s is None else {"at_s": round(clock.monotonic() - self._began_s, 3)}
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
        except (OSError, ValueError) as exc:  # ValueError is raised for a NUL in the name
            raise RunFolderError(f"the screen {ref.digest!r} cannot be read from {str(self.path)!r}: {exc}") from exc
        if hashlib.sha256(png).hexdigest() != ref.digest:
            raise RunFolderError(f"{str(source)!r} is damaged: its SHA-256 is not its name")
        return png


def _screen_path(path: Path, ref: FrameRef) -> Path:
    return path / "screens" / f"{ref.digest}.png"


def write_atomically(target: Path, content: bytes, opener: Callable[[str, int], int] | None = private) -> None:
    """Write all of the content or nothing; by default for the owner alone. Raises RunFolderUnwritable."""
    try:
        with files.draft_of(target) as draft:
            with open(draft, "wb", opener=opener) as file:  # Path.open takes no opener
                file.write(content)
            draft.replace(target)
    except OSError as exc:
        raise RunFolderUnwritable(f"cannot write {str(target)!r}: {files.reason_of(exc)}") from exc
