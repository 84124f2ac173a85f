"""Replayed tests a minute, beside Playwright with a browser a test: a table in
Markdown.

    python tests/bench/run.py throughput [TESTS] [WORKERS …]

The gallery's page is recorded here, once, as for the bench `replay`. Then, for 1, 2, 4
and 8 workers of pytest-xdist, a session replays it TESTS (24 by default) times, and
another does the same three steps as often by Playwright in the same Chromium without a
window. A session is measured whole, with the start of its workers. The processor's time
is that of all processes that it started.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from ratios import head, machine, row, timed_session
from replay import write_project

WORKERS = (1, 2, 4, 8)
WAYS = {"Playwright": "test_playwright", "ours": "test_order_is_taken"}


class Figures(NamedTuple):
    """Of one session."""

    a_minute: float
    processor_s: float


def main(count: int = 24, *workers: int) -> None:
    best = dict.fromkeys(WAYS, 0.0)
    with tempfile.TemporaryDirectory(prefix="throughput-") as made:
        directory = Path(made)
        write_project(directory, count - 1)
        print(f"{machine()}, {count} tests: tests a minute, processor seconds a test\n")
        print(head("workers", *WAYS, "ours / Playwright"))
        for number in workers or WORKERS:
            figures = {
                way: measure(directory, test, number, count)
                for way, test in WAYS.items()
            }
            for way, measured in figures.items():
                best[way] = max(best[way], measured.a_minute)
            cells = [
                f"{one.a_minute:.1f}, {one.processor_s:.2f} s"
                for one in figures.values()
            ]
            plain, ours = figures.values()
            ratios = f"{ours.a_minute / plain.a_minute:.2f}, {ours.processor_s / plain.processor_s:.2f}"
            print(row(number, *cells, ratios), flush=True)
        cells = [f"{a_minute:.1f}" for a_minute in best.values()]
        print(row("the best", *cells, f"{best['ours'] / best['Playwright']:.2f}"))


def measure(directory: Path, test: str, workers: int, count: int) -> Figures:
    """Run the test so many times in one session. Raises SystemExit if one fails."""
    options = ("--vnc-record=replay", "-k", test, "test_page.py")
    took_s, processor_s = timed_session(directory, count, f"-n{workers}", *options)
    return Figures(60 * count / took_s, processor_s / count)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
