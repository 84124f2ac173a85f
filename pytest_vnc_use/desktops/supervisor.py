"""The supervisor of one desktop: a process that starts all its others, and outlives
none of them. Linux only.

Its parent sends requests over a socket. When the other end of that socket closes, also
by `kill -9` of the parent, the supervisor ends everything: SIGTERM first, after GRACE_S
SIGKILL until no child is left. It is a child subreaper, see prctl(2): a process that
leaves its session, loses its parent and overwrites its environment is still its
descendant. Then it removes what the desktop has left outside its directory, and the
directory.

A request is the length of a JSON list, 4 bytes, with descriptors, and that list:

    ["start", argv, directory, environment, network]   descriptors: status, stdout, stderr, then 3, 4, … in the process
    ["end", pid, is_program]                           descriptor: it is closed once the end is complete

`status` gets records: `STARTED` with the process id, or `FAILED` with the error's
number and nothing more; then `EXITED` with the exit code, -n for signal n, once all
output is written. With `network`, the path of a unix socket, the process has a network
namespace, see network_namespace.py. Formats of the files: proc(5).
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress

COMMAND = (
    *(sys.executable, "-I", "-S", "-c"),
    (
        "import sys; sys.path.append(sys.argv[1]); import supervisor;"
        " supervisor.supervise(*sys.argv[2:])"
    ),
    os.path.dirname(__file__),
)
"""The prefix of the supervisor's command; a module that is imported is compiled once, a
script each time.
"""
PROCESS = "VNC_DESKTOP_PROCESS"
"""The variable that holds the id of the process that was started, in all its
descendants.
"""
HEAD = 250_000
"""The bytes kept of the start of an output."""
TAIL = 750_000
"""The bytes kept of the end of an output; on disk there are up to twice as many."""
CUT = b"\n(... %d bytes are left out here)\n"
GRACE_S = 3.0
"""The time from SIGTERM to SIGKILL."""
GIVE_UP_S = 8.0
"""The time from SIGTERM to the end of all tries."""
LENGTH = struct.Struct("=I")
RECORD = struct.Struct("=ci")
STARTED = b"s"
FAILED = b"f"
EXITED = b"x"
MAX_DESCRIPTORS = 8
_COMMAND_S = 30.0
"""The time that a noted command may take; then it is killed, and the next one runs."""
_TICK_S = 0.02
_CHUNK = 1 << 16
_DRAINED = 32
"""The maximum chunks read after a process's end: a mebibyte, twice the capacity of a
pipe.
"""
_LOADED_WITHIN_MS = 100
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36


class BoundedFile:
    """A file that keeps the head and the tail of the data written to it, so that no
    output fills the disk.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._size = 0
        self._left_out = 0
        self._tail_at = 0

    def write(self, data: bytes) -> None:
        """Append data; if the file becomes too long, cut out its middle."""
        with suppress(OSError):  # the disk is full: the program continues
            self._size += os.pwrite(self.descriptor, data, self._size)
            if self._size > 2 * (HEAD + TAIL):
                self._cut()

    def _cut(self) -> None:
        tail = os.pread(self.descriptor, TAIL, self._size - TAIL)
        kept_bytes = self._tail_at or HEAD
        self._left_out += self._size - TAIL - kept_bytes
        mark = CUT % self._left_out
        os.pwrite(self.descriptor, mark + tail, HEAD)
        self._tail_at = HEAD + len(mark)
        self._size = self._tail_at + len(tail)
        os.ftruncate(self.descriptor, self._size)


