"""What the plugin costs who does not use it: `pytest --collect-only` on an empty suite. Run as a script:

    python tests/bench/run.py collecting [ROUNDS]

With the plugin, and with `-p no:vnc_use`, in turn, ROUNDS (25 by default) times each; told are medians and quickest,
in wall-clock time and in processor time. pytest-html, which the plugin needs, is there both times.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ratios import head, machine, row

COMMAND = [sys.executable, "-m", "pytest", "--collect-only", "-q"]
WITHOUT = ["-p", "no:vnc_use"]


def main(rounds: int) -> None:
    print(f"{machine()}, n = {rounds}\n")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider -p no:pytest-vnc\n")
        pairs = [(spent(folder, []), spent(folder, WITHOUT)) for _ in range(rounds + 1)][1:]
    print(head("`pytest --collect-only`, empty suite", "with", "without", "ratio"))
    for clock, name in enumerate(("wall clock", "processor")):
        for choose in (statistics.median, min):
            with_s, without_s = (choose([pair[way][clock] for pair in pairs]) for way in (0, 1))
            kind = "median" if choose is statistics.median else "quickest"
            cells = f"{with_s * 1000:.0f} ms", f"{without_s * 1000:.0f} ms", f"{with_s / without_s:.3f}"
            print(row(f"{name}, {kind}", *cells))


def spent(folder: str, options: list[str]) -> tuple[float, float]:
    """Seconds by the clock, and of the processor."""
    environment = {**os.environ, "PYTHONPATH": ""}
    began_s, before_s = time.perf_counter(), of_children_s()
    ended = subprocess.run([*COMMAND, *options], cwd=folder, env=environment, capture_output=True)
    assert ended.returncode == 5, ended.stdout + ended.stderr  # no tests
    return time.perf_counter() - began_s, of_children_s() - before_s


def of_children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25)
