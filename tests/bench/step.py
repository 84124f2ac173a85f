"""A live step without the model: a table in Markdown.

    python tests/bench/run.py step [ROUNDS]

A model that answers at once clicks ten times on a page in Chromium, whose heading
changes at each click. Measured is from its answer until its next question is there: the
click, the wait for the screen, the PNG and the request. Ours is measured with both tool
formats of Gemini. The plain driver, on vncdotool, sleeps instead of looking at the
screen, and sends the image without a history. They take turns, ROUNDS (10 by default)
times, and a round counts with the median of its steps. The floor is the plain driver
without its sleep, whose screenshots may come too soon.
"""

from __future__ import annotations

import base64
import io
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from urllib.request import Request, urlopen

from ratios import beside, head, in_turn, machine, row
from vncdotool import api

from pytest_vnc_use import Outcome, VncUseAgent
from pytest_vnc_use.planners.gemini.computer_use import GeminiComputerUse
from pytest_vnc_use.settings.settings import Settings
from support import gemini_server
from support.json_server import Posted, Reply
from support.witness_programs import page_on_screen

STEPS = 10
TASK = "Click ten times"
POINT = (300, 400)
GRID = {"x": 300, "y": 400}
"""The same point in thousandths of the screen, of 1000 × 1000 pixels."""
NEWER = "gemini-3.8-flash"
OLDER = gemini_server.COMPUTER_USE_ONLY
DRIVER = "plain driver, sleep 0.25 s"
SLEEP_S = 0.25
PAUSE_S = 2.0
PAGE = b"""<!doctype html><h1>0 clicks</h1><script>
  let clicks = 0
  onclick = () => { document.querySelector("h1").textContent = `${++clicks} clicks` }
</script>"""


class InstantModel(gemini_server.GeminiServer):
    """A service whose model clicks ten times by calling a function. It notes how long
    after its answer the next question came.
    """

    def __init__(self, function: str) -> None:
        click = (function, GRID)

        def answer(request: gemini_server.Request) -> Reply:
            is_last = len(request.function_responses) == STEPS
            return (
                gemini_server.text("Done.") if is_last else gemini_server.calls(click)
            )

        super().__init__(answer)

    def start_round(self) -> None:
        # else what the way before did would count as an animation of the page
        time.sleep(PAUSE_S)
        self.gaps_s: list[float] = []
        self.answered_at = time.perf_counter()

    def reply_to(self, posted: Posted) -> Reply:
        self.gaps_s.append(time.perf_counter() - self.answered_at)
        reply = super().reply_to(posted)
        assert reply.status == 200, reply.body
        self.answered_at = time.perf_counter()
        return reply

    def step_s(self) -> float:
        """Return the median of the round, without what came before its first answer."""
        return statistics.median(self.gaps_s[1:])


def ours(agent: VncUseAgent, service: InstantModel) -> float:
    service.start_round()
    result = agent.run(TASK)
    assert result.outcome is Outcome.DONE, result.message
    return service.step_s()


def plain_driver(
    client: api.ThreadedVNCClientProxy, service: InstantModel, sleep_s: float
) -> float:
    service.start_round()
    ask(client, service)
    for _ in range(STEPS):
        client.mouseMove(*POINT)
        client.mousePress(1)
        time.sleep(sleep_s)
        ask(client, service)
    return service.step_s()


def ask(client: api.ThreadedVNCClientProxy, service: InstantModel) -> None:
    """Send the screen now to the model."""
    file = io.BytesIO()
    client.captureScreen(file, format="PNG")
    data = base64.b64encode(file.getvalue()).decode()
    image = {"inlineData": {"mimeType": "image/png", "data": data}}
    contents = [{"role": "user", "parts": [{"text": TASK}, image]}]
    body = json.dumps({"contents": contents}).encode()
    url = f"{service.url}/v1beta/models/{NEWER}:generateContent"
    headers = {"x-goog-api-key": service.api_key}
    with urlopen(Request(url, body, headers)) as answer:
        json.load(answer)


def main(rounds: int = 10) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(page_on_screen(PAGE, (1000, 1000)))
        client = stack.enter_context(api.connect(server.address))
        runs_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="step-"))
        settings = Settings(server=server.address, runs_dir=runs_dir)

        def agent_way(model: str, function: str) -> Callable[[], float]:
            service = stack.enter_context(InstantModel(function))
            key = service.api_key
            planner = GeminiComputerUse(model=model, api_key=key, base_url=service.url)
            agent = VncUseAgent(settings=settings, planner=planner)
            return partial(ours, stack.enter_context(agent), service)

        plain = stack.enter_context(InstantModel("click"))
        ways: dict[str, Callable[[], float]] = {
            "floor": partial(plain_driver, client, plain, 0.0),
            DRIVER: partial(plain_driver, client, plain, SLEEP_S),
            "ours, tools 3.x": agent_way(NEWER, "click"),
            "ours, tools 2.5": agent_way(OLDER, "click_at"),
        }
        times_s = in_turn(ways, rounds)
    print(f"{machine()}, {rounds} rounds: median, times the driver (middle half)\n")
    print(head("from answer to question", *times_s))
    print(row("one click", *beside(DRIVER, times_s)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
