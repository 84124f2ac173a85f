"""The segment that is built of a run's events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_vnc_use.recordings import build
from pytest_vnc_use.recordings.build import SegmentBuilder
from pytest_vnc_use.recordings.format import Screen
from pytest_vnc_use.recordings.images import frame_of
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.types import (
    Click,
    FrameRef,
    Proposal,
    Ruling,
    Step,
    StepFinished,
    StepStarted,
)
from support.images import drawn

ALLOWED = Ruling("allow", "harmless")


class Clock:
    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


def test_duration_counts_from_step_that_succeeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(build, "clock", clock)
    directory = RunDirectory.create(tmp_path, "run")
    screen = Screen(pixels=lambda: np.full((200, 320), 0xFFFFFF, np.uint32))
    builder = SegmentBuilder("Click", "steps", directory, lambda _: screen)
    still = directory.store(frame_of(screen.pixels()))
    toast = directory.store(frame_of(drawn("saved")))

    def step(number: int, at_s: float, error: str = "", *passed: FrameRef) -> None:
        clock.now_s = at_s
        proposal = Proposal(Click(number, 10))
        builder.observe(StepStarted(number, number, proposal, ALLOWED))
        done = Step(number, number, proposal, ALLOWED, still, still, error=error)
        builder.observe(StepFinished(replace(done, transient_frames=passed)))

    step(1, 10.0, "", toast)
    step(2, 12.0, "the pointer left the screen")
    step(3, 16.0)
    clock.now_s = 17.0
    segment = builder.complete()
    assert [step.duration_s for step in segment.steps] == [6.0, 0.0]
