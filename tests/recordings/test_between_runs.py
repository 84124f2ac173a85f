"""Several recorded runs of one test, and what it does on its own between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.types import Click, Region
from support.fixed_judge import Says
from support.tills import LATER, TILL, Played, Steps, Tills

pytestmark = pytest.mark.desktop

PAD = TILL.with_name("pad.py")
SAVE, NOTHING = Click(140, 224), Click(600, 350)
RESULT = Region(60, 120, 300, 160)


def presses(played: Played) -> list[str]:
    told = played.desktop.read_file("events.txt").splitlines()
    return [line.split()[0] for line in told if not line.startswith("release")]


@pytest.mark.slow
@pytest.mark.parametrize("by_hand", [False, True])
def test_clicks_of_two_runs_are_no_double_click(tmp_path: Path, by_hand: bool) -> None:
    def carry_out(played: Played) -> list[str]:
        played.run("Click")
        if by_hand:
            played.agent.click(100, 100)
        played.run("Click again")
        return presses(played)

    tills = Tills(tmp_path, PAD)
    with tills.agent("auto", Steps(Click(100, 100))) as played:
        carry_out(played)
        assert played.recorded.keep()
    with tills.agent("replay") as played:
        assert carry_out(played)[-1] == "press"


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> Tills:
    """A recording of a claim that was judged after the test itself had clicked."""
    tills = Tills(tmp_path_factory.mktemp("by_hand"), LATER)
    with tills.agent("auto", Steps(NOTHING), judge=Says(region=RESULT)) as played:
        assert judged(played) == "holds"
        assert played.recorded.keep()
    return tills


def judged(played: Played) -> str:
    played.run()
    played.agent.click(SAVE.x, SAVE.y)
    return played.agent.assess("it is saved").kind


@pytest.mark.slow
@pytest.mark.parametrize("later", ["--error-after=0.3", "--error-after=1.0", "--vanish-after=0.6"])
def test_evidence_after_hands_must_stay(by_hand: Tills, later: str) -> None:
    with by_hand.agent("replay", None, later) as played:
        assert judged(played) == "unsure"


def test_transient_leaves_evidence_valid(by_hand: Tills) -> None:
    recording = load(by_hand.key.path)
    assert recording is not None
    assert recording.runs[0].claims[0].screen.quiet_s > 1
    with by_hand.agent("replay", None, "--error-after=0.6", "--error-for=0.4") as played:
        assert judged(played) == "holds"


@pytest.mark.slow
def test_claim_judged_again_before_first_run_is_healed(tmp_path: Path) -> None:
    tills = Tills(tmp_path, LATER)
    with tills.agent("auto", Steps(SAVE), judge=Says(region=RESULT)) as played:
        assert played.agent.assess("it is not saved")
        played.run()
        assert played.recorded.keep()
    with tills.agent("auto", Steps(SAVE), "--steady=ERROR", judge=Says(region=RESULT)) as played:
        assert played.agent.assess("it is not saved")
        assert "the evidence for 'it is not saved' is not on the screen again" in played.recorded.healed[0]
