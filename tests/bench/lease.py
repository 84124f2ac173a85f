"""What a lease costs that nobody else wants, against taking and giving back a bare file lock. Run as a script:

    python tests/bench/lease.py [ROUNDS]

All are taken in turn, in one run; medians and their ratio are printed. The managed desktop is warm; its reset is not
part of the lease, see desktop_reset.py.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from filelock import FileLock

from pytest_vnc_use.desktops.kinds.xvnc import XvncDesktop
from pytest_vnc_use.desktops.sharing.leases import Lease, lease
from pytest_vnc_use.desktops.sharing.pool import ManagedDesktop, ManagedDesktops

SERVERS = [f"lab-{number}::5901" for number in range(8)]


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="lease-") as name:
        folder = Path(name)
        managed = ManagedDesktops(4, lambda place: XvncDesktop(place=place), folder)
        ways: dict[str, Callable[[], Lease | ManagedDesktop | FileLock]] = {
            "bare lock": partial(locked, FileLock(folder / "bare.lock")),
            "one of 8 given desktops": lambda: lease(SERVERS, "bench", timeout_s=1, folder=folder),
            "a warm managed desktop": lambda: managed.lease("bench", timeout_s=10),
        }
        print_medians(ways, rounds)
        managed.close()


def print_medians(ways: dict[str, Callable[[], Lease | ManagedDesktop | FileLock]], rounds: int) -> None:
    times = {what: [taken_s(way)] for what, way in ways.items()}  # the first warms up
    for _ in range(rounds):
        for what, way in ways.items():
            times[what].append(taken_s(way))
    medians = {what: 1000 * statistics.median(taken[1:]) for what, taken in times.items()}
    for what, median in medians.items():
        print(f"{what}: {median:.3f} ms, {median / medians['bare lock']:.1f} times a bare lock ({rounds} rounds)")


def taken_s(way: Callable[[], Lease | ManagedDesktop | FileLock]) -> float:
    """Of the taking alone; for a bare lock, and for a given desktop, giving back is a part of it."""
    started_s = time.perf_counter()
    held = way()
    if not isinstance(held, ManagedDesktop):
        held.release()
        return time.perf_counter() - started_s
    taken = time.perf_counter() - started_s
    held.stop()
    return taken


def locked(lock: FileLock) -> FileLock:
    lock.acquire()
    return lock


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
