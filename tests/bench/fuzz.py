"""Hostile input, at random: many cases for each target, each target in a process of its
own.

python tests/bench/run.py fuzz [CASES] [--seed N] [--target NAME] [--seconds S]

It prints the cases, the seed, the seconds, and the most memory above the start. A case
that breaks a promise is printed with its own seed, and is made again by `fuzz 1
--target NAME --seed N`.
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
from support.fuzzing.trial import on_trial, peak_mb

HANGS_S = 60.0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False, description=__doc__)
    parser.add_argument("cases", nargs="?", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--target", choices=sorted(TARGETS), action="append")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="the most time for a target"
    )
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    names = asked.target or list(TARGETS)
    if asked.here:
        return fuzz(names[0], asked.cases, asked.seed, asked.seconds)
    print(
        "| target | cases | seed | s | MB above the start |\n|---|---|---|---|---|",
        flush=True,
    )
    more = [
        str(asked.cases),
        f"--seed={asked.seed}",
        f"--seconds={asked.seconds}",
        "--here",
    ]
    return max(
        subprocess.run([sys.executable, __file__, *more, "--target", name]).returncode
        for name in names
    )


def fuzz(name: str, cases: int, seed: int, seconds: float) -> int:
    broken = 0
    tried = 0
    places = set[str]()
    with (
        tempfile.TemporaryDirectory() as place,
        on_trial(TARGETS[name], Path(place)) as attempt,
    ):
        started_s = time.monotonic()
        start_mb = peak_mb()
        while tried < cases and time.monotonic() - started_s <= seconds:
            faulthandler.dump_traceback_later(HANGS_S, exit=True)
            try:
                attempt(seed + tried)
            except Exception as exc:  # noqa: BLE001  # whatever it is, it is what is looked for
                broken += 1
                frames = traceback.extract_tb(exc.__traceback__)
                at = next(
                    (
                        frame
                        for frame in reversed(frames)
                        if "pytest_vnc_use" in frame.filename
                    ),
                    frames[-1],
                )
                where = f"{type(exc).__name__} at {Path(at.filename).name}:{at.lineno}"
                if where not in places:
                    print(
                        f"{name}, seed {seed + tried}: {where}: {str(exc)[:200]!r}\n   "
                        f" {at.line}",
                        flush=True,
                    )
                places.add(where)
            tried += 1
        took_s = time.monotonic() - started_s
        more_mb = peak_mb() - start_mb
        print(
            f"| {name} | {tried} | {seed} | {took_s:.0f} | {more_mb:.0f} |", flush=True
        )
    if broken:
        print(f"{name}: {broken} of {tried} cases broke a promise", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # threads of a server that hangs on purpose are not waited for
