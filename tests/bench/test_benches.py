"""Two gates on a small scale, so that they keep working: a disturbed session, and a program of another project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.chaos import world
from support.vnc_servers import missing, require

NANO = ["--programs", "nano", "--replays", "1", "--at-once", "1", "--changes", "a dialog at the end"]


@pytest.mark.desktop
@pytest.mark.slow
@pytest.mark.parametrize(
    ("bench", "options", "results"),
    [
        ("chaos", ["--seed=1", "--minutes=0.5", "--sessions=1", "--tests=2"], ["0 things were wrong"]),
        ("foreign_programs", NANO, ["| nano | 1 | 1 | 0 |", "1 changed replays, 0 passed"]),
    ],
)
def test_small_bench_finds_nothing(bench: str, options: list[str], results: list[str]) -> None:
    for program in ("Xtigervnc", "openbox", "xterm", "nano", "xwininfo"):
        require(program)
    if bench == "chaos" and (reason := world.why_not()):
        missing("a namespace", reason)
    command = [sys.executable, str(Path(__file__).with_name("run.py")), bench, *options]
    done = subprocess.run(command, env=world.with_tests(), capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(result in done.stdout for result in results), done.stdout
