"""A temporary folder of one process. After a kill, a later process removes it.

The process owns its folder through a lock of the operating system, which ends with it: no number of a process is
compared, because another process may have the same number later.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

_OWNER = "owner.lock"


class OwnedFolder:
    """A new temporary folder. `close()` removes it; after a kill, the next process that makes such a folder does."""

    def __init__(self, prefix: str) -> None:
        remove_left_folders(prefix)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=prefix))
            self._owned = FileLock(self.path / _OWNER, mode=0o600, timeout=0, thread_local=False)
            # another process may take the new folder for one that was left, until this one has locked it
            with suppress(Timeout, FileNotFoundError, FileExistsError):
                self._owned.acquire()
                return

    def close(self) -> None:
        """Remove the folder; a second call does nothing."""
        self._owned.release()
        shutil.rmtree(self.path, ignore_errors=True)


def remove_left_folders(prefix: str) -> None:
    """Remove the folders of this user whose process has ended without `close()`."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(Timeout, OSError):  # its process lives, or another one is removing it
            if _is_own(folder.lstat(), stat.S_ISDIR) and _is_own((folder / _OWNER).lstat(), stat.S_ISREG):
                with FileLock(folder / _OWNER, mode=0o600, timeout=0):
                    shutil.rmtree(folder, ignore_errors=True)
                shutil.rmtree(folder)  # again for Windows, which removes no open file


def _is_own(status: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    """Return whether a file is this user's and of this kind; a link is of none, and may lead anywhere."""
    return is_kind(status.st_mode) and (sys.platform == "win32" or status.st_uid == os.getuid())
