"""The drifts of a CI job on the page: real runs of the till with a fault, accepted from their frames."""

from __future__ import annotations

import getpass
import json
import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.ui.review import CiReview
from support.desks import Served, received
from support.till_project import Project, project_in

pytestmark = [pytest.mark.desktop, pytest.mark.slow]
CHANGED = ("1-01-screen", "1-02-screen", "accepted")
"""The accepted screen, and the next one, which is kept as what differs from it."""
TWO_TESTS = """
import pytest

@pytest.mark.vnc_task("Enter alice, add two apples and pay", expect=None)
def test_till(vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == "alice pays 5.00"

@pytest.mark.vnc_task("Enter alice, add two apples and pay", expect=None)
def test_again(vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == "alice pays 5.00"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = project_in(tmp_path)
    made.write("test_till.py", TWO_TESTS)
    ended = made.run("--vnc-record=auto")
    assert ended.code == 0, ended.out
    (made.path / "conftest.py").unlink()
    shutil.rmtree(made.path / "runs")
    drifted = made.run("-ovnc_gate_seconds=2", till="--fault=spelling", ci="true")
    assert drifted.code == 1, drifted.out
    monkeypatch.chdir(tmp_path)
    return made


def files_of(project: Project) -> dict[str, bytes]:
    root = project.path / "__vnc_recordings__"
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}


def test_group_is_accepted_once_for_all_its_tests(project: Project, served: Served) -> None:
    shutil.make_archive("runs", "zip", ".", "runs")
    shutil.rmtree("runs")
    before = files_of(project)
    cookie = served.cookie()
    with closing(CiReview(Path("runs.zip"))) as review:
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
    accepted = rf"{getpass.getuser()} accepted test_till.py::test_\w+ before step 1 \d"
    assert len(re.findall(accepted, log.stdout)) == 2
    again = project.run("-ovnc_gate_seconds=1", till="--fault=spelling", ci="true")
    assert again.out.count("drift before step 2 of 4") >= 2, "only the gate that CI reached is accepted"


def test_directory_without_runs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.zip").write_bytes(b"no zip")
    for source in (tmp_path, tmp_path / "empty.zip"):
        with pytest.raises(SettingsError):
            CiReview(source)
