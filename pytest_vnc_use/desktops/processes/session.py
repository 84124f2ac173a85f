"""A session of one desktop: a private folder, and processes that outlive neither the desktop nor this process.

work       the working folder of the program under test, and of every command; a reset empties it
work/logs  the standard output and error of each process
lock       locked while this process or the guard lives; a folder whose lock is free was left behind
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from glob import glob
from pathlib import Path
from types import MappingProxyType
from typing import IO
from weakref import WeakSet

from pytest_vnc_use.desktops.processes import cleanup
from pytest_vnc_use.desktops.processes.attended import AttendedProgram
from pytest_vnc_use.desktops.processes.environment import as_new_user, inheritable
from pytest_vnc_use.desktops.processes.process import Process, text_of
from pytest_vnc_use.desktops.processes.working_folder import opened_to_write
from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.types.protocols import Ran

PREFIX = "vnc-use-"
_MOST_CHARACTERS = 80
_GUARD = """
told=
while read -r session; do told="$told $session"; done
[ -e "$1" ] && exec "$2" -I -S "$3" "$1" $told
"""
"""A script that outlives the process that started a desktop, and then turns into cleanup.py.

It is called as: sh -c _GUARD … FOLDER PYTHON CLEANING. Sessions come on standard input, one a line, as cleanup.py takes
them. The input ends when the other side closes it, or dies, even by kill -9. If FOLDER is still there then, nobody has
cleaned up. It is a shell script, because it starts beside the X server, whose start a Python process would slow down.
"""


class Session:
    """A private folder, the processes started in it, and the guard that ends them after this process.

    `environment` is added to `inherited`, this process's own by default. With `new_user` the programs find
    none of the tester's settings, and not the tester's session bus. The private folder is made in `place`, the
    temporary folder by default. Remains of earlier sessions are removed first. A session belongs to the process that
    made it: in a forked child it counts as stopped. Linux only.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        place: Path | None = None,
        inherited: Mapping[str, str] | None = None,
        *,
        new_user: bool = False,
    ) -> None:
        remove_leftovers()
        self.folder, self._lock = _make_locked_folder(place)
        self.working_folder = self.folder / "work"
        self._logs = self.working_folder / "logs"
        for part in (self.working_folder, self._logs):
            part.mkdir(mode=0o700)
        self._profile = self.folder / "profile" if new_user else None
        base = as_new_user(inheritable(inherited), self._profile) if self._profile else inheritable(inherited)
        self.environment = {**base, **environment, cleanup.MARK: str(self.folder)}
        self._processes: list[Process] = []
        self._staying: list[Process] = []
        self._commands: list[AttendedProgram] = []
        self._stopped = False
        self._guard = self._start_guard()
        _sessions.add(self)

    def start(
        self,
        role: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        pass_fds: Collection[int] = (),
        client_of: Sequence[str] = (),
        attended: bool = False,
        closed_at: str = "",
    ) -> Process:
        """Start a process that runs until the session stops; `role` names it in messages and names its log.

        Words of the command that are relative paths with a slash, as seen from here, are made absolute first, because
        the process starts in another folder. An `attended` process has a sitter, which limits its log and ends
        everything that it started; with `closed_at` it has its own network (see `AttendedProgram`). If the command is
        only a client, such as `docker exec`, `client_of` is the command that it runs elsewhere; messages name that one.
        Raises DesktopError if it cannot be started.
        """
        log = self._logs / f"{role.replace(' ', '-')}.txt"
        with self._new_log(log) as output:
            words = [seen_from_here(word) for word in command]
            if attended:
                popen: AttendedProgram | subprocess.Popen[bytes] = self._attend(
                    words, output, output, environment or {}, closed_at
                )
            else:
                popen = self._popen(words, output, environment or {}, pass_fds)
        title = f"the {role} {_shorten(client_of or command)!r}"
        process = Process(role, title, popen, log, elsewhere=bool(client_of))
        self._processes.append(process)
        self._tell_guard(popen.pid)
        return process

    def end(self, process: Process) -> None:
        """End one process, and everything that it started in its session. Raises DesktopError if that fails."""
        _check_ended(cleanup.end_sessions(process.sessions))
        self._forget(process)

    def mark_start(self) -> None:
        """Note that the processes that run now must stay: `reset()` does not end them."""
        self._staying = list(self._processes)

    @property
    def alive(self) -> bool:
        """Return whether the folder exists, and all processes that must stay run."""
        return self.folder.exists() and not any(process.end for process in self._staying)

    def fault(self) -> str:
        """Return how a process that must stay has ended, and its last output; "" while all of them run."""
        ended = next((process for process in self._staying if process.end), None)
        return ended.message(ended.end) if ended else ""

    def reset(self) -> None:
        """End everything started since `mark_start()`, and empty the working folder, except the logs that are in use.

        What programs keep of their user is removed too.

        Raises DesktopError if that fails, or a process that must stay has ended.
        """
        passing = [process for process in self._processes if process not in self._staying]
        staying = [process.popen.pid for process in self._staying]
        _check_ended(cleanup.end_processes(self.folder, [process.popen.pid for process in passing], spare=staying))
        for process in passing:
            self._forget(process)
        self._empty_working_folder()
        if fault := self.fault():
            raise DesktopError(fault)

    def logs(self) -> dict[str, str]:
        """Return the output of each process so far, by its role; the last megabyte."""
        return {process.role: process.output for process in self._processes}

    def run(self, command: Sequence[str], timeout_s: float) -> Ran:
        """Run a command until it ends. Raises DesktopError if it cannot start or does not end in time.

        Of an output that is longer than a megabyte the beginning and the end are kept. A command that takes longer is
        killed, with everything that it has started. Background processes of a command stay until the next reset, or the
        end.
        """
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            attended = self._attend(command, stdout, stderr)
            self._commands = [each for each in self._commands if not each.is_over] + [attended]
            try:
                code = attended.wait(timeout_s)
            except subprocess.TimeoutExpired as exc:
                problem = f"the command {_shorten(command)!r} did not end within {timeout_s:g} s"
                raise DesktopError(f"{problem}; give it a longer timeout_s, or end it with '&' in a shell") from exc
            finally:
                if attended.poll() is None:
                    attended.kill()
            return Ran(code, text_of(stdout), text_of(stderr))

    def stop(self) -> None:
        """End all processes and remove the folder; a second call does nothing.

        When everything else is done, raises DesktopError that names the processes which this user may not end.
        """
        if self._stopped:
            return
        self._stopped = True
        left = cleanup.clean(self.folder, [process.popen.pid for process in self._processes])
        for process in self._processes:
            if process.popen.pid not in left:
                process.popen.wait()
        for command in self._commands:
            command.wait()
        self._end_guard()
        os.close(self._lock)
        _check_ended(left)

    def leave_to_parent(self) -> None:
        """Give the session up in a forked child, where it then counts as stopped.

        The child would keep the desktop alive by the descriptors that it inherits, and it must not end the desktop
        either.
        """
        if not self._stopped:
            self._stopped = True
            os.close(self._lock)
            self._guard_input.close()

    def _new_log(self, path: Path) -> IO[bytes]:
        """Open a new log. The program may have removed the folder of the logs, which is in its working folder."""
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            return os.fdopen(opened_to_write(path), "wb")
        except OSError as exc:
            problem = f"cannot keep the output in {str(path)!r}: {exc.strerror or exc}"
            raise DesktopError(f"{problem}; leave 'logs' in the program's working folder alone") from exc

    def _popen(
        self, command: Sequence[str], output: IO[bytes], environment: Mapping[str, str], pass_fds: Collection[int]
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                command,
                cwd=self.working_folder,
                env={**self.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=pass_fds,
            )
        except OSError as exc:
            raise _not_started(command, exc) from exc

    def _attend(
        self,
        command: Sequence[str],
        stdout: IO[bytes],
        stderr: IO[bytes],
        environment: Mapping[str, str] = MappingProxyType({}),
        closed_at: str = "",
    ) -> AttendedProgram:
        try:
            environment = {**self.environment, **environment}
            return AttendedProgram(command, self.working_folder, environment, stdout, stderr, closed_at)
        except OSError as exc:
            raise _not_started(command, exc) from exc

    def _forget(self, process: Process) -> None:
        """Forget a process that has ended; its number may soon be another process's."""
        process.popen.wait()
        self._processes.remove(process)
        self._tell_guard(-process.popen.pid)

    def _empty_working_folder(self) -> None:
        kept = {process.log for process in self._staying}
        try:
            for path in self.working_folder.iterdir():
                if path != self._logs or path.is_symlink():
                    _remove(path)
            self._logs.mkdir(mode=0o700, exist_ok=True)
            for path in set(self._logs.iterdir()) - kept:
                _remove(path)
            if self._profile:
                _remove(self._profile)
                as_new_user({}, self._profile)
        except OSError as exc:
            raise DesktopError(f"cannot empty the program's working folder: {exc}") from exc

    def _start_guard(self) -> subprocess.Popen[bytes]:
        with os.fdopen(opened_to_write(self.folder / "guard.txt"), "wb") as errors:
            return subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "guard", str(self.folder), sys.executable, cleanup.__file__],
                bufsize=0,  # a buffer would have a lock, which another thread may hold at the time of a fork
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
                env=inheritable(),
                start_new_session=True,
                pass_fds=[self._lock],
            )

    def _end_guard(self) -> None:
        """Wait for the guard, which ends when its input ends; kill one that was stopped by a signal."""
        try:
            self._guard.communicate(timeout=cleanup.GRACE_S)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.communicate()

    @property
    def _guard_input(self) -> IO[bytes]:
        assert self._guard.stdin is not None
        return self._guard.stdin

    def _tell_guard(self, session: int) -> None:
        with suppress(BrokenPipeError):  # the guard was killed: then stop() does its work
            if not self._guard_input.closed:
                self._guard_input.write(b"%d\n" % session)


