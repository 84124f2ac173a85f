"""Desktops that are reached by a command such as `docker exec -i NAME` or `ssh HOST`:
their files, commands and program.

Everything that is started on such a desktop has a mark in its environment, by which it
is found and killed, with all its children. The desktop must have `sh`, and Linux's
/proc for killing; proc(5).
"""

from __future__ import annotations

import os
import posixpath
import re
import secrets
import shlex
import subprocess
import sys
import tempfile
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import PurePath

from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.desktops.environment import inheritable
from pytest_vnc_use.desktops.started import (
    MAX_BYTES,
    STAY,
    TOO_LARGE,
    ReachedDesktop,
    early_end,
    outside,
    shows_window,
)
from pytest_vnc_use.desktops.supervised_session import (
    Process,
    SupervisedSession,
    exit_code_elsewhere,
    kept_of,
)
from pytest_vnc_use.errors import (
    CommandMissing,
    DesktopError,
    DesktopRefused,
    FileMissing,
    FileUnreadable,
    ProgramCrashed,
    ProgramMissing,
    SettingsError,
    VncUseError,
)
from pytest_vnc_use.types.protocols import CommandResult, Connect, Controller
from pytest_vnc_use.types.wire import host_and_port

_PROGRAM = "program"
"""The group of the program under test."""
_MARK_VARIABLE = "VNC_USE_MARK"
_FILE_TIMEOUT_S = 60.0
_KILL_TIMEOUT_S = 20.0
_REACHED = b"here\n"
"""The first line of every script's output: the desktop was reached. The output of the
command follows.
"""
_MISSING = b"missing\n"
"""All output of a script whose command is not installed."""
_NO_FILE = 44
_NOT_REGULAR = 45
_TOO_LARGE = 46
_REGULAR_NEEDED = (
    "it must be a regular file, it is a directory, a pipe, a device or a link to itself"
)

_CHECK = 'command -v "$1" >/dev/null || { echo missing; exit 127; }; echo here; '
_RUN = _CHECK + 'exec "$@"'
_READ = f"""
echo here
[ -e "$1" ] || {{ [ -L "$1" ] && ! readlink -f "$1" >/dev/null && exit {_NOT_REGULAR}; }}
[ -e "$1" ] || {{ find . -maxdepth 3 -type f ! -path '*/.*' | head -n 20; exit {_NO_FILE}; }}
[ -f "$1" ] || exit {_NOT_REGULAR}
size=$(wc -c < "$1") && [ "$size" -le {MAX_BYTES} ] || {{ echo "$size"; exit {_TOO_LARGE}; }}
exec head -c {MAX_BYTES} "$1"
"""
_WRITE = f"""
echo here
[ -e "$1" ] && [ ! -f "$1" ] && exit {_NOT_REGULAR}
mkdir -p "$(dirname "$1")" && cat > "$1" && wc -c < "$1"
"""
_KILL = """
echo here
for again in 1 2 3 4 5; do
  found=$(grep -lsF -e "$1" /proc/[0-9]*/environ)
  [ "$found" ] || break
  for file in $found; do pid=${file#/proc/}; kill -KILL "${pid%/environ}" 2>/dev/null; done
done
"""


