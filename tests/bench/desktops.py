"""Tests that mostly wait for a model, on eight desktops at once, beside one after
the other: a table in Markdown.

    python tests/bench/run.py desktops [TURNS [DESKTOPS]]

Each test types TURNS (14 by default) lines into an xterm on a new TigerVNC desktop, a
line a turn, by a function that takes 2 s to decide, as a model does. A session is
measured whole: one of one process, one of DESKTOPS (8 by default) workers of
pytest-xdist. Beside them are the same sessions of tests that only wait as long, without
the plugin: its ratio is what pytest-xdist leaves.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from ratios import head, machine, row, timed_session

WAITS = """
import threading

import pytest


@pytest.mark.parametrize("number", range({desktops}))
def test_wait(number):
    for _ in range({turns} + 1):
        threading.Event().wait(2.0)
"""
TYPES = """
import threading

import pytest

from pytest_vnc_use.planners import finish
from pytest_vnc_use.types import TypeText


def plan(observation):
    threading.Event().wait(2.0)
    number = len(observation.turns)
    return TypeText(f"line {{number}}\\n") if number < {turns} else finish()


@pytest.fixture
def vnc_planner():
    return plan


@pytest.mark.parametrize("number", range({desktops}))
@pytest.mark.vnc_task("Type some lines", expect=None)
def test_lines(vnc_desktop, number):
    assert len(vnc_desktop.read_file("typed.txt").splitlines()) == {turns}
"""
OPTIONS = (
    "--vnc-server=xvnc",
    "--vnc-app=xterm -e 'cat > typed.txt'",
    "--vnc-record=off",
)
WAYS = {
    "wait only": ("test_wait.py", WAITS, ("-p", "no:vnc_use")),
    "ours": ("test_lines.py", TYPES, OPTIONS),
}


def main(turns: int = 14, desktops: int = 8) -> None:
    with tempfile.TemporaryDirectory(prefix="desktops-") as made:
        directory = Path(made)
        print(f"{machine()}, {desktops} tests of {turns} steps: s (processor s)\n")
        print(head("tests", "one by one", f"{desktops} at once", "times as fast"))
        for name, (file, text, options) in WAYS.items():
            written = text.format(turns=turns, desktops=desktops)
            (directory / file).write_text(written)
            times = [
                timed_session(directory, desktops, *workers, *options, file)
                for workers in ((), (f"-n{desktops}",))
            ]
            cells = [f"{took_s:.1f} ({used_s:.1f})" for took_s, used_s in times]
            (one_s, _), (eight_s, _) = times
            print(row(name, *cells, f"{one_s / eight_s:.1f}"), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
