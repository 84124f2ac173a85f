"""A run's facts as a reader finds them."""

from __future__ import annotations

import pytest

from pytest_vnc_use.report import phrases
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.runs.transcript import action_in_words
from pytest_vnc_use.types import (
    ApprovalAsked,
    CallFunction,
    Click,
    Drag,
    Drifted,
    FrameRef,
    InvalidAction,
    Judged,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    Move,
    OpenAddress,
    Outcome,
    Proposal,
    Region,
    Ruling,
    RunEnded,
    Scroll,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Usage,
    Verdict,
    Wait,
)

FRAME = FrameRef("0" * 64, 320, 200)
DRIFT = Drifted("other", FRAME, FRAME, Region(0, 0, 9, 9), healed=True)
ASKED = ApprovalAsked(1, Proposal(Wait()), Ruling("ask", "no rule matches"))


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (Click(1, 2), "click at (1, 2)"),
        (Click(1, 2, count=2), "double-click at (1, 2)"),
        (Click(1, 2, "right"), "right click at (1, 2)"),
        (MouseDown(1, 2), "press the left button at (1, 2)"),
        (MouseUp(1, 2, "middle"), "release the middle button at (1, 2)"),
        (Move(1, 2), "move to (1, 2)"),
        (Drag(1, 2, 3, 4), "drag from (1, 2) to (3, 4)"),
        (Scroll(1, 2, "down", 5), "scroll down by 5 at (1, 2)"),
        (Scroll(1, 2, "up", by="keys"), "scroll up by 3 at (1, 2), by keys"),
        (TypeText('say "ä"\n'), 'type "say \\"ä\\"\\n"'),
        (TypeText("a", 0, 2, True, True), 'type "a" over what was there at (0, 2), then press Enter'),
        (KeyCombo(("ctrl", "shift", "p")), "press ctrl+shift+p"),
        (KeyDown("shift"), "hold down shift"),
        (KeyUp("shift"), "release shift"),
        (OpenAddress("example.org"), 'open the address "example.org"'),
        (OpenAddress("about:blank", in_new_window=True), 'open in a new window the address "about:blank"'),
        (TraverseHistory("back"), "go back in the browser's history"),
        (Wait(0.5), "wait 0.5 s"),
        (TakeScreenshot(), "look again"),
        (CallFunction("order_count", {"user": "alice", "days": 3}), 'call order_count(user="alice", days=3)'),
        (InvalidAction("bash", "no hand can do it"), "bash, which cannot be done: no hand can do it"),
    ],
)
def test_action_in_words(action, text) -> None:
    assert action_in_words(action) == text


@pytest.mark.parametrize(
    ("ruling", "text"),
    [
        (Ruling("allow", "harmless", "nothing forbids it"), ""),
        (Ruling("allow", "rule 2", "the model asks"), "allowed by the policy: rule 2: the model asks"),
        (Ruling("allow", "rule 2", "rule 2: said yes", by="person"), "allowed by a user: rule 2: said yes"),
        (Ruling("deny", "rule 1", "rule 1 (in p.toml)"), "denied by the policy: rule 1 (in p.toml)"),
        (Ruling("ask", "no rule matches", "it pays"), "waits for approval: no rule matches: it pays"),
    ],
)
def test_ruling_in_words(ruling, text) -> None:
    assert phrases.ruling_in_words(ruling) == text


@pytest.mark.parametrize(
    ("planner", "model", "judge", "text"),
    [
        ("scripted (basket)", "", "", "scripted planner, no model was asked"),
        ("scripted", "", "g-3", "scripted planner, no model was asked to plan"),
        ("gemini (g-3)", "", "", "gemini (g-3)"),
        ("gemini (g-3)", "g-3", "", "gemini (g-3)"),
        ("gemini (g-3)", "g-4-001", "", "gemini (g-3), answered by g-4-001"),
        ("scripted", "g-3", "", "scripted, answered by g-3"),
    ],
)
def test_planner_in_words(write_run, make_step, planner, model, judge, text) -> None:
    judged = [Judged(Verdict("it holds", "holds", "seen", model=judge))] if judge else []
    run = write_run([make_step(1, Wait())], planner=planner, model=model, events=judged)
    assert phrases.planner_in_words(read_trace(run)) == text


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.WAITING])
def test_no_outcome_is_shown_as_success(write_run, outcome) -> None:
    text, tone = phrases.outcome_in_words(read_trace(write_run(end=RunEnded(outcome, ""))))
    assert text.startswith(outcome.value.split("_")[0])
    assert tone != "good"


@pytest.mark.parametrize(
    ("planner", "events", "end", "text"),
    [
        ("recording", [], RunEnded(Outcome.DONE, ""), ("replayed as recorded", "plain")),
        ("recording, or where that drifts g", [DRIFT], RunEnded(Outcome.DONE, ""), ("done, says the planner", "plain")),
        ("gemini (g-3)", [], RunEnded(Outcome.DONE, ""), ("done, says the planner", "plain")),
        ("a person", [], RunEnded(Outcome.DONE, ""), ("done by a user", "plain")),
        ("scripted", [], RunEnded(None, "", "ConnectionLost"), ("failed with an error", "bad")),
        ("scripted", [], None, ("no end recorded: still running, or killed", "bad")),
        ("scripted", [ASKED], None, ("waits for approval", "doubt")),
    ],
)
def test_outcome_in_words(write_run, planner, events, end, text) -> None:
    assert phrases.outcome_in_words(read_trace(write_run(end=end, planner=planner, events=events))) == text


def test_tokens_of_planner_and_judge_are_summed(write_run, make_step) -> None:
    judged = [Judged(Verdict("it", "holds", "", usage=Usage(1000, 0, 5)))]
    steps = [make_step(number, Wait()) for number in (1, 2)]
    usage = read_trace(write_run(steps, usage=Usage(10, 4, 3, 2), events=judged)).usage
    assert phrases.tokens_in_words(usage) == "1,020 in (8 cached), 11 out + 4 thinking"
    assert phrases.tokens_in_words(Usage()) == ""
