"""The review of a CI job, on runs of two tests on a VNC server in this process."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path

import pytest

from pytest_vnc_use.cli import main
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.interactive import user_name
from pytest_vnc_use.recordings.format import Recording, named_screens
from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.ui.review import CiReview
from support.desks import Served, received
from support.pad_sessions import judged_conftest, run_job
from support.served_screen import served_screen

BLUE = 0x2070B0
RED = 0xC02020
GREEN = 0x20C020
WHITE = 0xFFFFFF
TESTS = """
import pytest

@pytest.mark.vnc_task("Click twice")
def test_squares(vnc_agent): pass

@pytest.mark.vnc_task("Click twice")
def test_again(vnc_agent): pass
"""
CONFTEST = judged_conftest("Click(30, 40), Click(90, 40)")


def run(mode: str, colour: int = BLUE, *, ci: str = "") -> str:
    """Return the last line of a session on a screen with squares of this colour."""
    with served_screen(colour, resets=True) as screen:
        server = f"--vnc-server={screen.address}"
        record = f"--vnc-record={mode}"
        return run_job(server, record, "-ovnc_gate_seconds=1", ci=ci)


@pytest.fixture
def recorded(record_once: Callable[..., None]) -> list[Path]:
    """The recordings of both tests, in the working directory."""
    files = {"test_squares.py": TESTS, "conftest.py": CONFTEST}
    record_once("squares", files, partial(run, "auto"))
    return sorted(Path("__vnc_recordings__/test_squares").glob("*/recording.json"))


def read(file: Path) -> Recording:
    recording = load(file)
    assert recording
    return recording


def results_of(review: CiReview) -> list[str]:
    """Return the result of each test, in the order of their names."""
    groups = review.facts()["groups"]
    tests = chain.from_iterable(group["tests"] for group in groups)
    return [test["result"] for test in sorted(tests, key=itemgetter("test"))]


@pytest.fixture
def drifted(recorded: list[Path]) -> list[Path]:
    """The recordings after a job in which both drifted; its runs are in a zip file."""
    assert " 2 failed" in run("replay", RED, ci="true")
    shutil.make_archive("packed", "zip", ".", "runs")
    shutil.rmtree("runs")
    return recorded


@pytest.fixture
def review(drifted: list[Path]) -> Iterator[CiReview]:
    with closing(CiReview(Path("packed.zip"))) as review:
        yield review


def test_bug_leaves_recordings(drifted: list[Path], review: CiReview) -> None:
    before = [file.read_bytes() for file in drifted]
    (number,) = review.groups
    review.answer(number, "bug", "it was blue")
    assert [file.read_bytes() for file in drifted] == before


def test_recording_changed_since_job_is_refused(
    drifted: list[Path], review: CiReview, served: Served
) -> None:
    changed = b"%b\n" % drifted[0].read_bytes()
    drifted[0].write_bytes(changed)
    served.desk.review = review
    cookie = served.cookie()
    with served.page(cookie) as page:
        (group,) = received(page, "groups")["groups"]
        answer = {"type": "answer", "id": group["id"], "kind": "accept"}
        page.send(json.dumps(answer))
        received(page, "groups")
    screen = f"/{group['urls'][1]}"
    assert served.ask("GET", screen, Cookie=cookie)[0] == 200
    assert served.ask("GET", screen)[0] == 403
    refused, accepted = results_of(review)
    assert refused.startswith("refused: the recording has changed since")
    assert accepted == "accepted"
    assert drifted[0].read_bytes() == changed


def test_accepted_drift_opens_its_gate(
    drifted: list[Path], review: CiReview, capsys: pytest.CaptureFixture[str]
) -> None:
    before = read(drifted[1])
    (number,) = review.groups
    review.answer(number, "accept", "")
    assert results_of(review) == ["accepted", "accepted"]
    after = read(drifted[1])
    ((change, location),) = after.history.items()
    assert change.by == user_name()
    assert location == "before step 2"
    was, now = [recording.segments[0].steps[1].screen for recording in (before, after)]
    rows, columns = (was.pixels() != now.pixels()).nonzero()
    assert (rows.min(), rows.max()) == (100, 109)
    assert (columns.min(), columns.max()) == (0, 9)
    assert main(["recordings", "log"]) == 0
    accepted = rf"{user_name()} accepted test_squares.py::test_\w+ before step 2"
    assert len(re.findall(accepted, capsys.readouterr().out)) == 2
    with closing(CiReview(Path("packed.zip"))) as again:
        assert not again.groups
        reason = "is not the one that CI compared with"
        assert [reason in line for line in again.left_out] == [True, True]


def test_mask_at_gate_of_job_is_of_that_gate(recorded: list[Path]) -> None:
    assert " 2 failed" in run("replay", RED, ci="true")
    with closing(CiReview(Path("runs"))) as review:
        ((number, group),) = review.groups.items()
        assert group.question
        assert group.question.offer.concerned == {
            "mask": "all 3 gates",
            "mask_gate": "s2",
        }
        review.answer(number, "mask_gate", "")
        assert results_of(review) == ["masked at this gate"] * 2
    recordings = [read(file) for file in recorded]
    screens = [[*named_screens(recording)][1] for recording in recordings]
    masked = {(screen.name, screen.screen.masks) for screen in screens}
    assert masked == {("s2", group.question.offer.masks)}
    assert [recording.masks for recording in recordings] == [(), ()]


def test_unchanged_screen_of_job_offers_no_mask(recorded: list[Path]) -> None:
    assert " 2 failed" in run("replay", WHITE, ci="true")
    with closing(CiReview(Path("runs"))) as review:
        (group,) = review.groups.values()
        assert group.question
        assert group.question.boxes
        assert group.question.offer.masks == ()
        assert group.question.problem == (
            "drift: nothing changed on the screen after step 1 of 2, click at (30, 40)"
        ), "whether a program runs on an external desktop is not known"


def test_accepted_heal_replaces_recording(recorded: list[Path]) -> None:
    before = [file.read_bytes() for file in recorded]
    assert " 2 passed" in run("auto", RED, ci="woodpecker")
    assert [file.read_bytes() for file in recorded] == before, (
        "in a CI a heal is a proposal"
    )
    with closing(CiReview(Path("runs"))) as review:
        problems = [group.findings[0].problem for group in review.groups.values()]
        drift = "drift before step 2 of 2"
        assert [drift in problem for problem in problems] == [True, True]
        for number in review.groups:
            review.answer(number, "no", "")
            review.answer(number, "bug", "it moved")
            review.answer(number, "accept", "")
        assert results_of(review) == ["accepted", "accepted"]
    changes = [*chain.from_iterable(read(file).history for file in recorded)]
    assert [change.by for change in changes] == [user_name()] * 2
    steps = [change.steps.partition(" by ")[0] for change in changes]
    assert steps == ["2 steps from step 2"] * 2


CLAIM = """
def test_claim(vnc_agent):
    vnc_agent.click(30, 40)
    vnc_agent.verify("there is a square")
