"""What a test leaves in its run folders once it has ended, and the pages that the session writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_vnc_use.plugin.results import FILE
from pytest_vnc_use.report.results import read_results
from pytest_vnc_use.runs.folder import EndedTest, read_ended_test
from support.paths import PAD_LINE
from support.scripted import scripted_conftest
from support.vnc_servers import require_package

pytestmark = pytest.mark.desktop

PLANS = scripted_conftest("[Click(5, 5)]")
TESTS = """
import os, pytest

@pytest.mark.vnc_task("Click it", expect=None)
def test_passed(vnc_desktop):
    assert "press" in vnc_desktop.read_file("events.txt")

@pytest.mark.vnc_task("Click it", secrets="SHOP_PASSWORD", expect=None)
def test_failed(vnc_desktop):
    assert vnc_desktop.read_file("events.txt") == os.environ["SHOP_PASSWORD"]
"""
Session = Callable[..., pytest.RunResult]


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Run the two tests on the pad with these options."""
    monkeypatch.setenv("SHOP_PASSWORD", "wonderland")
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider -p no:pytest-vnc\n")
    pytester.makeconftest(PLANS)
    pytester.makepyfile(TESTS)

    def run(*options: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess("--vnc-server=qt", f"--vnc-app={PAD_LINE}", *options, timeout=400)

    return run


def ended(folder: Path) -> dict[str, EndedTest]:
    """The results in the run folders, by the test's name."""
    found = [read_ended_test(path.parent) for path in folder.glob("runs/*/trace.jsonl")]
    return {each.test.partition("::")[2]: each for each in found if each}


def test_each_run_folder_tells_how_its_test_ended(session: Session, pytester: pytest.Pytester) -> None:
    result = session()
    result.assert_outcomes(passed=1, failed=1)
    found = ended(pytester.path)
    passed, failed = found["test_passed"], found["test_failed"]
    assert (passed.result, passed.phase, passed.triage, passed.failure) == ("passed", "call", "", "")
    assert (failed.result, failed.triage, failed.attempt, failed.worker) == ("failed", "product", 1, "")
    assert failed.rule
    assert "assert" in failed.failure
    assert failed.seconds > 0
    assert "wonderland" not in "".join(path.read_text() for path in pytester.path.glob("runs/*/result.json"))
    for trace in pytester.path.glob("runs/*/trace.jsonl"):
        times = [json.loads(line).get("at_s") for line in trace.read_text().splitlines()[1:]]
        assert times == sorted(times)
        assert not [*trace.parent.glob("checkpoints*")]


def test_the_session_writes_its_page_once_also_over_xdist(session: Session, pytester: pytest.Pytester) -> None:
    result = session("-n2")
    result.stdout.fnmatch_lines(["vnc-use: report in runs/index.html"])
    assert result.stdout.str().count("report in") == 1
    assert {each.worker for each in ended(pytester.path).values()} <= {"gw0", "gw1"}
    page = (pytester.path / "runs" / "index.html").read_text("utf-8")
    assert page.rindex("test_failed") < page.rindex("test_passed")
    assert len([*pytester.path.glob("runs/*/index.html")]) == 2
    assert "wonderland" not in page


@pytest.mark.parametrize(("mode", "kept"), [("retain-on-failure", ["test_failed"]), ("off", [])])
def test_pictures_are_kept_as_wanted(session: Session, pytester: pytest.Pytester, mode: str, kept: list[str]) -> None:
    session(f"--vnc-artifacts={mode}").assert_outcomes(passed=1, failed=1)
    with_pictures = [read_ended_test(path.parent) for path in pytester.path.glob("runs/*/screens")]
    assert [each.test.partition("::")[2] for each in with_pictures if each] == kept
    assert {name: each.pictures for name, each in ended(pytester.path).items()} == {
        name: "" if name in kept else f"not kept: --vnc-artifacts={mode}" for name in ("test_passed", "test_failed")
    }
    page = "".join(path.read_text("utf-8") for path in pytester.path.glob("runs/*/index.html"))
    assert f"not kept: --vnc-artifacts={mode}" in page


def test_an_attempt_has_its_number(session: Session, pytester: pytest.Pytester) -> None:
    require_package("pytest_rerunfailures")
    session("--reruns=1", "-k", "failed")
    found = [read_ended_test(path.parent) for path in sorted(pytester.path.glob("runs/*/trace.jsonl"))]
    assert [each.attempt for each in found if each] == [1, 2]


def test_a_full_folder_loses_the_oldest_passing_runs(session: Session, pytester: pytest.Pytester) -> None:
    session("-k", "passed")
    (old,) = pytester.path.glob("runs/*/result.json")
    (old.parent / "logs").mkdir(exist_ok=True)
    (old.parent / "logs" / "program.txt").write_bytes(bytes(3_000_000))
    result = session("-k", "failed", "-ovnc_max_megabytes=2")
    result.stdout.fnmatch_lines(["vnc-use: 1 run was removed, the oldest first: all runs had 3 MB of at most 2*"])
    assert not old.exists()
    assert [*ended(pytester.path)] == ["test_failed"]


def test_a_wrong_setting_is_a_usage_error(session: Session) -> None:
    result: Any = session("--vnc-artifacts=some")
    result.stderr.fnmatch_lines(["ERROR: --vnc-artifacts must be *, got 'some'"])


CRASH = """
import os, pytest

@pytest.mark.vnc_task("Click it", expect=None)
def test_crash(vnc_desktop):
    assert "press" in vnc_desktop.read_file("events.txt")
    os._exit(7)

@pytest.mark.vnc_task("Click it", expect=None)
def test_setup(vnc_desktop, broken):
    pass

@pytest.fixture
def broken():
    raise RuntimeError("no basket")

@pytest.mark.vnc_task("Click it", expect=None)
def test_passed(vnc_desktop):
    assert "press" in vnc_desktop.read_file("events.txt")
"""


def test_the_page_tells_a_worker_that_died_and_a_setup_that_broke(session: Session, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(CRASH)
    session("-n1")
    page = (pytester.path / "runs" / "index.html").read_text("utf-8")
    assert "2 of 3 tests did not pass" in page
    assert "crashed" in page
    assert "no basket" in page


def test_a_session_that_fails_before_any_run_replaces_the_page(session: Session, pytester: pytest.Pytester) -> None:
    session("-k", "passed")
    result = session("-k", "passed", "--vnc-app=no-such-program-here")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["vnc-use: report in runs/index.html"])
    assert "1 of 1 test did not pass" in (pytester.path / "runs" / "index.html").read_text("utf-8")


def test_a_test_that_passed_in_its_second_attempt_is_one_test(session: Session, pytester: pytest.Pytester) -> None:
    require_package("pytest_rerunfailures")
    pytester.makepyfile("""
        import pathlib, pytest

        @pytest.mark.vnc_task("Click it", expect=None)
        def test_flaky(vnc_desktop):
            assert "press" in vnc_desktop.read_file("events.txt")
            first = pathlib.Path("first")
            assert first.exists() or first.touch()
    """)
    session("--reruns=1", "-k", "flaky").assert_outcomes(passed=1)
    page = (pytester.path / "runs" / "index.html").read_text("utf-8")
    assert "1 test, none failed" in page
    assert "attempt 1: failed" in page


DIES_BEFORE = """
import os

def pytest_configure(config):
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Dies())

class Dies:
    def pytest_runtest_logstart(self, nodeid):
        if "passed" in nodeid:
            os._exit(7)
"""


def test_a_worker_that_died_before_its_test_began_is_told(session: Session, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(f"{PLANS}\n{DIES_BEFORE}")
    pytester.makepyfile(TESTS + "\ndef test_without_a_desktop():\n    pass\n")
    session("-n1")
    results = {test.test.partition("::")[2]: test for test in read_results(pytester.path / "runs" / FILE).tests}
    assert sorted(results) == ["test_failed", "test_passed"]
    lost = results["test_passed"]
    assert (lost.result, lost.triage, lost.runs) == ("error", "infra", ())
    assert "crashed" in lost.message
