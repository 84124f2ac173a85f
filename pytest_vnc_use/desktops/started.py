"""The program under test of a desktop and its files; desktops that are started
locally.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import signal
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.desktops.home import keep_home, set_times
from pytest_vnc_use.desktops.supervised_session import Process, SupervisedSession
from pytest_vnc_use.errors import (
    CommandMissing,
    DesktopError,
    FileMissing,
    FileUnreadable,
    ProgramCrashed,
    ProgramMissing,
    SettingsError,
    VncUseError,
)
from pytest_vnc_use.files import read_regular, reason_of
from pytest_vnc_use.types import RawFrame
from pytest_vnc_use.types.protocols import CommandResult, Controller

MAX_BYTES = 64 * 2**20
"""The size of the largest file that is read, in bytes."""
_POLL_S = 0.1
_EMPTY_S = 1.0
"""The time that a program has to write the first text of a file it has created."""
TOO_LARGE = (
    "look at it there, with vnc_desktop.run(['grep', …]) or ['tail', '-n', '100', …]"
)
"""The advice about a file that is larger."""
_QUITS_S = 10.0
"""The time that a program has to write what it keeps, before it is ended."""
_MAX_LISTED = 1000
"""The maximum number of files in a list of the directory's files."""
_FILE_ERRORS = (
    errno.ELOOP,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.ENXIO,
    errno.EINVAL,
    errno.EFBIG,
)
"""Errors of the file itself; any other is a failure of the desktop."""
STAY = "; it must stay in the foreground"
"""The advice about a program that ended without a failure."""
_CANNOT_BE_RUN = (
    errno.ENOENT,
    errno.EACCES,
    errno.EPERM,
    errno.ENOEXEC,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.E2BIG,
    errno.EINVAL,
)
"""Errors of execve(2) that the named file causes; others, such as ENOMEM, come from the
machine.
"""
_SHELL_START_FAILURES = (126, 127)
"""Exit codes of shells, `env` and `docker exec` whose program cannot be run, or cannot
be found.
"""
_TRANSPORT_FAILURES = (125, 255)
"""Exit codes of `docker exec` and `ssh` for their own failure."""
_NOT_FOUND = re.compile(
    r"can't open file .*\[Errno \d+\]"  # python nosuch.py
    r"|^\S*python\S*: No module named "  # python -m nosuch
    r"|can't find '__main__' module in"
    r"|^\S*sh: \d*:? ?(?:cannot open|can't open) "  # sh nosuch.sh
    r"|Unable to access jarfile",
    re.MULTILINE,
)
_NO_SCREEN = re.compile(
    r"Qt platform plugin|(?:cannot|could not|can't|unable to|failed to) (?:open|connect"
    r" to) (?:the )?(?:X )?display",
    re.IGNORECASE,
)
"""Output of a program that could not reach a screen; its environment has failed."""

POINTER_PX = 64
"""The side of the largest pointer. TigerVNC draws it into the screenshot of a client
that has not moved it yet.
"""
_COLOUR_BITS = np.uint32(0xFFFFFF)
"""As in backends/pixels.py, which would also load Pillow."""
_NOTICE_S = 0.05
"""The delay before the end of a process is noticed."""
_MAX_SIDE = 16384


def outside(name: str) -> DesktopError:
    """Return the error for a name that leads out of the working directory."""
    return DesktopError(
        f"a file must lie in the program's working directory, got {name!r}. Give a name"
        " relative to that directory, without '..'"
    )


