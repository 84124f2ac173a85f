"""Hostile input, a fixed number of cases for each target; `tests/bench/run.py fuzz`
tries as many as one likes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.fuzzing import TARGETS
from support.fuzzing.trial import MAX_MB, on_trial
from support.paths import TESTS


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_breaks_promise(name: str, tmp_path: Path) -> None:
    """The errors are the package's own, in time, and nothing is written elsewhere."""
    from hypothesis import HealthCheck, given, settings, strategies as st

    fixed = settings(
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    with on_trial(TARGETS[name], tmp_path) as attempt:
        settings(fixed, max_examples=TARGETS[name].examples)(
            given(st.integers(0, 2**32))(attempt)
        )()


@pytest.mark.slow
def test_memory_is_bounded() -> None:
    """In a process for each target, which has done nothing else."""
    names = ("answers to the planner gemini", "run directories")
    targets = [f"--target={name}" for name in names]
    command = [
        sys.executable,
        str(TESTS / "bench" / "run.py"),
        "fuzz",
        "30",
        "--seed=7",
        *targets,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=500)
    rows = dict(
        re.findall(r"^\| (.*) \| 30 \| 7 \| \d+ \| (\d+) \|$", ran.stdout, re.MULTILINE)
    )
    assert rows.keys() == {*names}, ran.stdout + ran.stderr
    assert {name: mb for name, mb in rows.items() if int(mb) >= MAX_MB} == {}
