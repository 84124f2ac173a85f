"""How much sooner tests end that mostly wait, on eight desktops at once against one after the other. Run as a script:

    python tests/bench/parallel_desktops.py [TURNS]

Eight times the same test, each on a TigerVNC desktop of its own with xterm, by a script that takes 2 s for each turn,
as a model does. All times are of a whole session of pytest: one without pytest-xdist, one with eight workers. What
bounds the ratio is the processor time that every worker needs to start, mostly to import; it is printed too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DESKTOPS = 8
CONFTEST = """
from threading import Event

import pytest

from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use.types import TypeText

TURN_S = 2.0


class SlowPlanner(ScriptedPlanner):
    def decide(self, observation, *, timeout_s):
        Event().wait(TURN_S)
        return super().decide(observation, timeout_s=timeout_s)


@pytest.fixture
def vnc_planner():
    return SlowPlanner([[TypeText(f"line {number}", press_enter=True)] for number in range(TURNS - 1)])
"""
TEST = """
import pytest


@pytest.mark.parametrize("number", range(DESKTOPS))
@pytest.mark.vnc_task("Type some lines", expect=None)
def test_lines(vnc_desktop, number):
    assert len(vnc_desktop.read_file("typed.txt").splitlines()) == TURNS - 1
"""
PYTEST = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--vnc-server=xvnc", "--vnc-app=xterm -e 'cat > typed.txt'"]


def main(turns: int) -> None:
    print(f"{DESKTOPS} tests of {turns} turns, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "conftest.py").write_text(f"TURNS = {turns}\n{CONFTEST}")
        Path(folder, "test_lines.py").write_text(f"TURNS, DESKTOPS = {turns}, {DESKTOPS}\n{TEST}")
        in_turn_s = told_duration_s("one after the other", folder)
        at_once_s = told_duration_s(f"{DESKTOPS} desktops at once", folder, "-n", str(DESKTOPS))
        print(f"{in_turn_s / at_once_s:.1f} times as fast")


def told_duration_s(what: str, folder: str, *options: str) -> float:
    started_s, processor_s = time.perf_counter(), children_s()
    subprocess.run([sys.executable, *PYTEST, *options], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    took_s = time.perf_counter() - started_s
    print(f"{what}: {took_s:.1f} s, of which {children_s() - processor_s:.1f} s on a processor")
    return took_s


def children_s() -> float:
    times = os.times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
