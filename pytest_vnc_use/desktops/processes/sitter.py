"""A script that starts one program of a desktop and stays with it. Standard library only.

    python sitter.py STATUS OUT ERR CLOSED -- COMMAND…

STATUS, OUT and ERR are file descriptors; OUT and ERR may be the same file. The output of the program, and of everything
that it starts, goes through the sitter. The sitter keeps its beginning and end in the files, so that it never fills a
disk. A process that leaves the program's session, and loses its parent, becomes a child of the sitter
(PR_SET_CHILD_SUBREAPER, prctl(2)). So nothing escapes, whatever its environment and its session are. At SIGTERM all of
them are ended, also their children, and the sitter ends last; at SIGUSR1 they are killed at once. The sitter ends by
itself once none of them is left. With CLOSED, the path of a unix socket, the program has its own network, whose VNC
server is reached at that socket (closed_network.py); else CLOSED is empty.

STATUS gets these lines: `started PID`, or `failed ERRNO` and nothing more; then `exited CODE`, -n for signal n, once
all output of the program is written.
"""

from __future__ import annotations

import ctypes
import os
import re
import runpy
import select
import signal
import sys
import time
from contextlib import suppress

HEAD, TAIL = 250_000, 750_000
"""The bytes kept of the beginning and of the end of an output; on disk there are up to twice as many."""
CUT = b"\n(... %d bytes are left out here)\n"
LEFT_OUT = re.compile(rb"\n\(\.\.\. (\d+) bytes are left out here\)\n")
GRACE_S = 2.6
"""The time between SIGTERM and SIGKILL; it is shorter than the wait of cleanup.py before it kills too."""
_OTHERS_AFTER_S = 0.2
"""The delay before the sitter sends SIGTERM outside the program's session; cleanup.py sends it inside."""
_GIVE_UP_S = 5.0
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NAME = 15
NAME = b"vnc-use sitter"
_CHUNK = 1 << 16
_MOST_CHUNKS = 32
"""The most chunks that are read after the program's end: a mebibyte, twice the most that a pipe holds."""


class BoundedFile:
    """A file that keeps the head and the tail of the data written to it."""

    def __init__(self, descriptor: int) -> None:
        self._file = descriptor
        self._size = 0
        self._left_out = 0
        self._tail_at = 0

    def write(self, data: bytes) -> None:
        """Append data; if the file becomes too long, cut out its middle."""
        with suppress(OSError):  # the disk is full: the program continues
            self._size += os.pwrite(self._file, data, self._size)
            if self._size > 2 * (HEAD + TAIL):
                self._cut()

    def _cut(self) -> None:
        tail = os.pread(self._file, TAIL, self._size - TAIL)
        kept = self._tail_at or HEAD
        self._left_out += self._size - TAIL - kept
        mark = CUT % self._left_out
        os.pwrite(self._file, mark + tail, HEAD)
        self._tail_at = HEAD + len(mark)
        self._size = self._tail_at + len(tail)
        os.ftruncate(self._file, self._size)


