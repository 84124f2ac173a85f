"""Whether the examples, replayed without a model from the recordings that come with them, pass time after time.

    python tests/bench/run.py repeat_examples [TIMES [AT_ONCE]] [--against CHECKOUT]

A line for each failure, and at the end how many times all of them passed, and what a time takes. With AT_ONCE, so many
continue beside each other all the time, as the machine allows. With `--against`, those of another checkout, by its own
package, are replayed in turn with them, and it is told how much longer these take.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ratios import head, machine, row

from pytest_vnc_use.report.results import ItemResult, read_results

TREE = Path(__file__).parents[2]
"""The checkout that this benchmark is of."""


@contextmanager
def examples(tree: Path = TREE) -> Iterator[Path]:
    """A directory with a copy of the examples of a checkout, for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="examples-") as made:
        shutil.copytree(tree / "examples", Path(made) / "examples")
        yield Path(made)


def replayed(directory: Path, *options: str, tree: Path = TREE) -> Sequence[ItemResult]:
    """Return the outcome of each test, performed by the package of that checkout."""
    results = directory / "results.json"
    results.unlink(missing_ok=True)
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "examples", "--vnc-record=replay"]
    path = os.pathsep.join([str(tree), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [*pytest, f"--vnc-results={results}", *options],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    if not results.exists():
        raise SystemExit(f"{shlex.join(ended.args)} wrote no results:\n{ended.stdout}\n{ended.stderr}")
    shutil.rmtree(directory / "runs", ignore_errors=True)
    return read_results(results).tests


def failure_of(tests: Sequence[ItemResult]) -> str:
    """The first failed test, what its failure means and why, as cells of a table; empty where none failed."""
    for test in tests:
        if test.is_bad:
            reason = test.message.splitlines()[0][:140].replace("|", "/")
            return f"{test.test.rpartition('::')[2]} | {test.triage} | {reason}"
    return ""


@dataclass
class Tally:
    """The outcomes of the examples of one checkout so far."""

    tree: Path
    failures: int = 0
    drifts: int = 0
    tests: int = 0
    seconds: list[float] = field(default_factory=list)

    def add(self, number: int, results: Sequence[ItemResult], took_s: float) -> None:
        self.seconds.append(took_s)
        self.tests += len(results)
        if failed := failure_of(results):
            self.failures += 1
            self.drifts += "drift " in failed
            print(f"time {number}, {self.tree.name}: {failed}", flush=True)

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)

    def __str__(self) -> str:
        times = len(self.seconds)
        told = f"{times - self.failures} of {times} times all passed, {self.drifts} drifted"
        return f"{told}; {self.tests} tests; {self.median_s:.1f} s a time (median)"


def main(times: int, at_once: int, against: Path | None) -> int:
    tallies = [Tally(tree) for tree in (against, TREE) if tree]
    with ThreadPoolExecutor(at_once) as pool:
        each = [pool.map(partial(once, tally.tree), range(times)) for tally in tallies] if at_once > 1 else None
        for number in range(1, times + 1):
            for index, tally in enumerate(tallies):
                tally.add(number, *(next(each[index]) if each else once(tally.tree)))
            if number % 10 == 0 or number == times:
                print(*(f"{tally.tree.name}: {tally}" for tally in tallies), sep="\n", flush=True)
    if against:
        tell_both(*tallies)
    return sum(tally.failures for tally in tallies if tally.tree == TREE)


def once(tree: Path, _: int = 0) -> tuple[Sequence[ItemResult], float]:
    """Return the outcome of each test, and the seconds of all together."""
    with examples(tree) as directory:
        began_s = time.monotonic()
        return replayed(directory, tree=tree), time.monotonic() - began_s


def tell_both(before: Tally, now: Tally) -> None:
    """Both beside each other; times of the same round are compared, so that a machine's load counts for both."""
    print(f"\n{machine()}, n = {len(now.seconds)}, in turn\n")
    print(head("checkout", "all passed", "drifted", "s a time (median)", "quickest", "slowest"))
    for tally in (before, now):
        passed = f"{len(tally.seconds) - tally.failures} of {len(tally.seconds)}"
        ends = (f"{end(tally.seconds):.1f}" for end in (min, max))
        print(row(tally.tree.name, passed, tally.drifts, f"{tally.median_s:.1f}", *ends))
    ratio = statistics.median(late / soon for soon, late in zip(before.seconds, now.seconds, strict=True))
    print(f"\n{now.tree.name} takes {ratio - 1:+.1%} of {before.tree.name}'s time (median of the rounds)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(allow_abbrev=False, usage=__doc__)
    parser.add_argument("times", type=int, nargs="?", default=200)
    parser.add_argument("at_once", type=int, nargs="?", default=1)
    parser.add_argument("--against", type=lambda path: Path(path).resolve())
    sys.exit(main(**vars(parser.parse_args())))
