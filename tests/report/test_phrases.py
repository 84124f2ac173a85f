"""A run's facts as a reader finds them."""

from __future__ import annotations

import pytest

from pytest_vnc_use.report import phrases
from pytest_vnc_use.runs.directory import read_trace
from pytest_vnc_use.types import (
    ApprovalAsked,
    Drift,
    FrameRef,
    Outcome,
    Proposal,
    Region,
    Ruling,
    RunEnded,
    Wait,
)

FRAME = FrameRef("0" * 64, 320, 200)
DRIFT = Drift("other", FRAME, FRAME, Region(0, 0, 9, 9), healed=True)
ASKED = ApprovalAsked(1, Proposal(Wait()), Ruling("ask", "no rule matches"))
DONE = RunEnded(Outcome.DONE, "")


@pytest.mark.parametrize(
    ("planner", "events", "end", "text"),
    [
        ("recording", [], DONE, ("replayed as recorded", "plain")),
        ("recording, or where that drifts g", [DRIFT], DONE, ("done, says the planner", "plain")),
        ("gemini (g-3)", [], DONE, ("done, says the planner", "plain")),
        ("manual", [], DONE, ("done by a user", "plain")),
        ("scripted", [], RunEnded(None, "", "ConnectionLost"), ("failed with an error", "bad")),
        ("scripted", [], None, ("no end recorded: still running, or killed", "bad")),
        ("scripted", [ASKED], None, ("waits for approval", "doubt")),
        ("scripted", [], RunEnded(Outcome.GAVE_UP, ""), ("gave up", "doubt")),
        ("scripted", [], RunEnded(Outcome.STEP_LIMIT, ""), ("step limit reached", "doubt")),
        ("scripted", [], RunEnded(Outcome.TIME_LIMIT, ""), ("time limit reached", "doubt")),
        ("scripted", [], RunEnded(Outcome.BUDGET, ""), ("budget used up", "doubt")),
        ("scripted", [], RunEnded(Outcome.DENIED, ""), ("denied", "bad")),
        ("scripted", [], RunEnded(Outcome.BLOCKED, ""), ("blocked", "bad")),
    ],
)
def test_no_outcome_is_shown_as_success(write_run, planner, events, end, text) -> None:
    assert phrases.format_outcome(read_trace(write_run(end=end, planner=planner, events=events))) == text
