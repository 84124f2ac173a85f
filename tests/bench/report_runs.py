"""Runs like those of the examples for the benchmark of the report, each with its own pixels.

One example is replayed on its desktop. Its frames, 1440x900, are given one of 16 tints, and the numbers of run and
step, so no two images of all runs are equal, and each is about as large as a real one.
"""

from __future__ import annotations

import hashlib
import itertools
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from pytest_vnc_use.backends.pixels import encode_png
from pytest_vnc_use.runs.directory import EndedTest, RunDirectory, read_trace, write_ended_test
from pytest_vnc_use.types import (
    Decision,
    Frame,
    FrameRef,
    Outcome,
    RunEnded,
    RunStarted,
    StepFinished,
    StepStarted,
    TurnDecided,
)
from support.paths import EXAMPLES

TEST = EXAMPLES / "test_shop.py"
NUMBER = np.s_[880:896, 8:136]
"""The part of the screen, at its lower left, that shows the numbers of the step and of the run as bits."""


class Example:
    """The frames and the actions of one example's run."""

    def __init__(self, directory: Path) -> None:
        options = ["-q", "-p", "no:cacheprovider", "-k", "order_is_placed", "--vnc-record=replay"]
        command = [sys.executable, "-m", "pytest", str(TEST), *options, f"--vnc-runs-dir={directory}"]
        subprocess.run(command, cwd=TEST.parents[1], check=True, stdout=subprocess.DEVNULL)
        runs = [read_trace(path.parent) for path in sorted(directory.glob("*/trace.jsonl"))]
        self._steps = [step for trace in runs for step in trace.steps]
        frames = [(trace.path, step.frame_before) for trace in runs for step in trace.steps]
        self._pixels = [_pixels(path / "screens" / f"{ref.digest}.png") for path, ref in frames]

    def write(self, runs_dir: Path, number: int, steps: int, *, is_bad: bool) -> Path:
        """Write a run of so many steps, tinted by its number, and the result of its test."""
        directory = RunDirectory.create(runs_dir, f"run-{number:04}")
        test = f"test_shop.py::test_{number}"
        frames = [self._frame(number, at) for at in range(steps + 1)]
        task = "Order the bread for Alice Liddell, Oxford Street 1, Oxford, by express, gift-wrapped"
        began = "2026-01-02T03:04:05+00:00"
        directory.append(RunStarted(directory.path.name, task, began, "recording", frames[0].ref, test_id=test))
        for at, (before, after) in enumerate(itertools.pairwise([directory.store(frame) for frame in frames]), start=1):
            like = self._steps[(at - 1) % len(self._steps)]
            step = replace(like, number=at, turn=at, frame_before=before, frame_after=after, passed=())
            directory.append(TurnDecided(at, Decision("act", step.words, (step.proposal,), "a-model"), 0.5))
            directory.append(StepStarted(at, at, step.proposal, step.ruling))
            directory.append(StepFinished(step))
        directory.append(RunEnded(Outcome.DONE, "the order is placed"))
        result = "failed" if is_bad else "passed"
        write_ended_test(
            directory.path, EndedTest(test, result, triage="product" if is_bad else "", seconds=steps * 1.0)
        )
        return directory.path

    def _frame(self, run: int, at: int) -> Frame:
        pixels = self._pixels[at % len(self._pixels)] ^ np.uint32((run * 0x010305) & 0x0F0F0F)
        bits = [(number >> place) & 1 for number in (at, run) for place in range(16)]
        pixels[NUMBER] = np.repeat(np.array(bits, np.uint32) * 0xFFFFFF, 4)
        png = encode_png(pixels)
        return Frame(FrameRef(hashlib.sha256(png).hexdigest(), *pixels.shape[::-1]), png)


def write_runs(example: Example, runs_dir: Path, count: int, steps: int, failing: int) -> Sequence[Path]:
    """Write so many runs; the first `failing` are of tests that failed."""
    return [example.write(runs_dir, number, steps, is_bad=number < failing) for number in range(count)]


def _pixels(path: Path) -> npt.NDArray[np.uint32]:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGBX")).view(np.uint32)[..., 0]
