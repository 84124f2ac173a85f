"""The results of several jobs as one: each test once, and what is missing is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vnc_use import cli
from pytest_vnc_use.report.reliability import reliabilities
from pytest_vnc_use.report.results import ItemResult, SessionResults, read_results, session_results, write_results
from pytest_vnc_use.report.sessions import merged


def part(
    *tests: ItemResult, started: str = "2026-01-01T03:00:00", ended: str = "2026-01-01T03:10:00"
) -> SessionResults:
    return session_results(started, "2026-01-01T03:10:00", tests)


PASSED, FAILED = ItemResult("t.py::test_a", "passed"), ItemResult("t.py::test_b", "failed", "product", dollars=0.5)


def test_tests_of_all_jobs_are_in_one() -> None:
    whole = merged({"1": part(PASSED), "2": part(FAILED, started="2026-01-01T02:00:00")})
    assert [test.test for test in whole.tests] == ["t.py::test_a", "t.py::test_b"]
    assert (whole.totals.tests, whole.totals.results, whole.totals.dollars) == (2, {"passed": 1, "failed": 1}, 0.5)
    assert (whole.started_at, whole.ended_at) == ("2026-01-01T02:00:00", "2026-01-01T03:10:00")
    assert whole.problems == ()


def test_test_in_two_jobs_is_there_once_and_told() -> None:
    bad = ItemResult("t.py::test_a", "error", "infra")
    for order in ({"1": part(PASSED), "2": part(bad)}, {"1": part(bad), "2": part(PASSED)}):
        whole = merged(order)
        assert whole.tests == (bad,)
        assert whole.problems == ("t.py::test_a is in 1 and in 2: each test must be in one of them",)


def test_repetitions_in_several_jobs_are_counted_together() -> None:
    one, two = (ItemResult(f"t.py::test_a[run{number}]", result) for number, result in ((1, "passed"), (2, "failed")))
    parts = {name: part(test) for name, test in (("1", one), ("2", two))}
    assert merged(parts).reliability == ()  # ids that only look like repetitions
    each = {name: SessionResults(**{**vars(p), "reliability": reliabilities(p.tests, 2)}) for name, p in parts.items()}
    (reliability,) = merged(each).reliability
    assert (reliability.repeated, reliability.passed) == (2, 1)


MERGE, ALL = ["report", "-o", "r", "--merge"], "r/vnc-results.json"


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the results of two jobs of three."""
    monkeypatch.chdir(tmp_path)
    for job, test in (("1", PASSED), ("3", ItemResult("t.py::test_c | `c`", "passed"))):
        write_results(Path("jobs", job, "runs", "vnc-results.json"), part(test))
    return tmp_path


def test_command_writes_one_file(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*MERGE, "jobs/1", "jobs/3"]) == 0
    assert capsys.readouterr().out == f"0 runs in r/index.html\n2 passed in 2 of 2 jobs: {ALL}\n"
    assert [test.test for test in read_results(Path(ALL)).tests] == [
        "t.py::test_a",
        "t.py::test_c | `c`",
    ]


def test_missing_job_is_told_by_its_name_or_its_number(
    jobs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    Path("jobs/2/runs").mkdir(parents=True)  # it was killed before its end
    assert cli.main([*MERGE, "jobs/1", "jobs/2", "jobs/3"]) == 1
    out = capsys.readouterr().out
    assert f"2 passed in 2 of 3 jobs: {ALL}\n" in out
    assert "'jobs/2' must have one vnc-results.json below it, it has none: its job did not end\n" in out
    assert "its job did not end" in read_results(Path(ALL)).problems[0]
    assert "its job did not end" in Path("summary.md").read_text()
    assert cli.main([*MERGE, "jobs/1", "jobs/3", "--jobs=4"]) == 1
    assert "2 of 4 jobs are missing\n" in capsys.readouterr().out


def test_job_named_twice_is_told(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*MERGE, "jobs/1", "jobs/1/runs"]) == 1
    assert "'jobs/1/runs' must be another job's, it has the results of 'jobs/1'\n" in capsys.readouterr().out
    assert cli.main([*MERGE, "jobs/1", "jobs/1"]) == 1
    out = capsys.readouterr().out
    assert "1 passed in 1 of 2 jobs" in out
    assert "'jobs/1' must be another job's" in out


def test_more_jobs_than_there_were_are_told(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*MERGE, "jobs/1", "jobs/3", "--jobs=1"]) == 1
    out = capsys.readouterr().out
    assert "2 passed in 2 of 2 jobs" in out
    assert "--jobs must be the number of all jobs, got 1 for 2 directories\n" in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["jobs/9"], "--merge needs a directory with results or runs, got 'jobs/9'"),
        (["jobs/1", "--jobs=none"], "--jobs must be a whole number from 1, got 'none'"),
    ],
)
def test_wrong_usage_is_told(jobs: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str) -> None:
    assert cli.main([*MERGE, *arguments]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert "Errno" not in error


def test_unwritable_job_summary_is_no_wrong_usage(
    jobs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "none/summary.md")
    assert cli.main([*MERGE, "jobs/1", "jobs/3"]) == 0
    assert "GITHUB_STEP_SUMMARY='none/summary.md', cannot be written: No such file" in capsys.readouterr().out
    assert Path(ALL).exists()


def test_failed_test_fails_command(jobs: Path) -> None:
    for bad in (FAILED, ItemResult("t.py::test_a", "crashed")):
        write_results(Path("jobs/1/runs/vnc-results.json"), part(bad))
        assert cli.main([*MERGE, "jobs/1", "jobs/3"]) == 1


def test_jobs_that_all_have_no_test_fail_command(
    jobs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    for job in ("8", "9"):
        write_results(Path("empty", job, "runs", "vnc-results.json"), part())
    assert cli.main([*MERGE, "empty/8", "empty/9"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "0 runs in r/index.html",
        f"no tests in 2 of 2 jobs: {ALL}",
        "at least one job must run a test on a desktop, none did",
    ]
    assert "at least one job must run a test" in Path("summary.md").read_text()
    assert cli.main([*MERGE, "jobs/1", "empty/8", "empty/9"]) == 0, "a job without a test is no error"