"""


def test_healed_claim_without_run_is_proposed(recorded: list[Path]) -> None:
    Path("test_squares.py").write_text(CLAIM)
    assert " 1 passed" in run("auto")
    (file,) = Path("__vnc_recordings__/test_squares").glob("test_claim/recording.json")
    before = file.read_bytes()
    assert " 1 passed" in run("auto", RED, ci="true")
    assert file.read_bytes() == before
    assert not Path("proposed").exists()
    with closing(CiReview(Path("runs"))) as review:
        ((number, group),) = review.groups.items()
        (heal,) = group.findings
        assert heal.problem == "a claim was judged again"
        review.answer(number, "accept", "")
        assert results_of(review) == ["accepted"]
    assert file.read_bytes() != before


@pytest.mark.parametrize("name", ["", "no.zip"])
def test_source_without_runs_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "no.zip").write_bytes(b"no zip")
    with pytest.raises(SettingsError):
        CiReview(tmp_path / name)


def test_two_changes_at_one_gate_of_named_recording_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = TESTS.replace('"Click twice"', '"Click twice", recording="clicks"')
    Path("test_squares.py").write_text(named)
    Path("conftest.py").write_text(CONFTEST)
    assert " 2 passed" in run("auto")
    shutil.rmtree("runs")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k 'not test_again'")
    assert " 1 failed" in run("replay", RED, ci="true")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k test_again")
    assert " 1 failed" in run("replay", GREEN, ci="true")
    with closing(CiReview(Path("runs"))) as review:
        assert len(review.groups) == 2
        for number in review.groups:
            review.answer(number, "accept", "")
        assert results_of(review) == ["accepted", "accepted"]
