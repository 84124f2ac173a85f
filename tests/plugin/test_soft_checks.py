"""Soft checks that are not met fail their test, wherever they are made and however the test ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vnc_use.report.results import read_results

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
"""
QUIET = ("-p", "no:cacheprovider", "-p", "no:pytest-vnc")


@pytest.fixture(autouse=True)
def _nowhere(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    pytester.makeconftest(NOWHERE)


def results_told() -> list[tuple[str, str | None, str]]:
    tests = read_results(Path("runs/vnc-results.json")).tests
    return [(test.result, test.triage, test.message) for test in tests]


TOLD = "1 of 1 checks not met"


def test_where_the_agent_is_fetched_by_the_test(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VNC_USE_WATCH")
    monkeypatch.delenv("VNC_USE_REHEARSE")
    pytester.makepyfile(
        """
        def test_it(request):
            request.getfixturevalue("vnc_agent").check(False, "the total is 3.00")

        def test_met(request):
            request.getfixturevalue("vnc_agent").check(True, "the total is 3.00")
        """
    )
    result = pytester.runpytest_subprocess(*QUIET)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["product: 1 of 1 checks not met", "*the total is 3.00"])
    assert results_told() == [("error", "product", TOLD), ("passed", None, "")]


@pytest.mark.slow
def test_in_the_setup_and_the_teardown_of_a_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def basket(vnc_agent):
            yield
            vnc_agent.check(False, "the basket is empty again")

        @pytest.fixture
        def broken(vnc_agent):
            vnc_agent.check(False, "the shop is open")
            raise LookupError("no basket")

        def test_teardown(basket): ...

        def test_setup(broken): ...
        """
    )
    result = pytester.runpytest_subprocess(*QUIET)
    result.assert_outcomes(passed=1, errors=3)
    result.stdout.fnmatch_lines(["product: 1 of 1 checks not met", "*the basket is empty again", "*the shop is open"])
    assert results_told()[0] == ("error", "product", TOLD)


@pytest.mark.slow
@pytest.mark.parametrize("skip", ["pytest.skip('no apples')", "raise unittest.SkipTest('no apples')"])
def test_before_a_skip(pytester: pytest.Pytester, skip: str) -> None:
    pytester.makepyfile(
        f"""
        import unittest
        import pytest

        def test_it(vnc_agent):
            vnc_agent.check(False, "the total is 3.00")
            {skip}

        def test_met(vnc_agent):
            vnc_agent.check(True, "the total is 3.00")
            {skip}
        """
    )
    result = pytester.runpytest_subprocess(*QUIET)
    result.assert_outcomes(failed=1, skipped=1)
    result.stdout.fnmatch_lines(["*product: 1 of 1 checks not met", "*the total is 3.00"])
    assert results_told() == [("failed", "product", TOLD), ("skipped", None, "")]


@pytest.mark.slow
def test_what_was_told_once_is_not_told_again(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(vnc_agent): vnc_agent.check(False, 'the total is 3.00')")
    pytester.runpytest_subprocess(*QUIET).assert_outcomes(failed=1)
