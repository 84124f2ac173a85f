"""The run logger, which writes a run's events as they happen, without secrets."""

from __future__ import annotations

from pytest_vnc_use.runs.folder import RunFolder
from pytest_vnc_use.runs.redaction import Redactor
from pytest_vnc_use.runs.uitask_trace import ExecutionLog
from pytest_vnc_use.types import RunEvent, RunStarted


class RunLogger:
    """A RunObserver that writes every event into the run folder as it happens, without secrets.

    `start_redactor` is for the start of the run, because another process continues with its task and settings. It
    leaves words alone that are the same as the desktop's password. In a reopened folder the logger continues where the
    previous one stopped. Raises RunFolderError if it cannot write.
    """

    def __init__(self, folder: RunFolder, redactor: Redactor, start_redactor: Redactor | None = None) -> None:
        self.folder = folder
        self._execution = ExecutionLog(folder.path)
        self._redactor = redactor
        self._start_redactor = start_redactor or redactor

    def observe(self, event: RunEvent) -> None:
        """Write one event without its secrets."""
        redactor = self._start_redactor if isinstance(event, RunStarted) else self._redactor
        hidden = redactor.hide_in(event)
        self.folder.append(hidden)
        self._execution.observe(hidden)
