"""The videos of a test's runs: which tests have one, and whether it stays.

Each run has one, from its start until the next run starts or the test's call has ended.
It is written when the test's result says that it stays.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_vnc_use import clock
from pytest_vnc_use.agent.connection import Connection
from pytest_vnc_use.backends.video import Recorder
from pytest_vnc_use.errors import RunDirectoryUnwritable
from pytest_vnc_use.runs.directory import VIDEO_FILE, FinishedTest
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import DirectoryCreated, RunEvent

_SECRET = "a secret was typed on the desktop"
_NO_SCREEN = (
    "the desktop showed no screen, a larger one than 16,383 pixels a side, or one that"
    " its custom controller does not share"
)
_FIRST_RETRY = 2


def video_of(
    settings: Settings, attempt: int, connection: Connection
) -> VideoOfTest | None:
    """Return what records the videos of a test; None if the settings ask for none in
    this attempt, which counts from 1.
    """
    if settings.video == "off" or settings.artifacts == "off":
        return None
    if settings.video == "on-first-retry" and attempt != _FIRST_RETRY:
        return None
    only_failed = "retain-on-failure" in (settings.video, settings.artifacts)
    return VideoOfTest(connection, only_failed=only_failed)


class VideoOfTest:
    """The observer of a test's runs that records the video of each."""

    def __init__(self, connection: Connection, *, only_failed: bool) -> None:
        self._connection = connection
        self._only_failed = only_failed
        self._recorders: dict[Path, Recorder] = {}
        """The recorders of the runs whose videos are not written yet, oldest first."""
        self._has_typed_secret = False
        self._problem = ""

    def observe(self, event: RunEvent) -> None:
        """Start the video of a run, which ends that of the run before."""
        self._has_typed_secret |= self._connection.has_typed_secret
        if isinstance(event, DirectoryCreated):
            self._stop()
            recorder = Recorder(self._connection.filmed_screen, clock.monotonic())
            self._recorders[event.directory] = recorder
            recorder.start()

    def end(self, ended: FinishedTest, phase: str) -> FinishedTest:
        """End the videos, unless only the test's setup has passed, and write those that
        stay. Return the result, with the reason why a video is missing.
        """
        if phase == "setup" and not ended.is_bad:
            return ended
        self._stop()
        self._has_typed_secret |= self._connection.has_typed_secret
        if ended.is_bad or not self._only_failed:
            for run, recorder in self._recorders.items():
                self._problem = self._problem or self._write(recorder, run)
            self._recorders.clear()
        return replace(ended, video=self._problem)

    def _stop(self) -> None:
        for recorder in self._recorders.values():
            recorder.stop()

    def _write(self, recorder: Recorder, run: Path) -> str:
        """Write the video of a run; return why there is none, or ""."""
        if self._has_typed_secret:
            return _SECRET
        if not run.is_dir():  # its steps were undone
            return ""
        try:
            is_written = recorder.write(run / VIDEO_FILE)
        except RunDirectoryUnwritable as exc:
            return str(exc)
        return "" if is_written else _NO_SCREEN
