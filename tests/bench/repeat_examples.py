"""Whether the examples, replayed without a model from the recordings that come with
them, pass time after time.

    python tests/bench/run.py repeat_examples [TIMES [AT_ONCE]]

A line for each failure, and at the end how many times all of them passed, and what a
time takes. With AT_ONCE, so many continue beside each other all the time, as the
machine allows.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ratios import session

from pytest_vnc_use.report.results import ItemResult
from support.paths import EXAMPLES, ROOT


def replayed(_: int = 0) -> tuple[Sequence[ItemResult], float]:
    """Return the result of each test of a copy of the examples, and the seconds of all
    together.
    """
    with tempfile.TemporaryDirectory(prefix="examples-") as made:
        shutil.copytree(EXAMPLES, Path(made, "examples"))
        started_s = time.monotonic()
        options = [
            "-q",
            "-p",
            "no:cacheprovider",
            "--vnc-record=replay",
        ]
        tests, _output = session(Path(made), "examples", *options, path=ROOT)
        return tests, time.monotonic() - started_s


def main(times: int = 200, at_once: int = 1) -> int:
    """Return how many times a test failed."""
    failed = drifted = 0
    seconds: list[float] = []
    with ThreadPoolExecutor(at_once) as pool:
        for number, (tests, took_s) in enumerate(
            pool.map(replayed, range(times)), start=1
        ):
            seconds.append(took_s)
            if bad := next((test for test in tests if test.is_bad), None):
                failed += 1
                drifted += "drift " in bad.message
                reason = bad.message.splitlines()[0][:140]
                print(
                    f"time {number}: {bad.test.rpartition('::')[2]} | {bad.triage} |"
                    f" {reason}",
                    flush=True,
                )
            if number % 10 == 0 or number == times:
                median_s = statistics.median(seconds)
                passed = (
                    f"{number - failed} of {number} times all {len(tests)} tests"
                    f" passed, {drifted} drifted"
                )
                print(f"{passed}; {median_s:.1f} s a time (median)", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
