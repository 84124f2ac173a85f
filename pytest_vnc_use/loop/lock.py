"""A lock: only one process, and one agent in it, drives a run at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from pytest_vnc_use.errors import RunFolderError
from pytest_vnc_use.runs.folder import RunFolder


@contextmanager
def only_driver(folder: RunFolder) -> Iterator[None]:
    """Drive a run as the only one, in this process and others. Raises RunFolderError if somebody else drives it."""
    lock = FileLock(folder.path / "driver.lock", mode=0o600, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RunFolderError(f"this or another process is carrying out run {folder.path.name!r} right now") from None
    try:
        yield
    finally:
        lock.release()
