"""What benchmarks share: lines of the Markdown tables that they print, and sessions of pytest."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_vnc_use.report.results import ItemResult, read_results

HERE = Path(__file__).parent


def machine() -> str:
    """Date and machine, for the line above a table."""
    load = f"{os.getloadavg()[0]:.1f}"
    return f"{datetime.date.today()}, {os.cpu_count()} cores ({platform.machine()}), load {load}"


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def head(*cells: str) -> str:
    return f"{row(*cells)}\n{'|---' * len(cells)}|"


def session(
    directory: Path, *options: str, environment: Mapping[str, str] | None = None, path: Path = HERE
) -> tuple[Sequence[ItemResult], str]:
    """Run pytest in the directory; return the results and the output. Raises SystemExit where it leaves no results."""
    results = directory / "results.json"
    results.unlink(missing_ok=True)
    pytest = [sys.executable, "-m", "pytest", f"--vnc-results={results}", *options]
    paths = os.pathsep.join([str(path), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, **(environment or {}), "PYTHONPATH": paths}
    ended = subprocess.run(pytest, cwd=directory, env=env, capture_output=True, text=True)
    if not results.exists():
        raise SystemExit(f"{shlex.join(pytest)} left no results:\n{ended.stdout}\n{ended.stderr}")
    return read_results(results).tests, ended.stdout
