"""`vnc_rehearse`: a new recording is replayed on fresh desktops, with pytest in a process of its own."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vnc_use.recordings.format import screens
from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.report.results import ItemResult, read_results
from support.till_project import Ended, Project, project_in
from support.tills import TILL

pytestmark = [pytest.mark.desktop, pytest.mark.slow]

QUICK, ONCE = "-ovnc_gate_seconds=3", "-ovnc_rehearse=1"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A test without a recording, which is rehearsed."""
    monkeypatch.setenv("VNC_USE_REHEARSE", "2")
    return project_in(tmp_path)


def recorded(project: Project, *options: str, till: str = "") -> Ended:
    starts = project.path / "starts.txt"
    return project.run("--vnc-record=auto", QUICK, *options, till=f"--starts='{starts}' {till}")


def starts(project: Project) -> int:
    return len((project.path / "starts.txt").read_text(encoding="utf-8").splitlines())


def results(project: Project) -> list[ItemResult]:
    return [*read_results(project.path / "runs" / "vnc-results.json").tests]


def test_new_recording_is_replayed_twice(project: Project) -> None:
    ended = recorded(project, "--junitxml=junit.xml")
    assert ended.code == 0, ended.out
    assert "1 passed" in ended.out
    assert "vnc-use: 1 recording repeated in 2 rehearsals" in ended.out
    assert (starts(project), project.asked) == (3, 5)
    (test,) = results(project)
    assert [run.rehearsal for run in test.runs] == [0, 1, 2]
    assert [run.steps for run in test.runs] == [4, 4, 4]
    assert [each.repeated for each in test.rehearsals] == [True, True]
    assert test.duration_s > sum(each.seconds for each in test.rehearsals) > 0
    junit = (project.path / "junit.xml").read_text(encoding="utf-8")
    assert 'name="vnc_rehearsal" value="repeated in 2 rehearsals"' in junit


def test_unrepeated_test_passes_and_lists_screenshots(project: Project) -> None:
    ended = recorded(project, "--junitxml=junit.xml", till="--fault-from=2 --fault='moved button'")
    assert ended.code == 0, ended.out
    assert "1 recorded, but did not repeat" in ended.out
    assert "NOT REPEATED test_till.py::test_till: in rehearsal 1: drift " in ended.out
    assert re.search(r"mask it: `cua-vnc mask test_till.py::test_till \d+,\d+,\d+,\d+`", ended.out)
    assert starts(project) == 2
    (test,) = results(project)
    assert (test.result, test.is_unrepeated) == ("passed", True)
    (rehearsal,) = test.rehearsals
    assert (project.path / rehearsal.recorded).is_file()
    assert (project.path / rehearsal.seen).is_file()
    assert rehearsal.recorded != rehearsal.seen
    assert "did not repeat, in rehearsal 1" in (project.path / "junit.xml").read_text(encoding="utf-8")
    assert project.file.exists()


STATE = """
import pathlib, pytest

@pytest.fixture(scope="module")
def orders():
    yield []

@pytest.mark.parametrize("name", ["alice"])
class TestTill:
    @pytest.mark.vnc_task("Enter alice, add two apples and pay", expect=None)
    def test_till(self, name, orders, vnc_desktop, tmp_path):
        (tmp_path / "new").mkdir()
        assert not hasattr(self, "seen")
        self.seen = True
        orders.append(vnc_desktop.read_file("total.txt"))
        assert orders == [f"{name} pays 5.00"]
"""


def test_shared_desktop_has_no_rehearsal(project: Project) -> None:
    ended = recorded(project, "--vnc-scope=session")
    assert (ended.code, starts(project)) == (0, 1), ended.out
    assert "not rehearsed: with --vnc-scope=session no desktop is fresh" in ended.out


def test_rehearsal_of_last_test_makes_module_fixtures_again(project: Project) -> None:
    project.write("test_till.py", STATE)
    ended = recorded(project, ONCE, "--reruns=2", "-x", "-v")
    assert ended.code == 0, ended.out
    assert "repeated in 1 rehearsal" in ended.out
    assert "1 passed" in ended.out
    assert "rehearsal 1 of 1" in ended.out