class Supervisor:
    """The processes of a desktop, their outputs, and the requests."""

    def __init__(self, directory: str, control: socket.socket) -> None:
        self._directory = directory
        self._control = control
        self._statuses: dict[int, int] = {}
        """The status descriptor of each process that runs."""
        self._outputs: dict[int, BoundedFile] = {}
        self._started = {os.getpid()}
        self._ending: dict[int, tuple[bool, float, int]] = {}
        """For each process that is being ended: whether it is the program, since when,
        and the descriptor to close.
        """
        self._closing_since_s = 0.0
        self._network: tuple[int, ...] = ()

    def run(self, wakeup: int) -> bool:
        """Serve requests until the other end closes; then stay until no process is
        left, or none can be ended.

        Return whether any is left.
        """
        while self._reap() or not self._closing_since_s:
            self._proceed()
            control = self._control.fileno()
            watched = [wakeup, *self._outputs]
            if not self._closing_since_s:
                watched.append(control)
            is_ending = self._ending or self._closing_since_s
            timeout_s = _TICK_S if is_ending else None
            for ready in select.select(watched, [], [], timeout_s)[0]:
                if ready == control:
                    self._serve()
                elif ready == wakeup:
                    os.read(wakeup, _CHUNK)
                elif ready in self._outputs:
                    self._copy(ready)
            give_up_at_s = self._closing_since_s + GIVE_UP_S
            if self._closing_since_s and time.monotonic() > give_up_at_s:
                return True
        return False

    def close(self, *_: object) -> None:
        """Begin to end all processes."""
        if not self._closing_since_s:
            self._closing_since_s = time.monotonic()
            _kill([*self.owners()], signal.SIGTERM)

    def owners(self) -> dict[int, int]:
        """Return, for each living descendant, the process started by this one that led
        to it; 0 if unknown.
        """
        children: dict[int, list[int]] = {}
        sessions: dict[int, int] = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):
                state, parent, _group, session = _stat(name)[:4]
                sessions[int(name)] = int(session)
                if state not in (b"Z", b"X"):
                    children.setdefault(int(parent), []).append(int(name))
        owners = {os.getpid(): 0}
        pids = [os.getpid()]
        for pid in pids:  # it grows meanwhile
            for child in children.get(pid, ()):
                owner = child if child in self._started else sessions[child]
                if owner not in self._started:
                    owner = owners[pid] or self._marked(child)
                owners[child] = owner
                pids.append(child)
        del owners[os.getpid()]
        return owners

    def _marked(self, pid: int) -> int:
        """Return the process that its environment names. While the kernel loads a
        program, it has none: wait for it.
        """
        with suppress(OSError, ValueError):
            for _ in range(_LOADED_WITHIN_MS):
                with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
                    data = b"\0" + file.read()
                if len(data) > 1 or _stat(pid)[0] in (b"Z", b"X"):
                    break
                time.sleep(0.001)
            named = int(data.partition(f"\0{PROCESS}=".encode())[2].partition(b"\0")[0])
            return named if named in self._started else 0
        return 0

    def _serve(self) -> None:
        """Read and handle one request; close if the other end has closed."""
        head, descriptors, _, _ = socket.recv_fds(
            self._control, LENGTH.size, MAX_DESCRIPTORS
        )
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        missing = LENGTH.unpack(head)[0] if len(head) == LENGTH.size else 0
        chunks = []
        while missing and (chunk := self._control.recv(missing)):
            chunks.append(chunk)
            missing -= len(chunk)
        if missing or not chunks:
            self.close()
            return
        kind, *arguments = json.loads(b"".join(chunks))
        if kind == "start":
            self._start(*arguments, *descriptors)
        else:
            self._end(*arguments, *descriptors)

    def _end(self, pid: int, is_program: bool, done: int) -> None:
        """Begin to end the program under test, or kill another process."""
        self._ending[pid] = (
            is_program,
            time.monotonic() - (0 if is_program else GRACE_S),
            done,
        )
        _kill(
            self._descendants_of(pid, is_program),
            signal.SIGTERM if is_program else signal.SIGKILL,
        )

    def _descendants_of(self, pid: int, is_program: bool) -> list[int]:
        """Return the descendants of a process; with the program also strays, which have
        no known owner.
        """
        owned_by = {pid, 0} if is_program else {pid}
        return [
            descendant
            for descendant, owner in self.owners().items()
            if owner in owned_by
        ]

    def _proceed(self) -> None:
        """Kill what is late, and report each end that is complete."""
        now_s = time.monotonic()
        if self._closing_since_s and now_s > self._closing_since_s + GRACE_S:
            _kill([*self.owners()], signal.SIGKILL)
        for pid, (is_program, since_s, done) in [*self._ending.items()]:
            descendants = self._descendants_of(pid, is_program)
            if descendants and now_s > since_s + GRACE_S:
                _kill(descendants, signal.SIGKILL)
            if not descendants or now_s > since_s + GIVE_UP_S:
                del self._ending[pid]
                os.close(done)

    def _start(
        self,
        argv: list[str],
        directory: str,
        environment: dict[str, str],
        network: str,
        status: int,
        out: int,
        err: int,
        *further: int,
    ) -> None:
        stdout = self._pipe(out)
        is_one = os.path.sameopenfile(out, err)
        stderr = stdout if is_one else self._pipe(err)
        if is_one:
            os.close(err)
        failed, failing = os.pipe()
        pid = 0
        try:
            if network and not self._network:
                # it is beside this file, which the supervisor has on its path
                import network_namespace  # type: ignore[import-not-found]

                holder, self._network = network_namespace.open_network(network)
                self._started.add(holder)
            if (pid := os.fork()) == 0:
                files = [os.open(os.devnull, os.O_RDWR), stdout, stderr, *further]
                self._become(
                    argv,
                    directory,
                    environment,
                    self._network if network else (),
                    files,
                    failing,
                )
        except OSError as exc:
            os.write(failing, b"%d" % (exc.errno or 0))
        for descriptor in {failing, stdout, stderr, *further}:
            os.close(descriptor)
        error = os.read(failed, 20)
        os.close(failed)
        if error:
            _report(status, FAILED, int(error))
            os.close(status)
            if pid:
                os.waitpid(pid, 0)
        else:
            self._started.add(pid)
            self._statuses[pid] = status
            _report(status, STARTED, pid)

    def _pipe(self, file: int) -> int:
        """Return the end of a new pipe to write to; its data goes into the file."""
        out, into = os.pipe()
        os.set_blocking(out, False)
        self._outputs[out] = BoundedFile(file)
        return into

    def _become(
        self,
        argv: list[str],
        directory: str,
        environment: dict[str, str],
        network: tuple[int, ...],
        files: list[int],
        failing: int,
    ) -> None:
        """Turn this child into the process. It is killed if the supervisor is."""
        try:
            os.setsid()
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.set_wakeup_fd(-1)
            for number in (
                signal.SIGCHLD,
                signal.SIGTERM,
                signal.SIGPIPE,
                signal.SIGXFSZ,
            ):
                signal.signal(number, signal.SIG_DFL)
            if network:
                import network_namespace

                network_namespace.join(network)
            sources = [*files, failing]
            for index, file in enumerate(sources):
                while sources[index] < len(files):  # another file will get this number
                    sources[index] = os.dup(file)
            failing = sources.pop()
            for target, file in enumerate(sources):
                os.dup2(file, target)
            os.chdir(directory)
            os.execvpe(argv[0], argv, {**environment, PROCESS: str(os.getpid())})
        except OSError as exc:
            os.write(failing, b"%d" % (exc.errno or 0))
        finally:
            os._exit(127)

    def _reap(self) -> bool:
        """Reap the children that have ended; return whether any are left."""
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if status_to := self._statuses.pop(pid, 0):
                    for descriptor in [*self._outputs]:
                        for _ in range(_DRAINED):
                            if not self._copy(descriptor):
                                break
                    _report(status_to, EXITED, os.waitstatus_to_exitcode(status))
                    os.close(status_to)
        return False

    def _copy(self, descriptor: int) -> bool:
        """Copy at most one chunk of the output that is there; return whether there may
        be more.
        """
        if descriptor not in self._outputs:
            return False
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._outputs[descriptor].write(data)
        else:
            os.close(self._outputs.pop(descriptor).descriptor)
            os.close(descriptor)
        return bool(data)


