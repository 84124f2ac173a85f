"""What is started for one desktop: a private folder and processes that outlive neither the desktop nor this process.

work       the working folder of the program under test, and of every command
work/logs  what each process wrote to its standard output and error
lock       locked while this process or the guard lives; what is not locked was left behind
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from pytest_vnc_use.desktops import cleaning, guard
from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.ports import Ran

_PREFIX = "vnc-use-"
_SHOWN_CHARACTERS = 80
_NOT_FOR_THE_DESKTOP = ("WAYLAND_DISPLAY", "WAYLAND_SOCKET", "GOOGLE_API_KEY", "GEMINI_API_KEY", "VNC_USE_PASSWORD")
"""Variables that would lead a program to the screen of whoever runs the tests, or give it the tests' own secrets."""


class Process:
    """A process of a session; `title` is what messages call it, such as "the program 'python shop'"."""

    def __init__(self, title: str, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.title = title
        self.popen = popen
        self._log = log

    @property
    def exit_code(self) -> int | None:
        """None while it runs; -n where signal n ended it."""
        return self.popen.poll()

    def output_tail(self, lines: int = 20) -> str:
        """The last lines of what it wrote to its standard output and error; empty once the session is stopped."""
        try:
            text = self._log.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    @property
    def end(self) -> str:
        """How it ended, such as `exited with -11 (SIGSEGV)`; empty while it runs."""
        return "" if self.exit_code is None else f"exited with {_told_exit_code(self.exit_code)}"

    def told(self, what: str) -> str:
        """A sentence about it, and the last lines of its output."""
        return f"{self.title} {what}\n{self.output_tail() or '(it printed nothing)'}"


class Session:
    """A private folder, the processes started in it, and the guard (guard.py) that ends them behind this process.

    `environment` is added to this process's own. What earlier sessions left behind is removed first. Linux only.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        remove_leftovers()
        self.folder, self._lock = _make_locked_folder()
        self.working_folder = self.folder / "work"
        self._logs = self.working_folder / "logs"
        self._logs.mkdir(parents=True)
        inherited = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_THE_DESKTOP}
        self.environment = {**inherited, **environment, cleaning.MARK: str(self.folder)}
        self._processes: list[Process] = []
        self._stopped = False
        self._guard = self._start_guard()

    def start(
        self,
        role: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        pass_fds: Collection[int] = (),
    ) -> Process:
        """Start a process that runs until the session stops; `role` names it in messages and names its log.

        Words of the command that are relative paths with a slash, seen from here, are made absolute first, since it
        starts elsewhere. Raises DesktopError where it cannot be started.
        """
        log = self._logs / f"{role.replace(' ', '-')}.txt"
        with log.open("wb") as output:
            words = [_seen_from_here(word) for word in command]
            popen = self._popen(words, output, output, environment or {}, pass_fds)
        process = Process(f"the {role} {_shown(command)!r}", popen, log)
        self._processes.append(process)
        self._tell_guard(popen.pid)
        return process

    def run(self, command: Sequence[str], timeout_s: float) -> Ran:
        """Run a command until it ends. Raises DesktopError where it cannot start or does not end in time.

        Its output goes through files: a program that it leaves in the background would keep a pipe open.
        """
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            popen = self._popen(command, stdout, stderr)
            try:
                code = popen.wait(timeout_s)
            except subprocess.TimeoutExpired as exc:
                problem = f"the command {_shown(command)!r} has not ended within {timeout_s:g} s"
                raise DesktopError(f"{problem}; give it a longer timeout_s, or end it with '&' in a shell") from exc
            finally:
                _kill_unless_ended(popen)
            return Ran(code, _text_of(stdout), _text_of(stderr))

    def stop(self) -> None:
        """End all processes and remove the folder; a second call does nothing."""
        if self._stopped:
            return
        self._stopped = True
        cleaning.clean(self.folder, [process.popen.pid for process in self._processes])
        for process in self._processes:
            process.popen.wait()
        self._guard.communicate()  # with its input it ends
        os.close(self._lock)

    def _popen(
        self,
        command: Sequence[str],
        stdout: IO[bytes],
        stderr: IO[bytes],
        environment: Mapping[str, str] | None = None,
        pass_fds: Collection[int] = (),
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                command,
                cwd=self.working_folder,
                env={**self.environment, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                pass_fds=pass_fds,
            )
        except OSError as exc:
            problem = f"cannot start {command[0]!r}: {exc.strerror}"
            raise DesktopError(f"{problem}; give a program that is on PATH, or the path of one") from exc

    def _start_guard(self) -> subprocess.Popen[bytes]:
        with (self.folder / "guard.txt").open("wb") as errors:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, str(self.folder), cleaning.__file__],
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
                pass_fds=[self._lock],
            )

    def _tell_guard(self, session: int) -> None:
        assert self._guard.stdin is not None
        with suppress(BrokenPipeError):  # the guard was killed: then stop() does its work
            self._guard.stdin.write(b"%d\n" % session)
            self._guard.stdin.flush()


def remove_leftovers() -> None:
    """Remove what sessions of this user left behind that were killed together with their guard."""
    for folder in Path(tempfile.gettempdir()).resolve().glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it is in use, or another process is removing it
            if folder.stat().st_uid == os.getuid():
                _clean_unless_locked(folder)


def _clean_unless_locked(folder: Path) -> None:
    lock = os.open(folder / "lock", os.O_RDWR)
    try:
        _lock_now(lock)
        cleaning.clean(folder)
    finally:
        os.close(lock)


def _make_locked_folder() -> tuple[Path, int]:
    """A folder and the descriptor of its lock; no other process sees the lock before it is locked."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
    lock = os.open(folder / "lock.new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    _lock_now(lock)
    os.rename(folder / "lock.new", folder / "lock")
    return folder, lock


def _lock_now(descriptor: int) -> None:
    import fcntl  # Windows has none; there, QtDesktop and XvncDesktop say what to do instead

    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _kill_unless_ended(popen: subprocess.Popen[bytes]) -> None:
    if popen.poll() is None:
        os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _shown(command: Sequence[str]) -> str:
    return textwrap.shorten(shlex.join(command), _SHOWN_CHARACTERS, placeholder=" …")


def _seen_from_here(word: str) -> str:
    path = Path(word)
    return str(path.absolute()) if "/" in word and path.exists() else word


def _told_exit_code(code: int) -> str:
    """`3`, or `-11 (SIGSEGV)`."""
    if code >= 0:
        return str(code)
    try:
        return f"{code} ({signal.Signals(-code).name})"
    except ValueError:  # a real-time signal has no name
        return str(code)
