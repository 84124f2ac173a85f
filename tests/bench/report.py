"""The report's bytes, time to write and time to open in Chromium, beside the bounds of each.

    python tests/bench/run.py report [--runs 200]

Runs of 10 steps, 1440x900, one in 20 of a failed test. Their frames are those of an example, each with its own tint and
number, so that no two images are equal. Opened is the time until Chromium has painted two frames, the median of five.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from playwright.sync_api import sync_playwright
from ratios import head, machine, row

from pytest_vnc_use import types as t
from pytest_vnc_use.backends.pixels import encode_png
from pytest_vnc_use.report.pages import write_report
from pytest_vnc_use.runs.directory import FinishedTest, RunDirectory, read_trace, write_finished_test
from support.paths import EXAMPLES

MB, STEPS, ROUNDS = 1_000_000, 10, 5
FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
NUMBER = np.s_[880:896, 8:136]
"""The region of the screen, at its lower left, that shows the numbers of the step and of the run as bits."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="report")
    parser.add_argument("--runs", type=int, default=200)
    count = parser.parse_args(arguments).runs
    with tempfile.TemporaryDirectory(prefix="report-") as name, sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        assert chromium, "needs Chromium: apt-get install chromium"
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])
        directory, runs = Path(name), Path(name, "runs")
        write_runs(directory / "example", runs, count)
        print(f"{machine()}\n\n{count} runs of {STEPS} steps, their images {megabytes(runs):.0f} MB\n")
        print(head("", "measured", "bound"), flush=True)
        for about, target in (
            ("beside the runs", runs),
            ("a directory", directory / "pages"),
            ("one file", directory / "one"),
        ):
            times = written(runs, target, one_file=target.name == "one")
            print(row(f"{about}: written, a step", times, "10 ms" if target == runs else "60 ms"), flush=True)
            if target != runs:
                print(row("  size", f"{megabytes(target):.1f} MB", f"{0.2 * count:.0f} MB"))
            print(row("  opened", f"{opened(browser, target / 'index.html'):.2f} s", "1 s"), flush=True)
        browser.close()
    return 0


def megabytes(path: Path) -> float:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / MB


def written(runs: Path, target: Path, *, one_file: bool) -> str:
    """Write the report as the command does; return the time of a step, by the clock and of the processor."""
    paths = sorted(path.parent for path in runs.glob("*/trace.jsonl"))
    began_s, busy_s = time.perf_counter(), time.process_time()
    write_report(paths, target, one_file=one_file)
    times = time.perf_counter() - began_s, time.process_time() - busy_s
    took_ms, busy_ms = (1000 * seconds / len(paths) / STEPS for seconds in times)
    return f"{took_ms:.1f} ms, {busy_ms:.1f} ms of the processor"


def opened(browser: Any, page: Path) -> float:
    times_s = []
    for _ in range(ROUNDS):
        context = browser.new_context(viewport={"width": 1280, "height": 720})
        tab = context.new_page()
        tab.set_default_timeout(120_000)
        began_s = time.perf_counter()
        tab.goto(page.as_uri())
        tab.evaluate(FRAMES)
        times_s.append(time.perf_counter() - began_s)
        context.close()
    return statistics.median(times_s)


def write_runs(example: Path, runs_dir: Path, count: int) -> None:
    test = EXAMPLES / "test_shop.py"
    options = ["-q", "-p", "no:cacheprovider", "-k", "order_is_placed", "--vnc-record=replay"]
    command = [sys.executable, "-m", "pytest", str(test), *options, f"--vnc-runs-dir={example}"]
    subprocess.run(command, cwd=test.parents[1], check=True, stdout=subprocess.DEVNULL)
    traces = [read_trace(path.parent) for path in sorted(example.glob("*/trace.jsonl"))]
    steps = [step for trace in traces for step in trace.steps]
    files = [trace.path / "screens" / f"{step.frame_before.digest}.png" for trace in traces for step in trace.steps]
    screens = [np.asarray(Image.open(file).convert("RGBX")).view(np.uint32)[..., 0] for file in files]
    for number in range(count):
        write_run(runs_dir, number, steps, [tinted(screens[at % len(screens)], number, at) for at in range(STEPS + 1)])


def tinted(screen: npt.NDArray[np.uint32], run: int, at: int) -> t.Frame:
    pixels = screen ^ np.uint32((run * 0x010305) & 0x0F0F0F)
    bits = [(number >> place) & 1 for number in (at, run) for place in range(16)]
    pixels[NUMBER] = np.repeat(np.array(bits, np.uint32) * 0xFFFFFF, 4)
    png = encode_png(pixels)
    return t.Frame(t.FrameRef(hashlib.sha256(png).hexdigest(), *pixels.shape[::-1]), png)


def write_run(runs_dir: Path, number: int, steps: Sequence[t.Step], frames: Sequence[t.Frame]) -> None:
    directory = RunDirectory.create(runs_dir, f"run-{number:04}")
    test, started_at = f"test_shop.py::test_{number}", "2026-01-02T03:04:05+00:00"
    task = "Order the bread for Alice Liddell, Oxford Street 1, Oxford, by express, gift-wrapped"
    directory.append(t.RunStarted(directory.path.name, task, started_at, "recording", frames[0].ref, test_id=test))
    refs = [directory.store(frame) for frame in frames]
    for at, (before, after) in enumerate(itertools.pairwise(refs), start=1):
        like = steps[(at - 1) % len(steps)]
        step = replace(like, number=at, turn=at, frame_before=before, frame_after=after, passed=())
        directory.append(t.TurnDecided(at, t.Decision("act", step.words, (step.proposal,), "a-model"), 0.5))
        directory.append(t.StepStarted(at, at, step.proposal, step.ruling))
        directory.append(t.StepFinished(step))
    directory.append(t.RunEnded(t.Outcome.DONE, "the order is placed"))
    bad = number % 20 == 0
    ended = FinishedTest(test, "failed" if bad else "passed", triage="product" if bad else "", seconds=10.0)
    write_finished_test(directory.path, ended)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
