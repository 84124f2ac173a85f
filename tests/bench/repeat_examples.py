"""Whether the examples, replayed without a model from the recordings that come with them, pass time after time.

    python tests/bench/run.py repeat_examples [TIMES]

A line for each failure, and at the end how many times all of them passed, and what a time takes.
"""

from __future__ import annotations

import statistics
import sys
import time

from examined import examples, failure_of, replayed


def main(times: int = 200) -> int:
    failures, drifts, seconds, tests = 0, 0, [], 0
    with examples() as folder:
        for number in range(1, times + 1):
            began_s = time.monotonic()
            results = replayed(folder)
            seconds.append(time.monotonic() - began_s)
            tests += len(results)
            if failed := failure_of(results):
                failures += 1
                drifts += "not as recorded" in failed
                print(f"time {number}: {failed}", flush=True)
            if number % 10 == 0 or number == times:
                told = f"{number - failures} of {number} times all passed, {drifts} drifted"
                print(f"{told}; {tests} tests; {statistics.median(seconds):.1f} s a time (median)", flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
