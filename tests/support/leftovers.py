"""Checks of what a desktop leaves behind: processes, by the directory that each of them
names, and files.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def processes_naming(directory: Path | str) -> dict[int, str]:
    """Return names by id of the living processes whose command or environment names a
    path in `directory`.
    """
    names = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            said = (process / "cmdline").read_bytes() + (
                process / "environ"
            ).read_bytes()
            if str(directory).encode() in said and int(process.name) != os.getpid():
                names[int(process.name)] = (process / "comm").read_text().strip()
    return names


def is_running(pid: int | str) -> bool:
    """Return whether the process is there and has not ended. One that was not waited
    for yet has ended.
    """
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            not in "ZX"
        )
    except OSError:
        return False


class OneFile:
    """A file as it is now; another one that takes its path, as the next X server's
    socket does, does not count.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity = self._now()

    def exists(self) -> bool:
        return self._identity is not None and self._now() == self._identity

    def _now(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_ctime_ns
