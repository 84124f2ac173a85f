"""The review of a CI job, on runs of a test on a VNC server in this process."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from pytest_vnc_use.recordings.accept import user_name
from pytest_vnc_use.recordings.format import Recording
from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.ui.review import CiReview
from support.served_screen import served_screen

BLUE, RED = 0x2070B0, 0xC02020
TEST = """
import pytest

@pytest.mark.vnc_task("Click twice")
def test_squares(vnc_agent): pass
"""
CONFTEST = """
import pytest
from pytest_vnc_use.planners import finish
from pytest_vnc_use.types import Click
from support.fixed_judge import Says

STEPS = [Click(30, 40), Click(90, 40)]

@pytest.fixture
def vnc_planner():
    return lambda observation: STEPS[len(observation.turns)] if len(observation.turns) < 2 else finish()

@pytest.fixture
def vnc_judge():
    return Says()
"""


@pytest.fixture
def recorded(pytester: pytest.Pytester) -> Path:
    pytester.makepyfile(test_squares=TEST)
    pytester.makeconftest(CONFTEST)
    run(pytester, "auto").assert_outcomes(passed=1)
    return pytester.path / "__vnc_recordings__" / "test_squares" / "test_squares.json"


def run(pytester: pytest.Pytester, mode: str, colour: int = BLUE) -> pytest.RunResult:
    with served_screen(colour) as screen:
        options = (f"--vnc-server={screen.address}", f"--vnc-record={mode}", "-ovnc_gate_seconds=2")
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *options, timeout=400)


def result_of(review: CiReview) -> str:
    return str(review.facts()["groups"][0]["tests"][0]["result"])


def read(recorded: Path) -> Recording:
    recording = load(recorded)
    assert recording
    return recording


def test_accepted_drift_opens_its_gate(pytester: pytest.Pytester, recorded: Path) -> None:
    run(pytester, "replay", RED).assert_outcomes(failed=1)
    run(pytester, "replay").assert_outcomes(passed=1)
    with closing(CiReview(Path("runs"))) as review:
        assert (review.groups, review.left_out) == ({}, []), "what an earlier session showed is shown"
    run(pytester, "replay", RED).assert_outcomes(failed=1)
    before, written = read(recorded), recorded.read_bytes()
    with closing(CiReview(Path("runs"))) as review:
        recorded.write_bytes(b"%b\n" % written)
        (number,) = review.groups
        review.answer(number, "accept", "")
        assert result_of(review).startswith("refused: the recording has changed since")
        assert recorded.read_bytes() == b"%b\n" % written
        recorded.write_bytes(written)
    with closing(CiReview(Path("runs"))) as review:
        (group,) = review.facts()["groups"]
        assert [each["test"] for each in group["tests"]] == ["test_squares.py::test_squares"]
        assert all(review.image(Path(url).name) for url in group["urls"])
        review.answer(group["id"], "bug", "it was blue")
        assert recorded.read_bytes() == written
        review.answer(group["id"], "accept", "")
        assert result_of(review) == "accepted"
    after = read(recorded)
    assert [(each.by, each.place) for each in after.history] == [(user_name(), "before step 2")]
    was, now = (each.runs[0].steps[1].screen.pixels() for each in (before, after))
    changed = (was != now).nonzero()
    assert (changed[0].min(), changed[0].max(), changed[1].min(), changed[1].max()) == (100, 109, 0, 9)
    with closing(CiReview(Path("runs"))) as review:
        assert not review.groups
        assert "is not the one that CI compared with" in review.left_out[0]


def test_accepted_heal_replaces_recording(
    pytester: pytest.Pytester, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    before = recorded.read_bytes()
    run(pytester, "auto", RED).assert_outcomes(passed=1)
    assert recorded.read_bytes() == before, "with CI=true a heal is a proposal"
    with closing(CiReview(Path("runs"))) as review:
        (group,) = review.facts()["groups"]
        assert "drift before step 2 of 2" in group["problem"]
        for kind in ("no", "bug"):
            review.answer(group["id"], kind, "it moved")
        recorded.write_bytes(b"%b\n" % before)
        review.answer(group["id"], "accept", "")
        assert result_of(review).startswith("refused: the recording has changed since")
        with closing(CiReview(Path("runs"))) as late:
            assert (late.groups, len(late.left_out)) == ({}, 1)
        assert recorded.read_bytes() == b"%b\n" % before
        recorded.write_bytes(before)
        review.answer(group["id"], "accept", "")
        assert result_of(review) == "accepted"
    assert [(each.by, each.steps.partition(" by ")[0]) for each in read(recorded).history] == [
        (user_name(), "2 steps from step 2")
    ]
    monkeypatch.delenv("CI")
    (pytester.path / "conftest.py").unlink()
    run(pytester, "replay", RED).assert_outcomes(passed=1)
