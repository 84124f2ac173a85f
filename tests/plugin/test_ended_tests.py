"""What a test leaves in its run directories once it has ended, and the pages that the
session writes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_vnc_use.runs.directory import (
    FinishedTest,
    RunDirectory,
    read_finished_test,
    write_finished_test,
)
from support.pad_sessions import ON_PAD, results, scripted_conftest
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


def ended(directory: Path) -> dict[str, list[FinishedTest]]:
    """The results in the run directories, by the test's name, oldest first."""
    tests: dict[str, list[FinishedTest]] = {}
    for trace in sorted(directory.glob("runs/*/trace.jsonl")):
        if test := read_finished_test(trace.parent):
            tests.setdefault(test.test.partition("::")[2], []).append(test)
    return tests


@pytest.mark.slow
def test_run_directories_and_page_tell_how_tests_ended(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of further attempts, and where a worker has died."""
    require_package("pytest_rerunfailures")
    monkeypatch.setenv("SHOP_PASSWORD", "wonderland")
    pytester.makeconftest(PLANS)
    test_id = f"{pytester.makepyfile(TESTS).name}::test_crash"
    RunDirectory.create(pytester.path / "runs", "earlier", test_id)
    result = pytester.runpytest_subprocess(
        *ON_PAD, "-n1", "--vnc-artifacts=retain-on-failure", timeout=400
    )
    result.stdout.fnmatch_lines(["vnc-use: report in runs/index.html"])
    assert result.stdout.str().count("report in") == 1
    result.stdout.fnmatch_lines(["infra: worker 'gw*' crashed while running *"])
    of_runs = ended(pytester.path)
    (passed,) = of_runs["test_passed"]
    assert passed.result == "passed"
    assert passed.phase == "call"
    assert passed.triage == ""
    assert passed.failure == ""
    assert passed.worker == "gw0"
    assert passed.screenshots == "not kept: --vnc-artifacts=retain-on-failure"
    (failed,) = of_runs["test_failed"]
    assert failed.result == "failed"
    assert failed.triage == "product"
    assert failed.rule
    assert failed.attempt == 1
    assert failed.seconds > 0
    assert failed.screenshots == ""
    assert "assert" in failed.failure
    assert [test.attempt for test in of_runs["test_flaky"]] == [1, 2]
    tests = results()
    assert {name: (test.result, test.triage) for name, test in tests.items()} == {
        "crash": ("error", "infra"),
        "dies_after_failure": ("failed", "product"),
        "failed": ("failed", "product"),
        "first_crash": ("passed", None),
        "flaky": ("passed", None),
        "passed": ("passed", None),
    }
    assert tests["first_crash"].retried_for == ("infra",)
    crash = tests["crash"]
    assert "crashed while running" in crash.message
    assert crash.rule == "the test did not end"
    assert crash.checked_by == ("body",)
    assert crash.test == test_id
    (run,) = crash.runs
    assert run.outcome == "done"
    assert run.steps == 1
    assert Path(run.directory, "index.html").exists()
    assert not Path(tests["passed"].runs[0].directory, "screens").exists()
    assert Path(tests["failed"].runs[0].directory, "screens").exists()
    page = (pytester.path / "runs" / "index.html").read_text("utf-8")
    assert page.rindex("test_failed") < page.rindex("test_passed")
    assert "3 of 6 tests did not pass" in page
    assert "crashed" in page
    assert "attempt 1: failed" in page
    kept = [path.read_text() for path in pytester.path.glob("runs/*/result.json")]
    assert "wonderland" not in "".join([page, *kept])
    traces = [*pytester.path.glob("runs/*/trace.jsonl")]
    assert [trace for trace in traces if not is_ordered(trace)] == []
    assert not [*pytester.path.glob("runs/*/checkpoints*")]


def is_ordered(trace: Path) -> bool:
    """Return whether the times of its events grow."""
    events = map(json.loads, trace.read_text().splitlines()[1:])
    times = [event["at_s"] for event in events if event.get("at_s")]
    return times == sorted(times)


def test_full_directory_loses_oldest_passing_runs(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "wonderland")
    old = RunDirectory.create(pytester.path / "runs", "old").path
    write_finished_test(old, FinishedTest("test_it", "passed"))
    (old / "screens" / "a.png").write_bytes(bytes(3_000_000))
    pytester.makeconftest(PLANS)
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess(
        *ON_PAD, "-k", "test_failed", "-ovnc_max_megabytes=2", "--vnc-artifacts=off"
    )
    assert not [*pytester.path.glob("runs/*/screens")]
    result.stdout.fnmatch_lines(
        [
            "vnc-use: 1 run was removed, the oldest first: all runs had 3 MB of at"
            " most 2*"
        ]
    )
    assert not old.exists()
    assert [*ended(pytester.path)] == ["test_failed"]
