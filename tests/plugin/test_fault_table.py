"""The fault table: whatever breaks, a test that fails says rightly whose fault it is."""

from __future__ import annotations

import itertools
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pytest_vnc_use.planners.common.toolset import GIVE_UP
from pytest_vnc_use.report.results import read_results
from support import vnc_servers
from support.gemini_rules import Request
from support.gemini_server import (
    GeminiServer,
    Reply,
    blocked_prompt,
    calls,
    daily_quota,
    empty,
    hang,
    malformed,
    not_json,
    overloaded,
    rate_limited,
    stopped,
    text,
    wants_confirmation,
)
from support.paths import PROGRAMS

pytestmark = pytest.mark.desktop

CLICK = ("click", {"x": 500, "y": 500})
MOVE = ("move", {"x": 500, "y": 500})
RISKY = ("click", wants_confirmation({"x": 500, "y": 500}, "this buys two apples"))


def judged(verdict: str) -> Reply:
    return text(json.dumps({"reason": "so it looks", "verdict": verdict, "box_2d": None}))


DONE = [calls(MOVE), text("I did it!")]  # a click's late answer on their desktop would end the circles of another test
SAID: dict[str, tuple[str, Sequence[Reply]]] = {
    "rate_limit": ("infra", [rate_limited(0.01)]),
    "overloaded": ("infra", [overloaded()]),
    "daily_quota": ("infra", [daily_quota()]),
    "bad_key": ("infra", []),
    "malformed": ("infra", [malformed({"functionCall": {"args": {}}})]),
    "half_an_answer": ("infra", [not_json()]),
    "empty": ("infra", [empty()]),
    "blocked_prompt": ("infra", [blocked_prompt()]),
    "blocked_answer": ("infra", [stopped("SAFETY")]),
    "overloaded_after_a_step": ("infra", [calls(CLICK), overloaded()]),
    "judge_without_quota": ("infra", [*DONE, daily_quota()]),
    "judge_blocked": ("infra", [*DONE, blocked_prompt()]),
    "wrong_total": ("product", [*DONE, judged("fails")]),
    "wrong_total_in_the_body": ("product", DONE),
    "wrong_total_in_an_assert": ("product", [*DONE, judged("fails")]),
    "judge_unsure": ("inconclusive", [*DONE, judged("unsure")]),
    "judge_unsure_in_an_assert": ("inconclusive", [*DONE, judged("unsure")]),
    "test_that_breaks": ("inconclusive", DONE),
    "circles": ("agent", [calls(MOVE)]),
    "circles_to_the_limit": ("agent", [calls(MOVE)]),
    "gives_up": ("agent", [calls((GIVE_UP.name, {"reason": "there is no basket"}))]),
    "denied": ("policy", [calls(RISKY)]),
    "steps_used_up": ("budget", [calls(CLICK, CLICK, CLICK)]),
    "seconds_used_up": ("budget", [hang(60)]),
    "tokens_used_up": ("budget", [calls(CLICK)]),
}
"""By the name of a test: its triage, and what the service answers; the last answer again and again."""

MARKERS = {
    "circles_to_the_limit": ", max_steps=3",
    "steps_used_up": ", max_steps=2",
    "seconds_used_up": ", max_seconds=5",
    "tokens_used_up": ", max_tokens=6000",
}
BODIES = {
    "wrong_total_in_the_body": "assert vnc_desktop.read_file('events.txt') == '3.00'",
    "wrong_total_in_an_assert": "vnc_agent.verify('the total is 3.00')",
    "judge_unsure_in_an_assert": "vnc_agent.verify('the total is 3.00')",
    "test_that_breaks": "assert total == 3",
}
ASKS_GEMINI = """
import pytest
from pytest_vnc_use.planners.gemini.planner import GeminiComputerUse
from pytest_vnc_use.planners.common.http import Backoff

@pytest.fixture
def vnc_planner(request):
    key = "AIza-wrong" if request.node.name == "test_bad_key" else None
    return GeminiComputerUse(api_key=key, backoff=Backoff(attempts=3, first_wait_s=0.01))
"""


def served() -> Callable[[Request], Reply]:
    """Answers each request in the name of the test whose task it tells."""
    answers = {name: itertools.chain(said, itertools.repeat(said[-1])) for name, (_, said) in SAID.items() if said}

    def answer(request: Request) -> Reply:
        told = json.dumps(request.contents[0])
        return next(answers[next(name for name in answers if f"task {name}." in told)])

    return answer


def marked(name: str) -> str:
    expect = ", expect=None" if name in BODIES else f", expect='the screen shows task {name}.'"
    marker = f"@pytest.mark.vnc_task('Perform task {name}.'{expect}{MARKERS.get(name, '')})"
    body = BODIES.get(name, "").replace("the total", f"the screen shows task {name}. the total")
    return f"{marker}\ndef test_{name}(vnc_desktop, vnc_agent):\n    {body or '...'}\n"


