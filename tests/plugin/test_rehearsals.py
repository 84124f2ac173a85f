"""`vnc_rehearse`: a new recording is replayed on fresh desktops, with pytest in a
process of its own.
"""

from __future__ import annotations

import shlex
import sys
from itertools import chain
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

def task(name, fault=""):
    starts = pathlib.Path(__file__).with_name(f"{{name}}.starts")
    app = f"{START_TILL} --starts='{{starts}}' {{fault}}"
    return pytest.mark.vnc_task("Enter alice, add two apples and pay", expect=None, app=app)

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
UNREADY = """
from conftest import task

@task("unready", "--fault-from=3 --fault-until=3 --fault=deaf")
def test_till(vnc_desktop): ...
"""
LEFT_BEHIND = """
import pytest
from conftest import task

@pytest.fixture(scope="module")
def orders():
    return []

@pytest.mark.parametrize("name", ["alice"])
class TestTill:
    @task("state")
    def test_till(self, name, orders, vnc_desktop, tmp_path):
        (tmp_path / "new").mkdir()
        assert not hasattr(self, "seen")
        self.seen = True
        orders.append(vnc_desktop.read_file("total.txt"))
        assert orders == [f"{name} pays 5.00"]

def test_other(orders): assert len(orders) == 2
"""


def starts(project: Project) -> dict[str, int]:
    """How often the till of each test was started."""
    return {
        file.stem: len(file.read_text("utf-8").splitlines())
        for file in project.path.glob("*.starts")
    }


def unstable(file: Path) -> list[DynamicRegion]:
    recording = load(file)
    assert isinstance(recording, Recording)
    parts = chain.from_iterable(screen.dynamic for screen in screens(recording))
    return [part for part in parts if part.kind == "unstable"]


def test_new_recordings_are_replayed_twice(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VNC_USE_REHEARSE", "2")
    plans = (project.path / "conftest.py").read_text("utf-8")
    project.write("conftest.py", CONFTEST + plans)
    project.write("test_till.py", TESTS)
    project.write("test_left.py", LEFT_BEHIND)
    options = ("--reruns=2", "-x", "--timeout=90", "-n1", "--junitxml=junit.xml")
    ended = project.run("--vnc-record=auto", "-ovnc_gate_seconds=3", *options)
    assert ended.code == 0, ended.out
    assert "= 5 passed, 2 not repeated in " in ended.out
    results = read_results(project.path / "runs" / "vnc-results.json").tests
    tests = {test.test: test for test in results}
    left_behind = "test_left.py::TestTill::test_till[alice]"
    unrepeated = {name for name, test in tests.items() if test.is_unrepeated}
    assert unrepeated == {"test_till.py::test_moved", left_behind}
    assert starts(project) == {"till": 3, "shaky": 3, "moved": 2, "state": 2}
    assert project.asked == 5 * len(starts(project))
    moved = "NOT REPEATED test_till.py::test_moved: in rehearsal 1: drift "
    assert moved in ended.out
    assert f"NOT REPEATED {left_behind}: in rehearsal 1: " in ended.out
    assert "reset what it leaves behind, in a fixture" in ended.out
    assert "cua-vnc mask" not in ended.out, "the next click's target is no clock"
    assert "vnc-use: 2 recordings repeated in 2 rehearsals" in ended.out
    till = tests["test_till.py::test_till"]
    assert [(run.rehearsal, run.steps) for run in till.runs] == [(0, 4), (1, 4), (2, 4)]
    assert [each.repeated for each in till.rehearsals] == [True, True]
    assert till.duration_s > sum(each.seconds for each in till.rehearsals) > 0
    (rehearsal,) = tests["test_till.py::test_moved"].rehearsals
    assert "accept it: --vnc-record=accept" in rehearsal.advice
    assert "types faster than a user" in rehearsal.advice
    for advice in rehearsal.advice.split("\n"):
        assert f" {advice}\n" in ended.out
    assert rehearsal.recorded != rehearsal.seen
    assert (project.path / rehearsal.recorded).is_file()
    assert (project.path / rehearsal.seen).is_file()
    assert "LEARNT test_till.py::test_shaky: new variant, from (" in ended.out
    shaky = unstable(project.file_of("test_shaky"))
    assert {len(part.variants) for part in shaky} == {2}
    assert unstable(project.file) == []
    assert project.file_of("test_moved").exists()
    junit = (project.path / "junit.xml").read_text(encoding="utf-8")
    assert 'name="vnc_rehearsal" value="repeated in 2 rehearsals"' in junit
    assert "did not repeat, in rehearsal 1" in junit


def test_rehearsal_learns_that_program_takes_no_input_at_once(
    project: Project,
) -> None:
    """The second rehearsal does not wait before its first step, as the first does."""
    plans = (project.path / "conftest.py").read_text("utf-8")
    project.write("conftest.py", CONFTEST + plans)
    project.write("test_till.py", UNREADY)
    ended = project.run("--vnc-record=auto", "-ovnc_rehearse=2", "-ovnc_gate_seconds=3")
    assert ended.code == 0, ended.out
    assert "LEARNT test_till.py::test_till: the first screen must stay 3 s" in ended.out
    assert "1 recording repeated in 2 rehearsals" in ended.out
    assert starts(project) == {"unready": 4}
    recording = load(project.file)
    assert recording is not None
    assert recording.segments[0].first_stays_s == 3
    replayed = project.run("--vnc-record=replay", "-ovnc_gate_seconds=3")
    assert replayed.code == 0, replayed.out


def test_heal_in_ci_is_rehearsed_before_its_review(recorded: Project) -> None:
    before = recorded.file.read_bytes()
    ended = recorded.run(
        "--vnc-record=auto",
        "-ovnc_rehearse=1",
        "-ovnc_gate_seconds=2",
        till="--fault='moved button'",
        ci="true",
    )
    assert ended.code == 0, ended.out
    assert "proposed, as CI is set" in ended.out
    assert "1 recording repeated in 1 rehearsal" in ended.out
    assert recorded.file.read_bytes() == before
