"""A named recording, and two processes that use it at the same time."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from pytest_vnc_use.recordings import record
from pytest_vnc_use.recordings.named import NamedRecordings
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.recordings.store import Key, load
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Decision, KeyCombo, Observation, Proposal
from support.agents import agent_of
from support.paths import ROOT
from support.served_screen import served_screen

NAME, TASK = "press", "Press a key"


class Presses:
    """A planner that presses a key, and counts how often it was asked."""

    name = "presses"

    def __init__(self) -> None:
        self.asked = 0

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        self.asked += 1
        if observation.turns:
            return Decision("finished", "pressed")
        return Decision("act", proposals=(Proposal(KeyCombo(("a",))),))


def use_name(directory: Path, test: str, *, is_undone: bool = False) -> dict[str, int]:
    """Run a test that uses the name, in the mode `auto`; return how often its planner
    was asked, and how many files it wrote.
    """
    key = Key(directory / "test_it.py", f"test_it.py::{test}")
    planner = Presses()
    recorded_test = RecordedTest(
        key, "auto", redacts=False, named=NamedRecordings(directory)
    )
    with served_screen() as screen:
        settings = Settings(
            server=screen.address,
            runs_dir=str(directory / "runs"),
            watch=False,
            step_delay=0.0,
        )
        with agent_of(
            settings,
            planner=planner,
            recorded_test=recorded_test,
            test_id=f"test_it.py::{test}",
        ) as agent:
            agent.run(TASK, expect=None, recording=NAME)
            agent.end_body()
        if is_undone:
            recorded_test.discard()
            return {"asked": planner.asked, "written": 0}
        finished = recorded_test.finish(has_passed=True)
    assert finished.problem == ""
    return {"asked": planner.asked, "written": len(finished.written)}


def main(directory: Path, test: str, rounds: int) -> None:
    """Use the name each time that a line is read, and print what came of it."""
    record.STABLE_S = 0.0
    for _ in range(rounds):
        sys.stdin.readline()
        sys.stdout.write(f"{json.dumps(use_name(directory, test))}\n")
        sys.stdout.flush()


def read_line(process: Popen[str]) -> dict[str, int]:
    assert process.stdout
    line: dict[str, int] = json.loads(process.stdout.readline())
    return line


def test_discarded_attempt_writes_no_named_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "STABLE_S", 0.0)
    file = Key.of_name(NAME, tmp_path / "test_it.py", tmp_path).path
    use_name(tmp_path, "test_one", is_undone=True)
    assert not file.exists()
    assert use_name(tmp_path, "test_one")["written"] == 2
    assert file.exists()


@pytest.mark.slow
def test_two_processes_record_a_name_once(tmp_path: Path) -> None:
    use_at_once(tmp_path, 3)


def use_at_once(directory: Path, rounds: int) -> None:
    """Have two processes use the name at once, in turn without a recording and with
    one; so many rounds of each.
    """
    file = Key.of_name(NAME, directory / "test_it.py", directory).path
    code = (
        f"from recordings.test_named import main; from pathlib import Path;"
        f" main(Path({str(directory)!r}), {{!r}}, {2 * rounds})"
    )
    processes = [
        Popen(
            [sys.executable, "-c", code.format(test)],
            stdin=PIPE,
            stdout=PIPE,
            text=True,
            cwd=ROOT / "tests",
        )
        for test in ("test_one", "test_other")
    ]
    try:
        for number in range(2 * rounds):
            is_new = number % 2 == 0
            if is_new:
                for path in file.parent.glob("*"):
                    path.unlink()
            for process in processes:
                assert process.stdin
                process.stdin.write("\n")
                process.stdin.flush()
            asked = sorted(read_line(process)["asked"] for process in processes)
            assert asked == ([0, 2] if is_new else [0, 0]), f"round {number}"
            recording = load(file)
            assert recording
            assert [segment.task for segment in recording.segments] == [TASK]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
