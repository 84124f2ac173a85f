"""The fault table: whatever breaks, a test that fails says rightly whose fault it is."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence

import pytest

from pytest_vnc_use.planners.common.toolset import GIVE_UP
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
from support.pad_sessions import results

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


@pytest.mark.slow
def test_faults_of_model_service_and_judge(pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]) -> None:
    rows = {name: triage for name, (triage, _) in SAID.items()}
    pytester.makeconftest(ASKS_GEMINI)
    pytester.makepyfile("import pytest\n" + "\n".join(map(marked, rows)))
    with GeminiServer(served()) as server:
        result = run(server, "--vnc-scope=session")
    assert {name: (test.is_bad, test.triage) for name, test in results().items()} == {
        name: (True, triage) for name, triage in rows.items()
    }
    result.stdout.fnmatch_lines(["infra: ModelUnavailable: *", "  after step 1 of the run in *runs*"])
    result.stdout.fnmatch_lines([f"vnc-use: {len(rows)} failed: *infra*"])
