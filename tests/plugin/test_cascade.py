"""Planners chosen by cost: the next goes on where one gives up, circles, or takes the task for done too soon."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest

from support.gemini_rules import Request
from support.gemini_server import GeminiServer, Reply, calls, text

pytestmark = pytest.mark.desktop

WEAK, STRONG = "gemini-3.5-flash-lite", "gemini-3.8-flash"
BOTH = "--vnc-planner=gemini:flash-lite,gemini:flash"
ONE_TEST = """
import pytest

@pytest.mark.vnc_task("Click it"{marker})
def test_it(vnc_agent):
    assert vnc_agent.runs
"""
GIVES_UP = calls(("task_failed", {"reason": "there is no basket"}))

Run = Callable[..., pytest.RunResult]


def verdict(kind: str) -> Reply:
    return text(json.dumps({"reason": f"it {kind}", "verdict": kind, "box_2d": None}))


class TwoModels:
    """Two models by name, and a judge, each with its replies; the last reply is given for ever."""

    def __init__(self, weak: list[Reply], strong: list[Reply], judged: list[Reply]) -> None:
        self.replies = {WEAK: weak, STRONG: strong, "judge": judged}
        self.asked: list[tuple[str, Request]] = []

    def __call__(self, request: Request) -> Reply:
        who = request.model if request.computer_use else "judge"
        self.asked.append((who, request))
        replies = self.replies[who]
        return replies.pop(0) if len(replies) > 1 else replies[0]

    @property
    def counted(self) -> Counter[str]:
        return Counter(who for who, _ in self.asked)

    def words_to(self, who: str) -> str:
        return json.dumps([request.contents for asked, request in self.asked if asked == who])


@pytest.mark.parametrize(
    ("weak", "judged", "expect", "reason"),
    [
        ([GIVES_UP], [verdict("holds")], ', expect="it is clicked"', "gave up: there is no basket"),
        (
            [calls(("move", {"x": 5, "y": 5}))],
            [verdict("holds")],
            ', expect="it is clicked"',
            "kept repeating the same action on the same screen",
        ),
        (
            [calls(*[("move", {"x": 5, "y": 5})] * 8)],
            [verdict("holds")],
            ', expect="it is clicked"',
            "kept repeating the same action on the same screen",
        ),
        (
            [text("done")],
            [verdict("fails"), verdict("holds")],
            ', expect="it is clicked"',
            "took it for done, but 'it is clicked' fails: it fails",
        ),
        (
            [text("done")],
            [verdict("fails"), verdict("holds")],
            "",
            "took it for done, but 'The screen shows*",
        ),
    ],
    ids=["gives up", "circles", "circles in one answer", "claim fails", "end state fails"],
)
def test_the_next_planner_goes_on(
    pytester: pytest.Pytester, run: Run, weak: list[Reply], judged: list[Reply], expect: str, reason: str
) -> None:
    pytester.makepyfile(ONE_TEST.format(marker=expect))
    models = TwoModels(list(weak), [calls(("click", {"x": 500, "y": 500})), text("done")], list(judged))
    with GeminiServer(models) as server:
        result = run(server, BOTH, "-v")
    result.assert_outcomes(passed=1)
    assert models.counted[STRONG] == 2
    change = f"gemini ({STRONG}) goes on, as gemini ({WEAK}) {reason}*"
    result.stdout.fnmatch_lines([f"*{change}", "vnc-use:   1 change of planner*"])
    told = models.words_to(STRONG)
    assert "Another model tried this before you" in told
    (test,) = json.loads((pytester.path / "runs" / "vnc-results.json").read_text())["tests"]
    (ran,) = test["runs"]
    assert (ran["planner_changes"], ran["models"]) == (1, [f"{WEAK}-001", f"{STRONG}-001"])
    dollars = {WEAK: 1200 * 0.30 + 300 * 0.03 + 100 * 2.50, STRONG: 1200 * 0.75 + 300 * 0.075 + 100 * 3.75}
    paid = models.counted[WEAK] * dollars[WEAK] + (models.counted[STRONG] + models.counted["judge"]) * dollars[STRONG]
    assert test["dollars"] == pytest.approx(paid / 1e6, abs=1e-6)


def test_a_weak_planner_that_suffices_is_the_only_one_asked(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(ONE_TEST.format(marker=', expect="it is clicked"'))
    models = TwoModels([calls(("click", {"x": 500, "y": 500})), text("done")], [text("no")], [verdict("holds")])
    with GeminiServer(models) as server:
        result = run(server, BOTH)
    result.assert_outcomes(passed=1)
    assert models.counted == {WEAK: 2, "judge": 2}
    result.stdout.no_fnmatch_line("*change of planner*")


def test_the_word_of_the_last_stands(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(ONE_TEST.format(marker=', expect="it is clicked"'))
    models = TwoModels([GIVES_UP], [GIVES_UP], [verdict("fails")])
    with GeminiServer(models) as server:
        result = run(server, BOTH)
    result.assert_outcomes(failed=1)
    assert models.counted == {WEAK: 1, STRONG: 1}
    result.stdout.fnmatch_lines(["*agent: *there is no basket*"])


@pytest.mark.slow
def test_the_next_planner_may_try_the_same_again(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(ONE_TEST.format(marker=', expect="it is clicked"'))
    tried = calls(("move", {"x": 5, "y": 5}))
    strong = [tried, calls(("click", {"x": 500, "y": 500})), text("done")]
    models = TwoModels([tried], strong, [verdict("holds")])
    with GeminiServer(models) as server:
        result = run(server, BOTH)
    result.assert_outcomes(passed=1)
    assert models.counted == {WEAK: 3, STRONG: 3, "judge": 1}


def test_the_next_planner_is_told_no_secret_and_no_endless_words(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2-of-the-shop")
    pytester.makepyfile(ONE_TEST.format(marker=', expect="it is clicked", secrets=["SHOP_PASSWORD"]'))
    gives_up = calls(("task_failed", {"reason": f"hunter2-of-the-shop is refused {'x' * 100_000}"}))
    models = TwoModels([gives_up], [calls(("click", {"x": 500, "y": 500})), text("done")], [verdict("holds")])
    with GeminiServer(models) as server:
        result = run(server, BOTH)
    result.assert_outcomes(passed=1)
    told = models.words_to(STRONG)
    assert "gave up: <secret:SHOP_PASSWORD> is refused xxx" in told
    assert "hunter2-of-the-shop" not in told
    assert "x" * 2000 not in told


@pytest.mark.slow
def test_the_last_planner_ends_the_run_where_it_circles(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(ONE_TEST.format(marker=', expect="it is clicked"'))
    circles = calls(*[("move", {"x": 5, "y": 5})] * 8)
    models = TwoModels([circles], [circles], [verdict("holds")])
    with GeminiServer(models) as server:
        result = run(server, BOTH)
    result.assert_outcomes(failed=1)
    assert models.counted == {WEAK: 1, STRONG: 1}
    result.stdout.fnmatch_lines(["*agent: *it kept repeating the same action on the same screen*"])


def test_the_limits_hold_over_all_planners(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(ONE_TEST.format(marker=", expect=None, steps=3"))
    models = TwoModels([GIVES_UP], [calls(("move", {"x": place, "y": 5})) for place in range(9)], [text("")])
    with GeminiServer(models) as server:
        result = run(server, BOTH)
    result.assert_outcomes(failed=1)
    assert models.counted == {WEAK: 1, STRONG: 3}
    result.stdout.fnmatch_lines(["*the limit of 3 steps was reached*"])
