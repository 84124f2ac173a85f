"""The review of a CI job, on runs of two tests on a VNC server in this process."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from pytest_vnc_use.cli import main
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.recordings.accept import user_name
from pytest_vnc_use.recordings.format import Recording, named_screens
from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.ui.review import CiReview
from support.desks import Served, received
from support.reviewed_jobs import conftest_of, run_job
from support.served_screen import served_screen

BLUE, RED, GREEN, WHITE = 0x2070B0, 0xC02020, 0x20C020, 0xFFFFFF
TESTS = """
import pytest

@pytest.mark.vnc_task("Click twice")
def test_squares(vnc_agent): pass

@pytest.mark.vnc_task("Click twice")
def test_again(vnc_agent): pass
"""
CONFTEST = conftest_of((30, 40), (90, 40))


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


def results_of(review: CiReview) -> set[str]:
    return {
        str(test["result"])
        for group in review.facts()["groups"]
        for test in group["tests"]
    }


def test_accepted_drift_opens_its_gate(
    recorded: list[Path], served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    assert " 2 failed" in run("replay", RED, ci="true")
    before, written = read(recorded[1]), [file.read_bytes() for file in recorded]
    shutil.make_archive("packed", "zip", ".", "runs")
    shutil.rmtree("runs")
    cookie = served.cookie()
    with closing(CiReview(Path("packed.zip"))) as review:
        served.desk.review = review
        (number,) = review.groups
        review.answer(number, "bug", "it was blue")
        assert [file.read_bytes() for file in recorded] == written
        recorded[0].write_bytes(b"%b\n" % written[0])
        with served.page(cookie) as page:
            (group,) = received(page, "groups")["groups"]
            page.send(
                json.dumps({"type": "answer", "id": group["id"], "kind": "accept"})
            )
            (group,) = received(page, "groups")["groups"]
            refused, accepted = (
                test["result"]
                for test in sorted(group["tests"], key=lambda test: test["test"])
            )
        assert refused.startswith("refused: the recording has changed since")
        assert (accepted, recorded[0].read_bytes()) == (
            "accepted",
            b"%b\n" % written[0],
        )
        assert served.ask("GET", f"/{group['urls'][1]}", Cookie=cookie)[0] == 200
        assert served.ask("GET", f"/{group['urls'][1]}")[0] == 403
        recorded[0].write_bytes(written[0])
        review.answer(number, "accept", "")
        assert results_of(review) == {"accepted"}
    after = read(recorded[1])
    ((change, location),) = after.history.items()
    assert (change.by, location) == (user_name(), "before step 2")
    was, now = (
        recording.segments[0].steps[1].screen.pixels() for recording in (before, after)
    )
    changed = (was != now).nonzero()
    assert (changed[0].min(), changed[0].max(), changed[1].min(), changed[1].max()) == (
        100,
        109,
        0,
        9,
    )
    assert main(["recordings", "log"]) == 0
    accepted = rf"{user_name()} accepted test_squares.py::test_\w+ before step 2"
    assert len(re.findall(accepted, capsys.readouterr().out)) == 2
    with closing(CiReview(Path("packed.zip"))) as review:
        assert not review.groups
        assert all(
            "is not the one that CI compared with" in line for line in review.left_out
        )
        assert len(review.left_out) == 2


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
        assert results_of(review) == {"masked at this gate"}
    for file in recorded:
        masked = [*named_screens(read(file))][1]
        assert (masked.name, masked.screen.masks) == ("s2", group.question.offer.masks)
        assert read(file).masks == ()


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
        assert len(review.groups) == 2
        for number, group in review.groups.items():
            assert "drift before step 2 of 2" in group.drifts[0].problem
            for kind in ("no", "bug"):
                review.answer(number, kind, "it moved")  # type: ignore[arg-type]
        for number in review.groups:
            review.answer(number, "accept", "")
        assert results_of(review) == {"accepted"}
    for file in recorded:
        (change,) = read(file).history
        assert (change.by, change.steps.partition(" by ")[0]) == (
            user_name(),
            "2 steps from step 2",
        )


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
        (heal,) = group.drifts
        assert heal.problem == "a claim was judged again"
        review.answer(number, "accept", "")
        assert results_of(review) == {"accepted"}
    assert file.read_bytes() != before


def test_directory_without_runs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.zip").write_bytes(b"no zip")
    for source in (tmp_path, tmp_path / "empty.zip"):
        with pytest.raises(SettingsError):
            CiReview(source)


def test_two_changes_at_one_gate_of_named_recording_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = TESTS.replace('"Click twice"', '"Click twice", recording="clicks"')
    Path("test_squares.py").write_text(named)
    Path("conftest.py").write_text(CONFTEST)
    assert " 2 passed" in run("auto")
    shutil.rmtree("runs")
    for test, colour in (("not test_again", RED), ("test_again", GREEN)):
        monkeypatch.setenv("PYTEST_ADDOPTS", f"-k '{test}'")
        assert " 1 failed" in run("replay", colour, ci="true")
    with closing(CiReview(Path("runs"))) as review:
        assert len(review.groups) == 2
        for number in review.groups:
            review.answer(number, "accept", "")
        assert results_of(review) == {"accepted"}