_sessions: WeakSet[Session] = WeakSet()


def _leave_all_to_parent() -> None:
    for session in list(_sessions):
        session.leave_to_parent()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_leave_all_to_parent)


def remove_leftovers() -> None:
    """Remove the remains of this user's sessions that were killed together with their guard."""
    temporary = Path(tempfile.gettempdir()).resolve()
    shared = glob(f"pytest-{PREFIX}*/*/{PREFIX}*", root_dir=temporary)  # noqa: PTH207  # Path.glob fails if one goes now
    for folder in (*temporary.glob(f"{PREFIX}*"), *(temporary / name for name in shared)):
        ways = [way for way in folder.parents if temporary in way.parents]
        with suppress(OSError):  # it is in use, or another process is removing it
            if all(map(_is_own_folder, [folder, *ways])):
                _clean_unless_locked(folder)


def _is_own_folder(path: Path) -> bool:
    """Return whether it is a folder of this user. A link is none: it may lead to another folder of this user."""
    status = path.lstat()
    return status.st_uid == os.getuid() and stat.S_ISDIR(status.st_mode)


def _clean_unless_locked(folder: Path) -> None:
    lock = os.open(folder / "lock", os.O_RDWR)
    try:
        _lock_now(lock)
        cleanup.clean(folder)
    finally:
        os.close(lock)


