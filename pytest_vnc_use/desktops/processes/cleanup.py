"""The cleanup after one desktop: it ends the desktop's processes and removes their files. Standard library only.

It also runs as a script:

    python cleanup.py FOLDER SESSION… -SESSION…

A session that is named again with a minus sign is no longer the desktop's, because the system may have reused its
number.

Every process of a desktop carries FOLDER in its environment, under the name MARK, and its children inherit it. A
program that overwrote its environment is found by the ids of the sessions that were started. A program that leaves both
behind, such as `env -i setsid …`, is ended by the sitter of the program that started it, see sitter.py. Two kinds of
programs are not found: another user's program in its own session, and one that leaves both behind after its sitter was
killed. Formats of the files: proc(5). Linux only.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

MARK = "VNC_DESKTOP_FOLDER"
GRACE_S = 3.0
_COMMAND_S = 30.0
"""The time that a noted command may take; then it is killed, and the next one runs."""
_SITTER = b"vnc-use sitter\n"
"""The name of processes that end what they started by themselves; they must not be killed before that."""
_KILLS = 5
"""The number of kills: a program that forks at the moment of one leaves a child for the next one."""


def clean(folder: Path, sessions: Collection[int] = ()) -> dict[int, str]:
    """End the desktop's processes and remove their files; the folder goes last, because it lists the rest.

    Returns what `end_processes` returns.
    """
    left = end_processes(folder, sessions)
    run_noted_commands(folder)
    remove_left_files(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return left


# --- processes -------------------------------------------------------------------------------------------------------


def end_processes(folder: Path, sessions: Collection[int], spare: Collection[int] = ()) -> dict[int, str]:
    """End a desktop's processes, except those in `spare`: first by SIGTERM; after GRACE_S by SIGKILL.

    Returns the names, by id, of processes that are still there: another user's, such as `sudo` starts, or hanging ones.
    """
    mark = os.fsencode(f"{MARK}={folder}")
    return _end(partial(_processes, lambda pid: pid not in spare and _belongs(pid, mark, sessions)))


def end_sessions(sessions: Collection[int]) -> dict[int, str]:
    """End the processes of some sessions only, in the same way."""
    return _end(partial(_processes, lambda pid: _session_of(pid) in sessions))


def _end(find: Callable[[], Iterable[int]]) -> dict[int, str]:
    _signal_and_wait(find(), signal.SIGTERM)
    for again in range(_KILLS):
        left = list(find())
        if not _signal_and_wait(left, signal.SIGKILL, spare_sitters=not again):
            break
    return dict(_named(left))


def _signal_and_wait(pids: Iterable[int], number: signal.Signals, *, spare_sitters: bool = False) -> bool:
    """Signal all processes and wait until they have ended, GRACE_S at most; return False if there were none."""
    signalled, watched = False, set()
    with ExitStack() as stack:
        for pid in pids:
            with suppress(ProcessLookupError):
                watched.add(descriptor := os.pidfd_open(pid))
                stack.callback(os.close, descriptor)
                signalled |= (spare_sitters and _is_sitter(pid)) or _signal(pid, number)
        if signalled:
            until_s = time.monotonic() + GRACE_S
            while watched and (left_s := until_s - time.monotonic()) > 0:
                watched.difference_update(select.select(watched, [], [], left_s)[0])
        return signalled


def _signal(pid: int, number: signal.Signals) -> bool:
    """Send a signal; return False for another user's process.

    Such a process may still end with the others, as programs do with their X server.
    """
    try:
        os.kill(pid, number)
    except PermissionError:
        return False
    return True


def _is_sitter(pid: int) -> bool:
    with suppress(OSError):  # it ended meanwhile
        return _content(pid, "comm") == _SITTER
    return False


def _named(pids: Iterable[int]) -> Iterator[tuple[int, str]]:
    """Yield the processes that live, each with its name."""
    for pid in pids:
        with suppress(OSError):  # it ended meanwhile
            if _session_of(pid) is not None:
                yield pid, _content(pid, "comm").decode(errors="replace").strip()


def _processes(chosen: Callable[[int], bool]) -> Iterator[int]:
    for name in (each.name for each in Path("/proc").iterdir()):
        if name.isdigit():
            with suppress(OSError):  # it ended meanwhile, or is another user's
                if chosen(int(name)):
                    yield int(name)


def _belongs(pid: int, mark: bytes, sessions: Collection[int]) -> bool:
    session = _session_of(pid)
    return session in sessions or (session is not None and mark in _content(pid, "environ").split(b"\0"))


def _session_of(pid: int) -> int | None:
    """Return the session of a process; None if it has ended and its parent has not noticed yet."""
    state, _, _, session = _content(pid, "stat").rpartition(b")")[2].split()[:4]
    return None if state in (b"Z", b"X") else int(session)


def _content(pid: int, name: str) -> bytes:
    with Path(f"/proc/{pid}/{name}").open("rb", buffering=0) as file:
        return file.read()


# --- files outside the folder ----------------------------------------------------------------------------------------


def note_files(folder: Path, paths: Iterable[Path]) -> None:
    """Note which files outside the folder are the desktop's own, in case its X server cannot remove them itself."""
    lines = [f"{path}\t{_identity(path)}\n" for path in paths if path.exists()]
    notes = folder / "files"
    notes.touch(mode=0o600)
    notes.write_text("".join(lines))


def remove_left_files(folder: Path) -> None:
    """Remove the noted files that are still the same ones; another X server may have taken the path since."""
    with suppress(FileNotFoundError):
        for line in (folder / "files").read_text().splitlines():
            path, _, identity = line.partition("\t")
            with suppress(FileNotFoundError):
                if _identity(Path(path)) == identity:
                    Path(path).unlink()


def _identity(path: Path) -> str:
    status = path.stat()
    return f"{status.st_dev} {status.st_ino} {status.st_ctime_ns}"


# --- programs elsewhere ----------------------------------------------------------------------------------------------


def note_command(folder: Path, command: Sequence[str]) -> None:
    """Note a command that ends something other than a process here: a container, a program on another machine."""
    commands = folder / "commands"
    commands.touch(mode=0o600)
    with commands.open("a", encoding="utf-8") as file:
        file.write(json.dumps(list(command)) + "\n")


def run_noted_commands(folder: Path) -> None:
    """Run the noted commands in order. A command that fails had nothing to end, or cannot end it."""
    with suppress(FileNotFoundError):
        for line in (folder / "commands").read_text(encoding="utf-8").splitlines():
            with suppress(OSError, subprocess.TimeoutExpired, ValueError):  # ValueError: it was being written
                subprocess.run(
                    json.loads(line),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=_COMMAND_S,
                )


def _sessions_left(words: Iterable[str]) -> set[int]:
    """Return the sessions that were named, and not named again with a minus sign."""
    sessions: set[int] = set()
    for session in map(int, words):
        if session > 0:
            sessions.add(session)
        else:
            sessions.discard(-session)
    return sessions


if __name__ == "__main__":
    clean(Path(sys.argv[1]), _sessions_left(sys.argv[2:]))
