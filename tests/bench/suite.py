"""The tests' own seconds, by folder. Run as a script:

    python tests/bench/run.py suite [OPTIONS OF PYTEST …]

Runs `python -m pytest -n 2` with the options, and prints for each folder of `tests/` how many tests it has and how long
they took by the clock, then the ten slowest tests, and the whole run. A test's time includes its fixtures.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from ratios import head, machine, row

ROOT = Path(__file__).parent.parent.parent


def main(options: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.xml")
        began_s = time.perf_counter()
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", f"--junit-xml={results}", *options]
        ended = subprocess.run(command, cwd=ROOT)
        took_s = time.perf_counter() - began_s
        tests = [*ElementTree.parse(results).iter("testcase")]
    print(f"\n{machine()}\n")
    print(head("folder", "tests", "seconds"))
    for name, seconds in sorted(by_folder(tests).items(), key=lambda item: -sum(item[1])):
        print(row(name, str(len(seconds)), f"{sum(seconds):.0f}"))
    print("\n" + head("slowest test", "seconds"))
    for test in sorted(tests, key=seconds_of, reverse=True)[:10]:
        print(row(f"{test.get('classname')}::{test.get('name')}", f"{seconds_of(test):.0f}"))
    print(f"\n{len(tests)} tests: {took_s:.0f} s by the clock")
    return ended.returncode


def by_folder(tests: Sequence[ElementTree.Element]) -> dict[str, list[float]]:
    """Return the seconds of each test, by the folder of `tests/` that it is in."""
    found: dict[str, list[float]] = defaultdict(list)
    for test in tests:
        found[str(test.get("classname")).split(".")[1]].append(seconds_of(test))
    return found


def seconds_of(test: ElementTree.Element) -> float:
    return float(test.get("time", 0))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
