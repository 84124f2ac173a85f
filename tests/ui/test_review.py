"""The drifts of a CI job on the page: real runs of the till with a fault, accepted from their frames."""

from __future__ import annotations

import getpass
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.ui.review import CiReview
from support.desks import Served, received
from support.made_once import made_once
from support.till_project import Project, project_in

pytestmark = [pytest.mark.desktop, pytest.mark.slow]
CHANGED = ("1-01-screen", "1-02-screen", "accepted")
"""The accepted screen, and the next one, which is kept as what differs from it."""
MOVED = "--fault='moved button'"
TWO_TESTS = """
import pytest

@pytest.mark.vnc_task("Enter alice, add two apples and pay", expect=None)
def test_till(vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == "alice pays 5.00"

@pytest.mark.vnc_task("Enter alice, add two apples and pay", expect=None)
def test_again(vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == "alice pays 5.00"
"""


@pytest.fixture(scope="module")
def drifted_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def record(directory: Path) -> Path:
        made = project_in(directory)
        made.write("test_till.py", TWO_TESTS)
        ended = made.run("--vnc-record=auto")
        assert ended.code == 0, ended.out
        (made.path / "conftest.py").unlink()
        shutil.rmtree(made.path / "runs")
        drifted = made.run("-ovnc_gate_seconds=2", till="--fault=spelling", ci="true")
        assert drifted.code == 1, drifted.out
        return made.path

    return made_once(tmp_path_factory, "project_of_ci", record)


@pytest.fixture
def project(drifted_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    shutil.copytree(drifted_once, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return Project(tmp_path / "project")


@pytest.fixture
def opened(project: Project) -> Iterator[CiReview]:
    made = CiReview(Path("runs"))
    yield made
    made.close()


def files_of(project: Project) -> dict[str, bytes]:
    root = project.path / "__vnc_recordings__"
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}


@pytest.mark.parametrize("source", ["runs", "runs.zip"])
def test_group_is_accepted_once_for_all_its_tests(project: Project, served: Served, source: str) -> None:
    if source.endswith(".zip"):
        shutil.make_archive("runs", "zip", ".", "runs")
        shutil.rmtree("runs")
    before = files_of(project)
    cookie = served.cookie()
    with closing(CiReview(Path(source))) as review:
        served.desk.review = review
        with served.page(cookie) as page:
            shown = received(page, "groups")
            (group,) = shown["groups"]
            assert (len(group["tests"]), shown["left_out"]) == (2, [])
            assert served.ask("GET", f"/{group['urls'][1]}", Cookie=cookie)[0] == 200
            assert served.ask("GET", f"/{group['urls'][1]}")[0] == 403
            page.send(json.dumps({"type": "answer", "id": group["id"], "kind": "accept"}))
            (group,) = received(page, "groups")["groups"]
            assert {each["result"] for each in group["tests"]} == {"accepted"}
    changed = {name.rpartition("-")[0] for name in before.keys() ^ files_of(project).keys()}
    assert changed == {f"test_till/{test}/{name}" for test in ("test_till", "test_again") for name in CHANGED}
    recording = load(project.file)
    assert recording
    assert [each.by for each in recording.history] == [getpass.getuser()]
    log = subprocess.run(
        [sys.executable, "-m", "pytest_vnc_use.cli", "recordings", "log"], capture_output=True, text=True, check=True
    )
    assert log.stdout.count(f"{getpass.getuser()} accepted test_till.py::test_") == 2
    again = project.run("-ovnc_gate_seconds=1", till="--fault=spelling", ci="true")
    assert again.out.count("drift before step 2 of 4") >= 2, "only the gate that CI reached is accepted"


def test_answer_after_recording_changed_is_refused(project: Project, opened: CiReview) -> None:
    text = project.file.read_text(encoding="utf-8")
    project.file.write_text(f"{text}\n", encoding="utf-8")
    before = files_of(project)
    (number,) = opened.groups
    opened.answer(number, "accept", "")
    (group,) = opened.facts()["groups"]
    results = {each["test"]: each["result"] for each in group["tests"]}
    assert results["test_till.py::test_till"].startswith("refused: the recording has changed since")
    assert results["test_till.py::test_again"] == "accepted"
    after = files_of(project)
    assert not [name for name in before.keys() ^ after.keys() if "test_till/test_till/" in name]
    assert after["test_till/test_till.json"] == before["test_till/test_till.json"]


@pytest.mark.parametrize("kind", ["bug", "no"])
def test_bug_writes_nothing(project: Project, opened: CiReview, kind: str) -> None:
    before = files_of(project)
    (number,) = opened.groups
    opened.answer(number, kind, "misspelt")  # type: ignore[arg-type]
    assert files_of(project) == before


def test_recording_other_than_ci_compared_with_is_left_out(project: Project) -> None:
    shutil.rmtree("__vnc_recordings__/test_till/test_again")
    with closing(CiReview(Path("runs"))) as review:
        assert [len(group.drifts) for group in review.groups.values()] == [1]
        assert len(review.left_out) == 1


@pytest.fixture(scope="module")
def healed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def record(directory: Path) -> Path:
        made = project_in(directory)
        ended = made.run("--vnc-record=auto")
        assert ended.code == 0, ended.out
        before = files_of(made)
        shutil.rmtree(made.path / "runs")
        red = made.run("--vnc-record=auto", "-ovnc_healed=fail", "-ovnc_gate_seconds=2", till=MOVED, ci="true")
        assert (red.code, "1 recording proposed, as CI=true" in red.out) == (1, True), red.out
        shutil.rmtree(made.path / "runs")
        healed = made.run("--vnc-record=auto", "-ovnc_gate_seconds=2", till=MOVED, ci="true")
        assert (healed.code, "1 recording proposed, as CI=true" in healed.out) == (0, True), healed.out
        assert files_of(made) == before
        return made.path

    return made_once(tmp_path_factory, "project_healed_in_ci", record)


@pytest.fixture
def healed(healed_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Project, CiReview]]:
    shutil.copytree(healed_once, tmp_path / "healed")
    monkeypatch.chdir(tmp_path / "healed")
    with closing(CiReview(Path("runs"))) as review:
        yield Project(tmp_path / "healed"), review


