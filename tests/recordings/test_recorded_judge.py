"""Claims without a model: only what the screen shows again holds again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pytest_vnc_use.errors import Inconclusive
from pytest_vnc_use.recordings.course import Allowances
from pytest_vnc_use.recordings.evidence import Compared, KnownAnswer, RecordedJudge
from pytest_vnc_use.recordings.format import Evidence, Screen
from pytest_vnc_use.recordings.images import Pixels, frame_of, pixels_in
from pytest_vnc_use.recordings.store import add_masks
from pytest_vnc_use.runs.directory import RunDirectory, read_trace
from pytest_vnc_use.types import REDACTED_COLOUR, Click, Frame, Region, Report, Verdict
from support.images import drawn
from support.judges import CLAIM, Says
from support.memory_desktop import PaintedController
from support.tills import ADD, LATER, TILL, Played, Steps, Tills

desktop = pytest.mark.desktop


@pytest.mark.slow
def test_recorded_answers_are_given_without_judge(judged: Tills) -> None:
    judge = Says("unsure")
    with judged.agent("auto", Steps(), judge=judge) as played:
        played.run()
        holds = played.agent.assess(CLAIM, votes=3)
        assert (holds.kind, holds.model) == ("holds", "")
        assert "the same as when this was judged: I see it holds" in holds.reason
        assert played.agent.assess("an error is shown").kind == "fails"
        assert played.agent.extract(int, "how many apples?") == 2
        assert not played.recorded.healed
        assert not played.recorded.write()
    assert judge.asked == []


def test_other_evidence_without_judge_is_unsure(judged: Tills) -> None:
    with judged.agent("replay") as played:
        result = played.run()
        unknown = played.agent.assess("the till is red")
        played.agent.click(*ADD)
        verdict = played.agent.assess(CLAIM)
        with pytest.raises(Inconclusive, match="no planner can read 'how many apples"):
            played.agent.extract(int, "how many apples?")
    assert (unknown.kind, verdict.kind) == ("unsure", "unsure")
    assert "it has no recorded verdict" in unknown.reason
    assert "the screen differs from the judged one" in verdict.reason
    assert (
        "no judge is configured; answer it yourself with --vnc-record=accept"
        in verdict.reason
    )
    drift = read_trace(result.run_dir).drifts[0]
    load = RunDirectory(result.run_dir).load_png
    assert load(drift.recorded) != load(drift.seen)
    assert drift.region is not None
    assert drift.region.meets(Region(60, 120, 460, 160))


@dataclass
class Sees(Says):
    """A judge by whom a claim holds where a region is not hidden."""

    needs: Region = Region(60, 120, 260, 160)

    def judge(
        self, claim: str, frame: Frame, *, timeout_s: float, report: Report
    ) -> Verdict:
        self.kind = (
            "unsure"
            if (self.needs.part_of(pixels_in(frame)) == REDACTED_COLOUR).any()
            else "holds"
        )
        return super().judge(claim, frame, timeout_s=timeout_s, report=report)


@pytest.mark.slow
def test_claim_under_mask_holds_on_same_screen(judged: Tills) -> None:
    assert add_masks(judged.key.path, [Region(50, 110, 470, 170)])
    with judged.agent("replay") as played:
        played.run()
        assert played.agent.assess(CLAIM).kind == "holds"


@pytest.mark.parametrize(
    ("spots", "mask", "kind"),
    [
        ([], Region(50, 110, 470, 170), "holds"),
        ([(70, 135)], Region(50, 110, 470, 170), "unsure"),
        ([(70, 135)], Region(500, 110, 700, 170), "unsure"),
        ([(300, 135)], Region(50, 110, 470, 170), "holds"),
    ],
    ids=["same", "other", "other beside mask", "other beside region"],
)
def test_claim_is_unsure_where_mask_hides_difference(
    spots: Sequence[tuple[int, int]], mask: Region, kind: str
) -> None:
    judged_on = drawn("2 apples", (60, 130), (800, 400))
    evidence = Evidence(
        claim=CLAIM,
        verdict="holds",
        region=Region(55, 120, 120, 150),
        screen=Screen(pixels=lambda: judged_on, masks=(Region(700, 0, 800, 20),)),
    )
    seen = judged_on.copy()
    under_mask_of_screen = (710, 5)
    for x, y in (*spots, under_mask_of_screen):
        seen[y : y + 5, x : x + 5] = 0x800000
    judge = RecordedJudge(
        [KnownAnswer(evidence, Allowances((mask,)))],
        None,
        [mask],
        PaintedController,
        str,
        {},
    )
    verdict = judge.judge(CLAIM, frame_of(seen), timeout_s=9, report=lambda _: None)
    assert verdict.kind == kind
    is_told = "the claim's region is masked, and differs there" in verdict.reason
    assert is_told == (kind == "unsure" and mask.left == 50)


@pytest.mark.parametrize("left", [50, 300])
def test_judge_is_asked_without_mask_that_hides_claim(left: int) -> None:
    masks = (Region(left, 110, 470, 170),)
    compared: dict[str, Compared] = {}
    judge = RecordedJudge([], Sees, masks, PaintedController, str, compared)
    frame = frame_of(drawn("2 apples", (60, 130), (800, 400)))
    verdict = judge.judge(CLAIM, frame, timeout_s=9, report=lambda _: None)
    assert verdict.kind == "holds"
    # Evidence beside the mask is kept without what the mask hides.
    assert bool(compared[CLAIM].frame.redacted) == (left == 300)


SAVE = Click(140, 224)
NOTHING = Click(600, 350)
RESULT = Region(60, 120, 300, 160)


@pytest.mark.slow
@desktop
def test_clicks_of_two_runs_are_no_double_click(tmp_path: Path) -> None:
    def perform(played: Played) -> list[str]:
        played.run("Click")
        played.agent.click(100, 100)
        played.run("Click again")
        events = played.desktop.read_file("events.txt").splitlines()
        return [line.split()[0] for line in events if not line.startswith("release")]

    tills = Tills(tmp_path, (TILL.with_name("pad.py"),))
    with tills.agent("auto", Steps(Click(100, 100))) as played:
        perform(played)
        assert played.recorded.write()
    with tills.agent("replay") as played:
        assert perform(played)[-1] == "press"


@pytest.fixture(scope="module")
def clicked_once(tmp_path_factory: pytest.TempPathFactory) -> Tills:
    """A recording of a claim that was judged after the test itself had clicked."""
    tills = Tills(tmp_path_factory.mktemp("clicked"), LATER)
    with tills.agent("auto", Steps(NOTHING), judge=Says(region=RESULT)) as played:
        assert judge_after_click(played) == "holds"
        assert played.recorded.write()
    return tills


def judge_after_click(played: Played) -> str:
    played.run()
    played.agent.click(SAVE.x, SAVE.y)
    return played.agent.assess("it is saved").kind


@pytest.mark.parametrize(
    ("later", "kind"),
    [
        pytest.param(["--error-after=0.6"], "unsure", marks=pytest.mark.slow),
        pytest.param(["--vanish-after=0.6"], "unsure", marks=pytest.mark.slow),
        (["--error-after=0.6", "--error-for=0.4"], "holds"),
    ],
    ids=["error", "gone", "transient"],
)
@desktop
def test_evidence_after_hands_must_stay(
    clicked_once: Tills, later: list[str], kind: str
) -> None:
    assert clicked_once.recording.segments[0].claims[0].screen.stable_s > 1
    with clicked_once.agent("replay", None, *later) as played:
        assert judge_after_click(played) == kind


class Blinking(PaintedController):
    """A screen on which a caret is drawn when it is looked at again."""

    def frame(self) -> Frame:
        return frame_of(SAVED)


@pytest.mark.parametrize(
    ("box", "moving", "kind"),
    [
        (Region(60, 30, 66, 43), (Region(32, 32, 96, 64),), "holds"),
        (Region(60, 30, 66, 43), (), "unsure"),
        (Region(60, 130, 66, 143), (Region(32, 32, 96, 64),), "unsure"),
    ],
    ids=["caret blinks", "nothing moves", "beside what moves"],
)
def test_evidence_waits_for_what_moves_now(
    box: Region, moving: tuple[Region, ...], kind: str
) -> None:
    judged = Evidence(
        claim=CLAIM, verdict="holds", region=box, screen=Screen(pixels=lambda: SAVED)
    )
    known = KnownAnswer(judged, Allowances())
    judge = RecordedJudge([known], None, (), Blinking, str, {})
    seen = SAVED.copy()
    box.part_of(seen)[:] = 0
    frame = replace(frame_of(seen), moving=moving)
    assert judge.judge(CLAIM, frame, timeout_s=9, report=lambda _: None).kind == kind


SAVED = drawn("saved")
PASSING = drawn("saving …", (20, 160)) & drawn("saved")
"""The judged screen, and the recorded end: a line at the bottom was gone when the claim
was judged.
"""


@pytest.mark.parametrize(
    ("shown", "region", "end", "kind"),
    [
        (PASSING, Region(10, 20, 100, 50), PASSING, "holds"),
        (PASSING, Region(10, 20, 100, 180), PASSING, "unsure"),
        (PASSING, None, PASSING, "unsure"),
        (PASSING, Region(10, 20, 100, 50), None, "unsure"),
        (
            drawn("failed", (20, 160)) & SAVED,
            Region(10, 20, 100, 50),
            PASSING,
            "unsure",
        ),
        (drawn("saving …", (20, 160)), Region(10, 20, 100, 50), PASSING, "unsure"),
    ],
    ids=[
        "as at end",
        "claim is about it",
        "without region",
        "acted since",
        "other text",
        "no claim",
    ],
)
def test_evidence_without_what_passed_at_end(
    shown: Pixels, region: Region | None, end: Pixels | None, kind: str
) -> None:
    judged = Evidence(
        claim=CLAIM, verdict="holds", region=region, screen=Screen(pixels=lambda: SAVED)
    )
    recorded_end = Screen(pixels=lambda: PASSING) if end is not None else None
    judge = RecordedJudge(
        [KnownAnswer(judged, Allowances(), recorded_end)],
        None,
        (),
        controller=PaintedController,
        hide=str,
        compared={},
    )
    assert (
        judge.judge(CLAIM, frame_of(shown), timeout_s=9, report=lambda _: None).kind
        == kind
    )
