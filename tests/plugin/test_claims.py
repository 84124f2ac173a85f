"""Claims, checks and values of a test, and the runs that its fixtures make: what reports show, and what they cost."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.markers import task_spec
from support.gemini_server import GeminiServer, Reply, calls, text
from support.pad_sessions import QUIET, results

CLICK = ("click", {"x": 500, "y": 500, "intent": "open the basket"})
DONE = text("done")


def says(verdict: str) -> Reply:
    return text(json.dumps({"reason": f"I see that it {verdict}", "verdict": verdict, "box_2d": [0, 0, 500, 500]}))


def value(read: Any) -> Reply:
    return text(json.dumps({"reason": "it is written there", "value": read, "box_2d": [0, 0, 500, 500]}))


LIVE = """
import pytest
from decimal import Decimal
from pydantic import BaseModel

class Basket(BaseModel):
    apples: int
    total: Decimal

@pytest.mark.vnc_task("Open the basket", expect=None)
def test_values(vnc_agent):
    basket = vnc_agent.extract(Basket, "what is in the basket?")
    assert basket == Basket(apples=2, total="3.00")
    assert vnc_agent.extracted[-1].region is not None
    vnc_agent.extract(Basket, "and now?")

@pytest.fixture
def basket(vnc_agent):
    vnc_agent.run("Fill the basket", expect=None)
    yield
    assert vnc_agent.verify("the basket is full")
    vnc_agent.run("Empty the basket", expect=None)

@pytest.fixture
def broken(vnc_agent):
    vnc_agent.run("Open the shop", expect=None)
    raise LookupError("no basket")

def test_around(basket, vnc_agent):
    vnc_agent.run("Buy it", expect=None)

def test_setup(broken): ...

"""
REPLIES = [
    *(calls(CLICK), DONE, value({"apples": 2, "total": "3.00"}), value({"apples": "two", "total": "3.00"})),
    *(DONE, DONE, says("holds"), DONE),
    *(DONE,),
]


@pytest.mark.desktop
def test_values_and_runs_of_fixtures_are_reported(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(test_it=LIVE)
    options = ["--html=report.html", "--self-contained-html", "--junit-xml=junit.xml", "-ojunit_family=xunit1"]
    result = run(model(*REPLIES), "--vnc-scope=session", *options)
    result.assert_outcomes(passed=1, failed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "*the value is not a valid Basket: apples: Input should be a valid integer*got 'two'*",
            '*"apples": "two"*',
        ]
    )
    tests = results()
    page = (pytester.path / "report.html").read_text(encoding="utf-8")
    tasks = {name: [run.task for run in tests[name].runs] for name in ("around", "setup")}
    assert tasks == {
        "around": ["Fill the basket", "Buy it", "Empty the basket"],
        "setup": ["Open the shop"],
    }
    for shown in (*tasks["around"], *tasks["setup"], "what is in the basket?", "it is no Basket"):
        assert shown in page, shown
    assert page.count("data:image/png;base64") >= 3
    assert re.search(r'col-cost\\*">\$0\.0', html.unescape(page))
    assert [len(run.verdicts) for run in tests["around"].runs] == [0, 1, 0]
    assert (tests["around"].result, tests["setup"].triage) == ("passed", "inconclusive")
    properties = ElementTree.parse("junit.xml").getroot().iter("property")
    in_junit = [str(noted.get("value")) for noted in properties if noted.get("name") == "vnc_run"]
    assert sorted(in_junit) == sorted(run.directory for test in tests.values() for run in test.runs)
    a_call = tests["setup"].dollars
    assert a_call
    assert tests["around"].dollars == pytest.approx(4 * a_call, abs=1e-5)
    result.stdout.fnmatch_lines([f"vnc-use: {len(REPLIES)} calls of models, *"])
    result.stdout.fnmatch_lines(["vnc-use:   $0.0* test_it.py::test_around"])
    result.stdout.fnmatch_lines(["vnc-use: * runs planned by gemini*"])


NOWHERE = """
import pytest

class Desktop:
    server, password = "localhost::1", None

@pytest.fixture
def vnc_desktop():
    return Desktop()

@pytest.fixture
def vnc_planner():
    from pytest_vnc_use.planners.local.scripted import ScriptedPlanner
    return ScriptedPlanner([])

@pytest.fixture
def basket(vnc_agent):
    yield
    vnc_agent.check(False, "the basket is empty again")

@pytest.fixture
def broken(vnc_agent):
    vnc_agent.check(False, "the shop is open")
    raise LookupError("no basket")
"""
UNMET = "1 of 1 checks not met"
CHECKS = {
    "several(vnc_agent)": (
        "vnc_agent.check(False, 'a'); vnc_agent.check(True, 'b'); vnc_agent.check(False, 'c'); print('at the end')",
        ("failed", "product", "2 of 3 checks not met"),
    ),
    "skip(vnc_agent)": ("vnc_agent.check(False, 'a'); pytest.skip('b')", ("failed", "product", UNMET)),
    "raises(vnc_agent)": ("vnc_agent.check(False, 'a'); raise KeyError('b')", None),
    "teardown(basket)": ("...", ("error", "product", UNMET)),
    "setup(broken)": ("...", None),
}
"""By a test's name and fixtures: its body, and how it ends: result, triage and message."""


@pytest.mark.usefixtures("without_settings")
def test_unmet_check_fails_test_however_it_ends(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    pytester.makeconftest(NOWHERE)
    tests = (f"def test_{name}: {body}" for name, (body, _) in CHECKS.items())
    pytester.makepyfile(test_it="import pytest\n" + "\n".join(tests))
    result = pytester.runpytest_subprocess(*QUIET)
    ends = {name: (test.result, test.triage, test.message) for name, test in results().items()}
    wanted = {name.partition("(")[0]: end for name, (_, end) in CHECKS.items()}
    assert {name: end for name, end in ends.items() if wanted[name]} == {
        name: end for name, end in wanted.items() if end
    }
    assert "KeyError" in ends["raises"][2]
    assert "no basket" in ends["setup"][2]
    output = result.stdout.str()
    assert output.count("product: 1 of 1 checks not met") >= 2
    for told in ("at the end", "the basket is empty again", "the shop is open", "KeyError: 'b'"):
        assert told in output


WRONG_ARGUMENTS = [
    *(({"expect": claims}, "expect=…) must be a claim or several, got ") for claims in (" ", ["a", ""], [3], False)),
    *(({"votes": votes}, "votes=…) must be an odd number, at least 1, got ") for votes in (2, "three")),
    ({"step": 3}, " has no argument 'step'"),
    ({"record": "sometimes"}, "record=…) must be one of auto, replay, accept, rewrite, manual, off, got 'sometimes'"),
    ({"secrets": [3]}, "secrets=…) must name environment variables, got "),
    ({"app": 3}, "app=…) must be a command line in one string, got 3"),
]


@pytest.mark.parametrize(("arguments", "problem"), WRONG_ARGUMENTS)
def test_wrong_marker_argument_is_rejected(arguments: dict[str, object], problem: str) -> None:
    with pytest.raises(SettingsError) as raised:
        task_spec(("Open the basket",), arguments)
    assert problem in str(raised.value)
