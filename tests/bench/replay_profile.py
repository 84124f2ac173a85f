"""Where the time of a replayed test goes, and how it compares with the same flows in Playwright: tables in Markdown.

    python tests/bench/run.py replay_profile [ROUNDS]

Six flows on a page in Chromium, each a test of its own, are recorded on TigerVNC by a script and a judge, and replayed
without either. In the same sessions the same flows are performed by Playwright with a browser for each test, in the
same Chromium. The first table has the seconds of a replayed test by what they are spent for, the second both ways
beside each other, the third what the first test of a session takes more. All are medians of ROUNDS (3 by default).
This file is the plugin of those sessions too.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from ratios import head, machine, row

from pytest_vnc_use.plugin.desktops import ENGINE
from pytest_vnc_use.types import Action, Click, KeyCombo, TypeText, Wait

HERE = Path(__file__).parent
CHROMIUM = "/usr/bin/chromium"
OPTIONS = "--kiosk --no-sandbox --no-first-run --test-type --disable-gpu --disable-dev-shm-usage --password-store=basic"
PAGE = """<!doctype html><meta charset="utf-8"><title>Orders</title>
<style>
  * { font: 20px "DejaVu Sans", sans-serif }
  input, button, p, dialog, li { position: absolute; margin: 0; width: 300px; height: 40px }
  input[type=checkbox] { width: 40px } dialog { left: 500px; top: 300px; height: 120px; padding: 0 }
</style>
<input id="what" aria-label="Article" style="left: 100px; top: 100px">
<input id="many" aria-label="Number" style="left: 500px; top: 100px" value="1">
<button id="order" style="left: 100px; top: 200px">Order</button>
<button id="empty" style="left: 500px; top: 200px">Empty</button>
<button id="load" style="left: 900px; top: 200px">Load</button>
<input type="checkbox" id="wrap" aria-label="Gift" style="left: 900px; top: 100px">
<p id="says" role="status" style="left: 100px; top: 300px">nothing is ordered yet</p>
<dialog id="sure"><button id="yes" style="left: 50px; top: 40px; width: 200px">Yes</button></dialog>
<script>
  const at = id => document.getElementById(id), say = text => { at("says").textContent = text }
  const order = () => say(`${at("many").value} × ${at("what").value}${at("wrap").checked ? ", wrapped" : ""}`)
  at("order").onclick = order
  at("what").onkeydown = at("many").onkeydown = event => { if (event.key === "Enter") order() }
  at("empty").onclick = () => at("sure").showModal()
  at("yes").onclick = () => { at("sure").close(); say("emptied") }
  at("load").onclick = () => { say("loading"); setTimeout(() => say("42 in stock"), 300) }
</script>
"""
WHAT, MANY, WRAP, ORDER, EMPTY, LOAD, YES = (
    *(Click(250, 120), Click(650, 120), Click(920, 120), Click(250, 220), Click(650, 220), Click(1050, 220)),
    Click(650, 361),
)


@dataclass(frozen=True)
class Flow:
    """A flow: its actions, the same in Playwright, and the text at its end."""

    actions: tuple[Action, ...]
    playwright: tuple[str, ...]
    text: str


PEARS, THREE = 'page.get_by_label("Article").fill("pears")', 'page.get_by_label("Number").fill("3")'
PUSH = 'page.get_by_role("button", name="{}").click()'.format
ORDERED = Flow((WHAT, TypeText("pears"), ORDER), (PEARS, PUSH("Order")), "1 × pears")
FIRST_TEST = "first"
FLOWS = {
    FIRST_TEST: ORDERED,
    "order": ORDERED,
    "keys": Flow(
        (WHAT, TypeText("pears"), KeyCombo(("tab",)), TypeText("3"), KeyCombo(("enter",))),
        (PEARS, THREE, 'page.get_by_label("Number").press("Enter")'),
        "3 × pears",
    ),
    "several": Flow(
        (WHAT, TypeText("pears"), ORDER, MANY, TypeText("3", clear_first=True), ORDER),
        (PEARS, PUSH("Order"), THREE, PUSH("Order")),
        "3 × pears",
    ),
    "dialog": Flow((EMPTY, YES), (PUSH("Empty"), PUSH("Yes")), "emptied"),
    "slow": Flow((LOAD,), (PUSH("Load"),), "42 in stock"),
    "tick": Flow(
        (WHAT, TypeText("pears"), WRAP, ORDER),
        (PEARS, 'page.get_by_label("Gift").check()', PUSH("Order")),
        "1 × pears, wrapped",
    ),
}
CONFTEST = """
import pytest
from replay_profile import FLOWS
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from support.fixed_judge import Says

