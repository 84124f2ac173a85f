"""Claims without a model: only what the screen shows again holds again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_vnc_use.errors import Inconclusive
from pytest_vnc_use.recordings.evidence import RecordedJudge
from pytest_vnc_use.recordings.format import Evidence, Screen
from pytest_vnc_use.recordings.images import Pixels, frame_of
from pytest_vnc_use.runs.directory import RunDirectory, read_trace
from pytest_vnc_use.types import Region
from support.drawings import drawn
from support.fixed_judge import CLAIM, Says
from support.memory_desktop import PaintedController
from support.tills import ADD, STEPS, Steps, Tills

pytestmark = pytest.mark.desktop


@pytest.fixture(scope="module")
def judged_once(tmp_path_factory: pytest.TempPathFactory) -> Tills:
    """A recording with a claim that holds, one that fails, and a value that was read."""
    tills = Tills(tmp_path_factory.mktemp("judged"))
    with tills.agent("auto", Steps(*STEPS), judge=Says()) as played:
        played.run()
        assert played.agent.assess(CLAIM)
        played.agent._given_judge = Says("fails")
        assert not played.agent.assess("an error is shown")
        assert played.agent.extract(int, "how many apples?") == 2
        assert played.recorded.keep()
    return tills


@pytest.mark.slow
def test_recorded_answers_are_given_without_judge(judged_once: Tills) -> None:
    judge = Says("unsure")
    with judged_once.agent("auto", Steps(), judge=judge) as played:
        played.run()
        holds = played.agent.assess(CLAIM, votes=3)
        assert (holds.kind, holds.model) == ("holds", "")
        assert "the same as when this was judged: it says so" in holds.reason
        assert played.agent.assess("an error is shown").kind == "fails"
        assert played.agent.extract(int, "how many apples?") == 2
        assert not played.recorded.healed
        assert not played.recorded.keep()
    assert judge.asked == []


def test_other_evidence_without_judge_is_unsure(judged_once: Tills) -> None:
    with judged_once.agent("replay") as played:
        result = played.run()
        unknown = played.agent.assess("the till is red")
        played.agent.click(*ADD)
        verdict = played.agent.assess(CLAIM)
        with pytest.raises(Inconclusive, match="no planner can read 'how many apples"):
            played.agent.extract(int, "how many apples?")
    assert (unknown.kind, verdict.kind) == ("unsure", "unsure")
    assert "it has no recorded verdict" in unknown.reason
    assert "the screen differs from the judged one" in verdict.reason
    assert "no judge is configured; have it judged again" in verdict.reason
    drift = read_trace(result.run_dir).drifts[0]
    load = RunDirectory(result.run_dir).load_png
    assert load(drift.recorded) != load(drift.seen)
    assert drift.region is not None
    assert drift.region.meets(Region(60, 120, 460, 160))


@pytest.mark.slow
def test_other_evidence_is_judged_again_and_healed(judged_once: Tills, tmp_path: Path) -> None:
    shutil.copytree(judged_once.directory, tmp_path / "copy")
    tills, judge = Tills(tmp_path / "copy"), Says()
    with tills.agent("auto", Steps(), judge=judge) as played:
        played.run()
        played.agent.click(*ADD)
        assert played.agent.assess(CLAIM)
        assert judge.asked == [CLAIM]
        (healed,) = played.recorded.healed
        assert f"the evidence for {CLAIM!r} is not on the screen again" in healed
        assert played.recorded.keep()
    with tills.agent("replay") as played:
        played.run()
        played.agent.click(*ADD)
        assert played.agent.assess(CLAIM).kind == "holds"


SAVED, PASSING = drawn("saved"), drawn("saving …", (20, 160)) & drawn("saved")
"""The judged screen, and the recorded end: a line at the bottom was gone when the claim was judged."""


@pytest.mark.parametrize(
    ("shown", "region", "end", "kind"),
    [
        (PASSING, Region(10, 20, 100, 50), PASSING, "holds"),
        (PASSING, Region(10, 20, 100, 180), PASSING, "unsure"),
        (PASSING, None, PASSING, "unsure"),
        (PASSING, Region(10, 20, 100, 50), None, "unsure"),
        (drawn("failed", (20, 160)) & SAVED, Region(10, 20, 100, 50), PASSING, "unsure"),
        (drawn("saving …", (20, 160)), Region(10, 20, 100, 50), PASSING, "unsure"),
    ],
    ids=[
        "as at the end",
        "claim is about it",
        "claim without region",
        "something acted since",
        "other text",
        "no claim",
    ],
)
def test_evidence_without_what_passed_at_end(
    shown: Pixels, region: Region | None, end: Pixels | None, kind: str
) -> None:
    judged = Evidence(claim=CLAIM, verdict="holds", region=region, screen=Screen(pixels=lambda: SAVED))
    recorded_end = Screen(pixels=lambda: PASSING) if end is not None else None
    judge = RecordedJudge([(judged, recorded_end)], None, masks=(), eyes=PaintedController, hide=str, questions={})
    assert judge.judge(CLAIM, frame_of(shown), timeout_s=9, report=lambda _: None).kind == kind
