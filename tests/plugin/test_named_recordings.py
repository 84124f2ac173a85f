"""Recordings that tests share by name, in whole sessions on a screen in this process:
each click paints a square.
"""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from pytest_vnc_use.cli import main
from pytest_vnc_use.recordings.format import Recording
from pytest_vnc_use.recordings.store import load
from pytest_vnc_use.ui.review import CiReview
from support.forked_python import run_python
from support.served_screen import served_screen

BLUE = 0x2070B0
RED = 0xC02020
CONFTEST = """
import pytest
from pytest_vnc_use.planners import finish
from pytest_vnc_use.types import Click
from support.judges import Says

@pytest.fixture
def vnc_planner():
    def decide(observation):
        with open("asked.txt", "a") as file:
            file.write(observation.task + "\\n")
        if observation.turns:
            return finish()
        return Click(30, 40) if observation.task.startswith("Sign") else Click(90, 40)
    return decide

@pytest.fixture
def vnc_judge():
    return Says()

@pytest.fixture
def signed_in(vnc_agent):
    vnc_agent.run("Sign in", recording="sign_in")
"""
TESTS = """
import pytest

@pytest.mark.vnc_task("Open the settings")
def test_settings(signed_in, vnc_agent):
    vnc_agent.verify("it says so")

@pytest.mark.vnc_task("Sign in", recording="sign_in")
@pytest.mark.vnc_task("Open the help", expect="help is shown")
def test_help(vnc_agent): pass

@pytest.mark.vnc_task("Sign in", recording="sign_in")
def test_sign_in(vnc_agent): pass
"""
SHARED = Path("__vnc_recordings__/shared/sign_in/recording.json")


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pytest.ini").write_text("[pytest]\n")
    Path("conftest.py").write_text(CONFTEST)
    Path("test_app.py").write_text(TESTS)


def session(
    mode: str, *options: str, colour: int = BLUE, ci: str = ""
) -> tuple[str, str, list[str]]:
    """Return the output and the last line of a session, and the tasks for which its
    planner was asked.
    """
    Path("asked.txt").unlink(missing_ok=True)
    with served_screen(colour, resets=True) as screen:
        done = run_python(
            "pytest",
            "-p",
            "no:cacheprovider",
            f"--vnc-server={screen.address}",
            f"--vnc-record={mode}",
            "-ovnc_gate_seconds=1",
            *options,
            cwd=Path.cwd(),
            env={**os.environ, "CI": ci},
            timeout=400,
        )
    asked = Path("asked.txt")
    tasks = asked.read_text().splitlines() if asked.exists() else []
    output = done.stdout + done.stderr
    return output, done.stdout.splitlines()[-1], [*dict.fromkeys(tasks)]


def read(path: Path) -> Recording:
    recording = load(path)
    assert recording
    return recording


def own(test: str) -> Recording:
    return read(Path(f"__vnc_recordings__/test_app/{test}/recording.json"))


def test_named_task_is_recorded_once_for_all_tests() -> None:
    output, summary, asked = session("auto")
    assert " 3 passed" in summary, output
    assert asked == ["Sign in", "Open the settings", "Open the help"]
    assert tasks_of(read(SHARED)) == ["Sign in"]
    recordings = [own(test) for test in ("test_settings", "test_help", "test_sign_in")]
    assert {recording.uses for recording in recordings} == {("sign_in",)}
    own_tasks = [tasks_of(recording) for recording in recordings]
    assert own_tasks == [["Open the settings"], ["Open the help"], []]
    written = SHARED.read_bytes()
    output, summary, asked = session("replay")
    assert " 3 passed" in summary, output
    assert asked == []
    assert SHARED.read_bytes() == written


def tasks_of(recording: Recording) -> list[str]:
    return [segment.task for segment in recording.segments]


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ('"Sign out"', "has the task 'Sign in', but this test uses it with 'Sign out'"),
        ('"Sign in", expect="a"', "has expect [], but this test uses it with ['a']"),
        ('"Sign in", expect=None', "has expect [], but this test uses it with None"),
    ],
)
def test_named_recording_used_otherwise_is_settings_error(
    argument: str, problem: str
) -> None:
    assert " 1 passed" in session("auto", "test_app.py::test_sign_in")[1]
    Path("test_app.py").write_text(TESTS.replace('"Sign in"', argument))
    output, summary, _ = session("replay", "test_app.py::test_sign_in")
    assert " 1 error" in summary
    assert problem in output
    assert "take another name; or if all its tests have it so now" in output