class RemoteExec:
    """Runs commands in the working directory of a desktop, and reads and writes its
    files as UTF-8.

    What is started belongs to a group, which can be killed separately.

    Args:
        command: The local command that runs another one that is appended to it, such as
            `ssh HOST`. For `ssh`, what is appended is quoted, because the remote shell
            parses it again.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.command = tuple(command)
        self._mark = secrets.token_hex(8)
        self._is_ssh = PurePath(command[0]).stem == "ssh"

    def run(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        """Run a remote command until it ends.

        An exit code of 128 + n is returned as -n: signal n ended the command. After
        `timeout_s` the command is killed, with everything that it started.

        Raises:
            CommandMissing: The command cannot be started.
            DesktopError: The time is up, or the desktop cannot be reached.
        """
        group = secrets.token_hex(4)
        argv = self.local_argv(["sh", "-c", _RUN, "sh", *command], group)
        try:
            result = self._run_locally(argv, timeout_s)
        except subprocess.TimeoutExpired as exc:
            self.end(group)
            problem = (
                f"the command {shlex.join(command)!r} did not end within"
                f" {timeout_s:g} s"
            )
            advice = (
                "Increase its timeout_s; what it leaves in the background must not keep"
                " its output open"
            )
            raise DesktopError(f"{problem}. {advice}") from exc
        if result.stdout == _MISSING:
            raise CommandMissing(
                f"cannot start {command[0]!r}: the desktop has no such program on its"
                " PATH"
            )
        self._check_reached(result)
        stdout = result.stdout.removeprefix(_REACHED).decode("utf-8", "replace")
        stderr = result.stderr.decode("utf-8", "replace")
        return CommandResult(exit_code_elsewhere(result.returncode), stdout, stderr)

    def has(self, program: str) -> bool:
        """Return whether `program` is installed. Raises DesktopError if the desktop
        cannot be reached.
        """
        result = self._run_script(_CHECK, program)
        if result.stdout == _MISSING:
            return False
        self._check_reached(result)
        return True

    def read(self, name: str) -> str:
        """Return the text of a file in the remote working directory.

        Raises:
            FileMissing: There is no such file.
            FileUnreadable: It is not UTF-8 text, not a regular file, or too large.
            DesktopError: The file cannot be read for another reason.
        """
        result = self._run_file_script(_READ, name)
        output = result.stdout.removeprefix(_REACHED)
        problem = f"cannot read {name!r} in the program's working directory"
        if result.returncode == _NOT_REGULAR:
            raise FileUnreadable(f"{problem}: {_REGULAR_NEEDED}")
        if result.returncode == _TOO_LARGE:
            raise FileUnreadable(
                f"{problem}: it must have at most {MAX_BYTES} bytes, it has"
                f" {int(output or 0)}; {TOO_LARGE}"
            )
        if result.returncode == _NO_FILE:
            files = sorted(output.decode().splitlines())
            names = [repr(file.removeprefix("./")) for file in files]
            raise FileMissing(
                f"the program's working directory has no file {name!r}; it has"
                f" {', '.join(names) or 'no files'}"
            )
        if result.returncode:
            raise DesktopError(f"{problem}: {_last_line(result.stderr)}")
        try:
            return output.decode()
        except UnicodeDecodeError as exc:
            raise FileUnreadable(f"{problem}: {exc}") from exc

    def write(self, name: str, text: str) -> None:
        """Write a file in the remote working directory, and make its directories.
        Raises DesktopError.
        """
        content = text.encode()
        result = self._run_file_script(_WRITE, name, content)
        problem = f"cannot write {name!r} in the program's working directory"
        if result.returncode == _NOT_REGULAR:
            raise DesktopError(f"{problem}: {_REGULAR_NEEDED}")
        if result.returncode:
            raise DesktopError(f"{problem}: {_last_line(result.stderr)}")
        received = int(result.stdout.removeprefix(_REACHED))
        if received != len(content):
            raise DesktopError(
                f"cannot write {name!r}: {received} of {len(content)} bytes arrived;"
                f" {self!s} must pass standard input to the command, as"
                " 'docker exec -i' does"
            )

    def local_argv(self, command: Sequence[str], group: str) -> list[str]:
        """Return the local command that runs `command` remotely, in that group; "" is
        no group.
        """
        mark = f"{self._mark}:{group};" if group else ""
        argv = ["env", f"{_MARK_VARIABLE}={mark}", *command]
        if self._is_ssh:
            argv = [shlex.join(argv)]
        return [*self.command, *argv]

    def end(self, group: str = "") -> None:
        """Kill the remote programs of that group, or of all groups. Raises
        DesktopError.
        """
        try:
            result = self._run_locally(self.end_argv(group), _KILL_TIMEOUT_S)
        except subprocess.TimeoutExpired as exc:
            raise DesktopError(
                f"{self!s} did not stop the programs of the test within"
                f" {_KILL_TIMEOUT_S:g} s"
            ) from exc
        self._check_reached(result)

    def end_argv(self, group: str) -> list[str]:
        """Return the local command that does the same as `end`, for a cleanup after this
        process has exited.
        """
        mark = f"{self._mark}:{group};" if group else self._mark
        return self.local_argv(["sh", "-c", _KILL, "sh", mark], "")

    def __str__(self) -> str:
        return repr(shlex.join(self.command))

    def _run_file_script(
        self, script: str, name: str, content: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        result = self._run_script(script, _inside(name), content)
        self._check_reached(result)
        return result

    def _run_script(
        self, script: str, argument: str, content: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        argv = self.local_argv(["sh", "-c", script, "sh", argument], "file")
        try:
            return self._run_locally(argv, _FILE_TIMEOUT_S, content)
        except subprocess.TimeoutExpired as exc:
            raise DesktopError(
                f"{self!s} did not answer within {_FILE_TIMEOUT_S:g} s"
            ) from exc

    def _run_locally(
        self, argv: Sequence[str], timeout_s: float, content: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a local command, and keep the start and the end of a long output.

        It runs in a new session, so that `ssh` finds no terminal on which to ask for a
        password, and fails instead.
        """
        try:
            with (
                tempfile.TemporaryFile() as stdin,
                tempfile.TemporaryFile() as out,
                tempfile.TemporaryFile() as err,
            ):
                stdin.write(content)
                stdin.seek(0)
                done = subprocess.run(
                    argv,
                    stdin=stdin,
                    stdout=out,
                    stderr=err,
                    env=inheritable(),
                    start_new_session=os.name == "posix",
                    timeout=timeout_s,
                    check=False,
                )
                return subprocess.CompletedProcess(
                    argv, done.returncode, kept_of(out, MAX_BYTES), kept_of(err)
                )
        except OSError as exc:
            problem = f"cannot start {argv[0]!r}: {exc.strerror}"
            raise DesktopError(
                f"{problem}. Give a command prefix for the desktop, such as 'ssh HOST'"
            ) from exc

    def _check_reached(self, result: subprocess.CompletedProcess[bytes]) -> None:
        if not result.stdout.startswith(_REACHED):
            raise DesktopError(
                f"{self!s} does not lead to the desktop: {_last_line(result.stderr)}"
                f" (exit code {result.returncode}). Try it in a shell, with 'true'"
                " appended"
            )


