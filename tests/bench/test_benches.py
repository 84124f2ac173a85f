"""Benchmarks on a small scale, so that they keep working."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.vnc_servers import missing, require, require_package

CANNOT_RUN = 77
"""The exit code of a benchmark that lacks something here, as in automake."""
NANO = [
    "--programs",
    "nano",
    "--replays",
    "1",
    "--at-once",
    "1",
    "--changes",
    "a dialog at the end",
]


@pytest.mark.desktop
@pytest.mark.slow
@pytest.mark.parametrize(
    ("bench", "options", "results"),
    [
        (
            "chaos",
            ["--seed=1", "--minutes=0.5", "--sessions=1", "--tests=2"],
            ["0 things were wrong"],
        ),
        (
            "foreign_programs",
            NANO,
            ["| nano | 1 | 1 | 0 |", "1 changed replays, 0 passed"],
        ),
        ("session", ["--repeat=1", "--load=0"], ["0 of 1 sessions failed"]),
        ("report", ["4"], ["| with runs, their pages |"]),
    ],
)
def test_small_bench_finds_nothing(
    bench: str, options: list[str], results: list[str]
) -> None:
    for program in ("Xtigervnc", "openbox", "xterm", "nano", "xwininfo"):
        require(program)
    output = run_bench(bench, *options)
    assert all(result in output for result in results), output


@pytest.mark.desktop
@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize(
    ("bench", "options", "result"),
    [
        ("capture", ["2"], "| 3840×2160 |"),
        ("step", ["2"], "| one click |"),
        ("replay", ["2"], "| three steps in Chromium |"),
        ("desktops", ["1", "2"], "| ours |"),
        ("settling", ["1", "late"], "| late | model |"),
    ],
)
def test_small_comparison_prints_table(
    bench: str, options: list[str], result: str
) -> None:
    for program in ("Xtigervnc", "openbox", "chromium"):
        require(program)
    require_package("playwright")
    output = run_bench(bench, *options)
    assert result in output, output


def run_bench(*arguments: str) -> str:
    """Return the output of a benchmark, which must succeed."""
    command = [sys.executable, str(Path(__file__).with_name("run.py")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    if done.returncode == CANNOT_RUN:
        missing("what it needs", done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