def test_heal_of_ci_is_written_once_accepted(healed: tuple[Project, CiReview]) -> None:
    project, review = healed
    (group,) = review.facts()["groups"]
    assert "-  click at (140, 224)" in group["diff"]
    assert "+  click at (240, 224)" in group["diff"]
    assert "drift before step 2 of 4" in group["problem"] or "drift before step 1 of 4" in group["problem"]
    review.answer(group["id"], "accept", "")
    assert review.facts()["groups"][0]["tests"][0]["result"] == "accepted"
    recording = load(project.file)
    assert recording
    assert [each.by for each in recording.history] == [getpass.getuser()]
    assert "by scripted" in recording.history[0].steps
    again = project.run("--vnc-record=replay", till=MOVED, ci="true")
    assert again.code == 0, again.out


@pytest.mark.parametrize("kind", ["no", "bug"])
def test_rejected_heal_writes_nothing(healed: tuple[Project, CiReview], kind: str) -> None:
    project, review = healed
    before = files_of(project)
    (number,) = review.groups
    review.answer(number, kind, "it moved")  # type: ignore[arg-type]
    assert files_of(project) == before


def test_heal_of_changed_recording_is_refused(healed: tuple[Project, CiReview]) -> None:
    project, review = healed
    project.file.write_text(f"{project.file.read_text('utf-8')}\n", encoding="utf-8")
    before = files_of(project)
    (number,) = review.groups
    review.answer(number, "accept", "")
    assert review.facts()["groups"][0]["tests"][0]["result"].startswith("refused: the recording has changed since")
    assert files_of(project) == before
    with closing(CiReview(Path("runs"))) as late:
        assert (late.groups, len(late.left_out)) == ({}, 1)


def test_directory_without_runs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.zip").write_bytes(b"no zip")
    for source in (tmp_path, tmp_path / "empty.zip"):
        with pytest.raises(SettingsError):
            CiReview(source)
