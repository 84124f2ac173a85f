"""What is left of a recorded test at its end: the file that was written, or why none
was.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vnc_use.recordings import record
from pytest_vnc_use.recordings.record import Finished, RecordedTest
from pytest_vnc_use.recordings.store import Key, load
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Decision, KeyCombo, Observation, Proposal
from support.agents import agent_of
from support.served_screen import served_screen

TASK = "Press a key"
DONE = Decision("finished", "pressed")


class Presses:
    """A planner that presses a key, and then ends the run so."""

    name = "presses"

    def __init__(self, end: Decision) -> None:
        self._end = end

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        if observation.turns:
            return self._end
        return Decision("act", proposals=(Proposal(KeyCombo(("a",))),))


def finish(
    directory: Path,
    *,
    end: Decision = DONE,
    has_passed: bool = True,
    proposed_in: Path | None = None,
) -> Finished:
    """Run a test in the mode `auto`, whose recording is in a directory, to its end."""
    key = Key(directory / "test_it.py", "test_it")
    recorded_test = RecordedTest(key, "auto", redacts=False)
    with served_screen() as screen:
        settings = Settings(
            server=screen.address,
            runs_dir=str(directory / "runs"),
            watch=False,
            step_delay=0.0,
        )
        with agent_of(
            settings, planner=Presses(end), recorded_test=recorded_test
        ) as agent:
            agent.run(TASK, expect=None)
            agent.end_body()
    return recorded_test.finish(proposed_in, has_passed=has_passed)


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "STABLE_S", 0.0)


def test_finish_of_passed_test_writes_and_then_saves(tmp_path: Path) -> None:
    file = Key(tmp_path / "test_it.py", "test_it").path
    first = finish(tmp_path)
    assert (first.written, first.saved) == ((file,), None)
    recording = load(file)
    assert recording is not None
    (segment,) = recording.segments
    assert [step.action for step in segment.steps] == [KeyCombo(("a",))]
    again = finish(tmp_path)
    assert again.written == ()
    assert again.saved is not None


def test_finish_of_failed_test_writes_nothing(tmp_path: Path) -> None:
    assert finish(tmp_path, has_passed=False) == Finished()
    assert not Key(tmp_path / "test_it.py", "test_it").path.exists()


def test_finish_of_task_given_up_tells_why_unrecorded(tmp_path: Path) -> None:
    finished = finish(tmp_path, end=Decision("gave_up", "no idea"))
    assert finished.written == ()
    assert finished.unrecorded == (
        f"the task {TASK!r} ended as gave_up, and only a task that is done can be"
        " replayed"
    )


def test_finish_with_unwritable_directory_tells_problem(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    finished = finish(tmp_path, proposed_in=file)
    assert finished.written == ()
    assert str(file) in finished.problem