def _make_locked_folder(place: Path | None) -> tuple[Path, int]:
    """Return a new folder and the descriptor of its lock; no other process sees the lock before it is locked."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place)).resolve()
    lock = os.open(folder / "lock.new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    _lock_now(lock)
    (folder / "lock.new").rename(folder / "lock")
    return folder, lock


def _lock_now(descriptor: int) -> None:
    import fcntl  # Windows has none; there, QtDesktop and XvncDesktop say what to do instead

    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _check_ended(left: Mapping[int, str]) -> None:
    """Raise DesktopError if anything is left; it names each process in `left`, which has names by id."""
    if left:
        named = ", ".join(f"{pid} ({name!r})" for pid, name in left.items())
        remedy = f"end it with: sudo kill -9 {' '.join(map(str, left))}"
        raise DesktopError(f"cannot end process {named}: it belongs to another user, or it hangs; {remedy}")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _not_started(command: Sequence[str], exc: OSError) -> DesktopError:
    return DesktopError(f"cannot start {command[0]!r}: {exc.strerror}; give a program that is on PATH, or its path")


def _shorten(command: Sequence[str]) -> str:
    return textwrap.shorten(shlex.join(command), _MOST_CHARACTERS, placeholder=" …")


def seen_from_here(word: str) -> str:
    """Return a word of a command; a path, seen from this process's folder, becomes absolute."""
    path = Path(word)
    return str(path.absolute()) if "/" in word and path.exists() else word
