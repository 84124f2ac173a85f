"""What a live test costs: the table of docs/models.md, in Markdown.

A fake server for Gemini has the example shop go from page to page, one step a turn,
then one claim is judged. The characters and images of each request are those that go
out. Tokens are estimated as the limits of a test do it, which is rather too much. No
model is asked, so the bill of a service may differ.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack

from pytest_vnc_use import Outcome
from pytest_vnc_use.agent.budget import (
    _CHARACTERS_A_TOKEN,
    _SHORT_ANSWER,
    Budget,
    CostLimits,
    Prices,
    load_prices,
)
from pytest_vnc_use.planners.gemini.computer_use import GeminiJudge
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Click, ModelRequest, Usage
from support.agents import agent_of
from support.gemini_server import GeminiServer, text
from support.paths import EXAMPLES
from support.players import PLAYERS, Said
from support.qt_desktop import QtDesktop

STEPS = (5, 10, 20)
MODELS = ("gemini-3.5-flash-lite", "gemini-3.8-flash", "gemini-3.1-pro-preview")
PAGES = [(120, 144 + 56 * place) for place in range(7)]
HOLDS = '{"reason": "It is there.", "verdict": "holds", "box_2d": [0, 0, 999, 999]}'


class Requests(Budget):
    """A budget without limits that notes each request before it is sent."""

    def __init__(self) -> None:
        super().__init__(load_prices(), CostLimits(), CostLimits())
        self.asked: list[ModelRequest] = []

    def before(self, asked: ModelRequest) -> None:
        self.asked.append(asked)
        super().before(asked)


def main() -> None:
    prices = load_prices()
    print(f"| steps | requests | {' | '.join(f'`{model}`' for model in MODELS)} |")
    print(f"|---:|---:|{'---:|' * len(MODELS)}")
    for steps in STEPS:
        asked = requests(steps)
        print(
            f"| {steps} | {len(asked)} |"
            f" {' | '.join(dollars(prices, model, asked) for model in MODELS)} |"
        )


def requests(steps: int) -> Sequence[ModelRequest]:
    """Perform a run of so many steps, and judge one claim; return what was sent."""
    counted = Requests()
    turns = [
        Said((Click(*PAGES[number % len(PAGES)]),), "Open the next page.")
        for number in range(steps)
    ]
    player = PLAYERS["gemini"]
    script = [*map(player.say, turns), player.done]
    with tempfile.TemporaryDirectory(prefix="costs-") as runs, ExitStack() as stack:
        shop = QtDesktop()
        stack.callback(shop.stop)
        shop.launch([sys.executable, str(EXAMPLES / "shop")])
        settings = Settings(
            server=shop.server, runs_dir=runs, max_steps=steps + 1, watch=False
        )
        with (
            PLAYERS["gemini"].conversation(script) as conversation,
            GeminiServer([text(HOLDS)]) as judging,
        ):
            judge = GeminiJudge(api_key=judging.api_key, base_url=judging.url)
            with agent_of(
                settings, planner=conversation.planner, judge=judge, budget=counted
            ) as agent:
                result = agent.run("Look at every page of the shop")
                assert result.outcome is Outcome.DONE, result.message
                assert agent.verify("the page of the products is open")
    return counted.asked


def dollars(prices: Prices, model: str, asked: Sequence[ModelRequest]) -> str:
    """Return what these requests cost with a model, none of it cached."""
    price = prices.of(model)
    assert price, model
    sent = sum(
        math.ceil(each.characters / _CHARACTERS_A_TOKEN)
        + each.images * price.image_tokens
        for each in asked
    )
    return f"${price.dollars(Usage(sent, 0, _SHORT_ANSWER * len(asked))):.3f}"


if __name__ == "__main__":
    main()