class Sitter:
    """The program, its output, and everything that it started."""

    def __init__(self, status: int, out: int, err: int) -> None:
        self._status = status
        self._files: dict[int, BoundedFile] = {}
        one = BoundedFile(out)
        self._out = self._pipe(one)
        self._err = self._out if os.path.sameopenfile(out, err) else self._pipe(BoundedFile(err))
        self.program = 0
        self._ending_since_s = 0.0
        self._asked = False

    def _pipe(self, file: BoundedFile) -> int:
        """Return the end of a new pipe to write to; its data goes into the file."""
        out, into = os.pipe()
        os.set_blocking(out, False)
        self._files[out] = file
        return into

    def start(self, command: list[str]) -> bool:
        """Start the program in a session of its own, and report it; return False if it cannot be started."""
        try:
            self.program = os.posix_spawnp(
                command[0],
                command,
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, self._out, 1), (os.POSIX_SPAWN_DUP2, self._err, 2)],
                setsid=True,
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
                setsigmask=[],
            )
        except OSError as exc:
            self.fail(exc)
            return False
        for descriptor in {self._out, self._err}:
            os.close(descriptor)
        self._tell(b"started %d\n" % self.program)
        return True

    def fail(self, error: OSError) -> None:
        """Report that the program cannot be started."""
        self._tell(b"failed %d\n" % (error.errno or 0))

    def sit(self, wakeup: int) -> None:
        """Stay until no process is left, or until the remaining ones cannot be ended."""
        while self._reap() and self._ending_for_s < _GIVE_UP_S:
            if self._ending_for_s > GRACE_S:
                _signal_all(signal.SIGKILL)
            elif self._ending_for_s > _OTHERS_AFTER_S:
                self._ask_others()
            readable = select.select([wakeup, *self._files], [], [], 0.05 if self._ending_since_s else None)[0]
            for descriptor in readable:
                if descriptor == wakeup:
                    os.read(wakeup, _CHUNK)
                else:
                    self._copy(descriptor)
        self._drain()

    def end(self, *_: object) -> None:
        """Begin to end everything; cleanup.py has sent SIGTERM to the program's session."""
        self._ending_since_s = self._ending_since_s or time.monotonic()

    def kill(self, *_: object) -> None:
        """Begin to kill everything."""
        self._ending_since_s = time.monotonic() - GRACE_S - 0.001

    @property
    def _ending_for_s(self) -> float:
        return time.monotonic() - self._ending_since_s if self._ending_since_s else 0.0

    def _ask_others(self) -> None:
        """Send SIGTERM, once, to processes that have left the program's session."""
        if not self._asked:
            self._asked = True
            _signal_all(signal.SIGTERM, spared_session=self.program)

    def _reap(self) -> bool:
        """Reap the children that have ended; return whether any are left."""
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self.program:
                    self._drain()
                    self._tell(b"exited %d\n" % os.waitstatus_to_exitcode(status))
        return False

    def _drain(self) -> None:
        """Copy all output so far."""
        for descriptor in [*self._files]:
            for _ in range(_MOST_CHUNKS):
                if not self._copy(descriptor):
                    break

    def _copy(self, descriptor: int) -> bool:
        """Copy the output that is there now, one chunk at most; return whether there may be more."""
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._files[descriptor].write(data)
        else:
            del self._files[descriptor]
            os.close(descriptor)
        return bool(data)

    def _tell(self, line: bytes) -> None:
        with suppress(OSError):  # the reader is gone
            os.write(self._status, line)


def _signal_all(number: signal.Signals, spared_session: int = -1) -> None:
    """Signal all descendants of this process; a descendant that loses its parent meanwhile becomes its child."""
    children: dict[int, list[int]] = {}
    session: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/stat", "rb", buffering=0) as file:
            _state, parent, _group, own_session = file.read().rpartition(b")")[2].split()[:4]
            session[int(name)] = int(own_session)
            children.setdefault(int(parent), []).append(int(name))
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, [])
    for pid in found[1:]:
        if session[pid] != spared_session:
            with suppress(OSError):  # it ended meanwhile, or is another user's
                os.kill(pid, number)


def _main(status: int, out: int, err: int, closed: str, command: list[str]) -> int:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(_PR_SET_NAME, NAME, 0, 0, 0)
    for descriptor in (status, out, err):
        os.set_inheritable(descriptor, False)
    wakeup, poke = os.pipe()
    for end in (wakeup, poke):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(poke, warn_on_full_buffer=False)
    sitter = Sitter(status, out, err)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, sitter.end)
    signal.signal(signal.SIGUSR1, sitter.kill)
    network = runpy.run_path(os.path.join(os.path.dirname(__file__), "closed_network.py")) if closed else {}
    try:
        listener = network["listen"](closed) if closed else None
        if closed:
            network["enter"]()
    except OSError as exc:
        sitter.fail(exc)
        return 1
    if not sitter.start(command):
        return 1
    if closed:
        network["start_relay"](listener, sitter.program)
    sitter.sit(wakeup)
    return 0


if __name__ == "__main__":
    sys.exit(_main(*map(int, sys.argv[1:4]), sys.argv[4], sys.argv[6:]))  # type: ignore[call-arg,arg-type]
