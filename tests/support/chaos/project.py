"""The twenty tests: ten are replayed, ten live, and of both four have a program that is broken in a known way."""

from __future__ import annotations

import json
import math
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from support.gemini_server import API_KEY

PROGRAM = Path(__file__).with_name("order.sh")
NUMBERS = {"replayed": range(1, 11), "live": range(11, 21)}
IDS = {f"test_{name}.py::test_{number:02}": number for name, some in NUMBERS.items() for number in some}
"""The number of each test by its id."""
FAULTS = ("total", "file", "effect", "shown")
BROKEN = {first + offset: fault for first in (3, 13) for offset, fault in zip(range(0, 8, 2), FAULTS, strict=True)}
"""The fault of each test whose program is broken; `shown` is seen by a claim or a gate alone."""
CLAIMED = (11, 12, 19)
"""Live tests with a claim besides the body."""
INI = """[pytest]
addopts = -p no:cacheprovider -p no:pytest-vnc
vnc_max_seconds = 20
vnc_gate_seconds = 5
vnc_start_seconds = 15
vnc_lease_seconds = 40
vnc_request_seconds = 4
vnc_record = replay
"""
"""`vnc_record` on the command line would overrule the markers of live tests."""
LONGEST_TEST_S = 100.0
"""More than all limits together that one test may run into: lease, start, connection, run, claims, end."""
TEST = """
import pytest

@pytest.mark.vnc_task("Order 20 apples for alice", app={app!r}, {record} expect={expect!r})
def test_{number:02}(vnc_desktop):
    assert vnc_desktop.read_file("total.txt").strip() == "{number:02}: alice pays 500"
"""
NOTES = """
import json, os, time

def note(test, word):
    if "PYTEST_XDIST_WORKER" in os.environ:
        with open("times.jsonl", "a") as file:
            file.write(json.dumps([test, word, time.monotonic()]) + "\\n")

def pytest_runtest_logstart(nodeid):
    note(nodeid, "started")

def pytest_runtest_logfinish(nodeid):
    note(nodeid, "ended")
"""
"""A conftest.py: each worker notes when a test starts and ends, by a clock that is never moved."""


@dataclass(frozen=True)
class Project:
    """A directory with the tests. `runs` is where the run directories go."""

    path: Path
    runs: Path
    broken: Path

    @property
    def results(self) -> Path:
        return self.path / "results.json"

    def forget(self) -> None:
        shutil.rmtree(self.runs, ignore_errors=True)
        for file in (self.results, self.path / "times.jsonl"):
            file.unlink(missing_ok=True)

    def times(self) -> dict[str, list[tuple[float, float]]]:
        """Return when each test ran, from and to; to infinity where its worker was killed in it."""
        found: dict[str, list[tuple[float, float]]] = {}
        path = self.path / "times.jsonl"
        for test, word, at_s in map(json.loads, path.read_text().splitlines() if path.exists() else ()):
            times = found.setdefault(test, [])
            if word == "started":
                times.append((at_s, math.inf))
            else:
                times[-1] = times[-1][0], at_s
        return found

    def write(self) -> None:
        """Write the tests; the programs are not broken yet, so that recordings can be made."""
        self.path.mkdir()
        (self.path / "pytest.ini").write_text(INI)
        (self.path / "conftest.py").write_text(NOTES)
        for name, numbers in NUMBERS.items():
            (self.path / f"test_{name}.py").write_text("".join(map(self._test, numbers)))

    def break_programs(self) -> None:
        for number, fault in BROKEN.items():
            (self.broken / f"{number:02}").write_text(fault)

    def command(self, *options: str) -> list[str]:
        own = ["--vnc-planner=gemini", "--vnc-server=xvnc", "--vnc-screen-size=640x400"]
        own += [f"--vnc-runs-dir={self.runs}", f"--vnc-results={self.results}"]
        return [sys.executable, "-m", "pytest", *own, *options]

    def _test(self, number: int) -> str:
        record = 'record="off",' if number in NUMBERS["live"] else ""
        expect = f"order {number:02}: alice pays 500" if number in CLAIMED else None
        words = ["sh", str(PROGRAM), f"{number:02}", str(self.broken)]
        app = shlex.join(["xterm", "-geometry", "70x20+40+40", "-e", *words])
        return TEST.format(number=number, app=app, record=record, expect=expect)


def environment(model_url: str) -> dict[str, str]:
    own = {"GOOGLE_API_KEY": API_KEY, "GOOGLE_GEMINI_BASE_URL": model_url, "VNC_USE_WATCH": "false"}
    return {**own, "VNC_USE_REHEARSE": "0", "CI": "", "PYTHONUNBUFFERED": "1"}
