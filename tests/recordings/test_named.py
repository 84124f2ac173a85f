"""A named recording, and two processes that use it at the same time."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from pytest_vnc_use.recordings import record
from pytest_vnc_use.recordings.format import Recording
from pytest_vnc_use.recordings.named import NamedRecordings
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.recordings.store import Key, load, writer_lock
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Decision, KeyCombo, Observation, Proposal
from support.agents import agent_of
from support.paths import ROOT
from support.served_screen import served_screen

NAME = "press"
TASK = "Press a key"


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


@contextmanager
def using(
    named: NamedRecordings, test: str, planner: Presses
) -> Iterator[RecordedTest]:
    """Run a test that uses the name, in the mode `auto`, up to the end of its body."""
    directory = named.root
    key = Key(directory / "test_it.py", f"test_it.py::{test}")
    recorded_test = RecordedTest(key, "auto", redacts=False, named=named)
    with served_screen() as screen:
        settings = Settings(
            server=screen.address,
            runs_dir=str(directory / "runs"),
            watch=False,
            step_delay=0.0,
        )
        with agent_of(
            settings, planner=planner, recorded_test=recorded_test, test_id=key.test
        ) as agent:
            agent.run(TASK, expect=None, recording=NAME)
            agent.end_body()
        yield recorded_test


def use_name(directory: Path, test: str) -> dict[str, int]:
    """Run a test that uses the name to its end; return how often its planner was asked,
    and how many files it wrote.
    """
    planner = Presses()
    with using(NamedRecordings(directory), test, planner) as recorded_test:
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
    with using(NamedRecordings(tmp_path), "test_one", Presses()) as recorded_test:
        recorded_test.discard()
    assert not file.exists()
    assert use_name(tmp_path, "test_one")["written"] == 2
    assert file.exists()


class RecordedMeanwhile(NamedRecordings):
    """Named recordings of which the first look finds none: another process makes it."""

    looks = 0

    def load(self, key: Key) -> Recording | None:
        RecordedMeanwhile.looks += 1
        return None if RecordedMeanwhile.looks == 1 else super().load(key)


def test_process_that_waited_lets_next_one_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "STABLE_S", 0.0)
    use_name(tmp_path, "test_one")
    planner = Presses()
    with using(RecordedMeanwhile(tmp_path), "test_other", planner) as recorded_test:
        assert planner.asked == 0
        path = Key.of_name(NAME, tmp_path / "test_it.py", tmp_path).path
        with writer_lock(path).acquire(timeout=0):
            pass
        recorded_test.finish(has_passed=True)


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
