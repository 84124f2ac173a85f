"""Claims as a test has them: soft checks at its end, values that it reads, what markers and options may say."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.markers import task_spec
from support.gemini_server import GeminiServer, Reply, calls, text

CLICK = ("click", {"x": 500, "y": 500, "intent": "open the basket"})
Model = Callable[..., GeminiServer]
Run = Callable[..., pytest.RunResult]


def says(verdict: str, reason: str = "") -> Reply:
    told = {"reason": reason or f"I see that it {verdict}", "verdict": verdict, "box_2d": [0, 0, 500, 500]}
    return text(json.dumps(told))


def value(read: Any) -> Reply:
    return text(json.dumps({"reason": "it is written there", "value": read, "box_2d": [0, 0, 500, 500]}))


@pytest.mark.desktop
def test_soft_checks_are_told_at_the_end_of_the_test(pytester: pytest.Pytester, model: Model, run: Run) -> None:
    pytester.makepyfile(
        """
        import pytest

        def test_it(vnc_agent):
            assert not vnc_agent.check("the basket is open")
            vnc_agent.check("it shows 2 apples")
            assert not vnc_agent.check(1 + 1 == 3, "the total is 3.00")
            print("came to the end")

        @pytest.mark.vnc_task("Open the basket", expect=None)
        def test_with_a_task(vnc_agent):
            vnc_agent.check("the basket is open")

        def test_that_breaks(vnc_agent):
            vnc_agent.check(False, "the total is 3.00")
            raise KeyError("apples")
        """
    )
    replies = [says("fails"), says("holds"), text("done"), says("unsure")]
    result = run(model(*replies))
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "*2 of 3 checks not met*",
            "*fails: 'the basket is open': I see that it fails*",
            "*the total is 3.00*",
            "*came to the end*",
            "*1 of 1 checks not met*",
            "*unsure: 'the basket is open': I see that it unsure*",
            "*KeyError: 'apples'*",
            "*checks*",
            "*1 of 1 checks not met*",
            "*the total is 3.00*",
        ]
    )


@pytest.mark.desktop
def test_an_unsure_judge_shows_neither_presence_nor_absence(pytester: pytest.Pytester, model: Model, run: Run) -> None:
    pytester.makepyfile(
        test_it="""
        def test_there(vnc_agent):
            assert vnc_agent.assess("an error is shown")

        def test_absent(vnc_agent):
            assert not vnc_agent.assess("an error is shown")

        def test_absent_to_a_judge_that_is_sure(vnc_agent):
            assert not vnc_agent.assess("an error is shown")

        def test_another_question(vnc_agent):
            vnc_agent.verify("an error is shown")
        """
    )
    result = run(model(says("unsure"), says("unsure"), says("fails"), says("unsure")))
    result.assert_outcomes(passed=1, failed=3)
    told = "inconclusive: unsure: 'an error is shown': I see that it unsure"
    result.stdout.fnmatch_lines([told, "  at test_it.py:2", told, "  at test_it.py:5", "inconclusive: claim *unsure*"])
    result.stdout.fnmatch_lines(["vnc-use: 3 failed: 3 inconclusive"])


@pytest.mark.desktop
def test_what_is_read_is_a_value_of_the_tests_own_type(pytester: pytest.Pytester, model: Model, run: Run) -> None:
    pytester.makepyfile(
        """
        import pytest
        from decimal import Decimal
        from pydantic import BaseModel

        class Basket(BaseModel):
            apples: int
            total: Decimal

        @pytest.mark.vnc_task("Open the basket", expect=None)
        def test_it(vnc_agent):
            basket = vnc_agent.extract(Basket, "what is in the basket?")
            assert basket == Basket(apples=2, total="3.00")
            assert vnc_agent.extracted[-1].region is not None
            vnc_agent.extract(Basket, "and now?")
        """
    )
    replies = [value({"apples": 2, "total": "3.00"}), value({"apples": "two", "total": "3.00"})]
    result = run(model(calls(CLICK), text("done"), *replies), "--html=report.html", "--self-contained-html")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*the value is not a valid Basket: apples: Input should be a valid integer*got 'two'*", '*"apples": "two"*']
    )
    page = (pytester.path / "report.html").read_text(encoding="utf-8")
    assert "what is in the basket?" in page
    assert "it is no Basket" in page


def test_votes_that_cannot_be_counted_end_the_session(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--vnc-votes=2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--vnc-votes must be an odd number, at least 1, got '2'"])


@pytest.mark.parametrize("votes", [2, 0, -1, 1.5, "three"])
def test_votes_of_a_marker_that_cannot_be_counted(votes: object) -> None:
    with pytest.raises(SettingsError, match=r"vnc_task\(votes=…\) must be an odd number, at least 1, got "):
        task_spec(("Open the basket",), {"votes": votes})


@pytest.mark.parametrize("claims", ["", " ", ["it is open", ""], [3], False])
def test_claims_of_a_marker_that_cannot_be_judged(claims: object) -> None:
    with pytest.raises(SettingsError, match=r"vnc_task\(expect=…\) must be a claim or several, got "):
        task_spec(("Open the basket",), {"expect": claims})
