"""A world of its own for what is disturbed: namespaces of processes, files and network.

They vanish with their first process.

So every process in /proc and every file in /tmp is of this world: nothing else can be hit, and nothing can stay behind
unseen. The clock alone is the machine's: time namespaces have no CLOCK_REALTIME.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from support.paths import TESTS

SMALL_MB = 64
SMALL = Path("/tmp/small")
"""A disk that can be filled."""
_FLAGS = ("--mount", "--net", "--pid", "--ipc", "--fork", "--mount-proc", "--kill-child=SIGKILL")


def inside_command(command: Sequence[str]) -> list[str]:
    """Return the command that performs another one as the first process of a new world."""
    as_user = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *as_user, *_FLAGS, *command]


def why_not() -> str:
    """Return why no world can be made here; "" if one can."""
    tried = ["sh", "-c", "mount -t tmpfs none /mnt && ip link set lo up"]
    try:
        done = subprocess.run(inside_command(tried), capture_output=True, text=True, timeout=20, check=False)
    except OSError as exc:
        return str(exc)
    return "" if done.returncode == 0 else done.stderr.strip() or f"unshare ended with {done.returncode}"


def with_tests() -> dict[str, str]:
    """Return this process's environment, in which `support` can be imported."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}


def settle_in() -> None:
    """Make this world's own /tmp, small disk and loopback. What is needed of the old /tmp is there again."""
    needed = {
        Path(sys.prefix).resolve(),
        Path(__file__).resolve().parents[3],
        *map(Path, os.environ.get("PYTHONPATH", "").split(":")),
    }
    held = [each for each in needed if each.is_relative_to("/tmp") and each.is_dir()]
    new = Path(tempfile.mkdtemp())
    _do("mount", "-t", "tmpfs", "-o", "mode=1777,size=1g", "none", str(new))
    for each in held:
        there = new / each.relative_to("/tmp")
        there.mkdir(parents=True, exist_ok=True)
        _do("mount", "--bind", str(each), str(there))
    _do("mount", "--rbind", str(new), "/tmp")
    SMALL.mkdir()
    _do("mount", "-t", "tmpfs", "-o", f"size={SMALL_MB}m", "none", str(SMALL))
    _do("ip", "link", "set", "lo", "mtu", "1500", "up")
    tempfile.tempdir = None
    os.environ.pop("TMPDIR", None)


def _do(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=20)


@dataclass(frozen=True)
class Process:
    """A process of this world, as /proc tells of it."""

    pid: int
    parent: int
    name: str
    argv: tuple[str, ...]

    def environment(self) -> dict[str, str]:
        """Return its environment when it started; empty once it has ended."""
        with suppress(OSError):
            pairs = Path(f"/proc/{self.pid}/environ").read_bytes().decode("utf-8", "replace").split("\0")
            return dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        return {}


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process; 0 once it has ended."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    return 0.0


def processes() -> list[Process]:
    """Return all living processes of this world, by their ids; none that has ended and was not waited for."""
    found = (_process(int(each.name)) for each in Path("/proc").iterdir() if each.name.isdigit())
    return sorted(filter(None, found), key=lambda process: process.pid)


def _process(pid: int) -> Process | None:
    try:
        head, _, rest = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")[:-1]
    except OSError:  # it ended meanwhile
        return None
    state, parent = rest.split()[:2]
    return None if state in "ZX" else Process(pid, int(parent), head.partition("(")[2], tuple(argv))


def reap(own: set[int]) -> None:
    """Wait for what ended after its parent, and is a child of the first process now; who started `own` waits for it."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in own:
            with suppress(OSError):
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                if fields[0] == "Z" and int(fields[1]) == os.getpid():
                    os.waitpid(int(entry.name), os.WNOHANG)


def files() -> set[Path]:
    """Return what is in this world's /tmp, and what X servers have beside it."""
    places = [Path("/tmp"), Path("/tmp/.X11-unix")]
    return {path for place in places if place.is_dir() for path in place.iterdir()}
