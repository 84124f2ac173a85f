"""Whether the examples, replayed without a model from the recordings that come with them, pass time after time.

    python tests/bench/run.py repeat_examples [TIMES [AT_ONCE]]

A line for each failure, and at the end how many times all of them passed, and what a time takes. With AT_ONCE, so many
go on beside each other all the time, as the machine allows.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from examined import examples, failure_of, replayed

from pytest_vnc_use.report.results import ItemResult


def main(times: int = 200, at_once: int = 1) -> int:
    failures, drifts, seconds, tests = 0, 0, [], 0
    with ThreadPoolExecutor(at_once) as pool:
        for number, (results, took_s) in enumerate(pool.map(lambda _: once(), range(times)), 1):
            seconds.append(took_s)
            tests += len(results)
            if failed := failure_of(results):
                failures += 1
                drifts += "not as recorded" in failed
                print(f"time {number}: {failed}", flush=True)
            if number % 10 == 0 or number == times:
                told = f"{number - failures} of {number} times all passed, {drifts} drifted"
                print(f"{told}; {tests} tests; {statistics.median(seconds):.1f} s a time (median)", flush=True)
    return failures


def once() -> tuple[Sequence[ItemResult], float]:
    """What came of each test, and how long they took together."""
    began_s = time.monotonic()
    with examples() as folder:
        return replayed(folder), time.monotonic() - began_s


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
