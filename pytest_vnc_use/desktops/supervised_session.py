"""A session of one desktop: a private directory, and processes that outlive neither the
desktop nor this process.

Home      the home and working directory of the program under test, and of every command
logs      the standard output and error of each process
profile   other data of a program about its user
lock      locked while this process or the supervisor lives; a directory whose lock is free was left behind
commands  end external processes, such as a container; run when everything else has ended
files     the desktop's files elsewhere, such as its X server's socket
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import select
import shlex
import signal
import socket
import stat
import subprocess
import tempfile
import textwrap
import threading
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any
from weakref import WeakSet

from pytest_vnc_use.desktops import supervisor
from pytest_vnc_use.desktops.environment import inheritable, make_environment
from pytest_vnc_use.desktops.home import copy_home
from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.types.protocols import CommandResult

_PREFIX = "vnc-use-"
_LEFT_OUT = re.compile(rb"\n\(\.\.\. (\d+) bytes are left out here\)\n")
_TITLE_CHARACTERS = 80
_ANSWER_TIMEOUT_S = 60.0
_END_TIMEOUT_S = supervisor.GIVE_UP_S + 2.0
"""The maximum wait for the supervisor, which itself gives up before."""
_EMPTY: Mapping[str, str] = MappingProxyType({})


class Process:
    """A process that the supervisor has started; `title` is its name in messages, such
    as "the program 'python shop'".

    With `is_client` it is a client such as `docker exec`, which reports the end of a
    process elsewhere.
    """

    def __init__(
        self, title: str, log: Path, pid: int, status: int, *, is_client: bool = False
    ) -> None:
        self.title = title
        self.pid = pid
        self._log = log
        self._status = status
        self._is_client = is_client
        self._code: int | None = None

    @property
    def exit_code(self) -> int | None:
        """Return the exit code: None while it runs, -n if signal n ended it."""
        return self.wait(0.0)

    def wait(self, timeout_s: float) -> int | None:
        """Wait until it has ended, and return the exit code; None if it still runs
        after `timeout_s`.
        """
        if self._code is None and select.select([self._status], [], [], timeout_s)[0]:
            record = os.read(self._status, supervisor.RECORD.size)
            # the supervisor was killed
            code = supervisor.RECORD.unpack(record)[1] if record else -signal.SIGKILL
            self._code = exit_code_elsewhere(code) if self._is_client else code
            self.close()
        return self._code

    @property
    def output(self) -> str:
        """Return its standard output and error, a megabyte of it; empty once its file
        is removed.
        """
        try:
            with self._log.open("rb") as log:
                return text_of(log)
        except OSError:
            return ""

    def output_tail(self) -> str:
        """Return the last 20 lines of `output`."""
        return "\n".join(self.output.splitlines()[-20:])

    @property
    def end(self) -> str:
        """Return how it ended, such as `exited with -11 (SIGSEGV)`; empty while it
        runs.
        """
        if (code := self.exit_code) is None:
            return ""
        end = f"exited with {code}"
        if code < 0:
            with suppress(ValueError):  # a real-time signal has no name
                end += f" ({signal.Signals(-code).name})"
        return end

    def message(self, text: str) -> str:
        """Return a sentence about it, and the last lines of its output."""
        return f"{self.title} {text}\n{self.output_tail() or '(it printed nothing)'}"

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        if self._status >= 0:
            os.close(self._status)
            self._status = -1

    def __del__(self) -> None:
        self.close()


class SupervisedSession:
    """A private directory, the processes started in it, and the supervisor that ends
    them, even if this process is killed.

    `environment` is added to that of a new user, or with `as_tester` to the one of this
    process. With `pinned`, programs of the new user draw as on every other machine. The
    home is a copy of `start_home`, or empty. Sessions with the same `name` have their
    home at the same path, one after the other; without a name the path is random.
    `variables` are those of this process, or a copy of them from before. What killed
    sessions have left behind is removed first. A session belongs to the process
    that made it: in a forked child it counts as stopped. Linux only.
    """

    def __init__(
        self,
        environment: Mapping[str, str] = _EMPTY,
        *,
        as_tester: bool = False,
        pinned: bool = False,
        name: str = "",
        start_home: Path | None = None,
        variables: Mapping[str, str] = os.environ,
    ) -> None:
        self.directory, self._lock = _make_locked_directory(name)
        self._processes: dict[str, Process] = {}
        self._stopped = False
        self._sending = threading.Lock()
        self._control, other = socket.socketpair()
        self._control.settimeout(_ANSWER_TIMEOUT_S)
        with other:
            descriptors = [other.fileno(), self._lock]
            self._supervisor = subprocess.Popen(
                [*supervisor.COMMAND, str(self.directory), *map(str, descriptors)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=inheritable(variables),
                start_new_session=True,
                pass_fds=descriptors,
            )
        _sessions.add(self)
        try:  # while the supervisor starts
            # The dialogs of programs show this name.
            self.home = self.directory / "Home"
            self._logs = self.directory / "logs"
            for directory in (self.home, self._logs):
                directory.mkdir(mode=0o700)
            if start_home:
                copy_home(start_home, self.home)
            if as_tester:
                base = inheritable(variables)
            else:
                base = make_environment(
                    self.directory,
                    self.home,
                    pinned=pinned,
                    is_copy=start_home is not None,
                    variables=variables,
                )
            self.environment = {**base, **environment}
            remove_leftovers()
        except BaseException:
            self.stop()
            raise

    def start(
        self,
        role: str,
        argv: Sequence[str],
        environment: Mapping[str, str] = _EMPTY,
        *,
        descriptors: Sequence[int] = (),
        client_of: Sequence[str] = (),
        network: str = "",
    ) -> Process:
        """Start a process that runs until the session stops; `role` names it in
        messages and names its log.

        Arguments that are relative paths with a slash, to this process, are made
        absolute first, because the process starts in another directory; there
        `descriptors` are 3, 4, … If the process is only a client, such as `docker
        exec`, `client_of` is the command that it runs elsewhere; messages name that
        one. With `network` it has a network namespace, reached at that unix socket.
        Raises DesktopError if it cannot be started.
        """
        log = self._logs / f"{role.replace(' ', '-')}.txt"
        with _private_file(log, os.O_TRUNC) as output:
            argv = [absolute_path(argument) for argument in argv]
            pid, status = self._start(
                argv,
                environment,
                [output.fileno(), output.fileno(), *descriptors],
                network,
            )
        title = f"the {role} {_shorten(client_of or argv)!r}"
        process = Process(title, log, pid, status, is_client=bool(client_of))
        self._processes[role] = process
        return process

    def end_program(self) -> None:
        """End the program under test, and everything that it started; do nothing if
        there is none.
        """
        if program := self._processes.pop("program", None):
            self._end(program.pid, is_program=True)

    def exit_reason(self) -> str:
        """Return how a process other than the program has ended, and its last output;
        "" while all of them run.
        """
        others = [
            process for role, process in self._processes.items() if role != "program"
        ]
        ended = next((process for process in others if process.end), None)
        return ended.message(ended.end) if ended else ""

    def logs(self) -> dict[str, str]:
        """Return the output of each process so far, by its role; the last megabyte."""
        return {role: process.output for role, process in self._processes.items()}

    def run(self, argv: Sequence[str], timeout_s: float) -> CommandResult:
        """Run a command until it ends. Raises DesktopError if it cannot start or does
        not end in time.

        Of an output that is longer than a megabyte the start and the end are kept. A
        command that takes longer is killed, with everything that it has started.
        Background processes of a command stay until the desktop stops.
        """
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            pid, status = self._start(
                argv, _EMPTY, [stdout.fileno(), stderr.fileno()], ""
            )
            process = Process("", Path(), pid, status)
            try:
                code = process.wait(timeout_s)
                if code is None:
                    raise DesktopError(
                        f"the command {_shorten(argv)!r} did not end within"
                        f" {timeout_s:g} s. Increase its timeout_s, or end it with '&'"
                        " in a shell"
                    )
            except BaseException:  # also Ctrl-C: the command ends
                self._end(pid, is_program=False)
                raise
            finally:
                process.close()
            return CommandResult(code, text_of(stdout), text_of(stderr))

    def note_command(self, argv: Sequence[str]) -> None:
        """Note a command that ends an external process: a container, a program on
        another machine.
        """
        with _private_file(self.directory / "commands", os.O_APPEND) as file:
            file.write(json.dumps(list(argv)).encode() + b"\n")

    def note_files(self, paths: Sequence[Path]) -> None:
        """Note external files of the desktop, in case its X server cannot remove
        them.
        """
        noted = [
            (str(path), supervisor.identity(str(path)))
            for path in paths
            if path.exists()
        ]
        with _private_file(self.directory / "files") as file:
            file.write(json.dumps(noted).encode())

    def leave_to_parent(self) -> None:
        """Close what keeps the desktop alive, in a child that was forked."""
        if not self._stopped:
            self._stopped = True
            os.close(self._lock)
            self._control.close()

    def stop(self) -> None:
        """End all processes and remove the directory; a second call does nothing.

        Raises DesktopError at the end if processes are left that this user may not end.
        """
        if self._stopped:
            return
        self._stopped = True
        report = b""
        try:
            with suppress(OSError):  # the supervisor was killed
                self._control.settimeout(_END_TIMEOUT_S)
                self._control.shutdown(socket.SHUT_WR)
                while chunk := self._control.recv(4096):
                    report += chunk
            self._supervisor.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()
        survivors = report.decode("utf-8", "replace").split("\n")[:-2]
        supervisor.clean(str(self.directory), self._lock)
        for process in self._processes.values():
            process.close()
        self._control.close()
        os.close(self._lock)
        if survivors:
            pids = " ".join(line.split()[0] for line in survivors)
            raise DesktopError(
                f"cannot end process {', '.join(survivors)}: it belongs to another"
                f" user, or it hangs. End it with: sudo kill -9 {pids}"
            )

    def _start(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        descriptors: Sequence[int],
        network: str,
    ) -> tuple[int, int]:
        """Return the id of a new process and the descriptor of its status."""
        if any("\0" in argument for argument in argv):
            raise DesktopError(
                f"cannot start {argv[0]!r}: an argument has a null character. Remove it"
            ) from OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        status, other = os.pipe()
        try:
            try:
                request = (
                    "start",
                    list(argv),
                    str(self.home),
                    {**self.environment, **environment},
                    network,
                )
                self._request(request, [other, *descriptors])
            finally:
                os.close(other)
            if not select.select([status], [], [], _ANSWER_TIMEOUT_S)[0]:
                raise DesktopError(
                    f"cannot start {argv[0]!r}: the desktop's supervisor has not"
                    f" answered within {_ANSWER_TIMEOUT_S:g} s"
                )
            if not (record := os.read(status, supervisor.RECORD.size)):
                raise DesktopError(
                    f"cannot start {argv[0]!r}: the desktop's supervisor has ended"
                )
            kind, number = supervisor.RECORD.unpack(record)
            if kind != supervisor.STARTED:
                error = OSError(number, os.strerror(number))
                raise DesktopError(
                    f"cannot start {argv[0]!r}: {error.strerror}. Use a program on"
                    " PATH, or its path"
                ) from error
        except BaseException:
            os.close(status)
            raise
        return number, status

    def _end(self, pid: int, *, is_program: bool) -> None:
        """End a process and what it started, and wait for that."""
        done, other = os.pipe()
        try:
            try:
                self._request(("end", pid, is_program), [other])
            finally:
                os.close(other)
            select.select([done], [], [], _END_TIMEOUT_S)
        finally:
            os.close(done)

    def _request(self, request: tuple[Any, ...], descriptors: Sequence[int]) -> None:
        content = json.dumps(request).encode()
        # it was killed: the answer's descriptor is then closed
        with self._sending, suppress(BrokenPipeError):
            socket.send_fds(
                self._control, [supervisor.LENGTH.pack(len(content))], descriptors
            )
            self._control.sendall(content)


_sessions: WeakSet[SupervisedSession] = WeakSet()


def _leave_all_to_parent() -> None:
    """Leave all sessions to the parent: the descriptors that a forked child inherits
    would keep the desktops alive.
    """
    for session in list(_sessions):
        session.leave_to_parent()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_leave_all_to_parent)


def remove_leftovers() -> None:
    """Remove the remains of this user's sessions that were killed together with their
    supervisor.
    """
    for directory in Path(tempfile.gettempdir()).resolve().glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it is in use, or another process is removing it
            status = directory.lstat()
            if status.st_uid == os.getuid() and stat.S_ISDIR(status.st_mode):
                lock = os.open(directory / "lock", os.O_RDWR)
                try:
                    _lock_file(lock)
                    supervisor.clean(str(directory), lock)
                finally:
                    os.close(lock)


def _make_locked_directory(name: str) -> tuple[Path, int]:
    """Return a new directory, and the descriptor of its lock.

    No other process sees the lock before it is locked. The path follows from `name`,
    unless a session has it already.
    """
    parent = Path(tempfile.gettempdir()).resolve()
    stem = _PREFIX + secrets.token_hex(8)
    if name:
        stem = f"{_PREFIX}{zlib.crc32(name.encode(errors='replace')):08x}"
    if (parent / stem).exists():  # it may have been left behind
        remove_leftovers()
    for number in count(1):
        directory = parent / (stem if number == 1 else f"{stem}-{number}")
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
            break
    lock = os.open(directory / "lock.new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    _lock_file(lock)
    (directory / "lock.new").rename(directory / "lock")
    return directory, lock


def _private_file(path: Path, flags: int = 0) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600), "r+b")


def _lock_file(descriptor: int) -> None:
    import fcntl  # Windows has none, and no desktops that are started

    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def text_of(file: IO[bytes]) -> str:
    """Return the text in the file; of a long one, the start and the end."""
    return kept_of(file).decode("utf-8", "replace")


def kept_of(file: IO[bytes], head_size: int = supervisor.HEAD) -> bytes:
    """Return the content of the file; of a long file the start and the end, with a line
    between them that says how much is left out.
    """
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    if size <= head_size + supervisor.TAIL + 100:
        return file.read(size)
    head = file.read(head_size)
    left_out = size - head_size - supervisor.TAIL
    if cut := _LEFT_OUT.match(file.read(100)):
        left_out += int(cut[1]) - len(cut[0])
    file.seek(size - supervisor.TAIL)
    return head + supervisor.CUT % left_out + file.read(supervisor.TAIL)


def exit_code_elsewhere(code: int) -> int:
    """Return -n for the exit code 128 + n, by which a client such as `docker exec`
    reports signal n.
    """
    return 128 - code if code - 128 in signal.valid_signals() else code


def _shorten(argv: Sequence[str]) -> str:
    return textwrap.shorten(shlex.join(argv), _TITLE_CHARACTERS, placeholder=" …")


def absolute_path(argument: str) -> str:
    """Return an argument of a command; a relative path that exists becomes absolute."""
    is_path = "/" in argument and os.path.exists(argument)  # noqa: PTH110  # Path.exists raises for a long script
    return str(Path(argument).absolute()) if is_path else argument
