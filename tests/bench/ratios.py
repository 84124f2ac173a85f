"""What benchmarks share: ways of doing one thing that are measured in turn, the lines of
the Markdown tables that they print, and sessions of pytest.
"""

from __future__ import annotations

import ctypes
import datetime
import os
import platform
import resource
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_vnc_use.report.results import ItemResult, read_results

HERE = Path(__file__).parent
PR_SET_CHILD_SUBREAPER = 36


def machine() -> str:
    """Date and machine, for the line above a table."""
    load = f"{os.getloadavg()[0]:.1f}"
    return (
        f"{datetime.date.today()}, {os.cpu_count()} cores ({platform.machine()}), load"
        f" {load}"
    )


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def head(*cells: str) -> str:
    return f"{row(*cells)}\n{'|---' * len(cells)}|"


def seconds(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    started_s = time.perf_counter()
    call()
    return time.perf_counter() - started_s


def in_turn(
    ways: Mapping[str, Callable[[], float]], rounds: int
) -> dict[str, list[float]]:
    """Measure each way once a round, so that what else the machine does meets all of
    them alike.

    A way returns its seconds. A round before the others warms up.
    """
    times_s: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            took_s = way()
            if number:
                times_s[name].append(took_s)
    return times_s


def beside(base: str, times_s: Mapping[str, Sequence[float]]) -> list[str]:
    """Return a cell a way: its median, and how many times as long as `base` it took, as
    the median and the middle half of the rounds' ratios.
    """
    cells = []
    for name, way_s in times_s.items():
        cell = milliseconds(statistics.median(way_s))
        if name != base:
            rounds = zip(way_s, times_s[base], strict=True)
            ratios = [one_s / base_s for one_s, base_s in rounds]
            low, middle, high = statistics.quantiles(ratios, method="inclusive")
            cell += f", {middle:.2f} × ({low:.2f} to {high:.2f})"
        cells.append(cell)
    return cells


def milliseconds(value_s: float) -> str:
    """Format a time of less than ten milliseconds with a decimal."""
    value_ms = 1000 * value_s
    return f"{value_ms:.{1 if abs(value_ms) < 10 else 0}f} ms"


def session(
    directory: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
    path: Path = HERE,
) -> tuple[Sequence[ItemResult], str]:
    """Run pytest in the directory; return the results and the output. Raises SystemExit
    where it leaves no results.
    """
    results = directory / "results.json"
    results.unlink(missing_ok=True)
    pytest = [sys.executable, "-m", "pytest", f"--vnc-results={results}", *options]
    paths = os.pathsep.join([str(path), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, **(environment or {}), "PYTHONPATH": paths}
    ended = subprocess.run(
        pytest, cwd=directory, env=env, capture_output=True, text=True
    )
    if not results.exists():
        raise SystemExit(
            f"{shlex.join(pytest)} left no results:\n{ended.stdout}\n{ended.stderr}"
        )
    return read_results(results).tests, ended.stdout


def timed_session(directory: Path, count: int, *options: str) -> tuple[float, float]:
    """Run a session of pytest in the directory; return its seconds, and those of the
    processor that all its processes used. Raises SystemExit if not so many tests pass.
    """
    # so that this process gets the time of those that outlive their parents
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    used_s = _processor_s()
    started_s = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    took_s = time.perf_counter() - started_s
    if f"{count} passed" not in done.stdout:
        raise SystemExit(done.stdout + done.stderr)
    return took_s, _processor_s() - used_s


def _processor_s() -> float:
    """Return the processor's time of all processes that this one started and that have
    ended, once none is left.
    """
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
