"""How many pods, minutes and dollars a night of replayed tests takes, from what is measured here. Run as a script:

    PYTHONPATH=tests python tests/bench/fleet.py --dollars-core-hour 0.04 --dollars-gb-hour 0.005 --priced-on 2026-11-23

The prices are yours: look them up, and say when. Measured are the gallery's replays on TigerVNC desktops: seconds on
the clock and of the processor for a test and for the start of a session, all processes counted, and the memory of a
worker and of a desktop with Chromium, the largest of them. A pod has one desktop and does one test after the other.
`--pod-start-s` is not measured: how long a node takes to pull an image that it has, and to start a pod.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from sizing import KINDS, cost

from support.paths import EXAMPLES

PR_SET_CHILD_SUBREAPER = 36
NOT_THESE = "not sum and not machine"  # LibreOffice may not be here, and a pod's desktop is no virtual machine
SPARE = 1.25
"""Requests are so much larger than what is measured."""


@dataclass(frozen=True)
class Measured:
    """The seconds of a session of tests, and of one that only collects them, on the clock and of the processor."""

    tests: int
    clock_s: float
    processor_s: float
    start_clock_s: float
    start_processor_s: float
    memory_gb: float

    @property
    def test_s(self) -> float:
        return (self.clock_s - self.start_clock_s) / self.tests

    @property
    def test_processor_s(self) -> float:
        return (self.processor_s - self.start_processor_s) / self.tests


@dataclass(frozen=True)
class Night:
    """A night of `tests` within `minutes`, in pods that take `pod_start_s` to start."""

    tests: int
    minutes: float
    pod_start_s: float
    dollars_core_hour: float
    dollars_gb_hour: float

    def pods(self, measured: Measured) -> int:
        for_tests_s = self.minutes * 60 - self.pod_start_s - measured.start_clock_s
        each = math.floor(for_tests_s / measured.test_s)
        if each < 1:
            raise SystemExit(f"--minutes must leave time for one test of {measured.test_s:.1f} s, got {self.minutes}")
        return math.ceil(self.tests / each)

    def pod_s(self, measured: Measured) -> float:
        each = math.ceil(self.tests / self.pods(measured))
        return self.pod_start_s + measured.start_clock_s + each * measured.test_s

    def dollars(self, measured: Measured) -> float:
        hour = cores(measured) * self.dollars_core_hour + gigabytes(measured) * self.dollars_gb_hour
        return self.pods(measured) * self.pod_s(measured) / 3600 * hour


def cores(measured: Measured) -> float:
    """Return the cores that a pod asks for: what its tests keep busy, and some spare."""
    return math.ceil(SPARE * measured.test_processor_s / measured.test_s * 10) / 10


def gigabytes(measured: Measured) -> float:
    return math.ceil(SPARE * measured.memory_gb * 10) / 10


def measure() -> Measured:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what outlives a session is counted here too
    with tempfile.TemporaryDirectory() as folder:
        start = session("--collect-only", f"--vnc-runs-dir={folder}")
        whole = session(f"--vnc-runs-dir={folder}", "--vnc-record=replay")
        results = json.loads(Path(folder, "vnc-results.json").read_text())["totals"]["results"]
    if set(results) != {"passed"}:
        raise SystemExit(f"all replays must pass to be measured, got {results}")
    megabytes = [cost(KINDS[kind], 1)[1] for kind in KINDS if "Chromium" in kind or "worker" in kind]
    return Measured(results["passed"], *whole, *start, sum(megabytes) / 1024)


def session(*options: str) -> tuple[float, float]:
    """Return the seconds of a session of the gallery, and those of the processor."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", NOT_THESE, *options]
    before, began_s = os.times(), time.perf_counter()
    done = subprocess.run([*command, str(EXAMPLES / "gallery")], capture_output=True, text=True, check=False)
    took_s = time.perf_counter() - began_s
    if done.returncode:
        raise SystemExit(done.stdout)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    after = os.times()
    used_s = after.children_user + after.children_system - before.children_user - before.children_system
    return took_s, used_s


def table(measured: Measured, nights: list[Night]) -> str:
    lines = ["| within | pods at once | tests a pod | a pod's minutes | pod hours | dollars |", "|---:|" + "---:|" * 5]
    for night in nights:
        pods, pod_s = night.pods(measured), night.pod_s(measured)
        each, hours = math.ceil(night.tests / pods), pods * pod_s / 3600
        told = [f"{pods}", f"{each}", f"{pod_s / 60:.1f}", f"{hours:.1f}", f"{night.dollars(measured):.2f}"]
        lines.append(f"| {night.minutes:g} min | {' | '.join(told)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        allow_abbrev=False, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tests", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, nargs="+", default=[15, 30, 60, 240], help="when all must be over")
    parser.add_argument("--pod-start-s", type=float, default=30)
    parser.add_argument("--dollars-core-hour", type=float, required=True)
    parser.add_argument("--dollars-gb-hour", type=float, required=True)
    parser.add_argument("--priced-on", type=datetime.date.fromisoformat, required=True, help="the date of the prices")
    given = parser.parse_args()
    measured = measure()
    prices = given.dollars_core_hour, given.dollars_gb_hour
    load = f"load {os.getloadavg()[0]:.1f}"
    print(f"{datetime.date.today()}, {os.cpu_count()} cores ({platform.machine()}), {load}\n")
    print(f"A replayed test: {measured.test_s:.1f} s, {measured.test_processor_s:.1f} s of the processor.")
    print(f"A session's start: {measured.start_clock_s:.1f} s, {measured.start_processor_s:.1f} s of the processor.")
    asks = f"{cores(measured)} cores and {gigabytes(measured)} GB"
    print(f"A pod asks for {asks}, and takes {given.pod_start_s:g} s to start.")
    print(f"Prices of {given.priced_on}: ${prices[0]} a core and hour, ${prices[1]} a GB and hour.\n")
    print(f"{given.tests} tests:\n")
    print(table(measured, [Night(given.tests, minutes, given.pod_start_s, *prices) for minutes in given.minutes]))


if __name__ == "__main__":
    main()
