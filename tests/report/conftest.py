"""Run directories as a run leaves them, of frames that are plainly painted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from PIL import Image

from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.types import (
    Action,
    Decision,
    Frame,
    Proposal,
    Ruling,
    RunEnded,
    RunEvent,
    RunStarted,
    Step,
    StepFinished,
    TurnDecided,
    Usage,
)
from support.images import frame_of

HARMLESS = Ruling("allow", "harmless")


@pytest.fixture
def paint() -> Callable[..., Frame]:
    """`paint(colour, size)`: a frame of one colour."""

    def paint(colour: str, size: tuple[int, int] = (320, 200)) -> Frame:
        return frame_of(Image.new("RGB", size, colour))

    return paint


@pytest.fixture
def frames(paint: Callable[..., Frame]) -> list[Frame]:
    return [paint("white"), paint("black"), paint("teal")]


@pytest.fixture
def make_step(frames: list[Frame]) -> Callable[..., Step]:
    """`make_step(number, action, intent, **more)`: a turn's only step, from the first
    frame to the second.
    """

    def make_step(
        number: int, action: Action, intent: str = "", **more: object
    ) -> Step:
        ruling = more.pop("ruling", HARMLESS)
        values = {"frame_before": frames[0].ref, "frame_after": frames[1].ref, **more}
        return Step(number, number, Proposal(action, intent), ruling, **values)

    return make_step


@pytest.fixture
def unrecorded(tmp_path: Path) -> Path:
    """The directory of a run that was to be replayed, and has no recording."""
    directory = RunDirectory.create(tmp_path / "runs", "run-0")
    error = (
        "RecordingError: there is no recording of 't.py::test_a' at 'here/a.json': run"
        " it with --vnc-record=auto"
    )
    directory.append(RunEnded(None, "the run failed", error))
    return directory.path


@pytest.fixture
def write_run(tmp_path: Path, frames: list[Frame]) -> Callable[..., Path]:
    """`write_run(steps, end, …)`: the directory of a run, ended unless `end` is None.

    Events of `first` come before the steps, `events` after them.
    """

    def write_run(
        steps: Sequence[Step] = (),
        end: RunEnded | None = None,
        *,
        task: str = "Open the basket",
        planner: str = "scripted",
        model: str = "",
        usage: Usage = Usage(),  # noqa: B008  a frozen value
        first: Sequence[RunEvent] = (),
        events: Sequence[RunEvent] = (),
    ) -> Path:
        directory = RunDirectory.create(tmp_path / "runs", "run-1")
        for frame in frames:
            directory.store(frame)
        started = RunStarted(
            "run-1",
            task,
            "2026-01-02T03:04:05+00:00",
            planner,
            frames[0].ref,
            "localhost::5901",
        )
        all_events = [started, *first]
        for step in steps:
            decision = Decision("act", "", (step.proposal,), model, usage)
            all_events += [TurnDecided(step.turn, decision, 1.5), StepFinished(step)]
        all_events += events
        if end:
            all_events.append(end)
        for event in all_events:
            directory.append(event)
        return directory.path

    return write_run
