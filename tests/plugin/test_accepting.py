"""`--vnc-record=accept` as a reviewer has it: pytest at a terminal, on the till, whose product has changed."""

from __future__ import annotations

import getpass
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.types import Click
from support.forked_python import ForkedPython
from support.made_once import made_once
from support.reviewing import Reviewed, review
from support.till_project import PLANS, Project, project_in
from support.tills import ADD_WHEN_MOVED, TILL

pytestmark = pytest.mark.desktop

YES, NO, MASK, BUG = "y\n", "n\n", "m\n", "b\nthe word is misspelt\n"
ONE = "test_till.py::test_till"
CHANGED = ("1-01-screen", "accepted")
CLAIM = "Does this hold on the screen now: 'the status is shown'?"
TWO_TESTS = """
import pytest
from pytest_vnc_use.types import Verdict

class Judge:
    def judge(self, claim, frame, *, timeout_s, report):
        return Verdict(claim, "holds", "it is there", frame=frame.ref)

@pytest.fixture
def vnc_judge():
    return Judge()

@pytest.mark.vnc_task("Enter alice, add two apples and pay", expect=None)
def test_till(vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == "alice pays 5.00"

@pytest.mark.vnc_task("Enter alice, add two apples and pay", expect="the status is shown")
def test_claim(vnc_desktop):
    pass
"""


@pytest.fixture(scope="module")
def recorded_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def record(directory: Path) -> Path:
        made = project_in(directory)
        made.write("test_till.py", TWO_TESTS)
        ended = made.run("--vnc-record=auto")
        assert ended.code == 0, ended.out
        (made.path / "conftest.py").unlink()
        return made.path

    return made_once(tmp_path_factory, "project_to_accept", record)


@pytest.fixture
def project(recorded_once: Path, tmp_path: Path) -> Project:
    shutil.copytree(recorded_once, tmp_path / "project", ignore=shutil.ignore_patterns("runs"))
    return Project(tmp_path / "project")


def files_of(project: Project) -> dict[str, bytes]:
    root = project.path / "__vnc_recordings__"
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}


def reviewed(
    project: Project,
    fault: str,
    *answers: str | Callable[[ForkedPython], object],
    options: str = ONE,
) -> Reviewed:
    app = shlex.join([sys.executable, str(TILL), f"--fault={fault}"])
    desktop = ["--vnc-server=qt", f"--vnc-app={app}", "--vnc-screen-size=800x400", "-ovnc_gate_seconds=2"]
    return review(project.path, answers, "-p", "no:pytest-vnc", *desktop, *shlex.split(options))


@pytest.mark.slow
def test_accepted_change_rewrites_only_its_images(project: Project) -> None:
    before = files_of(project)
    accepted = reviewed(project, "spelling", YES, YES, options="")
    assert accepted.code == 0, accepted.out
    (screen,) = accepted.questions
    assert "the first screen differs" in screen
    assert "2 recordings updated with what was accepted" in accepted.out
    for path in re.findall(r"^  (?:recorded|now|difference) +(\S+)$", screen, re.MULTILINE):
        assert Path(path).read_bytes().startswith(b"\x89PNG")
    after = files_of(project)
    changed = {name.rpartition("-")[0] for name in before.keys() ^ after.keys()}
    assert changed == {f"test_till/{test}/{name}" for test in ("test_till", "test_claim") for name in CHANGED}
    recording = load(project.file)
    assert recording
    (history,) = recording.history
    assert history.by == getpass.getuser()
    again = reviewed(project, "spelling", options="")
    assert (again.code, again.questions) == (0, []), again.out
    assert files_of(project) == after


@pytest.mark.parametrize("holds", [True, False])
def test_claim_whose_evidence_changed_is_asked(project: Project, *, holds: bool) -> None:
    before = files_of(project)
    # the total is another one after each apple; at the end it is as after the second
    ended = reviewed(project, "wrong total", YES, YES, YES if holds else NO, options="test_till.py::test_claim")
    assert [CLAIM in question for question in ended.questions] == [False, False, True], ended.out
    assert (ended.code, files_of(project) == before) == ((0, False) if holds else (1, True)), ended.out
    if not holds:
        assert "inconclusive: " in ended.out