@pytest.fixture
def flow(request):
    return FLOWS[request.node.callspec.params["name"]]

@pytest.fixture
def vnc_planner(flow, request):
    recorded = request.config.getoption("--vnc-record") != "rewrite"
    return request.getfixturevalue("vnc_planner") if recorded else ScriptedPlanner([[each] for each in flow.actions])

@pytest.fixture
def vnc_judge(request):
    return Says(region=None) if request.config.getoption("--vnc-record") == "rewrite" else None
"""
TESTS = """
import pytest
from replay_profile import CHROMIUM, FLOWS

@pytest.mark.parametrize("name", FLOWS)
@pytest.mark.vnc_task("Do what the page is for")
def test_replay(vnc_desktop, name): pass

PLAYWRIGHT
"""
BY_PLAYWRIGHT = """
def test_playwright_{name}():
    from playwright.sync_api import expect, sync_playwright
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={{"width": 1440, "height": 900}})
        page.goto({url!r})
        {steps}
        expect(page.get_by_role("status")).to_have_text({text!r})
        browser.close()
"""


OTHER, FIRST, CLICKS = "else", "first gate", "clicks kept apart"
PARTS = {
    "desktop and program start": "plugin.desktops._lease",
    "connection": "agent.build.connect_to desktops.xvnc.connect",
    "recording read": "plugin.recorded.recorded_test recordings.images.Chain.pixels",
    "run directory written": (
        "runs.directory.RunDirectory.store runs.directory.RunDirectory.append runs.directory.RunDirectory.create"
    ),
    "gates": "recordings.replay.Replay._await_gate",
    "quiet, where no gate shows the step's effect": "backends.vnc.VNCController.settle",
    "input": "backends.vnc.VNCController.perform",
    "watch after the end": "recordings.replay.Replay.watch_end recordings.evidence.RecordedJudge.judge",
    "graph": "agent.graph.RunGraph.start",
    "programs end": "desktops.xvnc.XvncDesktop.stop",
}
"""What a test's time is spent for: the functions that do it."""


class Clock:
    """The seconds of the test that runs, each counted once, for what is being done innermost."""

    def __init__(self) -> None:
        self.spent_s: dict[str, float] = defaultdict(float)
        self.times: Counter[str] = Counter()
        self._parts: list[str] = []
        self._since_s = time.perf_counter()
        self.is_idle = True

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        self._count()
        self._parts.append(name)
        self.times[name] += 1
        try:
            yield
        finally:
            self._count()
            self._parts.pop()

    def _count(self) -> None:
        now_s = time.perf_counter()
        if self._parts:
            self.spent_s[self._parts[-1]] += now_s - self._since_s
        self._since_s = now_s


CLOCK = Clock()


def instrument() -> None:
    CLOCK.is_idle = False
    names: dict[str, Callable[..., str]] = {part: lambda *_, part=part: part for part in PARTS}
    names["gates"] = lambda replay, *_: FIRST if replay._place.gate.is_first else "gates"
    names["input"] = lambda _, action, *__: CLICKS if isinstance(action, Wait) else "input"
    for part, targets in PARTS.items():
        for target in targets.split():
            path, _, name = target.rpartition(".")
            owner = resolve_name(f"pytest_vnc_use.{path}")
            setattr(owner, name, timed(getattr(owner, name), names[part]))


