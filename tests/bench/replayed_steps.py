"""What a replayed step costs beside the program's own reaction, and how much sooner a replay is: a table in Markdown.

    python tests/bench/run.py replayed_steps [ROUNDS] [--against CHECKOUT]

Programs on TigerVNC at 1440x900 are carried out once with a planner that takes 2 s a turn, as a model does, recorded,
and replayed ROUNDS (10 by default) times, each once it has come up. A step lasts from when its input begins until that
of the next one does. It is the input itself, whose hands wait for what a click does before they type there; the
program's reaction, until the last change arrives of what the next step waits for; and the cost, which is all the rest.
The last step is left out: none waits for its end. With `--against`, another checkout's package does the same, program
after program in turn with this one's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from ratios import head, machine, row

from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.recordings.gates import screen_at_rest
from pytest_vnc_use.types import DesktopAction, Wait
from support.programs_on_x import PROGRAMS, Desk

TREE = Path(__file__).parents[2]
SIZE = (1440, 900)
MODEL_S = 2.0


@dataclass(frozen=True)
class Acted:
    """The times of an action: its begin, its sending, and the last change of the screen before it that is not volatile.

    On the monotonic clock.
    """

    began_s: float
    sent_s: float
    changed_s: float


class Timed:
    """The port Controller: the desktop's eyes and hands, with a note of each action."""

    def __init__(self, hands: VNCController) -> None:
        self._hands = hands
        self.acted: list[Acted] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hands, name)

    def perform(self, action: DesktopAction) -> None:
        began_s, changed_s = time.monotonic(), self._changed_s()
        self._hands.perform(action)
        if not isinstance(action, Wait):  # which keeps two clicks apart
            self.acted.append(Acted(began_s, time.monotonic(), changed_s))

    def _changed_s(self) -> float:
        screen = self._hands._screen
        with screen._condition:
            return screen._activity.last_change_s(except_tiles=screen._moving())


@dataclass(frozen=True)
class Replayed:
    """The seconds of a run, and of each step but the last its input, its reaction and its cost."""

    run_s: float
    steps: list[tuple[float, float, float]]


def replayed(desk: Desk, name: str) -> Replayed:
    with desk.playing(name, "replay", seen_through=Timed) as driven:
        screen_at_rest(driven.agent.controller)
        began_s = time.monotonic()
        driven.run()
        run_s = time.monotonic() - began_s
        steps = []
        for acted, following in pairwise(driven.agent.controller.acted):  # type: ignore[attr-defined]  # Timed
            reacted_s = max(acted.sent_s, following.changed_s)
            steps.append((acted.sent_s - acted.began_s, reacted_s - acted.sent_s, following.began_s - reacted_s))
        return Replayed(run_s, steps)


def live_s(desk: Desk, name: str) -> float:
    with desk.playing(name, "off", thinks_s=MODEL_S) as driven:
        screen_at_rest(driven.agent.controller)
        began_s = time.monotonic()
        driven.run()
        return time.monotonic() - began_s


@dataclass(frozen=True)
class Measured:
    """Of one program: each step's kind, its input, reaction and cost (medians), and its largest cost; and whole runs.

    In seconds.
    """

    steps: list[tuple[str, float, float, float, float]]
    replayed_s: float
    live_s: float


def measured(name: str, rounds: int) -> Measured:
    """In this process, with the package that it imports."""
    with tempfile.TemporaryDirectory(prefix="steps-") as folder, Desk(Path(folder), SIZE) as desk:
        with desk.playing(name, "rewrite") as driven:
            driven.run()
            driven.recorded.keep()
        runs = [replayed(desk, name) for _ in range(rounds)]
        steps = []
        for step, times in zip(PROGRAMS[name].steps, zip(*(run.steps for run in runs), strict=True), strict=False):
            inputs, reactions, costs = zip(*times, strict=True)
            steps.append((step.kind, *map(statistics.median, (inputs, reactions, costs)), max(costs)))
        return Measured(steps, statistics.median(run.run_s for run in runs), live_s(desk, name))


def measured_by(tree: Path, name: str, rounds: int) -> Measured:
    """By the package and the script of that checkout, in a process of its own."""
    script = tree / Path(__file__).resolve().relative_to(TREE)
    ended = subprocess.run(
        [sys.executable, str(script), str(rounds), "--measure", name],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "tests")])},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Measured(**json.loads(ended.stdout.splitlines()[-1]))


def main(rounds: int, against: Path | None) -> None:
    trees = [tree for tree in (against, TREE) if tree]
    print(f"{machine()}, {SIZE[0]}×{SIZE[1]}, n = {rounds}, medians in ms\n")
    print(head("checkout", "program", "step", "input", "reaction", "cost", "largest cost"), flush=True)
    told = []
    for name in (name for name, program in PROGRAMS.items() if program.is_installed):
        both = [measured_by(tree, name, rounds) for tree in trees]
        for tree, found in zip(trees, both, strict=True):
            for number, (kind, *times) in enumerate(found.steps, 1):
                print(row(tree.name, name, f"{number} {kind}", *(f"{1000 * s:.0f}" for s in times)), flush=True)
            told.append((tree.name, name, *whole(found, both[0])))
    print("\n" + head("checkout", "program", f"live, {MODEL_S:g} s a turn", "replayed", "sooner", "longer than before"))
    for line in told:
        print(row(*line))


def whole(found: Measured, before: Measured) -> tuple[str, ...]:
    """Return the time of a whole run, and how much longer it is than before."""
    longer = "" if found is before else f"{found.replayed_s / before.replayed_s - 1:+.0%}"
    sooner = f"{found.live_s / found.replayed_s:.0f}×"
    return f"{found.live_s:.1f} s", f"{found.replayed_s:.2f} s", sooner, longer


if __name__ == "__main__":
    parser = argparse.ArgumentParser(allow_abbrev=False, usage=__doc__)
    parser.add_argument("rounds", type=int, nargs="?", default=10)
    parser.add_argument("--against", type=lambda path: Path(path).resolve())
    parser.add_argument("--measure", metavar="PROGRAM", help="this one alone, in this process, told as JSON")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(asdict(measured(given.measure, given.rounds))))
    else:
        main(given.rounds, given.against)
