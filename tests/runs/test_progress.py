"""The line that says where a run is."""

from __future__ import annotations

import re

import pytest

from pytest_vnc_use.plain_text import columns_of
from pytest_vnc_use.runs.progress import Progress
from pytest_vnc_use.runs.redaction import Redactor
from pytest_vnc_use.types import (
    NO_FRAME,
    Click,
    GateAwaited,
    Limits,
    ModelAsked,
    ModelExchange,
    Outcome,
    Proposal,
    Ruling,
    RunEnded,
    RunEvent,
    RunStarted,
    Step,
    StepFinished,
    StepStarted,
    Usage,
)

STARTED = RunStarted("id", "Buy", "now", "gemini (m)", NO_FRAME, limits=Limits(steps=40))
ASKED = ModelAsked("planner", "gemini-m", 10, 1, 100)
PROPOSAL, RULING = Proposal(Click(1, 2), "open the basket"), Ruling("allow", "policy")
BEGAN = StepStarted(3, 3, PROPOSAL, RULING)
FINISHED = StepFinished(Step(3, 3, PROPOSAL, RULING, NO_FRAME, NO_FRAME))


def answered(dollars: float | None = 0.041, retry_in_s: float | None = None, error: str = "") -> ModelExchange:
    return ModelExchange(
        "planner", 1, {}, {}, 2.0, error, retry_in_s, model="gemini-m", usage=Usage(9, 0, 9), dollars=dollars
    )


def text_after(*events: RunEvent, columns: int = 100, hide: Redactor | None = None) -> str:
    progress = Progress("test_basket", (hide or Redactor({})).hide_pieces)
    for event in events:
        progress.observe(event)
    return re.sub(r"\d+ s([,)])", r"N s\1", progress.text(columns))


def test_it_says_test_step_action_seconds_and_cents() -> None:
    assert text_after(STARTED) == "test_basket: step 0 of 40: waits for gemini (m) (N s)"
    assert text_after(STARTED, ASKED) == "test_basket: step 0 of 40: asks gemini-m (N s)"
    began = text_after(STARTED, ASKED, answered(), BEGAN)
    assert began == "test_basket: step 3 of 40: open the basket (N s, 4.1 cents)"
    asked = text_after(STARTED, BEGAN, FINISHED, ASKED)
    assert asked == "test_basket: step 3 of 40: asks gemini-m, last: open the basket (N s)"
    assert text_after(STARTED, answered(0.0004)).endswith("(N s, 0.04 cents)")
    assert text_after(STARTED, answered(None), answered()).endswith("(N s, price unknown)")


def test_waits_are_counted_down() -> None:
    awaited = text_after(STARTED, GateAwaited(7.9))
    assert awaited == "test_basket: step 0 of 40: waits for the recorded screen, 8 s left (N s)"
    retried = text_after(STARTED, ASKED, answered(None, 4.0, "503"))
    assert "asks gemini-m again in 4 s: 503" in retried


@pytest.mark.parametrize("columns", [20, 33, 60, 200])
def test_no_text_leaves_its_line(columns: int) -> None:
    nasty = Proposal(Click(1, 2), "\x1b[2J\x1b]0;title\x07\r\n\u202e" + "篮子" * 99)
    line = text_after(STARTED, StepStarted(1, 1, nasty, RULING), columns=columns)
    assert columns_of(line) <= columns
    assert line.isprintable()


def test_no_secret_is_shown() -> None:
    hide = Redactor({"PASSWORD": "hunter2hunter2"})
    for intent in "type hunter2hunter2", "type hunter2\x1b[1mhunter2 hunter2\nhunter2", "x" * 38 + "hunter2hunter2":
        line = text_after(STARTED, StepStarted(1, 1, Proposal(Click(1, 2), intent), RULING), columns=80, hide=hide)
        assert "hunter2" not in line


def test_it_goes_on_while_run_or_question_does() -> None:
    progress = Progress("", str)
    assert not progress.goes_on
    for event, goes_on in (
        (STARTED, True),
        (answered(), True),
        (RunEnded(Outcome.DONE, ""), False),
        (ModelAsked("judge", "m", 1, 1, 1), True),
        (answered(retry_in_s=1.0), True),
        (answered(), False),
    ):
        progress.observe(event)
        assert progress.goes_on is goes_on