def test_name_in_wrong_argument_prints_right_one() -> None:
    Path("test_app.py").write_text(TESTS.replace('recording="', 'record="'))
    output, _, _ = session("replay")
    assert "The name of a recording is recording='sign_in'" in output


def test_rerecord_records_in_first_test_only() -> None:
    assert " 3 passed" in session("auto")[1]
    before = SHARED.with_name("end1.webp").read_bytes()
    output, summary, asked = session("auto", "--vnc-rerecord=sign_in", colour=RED)
    assert " 3 passed" in summary, output
    assert SHARED.with_name("end1.webp").read_bytes() != before
    assert asked.count("Sign in") == 1


def test_named_recording_of_failed_test_stays() -> None:
    text = TESTS.replace(
        "test_sign_in(vnc_agent): pass", "test_sign_in(vnc_agent): 1/0"
    )
    Path("test_app.py").write_text(text)
    assert " 1 failed" in session("auto", "test_app.py::test_sign_in")[1]
    assert SHARED.exists()
    assert not Path("__vnc_recordings__/test_app").exists()


def test_drift_of_named_recording_is_one_difference() -> None:
    assert " 3 passed" in session("auto")[1]
    output, summary, _ = session("replay", colour=RED, ci="true")
    assert " 2 failed, 1 error" in summary, output
    assert "drift in 'sign_in' at the end: a different effect of step 1" in output
    assert "vnc-use: 3 tests drifted in the recording 'sign_in'" in output
    assert "Record 'sign_in' again: --vnc-rerecord=sign_in beside that." in output
    with closing(CiReview(Path("runs"))) as review:
        ((number, group),) = review.groups.items()
        (drift,) = group.findings
        assert drift.test == "sign_in, in 3 tests"
        assert len(drift.tests) == 3
        review.answer(number, "accept", "")
        assert group.results == {drift.test: "accepted"}
    assert len(read(SHARED).history) == 1
    assert " 1 passed" in session("replay", "test_app.py::test_sign_in", colour=RED)[1]


def test_recordings_list_prints_users(capsys: pytest.CaptureFixture[str]) -> None:
    assert " 3 passed" in session("auto")[1]
    shutil.copytree(SHARED.parent, SHARED.parent.with_name("sign_out"))
    assert main(["recordings", "list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "__vnc_recordings__/shared/sign_in: 'Sign in', 3 tests",
        "  test_app.py::test_help",
        "  test_app.py::test_settings",
        "  test_app.py::test_sign_in",
        "__vnc_recordings__/shared/sign_out: 'Sign in', 0 tests",
    ]


def test_heal_of_named_recording_in_ci_is_proposed() -> None:
    assert " 3 passed" in session("auto")[1]
    before = SHARED.read_bytes()
    test = "test_app.py::test_sign_in"
    output, summary, _ = session("auto", test, colour=RED, ci="true")
    assert " 1 passed" in summary, output
    assert SHARED.read_bytes() == before
    with closing(CiReview(Path("runs"))) as review:
        ((number, _),) = review.groups.items()
        review.answer(number, "accept", "")
    assert SHARED.read_bytes() != before
    assert " 1 passed" in session("replay", test, colour=RED)[1]


def test_named_recording_is_found_in_directory_above() -> None:
    assert " 3 passed" in session("auto")[1]
    below = Path("below")
    below.mkdir()
    shutil.copy("test_app.py", below / "test_below.py")
    output, summary, asked = session("auto", "below/test_below.py::test_settings")
    assert " 1 passed" in summary, output
    assert asked == ["Open the settings"]
    assert not (below / SHARED).exists()


def test_renamed_recording_prints_move_command() -> None:
    assert " 3 passed" in session("auto")[1]
    Path("test_app.py").write_text(TESTS.replace("sign_in", "login"))
    Path("conftest.py").write_text(CONFTEST.replace('"sign_in"', '"login"'))
    output, summary, _ = session("replay", "test_app.py::test_login")
    assert " 1 error" in summary, "before the desktop"
    command = "mv __vnc_recordings__/shared/sign_in __vnc_recordings__/shared/login"
    assert command in output


@pytest.mark.slow
def test_workers_record_a_name_once() -> None:
    output, summary, _ = session("auto", "-n2", "-ovnc_rehearse=0")
    assert " 3 passed" in summary, output
    lines = Path("asked.txt").read_text().splitlines()
    assert lines.count("Sign in") == 2, "one action, and that it is done"
    assert session("replay", "-n2")[1].count("3 passed")
