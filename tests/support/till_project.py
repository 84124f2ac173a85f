"""A directory with one test on the till, and its planner. Pytest runs in it as a user
would run it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from support.forked_python import ForkedPython, run_python
from support.pad_sessions import QUIET
from support.tills import TILL

TASK = '@pytest.mark.vnc_task("Enter alice, add two apples and pay", expect=None)\n'
TEST = f"""
import pytest

{TASK}def test_till(vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == "alice pays 5.00"
"""
PLANS = """
import pathlib, pytest
from pytest_vnc_use.planners.local.scripted import AT_ITS_END, ScriptedPlanner
from pytest_vnc_use.types import Click, TypeText

NAME, ADD, MOVED, PAY = TypeText("alice", 200, 60), Click(140, 224), Click(240, 224), Click(380, 224)

def next_turn(observation):
    with pathlib.Path("asked.txt").open("a") as asked:
        print("asked", file=asked)
    healing = "performed already" in observation.task
    steps = [MOVED, MOVED, PAY] if healing else [NAME, ADD, ADD, PAY]
    number = len(observation.turns)
    return [steps[number]] if number < len(steps) else AT_ITS_END

@pytest.fixture
def vnc_planner():
    return ScriptedPlanner(next_turn)
"""


@dataclass
class Ended:
    code: int
    out: str


@dataclass
class Project:
    """A directory with tests. `file` is the recording of the only test."""

    path: Path

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text, encoding="utf-8")

    @property
    def file(self) -> Path:
        return self.file_of("test_till")

    def file_of(self, name: str) -> Path:
        """Return the recording of a test of the same file."""
        return self.path / "__vnc_recordings__" / "test_till" / name / "recording.json"

    def copy_recording(self, name: str) -> None:
        shutil.copytree(self.file.parent, self.file_of(name).parent)

    @property
    def asked(self) -> int:
        asked = self.path / "asked.txt"
        return asked.read_text().count("\n") if asked.exists() else 0

    def run(self, *options: str, till: str = "", ci: str = "") -> Ended:
        app = f"{shlex.quote(sys.executable)} {shlex.quote(str(TILL))} {till}"
        desktop = ["--vnc-server=qt", f"--vnc-app={app}", "--vnc-screen-size=800x400"]
        env = {"VNC_USE_REHEARSE": "0", **os.environ, "CI": ci}
        done = run_python(
            "pytest", *QUIET, *desktop, *options, cwd=self.path, env=env, timeout=400
        )
        return Ended(done.returncode, done.stdout + done.stderr)


def project_in(path: Path) -> Project:
    made = Project(path)
    made.write("pytest.ini", "[pytest]\n")
    made.write("test_till.py", TEST)
    made.write("conftest.py", PLANS)
    return made


@dataclass
class Reviewed(Ended):
    """With the text of each question."""

    questions: list[str]


def review(
    directory: Path,
    answers: Iterable[str | Callable[[ForkedPython], object]],
    *arguments: str,
) -> Reviewed:
    """Run pytest with --vnc-record=accept. An answer is what is typed, or a function of
    the process.
    """
    master, slave = os.openpty()
    command = ["pytest", *QUIET, "--vnc-record=accept", *arguments]
    environment = {**os.environ, "VNC_USE_REHEARSE": "0", "CI": ""}
    due = iter(answers)
    lines = []
    questions = []
    start = 0
    process = ForkedPython(*command, cwd=directory, env=environment, stdin=slave)
    assert process.stdout
    try:
        for line in process.stdout:
            lines.append(line)
            if "anything else: no" in line:
                questions.append("".join(lines[start:]))
                start = len(lines)
                answer = next(due, "n\n")
                if isinstance(answer, str):
                    os.write(master, answer.encode())
                else:
                    answer(process)
        code = process.wait(240)
    finally:
        process.kill()
        process.stdout.close()
        os.close(slave)
        os.close(master)
    return Reviewed(code, "".join(lines), questions)
