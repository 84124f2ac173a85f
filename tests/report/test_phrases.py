"""A run's facts as a reader finds them."""

from __future__ import annotations

import pytest

from pytest_vnc_use.report import phrases
from pytest_vnc_use.runs.folder import read_trace
from pytest_vnc_use.types import (
    ApprovalAsked,
    CallFunction,
    Click,
    Drag,
    Drifted,
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
    Times,
    TraverseHistory,
    TypeText,
    Usage,
    Verdict,
    Wait,
)


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
def test_an_action(action, text):
    assert phrases.action_in_words(action) == text


@pytest.mark.parametrize(
    ("ruling", "text"),
    [
        (Ruling("allow", "harmless", "nothing forbids it"), ""),
        (Ruling("allow", "rule 2", "the model asks"), "allowed by the policy: rule 2: the model asks"),
        (Ruling("allow", "rule 2", "rule 2: said yes", by="person"), "allowed by a person: rule 2: said yes"),
        (Ruling("deny", "rule 1", "rule 1 (in p.toml)"), "denied by the policy: rule 1 (in p.toml)"),
        (Ruling("ask", "no rule matches", "it pays"), "waits for a yes: no rule matches: it pays"),
    ],
)
def test_a_ruling_is_told_unless_plainly_harmless(ruling, text):
    assert phrases.ruling_in_words(ruling) == text


def test_a_step_tells_how_the_screen_answered_and_where_its_time_went(make_step):
    step = make_step(1, Wait(), settled="nothing_changed", times=Times(1.25, 0.0, 0.5, 0.03))
    expected = "nothing changed on the screen; model 1.25 s + settle 0.50 s + capture 0.03 s"
    assert phrases.timing_in_words(step) == expected
    assert phrases.timing_in_words(make_step(2, Wait())) == ""


@pytest.mark.parametrize(
    ("planner", "model", "text"),
    [
        ("scripted", "", "scripted planner, no model was asked"),
        ("scripted (basket)", "", "scripted planner, no model was asked"),
        ("gemini (g-3)", "", "gemini (g-3)"),
        ("gemini (g-3)", "g-3", "gemini (g-3)"),
        ("gemini (g-3)", "g-4-001", "gemini (g-3), answered by g-4-001"),
        ("scripted", "g-3", "scripted, answered by g-3"),
    ],
)
def test_who_decided(write_run, make_step, planner, model, text):
    run = write_run([make_step(1, Wait())], planner=planner, model=model)
    assert phrases.planner_in_words(read_trace(run)) == text


def test_a_model_that_judged_a_scripted_run_is_not_denied(write_run):
    run = write_run(events=[Judged(Verdict("it holds", "holds", "seen", model="g-3"))])
    assert phrases.planner_in_words(read_trace(run)) == "scripted planner, no model was asked to plan"


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.WAITING])
def test_no_outcome_is_shown_as_success(write_run, outcome):
    text, tone = phrases.outcome_in_words(read_trace(write_run(end=RunEnded(outcome, ""))))
    assert text.startswith(outcome.value.split("_")[0])
    assert tone != "good"


@pytest.mark.parametrize(
    ("planner", "drifted", "told"),
    [
        ("recording", False, "carried out as recorded"),
        ("recording, or where that drifts gemini (g-3)", False, "carried out as recorded"),
        ("recording, or where that drifts gemini (g-3)", True, "done, says the planner"),
        ("gemini (g-3)", False, "done, says the planner"),
        ("a person", False, "done by a person"),
    ],
)
def test_a_run_that_no_model_did_is_told_as_one(write_run, frames, planner, drifted, told):
    drift = Drifted("other", frames[0].ref, frames[1].ref, Region(0, 0, 9, 9), healed=True)
    run = write_run(end=RunEnded(Outcome.DONE, ""), planner=planner, events=[drift] if drifted else [])
    assert phrases.outcome_in_words(read_trace(run)) == (told, "plain")


def test_a_run_that_broke(write_run):
    assert phrases.outcome_in_words(read_trace(write_run(end=RunEnded(None, "", "ConnectionLost")))) == ("broke", "bad")


def test_a_run_without_an_end(write_run):
    text, tone = phrases.outcome_in_words(read_trace(write_run()))
    assert "killed" in text
    assert tone == "bad"


def test_a_run_that_waits(write_run):
    asked = ApprovalAsked(1, Proposal(Wait()), Ruling("ask", "no rule matches"))
    assert phrases.outcome_in_words(read_trace(write_run(events=[asked]))) == ("waits for approval", "doubt")


def test_tokens_and_seconds_are_summed(write_run, make_step):
    steps = [make_step(number, Wait(), times=Times(1.5, 0.25, 0.25, 0.0)) for number in (1, 2)]
    verdict = Judged(Verdict("it holds", "holds", "seen", usage=Usage(1000, 0, 5)))
    trace = read_trace(write_run(steps, usage=Usage(10, 4, 3, 2), events=[verdict]))
    assert phrases.usage_in_words(trace) == "1,020 in (8 cached), 11 out + 4 thinking"
    assert phrases.duration_in_words(trace) == "4.0 s, of which the model 3.0 s"


def test_a_run_that_asked_no_model_has_no_tokens(write_run, make_step):
    assert phrases.usage_in_words(read_trace(write_run([make_step(1, Wait())]))) == ""
