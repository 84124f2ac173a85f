"""Runs that fixtures make, before the test's call and after it: the reports show them, and what they cost."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_vnc_use.report.results import ItemResult, read_results
from support.gemini_server import GeminiServer, text

pytestmark = pytest.mark.desktop

RUNS = """
import pytest

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

@pytest.fixture
def closed(vnc_agent):
    vnc_agent.run("Look whether it is open", expect=None)
    pytest.skip("the shop is closed")

def test_around(basket, vnc_agent):
    vnc_agent.run("Buy it", expect=None)

def test_setup(broken): ...

def test_skipped(closed): ...
"""
HOLDS = text(json.dumps({"reason": "I see it.", "verdict": "holds", "box_2d": None}))
DONE = text("done")


def results_by_name() -> dict[str, ItemResult]:
    return {test.test.rpartition("::")[2]: test for test in read_results(Path("runs/vnc-results.json")).tests}


def test_all_runs_are_told_of(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(test_it=RUNS)
    server = model(DONE, DONE, HOLDS, DONE, DONE, DONE)
    result = run(server, "--vnc-scope=session", "--html=report.html", "--junit-xml=junit.xml", "-ojunit_family=xunit1")
    result.assert_outcomes(passed=1, skipped=1, errors=1)
    tests = results_by_name()
    tasks = {name: [each.task for each in test.runs] for name, test in tests.items()}
    assert tasks == {
        "test_around": ["Fill the basket", "Buy it", "Empty the basket"],
        "test_setup": ["Open the shop"],
        "test_skipped": ["Look whether it is open"],
    }
    assert [len(each.verdicts) for each in tests["test_around"].runs] == [0, 1, 0]
    assert (tests["test_around"].result, tests["test_setup"].triage) == ("passed", "inconclusive")
    page = (pytester.path / "report.html").read_text(encoding="utf-8")
    for task in itertools.chain(*tasks.values()):
        assert task in page, task
    folders = [each.folder for test in tests.values() for each in test.runs]
    assert sorted(folders) == sorted(runs_in_junit(pytester.path / "junit.xml"))
    result.stdout.fnmatch_lines(["vnc-use: 5 runs planned by gemini*"])


def runs_in_junit(file: Path) -> list[str]:
    properties = ElementTree.parse(file).getroot().iter("property")
    return [str(each.get("value")) for each in properties if each.get("name") == "vnc_run"]


def test_what_they_cost_is_told(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(test_it=RUNS)
    result = run(model(DONE, DONE, HOLDS, DONE, DONE, DONE), "--vnc-scope=session")
    tests = results_by_name()
    a_call = tests["test_setup"].dollars
    assert a_call
    assert tests["test_skipped"].dollars == pytest.approx(a_call)
    assert tests["test_around"].dollars == pytest.approx(4 * a_call, abs=1e-5)
    result.stdout.fnmatch_lines(["vnc-use: 6 calls of models, 9,000 tokens in (1,800 of them cached), 600 out: $0.0*"])
    result.stdout.fnmatch_lines(["vnc-use:   $0.0* test_it.py::test_around"])


def test_each_attempt_is_paid_once(
    pytester: pytest.Pytester, model: Callable[..., GeminiServer], run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.fixture
        def twice(vnc_agent, tmp_path_factory):
            vnc_agent.run("Open the shop", expect=None)
            seen = tmp_path_factory.getbasetemp() / "seen"
            if not seen.exists():
                seen.touch()
                raise LookupError("no basket")
            yield
            vnc_agent.run("Close it", expect=None)

        def test_it(twice, vnc_agent): vnc_agent.run("Buy it", expect=None)
        """
    )
    result = run(model(DONE, DONE, DONE, DONE), "--reruns=1")
    result.assert_outcomes(passed=1)
    (test,) = results_by_name().values()
    assert [each.task for each in test.runs] == ["Open the shop", "Open the shop", "Buy it", "Close it"]
    assert test.dollars == pytest.approx(sum(each.dollars or 0.0 for each in test.runs), abs=1e-5)
    assert test.retried_for == ("inconclusive",)
    result.stdout.fnmatch_lines(["vnc-use: 4 calls of models, *", "vnc-use: 4 runs planned by gemini*"])
