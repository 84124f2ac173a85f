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
    of_runs = ended(pytester.path)
    (passed,), (failed,) = of_runs["test_passed"], of_runs["test_failed"]
    assert (passed.result, passed.phase, passed.triage, passed.failure) == (
        "passed",
        "call",
        "",
        "",
    )
    assert (failed.result, failed.triage, failed.attempt) == ("failed", "product", 1)
    assert (passed.worker, bool(failed.rule), failed.seconds > 0) == ("gw0", True, True)
    assert "assert" in failed.failure
    assert (passed.screenshots, failed.screenshots) == (
        "not kept: --vnc-artifacts=retain-on-failure",
        "",
    )
    assert [test.attempt for test in of_runs["test_flaky"]] == [1, 2]
    tests = results()
    assert {name: (test.result, test.triage) for name, test in tests.items()} == {
        "crash": ("error", "infra"),
        **dict.fromkeys(("flaky", "first_crash", "passed"), ("passed", None)),
        **dict.fromkeys(("failed", "dies_after_failure"), ("failed", "product")),
    }
    assert tests["first_crash"].retried_for == ("infra",)
    crash = tests["crash"]
    assert "crashed while running" in crash.message
    assert crash.rule == "the test did not end"
    assert (crash.checked_by, crash.test) == (("body",), test_id)
    (run,) = crash.runs
    assert (run.outcome, run.steps) == ("done", 1)
    assert Path(run.directory, "index.html").exists()
    has_screens = {
        name: Path(tests[name].runs[0].directory, "screens").exists()
        for name in ("passed", "failed")
    }
    assert has_screens == {"passed": False, "failed": True}
    page = (pytester.path / "runs" / "index.html").read_text("utf-8")
    assert page.rindex("test_failed") < page.rindex("test_passed")
    for shown in ("3 of 6 tests did not pass", "crashed", "attempt 1: failed"):
        assert shown in page
    kept = [path.read_text() for path in pytester.path.glob("runs/*/result.json")]
    assert "wonderland" not in "".join([page, *kept])
    for trace in pytester.path.glob("runs/*/trace.jsonl"):
        times = [
            at_s
            for line in trace.read_text().splitlines()[1:]
            if (at_s := json.loads(line).get("at_s"))
        ]
        assert times == sorted(times)
        assert not [*trace.parent.glob("checkpoints*")]


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