class WorkingDirectory:
    """Text files (UTF-8) below `path`, named relative to it."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()

    def read(self, name: str) -> str:
        """Return the text of a file.

        Raises FileMissing if it is missing: the desktop has not failed if a program did
        not write it. Raises FileUnreadable if it is not UTF-8 text, not a regular file,
        or too large. Raises DesktopError if it is outside the directory, or cannot be
        read for another reason.
        """
        try:
            return read_regular(self._inside(name), MAX_BYTES).decode()
        except FileNotFoundError:
            paths = filter(Path.is_file, islice(self.path.rglob("*"), _MAX_LISTED))
            names = sorted(path.relative_to(self.path).as_posix() for path in paths)
            listed = ", ".join(map(repr, names[:20])) or "no files"
            raise FileMissing(
                f"the program's working directory has no file {name!r}; it has {listed}"
            ) from None
        except UnicodeDecodeError as exc:
            raise FileUnreadable(
                f"cannot read {name!r} in the program's working directory: {exc}"
            ) from exc
        except OSError as exc:
            advice = f"; {TOO_LARGE}" if exc.errno == errno.EFBIG else ""
            kind = FileUnreadable if exc.errno in _FILE_ERRORS else DesktopError
            raise kind(
                f"cannot read {name!r} in the program's working directory:"
                f" {reason_of(exc)}{advice}"
            ) from exc

    def write(self, name: str, text: str) -> None:
        """Write a file, and make its directories.

        Raises DesktopError if that fails or is outside the directory.
        """
        content = text.encode()
        try:
            path = self._inside(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not path.is_file():  # a pipe would wait for its reader
                raise OSError(errno.EINVAL, "it must be a regular file", name)
            path.touch(mode=0o600)
            path.write_bytes(content)
        except OSError as exc:
            raise DesktopError(
                f"cannot write {name!r} in the program's working directory:"
                f" {reason_of(exc)}"
            ) from exc

    def _inside(self, name: str) -> Path:
        """Return the path of a file. Raises DesktopError for a name that leads out,
        OSError for a link that does.
        """
        try:
            path = (self.path / name).resolve()
        except RuntimeError as exc:
            # links in a circle, as Python 3.12 and older report them
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from exc
        if path.is_relative_to(self.path):
            return path
        if not Path(os.path.normpath(self.path / name)).is_relative_to(self.path):
            raise outside(name)
        raise OSError(
            errno.ELOOP, f"a link leads out of that directory, to {str(path)!r}"
        )


def check_argv(argv: Sequence[str]) -> None:
    """Raise SettingsError if the command is empty, or is one string, each letter of
    which would count as an argument.
    """
    if isinstance(argv, str) or not argv:
        raise SettingsError(
            'a command must be a list of arguments, such as ["ls", "-l"], got'
            f" {argv!r:.200}"
        )
    for argument in argv:
        os.fsencode(argument)  # raises UnicodeEncodeError for half of a surrogate pair


@contextmanager
def starting(missing: type[ProgramMissing] = ProgramMissing) -> Iterator[None]:
    """Raise `missing` if the program cannot be found or run, instead of the session's
    DesktopError.
    """
    try:
        yield
    except DesktopError as exc:
        cause = exc.__cause__
        if isinstance(cause, OSError) and cause.errno in _CANNOT_BE_RUN:
            raise missing(str(exc)) from cause
        raise


def greets_at(address: str, timeout_s: float) -> bool:
    """Return whether a VNC server sends its greeting within `timeout_s`. The address is
    `host::port`, or the path of a unix socket.
    """
    host, _, port = address.partition("::")
    try:
        with socket.socket(socket.AF_INET if port else socket.AF_UNIX) as connection:
            connection.settimeout(timeout_s)
            connection.connect((host, int(port)) if port else address)
            return connection.recv(4) == b"RFB "
    except OSError:
        return False


def early_end(
    message: str, exit_code: int | None, output: str, *, elsewhere: bool = False
) -> VncUseError:
    """Return the error for a program that ended before it showed anything.

    With `elsewhere` the exit code is that of a client, such as `ssh`, which may have
    failed itself.
    """
    if (
        not exit_code
        or _NO_SCREEN.search(output)
        or (elsewhere and exit_code in _TRANSPORT_FAILURES)
    ):
        return DesktopError(message)
    if exit_code in _SHELL_START_FAILURES or _NOT_FOUND.search(output):
        return ProgramMissing(message)
    return ProgramCrashed(message)


def shows_window(
    process: Process, screen: Controller, before: RawFrame, deadline: Deadline
) -> bool:
    """Wait until the screen differs from `before`. Return False if the process ends
    first, or the time is up.

    What fits into a box of a pointer's size does not count: a caret, a small clock.
    Raises DesktopError if the connection is lost.
    """
    since_s = before.taken_at
    while not process.end and deadline.remaining_s:
        if screen.wait_changed(since_s, min(_NOTICE_S, deadline.remaining_s)):
            current = screen.raw_frame()
            if _differ(current.pixels, before.pixels):
                return True
            since_s = current.taken_at
    return False


def shows_anything(screen: Controller, deadline: Deadline) -> bool:
    """Wait until the screen has several colours, apart from the pointer's. Return False
    if the time is up first. Raises DesktopError.
    """
    current: Any = screen.raw_frame()
    while not _differ(current.pixels, current.pixels[-1, 0]):
        if not screen.wait_changed(current.taken_at, deadline.remaining_s):
            return False
        current = screen.raw_frame()
    return True


def _differ(pixels: Any, others: Any) -> bool:
    """Return whether pixels differ from others, or from one colour, by more than a
    pointer covers.
    """
    if np.ndim(others) and pixels.shape != others.shape:
        return True
    differs = (pixels ^ others) & _COLOUR_BITS != 0
    for axis in (0, 1):
        positions = np.flatnonzero(differs.any(axis=axis))
        if positions.size and np.ptp(positions) >= POINTER_PX:
            return True
    return False


class Reach(Protocol):
    """Access to a desktop's working directory: local, or by a command that reaches a
    remote one.
    """

    def read(self, name: str) -> str:
        """Return the text of a file. Raises FileMissing, DesktopError."""

    def write(self, name: str, text: str) -> None:
        """Write a file. Raises DesktopError."""

    def run(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        """Run a command until it ends. Raises DesktopError."""


class LastAnswers(NamedTuple):
    """What a desktop answers once it is stopped: how its program and the desktop had
    failed ("" if they had not), and their logs.
    """

    program_exit_reason: str
    exit_reason: str
    logs: Mapping[str, str]


class ReachedDesktop(ABC):
    """A desktop with its files, its commands and the program under test. The program,
    or the local client of a remote one, runs in a session.
    """

    def __init__(self, session: SupervisedSession | None) -> None:
        self._session = session
        self._program: Process | None = None
        self._last_answers: LastAnswers | None = None
        """None until it is stopped."""

    @property
    @abstractmethod
    def server(self) -> str:
        """Return the address of its VNC server."""

    @property
    @abstractmethod
    def password(self) -> str | None:
        """Return the password of its VNC server; None if it asks for none, or only the
        user knows it.
        """

    @abstractmethod
    def _reach(self, request: str) -> Reach:
        """Return the access to the desktop. Raises DesktopError if `request` is not
        possible.
        """

    def read_file(self, name: str, *, timeout_s: float = 5.0) -> str:
        """Return the text of a file in the program's working directory. Raises
        FileMissing, DesktopError.

        A missing file is waited for, up to `timeout_s`, and text in an empty one for
        a second: a program may write it after the action has returned.
        """
        deadline = Deadline(timeout_s)
        empty_until = Deadline(min(timeout_s, _EMPTY_S))
        reach = self._reach(f"read the file {name!r}")
        while True:
            # Asked before the file is read, because a program may write as it ends.
            has_ended = bool(self.program_exit_reason())
            is_last = has_ended or not deadline.remaining_s
            may_be_empty = has_ended or not empty_until.remaining_s
            try:
                text = reach.read(name)
            except FileMissing:
                if is_last:
                    raise
                empty_until = Deadline(min(timeout_s, _EMPTY_S))
            else:
                if text or may_be_empty:
                    return text
            time.sleep(_POLL_S)  # a remote desktop does not report new files

    def write_file(self, name: str, text: str) -> None:
        """Write a text file, relative to the program's working directory. Raises
        DesktopError.
        """
        self._reach(f"write the file {name!r}").write(name, text)

    def run(self, command: Sequence[str], *, timeout_s: float = 60.0) -> CommandResult:
        """Run a command in the program's working directory, until it ends.

        Raises DesktopError; its subclass CommandMissing if the command's program cannot
        be found or run.
        """
        check_argv(command)
        return self._reach(f"run {shlex.join(command)!r}").run(command, timeout_s)

    def launch(self, command: Sequence[str]) -> None:
        """Start the program instead of the one before, and wait until it appears on
        the screen. Raises as `launching` does.
        """
        with self.launching(command):
            pass

    @abstractmethod
    def launching(self, command: Sequence[str]) -> AbstractContextManager[None]:
        """Start the program instead of the one before. At the end of the block, wait
        until it appears on the screen.

        Within the block this process has time for something else. Raises
        ProgramMissing, ProgramCrashed, DesktopError as the protocol `Desktop` has it.
        """

    def program_exit_reason(self) -> str:
        """Return how the program under test ended and its last output; "" while it
        runs, or if none was started.

        After `stop()` the answer stays as it was before.
        """
        if self._last_answers:
            return self._last_answers.program_exit_reason
        if not (self._program and self._program.end) or self.exit_reason():
            return ""
        return self._program.message(self._program.end)

    def program_runs(self) -> bool:
        """Return whether a program was started and has not ended, as far as is
        known.
        """
        return bool(self._program) and not (
            self._last_answers or self.exit_reason() or self.program_exit_reason()
        )

    def program_hangs(self) -> bool:
        """Return whether the program under test runs but does not answer; False if that
        is not known.
        """
        return False

    def exit_reason(self) -> str:
        """Return how the desktop ended; "" while it is there, or if that is not
        known.
        """
        if self._last_answers:
            return self._last_answers.exit_reason
        return self._failure_now()

    def _failure_now(self) -> str:
        return ""

    def logs(self) -> Mapping[str, str]:
        """Return the output of each process so far, at most its last megabyte, by the
        role of the process, such as `program`.
        """
        return self._last_answers.logs if self._last_answers else self._logs_now()

    def _logs_now(self) -> Mapping[str, str]:
        return self._session.logs() if self._session else {}

    @abstractmethod
    def stop(self) -> None:
        """End what was started; a second call does nothing."""

    def _keep_answers(self, exit_reason: str) -> None:
        """Keep what the desktop answers from now on."""
        failure = self.program_exit_reason()
        self._last_answers = LastAnswers(failure, exit_reason, self.logs())

    def _check_not_stopped(self, request: str) -> None:
        if self._last_answers:
            raise DesktopError(
                f"cannot {request}: the desktop is stopped, and its working directory"
                " is removed. Do it before stop()"
            )


class _LocalReach(WorkingDirectory):
    """The working directory of a session, and commands in it."""

    def __init__(self, session: SupervisedSession) -> None:
        super().__init__(session.home)
        self._session = session

    def run(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        """Run a command in the program's environment, until it ends. Raises
        DesktopError.
        """
        with starting(CommandMissing):
            return self._session.run(command, timeout_s)


class StartedDesktop(ReachedDesktop):
    """A desktop in a new session; a subclass adds the screen."""

    _session: SupervisedSession

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        pinned: bool,
        name: str,
        home: Path | None,
        variables: Mapping[str, str] = os.environ,
    ) -> None:
        session = SupervisedSession(
            environment,
            pinned=pinned,
            name=name,
            start_home=home,
            variables=variables,
        )
        super().__init__(session)
        self._files = _LocalReach(self._session)
        set_times(self._files.path)

    def _reach(self, request: str) -> Reach:
        self._check_not_stopped(request)
        return self._files

    def _failure_now(self) -> str:
        return self._session.exit_reason()

    def stop(self) -> None:
        """End everything that was started and remove the working directory; a second
        call does nothing.
        """
        self._keep_answers(self.exit_reason())
        self._session.stop()

    def keep_home(self, directory: Path) -> None:
        """End the program under test and keep its home in `directory`, which must be
        new or empty. Raises DesktopError, SettingsError.
        """
        self._check_not_stopped(f"keep the home in {str(directory)!r}")
        if self._program and not self._program.end:
            # After SIGHUP Chromium writes its cookies, after SIGTERM it does not
            # (156, measured); and its helpers must live longer than it.
            with suppress(OSError):  # it has ended, or belongs to another user
                os.kill(self._program.pid, signal.SIGHUP)
            self._program.wait(_QUITS_S)
        self._session.end_program()
        keep_home(self._session.home, directory)

    def _start_program(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        network: str = "",
    ) -> Process:
        """Start the program under test and end the one before. Raises DesktopError,
        ProgramMissing.

        `environment` is the program's alone; `network` as in `SupervisedSession.start`.
        """
        self._program = None
        self._session.end_program()
        set_times(self._files.path)
        with starting():
            self._program = self._session.start(
                "program", command, environment or {}, network=network
            )
        return self._program

    def _ended_early(
        self, process: Process, undone: str, hint: str = ""
    ) -> VncUseError:
        """Return the error for a process that ended before it showed anything: the
        program, or another one of the desktop.
        """
        advice = "" if process.exit_code else STAY
        message = process.message(f"{process.end} and {undone}{advice}{hint}")
        if process is not self._program or self.exit_reason():
            return DesktopError(self.exit_reason() or message)
        return early_end(message, process.exit_code, process.output_tail())


def check_linux(server: str, reason: str) -> None:
    """Raise DesktopError if this is not Linux."""
    if sys.platform != "linux":
        raise DesktopError(
            f"a desktop started by {server!r} needs Linux, {reason}, got"
            f" {sys.platform!r}. Give the address of a VNC server instead, such as"
            " --vnc-server=host::5901"
        )


def check_size(size: tuple[int, int]) -> None:
    """Raise SettingsError if no VNC server has such a screen."""
    if len(size) != 2 or not all(
        isinstance(side, int) and 1 <= side <= _MAX_SIDE for side in size
    ):
        raise SettingsError(
            f"a screen's size must be width and height in pixels, 1 to {_MAX_SIDE}"
            f" each, got {size!r}"
        )
