"""How many functions of the package a session with one replayed test executes: a line for each package.

    python tests/bench/run.py executed

The test types a line into xterm on TigerVNC. It is recorded with a judge, then replayed without one while
`sys.setprofile` notes each function, in every thread of pytest's process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from ratios import head, machine, row

CONFTEST = """
import json, os, sys, threading
from pathlib import Path
import pytest
import pytest_vnc_use

ROOT, EXECUTED = str(Path(pytest_vnc_use.__file__).parent), set()

def note(frame, event, arg):
    code = frame.f_code
    if event == "call" and code.co_flags & 1 and code.co_filename.startswith(ROOT) and code.co_name[0] != "<":
        EXECUTED.add((code.co_filename[len(ROOT) + 1:], code.co_firstlineno))

if "EXECUTED" in os.environ:
    threading.setprofile(note)
    sys.setprofile(note)

def pytest_unconfigure(config):
    sys.setprofile(None)
    if "EXECUTED" in os.environ:
        Path(os.environ["EXECUTED"]).write_text(json.dumps(sorted(EXECUTED)))

class Judge:
    def judge(self, claim, frame, *, timeout_s, report):
        from pytest_vnc_use.types import Verdict
        return Verdict(claim, "holds", "it is there", frame=frame.ref)

@pytest.fixture
def vnc_judge():
    return None if "EXECUTED" in os.environ else Judge()
"""
PLANNED = """
from pytest_vnc_use.planners import finish
from pytest_vnc_use.types import TypeText

def plan(observation):
    return finish() if observation.turns else TypeText("a line", press_enter=True)
"""
TEST = """
import pytest

@pytest.mark.vnc_task("Type a line", expect="a line is typed")
def test_line(vnc_desktop):
    assert vnc_desktop.read_file("typed.txt") == "a line\\n"
"""
OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:pytest-vnc", "--vnc-server=xvnc", "--vnc-planner=planned:plan"]
APP = "--vnc-app=xterm -e 'cat > typed.txt'"


def session(directory: Path, *options: str, **environment: str) -> None:
    command = [sys.executable, "-m", "pytest", *OPTIONS, APP, *options]
    subprocess.run(command, cwd=directory, env={**os.environ, "PYTHONPATH": str(directory), **environment}, check=True)


def main() -> None:
    print(f"{machine()}\n", flush=True)
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        for name, text in (("conftest.py", CONFTEST), ("planned.py", PLANNED), ("test_line.py", TEST)):
            (directory / name).write_text(text, "utf-8")
        session(directory, "--vnc-record=rewrite", "-ovnc_rehearse=0")
        session(directory, "--vnc-record=replay", EXECUTED=str(directory / "executed.json"))
        executed = json.loads((directory / "executed.json").read_text())
    packages = Counter(Path(file).parts[0] for file, _ in executed)
    print(head("package", "functions"))
    print(*(row(name, count) for name, count in packages.most_common()), sep="\n")
    print(f"\n{len(executed)} functions in {len({file for file, _ in executed})} files")


if __name__ == "__main__":
    main()
