"""The benchmark of programs that nobody here wrote, with one of them, so that it keeps working."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.vnc_servers import require

pytestmark = [pytest.mark.desktop, pytest.mark.slow]

BENCH = Path(__file__).with_name("run.py")


@pytest.mark.timeout(300)  # three sessions of pytest
def test_program_is_replayed_and_two_changes_of_it_are_seen() -> None:
    for program in ("xterm", "nano", "xwininfo"):
        require(program)
    few = "--programs nano --replays 1 --at-once 1 --changes".split()
    changes = ["text of a label", "a dialog at the end"]
    ended = subprocess.run([sys.executable, BENCH, "foreign_programs", *few, *changes], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "| nano | 1 | 1 | 0 |" in ended.stdout
    assert "2 changed replays, 0 passed" in ended.stdout
