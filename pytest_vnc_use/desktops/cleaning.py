"""Ends what was started for one desktop, and removes what it left. Standard library only; also run as a script:

    python cleaning.py FOLDER SESSION…

Every process of a desktop carries FOLDER in its environment, under the name MARK, and hands it on to its children. The
ids of the sessions that were started find a program that overwrote its environment. Formats of the files: proc(5).
Linux only.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

MARK = "VNC_DESKTOP_FOLDER"
GRACE_S = 3.0
_KILLS = 5
"""How often what is still there is killed; a program that forks at that moment leaves a child for the next time."""


def clean(folder: Path, sessions: Collection[int] = ()) -> None:
    """End the desktop's processes and remove what they left; the folder goes last, being what tells of the rest."""
    end_processes(folder, sessions)
    remove_left_files(folder)
    shutil.rmtree(folder, ignore_errors=True)


# --- processes -------------------------------------------------------------------------------------------------------


def end_processes(folder: Path, sessions: Collection[int]) -> None:
    """First by SIGTERM; after GRACE_S by SIGKILL."""
    _signal_and_wait(_processes(folder, sessions), signal.SIGTERM)
    for _ in range(_KILLS):
        if not _signal_and_wait(_processes(folder, sessions), signal.SIGKILL):
            return


def _signal_and_wait(pids: Iterable[int], number: signal.Signals) -> bool:
    """Signal them all and wait until all have ended, GRACE_S at most. False where there was nobody to signal."""
    with ExitStack() as stack:
        watched = set()
        for pid in pids:
            with suppress(ProcessLookupError):
                watched.add(os.pidfd_open(pid))
                os.kill(pid, number)
        for descriptor in watched:
            stack.callback(os.close, descriptor)
        _wait_ended(set(watched), time.monotonic() + GRACE_S)
        return bool(watched)


def _wait_ended(watched: set[int], until_s: float) -> None:
    while watched and (left_s := until_s - time.monotonic()) > 0:
        watched.difference_update(select.select(watched, [], [], left_s)[0])


def _processes(folder: Path, sessions: Collection[int]) -> Iterator[int]:
    mark = os.fsencode(f"{MARK}={folder}")
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):  # it ended meanwhile, or is another user's
                if _belongs(Path("/proc", name), mark, sessions):
                    yield int(name)


def _belongs(process: Path, mark: bytes, sessions: Collection[int]) -> bool:
    state, _, _, session = (process / "stat").read_bytes().rpartition(b")")[2].split()[:4]
    if state in (b"Z", b"X"):
        return False
    return int(session) in sessions or mark in (process / "environ").read_bytes().split(b"\0")


# --- files outside the folder ----------------------------------------------------------------------------------------


def note_files(folder: Path, paths: Iterable[Path]) -> None:
    """Note which files outside the folder are the desktop's own, for when its X server cannot remove them itself."""
    lines = [f"{path}\t{_identity(path)}\n" for path in paths if path.exists()]
    (folder / "files").write_text("".join(lines))


def remove_left_files(folder: Path) -> None:
    """Remove the noted files that are still the same ones; another X server may have taken the path since."""
    with suppress(FileNotFoundError):
        for line in (folder / "files").read_text().splitlines():
            path, _, identity = line.partition("\t")
            with suppress(FileNotFoundError):
                if _identity(Path(path)) == identity:
                    os.unlink(path)


def _identity(path: Path) -> str:
    status = path.stat()
    return f"{status.st_dev} {status.st_ino} {status.st_ctime_ns}"


if __name__ == "__main__":
    clean(Path(sys.argv[1]), {int(session) for session in sys.argv[2:]})