def timed(call: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
    @functools.wraps(call)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with CLOCK.part(name(*args)):
            return call(*args, **kwargs)

    return wrapper


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Write what the test took. The first one imports what is timed, so only later ones are taken apart."""
    if CLOCK.is_idle and ENGINE in sys.modules:
        instrument()
    CLOCK.spent_s.clear()
    CLOCK.times.clear()
    before_s = time.perf_counter(), time.process_time()
    with CLOCK.part(OTHER):
        result = yield
    took_s, cpu_s = (now - then for now, then in zip((time.perf_counter(), time.process_time()), before_s, strict=True))
    line = {"test": item.name, "s": took_s, "cpu_s": cpu_s, "parts": CLOCK.spent_s, "times": CLOCK.times}
    with Path(os.environ["REPLAY_TIMES"]).open("a", encoding="utf-8") as file:
        print(json.dumps(line), file=file)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Count what is written when a phase is over."""
    with CLOCK.part("results of the test written"):
        return (yield)


def session(directory: Path, *options: str) -> dict[str, dict[str, Any]]:
    """Return the figures of each test of a session that passes."""
    times = directory / "times.jsonl"
    times.unlink(missing_ok=True)
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *("-p", "no:cacheprovider", "-p", "replay_profile"), *options],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": path, "REPLAY_TIMES": str(times)},
        capture_output=True,
        text=True,
    )
    if ended.returncode:
        raise SystemExit(f"{ended.stdout}\n{ended.stderr}")
    return {line["test"]: line for line in map(json.loads, times.read_text("utf-8").splitlines())}


def write_project(directory: Path) -> None:
    (directory / "page.html").write_text(PAGE, "utf-8")
    url = (directory / "page.html").as_uri()
    (directory / "pytest.ini").write_text(
        "[pytest]\naddopts = -p no:langsmith_plugin -p no:playwright -p no:pytest-vnc\nvnc_server = xvnc\n"
        f"vnc_app = {CHROMIUM} {OPTIONS} --user-data-dir=profile {url}\n"
    )
    (directory / "conftest.py").write_text(CONFTEST, "utf-8")
    scripted = [
        BY_PLAYWRIGHT.format(name=name, url=url, text=flow.text, steps="\n        ".join(flow.playwright))
        for name, flow in FLOWS.items()
    ]
    (directory / "test_flows.py").write_text(TESTS.replace("PLAYWRIGHT", "\n".join(scripted)), "utf-8")


def main(rounds: int) -> None:
    print(f"{machine()}, n = {rounds}, medians\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="profile-") as made:
        directory = Path(made)
        write_project(directory)
        session(directory, "--vnc-record=rewrite", "-k", "replay", "-o", "vnc_rehearse=0")
        sessions = [session(directory, "--vnc-record=replay") for _ in range(rounds)]

    def median(figure: Callable[[dict[str, dict[str, Any]]], float]) -> float:
        return statistics.median(map(figure, sessions))

    compared = [name for name in FLOWS if name != FIRST_TEST]
    ours = [f"test_replay[{name}]" for name in compared]
    parts = [*dict.fromkeys(part for each in sessions for test in ours for part in each[test]["parts"])]
    spent = {
        part: [median(lambda each, part=part, test=test: each[test]["parts"].get(part, 0.0)) for test in ours]
        for part in parts
    }
    print(head("seconds of a replayed test", *compared, "mean", "times"))
    for part in sorted(parts, key=lambda part: -sum(spent[part])):
        times = statistics.mean(sessions[0][test]["times"].get(part, 0) for test in ours)
        print(row(part, *(f"{s:.2f}" for s in spent[part]), f"{statistics.mean(spent[part]):.2f}", f"{times:.1f}"))
    whole = [median(lambda each, test=test: each[test]["s"]) for test in ours]
    cpu = [median(lambda each, test=test: each[test]["cpu_s"]) for test in ours]
    print(row("**all of it**", *(f"{s:.2f}" for s in whole), f"{statistics.mean(whole):.2f}", ""))
    print(row("on the processor, of pytest", *(f"{s:.2f}" for s in cpu), f"{statistics.mean(cpu):.2f}", ""))

    print("\n" + head("seconds from start to verdict", *compared, "mean"))
    theirs = [median(lambda each, name=name: each[f"test_playwright_{name}"]["s"]) for name in compared]
    print(row("replayed", *(f"{s:.2f}" for s in whole), f"{statistics.mean(whole):.2f}"))
    print(row("Playwright", *(f"{s:.2f}" for s in theirs), f"{statistics.mean(theirs):.2f}"))
    ratios = [one / other for one, other in zip(whole, theirs, strict=True)]
    print(row("times as long", *(f"{ratio:.2f}" for ratio in ratios), f"{sum(whole) / sum(theirs):.2f}"))

    first, same = f"test_replay[{FIRST_TEST}]", f"test_replay[{compared[0]}]"
    for name, figure in (("by the clock", "s"), ("on the processor", "cpu_s")):
        more = median(lambda each, figure=figure: each[first][figure] - each[same][figure])
        print(f"\nthe first test of a session takes {more:.2f} s more, {name}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