def test_failed_rehearsal_is_hidden_from_other_plugins(project: Project) -> None:
    project.write("test_till.py", STATE.replace('scope="module"', 'scope="session"'))
    project.write("test_zoo.py", "def test_after(): ...")
    ended = recorded(project, "--reruns=2", "-x", "--timeout=60", "test_till.py", "test_zoo.py", "-n1")
    assert ended.code == 0, ended.out
    assert "NOT REPEATED test_till.py::TestTill::test_till[alice]: in rehearsal 1: " in ended.out
    assert "reset what it leaves behind, in a fixture" in ended.out
    assert "2 passed" in ended.out
    assert " rerun" not in ended.out.splitlines()[-1]
    assert "1 recorded, but did not repeat" in ended.out
    assert results(project)[0].is_unrepeated


JUDGED = """
from pytest_vnc_use.types import Verdict

class Yes:
    def judge(self, claim, frame, *, timeout_s, report):
        with pathlib.Path("judged.txt").open("a") as judged:
            print("judged", file=judged)
        return Verdict(claim, "holds", "it says paid", None, frame.ref)

@pytest.fixture
def vnc_judge():
    return Yes()
"""
TASK_FILE = """
[[test]]
name = "till"
task = "Enter alice, add two apples and pay"
expect = "the till says paid"
"""


def test_task_file_is_rehearsed_without_judge(project: Project) -> None:
    (project.path / "test_till.py").unlink()
    project.write("test_till.vnc.toml", TASK_FILE)
    conftest = (project.path / "conftest.py").read_text(encoding="utf-8")
    project.write("conftest.py", conftest + JUDGED)
    ended = recorded(project, till="--fault-from=2 --fault='shaky text'")
    assert ended.code == 0, ended.out
    assert "vnc-use: 1 recording repeated in 2 rehearsals" in ended.out
    assert "LEARNT test_till.vnc.toml::till: another look in rehearsal 1, from (" in ended.out
    recording = load(project.path / "__vnc_recordings__" / "test_till.vnc" / "till.json")
    assert recording
    learnt = [part for screen in screens(recording) for part in screen.dynamic if part.kind == "unstable"]
    assert {len(part.variants) for part in learnt} == {2}
    assert (project.path / "judged.txt").read_text(encoding="utf-8").splitlines() == ["judged"]


SUBTESTS = """
import pathlib, pytest

@pytest.mark.vnc_task("Enter alice, add two apples and pay", expect=None)
def test_till(vnc_desktop, subtests):
    times = pathlib.Path("times.txt")
    with times.open("a") as file:
        print("again", file=file)
    with subtests.test("paid"):
        assert vnc_desktop.read_file("total.txt") == "alice pays 5.00"
    with subtests.test("rested"):
        assert len(times.read_text().splitlines()) < LIMIT
    assert vnc_desktop.read_file("total.txt") == "alice pays 5.00"
"""
needs_subtests = pytest.mark.skipif(pytest.version_tuple < (9,), reason="subtests came with pytest 9")


@needs_subtests
def test_subtests_of_rehearsal_are_not_reported(project: Project) -> None:
    project.write("test_till.py", SUBTESTS.replace("LIMIT", "9"))
    passed = project.run("--vnc-record=rewrite", ONCE, "-v")
    assert passed.code == 0, passed.out
    assert "1 passed, 2 subtests passed" in passed.out
    assert "1 recording repeated in 1 rehearsal" in passed.out
    for limit, code in (2, 0), (1, 1):  # the rehearsal fails, or the test itself
        for kept in (project.path / "times.txt", project.file):
            kept.unlink()
        project.write("test_till.py", SUBTESTS.replace("LIMIT", str(limit)))
        failed = project.run("--vnc-record=rewrite", ONCE, "-v")
        assert (failed.code, project.file.exists()) == (code, code == 0), failed.out
        assert ("NOT REPEATED test_till.py::test_till: in rehearsal 1: " in failed.out) == (code == 0)


def test_ctrl_c_in_rehearsal_ends_session(project: Project) -> None:
    app = f"{shlex.quote(sys.executable)} {shlex.quote(str(TILL))}"
    desktop = ["--vnc-server=qt", f"--vnc-app={app}", "--vnc-screen-size=800x400", "-p", "no:pytest-vnc"]
    command = [sys.executable, "-u", "-m", "pytest", "-v", "--vnc-record=rewrite", ONCE, *desktop]
    with subprocess.Popen(command, cwd=project.path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        out = ""
        for line in process.stdout:
            out += line
            if "rehearsal 1 of 1" in line:
                process.send_signal(signal.SIGINT)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, out
    assert "1 recording written" in out
    assert "1 recording not rehearsed to the end: Ctrl-C" in out
    assert project.file.exists()
