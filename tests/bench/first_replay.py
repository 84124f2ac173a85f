"""How much longer the first replayed test of a session takes than the second: a table in Markdown. Run as a script:

    python tests/bench/run.py first_replay [ROUNDS [FOLDER]]

Each of ROUNDS (9 by default) is a session of pytest with two tests, which replay one recorded step on a TigerVNC
desktop of their own with xterm. The first test imports what both need. The processor's time is that of pytest's own
process while a test runs. With FOLDER, another checkout of this project takes turns with this one.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from ratios import head, machine, row

HERE = Path(__file__).resolve().parents[2]
CONFTEST = """
import json
import time

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    clocks = time.perf_counter, time.process_time
    began = [clock() for clock in clocks]
    result = yield
    with open("times.jsonl", "a") as file:
        print(json.dumps([clock() - since for clock, since in zip(clocks, began)]), file=file)
    return result
"""
PLANNER = """
from pytest_vnc_use.planners import finish
from pytest_vnc_use.types import TypeText


def plan(observation):
    return finish() if observation.turns else TypeText("a line", press_enter=True)
"""
TEST = """
import pytest


@pytest.mark.parametrize("number", range(2))
@pytest.mark.vnc_task("Type a line", expect=None)
def test_line(vnc_desktop, number):
    assert vnc_desktop.read_file("typed.txt") == "a line\\n"
"""
OPTIONS = ["-q", "-p", "no:cacheprovider", "--vnc-server=xvnc", "--vnc-app=xterm -e 'cat > typed.txt'"]
Times = list[list[float]]
"""Of each test in turn: seconds by the clock, and of the processor."""


def main(rounds: int, others: list[Path]) -> None:
    print(f"{machine()}, n = {rounds}\n")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("conftest.py", CONFTEST), ("planned.py", PLANNER), ("test_lines.py", TEST)):
            Path(folder, name).write_text(text)
        session(folder, HERE, "--vnc-planner=planned:plan", "--vnc-record=auto")
        ways = {"here": HERE, **{str(other): other for other in others}}
        told = [
            {name: session(folder, way, "--vnc-record=replay") for name, way in ways.items()} for _ in range(rounds)
        ]
    print(head("median", "first test", "second test", "difference"))
    for name in ways:
        for clock, what in enumerate(("wall clock", "processor")):
            first, second = ([each[name][test][clock] for each in told] for test in (0, 1))
            differences = [one - other for one, other in zip(first, second, strict=True)]
            print(
                row(f"{name}, {what}", *(f"{statistics.median(each):.2f} s" for each in (first, second, differences)))
            )


def session(folder: str, source: Path, *options: str) -> Times:
    times = Path(folder, "times.jsonl")
    times.unlink(missing_ok=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), folder])}
    command = [sys.executable, "-m", "pytest", *OPTIONS, *options]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return [json.loads(line) for line in times.read_text().splitlines()]


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9, [Path(folder).resolve() for folder in sys.argv[2:]])