def test_ctrl_c_at_question_fails_as_drift(project: Project) -> None:
    before = files_of(project)
    refused = reviewed(project, "spelling", lambda process: process.send_signal(signal.SIGINT))
    assert (refused.code, len(refused.questions)) == (1, 1), refused.out
    assert "inconclusive: drift before step 1 of 4: " in refused.out
    assert files_of(project) == before


def test_change_without_terminal_is_not_asked(project: Project) -> None:
    before = files_of(project)
    ended = project.run("--vnc-record=accept", ONE, "-ovnc_gate_seconds=1", till="--fault=spelling")
    assert (ended.code, "anything else: no" in ended.out) == (1, False), ended.out
    assert "inconclusive: drift before step 1 of 4: " in ended.out
    assert "No user was asked whether the screen is right: stdin is no terminal" in ended.out
    assert files_of(project) == before


def test_reviewer_with_pytest_timeout_is_refused(project: Project) -> None:
    refused = project.run("--vnc-record=accept", ONE, "--timeout=60")
    assert (refused.code, "Add --timeout=0" in refused.out) == (4, True), refused.out


def test_bug_fails_as_product_with_reviewers_words(project: Project) -> None:
    before = files_of(project)
    called = reviewed(project, "spelling", BUG, options="")
    assert (called.code, len(called.questions)) == (1, 1), called.out
    assert called.out.count("product: the word is misspelt (said the reviewer)") >= 2, "the same answer for both tests"
    assert "2 failed: 2 product" in called.out
    assert files_of(project) == before


def test_accepted_change_of_failed_test_is_not_written(project: Project) -> None:
    before = files_of(project)
    text = (project.path / "test_till.py").read_text(encoding="utf-8")
    project.write("test_till.py", text.replace("pays 5.00", "pays 6.00"))
    failed = reviewed(project, "spelling", YES)
    assert (failed.code, "product: " in failed.out) == (1, True), failed.out
    assert files_of(project) == before


def test_moved_target_cannot_be_accepted(project: Project) -> None:
    before = files_of(project)
    moved = reviewed(project, "moved button", YES)
    assert (moved.code, files_of(project) == before) == (1, True), moved.out
    assert "let the model continue" not in moved.out, "there is no planner"
    assert "The recording acts there: step 2, click at (140, 224)" in moved.questions[-1]
    assert "the target of step 2 at (140, 224) is at (240, 224) now" in moved.questions[-1]
    assert "this screen is right" not in moved.questions[-1]
    failure = re.sub(r"\s+", " ", moved.out.rpartition(moved.questions[-1])[2])
    assert "It cannot be accepted, because the target of step 2 at (140, 224) is at (240, 224) now" in failure
    assert "accept it: --vnc-record=accept" not in failure


def test_model_continues_where_reviewer_lets_it(project: Project) -> None:
    project.write("conftest.py", PLANS)
    continued = reviewed(project, "moved button", "c\n")
    assert (continued.code, len(continued.questions)) == (0, 1), continued.out
    recording = load(project.file)
    assert recording
    assert [step.action for step in recording.runs[0].steps][1:3] == [Click(*ADD_WHEN_MOVED)] * 2
    (history,) = recording.history
    assert (history.by, history.steps) == (getpass.getuser(), "scripted continued before step 2 of 4")


def test_model_without_judge_is_not_offered(project: Project) -> None:
    project.write("conftest.py", PLANS)
    text = (project.path / "test_till.py").read_text("utf-8")
    project.write("test_till.py", text.replace("@pytest.fixture\n", ""))
    before = files_of(project)
    refused = reviewed(project, "moved button", "c\n", options="test_till.py::test_claim")
    assert (refused.code, "let the model continue" in refused.out) == (1, False), refused.out
    assert files_of(project) == before


def test_masked_change_is_left_out_from_then_on(project: Project) -> None:
    masked = reviewed(project, "wrong total", MASK, MASK, MASK)
    assert masked.code == 0, masked.out
    assert all(re.search(r"m  mask its [\d,]+ px", question) for question in masked.questions)
    recording = load(project.file)
    assert recording
    assert recording.masks
    assert not recording.history