def triages(place: Path) -> dict[str, str | None]:
    """Of the tests of a session that failed or broke, by their names."""
    results = read_results(place / "runs" / "vnc-results.json")
    assert all(test.is_bad for test in results.tests), [test.test for test in results.tests if not test.is_bad]
    return {test.test.rpartition("::test_")[2]: test.triage for test in results.tests}


@pytest.mark.slow
def test_faults_of_model_service_and_judge(pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]) -> None:
    rows = {name: triage for name, (triage, _) in SAID.items()}
    pytester.makeconftest(ASKS_GEMINI)
    pytester.makepyfile("import pytest\n" + "\n".join(map(marked, rows)))
    with GeminiServer(served()) as server:
        result = run(server, "--vnc-scope=session")
    assert triages(pytester.path) == rows
    result.stdout.fnmatch_lines([f"vnc-use: {len(rows)} failed: *infra*"])


BROKEN = {
    "server_killed_before_the_first_step": "infra",
    "server_killed_before_the_second_step": "infra",
    "server_killed_as_it_is_said_to_be_done": "infra",
    "server_killed_in_the_body": "infra",
    "program_crashed": "product",
    "program_ended_with_an_error": "product",
    "program_frozen": "infra",
    "disk_full": "infra",
}
BREAKS = """
import contextlib, os, signal, time
from pathlib import Path
from types import SimpleNamespace
import pytest
from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
from pytest_vnc_use import files
from pytest_vnc_use.backends import vnc
from pytest_vnc_use.types import Click, Decision

def kill_server(desktop):
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # a process that has ended meanwhile
            if desktop.server in (entry / "cmdline").read_text().split("\\0"):
                os.kill(int(entry.name), signal.SIGKILL)

def kill_server_and_wait(desktop):
    kill_server(desktop)  # nobody looks at the screen again: what ends within a moment would not be known yet
    deadline_s = time.monotonic() + 20
    while not desktop.fault():
        assert time.monotonic() < deadline_s, "the server has not ended within 20 s"
        time.sleep(0.01)

def tell_program(desktop, word):
    desktop.write_file("told", word)

def freeze(desktop):
    os.kill(int(desktop.read_file("pid")), signal.SIGSTOP)

@pytest.fixture
def vnc_settings(request, vnc_settings, monkeypatch):
    if request.node.name == "test_program_frozen":
        monkeypatch.setattr(vnc, "FROZEN_S", 0.5)
    return vnc_settings

FAULTS = {
    "test_server_killed_before_the_first_step": (0, kill_server),
    "test_server_killed_before_the_second_step": (1, kill_server),
    "test_server_killed_as_it_is_said_to_be_done": (3, kill_server_and_wait),
    "test_program_crashed": (1, lambda desktop: tell_program(desktop, "kill -SEGV $$")),
    "test_program_frozen": (0, freeze),
    "test_program_ended_with_an_error": (1, lambda desktop: tell_program(desktop, "exit 3")),
}

def pytest_vnc_step(item, step):
    if item.name == "test_disk_full" and step.number == 2:
        run = max(path for path in Path("runs").iterdir() if path.is_dir())
        files.secrets = SimpleNamespace(token_hex=lambda _: "full")  # the name of the next draft of a file
        (run / ".full.tmp").symlink_to("/dev/full")

@pytest.fixture
def vnc_planner(request, vnc_desktop):
    turn, fault = FAULTS.get(request.node.name, (9, None))

    def decide(observation):
        now = len(observation.turns)
        if now == turn:
            fault(vnc_desktop)
        clicks = 8 if fault is freeze else 3
        return [Click(10 + now, 10)] if now < clicks else Decision("finished", "done")

    return ScriptedPlanner(decide)
"""
PAD = PROGRAMS / "pad.py"
ANSWERING = f"sh -c 'echo $$ > pid; exec {shlex.quote(sys.executable)} {PAD}'"
PROGRAM = "sh -c 'xterm & until [ -s told ]; do sleep 0.05; done; . ./told'"


def broken(name: str) -> str:
    in_the_body = "kill_server(vnc_desktop); vnc_agent.screenshot()" if name.endswith("in_the_body") else ""
    body = in_the_body or "raise LookupError('the test itself')"
    app = f", app={ANSWERING!r}" if name == "program_frozen" else ""
    return f"@pytest.mark.vnc_task('Click'{app}, expect=None)\ndef test_{name}(vnc_desktop, vnc_agent):\n    {body}\n"


@pytest.mark.slow
def test_faults_of_desktop_program_and_disk(pytester: pytest.Pytester) -> None:
    for program in ("Xtigervnc", "xterm", "xrandr"):
        vnc_servers.require(program)
    pytester.makeconftest(BREAKS)
    pytester.makepyfile("import pytest\nfrom conftest import kill_server\n" + "\n".join(map(broken, BROKEN)))
    options = ["-p", "no:cacheprovider", "--vnc-server=xvnc", f"--vnc-app={PROGRAM}"]
    pytester.runpytest_subprocess(*options, timeout=400)
    assert triages(pytester.path) == BROKEN
