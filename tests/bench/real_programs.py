"""Real programs, each recorded once, replayed N times (50 by default), and replayed on other versions of it.

    python tests/bench/run.py real_programs [N [PROGRAM …]]

All on TigerVNC desktops, which are reset from one replay to the next; what is recorded on one is replayed on another. A
replay passes if the run, a claim with its evidence, and what the program wrote are as recorded.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from support.programs_on_x import CLAIM, NOBODY, PROGRAMS, Desk


def recorded_s(folder: Path, name: str) -> float:
    began_s = time.monotonic()
    with Desk(folder) as desk, desk.playing(name, "rewrite") as driven:
        driven.run()
        driven.agent.verify(CLAIM)
        driven.recorded.keep()
    return time.monotonic() - began_s


def replayed(desk: Desk, name: str, times: int) -> tuple[Counter[str], float]:
    """Return how often each saw something, and the median of the seconds that a run took."""
    seen, took_s = Counter[str](), []
    for number in range(times):
        with desk.playing(name, "replay") as driven:
            began_s = time.monotonic()
            seen[driven.seen_by(PROGRAMS[name].saves)] += 1
            took_s.append(time.monotonic() - began_s)
        print(f"\r{name}: {number + 1}", end="", file=sys.stderr, flush=True)
    return seen, statistics.median(took_s)


def main(times: int, names: list[str]) -> int:
    wrong = 0
    told = []
    with tempfile.TemporaryDirectory(prefix="real-") as made:
        folder = Path(made)
        print("| program | recorded | replayed | passed | drifted | a run |\n|---|---|---|---|---|---|", flush=True)
        for name, program in ((name, PROGRAMS[name]) for name in names):
            if not program.is_installed:
                print(f"| {name} | not installed: {', '.join(program.needs)} | | | | |", flush=True)
                continue
            live_s = recorded_s(folder, name)
            with Desk(folder) as desk:
                seen, run_s = replayed(desk, name, times)
                drifts = [f"{name}, {count} times: {who}" for who, count in seen.items() if who != NOBODY]
                for what in program.changed:
                    with desk.playing(name, "replay", what, gate_s=5.0) as driven:
                        told.append((name, what, driven.seen_by(program.saves)))
            passed = seen[NOBODY]
            print(f"\r| {name} | {live_s:.0f} s | {times} | {passed} | {times - passed} | {run_s:.2f} s |", flush=True)
            print(*drifts, sep="\n", file=sys.stderr, flush=True)
            wrong += times - passed
    print("\n| program | what is other | seen by |\n|---|---|---|")
    for row in told:
        print(f"| {' | '.join(row)} |")
    return wrong + sum(who == NOBODY for *_, who in told)


if __name__ == "__main__":
    sys.exit(min(1, main(int(sys.argv[1]) if sys.argv[1:] else 50, sys.argv[2:] or [*PROGRAMS])))
