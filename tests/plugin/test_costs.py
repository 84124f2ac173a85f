"""Budgets and costs as a user of pytest meets them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator

import pytest

from support.gemini_rules import Request
from support.gemini_server import GeminiServer, Reply, calls, hang, text

pytestmark = pytest.mark.desktop

CALL_DOLLARS = (1200 * 0.75 + 300 * 0.075 + 100 * 3.75) / 1e6
"""Of an answer of the fake server's, with 300 cached tokens of 1,500; doubled from 2027 on."""

CLICKS = """
import pytest

@pytest.mark.vnc_task("Click it"{marker})
def test_it(vnc_agent):
    assert vnc_agent.runs
"""
FOUR_TESTS = """
import pytest

@pytest.mark.parametrize("number", range(4))
@pytest.mark.vnc_task("Click around", expect=None)
def test_it(vnc_agent, number):
    assert vnc_agent.runs
"""

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def never_done() -> Iterator[GeminiServer]:
    """A model that always clicks somewhere else."""

    def click(request: Request) -> Reply:
        place = len(request.contents) * 7 % 900
        return calls(("click", {"x": place, "y": place}))

    with GeminiServer(click) as server:
        yield server


def test_cost_of_test_is_reported(pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Run) -> None:
    pytester.makepyfile(CLICKS.format(marker=', expect="it was clicked"'))
    verdict = text(json.dumps({"reason": "I see it.", "verdict": "holds", "box_2d": None}))
    result = run(model(calls(("click", {"x": 5, "y": 5})), text("done"), verdict), "--junit-xml=junit.xml")
    result.assert_outcomes(passed=1)
    cost = 3 * CALL_DOLLARS
    result.stdout.fnmatch_lines(
        [
            f"vnc-use: 3 calls of models, 4,500 tokens in (900 of them cached), 300 out: ${cost:.4f}",
            f"vnc-use:   ${cost:.4f} test_cost_of_test_is_reported.py::test_it",
        ]
    )
    results = json.loads((pytester.path / "runs" / "vnc-results.json").read_text())
    assert results["tests"][0]["dollars"] == pytest.approx(cost, abs=1e-6)
    assert 'name="vnc_tokens_cached" value="900"' in (pytester.path / "junit.xml").read_text()


def test_dollars_of_test_run_out(pytester: pytest.Pytester, never_done: GeminiServer, run: Run) -> None:
    pytester.makepyfile(CLICKS.format(marker=", max_dollars=0.009, expect=None"))
    result = run(never_done)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*budget: *the dollars of this test are used up: 0.0* of 0.009*--vnc-max-dollars*"])
    assert 0 < len(never_done.requests) * CALL_DOLLARS <= 0.009


A_DOLLAR_A_MILLION = '[[price]]\nmodels = ["gemini-3.8-flash"]\ninput = 1\noutput = 1\n'


@pytest.mark.parametrize(
    "option", ["--vnc-max-dollars=0.006", "--vnc-session-max-dollars=0.006", "--vnc-max-tokens=6000"]
)
def test_unanswered_request_is_estimated(pytester: pytest.Pytester, run: Run, option: str) -> None:
    """A call is reckoned at about 4,100 tokens."""
    pytester.makepyfile(CLICKS.format(marker=", expect=None"))
    (pytester.path / "prices.toml").write_text(A_DOLLAR_A_MILLION)
    with GeminiServer(lambda request: hang()) as silent:
        result = run(silent, option, "-ovnc_request_seconds=1", "-ovnc_prices=prices.toml")
    result.assert_outcomes(failed=1)
    assert len(silent.requests) == 1
    result.stdout.fnmatch_lines(
        [
            "*budget: *this * are used up: *and the next call may take*",
            "vnc-use: 1 calls of models, 0 tokens in (0 of them cached), 0 out: $0.00*",
            "vnc-use:   the service reported no usage for 1 of them; estimated at *,* tokens",
        ]
    )
    (test,) = json.loads((pytester.path / "runs" / "vnc-results.json").read_text())["tests"]
    assert 0.003 < test["dollars"] < 0.006
    assert test["runs"][0]["dollars"] == pytest.approx(test["dollars"], abs=1e-6)


def test_request_of_timed_out_test_is_estimated(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(CLICKS.format(marker=", expect=None"))
    pytester.makeconftest("import os; open('pid', 'w').write(str(os.getpid()))")

    def time_out(request: Request) -> Reply:
        os.kill(int((pytester.path / "pid").read_text()), signal.SIGALRM)  # what pytest-timeout waits for
        return hang()

    with GeminiServer(time_out) as silent:
        result = run(silent, "--timeout=90", "--timeout-method=signal")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*Timeout *>90.0s*",
            "vnc-use: 1 calls of models, 0 tokens in (0 of them cached), 0 out: $0.00*",
            "vnc-use:   the service reported no usage for 1 of them; estimated at *,* tokens",
        ]
    )


OWN_MODELS = """
import pytest
from pytest_vnc_use.planners.gemini.planner import GeminiComputerUse

@pytest.fixture
def planner():
    return GeminiComputerUse(model="gemini-9-new")

@pytest.fixture
def vnc_planner(request, planner):
    return planner if request.node.name == "test_fixture" else None

@pytest.mark.vnc_task("Click it", expect=None)
def test_fixture(vnc_agent):
    assert vnc_agent.runs

def test_given(vnc_agent, planner):
    vnc_agent.run("Click it", planner=planner, expect=None)
"""


def test_unpriced_model_with_dollar_limit_is_not_asked(
    pytester: pytest.Pytester, never_done: GeminiServer, run: Run
) -> None:
    pytester.makepyfile(OWN_MODELS)
    result = run(never_done, "--vnc-session-max-dollars=1", "--vnc-max-steps=2")
    result.assert_outcomes(failed=2)
    assert never_done.requests == []
    result.stdout.fnmatch_lines(["*settings: the price of the model 'gemini-9-new' is unknown, *-o vnc_prices=*"] * 2)


def test_tokens_that_leave_no_judging_ask_no_planner(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Run
) -> None:
    judged, body = (CLICKS.format(marker=marker) for marker in ("", ", expect=None"))
    pytester.makepyfile(test_judged=judged, test_body=body)
    server = model(text("done"))
    result = run(server, "--vnc-max-tokens=5000")
    result.assert_outcomes(passed=1, failed=1)
    assert len(server.requests) == 1
    result.stdout.fnmatch_lines(["budget: * ended as budget: *0 of 5,000, and the next call may take [67],*"])
    result.stdout.fnmatch_lines(["FAILED test_judged.py::*"])


@pytest.mark.slow
def test_four_workers_share_dollars_of_session(pytester: pytest.Pytester, never_done: GeminiServer, run: Run) -> None:
    pytester.makepyfile(FOUR_TESTS)
    result = run(never_done, "-n4", "--vnc-session-max-dollars=0.02", "--vnc-max-steps=100")
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(["*the dollars of this session are used up: 0.0* of 0.02*--vnc-session-max-dollars*"])
    assert 0 < len(never_done.requests) * CALL_DOLLARS <= 0.02 + 4 * CALL_DOLLARS
