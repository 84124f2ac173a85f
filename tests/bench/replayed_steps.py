"""What a replayed step costs beside the program's own reaction, and how much sooner a replay is: a table in Markdown.

    python tests/bench/run.py replayed_steps [ROUNDS]

Programs on TigerVNC at 1440x900 are carried out once with a planner that takes 2 s a turn, as a model does, recorded,
and replayed ROUNDS (10 by default) times, each once it has come up. A step lasts from when its input begins until that
of the next one does. It is the input itself, whose hands wait for what a click does before they type there; the
program's reaction, until the last change arrives of what the next step waits for; and the cost, which is all the rest.
The last step is left out: none waits for its end.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from programs_on_x import PROGRAMS, Desk
from ratios import head, machine, row

from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.recordings.record import screen_at_rest
from pytest_vnc_use.types import DesktopAction, Wait

SIZE = (1440, 900)
MODEL_S = 2.0


@dataclass(frozen=True)
class Acted:
    """When an action began and was sent, and when the screen had last changed before it, but for what moves by itself.

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
    """How long a run took, and of each step but the last its input, its reaction and its cost."""

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


def main(rounds: int) -> None:
    print(f"{machine()}, {SIZE[0]}×{SIZE[1]}, n = {rounds}, medians in ms\n")
    print(head("program", "step", "input", "reaction", "cost", "largest cost"), flush=True)
    told = []
    with tempfile.TemporaryDirectory(prefix="steps-") as folder, Desk(Path(folder), SIZE) as desk:
        for name, program in PROGRAMS.items():
            if not program.is_installed:
                continue
            with desk.playing(name, "rewrite") as driven:
                driven.run()
                driven.recorded.keep()
            runs = [replayed(desk, name) for _ in range(rounds)]
            for number, times in enumerate(zip(*(run.steps for run in runs), strict=True)):
                inputs, reactions, costs = zip(*times, strict=True)
                figures = (*map(statistics.median, (inputs, reactions, costs)), max(costs))
                step = f"{number + 1} {program.steps[number].kind}"
                print(row(name, step, *(f"{1000 * s:.0f}" for s in figures)), flush=True)
            live, replay = live_s(desk, name), statistics.median(run.run_s for run in runs)
            told.append((name, len(program.steps), f"{live:.1f} s", f"{replay:.2f} s", f"{live / replay:.0f}×"))
    print("\n" + head("program", "steps", f"live, {MODEL_S:g} s a turn", "replayed", "sooner"))
    for line in told:
        print(row(*line))


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 10)
