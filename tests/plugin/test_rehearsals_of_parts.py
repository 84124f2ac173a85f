"""What a rehearsal does where a test has subtests, and where somebody presses Ctrl-C meanwhile."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.till_project import Project, project_in
from support.tills import TILL

pytestmark = pytest.mark.desktop

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


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A test without a recording, which is rehearsed once."""
    monkeypatch.setenv("VNC_USE_REHEARSE", "1")
    return project_in(tmp_path)


@pytest.mark.slow
@needs_subtests
def test_subtests_of_rehearsal_are_told_to_nobody_and_may_fail_it(project: Project) -> None:
    project.write("test_till.py", SUBTESTS.replace("LIMIT", "9"))
    passed = project.run("--vnc-record=rewrite", "-v")
    assert passed.code == 0, passed.out
    assert "1 passed, 2 subtests passed" in passed.out
    assert "1 recording repeated in 1 rehearsal" in passed.out
    for kept in (project.path / "times.txt", project.file):
        kept.unlink()
    project.write("test_till.py", SUBTESTS.replace("LIMIT", "2"))
    failed = project.run("--vnc-record=rewrite", "-v")
    assert failed.code == 0, failed.out
    assert "1 passed, 2 subtests passed" in failed.out
    assert "NOT REPEATED test_till.py::test_till: in rehearsal 1: " in failed.out


@pytest.mark.slow
@needs_subtests
def test_nothing_is_written_of_test_with_subtest_that_failed(project: Project) -> None:
    project.write("test_till.py", SUBTESTS.replace("LIMIT", "1"))
    failed = project.run("--vnc-record=rewrite", "-v")
    assert (failed.code, project.file.exists()) == (1, False), failed.out


@pytest.mark.slow
def test_ctrl_c_in_rehearsal_ends_session_once_test_is_told(project: Project) -> None:
    app = f"{shlex.quote(sys.executable)} {shlex.quote(str(TILL))}"
    desktop = ["--vnc-server=qt", f"--vnc-app={app}", "--vnc-screen-size=800x400", "-p", "no:pytest-vnc"]
    command = [sys.executable, "-u", "-m", "pytest", "-v", "--vnc-record=rewrite", *desktop]
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
