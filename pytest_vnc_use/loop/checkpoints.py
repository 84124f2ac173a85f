"""The checkpoints of a run: their file, and the errors of damaged ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_vnc_use.errors import RunFolderError, VncUseError

CHECKPOINTS = "checkpoints.sqlite"
"""Their file in the run folder."""
NO_CHECKPOINT = "run {!r} left no checkpoint to go on from; start its task again"


@contextmanager
def damage_as_error(run_id: str) -> Iterator[None]:
    """Map errors of damaged checkpoints to RunFolderError; a full disk keeps its own error."""
    try:
        yield
    except VncUseError:
        raise
    except Exception as exc:  # for a damaged file SQLite and LangGraph may raise anything
        if isinstance(exc, sqlite3.OperationalError) and "full" in str(exc):
            raise
        raise RunFolderError(
            f"the checkpoints of run {run_id!r} are damaged ({type(exc).__name__}: {exc}), so it cannot continue. "
            "Its run folder shows what it did; start the task again"
        ) from exc
