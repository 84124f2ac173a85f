"""The screenshot that a planner gets after an action: whether it shows the end of the
program's reaction, and how late it comes. Tables in Markdown.

    python tests/bench/run.py settling [TRIALS [SCENARIO …]]

Twenty scenarios in Chromium, xterm and GTK, each on a new desktop, TRIALS (1 by
default) times. Right is a screenshot that shows what the screen shows 2.5 s after the
action, but for a caret and for what always moves. Late is the time from the last change
until the planner is asked. A `model` thinks for a second, and is asked again if the
screen changes meanwhile; a `function` answers at once, so the agent waits longer before
it asks. Beside them are fixed sleeps after the same actions: a driver that does not
watch the screen needs the shortest that is always right. The floor is to ask at the
last change itself.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import mean, median
from threading import Thread

import numpy as np
from ratios import head, machine, milliseconds, row
from settling_scenarios import SCENARIOS, SIZE, Scenario

from pytest_vnc_use import Outcome
from pytest_vnc_use.backends.pixels import Pixels, pixels_in, pixels_of
from pytest_vnc_use.backends.screen import Framebuffer
from pytest_vnc_use.desktops.xvnc import XvncDesktop
from pytest_vnc_use.same_screen import within_caret
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Decision, Observation, Proposal, RunEvent, StepStarted
from support.agents import agent_of
from support.vnc_servers import wait_for

THINKING_S = {"model": 1.0, "function": 0.0}
WATCHED_S = 3.5
"""The time before an action in which the agent learns what always moves."""
END_S = 2.5
SLEEPS_S = (0.1, 0.25, 0.5, 1.0)


class Witness(Thread):
    """Keeps each screen of the next seconds, with the time when it was drawn."""

    def __init__(self, screen: Framebuffer, moving: tuple[slice, ...]) -> None:
        super().__init__()
        self._screen = screen
        self._moving = moving
        self.started_s = time.monotonic()
        self._seen = [(self.started_s, self._now())]

    def run(self) -> None:
        drawn_s = self.started_s
        end_s = self.started_s + END_S
        while self._screen.wait_drawn(drawn_s, end_s - time.monotonic()):
            drawn_s = self._screen.changed_at
            pixels = self._now()
            _, before = self._seen[-1]
            if not np.array_equal(pixels, before):
                self._seen.append((drawn_s, pixels))

    def _now(self) -> Pixels:
        return self._still(pixels_in(self._screen.raw_frame()))

    def _still(self, pixels: Pixels) -> Pixels:
        still: Pixels = pixels.copy()
        still[self._moving] = 0
        return still

    def shows_end(self, pixels: Pixels) -> bool:
        _, end = self._seen[-1]
        return within_caret(self._still(pixels) != end)

    def last_change_s(self) -> float:
        """Return since when the screen has shown its end."""
        since_s, _ = self._seen[-1]
        for drawn_s, pixels in reversed(self._seen):
            if not self.shows_end(pixels):
                break
            since_s = drawn_s
        return since_s


class Player:
    """The ports Planner and RunObserver: one action, and a note of each question about
    its effect.
    """

    name = "settling"

    def __init__(self, scenario: Scenario, kind: str) -> None:
        self._scenario = scenario
        self._thinking_s = THINKING_S[kind]
        # the screen is watched only while a model thinks
        self._model = "slow" if kind == "model" else ""
        self.asked: list[tuple[float, Pixels]] = []

    def watch(self, screen: Framebuffer) -> None:
        """Wait for the first screen of the program, whose effects are seen on it."""
        x, y = self._scenario.point
        colour = self._scenario.colour
        wait_for(
            lambda: pixels_in(screen.raw_frame())[y, x] == colour, "the program", 60
        )
        self._screen = screen

    def decide(self, observation: Observation, *, timeout_s: float) -> Decision:
        if observation.turns:
            pixels = pixels_of(observation.load_png(observation.frame))
            self.asked.append((time.monotonic(), pixels))
            time.sleep(self._thinking_s)
            return Decision("finished", model=self._model)
        time.sleep(WATCHED_S)
        proposal = Proposal(self._scenario.action, "act")
        return Decision("act", proposals=(proposal,), model=self._model)

    def observe(self, event: RunEvent) -> None:
        if isinstance(event, StepStarted):
            self.witness = Witness(self._screen, self._scenario.moving)
            self.witness.start()


@dataclass(frozen=True)
class Trial:
    """The program's reaction and the planner's wait, in seconds after the action; and
    whether the screenshot of each question was right.
    """

    reaction_s: float
    wait_s: float
    rights: Sequence[bool]

    @property
    def late_s(self) -> float:
        return self.wait_s - self.reaction_s


def perform(scenario: Scenario, kind: str) -> Trial:
    player = Player(scenario, kind)
    desktop = XvncDesktop(size=SIZE)
    with tempfile.TemporaryDirectory(prefix="settling-") as runs_dir:
        try:
            desktop.launch(scenario.command)
            settings = Settings(server=desktop.server, runs_dir=runs_dir)
            with agent_of(
                settings, planner=player, observers=[player], desktop=desktop
            ) as agent:
                agent.controller.settle()
                assert agent.live_screen
                player.watch(agent.live_screen)
                result = agent.run("Settle")
                player.witness.join()
        finally:
            desktop.stop()
    assert result.outcome is Outcome.DONE, result.message
    witness = player.witness
    acted_s = witness.started_s + result.steps[0].times.act_s
    asked_s, _ = player.asked[-1]
    reaction_s = max(0.0, witness.last_change_s() - acted_s)
    rights = [witness.shows_end(pixels) for _, pixels in player.asked]
    return Trial(reaction_s, asked_s - acted_s, rights)


def rows(kinds: dict[str, list[Trial]]) -> list[str]:
    """Return the rows of the planners, and of the sleeps in their place."""
    lines = []
    for kind, trials in kinds.items():
        wait_s = mean(trial.wait_s for trial in trials)
        floor_s = mean(trial.reaction_s for trial in trials)
        late_s = [trial.late_s for trial in trials]
        right = sum(trial.rights[-1] for trial in trials)
        right_at_first = sum(trial.rights[0] for trial in trials)
        wait = f"{milliseconds(wait_s)}, {wait_s / floor_s:.2f} ×"
        late = (milliseconds(median(late_s)), milliseconds(max(late_s)))
        lines.append(row(kind, len(trials), right, right_at_first, wait, *late))

    every = [*chain.from_iterable(kinds.values())]
    floor_s = mean(trial.reaction_s for trial in every)
    for sleep_s in SLEEPS_S:
        right = sum(trial.reaction_s <= sleep_s for trial in every)
        wait = f"{milliseconds(sleep_s)}, {sleep_s / floor_s:.2f} ×"
        lines.append(row("sleep", len(every), right, right, wait, "", ""))
    return lines


def main(trials: int, names: Sequence[str]) -> None:
    print(f"{machine()}\n")
    print(head("scenario", "planner", "reaction", "right", "questions", "late"))
    kinds: dict[str, list[Trial]] = {kind: [] for kind in THINKING_S}
    for name in [*names] * trials:
        for kind, performed in kinds.items():
            trial = perform(SCENARIOS[name], kind)
            performed.append(trial)
            right = "yes" if trial.rights[-1] else "**no**"
            reaction = milliseconds(trial.reaction_s)
            late = milliseconds(trial.late_s)
            cells = (name, kind, reaction, right, len(trial.rights), late)
            print(row(*cells), flush=True)
    columns = ("planner", "of", "right", "right at first", "wait", "late", "at most")
    print(f"\n{head(*columns)}")
    print(*rows(kinds), sep="\n")


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    main(count, sys.argv[2:] or [*SCENARIOS])
