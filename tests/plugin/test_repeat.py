"""`--vnc-repeat`: how often a test passed, what that means, and where runs part."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import cycle

import pytest

from pytest_vnc_use.report.reliability import reliabilities, wilson_interval
from pytest_vnc_use.report.results import ItemResult
from support.gemini_server import GeminiServer, Reply, Request, calls, text
from support.pad_sessions import QUIET

Run = Callable[..., pytest.RunResult]

TWO_WAYS = """
import pytest

@pytest.mark.vnc_task("Open the menu, type the word and save it", expect=None)
def test_it(vnc_desktop):
    assert "text g" in vnc_desktop.read_file("events.txt")
"""


def test_interval_is_wilsons() -> None:
    """Of 81 in 263: Newcombe, Statistics in Medicine 17 (1998), table I."""
    assert wilson_interval(81, 263) == (
        pytest.approx(0.2553, abs=1e-4),
        pytest.approx(0.3662, abs=1e-4),
    )


def test_reliability_counts_first_attempts_without_skips() -> None:
    tests = [
        ItemResult(f"t.py::test_size[small-run2-run{number}]", "failed")
        for number in (1, 2, 3)
    ]
    tests += [
        ItemResult(f"t.py::test_skips[run{number}]", result)
        for number, result in ((1, "passed"), (2, "skipped"))
    ]
    tests += [ItemResult("t.vnc.toml::pay[prune1][run1]", "passed")]
    tests += [
        ItemResult("t.py::test_later[run1]", "passed", retried_for=("product",)),
        ItemResult("t.py::b", "passed"),
    ]
    counted = {
        each.test: (each.passed, each.repeated) for each in reliabilities(tests, 3)
    }
    assert counted == {
        "t.py::test_size[small-run2]": (0, 3),
        "t.py::test_skips": (1, 1),
        "t.py::test_later": (0, 1),
        "t.vnc.toml::pay[prune1]": (1, 1),
    }
    assert reliabilities(tests, 1) == ()


@pytest.mark.parametrize(
    ("passed", "runs", "meaning"),
    [
        (
            8,
            8,
            "which rules out that it fails 1 run in 3, but not that it fails less often",
        ),
        (100, 100, "which rules out that it fails 1 run in 33, but not"),
        (5, 5, "which rules out that it fails 1 run in 2, but not"),
        (4, 4, "too few to rule out that it fails 1 run in 2"),
        (2, 4, "and of 100 more runs 15 to 85 would pass"),
        (0, 4, "and of 100 more runs 0 to 49 would pass"),
    ],
)
def test_reliability_in_plain_words(passed: int, runs: int, meaning: str) -> None:
    results = ["passed"] * passed + ["failed"] * (runs - passed)
    tests = [
        ItemResult(f"t.py::test_it[run{number}]", result)
        for number, result in enumerate(results, start=1)
    ]
    (row,) = reliabilities(tests, runs)
    assert row.meaning.startswith(f"passed {passed} of {runs} runs, {meaning}")


@pytest.mark.slow
@pytest.mark.desktop
def test_repeated_test_is_reported_with_divergence(
    pytester: pytest.Pytester, run: Run
) -> None:
    words = cycle(["good", "bad"])

    def decide(request: Request) -> Reply:
        match sum(content["role"] == "model" for content in request.contents):
            case 0:
                return calls(("click", {"x": 5, "y": 5}))
            case 1:
                return calls(
                    ("type", {"text": next(words)}), words="Now type the word."
                )
        return text("done")

    pytester.makepyfile(test_menu=TWO_WAYS)
    with GeminiServer(decide) as server:
        result = run(
            server, "--vnc-repeat=4", "--html=report.html", "--self-contained-html"
        )
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            (
                "vnc-use: test_menu.py::test_it: passed 2 of 4 runs, and of 100 more"
                " runs 15 to 85 would pass"
            ),
            "vnc-use:   its runs part at step 2, probably in 'type the word':",
            "vnc-use:     run1: 2 type_text(text='good'*",
            "vnc-use:     run2: 2 type_text(text='bad'*",
        ]
    )
    (figures,) = json.loads((pytester.path / "runs" / "vnc-results.json").read_text())[
        "reliability"
    ]
    assert (figures["repeated"], figures["passed"], figures["rate"]) == (4, 2, 0.5)
    assert figures["divergence"]["step"] == 2
    page = (pytester.path / "report.html").read_text()
    assert "Runs part at step 2" in page
    links = re.findall(r'<a href="(runs/[^"]+)#step-2">its screenshots</a>', page)
    assert [(pytester.path / link).is_file() for link in links] == [True, True]


def test_repetition_keeps_authored_name(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        from pytest_vnc_use.plugin.markers import authored_name

        @pytest.fixture
        def vnc_desktop(): ...

        @pytest.mark.parametrize(("fruit", "count"), [("apple", "1-2")])
        def test_it(request, vnc_desktop, fruit, count):
            assert authored_name(request.node) == ("test_it[apple-1-2]", {"fruit", "count"})
        """)
    pytester.runpytest_subprocess("--vnc-repeat=2", *QUIET).assert_outcomes(passed=2)
