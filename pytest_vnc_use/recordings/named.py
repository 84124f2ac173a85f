"""Recordings that several tests share by name: which file a name stands for, when it is
recorded again, and that only one process records it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import BaseFileLock, Timeout

from pytest_vnc_use.deadline import acquire, uncounted
from pytest_vnc_use.errors import RecordingError, SettingsError
from pytest_vnc_use.recordings import ANSWER_IT
from pytest_vnc_use.recordings.format import Recording, Segment
from pytest_vnc_use.recordings.names import SHARED
from pytest_vnc_use.recordings.store import (
    Key,
    load,
    read_recording,
    recordings_in,
    writer_lock,
)
from pytest_vnc_use.types import RecordingAwaited, RunEvent
from pytest_vnc_use.types.verdicts import end_state_claim

_MAX_WAIT_S = 600.0
"""The longest wait for another process that makes the same recording."""


@dataclass(frozen=True)
class NamedRecordings:
    """The named recordings that the tests of a session find.

    Args:
        root: No recording above this directory is used.
        again: The names of those to record again, each in the first test of the session
            that uses it.
        session_dir: Where all processes of the session note what they have recorded
            again; needed where `again` has names.
    """

    root: Path
    again: Collection[str] = ()
    session_dir: Path | None = None

    def key(self, name: str, module: Path) -> Key:
        """Return the key of the recording that a name stands for in a test file."""
        return Key.of_name(name, module, self.root)

    def load(self, key: Key) -> Recording | None:
        """Return a named recording; None where there is none, or it is to be recorded
        again. Raises RecordingError, OSError.
        """
        if key.name in self.again and not self._noted(key).exists():
            return None
        return load(key.path)

    def note_recorded(self, key: Key) -> None:
        """Note that a recording is not to be recorded again in this session."""
        if key.name in self.again:
            self._noted(key).touch()

    def _noted(self, key: Key) -> Path:
        assert self.session_dir is not None
        return self.session_dir / f"recorded-{key.name}"


def hold(key: Key, emit: Callable[[RunEvent], None]) -> BaseFileLock:
    """Return the lock for making a recording, once no other process has it. Raises
    RecordingError after ten minutes.
    """
    name = key.name or key.test
    lock = writer_lock(key.path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        emit(RecordingAwaited(name))
        try:
            with uncounted():
                acquire(lock, _MAX_WAIT_S)
        except Timeout as exc:
            raise RecordingError(
                f"Another process records {name!r} for longer than"
                f" {_MAX_WAIT_S:.0f} s. Record it alone: without -n, or with -n 1"
            ) from exc
    return lock


def check_use(
    key: Key, segment: Segment, task: str, expect: Sequence[str] | None
) -> None:
    """Raise SettingsError where a test uses the name of a recording for another task,
    or with other claims; None stands for `expect=None`.
    """
    end = end_state_claim(segment.task)
    claims = [answer.claim for answer in segment.claims if answer.verdict != "read"]
    recorded: object = [claim for claim in claims if claim != end]
    if segment.confirmed_by == "body":
        recorded = None
    used: object = None if expect is None else [*expect]
    for what, was, now in (
        ("the task", segment.task, task),
        ("expect", recorded, used),
    ):
        if was != now:
            raise SettingsError(
                f"The recording {key.name!r} has {what} {was!r}, but this test uses it"
                f" with {now!r}. One name is one task: take another name; or if all its"
                f" tests have it so now, {ANSWER_IT}, or record it again with"
                f" --vnc-rerecord={key.name}"
            )


def rename_hint(key: Key, task: str) -> str:
    """Return the command that gives a named recording its new name, if exactly one
    beside it has the task; else "".
    """
    fitting = []
    for path in recordings_in(key.path.parents[2], SHARED) if key.name else []:
        with suppress(OSError, RecordingError):  # one that cannot be read has no task
            tasks = [segment.task for segment in read_recording(path).segments]
            fitting += [path] if tasks == [task] else []
    if len(fitting) != 1:
        return ""
    directories = [os.path.relpath(path.parent) for path in (fitting[0], key.path)]
    command = shlex.join(["mv", *directories])
    return f"{directories[0]!r} has its task; if it was renamed: {command}"
