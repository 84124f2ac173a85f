"""`vnc_rehearse`: a new recording is replayed on fresh desktops, with pytest in a process of its own."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vnc_use.recordings.format import DynamicRegion, Recording, screens
from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.report.results import read_results
from support.till_project import Project
from support.tills import TILL

pytestmark = [pytest.mark.desktop, pytest.mark.slow]

START_TILL = f"{shlex.quote(sys.executable)} {shlex.quote(str(TILL))}"
CONFTEST = f"""
import pathlib, pytest
from pytest_vnc_use.types import Verdict

def task(name, fault=""):
    starts = pathlib.Path(__file__).with_name(f"{{name}}.starts")
    app = f"{START_TILL} --starts='{{starts}}' {{fault}}"
    return pytest.mark.vnc_task("Enter alice, add two apples and pay", expect=None, app=app)

class Yes:
    def judge(self, claim, frame, *, timeout_s, report):
        with pathlib.Path("judged.txt").open("a") as judged:
            print("judged", file=judged)
        return Verdict(claim, "holds", "it says paid", None, frame.ref)

@pytest.fixture
def vnc_judge():
    return Yes()
"""
TESTS = """
from conftest import task

@task("till")
def test_till(vnc_desktop):
    assert vnc_desktop.read_file("total.txt") == "alice pays 5.00"

@task("shaky", "--fault-from=2 --fault='shaky text'")
def test_shaky(vnc_desktop): ...

@task("moved", "--fault-from=2 --fault='moved button'")
def test_moved(vnc_desktop): ...
"""
LEFT_BEHIND = """
import pytest
from conftest import task

@pytest.fixture(scope="module")
def orders():
    yield []

@pytest.mark.parametrize("name", ["alice"])
class TestTill:
    @task("state")
    def test_till(self, name, orders, vnc_desktop, tmp_path):
        (tmp_path / "new").mkdir()
        assert not hasattr(self, "seen")
        self.seen = True
        orders.append(vnc_desktop.read_file("total.txt"))
        assert orders == [f"{name} pays 5.00"]

    def test_other(self, name, orders):
        assert len(orders) == 2
"""
TASK_FILE = f"""
[[test]]
name = "till"
task = "Enter alice, add two apples and pay"
expect = "the till says paid"
app = "{START_TILL} --starts='DIRECTORY/judged.starts' --fault-from=2 --fault='shaky text'"
"""
SUBTESTS = """
import pathlib, pytest
from conftest import task

def times():
    with pathlib.Path("failing.txt").open("a") as file:
        print("again", file=file)
    return len(pathlib.Path("failing.txt").read_text().splitlines())

@task("failing")
def test_failing_again(vnc_desktop, subtests):
    number = times()
    with subtests.test("rested"):
        assert number < 2

@task("failing_at_once")
@pytest.mark.skipif("not config.option.keyword")
def test_failing_at_once(vnc_desktop, subtests):
    with subtests.test("rested"):
        assert 0
