"""Hostile input, at random: many cases for each target, each target in a process of its own.

python tests/bench/run.py fuzz [CASES] [--seed N] [--target NAME] [--seconds S]

It prints the cases, the seed, the seconds, and the most memory above the start. A case that breaks a promise is printed
with its own seed, and is made again by `fuzz 1 --target NAME --seed N`.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from support.fuzzing import TARGETS
from support.fuzzing.trial import Trial

HANGS_S = 60.0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False, description=__doc__)
    parser.add_argument("cases", nargs="?", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--target", choices=sorted(TARGETS), action="append")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="the most time for a target")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    told = parser.parse_args(arguments)
    names = told.target or list(TARGETS)
    if told.here:
        return _try(names[0], told.cases, told.seed, told.seconds)
    print("| target | cases | seed | s | MB above the start |\n|---|---|---|---|---|", flush=True)
    more = [str(told.cases), f"--seed={told.seed}", f"--seconds={told.seconds}", "--here"]
    codes = [subprocess.run([sys.executable, __file__, *more, "--target", name]).returncode for name in names]
    return max(codes)


def _try(name: str, cases: int, seed: int, seconds: float) -> int:
    target, found, tried = TARGETS[name], 0, 0
    told: set[str] = set()
    with tempfile.TemporaryDirectory() as place, Trial(target, Path(place)) as trial:
        began_s = time.monotonic()
        for number in range(cases):
            if time.monotonic() - began_s > seconds:
                break
            tried += 1
            faulthandler.dump_traceback_later(HANGS_S, exit=True)
            try:
                trial.attempt(seed + number)
            except Exception as exc:  # noqa: BLE001  # whatever it is, it is what is looked for
                found += 1
                _tell(f"{name}, seed {seed + number}", exc, told)
        print(f"| {name} | {tried} | {seed} | {time.monotonic() - began_s:.0f} | {trial.memory_mb:.0f} |", flush=True)
    if found:
        print(f"{name}: {found} of {tried} cases broke a promise", flush=True)
    return 1 if found else 0


def _tell(case: str, exc: Exception, told: set[str]) -> None:
    """Print where an error came from, once for each place."""
    frames = [frame for frame in traceback.extract_tb(exc.__traceback__) if "pytest_vnc_use" in frame.filename]
    at = frames[-1] if frames else traceback.extract_tb(exc.__traceback__)[-1]
    place = f"{type(exc).__name__} at {Path(at.filename).name}:{at.lineno}"
    if place not in told:
        told.add(place)
        print(f"{case}: {place}: {str(exc)[:200]!r}\n    {at.line}", flush=True)


if __name__ == "__main__":
    sys.stdout.flush()
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # threads of a server that hangs on purpose are not waited for
