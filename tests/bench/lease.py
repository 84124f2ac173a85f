"""What a lease costs that nobody else wants, against taking and giving back a bare file lock. Run as a script:

    python tests/bench/lease.py [ROUNDS]

Both are taken in turn, in one run; medians and their ratio are printed.
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

from pytest_vnc_use.desktops.external import Lease, lease

SERVERS = [f"lab-{number}::5901" for number in range(8)]


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="lease-") as name:
        directory = Path(name)
        ways: dict[str, Callable[[], Lease | FileLock]] = {
            "bare lock": partial(locked, FileLock(directory / "bare.lock")),
            "one of 8 given desktops": lambda: lease(SERVERS, "bench", timeout_s=1, directory=directory),
        }
        times = {what: [taken_s(way)] for what, way in ways.items()}  # the first warms up
        for _ in range(rounds):
            for what, way in ways.items():
                times[what].append(taken_s(way))
        medians = {what: 1000 * statistics.median(taken[1:]) for what, taken in times.items()}
        for what, median in medians.items():
            print(f"{what}: {median:.3f} ms, {median / medians['bare lock']:.1f} times a bare lock ({rounds} rounds)")


def taken_s(way: Callable[[], Lease | FileLock]) -> float:
    started_s = time.perf_counter()
    way().release()
    return time.perf_counter() - started_s


def locked(lock: FileLock) -> FileLock:
    lock.acquire()
    return lock


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