"""
HAS_SUBTESTS = pytest.version_tuple >= (9,)


def starts(project: Project) -> dict[str, int]:
    """How often the till of each test was started."""
    return {file.stem: len(file.read_text("utf-8").splitlines()) for file in project.path.glob("*.starts")}


def unstable(file: Path) -> list[DynamicRegion]:
    recording = load(file)
    assert isinstance(recording, Recording)
    return [part for screen in screens(recording) for part in screen.dynamic if part.kind == "unstable"]


def test_new_recordings_are_replayed_twice(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VNC_USE_REHEARSE", "2")
    plans = (project.path / "conftest.py").read_text("utf-8")
    project.write("conftest.py", CONFTEST + plans)
    files = {"test_till.py": TESTS, "test_left.py": LEFT_BEHIND}
    files["test_tasks.vnc.toml"] = TASK_FILE.replace("DIRECTORY", str(project.path))
    files |= {"test_parts.py": SUBTESTS} if HAS_SUBTESTS else {}
    for name, text in files.items():
        project.write(name, text)
    options = ("--reruns=2", "-x", "--timeout=90", "-n1", "--junitxml=junit.xml")
    ended = project.run("--vnc-record=auto", "-ovnc_gate_seconds=3", *options)
    assert ended.code == 0, ended.out
    assert ("= 7 passed, 1 skipped in " if HAS_SUBTESTS else "= 6 passed in ") in ended.out, ended.out
    tests = {test.test: test for test in read_results(project.path / "runs" / "vnc-results.json").tests}
    unrepeated = {
        "test_till.py::test_moved": "in rehearsal 1: drift ",
        "test_left.py::TestTill::test_till[alice]": "in rehearsal 1: ",
        **({"test_parts.py::test_failing_again": "in rehearsal 1: "} if HAS_SUBTESTS else {}),
    }
    counts = {"till": 3, "shaky": 3, "moved": 2, "state": 2, "judged": 3}
    assert starts(project) == counts | ({"failing": 2} if HAS_SUBTESTS else {})
    assert project.asked == 5 * len(starts(project))
    assert {name for name, test in tests.items() if test.is_unrepeated} == {*unrepeated}
    for name, problem in unrepeated.items():
        assert f"NOT REPEATED {name}: {problem}" in ended.out
    assert "reset what it leaves behind, in a fixture" in ended.out
    assert re.search(r"mask it \([\d,]+ px\): `cua-vnc mask test_till.py::test_moved \d+,\d+,\d+,\d+`", ended.out)
    assert f"vnc-use: {len(starts(project)) - len(unrepeated)} recordings repeated in 2 rehearsals" in ended.out
    till, moved = tests["test_till.py::test_till"], tests["test_till.py::test_moved"]
    assert [(run.rehearsal, run.steps) for run in till.runs] == [(0, 4), (1, 4), (2, 4)]
    assert [each.repeated for each in till.rehearsals] == [True, True]
    assert till.duration_s > sum(each.seconds for each in till.rehearsals) > 0
    (rehearsal,) = moved.rehearsals
    assert rehearsal.recorded != rehearsal.seen
    assert (project.path / rehearsal.recorded).is_file()
    assert (project.path / rehearsal.seen).is_file()
    for name in ("test_till.py::test_shaky", "test_tasks.vnc.toml::till"):
        assert f"LEARNT {name}: another look in rehearsal 1, from (" in ended.out
    assert {len(part.variants) for part in unstable(project.file.with_stem("test_shaky"))} == {2}
    assert unstable(project.file) == []
    assert project.file.with_stem("test_moved").exists()
    assert (project.path / "judged.txt").read_text(encoding="utf-8").splitlines() == ["judged"]
    junit = (project.path / "junit.xml").read_text(encoding="utf-8")
    assert 'name="vnc_rehearsal" value="repeated in 2 rehearsals"' in junit
    assert "did not repeat, in rehearsal 1" in junit


def test_shared_desktop_and_failed_subtest_have_no_rehearsal(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VNC_USE_REHEARSE", "1")
    project.write("conftest.py", CONFTEST + (project.path / "conftest.py").read_text("utf-8"))
    project.write("test_till.py", TESTS)
    project.write("test_parts.py", SUBTESTS)
    chosen = ["test_till.py::test_till", *(["test_parts.py::test_failing_at_once"] if HAS_SUBTESTS else [])]
    ended = project.run("--vnc-record=auto", "--vnc-scope=session", "-k", "test", *chosen)
    assert (ended.code, "1 recording not rehearsed: with --vnc-scope=session no desktop is fresh" in ended.out) == (
        int(HAS_SUBTESTS),
        True,
    ), ended.out
    assert [path.name for path in project.path.rglob("__vnc_recordings__/*/*.json")] == ["test_till.json"]


def test_ctrl_c_in_rehearsal_ends_session(project: Project) -> None:
    desktop = ["--vnc-server=qt", f"--vnc-app={START_TILL}", "--vnc-screen-size=800x400", "-p", "no:pytest-vnc"]
    command = [sys.executable, "-u", "-m", "pytest", "-v", "--vnc-record=rewrite", "-ovnc_rehearse=1", *desktop]
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