def _stat(pid: int | str) -> list[bytes]:
    """Return the fields of `/proc/PID/stat` from the state on."""
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        return file.read().rpartition(b")")[2].split()


def _prctl(option: int, value: int | bytes) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _report(status: int, kind: bytes, number: int) -> None:
    with suppress(OSError):  # the reader is gone
        os.write(status, RECORD.pack(kind, number))


def _kill(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(OSError):  # it has exited, or belongs to another user
            os.kill(pid, number)


def clean(directory: str, lock: int) -> None:
    """Remove what a desktop has left elsewhere, then its directory, which lists that.

    Its file `commands` has commands to run, such as `docker kill`, one JSON list a
    line. Its file `files` has paths with identities, because another X server may have
    taken a path since. The caller holds the `lock`: a directory with another one is a
    later desktop's.
    """
    import shutil  # a desktop's start waits for what is imported at the top
    import subprocess

    try:
        if not os.path.samestat(os.fstat(lock), os.stat(f"{directory}/lock")):
            return
    except OSError:
        return
    # a file is missing, or the process was killed while it wrote
    with suppress(OSError, ValueError), open(f"{directory}/commands", "rb") as commands:
        for line in commands:
            command = json.loads(line)
            with suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=_COMMAND_S,
                )
    with suppress(OSError, ValueError), open(f"{directory}/files", "rb") as files:
        for path, known_identity in json.load(files):
            with suppress(OSError):
                if identity(path) == known_identity:
                    os.unlink(path)
    shutil.rmtree(directory, ignore_errors=True)


def identity(path: str) -> list[int]:
    """Return what distinguishes a file from another that later has the same path.
    Raises OSError.
    """
    status = os.stat(path)
    return [status.st_dev, status.st_ino, status.st_ctime_ns]


def supervise(directory: str, *descriptors: str) -> None:
    """Be the supervisor of the desktop in `directory`; the inherited descriptors are
    the socket and the lock.

    The processes that could not be ended are reported on the socket, a line each, and
    then an empty line.
    """
    for descriptor in descriptors:
        os.set_inheritable(int(descriptor), False)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_NAME, b"vnc-supervisor")
    control = socket.socket(fileno=int(descriptors[0]))
    wakeup, poke = os.pipe()
    for end in (wakeup, poke):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(poke, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    supervisor = Supervisor(directory, control)
    signal.signal(signal.SIGTERM, supervisor.close)
    survivors = b""
    pids = supervisor.owners() if supervisor.run(wakeup) else ()
    for pid in pids:
        with suppress(OSError), open(f"/proc/{pid}/comm", "rb") as name:
            survivors += b"%d %s\n" % (pid, name.read().strip())
    try:
        control.send(survivors + b"\n")
    except OSError:  # the parent is gone; else it cleans up, faster
        clean(directory, int(descriptors[1]))
    os._exit(0)  # its interpreter has nothing to end
