"""Budgets and costs as a user of pytest meets them."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable

import pytest

from support.gemini_server import GeminiServer, Reply, Request, calls, hang, text
from support.pad_sessions import results

pytestmark = pytest.mark.desktop

A_DOLLAR_A_MILLION = '[[price]]\nmodels = ["gemini-3.8-flash"]\ninput = 1\noutput = 1\n'
CALL_DOLLARS = 1600 / 1e6
"""Of an answer of the fake server's at these prices. A call is estimated at about 4,100
tokens before.
"""

TESTS = """
import dataclasses
import pytest
from pytest_vnc_use.planners.gemini.computer_use import GeminiComputerUse

def task(text, **settings):
    return pytest.mark.vnc_task(text, **{"expect": None, **settings})

@task("click around", max_dollars=0.009)
def test_dollars(vnc_agent): ...

class TestSilentModel:
    @pytest.fixture
    def vnc_settings(self, vnc_settings):
        return dataclasses.replace(vnc_settings, request_seconds=1.0)

    @task("say nothing", max_dollars=0.006)
    def test_estimated_dollars(self): ...

    @task("be silent", max_tokens=6000)
    def test_estimated_tokens(self): ...

@task("be done and judged", expect=(), max_tokens=5000)
def test_judged(): ...

@task("be done", max_tokens=5000)
def test_unjudged(): ...

class TestNewModel:
    @pytest.fixture
    def vnc_settings(self, vnc_settings):
        return dataclasses.replace(vnc_settings, max_dollars=1.0)

    @pytest.fixture
    def vnc_planner(self):
        return GeminiComputerUse(model="gemini-9-new")

    @task("ask a new model")
    def test_fixture(self): ...

@pytest.mark.timeout(90, method="signal")
@task("time out")
def test_timed_out(): ...
"""

TWO_TESTS = """
import pytest

@pytest.mark.parametrize("number", range(2))
@pytest.mark.vnc_task("click around", expect=None)
def test_it(vnc_agent, number):
    assert vnc_agent.runs
"""

Run = Callable[..., pytest.RunResult]


def task_of(request: Request) -> str:
    return str(request.contents[0]["parts"][0]["text"])


def click_around(request: Request) -> Reply:
    place = len(request.contents) * 7 % 900
    return calls(("click", {"x": place, "y": place}))


@pytest.mark.slow
def test_limits_end_tests_and_costs_are_reported(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(test_it=TESTS)
    pytester.makeconftest("import os; open('pid', 'w').write(str(os.getpid()))")
    (pytester.path / "prices.toml").write_text(A_DOLLAR_A_MILLION)

    def answer(request: Request) -> Reply:
        match task_of(request):
            case "say nothing" | "be silent":
                return hang()
            case "time out":
                # what pytest-timeout waits for
                os.kill(int((pytester.path / "pid").read_text()), signal.SIGALRM)
                return hang()
            case "be done":
                return text("done")
        return click_around(request)

    with GeminiServer(answer) as server:
        result = run(
            server,
            "--vnc-scope=session",
            "-ovnc_prices=prices.toml",
            "--junit-xml=junit.xml",
        )
    tests = results()
    assert {name: test.triage for name, test in tests.items()} == {
        "dollars": "budget",
        "estimated_dollars": "budget",
        "estimated_tokens": "budget",
        "judged": "budget",
        "timed_out": "budget",
        "fixture": "settings",
        "unjudged": None,
    }, result.stdout.str()
    asked = Counter(map(task_of, server.requests))
    around = asked.pop("click around")
    assert asked == {"say nothing": 1, "be silent": 1, "be done": 1, "time out": 1}
    assert 0 < around * CALL_DOLLARS <= 0.009
    assert tests["dollars"].dollars == pytest.approx(around * CALL_DOLLARS, abs=1e-6)
    estimated = [tests["estimated_dollars"], tests["estimated_tokens"]]
    dollars = [test.dollars or 0 for test in estimated]
    assert min(dollars) > 0.003
    assert max(dollars) < 0.006
    of_runs = [test.runs[0].dollars for test in estimated]
    assert of_runs == pytest.approx(dollars, abs=1e-6)
    reason = "and the next call may take"
    assert [reason in test.message for test in estimated] == [True, True]
    result.stdout.fnmatch_lines(
        [
            "*budget: *the dollars of this test are used up: 0.0* of"
            " 0.009*--vnc-max-dollars*"
        ]
    )
    result.stdout.fnmatch_lines(
        ["budget: * ended as budget: *0 of 5,000, and the next call may take [67],*"]
    )
    result.stdout.fnmatch_lines(
        [
            "*settings: the price of the model 'gemini-9-new' is unknown, *-o"
            " vnc_prices=*"
        ]
    )
    result.stdout.fnmatch_lines(
        [
            (
                f"vnc-use: {around + 4} model calls: {(around + 1) * 1500:,} input"
                f" tokens ({(around + 1) * 300:,} cached), {(around + 1) * 100} output"
                " tokens, $0.0*"
            ),
            (
                "vnc-use:   the service reported no usage for 3 of them; estimated at"
                " *,* tokens"
            ),
            f"vnc-use:   ${around * CALL_DOLLARS:.4f} test_it.py::test_dollars",
        ]
    )
    assert (
        f'name="vnc_tokens_cached" value="{around * 300}"'
        in (pytester.path / "junit.xml").read_text()
    )


@pytest.mark.slow
def test_workers_share_dollars_of_session(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(TWO_TESTS)
    (pytester.path / "prices.toml").write_text(A_DOLLAR_A_MILLION)
    options = [
        "-n2",
        "--vnc-session-max-dollars=0.02",
        "-ovnc_prices=prices.toml",
        "--vnc-max-steps=100",
    ]
    with GeminiServer(click_around) as server:
        result = run(server, *options)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*the dollars of this session are used up: 0.0* of"
            " 0.02*--vnc-session-max-dollars*"
        ]
    )
    assert 0 < len(server.requests) * CALL_DOLLARS <= 0.02 + 2 * CALL_DOLLARS
