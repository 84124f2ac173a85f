"""The memory of a long replay: a table in Markdown.

    python tests/bench/run.py replay_memory [STEPS]

STEPS (300 by default) times enter is pressed in a terminal on TigerVNC at 1440x900, which then shows other numbers;
that is recorded by another process, with a watch that is cut short, and replayed. Told is the resident memory of the
process that replays, compares and writes the run folder.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil
from ratios import head, machine, row

from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.recordings import gates
from pytest_vnc_use.types import DesktopAction, KeyCombo
from support.programs_on_x import Desk, Driven, in_terminal

SIZE = (1440, 900)
COUNTING = in_terminal("n=0; while read line; do n=$((n + 1)); seq $n $((n + 20)); done")


class Weighed:
    """The port Controller: the desktop's eyes and hands, with the memory as each action began, in MB."""

    def __init__(self, hands: VNCController) -> None:
        self._hands = hands
        self.sizes_mb: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hands, name)

    def perform(self, action: DesktopAction) -> None:
        self.sizes_mb.append(psutil.Process().memory_info().rss / 2**20)
        self._hands.perform(action)


def run(driven: Driven, steps: int) -> None:
    driven.agent.settings = replace(driven.agent.settings, max_steps=steps + 1, max_seconds=10.0 * steps)
    driven.run()


def recorded(folder: Path, steps: int) -> None:
    gates.QUIET_S = 0.1
    keys = [KeyCombo(("enter",))] * steps
    with Desk(folder, SIZE) as desk, desk.driven("count", COUNTING, "rewrite", keys) as driven:
        run(driven, steps)
        driven.recorded.keep()


def main(steps: int) -> None:
    with tempfile.TemporaryDirectory(prefix="memory-") as made:
        folder = Path(made)
        with ProcessPoolExecutor(1, get_context("spawn")) as other:
            other.submit(recorded, folder, steps).result()
        with Desk(folder, SIZE) as desk, desk.driven("count", COUNTING, "replay", seen_through=Weighed) as driven:
            run(driven, steps)
            sizes_mb = driven.agent.controller.sizes_mb  # type: ignore[attr-defined]  # Weighed
    print(f"{machine()}, {SIZE[0]}×{SIZE[1]}\n")
    print(head("before step", "resident MB"))
    for mark in sorted({1, *(mark for mark in (10, 50, 100, 200) if mark < steps), steps}):
        print(row(mark, f"{sizes_mb[mark - 1]:.0f}"))


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 300)