def remote_exec_of(command_line: str, server: str) -> RemoteExec:
    """Return the remote execution by the command of `--vnc-exec`, with {host} and {port}
    replaced by those of the desktop's address.

    Raises SettingsError if the command line is invalid.
    """
    address = {}
    host_port = host_and_port(server)
    if host_port:  # a WebSocket or a unix socket has none
        host, port = host_port
        address = {"host": host or "localhost", "port": str(port)}

    def fill_in(placeholder: re.Match[str]) -> str:
        name = placeholder[1]
        if name not in address:
            has = " and ".join(address) or "neither host nor port"
            raise SettingsError(
                f"--vnc-exec contains {placeholder[0]!r}, but the address {server!r}"
                f" has {has}"
            )
        return address[name]

    try:
        argv = shlex.split(command_line, posix=os.name == "posix")
    except ValueError as exc:
        raise SettingsError(
            f"--vnc-exec must be a command line, got {command_line!r}: {exc}"
        ) from exc
    if not argv:
        raise SettingsError(
            "--vnc-exec must be a command line, such as 'docker exec -i NAME', got"
            f" {command_line!r}"
        )
    return RemoteExec([re.sub(r"\{(\w+)\}", fill_in, arg) for arg in argv])


def _inside(name: str) -> str:
    """Return the path of a file below the working directory. Raises DesktopError for one
    outside.
    """
    path = posixpath.normpath(name)
    if path.startswith(("/", "../")) or path == "..":
        raise outside(name)
    return f"./{path}"


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"


