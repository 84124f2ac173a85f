"""What a desktop costs a machine: the table of examples/many_machines/README.md, in Markdown. Run as a script:

    PYTHONPATH=tests python tests/bench/sizing.py [COUNT]

Of every kind, COUNT (4 by default) are started one after the other and kept. Start is the median of the times until one
is ready, memory the proportional set size of its processes, in which what several share is counted once, on average.
A desktop is ready once it shows a frame; its memory is read when its screen has become stable.
"""

from __future__ import annotations

import datetime
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.types.protocols import Desktop
from support.leftovers import processes_naming
from support.paths import EXAMPLES
from support.qt_desktop import QtDesktop

SHOP = [sys.executable, str(EXAMPLES / "shop")]
PAGE = "data:text/html,<h1>A page</h1><input autofocus>"
CHROMIUM = ["chromium", "--no-sandbox", "--no-first-run", "--user-data-dir=profile", PAGE]
WORKER = "import pytest, pytest_vnc_use.agent.agent, pytest_vnc_use.backends.vnc; print('ready', flush=True); input()"

Processes = Callable[[], Iterable[int]]
Start = Callable[[], AbstractContextManager[Processes]]


def main(count: int) -> None:
    memory_gb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    machine = f"{os.cpu_count()} cores ({platform.machine()}), {memory_gb:.0f} GB"
    print(f"{datetime.date.today()}, {machine}, {count} of each kind, screens of 1440x900\n")
    print("| | start | memory |\n|---|---|---|")
    for kind, start in KINDS.items():
        start_s, memory_mb = cost(start, count)
        print(f"| {kind} | {start_s:.1f} s | {memory_mb:.0f} MB |", flush=True)


def cost(start: Start, count: int) -> tuple[float, float]:
    """Seconds until one is ready, and megabytes of one."""
    times_s, started = [], []
    with ExitStack() as stack:
        for _ in range(count):
            began_s = time.perf_counter()
            started.append(stack.enter_context(start()))
            times_s.append(time.perf_counter() - began_s)
        total_mb = sum(pss_mb(pid) for processes in started for pid in processes())
    return statistics.median(times_s), total_mb / count


def pss_mb(pid: int) -> float:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) / 1024


@contextmanager
def desktop(make: Callable[[], Desktop]) -> Iterator[Processes]:
    made = make()
    try:
        with connected(made) as controller:
            controller.frame()
        yield partial(processes_at_rest, made)
    finally:
        made.stop()


def processes_at_rest(made: Desktop) -> Iterable[int]:
    with connected(made) as controller:
        controller.settle()
    directory = Path(made.run(["pwd"]).stdout.strip()).parent
    return in_sessions_of(processes_naming(directory))


def in_sessions_of(pids: Iterable[int]) -> Iterable[int]:
    """With those that no longer name anything: Chromium's overwrite their environment."""
    sessions = set(map(session_of, pids)) - {0}
    others = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in others if session_of(pid) in sessions]


def session_of(pid: int) -> int:
    """0 for a process that has ended."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def connected(made: Desktop) -> AbstractContextManager[VNCController]:
    return closing(connect(made.server, made.password))


@contextmanager
def worker() -> Iterator[Processes]:
    with subprocess.Popen([sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        yield lambda: [process.pid]
        process.stdin.write(b"\n")


KINDS: dict[str, Start] = {
    "desktop `xvnc`, nothing on it": partial(desktop, XvncDesktop),
    "desktop `xvnc` with xterm": partial(desktop, partial(XvncDesktop, ["xterm"])),
    "desktop `xvnc` with the shop": partial(desktop, partial(XvncDesktop, SHOP)),
    "desktop `xvnc` with Chromium": partial(desktop, partial(XvncDesktop, CHROMIUM)),
    "desktop `qt` with the shop": partial(desktop, partial(QtDesktop, SHOP)),
    "a worker of pytest-xdist, beside its desktop": worker,
}

if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
