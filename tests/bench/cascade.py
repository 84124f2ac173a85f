"""What a cheap planner before a strong one saves: ten tasks of the shop, of which the cheap one fails every third.

    PYTHONPATH=tests python tests/bench/cascade.py

A stand-in for Gemini plays both models and the judge. In every third task the cheap model gives up after its first
turn, and the strong one does the rest. Tokens are those that the stand-in counts, the same for every call; prices are
those of `prices.toml` today. Every run is judged at its end; a cascade also asks the judge before it takes the cheap
model's word for the end.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.agent.budget import Budget, Most, load_prices
from pytest_vnc_use.planners.common.cascade import Cascade
from pytest_vnc_use.planners.gemini.judge import GeminiJudge
from pytest_vnc_use.planners.gemini.planner import GeminiComputerUse
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types.protocols import Planner
from support.gemini_rules import Request
from support.gemini_server import GeminiServer, Reply, calls, text
from support.qt_desktop import QtDesktop
from support.shop_runs import PLAYERS, SHOP, TASKS, Said

CHEAP, STRONG = "gemini-3.5-flash-lite", "gemini-3.8-flash"
HOLDS = text('{"reason": "It is there.", "verdict": "holds", "box_2d": [0, 0, 999, 999]}')
GIVES_UP = calls(("task_failed", {"reason": "I do not see how to go on."}))
EVERY = 3


class Models:
    """The cheap model, the strong one and the judge, in one task that is done by these turns."""

    def __init__(self, said: Sequence[Said], *, is_too_hard: bool) -> None:
        player = PLAYERS["gemini"]
        self._left = [*map(player.say, said), player.done]
        self._is_too_hard = is_too_hard
        self.asked: list[str] = []

    def __call__(self, request: Request) -> Reply:
        if not request.computer_use:
            self.asked.append("judge")
            return HOLDS
        self.asked.append(request.model)
        if self._is_too_hard and request.model == CHEAP and self.asked.count(CHEAP) > 1:
            return GIVES_UP
        reply: Reply = self._left.pop(0)
        return reply


def main() -> int:
    with shop() as desktop, tempfile.TemporaryDirectory(prefix="cascade-") as runs_dir:
        print("| planner | tasks done | calls of the cheap | of the strong | of the judge | dollars |")
        print("|---|---:|---:|---:|---:|---:|")
        alone = total([STRONG], desktop, runs_dir)
        both = total([CHEAP, STRONG], desktop, runs_dir)
    print(f"\nThe cascade costs {both / alone:.2f} of the strong model alone.")
    return 0


def total(models: Sequence[str], desktop: QtDesktop, runs_dir: str) -> float:
    """Carry out all tasks, print their sums, and return the dollars."""
    asked: list[str] = []
    dollars, done = 0.0, 0
    for number, (task, said) in enumerate(TASKS.items(), 1):
        heard = Models(said, is_too_hard=number % EVERY == 0)
        with GeminiServer(heard) as server:
            budget = Budget(load_prices(), Most(), Most())
            done += carried_out(task, models, server, desktop, runs_dir, budget)
        asked += heard.asked
        dollars += budget.spent.dollars
    counts = " | ".join(str(asked.count(who)) for who in (CHEAP, STRONG, "judge"))
    print(
        f"| {', then '.join(f'`{model}`' for model in models)} | {done} of {len(TASKS)} | {counts} | ${dollars:.4f} |"
    )
    return dollars


def carried_out(
    task: str, models: Sequence[str], server: GeminiServer, desktop: QtDesktop, runs_dir: str, budget: Budget
) -> bool:
    """Carry out a task in the shop, started anew, and judge its end."""
    desktop.run(["find", ".", "-mindepth", "1", "-delete"])
    desktop.launch(SHOP)
    at = {"api_key": server.api_key, "base_url": server.url}
    planners = tuple(GeminiComputerUse(model=model, **at) for model in models)
    planner: Planner = Cascade(planners) if len(planners) > 1 else planners[0]
    settings = Settings(server=desktop.server, runs_dir=str(Path(runs_dir)), steps=100, watch=False)
    judge = GeminiJudge(model=STRONG, **at)
    with VncUseAgent(settings=settings, planner=planner, judge=judge, budget=budget) as agent:
        return agent.run(task).outcome is Outcome.DONE and bool(agent.verify_end_state(task))


@contextmanager
def shop() -> Iterator[QtDesktop]:
    desktop = QtDesktop()
    try:
        yield desktop
    finally:
        desktop.stop()


if __name__ == "__main__":
    sys.exit(main())
