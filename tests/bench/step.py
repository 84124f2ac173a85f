"""A whole step without a model against the way of other agents on vncdotool: a table in Markdown. Run as a script:

    python tests/bench/run.py step [ROUNDS]

A step is a click that changes the page at once, the wait for that, the image as PNG, and its file in the run directory.
The others click, sleep (mayflower/vnc-use, as of its newest version, does not), `captureScreen` to a temporary file,
read it, look at its size, and write it. Each way in turn, ROUNDS (10 by default) times; an image is right if it shows
what the page shows in the end. A sleep of 1 s was the shortest that is right in every scenario of settling.
"""

from __future__ import annotations

import io
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from desktop_page import desktop_page
from peers import vncdotool_client
from PIL import Image
from ratios import head, machine, row

from pytest_vnc_use.agent.act import Actor
from pytest_vnc_use.backends.screen import SettleRules
from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.deadline import Deadline
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.types import Click, Proposal, Ruling, Step

SIZE = (1440, 900)
POINT = (300, 700)
HEADING = np.s_[140:260, :700]
SHORT = SettleRules(first_change_s=0.3, quiet_s=0.1)
OURS = "ours"

Act = Callable[[], bytes]
"""Click, and return the image that was written."""


@dataclass
class Result:
    times_s: list[float] = field(default_factory=list)
    right: int = 0


def main(rounds: int) -> None:
    results = measured(rounds)
    ours_s = statistics.median(results[OURS].times_s)
    print(f"{machine()}, {SIZE[0]}×{SIZE[1]}, n = {rounds}, medians\n")
    print(head("a whole step without a model", "ms", "times ours", "images that show the answer"))
    for name, result in results.items():
        median_s = statistics.median(result.times_s)
        print(row(name, f"{median_s * 1000:.0f}", f"{median_s / ours_s:.1f}×", f"{result.right} of {rounds}"))


def measured(rounds: int) -> dict[str, Result]:
    with desktop_page(SIZE) as server, ExitStack() as stack, tempfile.TemporaryDirectory() as directory:
        runs = Path(directory)
        eyes = stack.enter_context(closing(connect(server.address, encoding="raw")))
        hasty = stack.enter_context(closing(connect(server.address, settle_rules=SHORT, encoding="raw")))
        client = stack.enter_context(vncdotool_client(server.address))
        ways: dict[str, Act] = {
            OURS: our_way(eyes, RunDirectory.create(runs, "ours")),
            "ours, as short as with a model that thinks meanwhile": our_way(hasty, RunDirectory.create(runs, "short")),
            "vncdotool, no sleep": partial(others_way, client, 0.0, runs),
            "vncdotool, sleep 0.5 s": partial(others_way, client, 0.5, runs),
            "vncdotool, sleep 1 s": partial(others_way, client, 1.0, runs),
        }
        results = {name: Result() for name in ways}
        for _ in range(rounds):
            for name, act in ways.items():
                take_turn(act, eyes, results[name])
        return results


def take_turn(act: Act, eyes: VNCController, result: Result) -> None:
    began_s = time.perf_counter()
    image = act()
    result.times_s.append(time.perf_counter() - began_s)
    eyes.wait(0.5)
    result.right += np.array_equal(heading(image), heading(eyes.frame().png))


def heading(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))[HEADING]


def our_way(controller: VNCController, directory: RunDirectory) -> Act:
    actor = Actor(controller, directory, {}, str)
    before = actor.first_look()
    step = Step(1, 1, Proposal(Click(*POINT)), Ruling("allow", ""), before, before)
    return lambda: directory.load_png(actor.carry_out(step, Deadline(60)).frame_after)


def others_way(client: Any, sleep_s: float, directory: Path) -> bytes:
    client.mouseMove(*POINT)
    client.mousePress(1)
    time.sleep(sleep_s)
    draft = directory / "draft.png"
    client.captureScreen(str(draft))
    png = draft.read_bytes()
    Image.open(io.BytesIO(png)).size  # noqa: B018  # they ask for it
    draft.unlink()
    (directory / f"step-{time.monotonic_ns()}.png").write_bytes(png)
    return png


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
