"""A world of its own for what is disturbed: namespaces of processes, files and network,
which vanish with their first process. Nothing else can be hit, and nothing stays behind
unseen.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from support.paths import ROOT

SMALL = Path("/tmp/small")
"""A disk that can be filled."""
_FLAGS = (
    "--mount",
    "--net",
    "--pid",
    "--ipc",
    "--fork",
    "--mount-proc",
    "--kill-child=SIGKILL",
)


def inside_command(command: Sequence[str]) -> list[str]:
    as_user = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *as_user, *_FLAGS, *command]


def why_not() -> str:
    tried = inside_command(
        ["sh", "-c", "mount -t tmpfs none /mnt && ip link set lo up"]
    )
    try:
        done = subprocess.run(
            tried, capture_output=True, text=True, timeout=20, check=False
        )
    except OSError as exc:
        return str(exc)
    return (
        ""
        if done.returncode == 0
        else done.stderr.strip() or f"unshare ended with {done.returncode}"
    )


def settle_in() -> None:
    """Make this world's own /tmp, small disk and loopback. What is needed of the old
    /tmp is there again.
    """
    new = Path(tempfile.mkdtemp())
    _do("mount", "-t", "tmpfs", "-o", "mode=1777,size=1g", "none", str(new))
    for needed in {
        Path(sys.prefix).resolve(),
        ROOT,
        *map(Path, os.environ.get("PYTHONPATH", "").split(":")),
    }:
        if needed.is_relative_to("/tmp") and needed.is_dir():
            there = new / needed.relative_to("/tmp")
            there.mkdir(parents=True, exist_ok=True)
            _do("mount", "--bind", str(needed), str(there))
    _do("mount", "--rbind", str(new), "/tmp")
    SMALL.mkdir()
    _do("mount", "-t", "tmpfs", "-o", "size=64m", "none", str(SMALL))
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
    state: str

    @property
    def argv(self) -> list[str]:
        return self._strings("cmdline")

    def environment(self) -> dict[str, str]:
        """Return its environment when it started; empty once it has ended."""
        return dict(
            pair.split("=", 1) for pair in self._strings("environ") if "=" in pair
        )

    def _strings(self, file: str) -> list[str]:
        with suppress(OSError):
            return (
                Path(f"/proc/{self.pid}/{file}")
                .read_bytes()
                .decode("utf-8", "replace")
                .split("\0")[:-1]
            )
        return []


def _every_process() -> Iterator[Process]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                head, _, rest = (
                    (entry / "stat").read_text(errors="replace").rpartition(")")
                )
                state, parent = rest.split()[:2]
                yield Process(
                    int(entry.name), int(parent), head.partition("(")[2], state
                )


def processes() -> list[Process]:
    return sorted(
        (each for each in _every_process() if each.state not in "ZX"),
        key=lambda process: process.pid,
    )


def reap(session: int) -> None:
    """Wait for what ended after its parent, and is a child of the first process now,
    but not for the session, whose starter does it.
    """
    for each in _every_process():
        is_own = each.parent == os.getpid() and each.pid != session
        if is_own and each.state == "Z":
            os.waitpid(each.pid, os.WNOHANG)


def files() -> set[Path]:
    """Return what is in this world's /tmp, and what X servers have beside it."""
    places = [Path("/tmp"), Path("/tmp/.X11-unix")]
    return {*chain.from_iterable(place.iterdir() for place in places if place.is_dir())}
