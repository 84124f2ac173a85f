"""What a test leaves in its run directories once it has ended, and the pages that the session writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use.runs.directory import FinishedTest, RunDirectory, read_finished_test, write_finished_test
from support.pad_sessions import QUIET, results, scripted_conftest
from support.paths import PAD_LINE
from support.vnc_servers import require_package

pytestmark = pytest.mark.desktop

PLANS = scripted_conftest("[Click(5, 5)]")
TESTS = """
import os, pathlib, pytest

clicked = pytest.mark.vnc_task("Click it", expect=None)

@clicked
def test_passed(vnc_desktop):
    assert "press" in vnc_desktop.read_file("events.txt")

@pytest.mark.vnc_task("Click it", secrets="SHOP_PASSWORD", expect=None)
def test_failed(vnc_desktop):
    assert vnc_desktop.read_file("events.txt") == os.environ["SHOP_PASSWORD"]
"""
ATTEMPTS = """
@pytest.mark.flaky(reruns=1)
@clicked
def test_flaky(vnc_desktop):
    first = pathlib.Path("first")
    assert first.exists() or first.touch()

@clicked
def test_crash(vnc_desktop):
    os._exit(7)

@pytest.mark.flaky(reruns=1)
@clicked
def test_first_crash(vnc_desktop):
    first = pathlib.Path("first_crash")
    first.exists() or first.touch() or os._exit(0)

@pytest.fixture
def dies_late(vnc_desktop):
    yield
    os._exit(0)

def test_dies_after_failure(dies_late): assert 0

def test_without_desktop(): ...
"""
Session = Callable[..., pytest.RunResult]


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Run the two tests on the pad with these options."""
    monkeypatch.setenv("SHOP_PASSWORD", "wonderland")
    pytester.makeconftest(PLANS)
    pytester.makepyfile(TESTS)

    def run(*options: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess(*QUIET, "--vnc-server=qt", f"--vnc-app={PAD_LINE}", *options, timeout=400)

    return run


def ended(directory: Path) -> dict[str, list[FinishedTest]]:
    """The results in the run directories, by the test's name, oldest first."""
    tests: dict[str, list[FinishedTest]] = {}
    for trace in sorted(directory.glob("runs/*/trace.jsonl")):
        if test := read_finished_test(trace.parent):
            tests.setdefault(test.test.partition("::")[2], []).append(test)
    return tests


def test_run_directories_and_page_tell_how_tests_ended(session: Session, pytester: pytest.Pytester) -> None:
    result = session("-n1", "--vnc-artifacts=retain-on-failure")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["vnc-use: report in runs/index.html"])
    assert result.stdout.str().count("report in") == 1
    (passed,), (failed,) = ended(pytester.path)["test_passed"], ended(pytester.path)["test_failed"]
    assert (passed.result, passed.phase, passed.triage, passed.failure) == ("passed", "call", "", "")
    assert (failed.result, failed.triage, failed.attempt) == ("failed", "product", 1)
    assert (passed.worker, bool(failed.rule), failed.seconds > 0) == ("gw0", True, True)
    assert "assert" in failed.failure
    page = (pytester.path / "runs" / "index.html").read_text("utf-8")
    assert page.rindex("test_failed") < page.rindex("test_passed")
    pages = [path.read_text("utf-8") for path in pytester.path.glob("runs/*/index.html")]
    assert sorted("not kept: --vnc-artifacts=retain-on-failure" in page for page in pages) == [False, True]
    assert (passed.screenshots, failed.screenshots) == ("not kept: --vnc-artifacts=retain-on-failure", "")
    (kept_screens,) = pytester.path.glob("runs/*/screens")
    assert read_finished_test(kept_screens.parent) == failed
    kept = [path.read_text() for path in pytester.path.glob("runs/*/result.json")]
    assert "wonderland" not in "".join([page, *kept])
    for trace in pytester.path.glob("runs/*/trace.jsonl"):
        times = [json.loads(line).get("at_s") for line in trace.read_text().splitlines()[1:]]
        assert times == sorted(times)
        assert not [*trace.parent.glob("checkpoints*")]


def test_full_directory_loses_oldest_passing_runs(session: Session, pytester: pytest.Pytester) -> None:
    old = RunDirectory.create(pytester.path / "runs", "old").path
    write_finished_test(old, FinishedTest("test_it", "passed"))
    (old / "screens" / "a.png").write_bytes(bytes(3_000_000))
    result = session("-k", "failed", "-ovnc_max_megabytes=2", "--vnc-artifacts=off")
    assert not [*pytester.path.glob("runs/*/screens")]
    result.stdout.fnmatch_lines(["vnc-use: 1 run was removed, the oldest first: all runs had 3 MB of at most 2*"])
    assert not old.exists()
    assert [*ended(pytester.path)] == ["test_failed"]


def test_page_tells_attempts_and_dead_workers(session: Session, pytester: pytest.Pytester) -> None:
    require_package("pytest_rerunfailures")
    pytester.makepyfile(TESTS + ATTEMPTS)
    test_id = "test_page_tells_attempts_and_dead_workers.py::test_crash"
    RunDirectory.create(pytester.path / "runs", "earlier", test_id)
    session("-n1", "-k", "not failed")
    page = (pytester.path / "runs" / "index.html").read_text("utf-8")
    assert "2 of 5 tests did not pass" in page
    for shown in ("crashed", "attempt 1: failed"):
        assert shown in page
    assert [test.attempt for test in ended(pytester.path)["test_flaky"]] == [1, 2]
    tests = results()
    assert {name: (test.result, test.triage) for name, test in tests.items()} == {
        "crash": ("error", "infra"),
        **dict.fromkeys(("flaky", "first_crash", "passed"), ("passed", None)),
        "dies_after_failure": ("failed", "product"),
    }
    assert tests["first_crash"].retried_for == ("infra",)
    crash = tests["crash"]
    assert "crashed while running" in crash.message
    assert crash.rule == "the test did not end"
    assert (crash.checked_by, crash.test) == (("body",), test_id)
    (run,) = crash.runs
    assert (run.outcome, run.steps) == ("done", 1)
    assert Path(run.directory, "index.html").exists()