class RemoteDesktop(ReachedDesktop):
    """A desktop whose files and commands are reached by a RemoteExec.

    Args:
        connect: Opens a connection, on which a launched program's window is awaited.
        launch_timeout_s: How long a launched program may take to show a window.
        session: Runs the local client of the program; by default, the first launch
            makes one.
    """

    def __init__(
        self,
        connect: Connect | None,
        launch_timeout_s: float = 20.0,
        session: SupervisedSession | None = None,
    ) -> None:
        super().__init__(session)
        self._connect = connect
        self._launch_timeout_s = launch_timeout_s

    @abstractmethod
    def _reach(self, request: str) -> RemoteExec:
        """Return the remote execution. Raises DesktopError if `request` is not
        possible.
        """

    @contextmanager
    def launching(self, command: Sequence[str]) -> Iterator[None]:
        """Start the program under test instead of the one before. At the end of the
        block, wait until the screen has changed.

        Linux only, locally and remotely.

        Raises:
            ProgramMissing: The program cannot be run.
            ProgramCrashed: It failed before the screen changed.
            DesktopRefused: The screen did not change in time.
            DesktopError: The desktop cannot be reached or has failed, or the program
                exited with 0 before the screen changed.
        """
        request = f"launch {shlex.join(command)!r}"
        remote_exec = self._reach(request)
        if sys.platform != "linux":
            raise DesktopError(
                f"cannot {request}: that needs Linux, got {sys.platform!r}. Start it"
                " there yourself"
            )
        self._end_program()
        with closing(self._open_screen(request)) as screen:
            if not remote_exec.has(command[0]):
                raise ProgramMissing(
                    f"cannot start {command[0]!r}: the desktop has no such program on"
                    " its PATH"
                )
            if not self._session:
                self._session = SupervisedSession(as_tester=True)
                self._session.note_command(remote_exec.end_argv(_PROGRAM))
            before = screen.raw_frame()
            argv = remote_exec.local_argv(command, _PROGRAM)
            program = self._session.start("program", argv, client_of=command)
            self._program = program
            try:
                yield
                deadline = Deadline(self._launch_timeout_s)
                if not shows_window(program, screen, before, deadline):
                    raise self._launch_error(program)
            except BaseException:  # Ctrl-C, too
                self._end_program()
                raise

    def _launch_error(self, program: Process) -> VncUseError:
        """Return the error for a program that has shown no window."""
        if not program.end:
            problem = f"had not shown a window within {self._launch_timeout_s:g} s"
            return DesktopRefused(program.message(problem))
        problem = f"{program.end} and had not shown a window"
        if not program.exit_code:
            problem += STAY
        error = early_end(
            program.message(problem),
            program.exit_code,
            program.output_tail(),
            elsewhere=True,
        )
        if isinstance(error, ProgramCrashed):
            desktop_failure = self.exit_reason()
            if desktop_failure:  # the program ended with the desktop
                return DesktopError(desktop_failure)
        return error

    def _open_screen(self, request: str) -> Controller:
        if self._connect is None:
            raise DesktopError(
                f"cannot {request}: this desktop has no VNC connection to read its"
                " screen. Pass `connect`"
            )
        return self._connect(self.server, self.password)

    def _end_program(self) -> None:
        """End the program and its local client, if there is one."""
        if self._program and self._session:
            self._session.end_program()
            self._program = None
            with suppress(DesktopError):  # a desktop that is gone runs no program
                self._reach("end the program").end(_PROGRAM)
