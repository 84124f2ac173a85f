"""Times of several ways to do one thing, taken in turn in one run, and the Markdown table of their ratios."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence


def in_turn(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds that each way took in each round; one round before them warms up."""
    times_s: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            began_s = time.perf_counter()
            way()
            if number:
                times_s[name].append(time.perf_counter() - began_s)
    return times_s


def median_ms(times_s: Sequence[float]) -> float:
    return statistics.median(times_s) * 1000


def machine() -> str:
    """Date and machine, for the line above a table."""
    load = f"{os.getloadavg()[0]:.1f}"
    return f"{datetime.date.today()}, {os.cpu_count()} cores ({platform.machine()}), load {load}"


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def head(*cells: str) -> str:
    return f"{row(*cells)}\n{'|---' * len(cells)}|"
